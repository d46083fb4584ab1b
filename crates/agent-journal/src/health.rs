//! Whether a journal is in order: its file, its index, what is still to be read.

use std::fs;

use serde::Serialize;

use crate::error::{Result, is_refused};
use crate::journal::Journal;
use crate::store::Store;

/// How a journal is.
#[derive(Clone, Debug, Serialize)]
pub struct Health {
    /// What is wrong with the journal's file; `None` when there is no file yet.
    pub faults: Option<Vec<String>>,
    /// The size of the file.
    pub bytes: u64,
    /// Whether others on this machine may read it.
    pub is_private: bool,
    /// Whether something can be recorded in it.
    pub is_writable: bool,
    /// How the index is.
    pub index: IndexState,
    /// Sources that changed since they were read.
    pub pending_sources: u64,
    /// Their size.
    pub pending_bytes: u64,
    /// Places that could not be looked at, with the reason.
    pub failures: Vec<(String, String)>,
}

/// How an index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexState {
    /// There is none, or none that can be used.
    Absent,
    /// It lacks what the journal got last.
    Behind,
    /// It has everything.
    Current,
}

impl Journal {
    /// Looks whether the journal is in order. It reads the whole file.
    pub fn health(&self) -> Result<Health> {
        let plan = self.plan(false)?;
        let file = fs::metadata(self.path());
        let index = match self.lexical()? {
            None => IndexState::Absent,
            Some(_) if self.is_indexed()? => IndexState::Current,
            Some(_) => IndexState::Behind,
        };
        Ok(Health {
            faults: self.store.as_ref().map(Store::faults).transpose()?,
            bytes: file.as_ref().map_or(0, fs::Metadata::len),
            is_private: file.as_ref().map_or(true, is_private),
            is_writable: self.is_writable(),
            index,
            pending_sources: plan.changed.len() as u64,
            pending_bytes: plan.changed.iter().map(|found| found.source.stamp.size).sum(),
            failures: plan.failures,
        })
    }

    /// Whether a writer could take its lock.
    fn is_writable(&self) -> bool {
        let lock = self.path().with_file_name("lock");
        let opened = fs::OpenOptions::new().write(true).open(lock);
        !opened.is_err_and(|error| is_refused(&error))
    }
}

#[cfg(unix)]
fn is_private(file: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    // Neither the group nor others have any of their bits.
    file.permissions().mode().trailing_zeros() >= 6
}

#[cfg(not(unix))]
fn is_private(_: &fs::Metadata) -> bool {
    true
}
