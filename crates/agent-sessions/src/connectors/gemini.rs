//! Gemini CLI: `~/.gemini/tmp/<project>/chats/session-<minute>-<id>.json` or `.jsonl`.
//!
//! Seen: documents of 2025-09 to 2026-04 and logs of 2026-04 to 2026-08. Peculiarities: a log can
//! retract earlier records; several files can have one session id; a call and its result are one
//! record; directory, branch and version are not recorded, so the directory is derived from the
//! project's name or from the hash of its path. `docs/formats/gemini.md` has the evidence.

use std::path::{Path, PathBuf};

use super::formats::{chats, files};
use super::{
    Agent, Checkpoint, Connector, Machine, McpClient, McpConfigFormat, Resume, Sink, Source,
};
use crate::error::Result;
use crate::model::Session;

/// The Gemini CLI connector.
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
        file: "~/.gemini/settings.json",
        add: Some("gemini mcp add --scope user NAME COMMAND"),
        introduces: "gemini",
        skills: Some(".gemini/skills"),
        shape: McpConfigFormat::McpServers,
    }),
};

impl Connector for Gemini {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let home = machine.env_path("GEMINI_CLI_HOME").unwrap_or_else(|| machine.home.clone());
        vec![home.join(".gemini/tmp")]
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        // The root is the agent's home, or the directory of projects inside it.
        let projects = root.join("tmp");
        chats::discover_chats(if files::is_dir(&projects) { &projects } else { root })
    }

    fn read_source(
        &self,
        source: &Source,
        _: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        chats::read_chat(&source.path, AGENT.id, sink)?;
        Ok(Checkpoint::default())
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        Some(Resume::new("gemini", ["--resume", chats::resumable_id(session)?]))
    }
}
