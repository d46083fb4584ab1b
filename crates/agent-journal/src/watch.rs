//! Keeps the journal up to date while agents write: waits for changes and applies them.

use crate::error::Result;
use crate::journal::Journal;
use crate::store::Store;
use crate::sync::{
    self, Changes, PendingChanges, Plan, Progress, SyncOptions, SyncReport, Watch, WatchDir,
    WatchOptions,
};

impl Journal {
    /// Starts to watch the agents' files. The first result of the watch is
    /// `SourceChanges::Everything`.
    ///
    /// ```no_run
    /// # fn keep_current(mut journal: agent_journal::Journal) -> agent_journal::Result<()> {
    /// let mut watch = journal.start_watch(agent_journal::WatchOptions::default());
    /// while let Some(changes) = journal.wait_for_changes(&mut watch)? {
    ///     let report = journal.sync_changes(&changes, Default::default(), &mut |_| {})?;
    ///     if report.busy { watch.note_missed_changes() }
    ///     if report.sources > 0 { /* new data was read */ }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn start_watch(&self, options: WatchOptions) -> Watch {
        Watch::new(options)
    }

    /// Waits until sources may have changed. Returns `None` if the watch was stopped.
    pub fn wait_for_changes(&self, watch: &mut Watch) -> Result<Option<Changes>> {
        watch.wait(&|| self.watch_dirs())
    }

    /// Applies changes. Scans only the sources that the changes affect.
    pub fn sync_changes(
        &mut self,
        changes: &Changes,
        options: SyncOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<SyncReport> {
        let make = |journal: &Self| {
            let machine = match changes {
                Changes::Everything => journal.machine_after_search()?,
                Changes::Paths(_) => journal.machine_now()?,
            };
            Plan::for_changes(changes, journal.configuration(), &machine, journal.store.as_ref())
        };
        let generation = self.store.as_ref().map_or(Ok(0), Store::generation)?;
        let pending = PendingChanges { plan: make(self)?, generation, indexed: self.is_indexed()? };
        self.apply_or_replan(pending, &make, options, progress)
    }

    fn watch_dirs(&self) -> Result<Vec<WatchDir>> {
        sync::watch_dirs(self.configuration(), &self.machine_now()?, self.store.as_ref())
    }
}
