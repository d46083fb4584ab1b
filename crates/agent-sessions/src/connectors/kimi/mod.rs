//! Kimi Code, and Kimi CLI before it: `wire.jsonl`, one record per line, append-only, in the
//! directory of each session and of each of its sub-agents.
//!
//! Observed versions: Kimi Code 2.1 (wire protocol 1.5) and Kimi CLI of 2026-03 (wire protocol
//! 1.3). Peculiarities: a reply is recorded in parts, from the beginning of a step to its end;
//! Kimi Code records every message and every usage twice; a fork copies whole files.
//! `docs/formats/kimi.md` has the evidence.

mod about;
mod cli;
mod code;
mod content;
mod line;
mod place;
mod reader;

use std::path::{Path, PathBuf};

use self::place::KimiPlace;
use super::formats::files;
use super::{Agent, Checkpoint, Connector, Machine, Resume, Sink, Source};
use crate::error::Result;
use crate::model::{Session, SessionKind};

/// The connector for Kimi Code and Kimi CLI.
pub(super) struct Kimi;

const AGENT: Agent = Agent {
    id: "kimi",
    name: "Kimi Code",
    badge: "kimi",
    aliases: &["kimi-code", "kimi-cli"],
    color: (79, 70, 229),
    key: "kimi",
    variable: "AJ_KIMI_PATH",
    shell_variables: &[],
    mcp: None,
};

impl Connector for Kimi {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let home = |variable: &str, name: &str| {
            machine.env_path(variable).unwrap_or_else(|| machine.home.join(name))
        };
        let homes = [home("KIMI_CODE_HOME", ".kimi-code"), home("KIMI_SHARE_DIR", ".kimi")];
        homes.map(|home| home.join("sessions")).into()
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        let mut sources = files::walk_files(&sessions_directory(root), &place::is_record_name)?;
        let has_records =
            |path: &Path| sources.iter().any(|one| one.path == path && one.stamp.size > 0);
        let is_source: Vec<bool> = sources
            .iter()
            .map(|source| source.stamp.size > 0 && KimiPlace::is_source(&source.path, has_records))
            .collect();
        let mut is_source = is_source.into_iter();
        sources.retain(|_| is_source.next() == Some(true));
        for source in &mut sources {
            let state = KimiPlace::from_record_path(&source.path).state_file();
            source.stamp = source.stamp.with_companion(&state);
        }
        Ok(sources)
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        reader::read_wire_file(AGENT.id, &source.path, &start, sink)
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        let is_resumable = session.kind == SessionKind::Root;
        is_resumable.then(|| Resume::new("kimi", ["--session", &session.id.native]))
    }
}

/// Returns the directory with the sessions of a root, which may be the directory around it.
fn sessions_directory(root: &Path) -> PathBuf {
    let inner = root.join("sessions");
    if files::is_dir(&inner) { inner } else { root.to_owned() }
}
