//! Divides a job among threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

/// Hands out the numbers of the pieces of a job to the threads that work on it.
#[derive(Debug, Default)]
pub struct Pieces {
    count: usize,
    next: AtomicUsize,
    /// Held for reading by each thread that works on a piece.
    under_way: RwLock<()>,
}

impl Pieces {
    /// Divides a job into pieces.
    pub fn new(count: usize) -> Self {
        Self { count, ..Self::default() }
    }

    /// Returns the number of pieces.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Claims the next piece and runs `act` on its number. Returns false if none is left.
    pub fn take(&self, act: impl FnOnce(usize)) -> bool {
        let _part = self.under_way.read().unwrap_or_else(PoisonError::into_inner);
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        if at < self.count {
            act(at);
        }
        at < self.count
    }

    /// Skips the pieces that no thread has claimed yet.
    pub fn stop(&self) {
        self.next.fetch_max(self.count, Ordering::Relaxed);
    }

    /// Returns whether all pieces are done.
    pub fn are_done(&self) -> bool {
        let is_nobody_at_work = self.under_way.try_write().is_ok();
        is_nobody_at_work && self.next.load(Ordering::Relaxed) >= self.count
    }

    /// Waits for the threads that work on a piece.
    pub fn wait(&self) {
        drop(self.under_way.write().unwrap_or_else(PoisonError::into_inner));
    }
}
