//! Hermes: `~/.hermes/state.db`, a SQLite database of all sessions, and before that files of
//! messages. Every profile has a home of its own, with the same files.
//!
//! Observed versions: 0.19, schema 22, and files of 2026-04 and 2026-05. Peculiarities: tokens are
//! recorded for a session as a whole, by model and task; a compaction copies the messages that it
//! keeps; files have local times. `docs/formats/hermes.md` has the evidence.

mod file;
mod message;
mod store;

use std::path::{Path, PathBuf};

use super::formats::{files, sqlite};
use super::{Agent, Checkpoint, Connector, Machine, Os, Resume, Sink, Source};
use crate::error::{Error, Result};
use crate::model::Session;

/// The connector for Hermes.
pub(super) struct Hermes;

const AGENT: Agent = Agent {
    id: "hermes",
    name: "Hermes",
    badge: "hermes",
    aliases: &["hermes-agent"],
    color: (202, 138, 4),
    key: "hermes",
    variable: "AJ_HERMES_PATH",
    shell_variables: &[],
    mcp: None,
};

/// Name of the database of a home.
const DATABASE: &str = "state.db";

/// Directory of a home with a file for each older session.
const SESSIONS: &str = "sessions";

/// Directory of the first home with a home for each profile.
const PROFILES: &str = "profiles";

impl Connector for Hermes {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    /// Lists the homes. The variable names the home of the profile in use, which is usually inside
    /// the first one.
    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let first = match machine.os {
            Os::Windows => machine
                .env_path("LOCALAPPDATA")
                .unwrap_or_else(|| machine.home.join("AppData/Local"))
                .join("hermes"),
            Os::Linux | Os::MacOs => machine.home.join(".hermes"),
        };
        match machine.env_path("HERMES_HOME") {
            Some(home) if !home.starts_with(&first) => vec![home],
            _ => vec![first],
        }
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        files::observed_listing(root).map_err(Error::read(root))?;
        let mut homes = vec![root.to_owned()];
        homes.extend(files::directory_entries(&root.join(PROFILES)).unwrap_or_default());
        let mut sources = Vec::new();
        for home in homes {
            sources.extend(sqlite::database_source(home.join(DATABASE)));
            let entries = files::directory_entries(&home.join(SESSIONS)).unwrap_or_default();
            let sessions = entries.into_iter().filter(|path| is_session_file(path));
            sources.extend(sessions.filter_map(files::source_from_file));
        }
        Ok(sources)
    }

    fn affected_sources(&self, root: &Path, changed: &Path) -> Option<Vec<Source>> {
        let name = changed.file_name()?.to_string_lossy();
        let folder = changed.parent()?;
        let home = if folder.ends_with(SESSIONS) { folder.parent()? } else { folder };
        let is_home = home == root || home.parent() == Some(&root.join(PROFILES));
        let is_database = name == DATABASE || name.strip_suffix("-wal") == Some(DATABASE);
        let source = match (is_home, home == folder) {
            (true, true) if is_database => sqlite::database_source(home.join(DATABASE)),
            (true, false) if is_session_file(changed) => {
                files::source_from_file(changed.to_owned())
            }
            _ => None,
        };
        Some(Vec::from_iter(source))
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        let path = &source.path;
        let extension = path.extension().unwrap_or_default();
        if extension == "jsonl" {
            return file::read_transcript(path, &start, sink);
        }
        if extension == "json" {
            file::read_snapshot(path, sink)?;
        } else {
            store::read_state_database(path, sink)?;
        }
        Ok(Checkpoint::default())
    }

    fn has_local_times(&self, source: &Path) -> bool {
        source.extension().is_some_and(|extension| extension != "db")
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        Some(Resume::new("hermes", ["--resume", &session.id.native]))
    }
}

/// Returns whether a file is a transcript, `<id>.jsonl`, or a snapshot of the messages that the
/// model sees, `session_<id>.json`.
fn is_session_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_snapshot = name.starts_with(file::SNAPSHOT) && name.ends_with(".json");
    is_snapshot || name.ends_with(".jsonl")
}
