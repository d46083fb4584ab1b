//! Catches panics while possibly damaged index files are read. Tantivy verifies checksums only on
//! request, which takes too long for every search, and panics on unexpected data.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;

use tantivy::TantivyError;

use crate::error::Error;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs work that reads an index; returns `None` if it panicked.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = GUARDED.replace(true);
    // The index is discarded after a panic, and nothing was written.
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.ok()
}

/// Returns whether a panic of this thread is caught and its index rebuilt, so that no message about
/// it is needed.
pub fn is_guarded() -> bool {
    GUARDED.get()
}

/// Returns the error for a panic that ends the program: one of tantivy's threads panicked while an
/// index was written. Such a panic cannot be caught; the index is verified when it is next opened
/// for writing.
pub fn fatal_damage() -> Option<Error> {
    let thread = std::thread::current();
    let of_engine = |name: &str| name == "segment_updater" || name.starts_with("merge_thread_");
    thread.name().filter(|name| of_engine(name))?;
    let path = WRITTEN.try_lock().ok()?.clone()?;
    let what = "a file of the index is damaged".to_owned();
    Some(Error::Index { path, source: TantivyError::SystemError(what) })
}

/// The index that was opened for writing last.
static WRITTEN: Mutex<Option<std::path::PathBuf>> = Mutex::new(None);

/// Stores the path of the index that is written.
pub(super) fn writing(path: &Path) {
    if let Ok(mut written) = WRITTEN.lock() {
        *written = Some(path.to_owned());
    }
}
