//! Changes the marks of sessions.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::index::LexicalWriter;
use crate::journal::Journal;
use crate::marks::{MarkChange, MarkRecord};
use crate::model::SessionId;
use crate::store::{Entry, Store, Writer};
use crate::sync::{SyncOptions, SyncRun};

/// Changes that are written to the journal in one transaction.
pub(crate) type WriteChanges<'c> = &'c mut dyn FnMut(&mut Writer<'_>) -> Result<()>;

impl Journal {
    /// Changes the marks of sessions: all of them, or none if a change is invalid. Waits for
    /// another writer at most `wait`.
    pub fn mark_sessions(
        &mut self,
        sessions: &[Entry],
        changes: &[MarkChange],
        wait: Duration,
    ) -> Result<()> {
        let changes: Vec<MarkChange> =
            changes.iter().cloned().map(MarkChange::normalized).collect::<Result<_>>()?;
        let _lock = self.lock_for_writing(wait, &mut |_| {})?;
        let at = self.now;
        self.write_and_index(&mut |writer| {
            for entry in sessions {
                for change in &changes {
                    writer.change_mark(&entry.session_id(), change, at)?;
                }
            }
            Ok(())
        })
    }

    /// Returns the marks of a session with the clock of each, as exports carry them.
    pub(crate) fn mark_records(&self, entry: &Entry) -> Result<Vec<MarkRecord>> {
        self.store.as_ref().map_or(Ok(Vec::new()), |store| store.mark_records(entry.key))
    }

    /// Counts the sessions of each tag, the most frequent first.
    pub fn count_tags(&self) -> Result<Vec<(String, u64)>> {
        self.store.as_ref().map_or(Ok(Vec::new()), Store::count_tags)
    }

    /// Writes changes to the journal, and indexes the texts that they affect. The caller holds the
    /// lock.
    fn write_and_index(&self, change: WriteChanges<'_>) -> Result<()> {
        let mut run = || {
            let store = self.store.as_ref().ok_or(Error::Stopped)?;
            // The caller waits, so vectors of another model are not computed now.
            let options = SyncOptions { budget: Some(Duration::ZERO), ..SyncOptions::default() };
            let (config, store_path) = (&self.config, &*self.path);
            SyncRun { config, store, store_path, options, progress: &mut |_| {}, archive: None }
                .write_and_index(change)
        };
        match run() {
            // The index is damaged. It can be rebuilt from the journal.
            Err(Error::Index { .. }) => {
                LexicalWriter::discard(&self.config.index_dir.join("lexical"))?;
                run()
            }
            written => written,
        }
    }
}

impl Entry {
    /// Returns the identity of the session.
    pub(crate) fn session_id(&self) -> SessionId {
        SessionId { agent: self.agent.clone(), native: self.native_id.clone() }
    }
}
