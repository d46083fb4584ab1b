//! What every command needs: the settings, the journal kept fresh, the time.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent_journal::search::{Filter, Scope};
use agent_journal::{
    Config, Journal, Look, News, Progress, SyncOptions, SyncReport, ViewRedaction,
};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use jiff::{Timestamp, Zoned};

use crate::args::Args;
use crate::commands::RedactArgs;
use crate::error::{nothing_found, one_line, remark, warn};
use crate::settings::Settings;

/// How long a command that answers may spend on news first. A debug build reads to the end: its
/// tests are about answers, not about the speed of a machine.
const BUDGET: Duration = Duration::from_millis(if cfg!(debug_assertions) { 600_000 } else { 300 });

/// How long a command that writes waits for another one.
pub(crate) const WAIT: Duration = Duration::from_mins(10);

/// What every command needs.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) settings: Settings,
    pub(crate) json: bool,
    pub(crate) now: Zoned,
    /// Whether long answers may go through a pager.
    pub(crate) paging: bool,
    /// Whether the journal is taken as it is.
    pub(crate) no_sync: bool,
    /// What is taken out of everything the journal answers.
    pub(crate) redaction: ViewRedaction,
}

/// How fresh an answer is.
#[derive(Clone, Copy, Default)]
pub(crate) struct Freshness {
    pub(crate) pending_sources: u64,
    pub(crate) pending_bytes: u64,
}

impl Freshness {
    /// What is still to be read, for programs.
    pub(crate) fn document(self) -> serde_json::Value {
        serde_json::json!({ "sources": self.pending_sources, "bytes": self.pending_bytes })
    }
}

/// An answer of the journal, and how fresh it is.
pub(crate) struct Answered<T> {
    pub(crate) answer: T,
    pub(crate) journal: Journal,
    pub(crate) freshness: Freshness,
}

impl<T> Answered<T> {
    /// Ends with the process: it takes longer to take the journal apart than the system does, and
    /// the next command finds the database's log as it was.
    pub(crate) fn leave(self) {
        std::mem::forget(self.journal);
    }
}

