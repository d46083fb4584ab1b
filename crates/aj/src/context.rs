//! The context of a command: the settings, the time, and access to an up-to-date journal.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent_journal::search::{Filter, Scope};
use agent_journal::{
    ChangeCheck, Config, Journal, PendingChanges, Progress, SyncOptions, SyncReport, ViewRedaction,
};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::{Timestamp, Zoned};

use crate::args::GlobalArgs;
use crate::error::{causes_on_one_line, print_nothing_found, print_remark, print_warning};
use crate::restart::forbid_restart;
use crate::settings::UserSettings;

/// Time that a command may spend on reading new data before it answers. A debug build has no
/// practical limit, because its tests check answers, not the speed of a machine.
const BUDGET: Duration = Duration::from_millis(if cfg!(debug_assertions) { 600_000 } else { 300 });

/// Time that a writing command waits for another writer.
pub(crate) const WAIT: Duration = Duration::from_mins(10);

/// Settings, time and options of a command.
#[derive(Clone)]
pub(crate) struct CommandContext {
    pub(crate) settings: UserSettings,
    pub(crate) json: bool,
    pub(crate) now: Zoned,
    /// Whether long output may go through a pager.
    pub(crate) paging: bool,
    /// Whether to answer without reading new data first.
    pub(crate) no_sync: bool,
    /// The redaction of everything that is read from the journal.
    pub(crate) redaction: ViewRedaction,
}

/// The amount of data that was not read before an answer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Freshness {
    pub(crate) pending_sources: u64,
    pub(crate) pending_bytes: u64,
}

impl Freshness {
    /// Returns the pending data as JSON.
    pub(crate) fn pending_json(self) -> serde_json::Value {
        serde_json::json!({ "sources": self.pending_sources, "bytes": self.pending_bytes })
    }
}

/// An answer from the journal, with the pending data.
pub(crate) struct Answered<T> {
    pub(crate) answer: T,
    pub(crate) journal: Journal,
    pub(crate) freshness: Freshness,
}

impl<T> Answered<T> {
    /// Leaks the journal at the end of the process. Closing it takes longer than the exit itself,
    /// and the next command finds the write-ahead log as it is.
    pub(crate) fn leak_journal(self) {
        std::mem::forget(self.journal);
    }
}

impl CommandContext {
    pub(crate) fn new(args: &GlobalArgs) -> Result<Self> {
        let settings = UserSettings::load_settings(args.home.as_deref())?;
        let zone = settings.zone.clone();
        Ok(Self {
            settings,
            json: args.json,
            now: Timestamp::now().to_zoned(zone),
            paging: true,
            no_sync: args.no_sync,
            redaction: ViewRedaction::Off,
        })
    }

    /// Returns the same context with the current time.
    pub(crate) fn with_current_time(&self) -> Self {
        Self { now: Zoned::now(), ..self.clone() }
    }

    /// Returns a context for the sample sessions of the demo. It neither reads nor writes the
    /// user's data.
    pub(crate) fn demo_context(home: &Path, json: bool) -> Result<Self> {
        let settings = UserSettings::demo_settings(home)?;
        let now = Timestamp::now().to_zoned(settings.zone.clone());
        let redaction = ViewRedaction::Off;
        Ok(Self { settings, json, now, paging: false, no_sync: false, redaction })
    }

    /// Runs a query on the journal, applies pending changes within the time budget, and runs the
    /// query again if there were any. The change check runs concurrently with the first query, so
    /// that it costs nothing if nothing changed. The thread that finishes first takes over work of
    /// the other one.
    pub(crate) fn answer_fresh<T>(
        &self,
        ask: impl Fn(&Journal) -> Result<T>,
    ) -> Result<Answered<T>> {
        if self.no_sync {
            let journal = self.open_journal_only()?;
            let freshness = Freshness::default();
            return Ok(Answered { answer: ask(&journal)?, journal, freshness });
        }
        let check = Arc::new(ChangeCheck::new(&self.settings.library_config()));
        let helper = check.helper();
        let (answered, pending) = std::thread::scope(|scope| {
            let checker = scope.spawn(|| {
                helper.run_jobs();
                // Changes are evaluated here, concurrently with the query. If nothing differs, the
                // main thread confirms it below.
                if check.differs() {
                    return Some(
                        self.open_journal_only()
                            .and_then(|journal| self.pending_if_synced(&journal, &check)),
                    );
                }
                helper.wait_for_jobs();
                None
            });
            let here = helper.attend();
            // Lets the other thread move to its own core before this one is busy.
            std::thread::yield_now();
            let answered = self.open_journal_only().map(|journal| {
                let journal = journal.helped_by(Arc::clone(&helper)).with_progress(report_rebuild);
                (ask(&journal), journal)
            });
            drop(here);
            let pending = checker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (answered, pending)
        });
        let (answer, mut journal) = answered?;
        let pending = pending.unwrap_or_else(|| self.pending_if_synced(&journal, &check));
        let Some(pending) = or_warn(&journal, pending)?.flatten() else {
            return Ok(Answered { answer: answer?, journal, freshness: Freshness::default() });
        };
        let freshness = Self::apply_within_budget(&mut journal, pending)?;
        forbid_restart();
        Ok(Answered { answer: ask(&journal)?, journal, freshness })
    }

