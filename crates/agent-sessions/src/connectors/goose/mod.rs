//! Goose: `sessions/sessions.db`, a SQLite database of all sessions, and before that a file for
//! each session.
//!
//! Observed versions: schemas 9 and 13 of the database (1.34). Peculiarities: tokens are recorded
//! for a session as a whole, and the input includes what was read from a cache; a session's id is
//! unique only on its machine. `docs/formats/goose.md` has the evidence.

mod file;
mod message;
mod store;

use std::path::{Path, PathBuf};

use super::formats::{files, sqlite};
use super::{Agent, Checkpoint, Connector, Machine, Os, Resume, Sink, Source};
use crate::error::{Error, Result};
use crate::model::Session;

/// The connector for Goose.
pub(super) struct Goose;

const AGENT: Agent = Agent {
    id: "goose",
    name: "Goose",
    badge: "goose",
    aliases: &[],
    color: (82, 82, 91),
    key: "goose",
    variable: "AJ_GOOSE_PATH",
    shell_variables: &["GOOSE_TERMINAL"],
    mcp: None,
};

/// Name of the database.
const DATABASE: &str = "sessions.db";

/// Directories inside a configured root that hold the database and the older files.
const INNER: &[&str] = &["data/sessions", "sessions"];

impl Connector for Goose {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        if let Some(root) = machine.env_path("GOOSE_PATH_ROOT") {
            return vec![root.join("data/sessions")];
        }
        let data = match machine.os {
            Os::Windows => machine
                .env_path("APPDATA")
                .unwrap_or_else(|| machine.home.join("AppData/Roaming"))
                .join("Block/goose/data"),
            Os::Linux | Os::MacOs => machine
                .env_path("XDG_DATA_HOME")
                .unwrap_or_else(|| machine.home.join(".local/share"))
                .join("goose"),
        };
        vec![data.join("sessions")]
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        let directory = sessions_directory(root);
        let mut sources = Vec::from_iter(sqlite::database_source(directory.join(DATABASE)));
        let entries = files::directory_entries(&directory).map_err(Error::read(&directory))?;
        let transcripts = entries.into_iter().filter(|path| is_transcript(path));
        sources.extend(transcripts.filter_map(files::source_from_file));
        Ok(sources)
    }

    fn affected_sources(&self, root: &Path, changed: &Path) -> Option<Vec<Source>> {
        let directory = sessions_directory(root);
        if changed.parent() != Some(&directory) {
            return Some(Vec::new());
        }
        let name = changed.file_name()?.to_string_lossy();
        let source = if name == DATABASE || name.strip_suffix("-wal") == Some(DATABASE) {
            sqlite::database_source(directory.join(DATABASE))
        } else {
            Some(changed.to_owned())
                .filter(|path| is_transcript(path))
                .and_then(files::source_from_file)
        };
        Some(Vec::from_iter(source))
    }

    fn read_source(
        &self,
        source: &Source,
        _: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        if is_transcript(&source.path) {
            file::read_session_file(&source.path, sink)?;
        } else {
            store::read_session_database(&source.path, sink)?;
        }
        Ok(Checkpoint::default())
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        let id = agents_own_id(&session.id.native);
        Some(Resume::new("goose", ["session", "--resume", "--session-id", id]))
    }
}

/// Returns the directory with the sessions of a root, which may be a directory around it.
fn sessions_directory(root: &Path) -> PathBuf {
    let inner = INNER.iter().map(|inner| root.join(inner)).find(|inner| files::is_dir(inner));
    inner.unwrap_or_else(|| root.to_owned())
}

fn is_transcript(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

/// Returns a globally unique id. The program counts the sessions of a day (`20260401_3`), so that
/// the time of the session's creation tells those of several machines apart. Older sessions are
/// named by their time.
fn unique_id(id: &str, created_at: Option<&str>) -> String {
    let is_counted = id.split_once('_').is_some_and(|(day, count)| {
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        day.len() == 8 && count.len() < 6 && is_number(day) && is_number(count)
    });
    match created_at {
        Some(time) if is_counted => {
            let digits: String = time.chars().filter(char::is_ascii_digit).take(14).collect();
            format!("{id}@{digits}")
        }
        _ => id.to_owned(),
    }
}

/// Returns the id under which the agent itself knows a session.
fn agents_own_id(native: &str) -> &str {
    native.split_once('@').map_or(native, |(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_ids_are_told_apart_by_the_time_of_the_session() {
        let created = Some("2026-04-01 10:20:30");
        assert_eq!(unique_id("20260401_3", created), "20260401_3@20260401102030");
        assert_eq!(unique_id("20260401_3", None), "20260401_3");
        assert_eq!(unique_id("20250401_102030", created), "20250401_102030");
        assert_eq!(unique_id("kiln", created), "kiln");
        assert_eq!(agents_own_id("20260401_3@20260401102030"), "20260401_3");
    }
}
