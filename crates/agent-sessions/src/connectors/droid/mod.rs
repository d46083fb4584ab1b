//! Factory Droid: `~/.factory/sessions/<directory>/<session>.jsonl`, one record per line,
//! append-only, with `<session>.settings.json` beside it.
//!
//! Observed version: 0.215.0. Peculiarities: tokens are recorded as one sum per session, in the
//! settings; a fork repeats its origin's messages, but its sum begins with zero.
//! `docs/formats/droid.md` has the evidence.

mod content;
mod line;
mod reader;
mod settings;

use std::path::{Path, PathBuf};

use super::formats::files;
use super::{Agent, Checkpoint, Connector, Machine, Resume, Sink, Source};
use crate::error::Result;
use crate::model::{Session, SessionKind};

/// The connector for Factory Droid.
pub(super) struct Droid;

const AGENT: Agent = Agent {
    id: "droid",
    name: "Factory Droid",
    badge: "droid",
    aliases: &["factory", "factory-droid"],
    color: (234, 88, 12),
    key: "droid",
    variable: "AJ_DROID_PATH",
    shell_variables: &[],
    mcp: None,
};

impl Connector for Droid {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        vec![machine.home.join(".factory/sessions")]
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        let inner = root.join("sessions");
        let root = if files::is_dir(&inner) { inner } else { root.to_owned() };
        let is_session_file =
            |name: &str| Path::new(name).extension().is_some_and(|extension| extension == "jsonl");
        let mut sources = files::walk_files(&root, &is_session_file)?;
        for source in &mut sources {
            source.stamp = source.stamp.with_companion(&settings::settings_file(&source.path));
        }
        Ok(sources)
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        reader::read_droid_session(AGENT.id, &source.path, &start, sink)
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        let is_resumable = session.kind == SessionKind::Root;
        is_resumable.then(|| Resume::new("droid", ["--resume", &session.id.native]))
    }
}
