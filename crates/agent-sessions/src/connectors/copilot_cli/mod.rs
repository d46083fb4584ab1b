//! Copilot CLI: `~/.copilot/session-state/<session>/events.jsonl`, an append-only event log beside
//! `workspace.yaml`, checkpoints and a plan; `~/.copilot/session-store.db` for all sessions.
//!
//! Observed versions: 0.0.342 to 1.0.77. Older versions wrote the log as a flat file
//! (`<session>.jsonl`), the oldest ones a JSON document
//! (`history-session-state/session_<id>_<time>.json`). Peculiarities: a directory has no log before
//! the first prompt; the documented `~/.copilot-cli/sessions` was never found in practice.
//! `docs/formats/copilot-cli.md` has the evidence.

mod directory;
mod legacy;
mod yaml;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::formats::{copilot_events, copilot_store, files, sqlite};
use super::{
    Agent, Checkpoint, Connector, Machine, McpClient, McpConfigFormat, Record, Resume, Sink, Source,
};
use crate::error::{Error, Result};
use crate::model::Session;

/// The connector for Copilot CLI.
pub(super) struct CopilotCli;

pub(super) const AGENT: Agent = Agent {
    id: "copilot-cli",
    name: "Copilot CLI",
    badge: "copilot",
    aliases: &["cli", "copilot"],
    color: (37, 99, 235),
    key: "copilot_cli",
    variable: "AJ_COPILOT_PATH",
    // `COPILOT_AGENT_SESSION_ID` is passed to every command. Sources differ on `COPILOT_CLI`: it
    // is described as set for commands that the agent runs, but no session shows it. Redacting is
    // the safe choice wherever it is set.
    shell_variables: &["COPILOT_CLI", "COPILOT_AGENT_SESSION_ID"],
    mcp: Some(McpClient {
        file: "~/.copilot/mcp-config.json",
        add: None,
        introduces: "copilot",
        skills: Some(".copilot/skills"),
        shape: McpConfigFormat::Described,
    }),
};

const LOG: &str = "events.jsonl";
const STORE: &str = "session-store.db";
const SESSIONS: &str = "session-state";
const LEGACY: &str = "history-session-state";

/// The session directory named in the documentation.
const DOCUMENTED: &str = "sessions";

impl Connector for CopilotCli {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let mut roots: Vec<PathBuf> = machine.env_path("COPILOT_HOME").into_iter().collect();
        roots.push(machine.home.join(".copilot"));
        // Versions before 0.0.421 followed the XDG base directory conventions.
        let desktop = ["XDG_STATE_HOME", "XDG_CONFIG_HOME"];
        roots.extend(
            desktop
                .iter()
                .filter_map(|name| machine.env_path(name))
                .map(|path| path.join(".copilot")),
        );
        roots.push(machine.home.join(".copilot-cli"));
        let mut seen = HashSet::new();
        roots.retain(|root| seen.insert(root.clone()));
        roots
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        let home = agent_home(root);
        let mut sources = Vec::new();
        let mut is_home = false;
        for name in [SESSIONS, DOCUMENTED] {
            let sessions = home.join(name);
            if files::is_dir(&sessions) {
                is_home = true;
                add_sessions(&sessions, &mut sources)?;
            }
        }
        let legacy = home.join(LEGACY);
        if files::is_dir(&legacy) {
            is_home = true;
            sources.extend(files::walk_files(&legacy, &|name| {
                Path::new(name).extension().is_some_and(|kind| kind == "json")
            })?);
        }
        if let Some(store) = sqlite::database_source(home.join(STORE)) {
            is_home = true;
            sources.push(store);
        }
        if !is_home {
            add_sessions(home, &mut sources)?;
        }
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(sources)
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        let path = &source.path;
        let folder = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match path.extension().and_then(|extension| extension.to_str()) {
            _ if name == LOG => {
                let session = open_directory(folder, &start, sink)?;
                copilot_events::read_event_log(path, start, session, sink)
            }
            Some("jsonl") => {
                let native = path.file_stem().unwrap_or_default().to_string_lossy();
                copilot_events::read_event_log(path, start, Session::new(AGENT.id, native), sink)
            }
            Some("db") => copilot_store::read_session_store(path, AGENT.id, sink)
                .map(|()| Checkpoint::default()),
            Some("json") => {
                legacy::read_legacy_document(path, sink).map(|()| Checkpoint::default())
            }
            _ => {
                let mut session = open_directory(folder, &start, sink)?;
                directory::add_times(&mut session);
                sink.accept_record(Record::Session(Box::new(session)))?;
                Ok(Checkpoint::default())
            }
        }
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        // The value is optional: as a separate argument it could be parsed as a prompt.
        Some(Resume::new("copilot", [&format!("--resume={}", session.id.native)]))
    }
}

/// Reads the companion files of a log. Reports the files that could not be parsed once, on the
/// first read, and not again with every append to the log.
fn open_directory(folder: &Path, start: &Checkpoint, sink: &mut dyn Sink) -> Result<Session> {
    let directory::SessionDirectory { session, broken } = directory::read_session_directory(folder);
    if start.offset == 0 {
        broken
            .into_iter()
            .try_for_each(|reason| sink.accept_record(Record::unreadable_record(0, reason)))?;
    }
    Ok(session)
}

/// Returns the agent's home for a root that is the home itself or a session directory in it.
fn agent_home(root: &Path) -> &Path {
    let is_inside = root.ends_with(SESSIONS) || root.ends_with(LEGACY);
    root.parent().filter(|_| is_inside).unwrap_or(root)
}

/// Adds the sessions of a directory as sources: one directory each, or a flat log.
fn add_sessions(sessions: &Path, sources: &mut Vec<Source>) -> Result<()> {
    for entry in files::observed_listing(sessions).map_err(Error::read(sessions))?.flatten() {
        let path = entry.path();
        if files::is_dir(&path) {
            // Before the first prompt there is a workspace file and no log.
            let log = files::source_from_file(path.join(LOG));
            let found = log.or_else(|| files::source_from_file(path.join("workspace.yaml")));
            sources.extend(found.map(|source| Source {
                stamp: directory::stamp_with_companions(source.stamp, &path),
                ..source
            }));
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            sources.extend(files::source_from_file(path));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_may_be_the_home_or_the_sessions_in_it() {
        let check = |root: &str, expected: &str| {
            assert_eq!(agent_home(Path::new(root)), Path::new(expected), "{root}");
        };
        check("/h/.copilot", "/h/.copilot");
        check("/h/.copilot/session-state", "/h/.copilot");
        check("/h/.copilot/history-session-state", "/h/.copilot");
        check("/h/.copilot-cli/sessions", "/h/.copilot-cli/sessions");
    }

    #[test]
    fn every_home_the_agent_has_used_is_a_root_once() {
        let check = |env: &[(&str, &str)], expected: &[&str]| {
            let env = env.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            let machine = Machine { home: "/h".into(), env, ..Machine::default() };
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(CopilotCli.roots(&machine), expected);
        };
        check(&[], &["/h/.copilot", "/h/.copilot-cli"]);
        check(&[("COPILOT_HOME", "~/.copilot")], &["/h/.copilot", "/h/.copilot-cli"]);
        check(
            &[("COPILOT_HOME", "/ci"), ("XDG_STATE_HOME", "/s")],
            &["/ci", "/h/.copilot", "/s/.copilot", "/h/.copilot-cli"],
        );
    }
}
