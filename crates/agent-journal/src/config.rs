//! What the caller decides: where the journal lives and how it is kept.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::tz::TimeZone;

use crate::analyze::Rate;
use crate::connectors::Machine;
use crate::connectors::formats::jsonl::MAX_LINE;

/// Settings of a journal. The program fills them from its file, environment and flags.
#[derive(Clone, Debug)]
pub struct Config {
    /// The journal's own directory.
    pub journal_dir: PathBuf,
    /// The directory of the indexes, which can always be made anew.
    pub index_dir: PathBuf,
    /// Roots that replace an agent's own, by agent id.
    pub sources: BTreeMap<String, Vec<PathBuf>>,
    /// Memory of the index writer in MiB.
    pub writer_memory_mb: usize,
    /// The longest line of a session file that is read, in bytes.
    pub max_line_bytes: usize,
    /// Whether the model's reasoning can be found.
    pub include_thinking: bool,
    /// The user's own prices, by model.
    pub prices: BTreeMap<String, Rate>,
    /// Further home trees to read.
    pub homes: Vec<Home>,
    /// The zone of agents that record local times.
    pub zone: TimeZone,
    /// How texts are found by what they mean.
    pub meaning: Meaning,
    /// What is taken out of everything that views read.
    pub redaction: ViewRedaction,
}

/// What is taken out of sessions, messages and answers before a view sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewRedaction {
    /// Nothing.
    #[default]
    Off,
    /// Secrets.
    Secrets,
    /// Secrets, home directories and the name of their owner.
    Personal,
}

/// How texts are found by what they mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meaning {
    /// Whether they are not: then there is no vector, and no work for one.
    pub off: bool,
    /// How exactly vectors are kept.
    pub precision: Precision,
    /// Where a model of the user's own would be.
    pub model_path: Option<PathBuf>,
    /// What to do when there is such a model and it cannot be used.
    pub fallback: Fallback,
}

/// How exactly vectors are kept for the final ranking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Two bytes for each component.
    #[default]
    F16,
    /// Four bytes for each component.
    F32,
}

/// What to do when the user's own model cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Compare texts by hashes of their words.
    #[default]
    Hash,
    /// Find nothing by meaning.
    None,
}

/// Another home tree: a mounted disk, the other side of WSL, a copy from a server.
#[derive(Clone, Debug)]
pub struct Home {
    /// The machine whose home it is.
    pub machine: Machine,
    /// How it is reached.
    pub kind: HomeKind,
    /// The machine's name, when it is another one.
    pub host: Option<String>,
}

/// How a home is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HomeKind {
    /// A home of this system.
    #[default]
    Local,
    /// A Linux home, seen from Windows.
    Wsl,
    /// A Windows home, seen from WSL.
    Windows,
    /// A copy from another machine.
    Remote,
    /// None: what was exported from a journal.
    Import,
}

impl HomeKind {
    /// Every kind that a user can name.
    pub const ALL: [Self; 4] = [Self::Local, Self::Wsl, Self::Windows, Self::Remote];

    /// The kind's name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Wsl => "wsl",
            Self::Windows => "windows",
            Self::Remote => "remote",
            Self::Import => "import",
        }
    }
}

impl Config {
    /// The defaults for a journal in a directory.
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
        }
    }
}
