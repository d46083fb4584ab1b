//! The Pi family: agents that record sessions in the format of Pi, one JSON entry per line,
//! append-only. The entries of a session form a tree.
//!
//! Observed versions: Pi of 2025-11 to 0.87, with headers of the versions 1 to 3, and the
//! documented format of Pi 1.5. Peculiarities: sessions of version 1 have no ids; a branch that was
//! left stays in the file; a fork copies entries with their ids and times.
//! `docs/formats/pi.md` has the evidence.

mod content;
mod line;
mod message;
mod place;
mod reader;

use std::path::{Path, PathBuf};

use super::formats::files;
use super::{Agent, Checkpoint, Connector, Machine, Resume, Sink, Source};
use crate::error::Result;
use crate::model::Session;

/// The connector for one agent of the family.
pub(super) struct PiFamily {
    agent: &'static Agent,
    /// Returns the directories with sessions.
    roots: fn(&Machine) -> Vec<PathBuf>,
    /// Name of the agent's program.
    program: &'static str,
    /// The argument before the id of a session to continue.
    resume_argument: &'static str,
}

/// The connector for Pi.
pub(super) const PI: PiFamily = PiFamily {
    agent: &Agent {
        id: "pi",
        name: "Pi",
        badge: "pi",
        aliases: &["pi-coding-agent"],
        color: (13, 148, 136),
        key: "pi",
        variable: "AJ_PI_PATH",
        shell_variables: &["PI_SESSION_ID"],
        mcp: None,
    },
    roots: pi_roots,
    program: "pi",
    resume_argument: "--session",
};

/// Directories inside a configured root that hold the sessions.
const INNER: &[&str] = &["agent/sessions", "sessions"];

impl Connector for PiFamily {
    fn agent(&self) -> &'static Agent {
        self.agent
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        (self.roots)(machine)
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        files::walk_files(&sessions_directory(root), &is_session_file)
    }

    fn affected_sources(&self, root: &Path, changed: &Path) -> Option<Vec<Source>> {
        let name = changed.file_name()?.to_string_lossy();
        let is_source = changed.starts_with(sessions_directory(root)) && is_session_file(&name);
        let source = is_source.then(|| files::source_from_file(changed.to_owned())).flatten();
        Some(Vec::from_iter(source))
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        reader::read_session_file(self.agent.id, &source.path, &start, sink)
    }

    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        let id = place::agents_own_id(&session.id.native);
        Some(Resume::new(self.program, [self.resume_argument, id]))
    }
}

fn pi_roots(machine: &Machine) -> Vec<PathBuf> {
    let sessions = machine.env_path("PI_CODING_AGENT_SESSION_DIR");
    let home = || machine.env_path("PI_CODING_AGENT_DIR");
    let home = || home().unwrap_or_else(|| machine.home.join(".pi/agent"));
    vec![sessions.unwrap_or_else(|| home().join("sessions"))]
}

/// Returns the directory with the sessions of a root, which may be a directory around it.
fn sessions_directory(root: &Path) -> PathBuf {
    let inner = INNER.iter().map(|inner| root.join(inner)).find(|inner| files::is_dir(inner));
    inner.unwrap_or_else(|| root.to_owned())
}

fn is_session_file(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "jsonl")
}
