//! Looks into index files that may be damaged. The engine compares their sums only when it is
//! asked to, which takes too long for every search, and panics on what it does not expect.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;

use tantivy::TantivyError;

use crate::error::Error;

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Does work that reads an index; `None` when it panicked.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = GUARDED.replace(true);
    // What was looked at is thrown away with the index, and nothing was written.
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.ok()
}

/// Tells whether a panic of this thread would be caught, and the index it came from made anew:
/// nobody needs to be told of it.
pub fn is_guarded() -> bool {
    GUARDED.get()
}

/// What ends the program: a thread of the engine panicked while an index was written. Such a
/// panic cannot be caught; the index is looked through when it is written to the next time.
pub fn fatal_damage() -> Option<Error> {
    let thread = std::thread::current();
    let of_engine = |name: &str| name == "segment_updater" || name.starts_with("merge_thread_");
    thread.name().filter(|name| of_engine(name))?;
    let path = WRITTEN.try_lock().ok()?.clone()?;
    let what = "a file of it is damaged".to_owned();
    Some(Error::Index { path, source: TantivyError::SystemError(what) })
}

/// The index that was opened for writing last.
static WRITTEN: Mutex<Option<std::path::PathBuf>> = Mutex::new(None);

/// Remembers which index is written to.
pub(super) fn writing(path: &Path) {
    if let Ok(mut written) = WRITTEN.lock() {
        *written = Some(path.to_owned());
    }
}
