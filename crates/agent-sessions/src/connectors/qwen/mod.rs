//! Qwen Code: `~/.qwen/projects/<slug>/chats/<session>.jsonl`, one JSON record per line,
//! append-only. Qwen Code began as a fork of Gemini CLI; early builds keep chats in that agent's
//! format below `tmp`.
//!
//! Observed versions: 0.14.0 to 0.14.2. Peculiarities: sub-agents without a transcript of their
//! own exist only in telemetry inside their parent's file, and that telemetry has most of the
//! tokens. `docs/formats/qwen.md` has the evidence.

mod line;
mod place;
mod reader;
mod system;
mod telemetry;

use std::path::{Path, PathBuf};

use super::formats::{chats, files};
use super::{
    Agent, Checkpoint, Connector, Machine, McpClient, McpConfigFormat, Resume, Sink, Source,
};
use crate::error::Result;
use crate::model::Session;

/// The connector for Qwen Code.
pub(super) struct Qwen;

const AGENT: Agent = Agent {
    id: "qwen",
    name: "Qwen Code",
    badge: "qwen",
    aliases: &["qwen-code"],
    color: (97, 92, 237),
    key: "qwen",
    variable: "AJ_QWEN_PATH",
    shell_variables: &["QWEN_CODE"],
    mcp: Some(McpClient {
        file: "~/.qwen/settings.json",
        add: Some("qwen mcp add --scope user NAME COMMAND"),
        introduces: "qwen",
        skills: Some(".qwen/skills"),
        shape: McpConfigFormat::McpServers,
    }),
};

impl Connector for Qwen {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let home = ["QWEN_RUNTIME_DIR", "QWEN_HOME"].iter().find_map(|name| machine.env_path(name));
        let home = home.unwrap_or_else(|| machine.home.join(".qwen"));
        vec![home.join("projects"), home.join("tmp")]
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        let parts = [root.join("projects"), root.join("tmp")];
        let mut sources = Vec::new();
        if !parts.iter().any(|part| files::is_dir(part)) {
            return list_project_sources(root);
        }
        for part in parts.iter().filter(|part| files::is_dir(part)) {
            sources.extend(list_project_sources(part)?);
        }
        Ok(sources)
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        if is_old_chat(&source.path) {
            chats::read_chat(&source.path, AGENT.id, sink)?;
            return Ok(Checkpoint::default());
        }
        reader::read_qwen_transcript(&source.path, &start, sink)
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        Some(Resume::new("qwen", ["--resume", chats::resumable_id(session)?]))
    }
}

/// Lists the chats and sub-agent transcripts in a directory of projects.
fn list_project_sources(root: &Path) -> Result<Vec<Source>> {
    let mut sources = chats::discover_chats(root)?;
    sources.retain(|source| is_old_chat(&source.path) || has_extension(&source.path, "jsonl"));
    let is_agent =
        |name: &str| name.starts_with("agent-") && has_extension(Path::new(name), "jsonl");
    let mut agents = files::walk_in(root, "subagents", &is_agent)?;
    for agent in &mut agents {
        agent.stamp = agent.stamp.with_companion(&agent.path.with_extension("meta.json"));
    }
    sources.append(&mut agents);
    Ok(sources)
}

/// Returns whether a file is a chat in the format of Gemini CLI, which early builds wrote.
fn is_old_chat(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("session-")
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension == wanted)
}
