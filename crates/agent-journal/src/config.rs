//! What the caller decides: where the journal lives and how it is kept.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::analyze::Rate;

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
    /// Whether the model's reasoning can be found.
    pub include_thinking: bool,
    /// The user's own prices, by model.
    pub prices: BTreeMap<String, Rate>,
}

impl Config {
    /// The defaults for a journal in a directory.
    pub fn new(journal_dir: PathBuf) -> Self {
        Self {
            index_dir: journal_dir.join("index"),
            journal_dir,
            sources: BTreeMap::new(),
            writer_memory_mb: 64,
            include_thinking: false,
            prices: BTreeMap::new(),
        }
    }
}
