//! Copilot CLI: `~/.copilot/session-state/<session>/events.jsonl`, a log of events, append-only,
//! beside `workspace.yaml`, checkpoints and a plan; `~/.copilot/session-store.db` over all
//! sessions.
//!
//! Versions 0.0.342 to 1.0.77 were seen. Older ones wrote the log flat (`<session>.jsonl`), the
//! oldest one JSON document (`history-session-state/session_<id>_<time>.json`). Odd: a directory
//! has no log before the first prompt; the documented `~/.copilot-cli/sessions` was never found
//! in the wild. `docs/formats/copilot-cli.md` has the evidence.

mod directory;
mod legacy;
mod yaml;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::formats::{copilot_events, copilot_store, files, sqlite};
use super::{
    Agent, Checkpoint, Connector, Machine, McpClient, Record, Resume, Shape, Sink, Source,
};
use crate::error::{Error, Result};
use crate::model::Session;

/// The connector.
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
    // is described as set for commands that the agent runs, and no recording shows it. Where it is
    // set, redacting is the safe side.
    shell_variables: &["COPILOT_CLI", "COPILOT_AGENT_SESSION_ID"],
    mcp: Some(McpClient {
        file: ".copilot/mcp-config.json",
        add: None,
        introduces: "copilot",
        skills: Some(".copilot/skills"),
        shape: Shape::Described,
    }),
};

const LOG: &str = "events.jsonl";
const STORE: &str = "session-store.db";
const SESSIONS: &str = "session-state";
const LEGACY: &str = "history-session-state";

/// The sessions' directory as it is documented.
const DOCUMENTED: &str = "sessions";

impl Connector for CopilotCli {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let mut roots: Vec<PathBuf> = machine.path("COPILOT_HOME").into_iter().collect();
        roots.push(machine.home.join(".copilot"));
        // Versions before 0.0.421 followed the desktop's conventions.
        let desktop = ["XDG_STATE_HOME", "XDG_CONFIG_HOME"];
        roots.extend(
            desktop.iter().filter_map(|name| machine.path(name)).map(|path| path.join(".copilot")),
        );
        roots.push(machine.home.join(".copilot-cli"));
        let mut seen = HashSet::new();
        roots.retain(|root| seen.insert(root.clone()));
        roots
    }

    fn discover(&self, root: &Path) -> Result<Vec<Source>> {
        let home = home(root);
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
            sources.extend(files::walk(&legacy, &|name| {
                Path::new(name).extension().is_some_and(|kind| kind == "json")
            })?);
        }
        if let Some(store) = sqlite::source(home.join(STORE)) {
            is_home = true;
            sources.push(store);
        }
        if !is_home {
            add_sessions(home, &mut sources)?;
        }
        sources.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(sources)
    }

    fn read(&self, source: &Source, start: Checkpoint, sink: &mut dyn Sink) -> Result<Checkpoint> {
        let path = &source.path;
        let folder = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match path.extension().and_then(|extension| extension.to_str()) {
            _ if name == LOG => {
                let session = open_directory(folder, &start, sink)?;
                copilot_events::read(path, start, session, sink)
            }
            Some("jsonl") => {
                let native = path.file_stem().unwrap_or_default().to_string_lossy();
                copilot_events::read(path, start, Session::new(AGENT.id, native), sink)
            }
            Some("db") => copilot_store::read(path, AGENT.id, sink).map(|()| Checkpoint::default()),
            Some("json") => legacy::read(path, sink).map(|()| Checkpoint::default()),
            _ => {
                let mut session = open_directory(folder, &start, sink)?;
                directory::add_times(&mut session);
                sink.accept(Record::Session(Box::new(session)))?;
                Ok(Checkpoint::default())
            }
        }
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        // The value is optional: as a word of its own it could be taken for a prompt.
        Some(Resume::new("copilot", [&format!("--resume={}", session.id.native)]))
    }
}

/// Reads what lies beside a log, and counts what could not be understood: once, not again with
/// every piece that is appended to the log.
fn open_directory(folder: &Path, start: &Checkpoint, sink: &mut dyn Sink) -> Result<Session> {
    let directory::SessionDirectory { session, broken } = directory::read(folder);
    if start.offset == 0 {
        broken.into_iter().try_for_each(|reason| sink.accept(Record::bad(0, reason)))?;
    }
    Ok(session)
}

/// Accepts the agent's home or the sessions' directory in it.
fn home(root: &Path) -> &Path {
    let is_inside = root.ends_with(SESSIONS) || root.ends_with(LEGACY);
    root.parent().filter(|_| is_inside).unwrap_or(root)
}

/// Finds the sessions in a directory: a directory for each, or a flat log.
fn add_sessions(sessions: &Path, sources: &mut Vec<Source>) -> Result<()> {
    for entry in files::list(sessions).map_err(Error::read(sessions))?.flatten() {
        let path = entry.path();
        if files::is_dir(&path) {
            // Before the first prompt there is a workspace and no log.
            let log = files::source(path.join(LOG));
            let found = log.or_else(|| files::source(path.join("workspace.yaml")));
            sources.extend(
                found.map(|source| Source {
                    stamp: directory::stamp(source.stamp, &path),
                    ..source
                }),
            );
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            sources.extend(files::source(path));
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
            assert_eq!(home(Path::new(root)), Path::new(expected), "{root}");
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
