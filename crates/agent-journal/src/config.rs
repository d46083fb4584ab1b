//! Settings of a journal that the caller chooses.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::tz::TimeZone;

use crate::connectors::Machine;
use crate::connectors::formats::jsonl::MAX_LINE;
use crate::home_kind::HomeKind;
use crate::rate::Rate;

/// Settings of a journal. The program fills them from its settings file, the environment and flags.
#[derive(Clone, Debug)]
pub struct Config {
    /// Directory of the journal's database.
    pub journal_dir: PathBuf,
    /// Directory of the indexes, which can be rebuilt from the journal at any time.
    pub index_dir: PathBuf,
    /// Roots that replace the default roots of an agent, by agent id.
    pub sources: BTreeMap<String, Vec<PathBuf>>,
    /// Memory of the index writer in MiB.
    pub writer_memory_mb: usize,
    /// Maximum length of a line in a session file, in bytes; longer lines are skipped.
    pub max_line_bytes: usize,
    /// Whether the model's reasoning is indexed.
    pub include_thinking: bool,
    /// Prices that the user set, by model.
    pub prices: BTreeMap<String, Rate>,
    /// Additional home directories to read.
    pub homes: Vec<Home>,
    /// Time zone of agents that record local times.
    pub zone: TimeZone,
    /// Settings of search by meaning.
    pub meaning: Meaning,
    /// Redaction applied to everything that views read.
    pub redaction: ViewRedaction,
    /// Settings of the archive.
    pub archive: ArchiveSettings,
}

/// Settings of the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// Whether the files of agents are archived.
    pub enabled: bool,
    /// Size above which nothing more is archived, in bytes.
    pub max_bytes: Option<u64>,
    /// Ids of agents whose files are not archived.
    pub agents_excluded: Vec<String>,
}

/// Redaction applied to sessions, messages and answers before a view receives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewRedaction {
    /// No redaction.
    #[default]
    Off,
    /// Secrets are redacted.
    Secrets,
    /// Secrets, home directories and the owner's name are redacted.
    Personal,
}

/// Settings of search by meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meaning {
    /// Whether search by meaning is off. Then no vectors are computed or stored.
    pub off: bool,
    /// Precision of the stored vectors.
    pub precision: Precision,
    /// Path of an embedding model that the user supplies.
    pub model_path: Option<PathBuf>,
    /// Behaviour when the user's model exists but cannot be used.
    pub fallback: Fallback,
}

/// Precision of the vectors that are stored for the final ranking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Two bytes per component.
    #[default]
    F16,
    /// Four bytes per component.
    F32,
}

/// Behaviour when the user's embedding model cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Compare texts by hashes of their words.
    #[default]
    Hash,
    /// Disable search by meaning.
    None,
}

/// An additional home directory: a mounted disk, the other side of WSL, a copy from a server.
#[derive(Clone, Debug)]
pub struct Home {
    /// The machine that the home belongs to.
    pub machine: Machine,
    /// The way this system reaches the home.
    pub kind: HomeKind,
    /// Name of the machine, if it is not this one.
    pub host: Option<String>,
}

impl Config {
    /// Creates the default settings for a journal in `journal_dir`.
    pub fn new(journal_dir: PathBuf) -> Self {
        Self {
            index_dir: journal_dir.join("index"),
            journal_dir,
            sources: BTreeMap::new(),
            writer_memory_mb: 64,
            max_line_bytes: MAX_LINE,
            include_thinking: false,
            homes: Vec::new(),
            zone: TimeZone::UTC,
            meaning: Meaning::default(),
            prices: BTreeMap::new(),
            redaction: ViewRedaction::Off,
            archive: ArchiveSettings::default(),
        }
    }
}
