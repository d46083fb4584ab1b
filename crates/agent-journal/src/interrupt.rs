//! Interrupts an answer that is no longer needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// A request to stop that all threads working on an answer check.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Returns whether the answer is to be abandoned.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns [`Error::Stopped`] if the answer is to be abandoned.
    pub(crate) fn check_interrupted(&self) -> Result<()> {
        if self.is_interrupted() { Err(Error::Stopped) } else { Ok(()) }
    }
}

/// Interrupts the current answer of a [`Journal`](crate::Journal) from another thread.
pub struct Interrupter {
    pub(crate) flag: StopFlag,
    /// Interrupt handle of the journal's database, if the database exists.
    pub(crate) database: Option<rusqlite::InterruptHandle>,
}

impl Interrupter {
    /// Asks the journal to stop. A running search ends with [`Error::Stopped`], and a running
    /// database statement fails. Statements that start later are not affected, so call this
    /// repeatedly until the answer has ended.
    pub fn interrupt(&self) {
        self.flag.0.store(true, Ordering::Relaxed);
        if let Some(database) = &self.database {
            database.interrupt();
        }
    }
}
