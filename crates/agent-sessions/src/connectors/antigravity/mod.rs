//! Antigravity: the databases `conversations/<id>.db` below `~/.gemini/antigravity*`, and the
//! transcripts `brain/<id>/.system_generated/logs` of conversations without such a database.
//!
//! Described versions: the terminal program `agy` 1.0.9 to 1.2.16, and the editors of 2026.
//! Peculiarities: databases hold Protocol Buffers without a published schema; a fork copies steps
//! with their ids; conversations before 2026-06 are encrypted and have a transcript only.
//! `docs/formats/antigravity.md` has the evidence.

mod database;
mod generation;
mod place;
mod step;
mod transcript;

use std::path::{Path, PathBuf};

use super::formats::files;
use super::{Agent, Checkpoint, Connector, Machine, Resume, Sink, Source};
use crate::error::{Error, Result};
use crate::model::Session;

/// The connector for Antigravity.
pub(super) struct Antigravity;

const AGENT: Agent = Agent {
    id: "antigravity",
    name: "Antigravity",
    badge: "antigravity",
    aliases: &["agy"],
    color: (66, 133, 244),
    key: "antigravity",
    variable: "AJ_ANTIGRAVITY_PATH",
    shell_variables: &[],
    mcp: None,
};

/// The directory of the terminal program, the only one that accepts the id of a conversation.
const TERMINAL: &str = "antigravity-cli";

/// The directories of all programs, below the home that they share.
const PROGRAMS: [&str; 4] = ["antigravity", TERMINAL, "antigravity-ide", "antigravity-acp"];

impl Connector for Antigravity {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let home = machine.env_path("GEMINI_HOME");
        let home = home.unwrap_or_else(|| machine.home.join(".gemini"));
        PROGRAMS.iter().map(|program| home.join(program)).collect()
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        if files::is_regular_file(root) {
            return Ok(place::conversation_source(root.to_owned()).into_iter().collect());
        }
        files::observed_listing(root).map_err(Error::read(root))?;
        // The root is the directory of a program, or the home around several.
        let inner = PROGRAMS.iter().map(|program| root.join(program));
        let programs = std::iter::once(root.to_owned()).chain(inner);
        Ok(programs.flat_map(|program| place::list_conversations(&program)).collect())
    }

    fn read_source(
        &self,
        source: &Source,
        _: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        if place::is_database(&source.path) {
            database::read_conversation(&source.path, sink)?;
        } else {
            transcript::read_transcript(&source.path, sink)?;
        }
        Ok(Checkpoint::default())
    }

    fn resume_command(&self, session: &Session, source: &Path) -> Option<Resume> {
        let is_terminal = source.components().any(|part| part.as_os_str() == TERMINAL);
        let is_resumable = is_terminal && place::is_database(source);
        is_resumable.then(|| Resume::new("agy", ["--conversation", &session.id.native]))
    }
}
