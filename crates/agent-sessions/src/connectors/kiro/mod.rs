//! Kiro and its predecessor Amazon Q CLI. Three engines keep sessions in three formats: a database
//! of conversations, which both programs have; journals `sessions/cli/<id>.jsonl`; and event logs
//! `sessions/<workspace>/<id>/messages.jsonl`, which the terminal program and the editor write.
//!
//! Described versions: Amazon Q CLI 1.19 (source code), Kiro CLI 2.8 to 2.21, Kiro 1.0.
//! Peculiarities: a conversation is one document that is rewritten; replies in journals have no
//! times; no engine records tokens. `docs/formats/kiro.md` has the evidence.

mod conversation;
mod database;
mod event;
mod journal;
mod lines;
mod place;

use std::path::{Path, PathBuf};

use super::formats::files;
use super::{Agent, Checkpoint, Connector, Machine, Os, Resume, Sink, Source};
use crate::error::{Error, Result};
use crate::model::Session;

use place::KiroSource;

/// The connector for one agent of the family.
pub(super) struct KiroFamily {
    agent: &'static Agent,
    /// Returns the directories with sessions.
    roots: fn(&Machine) -> Vec<PathBuf>,
    /// Returns the command that continues a session in a source of this kind.
    resume: fn(KiroSource, &Session) -> Option<Resume>,
}

/// The connector for Kiro.
pub(super) const KIRO: KiroFamily = KiroFamily {
    agent: &Agent {
        id: "kiro",
        name: "Kiro",
        badge: "kiro",
        aliases: &["kiro-cli"],
        color: (124, 58, 237),
        key: "kiro",
        variable: "AJ_KIRO_PATH",
        shell_variables: &[],
        mcp: None,
    },
    roots: kiro_roots,
    resume: resume_kiro,
};

/// The connector for Amazon Q CLI.
pub(super) const AMAZON_Q: KiroFamily = KiroFamily {
    agent: &Agent {
        id: "amazon-q",
        name: "Amazon Q",
        badge: "amazon-q",
        aliases: &["q-cli"],
        color: (234, 88, 12),
        key: "amazon_q",
        variable: "AJ_AMAZON_Q_PATH",
        shell_variables: &[],
        mcp: None,
    },
    roots: |machine| local_data_directories(machine, "amazon-q"),
    resume: |_, _| Some(Resume::new("q", ["chat", "--resume"])),
};

impl Connector for KiroFamily {
    fn agent(&self) -> &'static Agent {
        self.agent
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        (self.roots)(machine)
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        if files::is_regular_file(root) {
            return Ok(place::source_with_metadata(root.to_owned()).into_iter().collect());
        }
        files::observed_listing(root).map_err(Error::read(root))?;
        Ok(place::list_sources(root))
    }

    fn affected_sources(&self, _: &Path, changed: &Path) -> Option<Vec<Source>> {
        let is_journal = KiroSource::of_path(changed) != KiroSource::Database;
        is_journal.then(|| place::sources_of_change(changed))
    }

    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        match KiroSource::of_path(&source.path) {
            KiroSource::Database => {
                database::read_conversations(self.agent.id, &source.path, sink)?;
                Ok(Checkpoint::default())
            }
            kind => lines::read_lines(self.agent.id, &source.path, kind, &start, sink),
        }
    }

    fn resume_command(&self, session: &Session, source: &Path) -> Option<Resume> {
        (self.resume)(KiroSource::of_path(source), session)
    }
}

fn kiro_roots(machine: &Machine) -> Vec<PathBuf> {
    let own = machine.home.join(".kiro");
    // The editor does not know the variable of the terminal program.
    let mut roots = vec![machine.env_path("KIRO_HOME").unwrap_or_else(|| own.clone()), own];
    roots.dedup();
    let mut roots: Vec<PathBuf> = roots.into_iter().map(|home| home.join("sessions")).collect();
    roots.extend(local_data_directories(machine, "kiro-cli"));
    roots
}

/// Returns the directories in which a program keeps its database.
fn local_data_directories(machine: &Machine, name: &str) -> Vec<PathBuf> {
    let home = &machine.home;
    let or = |variable: &str, place: &str| {
        machine.env_path(variable).unwrap_or_else(|| home.join(place))
    };
    let places = match machine.os {
        Os::Linux => vec![or("XDG_DATA_HOME", ".local/share")],
        Os::MacOs => vec![home.join("Library/Application Support")],
        Os::Windows => vec![or("LOCALAPPDATA", "AppData/Local"), or("APPDATA", "AppData/Roaming")],
    };
    places.into_iter().map(|place| place.join(name)).collect()
}

fn resume_kiro(kind: KiroSource, session: &Session) -> Option<Resume> {
    let id = session.id.native.as_str();
    match kind {
        // A directory can have several conversations, and only the latest can be continued.
        KiroSource::Database => None,
        KiroSource::Journal => Some(Resume::new("kiro-cli", ["--resume-id", id])),
        KiroSource::Events => Some(Resume::new("kiro-cli", ["--v3", "--resume-id", id])),
    }
}
