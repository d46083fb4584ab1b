//! Indexes that stay open from question to question, for those who answer many.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::Lexical;
use super::directory::META;
use super::semantic::{Semantic, SemanticReader};

/// The indexes that were opened last; copies share them.
#[derive(Clone, Default)]
pub(crate) struct Opened {
    lexical: Kept<(i64, Vec<u8>), Lexical>,
    semantic: Kept<(PathBuf, i64, u64), Arc<SemanticReader>>,
}

/// Something that was opened, and what tells it from what it was before.
type Kept<K, T> = Arc<Mutex<Option<(K, T)>>>;

impl Opened {
    /// Lets go of both; who is using one keeps it.
    pub(crate) fn close(&self) {
        *self.lexical.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.semantic.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The index of words as it is now; `None` when it must be made anew.
    pub(crate) fn lexical(&self, path: &Path, journal: i64) -> Option<Lexical> {
        // The list of its parts changes with every commit.
        let key = (journal, fs::read(path.join(META)).ok()?);
        get(&self.lexical, key, || Lexical::open(path, journal))
    }

    /// The index of meanings as it is now; `None` when it must be made anew.
    pub(crate) fn semantic(&self, semantic: Semantic) -> Option<Arc<SemanticReader>> {
        let size = fs::metadata(semantic.path()).ok()?.len();
        let key = (semantic.path().to_owned(), semantic.generation(), size);
        get(&self.semantic, key, || semantic.read().map(Arc::new))
    }
}

/// What is kept under a key, or what is opened now.
fn get<K: PartialEq, T: Clone>(
    kept: &Kept<K, T>,
    key: K,
    open: impl FnOnce() -> Option<T>,
) -> Option<T> {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, thing)) = &*kept
        && *known == key
    {
        return Some(thing.clone());
    }
    // What is held of the old one is let go first.
    *kept = None;
    let thing = open()?;
    *kept = Some((key, thing.clone()));
    Some(thing)
}
