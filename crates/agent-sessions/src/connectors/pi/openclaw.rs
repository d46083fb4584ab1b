//! OpenClaw: `~/.openclaw/agents/<agent>/`, in a database since 2026.8, before that in a file for
//! each session. The files of deleted sessions remain, compressed or not.

use std::path::{Path, PathBuf};

use super::{reader, store};
use crate::connectors::formats::{files, sqlite};
use crate::connectors::{Agent, Checkpoint, Connector, Machine, Resume, Sink, Source};
use crate::error::Result;
use crate::model::Session;

/// The connector for OpenClaw.
pub(in crate::connectors) struct OpenClaw;

const AGENT: Agent = Agent {
    id: "openclaw",
    name: "OpenClaw",
    badge: "claw",
    aliases: &["clawdbot"],
    color: (220, 38, 38),
    key: "openclaw",
    variable: "AJ_OPENCLAW_PATH",
    shell_variables: &["OPENCLAW_SHELL"],
    mcp: None,
};

/// Name of the database of one of OpenClaw's agents.
const DATABASE: &str = "openclaw-agent.sqlite";

/// Directory below a state directory with one directory for each of OpenClaw's agents.
const AGENTS: &str = "agents";

/// Parts of the names of files that repeat a session, describe its runs or lock it.
const NO_SESSIONS: &[&str] = &[".trajectory.", ".checkpoint.", ".lock"];

impl Connector for OpenClaw {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        if let Some(state) = machine.env_path("OPENCLAW_STATE_DIR") {
            return vec![state.join(AGENTS)];
        }
        let home = machine.env_path("OPENCLAW_HOME").unwrap_or_else(|| machine.home.clone());
        let mut names = vec![".openclaw".to_owned(), ".clawdbot".to_owned()];
        names.extend(machine.env_var("OPENCLAW_PROFILE").map(|name| format!(".openclaw-{name}")));
        names.into_iter().map(|name| home.join(name).join(AGENTS)).collect()
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        let found = files::walk_files(&agents_directory(root), &is_source)?;
        Ok(found.into_iter().filter_map(|source| source_of_file(source.path)).collect())
    }

    fn affected_sources(&self, root: &Path, changed: &Path) -> Option<Vec<Source>> {
        let name = changed.file_name()?.to_string_lossy();
        let is_log = name.strip_suffix("-wal").is_some_and(|name| name == DATABASE);
        let source = if is_log { changed.with_file_name(DATABASE) } else { changed.to_owned() };
        let is_source = changed.starts_with(agents_directory(root)) && (is_log || is_source(&name));
        Some(Vec::from_iter(is_source.then(|| source_of_file(source)).flatten()))
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        if !source.path.ends_with(DATABASE) {
            return reader::read_session_file(AGENT.id, &source.path, &start, sink);
        }
        store::read_agent_database(AGENT.id, &source.path, sink)?;
        Ok(Checkpoint::default())
    }

    /// Returns a command for the sessions in databases, which name the key of their conversation.
    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        let key: String = session.extensions.get(store::SESSION_KEY)?.parse_as()?;
        Some(Resume::new("openclaw", ["tui", "--session", &key]))
    }
}

/// Returns the directory of OpenClaw's agents at or below a root.
fn agents_directory(root: &Path) -> PathBuf {
    let inner = root.join(AGENTS);
    if files::is_dir(&inner) { inner } else { root.to_owned() }
}

/// Returns a file as a source. A change of a database's log counts as a change.
fn source_of_file(path: PathBuf) -> Option<Source> {
    if path.ends_with(DATABASE) {
        return sqlite::database_source(path);
    }
    let is_session = path.parent().is_some_and(|folder| folder.ends_with("sessions"));
    is_session.then(|| files::source_from_file(path)).flatten()
}

/// Returns whether a file name is that of a database or of a session. The program appends the
/// reason and the time to the name of a session that it put aside, and `.zst` if it compressed it.
fn is_source(name: &str) -> bool {
    let is_session = name.contains(".jsonl");
    name == DATABASE || is_session && !NO_SESSIONS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_told_from_the_files_beside_them() {
        let check = |name: &str, expected: bool| assert_eq!(is_source(name), expected, "{name}");
        check("openclaw-agent.sqlite", true);
        check("openclaw-agent.sqlite-wal", false);
        check("openclaw-agent.sqlite.reindex-lock.sqlite", false);
        check("s1.jsonl", true);
        check("s1.jsonl.reset.2026-05-01T10-00-00.000Z", true);
        check("s1.jsonl.deleted.2026-05-01T10-00-00.000Z.zst", true);
        check("s1.jsonl.lock", false);
        check("s1.trajectory.jsonl", false);
        check("s1.checkpoint.01a1e900-0001-7000-8000-000000000009.jsonl", false);
        check("sessions.json", false);
    }
}
