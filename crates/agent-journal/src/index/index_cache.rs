//! A cache of open indexes, for processes that answer many queries.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::Lexical;
use super::directory::META;
use super::semantic::{Semantic, SemanticReader};

/// The indexes that were opened last; clones share them.
#[derive(Clone, Default)]
pub(crate) struct IndexCache {
    lexical: CachedIndex<(i64, Vec<u8>), Lexical>,
    semantic: CachedIndex<(PathBuf, i64, u64), Arc<SemanticReader>>,
}

/// An opened index, with the key that identifies its state.
type CachedIndex<K, T> = Arc<Mutex<Option<(K, T)>>>;

impl IndexCache {
    /// Closes both indexes; readers that are in use stay valid.
    pub(crate) fn close(&self) {
        *self.lexical.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.semantic.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the current index of words; `None` when it must be rebuilt.
    pub(crate) fn lexical(&self, path: &Path, journal: i64) -> Option<Lexical> {
        // The list of segments changes with every commit.
        let key = (journal, fs::read(path.join(META)).ok()?);
        get(&self.lexical, key, || Lexical::open(path, journal))
    }

    /// Returns the current index of meanings; `None` when it must be rebuilt.
    pub(crate) fn semantic(&self, semantic: Semantic) -> Option<Arc<SemanticReader>> {
        let size = fs::metadata(semantic.path()).ok()?.len();
        let key = (semantic.path().to_owned(), semantic.generation(), size);
        get(&self.semantic, key, || semantic.read().map(Arc::new))
    }
}

/// Returns the cached value for a key, or opens a new one.
fn get<K: PartialEq, T: Clone>(
    kept: &CachedIndex<K, T>,
    key: K,
    open: impl FnOnce() -> Option<T>,
) -> Option<T> {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, thing)) = &*kept
        && *known == key
    {
        return Some(thing.clone());
    }
    // The old index is released first.
    *kept = None;
    let thing = open()?;
    *kept = Some((key, thing.clone()));
    Some(thing)
}
