//! The journal kept up while agents write: wait for changes, fold them in.

use crate::error::Result;
use crate::journal::Journal;
use crate::store::Store;
use crate::sync::{
    self, Changes, News, Plan, Progress, Spot, SyncOptions, SyncReport, Watch, WatchOptions,
};

impl Journal {
    /// Begins to watch the agents' files. The first thing to be told is that everything may have
    /// changed.
    ///
    /// ```no_run
    /// # fn follow(mut journal: agent_journal::Journal) -> agent_journal::Result<()> {
    /// let mut watch = journal.watch(agent_journal::WatchOptions::default());
    /// while let Some(changes) = journal.wait(&mut watch)? {
    ///     let report = journal.sync_changes(&changes, Default::default(), &mut |_| {})?;
    ///     if report.busy { watch.missed() }
    ///     if report.sources > 0 { /* there is news */ }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn watch(&self, options: WatchOptions) -> Watch {
        Watch::new(options)
    }

    /// Waits until sources may have changed; `None` when the watch was ended.
    pub fn wait(&self, watch: &mut Watch) -> Result<Option<Changes>> {
        watch.wait(&|| self.spots())
    }

    /// Folds in what changed, looking only at the sources that the changes concern.
    pub fn sync_changes(
        &mut self,
        changes: &Changes,
        options: SyncOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<SyncReport> {
        let make = |journal: &Self| {
            let machine = journal.machine_now()?;
            Plan::near(changes, journal.config(), &machine, journal.store.as_ref())
        };
        let generation = self.store.as_ref().map_or(Ok(0), Store::generation)?;
        let news = News { plan: make(self)?, generation, indexed: self.is_indexed()? };
        self.fold_in((news, &make), options, progress)
    }

    fn spots(&self) -> Result<Vec<Spot>> {
        sync::spots(self.config(), &self.machine_now()?, self.store.as_ref())
    }
}
