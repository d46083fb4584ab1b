//! `OpenHands`: the conversations of its terminal program, one directory each, with a state that is
//! rewritten and one file for each event.
//!
//! Described versions: program 1.16 with SDK 1.58, source code of 2026-11. Peculiarities: times are
//! local, without a zone; figures of model calls stand in the state, by the id of the response.
//! `docs/formats/openhands.md` has the evidence.

mod event;
mod reader;
mod state;

use std::path::{Path, PathBuf};

use super::formats::files;
use super::{Agent, Checkpoint, Connector, Machine, Resume, Sink, Source};
use crate::error::{Error, Result};
use crate::model::Session;

/// The connector for `OpenHands`.
pub(super) struct OpenHands;

const AGENT: Agent = Agent {
    id: "openhands",
    name: "OpenHands",
    badge: "openhands",
    aliases: &[],
    color: (202, 138, 4),
    key: "openhands",
    variable: "AJ_OPENHANDS_PATH",
    shell_variables: &[],
    mcp: None,
};

/// The state of a conversation, and the directory with its events.
const STATE: &str = "base_state.json";
const EVENTS: &str = "events";

/// The directory with the conversations of sub-agents, in that of their parent.
const SUB_AGENTS: &str = "subagents";

impl Connector for OpenHands {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let home = machine.env_path("OPENHANDS_PERSISTENCE_DIR");
        let home = home.unwrap_or_else(|| machine.home.join(".openhands"));
        let conversations = machine.env_path("OPENHANDS_CONVERSATIONS_DIR");
        vec![conversations.unwrap_or_else(|| home.join("conversations"))]
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        if files::is_regular_file(root) {
            return Ok(conversation_source(root.to_owned()).into_iter().collect());
        }
        files::observed_listing(root).map_err(Error::read(root))?;
        // The root is the directory of all conversations, one around it, or one conversation.
        let inner = root.join("conversations");
        let place = if files::is_dir(&inner) { inner } else { root.to_owned() };
        let mut conversations = vec![place.clone()];
        conversations.extend(files::directory_entries(&place).unwrap_or_default());
        let mut states = Vec::new();
        for conversation in conversations {
            let sub_agents = conversation.join(SUB_AGENTS);
            states.push(conversation.join(STATE));
            if files::is_dir(&sub_agents) {
                let entries = files::directory_entries(&sub_agents).unwrap_or_default();
                states.extend(entries.into_iter().map(|entry| entry.join(STATE)));
            }
        }
        Ok(states.into_iter().filter_map(conversation_source).collect())
    }

    fn read_source(
        &self,
        source: &Source,
        _: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        reader::read_conversation(&source.path, sink)?;
        Ok(Checkpoint::default())
    }

    fn has_local_times(&self, _: &Path) -> bool {
        true
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        Some(Resume::new("openhands", ["--resume", &session.id.native]))
    }
}

/// Creates a source whose stamp includes the directory of events, which changes with every event.
fn conversation_source(path: PathBuf) -> Option<Source> {
    let mut source = files::source_from_file(path)?;
    source.stamp = source.stamp.with_companion(&source.path.with_file_name(EVENTS));
    Some(source)
}