impl Context {
    pub(crate) fn new(args: &Args) -> Result<Self> {
        let settings = Settings::load(args.home.as_deref())?;
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

    /// The same, later.
    pub(crate) fn later(&self) -> Self {
        Self { now: Zoned::now(), ..self.clone() }
    }

    /// A context of its own for a made-up home: nothing of the user's is read or written.
    pub(crate) fn made_up(home: &Path, json: bool) -> Result<Self> {
        let settings = Settings::made_up(home)?;
        let now = Timestamp::now().to_zoned(settings.zone.clone());
        let redaction = ViewRedaction::Off;
        Ok(Self { settings, json, now, paging: false, no_sync: false, redaction })
    }

    /// Asks the journal, and asks again if there was news. The look for news runs beside the
    /// first question, so that it costs nothing when there is none; whoever is done first helps
    /// the other.
    pub(crate) fn answer<T>(&self, ask: impl Fn(&Journal) -> Result<T>) -> Result<Answered<T>> {
        if self.no_sync {
            let journal = self.journal()?;
            let freshness = Freshness::default();
            return Ok(Answered { answer: ask(&journal)?, journal, freshness });
        }
        let look = Arc::new(Look::new(&self.settings.config()));
        let helper = look.helper();
        let (answered, news) = std::thread::scope(|scope| {
            let beside = scope.spawn(|| {
                helper.work_beside();
                // What is new is sorted out beside the question; that nothing is, is said below.
                if look.differs() {
                    return Some(self.journal().and_then(|journal| self.news(&journal, &look)));
                }
                helper.wait_beside();
                None
            });
            let here = helper.attend();
            // So that it gets to its own processor before this one is busy.
            std::thread::yield_now();
            let answered = self.journal().map(|journal| {
                let journal = journal.helped_by(Arc::clone(&helper)).telling(excuse);
                (ask(&journal), journal)
            });
            drop(here);
            let news = beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (answered, news)
        });
        let (answer, mut journal) = answered?;
        let news = news.unwrap_or_else(|| self.news(&journal, &look));
        let Some(news) = or_warn(&journal, news)?.flatten() else {
            return Ok(Answered { answer: answer?, journal, freshness: Freshness::default() });
        };
        let freshness = Self::fold(&mut journal, news)?;
        Ok(Answered { answer: ask(&journal)?, journal, freshness })
    }

    /// Opens the journal and folds in what is new, as far as that is quick.
    pub(crate) fn fresh_journal(&self) -> Result<(Journal, Freshness)> {
        let mut journal = self.journal()?;
        let look = Look::new(&self.settings.config());
        let freshness = match or_warn(&journal, self.news(&journal, &look))?.flatten() {
            Some(news) => Self::fold(&mut journal, news)?,
            None => Freshness::default(),
        };
        Ok((journal, freshness))
    }

    /// Looks for news, unless nobody wants any.
    fn news(&self, journal: &Journal, look: &Look) -> Result<Option<News>> {
        if self.no_sync {
            return Ok(None);
        }
        Ok(Some(journal.news_by(look)?).filter(|news| !news.is_nothing()))
    }

    /// Folds news in, as far as that is quick, and says what is left.
    fn fold(journal: &mut Journal, news: News) -> Result<Freshness> {
        let options = SyncOptions { budget: Some(BUDGET), ..SyncOptions::default() };
        let (pending_sources, pending_bytes) = news.pending();
        let report = journal.fold(news, options, &mut |_| {}).map_err(anyhow::Error::from);
        let Some(report) = or_warn(journal, report)? else {
            return Ok(Freshness { pending_sources, pending_bytes });
        };
        for (path, reason) in &report.failures {
            warn(&format!("could not read {path}: {}", crate::output::cause(path, reason)));
        }
        warn_of_unsettled(&report);
        if report.pending_sources > report.unsettled.len() as u64 {
            let size = crate::output::bytes(report.pending_bytes);
            let why = if report.busy { "another aj is reading them" } else { "run `aj index`" };
            warn(&format!("{} sources ({size}) are not read yet: {why}", report.pending_sources));
        }
        Ok(Freshness {
            pending_sources: report.pending_sources,
            pending_bytes: report.pending_bytes,
        })
    }

    /// Says why an answer is empty: there is no history at all, or what `otherwise` says.
    pub(crate) fn nothing_found(journal: &Journal, otherwise: &str) -> Result<ExitCode> {
        let all = Filter { scope: Scope::All, ..Filter::default() };
        if journal.count(&all)? == 0 {
            let message =
                "no agent history found; `aj sources --all` lists the scanned directories";
            return Ok(nothing_found(message));
        }
        Ok(nothing_found(otherwise))
    }

    /// Whether news may be folded in at all.
    pub(crate) fn syncs(&self) -> bool {
        !self.no_sync
    }

    /// Opens the journal as it is.
    pub(crate) fn journal(&self) -> Result<Journal> {
        Ok(Journal::open(self.config(), self.settings.machine())?)
    }

    /// Returns the settings of the journal, as this command reads it.
    pub(crate) fn config(&self) -> Config {
        Config { redaction: self.redaction, ..self.settings.config() }
    }

    /// The same, with what these flags want redacted taken out of every answer.
    pub(crate) fn redacting(&self, redact: &RedactArgs) -> Self {
        Self { redaction: redact.of_views(), ..self.clone() }
    }

    /// Folds in everything that is new, with a progress bar on a terminal.
    pub(crate) fn index(journal: &mut Journal, full: bool) -> Result<SyncReport> {
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
            Progress::Waiting => warn("another aj is writing the journal; waiting for it"),
            Progress::Rebuilding => bar.set_message("making the index anew"),
            _ => {}
        });
        bar.finish_and_clear();
        Ok(report?)
    }
}

/// Turns a failure to read or record new sessions into a warning, and `None`: what the journal
/// already has can be shown all the same. A journal with nothing in it, or one that the user has
/// to see to first, stays a failure.
fn or_warn<T>(journal: &Journal, result: Result<T>) -> Result<Option<T>> {
    let error = match result {
        Ok(value) => return Ok(Some(value)),
        Err(error) => error,
    };
    let is_lasting = |error: &agent_journal::Error| error.is_lasting();
    if !journal.has_records() || error.downcast_ref().is_some_and(is_lasting) {
        return Err(error);
    }
    warn(&format!("could not record new sessions: {}", one_line(&error)));
    Ok(None)
}

/// Names the databases that were changed while they were read.
pub(crate) fn warn_of_unsettled(report: &SyncReport) {
    for path in &report.unsettled {
        warn(&format!("{path} is being written by its agent; it will be read later"));
    }
}

/// Says why an answer takes long.
fn excuse(progress: Progress) {
    if let Progress::Rebuilding = progress {
        remark("making the search index anew: this once, it takes longer");
    }
}
