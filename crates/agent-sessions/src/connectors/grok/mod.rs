//! Grok Build: `~/.grok/sessions/<directory>/<session>/updates.jsonl`, one update per line,
//! append-only, with `summary.json` beside it.
//!
//! Observed version: 1.0.41. Peculiarities: tokens are recorded as the sum of each turn, which
//! includes the calls of sub-agents; a reply is recorded in chunks; the bytes of a command's output
//! are a list of numbers. `docs/formats/grok.md` has the evidence.

mod line;
mod output;
mod reader;
mod summary;
mod usage;

use std::path::{Path, PathBuf};

use super::formats::files;
use super::{Agent, Checkpoint, Connector, Machine, Resume, Sink, Source};
use crate::error::Result;
use crate::model::{Session, SessionKind};

/// The connector for Grok Build.
pub(super) struct Grok;

const AGENT: Agent = Agent {
    id: "grok",
    name: "Grok Build",
    badge: "grok",
    aliases: &["grok-build"],
    color: (82, 82, 91),
    key: "grok",
    variable: "AJ_GROK_PATH",
    shell_variables: &["GROK_AGENT"],
    mcp: None,
};

/// Name of the file with the updates of a session.
const UPDATES: &str = "updates.jsonl";

/// Number of directories between the root and the file of a session.
const DEPTH: usize = 3;

impl Connector for Grok {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let home = machine.env_path("GROK_HOME").unwrap_or_else(|| machine.home.join(".grok"));
        vec![home.join("sessions")]
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        let inner = root.join("sessions");
        let root = if files::is_dir(&inner) { inner } else { root.to_owned() };
        let mut sources = files::walk_files(&root, &|name| name == UPDATES)?;
        // The directory of a session has copies and parts of its sub-agents.
        sources.retain(|source| {
            source.path.strip_prefix(&root).is_ok_and(|path| path.iter().count() == DEPTH)
        });
        for source in &mut sources {
            source.stamp = source.stamp.with_companion(&summary::summary_file(&source.path));
        }
        Ok(sources)
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        reader::read_updates(AGENT.id, &source.path, &start, sink)
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        let is_resumable = session.kind == SessionKind::Root;
        is_resumable.then(|| Resume::new("grok", ["--resume", &session.id.native]))
    }
}
