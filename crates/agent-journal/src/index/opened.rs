//! An index that stays open from question to question, for those who answer many.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::Lexical;

/// The index that was opened last; copies share it.
#[derive(Clone, Default)]
pub(crate) struct Opened(Arc<Mutex<Option<(Key, Lexical)>>>);

/// What tells an index from what it was before: its journal, and the list of its parts.
type Key = (i64, Vec<u8>);

impl Opened {
    /// The index as it is now; `None` when it must be made anew.
    pub(crate) fn get(&self, path: &Path, journal: i64) -> Option<Lexical> {
        let key = (journal, fs::read(path.join("meta.json")).ok()?);
        let mut opened = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, lexical)) = &*opened
            && *known == key
        {
            return Some(lexical.clone());
        }
        // What is held of the old one is let go first.
        *opened = None;
        let lexical = Lexical::open(path, journal)?;
        *opened = Some((key, lexical.clone()));
        Some(lexical)
    }
}
