//! Gemini CLI: `~/.gemini/tmp/<project>/chats/session-<minute>-<id>.json` or `.jsonl`.
//!
//! Documents of 2025-09 to 2026-04 and logs of 2026-04 to 2026-08 were seen. Odd: a log takes
//! back what it said, several files may carry one session id, a call and its result are one
//! record, and neither directory, branch nor version is recorded: the directory is found by the
//! project's name or by the hash of its path. `docs/formats/gemini.md` has the evidence.

use std::path::{Path, PathBuf};

use super::formats::{chats, files};
use super::{Agent, Checkpoint, Connector, Machine, McpClient, Resume, Shape, Sink, Source};
use crate::error::Result;
use crate::model::Session;

/// The connector.
pub(super) struct Gemini;

const AGENT: Agent = Agent {
    id: "gemini",
    name: "Gemini CLI",
    badge: "gemini",
    aliases: &["gemini-cli"],
    color: (2, 132, 199),
    key: "gemini",
    variable: "AJ_GEMINI_PATH",
    shell_variables: &["GEMINI_CLI"],
    mcp: Some(McpClient {
        file: ".gemini/settings.json",
        add: Some("gemini mcp add --scope user NAME COMMAND"),
        introduces: "gemini",
        skills: Some(".gemini/skills"),
        shape: Shape::McpServers,
    }),
};

impl Connector for Gemini {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let home = machine.path("GEMINI_CLI_HOME").unwrap_or_else(|| machine.home.clone());
        vec![home.join(".gemini/tmp")]
    }

    fn discover(&self, root: &Path) -> Result<Vec<Source>> {
        // The agent's home, or the directory of projects in it.
        let projects = root.join("tmp");
        chats::discover(if files::is_dir(&projects) { &projects } else { root })
    }

    fn read(&self, source: &Source, _: Checkpoint, sink: &mut dyn Sink) -> Result<Checkpoint> {
        chats::read(&source.path, AGENT.id, sink)?;
        Ok(Checkpoint::default())
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        Some(Resume::new("gemini", ["--resume", chats::resumable(session)?]))
    }
}
