//! Stops an answer that nobody waits for any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// A request to stop, seen by the threads that work on an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Whether the answer is to be abandoned.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns [`Error::Stopped`] if the answer is to be abandoned.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::Stopped) } else { Ok(()) }
    }
}

/// Interrupts what a [`Journal`](crate::Journal) is doing for one answer, from another thread.
pub struct Interrupter {
    pub(crate) flag: StopFlag,
    /// Of the journal's database, if there is one.
    pub(crate) database: Option<rusqlite::InterruptHandle>,
}

impl Interrupter {
    /// Asks the journal to stop. A search ends with [`Error::Stopped`] and a statement of the
    /// database that is running fails; one that begins later is not affected, so that this is to
    /// be called until the answer has ended.
    pub fn interrupt(&self) {
        self.flag.0.store(true, Ordering::Relaxed);
        if let Some(database) = &self.database {
            database.interrupt();
        }
    }
}