    /// Returns the journal after pending changes were applied within the time budget, for commands
    /// that write while they read.
    pub(crate) fn fresh_journal(&self) -> Result<Journal> {
        Ok(self.answer_fresh(|_| Ok(()))?.journal)
    }

    /// Returns the pending changes, or `None` if there are none or sync is disabled.
    fn pending_if_synced(
        &self,
        journal: &Journal,
        check: &ChangeCheck,
    ) -> Result<Option<PendingChanges>> {
        if self.no_sync {
            return Ok(None);
        }
        Ok(Some(journal.pending_changes_since(check)?).filter(|pending| !pending.is_nothing()))
    }

    /// Applies pending changes within the time budget, and returns the data that is left.
    fn apply_within_budget(journal: &mut Journal, pending: PendingChanges) -> Result<Freshness> {
        let options = SyncOptions { budget: Some(BUDGET), ..SyncOptions::default() };
        let (pending_sources, pending_bytes) = pending.pending();
        let report = journal.apply(pending, options, &mut |_| {}).map_err(anyhow::Error::from);
        let Some(report) = or_warn(journal, report)? else {
            return Ok(Freshness { pending_sources, pending_bytes });
        };
        for (path, reason) in &report.failures {
            print_warning(&format!(
                "could not read {path}: {}",
                crate::output::failure_cause(path, reason)
            ));
        }
        warn_of_unsettled(&report);
        if report.pending_sources > report.unsettled.len() as u64 {
            let size = crate::output::bytes(report.pending_bytes);
            let sources = crate::output::count(report.pending_sources, "source");
            let why = if report.busy { "another aj process is reading" } else { "run `aj index`" };
            print_warning(&format!("{sources} ({size}) not read yet: {why}"));
        }
        Ok(Freshness {
            pending_sources: report.pending_sources,
            pending_bytes: report.pending_bytes,
        })
    }

    /// Reports why an answer is empty: there is no history at all, or the given reason.
    pub(crate) fn report_nothing_found(journal: &Journal, otherwise: &str) -> Result<ExitCode> {
        let all = Filter { scope: Scope::All, ..Filter::default() };
        if journal.count_sessions(&all)? == 0 {
            let message =
                "no agent history found; `aj sources --all` lists the scanned directories";
            return Ok(print_nothing_found(message));
        }
        Ok(print_nothing_found(otherwise))
    }

    /// Returns whether commands read new data.
    pub(crate) fn may_sync(&self) -> bool {
        !self.no_sync
    }

    /// Opens the journal without reading new data.
    pub(crate) fn open_journal_only(&self) -> Result<Journal> {
        Ok(Journal::open(self.command_config(), self.settings.scanned_machine())?)
    }

    /// Returns the configuration of the journal for this command.
    pub(crate) fn command_config(&self) -> Config {
        Config { redaction: self.redaction, ..self.settings.library_config() }
    }

    /// Returns the same context with another redaction of everything that is read.
    pub(crate) fn with_redaction(&self, redaction: ViewRedaction) -> Self {
        Self { redaction, ..self.clone() }
    }

    /// Reads everything new, with a progress bar on a terminal.
    pub(crate) fn index_everything(journal: &mut Journal, full: bool) -> Result<SyncReport> {
        let options = SyncOptions { budget: None, full, wait: Some(WAIT) };
        let bar = if std::io::stderr().is_terminal() {
            ProgressBar::new(0)
        } else {
            ProgressBar::hidden()
        };
        let style =
            "{bar:32} {binary_bytes:>11} of {binary_total_bytes}  {binary_bytes_per_sec}  {msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is a constant"));
        let report = journal.sync(options, &mut |progress| match progress {
            Progress::Found { bytes, .. } => bar.set_length(bytes),
            Progress::Read { bytes } => bar.inc(bytes),
            Progress::Waiting => {
                print_warning("another aj process is writing the journal; waiting");
            }
            Progress::Rebuilding => bar.set_message("rebuilding the index"),
            _ => {}
        });
        bar.finish_and_clear();
        forbid_restart();
        Ok(report?)
    }
}

/// Turns a failure to read or record new sessions into a warning and `None`, because the stored
/// sessions can still be shown. If the journal is empty, or if the user has to fix it first, the
/// failure is returned.
fn or_warn<T>(journal: &Journal, result: Result<T>) -> Result<Option<T>> {
    let error = match result {
        Ok(value) => return Ok(Some(value)),
        Err(error) => error,
    };
    let is_lasting = |error: &agent_journal::Error| error.is_lasting();
    if !journal.has_records() || error.downcast_ref().is_some_and(is_lasting) {
        return Err(error);
    }
    print_warning(&format!("could not record new sessions: {}", causes_on_one_line(&error)));
    Ok(None)
}

/// Warns of databases that changed while they were read.
pub(crate) fn warn_of_unsettled(report: &SyncReport) {
    for path in &report.unsettled {
        print_warning(&format!("{path} is being written by its agent; it will be read later"));
    }
}

/// Reports that the index is rebuilt, which delays the answer.
fn report_rebuild(progress: Progress) {
    if let Progress::Rebuilding = progress {
        print_remark("rebuilding the search index; this search takes longer than usual");
    }
}
