//! Detects changes quickly. The last scan that found no changes is cached; as long as all files it
//! examined are unchanged, no new scan is needed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::plan::{Plan, roots};
use super::projects;
use crate::config::Config;
use crate::connectors::formats::scan_snapshot::{Comparison, ScanSnapshot};
use crate::connectors::{Machine, all_connectors};
use crate::store::{READER_VERSION, Store};
use crate::work_share::{SharedJob, WorkShare};

/// First bytes of the scan cache, which identify its format.
const CACHE_MARK: &[u8; 8] = b"ajscan1\n";

/// The changes found by a scan.
#[derive(Default)]
pub struct PendingChanges {
    pub(crate) plan: Plan,
    /// Generation of the journal that the scan was compared with.
    pub(crate) generation: i64,
    /// Whether the index contains everything in the journal.
    pub(crate) indexed: bool,
}

impl PendingChanges {
    /// Returns whether there are no changes and no failures.
    pub fn is_nothing(&self) -> bool {
        self.indexed && self.plan.is_empty() && self.plan.failures.is_empty()
    }

    /// Returns the number of changed sources and their size in bytes.
    pub fn pending(&self) -> (u64, u64) {
        let changed = &self.plan.changed;
        let bytes = changed.iter().map(|found| found.source.stamp.size).sum();
        (changed.len() as u64, bytes)
    }

    /// Returns the roots that could not be scanned, with the reason.
    pub fn failures(&self) -> &[(String, String)] {
        &self.plan.failures
    }
}

/// Returns the path of the scan cache.
fn cache_path(config: &Config) -> PathBuf {
    config.journal_dir.join("scan_cache")
}

/// A check whether files changed since the cached scan. It takes most of the time when nothing
/// changed, so several threads can share it.
pub struct ChangeCheck {
    path: PathBuf,
    /// Whether projects have to be searched for, so that the stored result cannot be the answer.
    is_search_due: bool,
    started: OnceLock<StartedCheck>,
}

#[derive(Default)]
struct StartedCheck {
    /// Hash of the scanned roots and the journal state; `None` if no scan is cached.
    question: Option<u64>,
    comparison: Comparison,
}

impl ChangeCheck {
    /// Creates a check. The first thread that works on it starts it.
    pub fn new(config: &Config) -> Self {
        Self {
            path: cache_path(config),
            is_search_due: projects::is_search_due(config),
            started: OnceLock::new(),
        }
    }

    /// Returns a work share whose worker thread runs this check and helps with other jobs.
    pub fn helper(self: &Arc<Self>) -> Arc<WorkShare> {
        Arc::new(WorkShare::with(Arc::clone(self)))
    }

    fn started(&self) -> &StartedCheck {
        self.started.get_or_init(|| StartedCheck::read(&self.path).unwrap_or_default())
    }

    /// Returns whether a difference was found so far, or may be found by a search for projects.
    pub fn differs(&self) -> bool {
        self.is_search_due
            || self.started().question.is_none()
            || self.started().comparison.found_difference()
    }

    /// Completes the check and returns whether all files are unchanged.
    pub(crate) fn holds(&self) -> bool {
        self.started().question.is_some() && self.started().comparison.finish_comparison()
    }
}

impl SharedJob for ChangeCheck {
    fn step(&self) -> bool {
        self.started().comparison.compare_next_block()
    }

    fn is_done(&self) -> bool {
        self.started().comparison.is_exhausted()
    }
}

impl StartedCheck {
    fn read(path: &Path) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let (question, rest) = bytes.strip_prefix(CACHE_MARK)?.split_first_chunk()?;
        let (sum, body) = rest.split_first_chunk()?;
        if xxh3_64(body) != u64::from_le_bytes(*sum) {
            return None;
        }
        let (question, start) = (u64::from_le_bytes(*question), bytes.len() - body.len());
        Some(Self { question: Some(question), comparison: Comparison::new(bytes, start)? })
    }
}

/// The cache of the last scan that found no changes.
pub(crate) struct ScanCache {
    path: PathBuf,
    /// Hash of the scanned roots and the journal state.
    question: u64,
}

impl ScanCache {
    /// Creates the cache for the roots of a machine and one state of a journal.
    pub(crate) fn new(config: &Config, machine: &Machine, journal: (i64, i64)) -> Self {
        let mut hash = Xxh3::new();
        hash.update(env!("CARGO_PKG_VERSION").as_bytes());
        hash.update(&READER_VERSION.to_le_bytes());
        hash.update(&journal.0.to_le_bytes());
        hash.update(&journal.1.to_le_bytes());
        for connector in all_connectors() {
            hash.update(connector.agent().id.as_bytes());
            hash.update(&connector.settings_hash().to_le_bytes());
            hash.update(&connector.version().to_le_bytes());
            for root in roots(connector, config, machine) {
                hash.update(root.path.as_os_str().as_encoded_bytes());
                hash.update(&[0, u8::from(root.configured)]);
            }
        }
        Self { path: cache_path(config), question: hash.digest() }
    }

    /// Returns whether a check is about the same roots and journal state.
    pub(crate) fn matches(&self, look: &ChangeCheck) -> bool {
        look.started().question == Some(self.question)
    }

    /// Stores a scan. The cache only saves time, so write errors are ignored.
    pub(crate) fn keep(&self, sight: &ScanSnapshot) {
        let body = sight.to_bytes();
        let write = || {
            let directory = self.path.parent().unwrap_or(Path::new("."));
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            file.write_all(CACHE_MARK)?;
            file.write_all(&self.question.to_le_bytes())?;
            file.write_all(&xxh3_64(&body).to_le_bytes())?;
            file.write_all(&body)?;
            file.persist(&self.path).map_err(|error| error.error)
        };
        drop(write());
    }
}

/// Returns the journal's identity and generation, which identify its state.
pub(crate) fn journal_state(store: &Store) -> crate::error::Result<(i64, i64)> {
    Ok((store.identity()?, store.generation()?))
}
