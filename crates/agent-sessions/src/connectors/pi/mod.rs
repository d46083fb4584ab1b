//! The Pi family: agents that record sessions in the format of Pi, one JSON entry per line,
//! append-only. The entries of a session form a tree. Pi, oh-my-pi and Prime Agent keep a file for
//! each session; OpenClaw keeps the entries in a database.
//!
//! Observed versions: Pi of 2025-11 to 0.87, with headers of the versions 1 to 3, and the
//! documented format of Pi 1.5; OpenClaw 2026.9 with headers of version 4. Peculiarities: sessions
//! of version 1 have no ids; a branch that was left stays in the file; a fork copies entries with
//! their ids and times. `docs/formats/pi.md`, `omp.md`, `prime.md` and `openclaw.md` have the
//! evidence.

mod content;
mod line;
mod message;
mod openclaw;
mod place;
mod reader;
mod store;

use std::path::{Path, PathBuf};

use super::formats::files;
use super::{Agent, Checkpoint, Connector, Machine, Resume, Sink, Source};
use crate::error::Result;
use crate::model::Session;

pub(super) use self::openclaw::OpenClaw;

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

/// The connector for oh-my-pi.
pub(super) const OMP: PiFamily = PiFamily {
    agent: &Agent {
        id: "omp",
        name: "oh-my-pi",
        badge: "omp",
        aliases: &["oh-my-pi"],
        color: (190, 24, 93),
        key: "omp",
        variable: "AJ_OMP_PATH",
        shell_variables: &[],
        mcp: None,
    },
    roots: omp_roots,
    program: "omp",
    resume_argument: "--resume",
};

/// The connector for Prime Agent.
pub(super) const PRIME: PiFamily = PiFamily {
    agent: &Agent {
        id: "prime",
        name: "Prime Agent",
        badge: "prime",
        aliases: &["prime-agent"],
        color: (71, 85, 105),
        key: "prime",
        variable: "AJ_PRIME_PATH",
        shell_variables: &[],
        mcp: None,
    },
    roots: prime_roots,
    program: "prime-agent",
    resume_argument: "--resume",
};

/// Directory of oh-my-pi in which every profile has a directory of its own.
const PROFILES: &str = "profiles";

/// Directory in which Prime keeps the sessions of sub-agents, beside the directory of sessions.
const SESSION_ARTIFACTS: &str = "session-artifacts";

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
        let mut sources = files::walk_files(&sessions_directory(root), &is_session_file)?;
        sources.retain(|source| is_place_of_sessions(root, &source.path));
        Ok(sources)
    }

    fn affected_sources(&self, root: &Path, changed: &Path) -> Option<Vec<Source>> {
        let name = changed.file_name()?.to_string_lossy();
        let is_source = changed.starts_with(sessions_directory(root))
            && is_session_file(&name)
            && is_place_of_sessions(root, changed);
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

/// Lists the directories with sessions of oh-my-pi. `PI_CODING_AGENT_DIR` moves them too, but does
/// not say whether the sessions in it are Pi's; Pi has it first.
fn omp_roots(machine: &Machine) -> Vec<PathBuf> {
    let name = machine.env_var("PI_CONFIG_DIR").unwrap_or(".omp");
    let home = machine.home.join(name);
    let mut roots = vec![home.join("agent/sessions"), home.join(PROFILES)];
    if let Some(data) = machine.env_path("XDG_DATA_HOME") {
        roots.extend([data.join("omp/sessions"), data.join("omp").join(PROFILES)]);
    }
    roots
}

fn prime_roots(machine: &Machine) -> Vec<PathBuf> {
    let sessions = machine
        .env_path("PRIME_AGENT_SESSION_DIR")
        .or_else(|| machine.env_path("PRIME_AGENT_CODING_AGENT_SESSION_DIR"));
    let home = || machine.env_path("PRIME_AGENT_CODING_AGENT_DIR");
    let home = || home().unwrap_or_else(|| machine.home.join(".prime/agent"));
    let sessions = sessions.unwrap_or_else(|| home().join("sessions"));
    let artifacts = sessions.with_file_name(SESSION_ARTIFACTS);
    vec![sessions, artifacts]
}

/// Returns whether a file below a root may be a session. In the directory of profiles only some
/// directories hold sessions, and sub-agents of Prime are beside other files.
fn is_place_of_sessions(root: &Path, file: &Path) -> bool {
    let folder = file.parent().unwrap_or(Path::new(""));
    if root.ends_with(PROFILES) {
        return folder.components().any(|name| name.as_os_str() == "sessions");
    }
    !root.ends_with(SESSION_ARTIFACTS) || place::is_sub_agent_folder(folder)
}

/// Returns the directory with the sessions of a root, which may be a directory around it.
fn sessions_directory(root: &Path) -> PathBuf {
    let inner = INNER.iter().map(|inner| root.join(inner)).find(|inner| files::is_dir(inner));
    inner.unwrap_or_else(|| root.to_owned())
}

fn is_session_file(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "jsonl")
}
