//! Looks into index files that may be damaged. The engine compares their sums only when it is
//! asked to, which takes too long for every search, and panics on what it does not expect.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
