//! State shared by all requests: a few open journals, the sync status, and one thread that reads
//! new data of the agents while the server runs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::available_parallelism;
use std::time::Duration;

use agent_journal::export;
use agent_journal::model::Timestamp;
use agent_journal::search::Mode;
use agent_journal::{
    Changes, Contents, Entry, Interrupter, Journal, Progress, SyncOptions, Watch, WatchOptions,
};
use anyhow::{Context as _, Result};
use jiff::Zoned;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;

use super::cache::Cache;
use super::panics;
use crate::context::CommandContext;

/// Most queries that are answered at once; each keeps some megabytes of a journal.
const READERS: usize = 4;

/// Time without queries after which caches that only queries need are released.
const PAUSE: Duration = Duration::from_secs(3);

/// Longest wait for another writer, before a full scan is made instead.
const WAIT: Duration = Duration::from_mins(1);

/// Delay before a failed sync is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// Interval at which an abandoned query is interrupted, until it has ended.
const INTERRUPTION: Duration = Duration::from_millis(50);

/// Sessions whose outlines are cached.
const REMEMBERED: usize = 8;

/// State shared by all requests.
pub(super) struct App {
    /// One journal for each query that is answered at once.
    journals: Mutex<Vec<Journal>>,
    readers: Arc<Semaphore>,
    /// The mode of a search: lexical, semantic or hybrid.
    pub(super) mode: Mode,
    /// Sessions that a search shows by default.
    pub(super) max_results: u64,
    /// The default options of an export.
    pub(super) export: export::ExportOptions,
    /// Pages that were rendered before.
    pub(super) pages: Cache,
    news: watch::Sender<SyncStatus>,
    /// Number of queries so far.
    asked: AtomicU64,
    /// Whether a task waits for the queries to stop.
    awaits_rest: AtomicBool,
    /// Outlines of the sessions that were read last.
    contents: Mutex<VecDeque<(SessionStateKey, Arc<Contents>)>>,
}

/// Identifies one state of a session: its id, its length and its end.
type SessionStateKey = (String, u64, Option<Timestamp>);

/// Applies a change to the sync status.
type StatusCallback<'t> = dyn Fn(&dyn Fn(&mut SyncStatus)) + 't;

/// Progress of the sync thread.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SyncStatus {
    /// Generation of the journal: grows with every change.
    pub(super) change: i64,
    /// Bytes that the running sync is to read.
    pub(super) total: u64,
    /// Bytes that the running sync has read.
    pub(super) done: u64,
}

impl App {
    /// Opens the journals and starts the sync thread.
    pub(super) fn start_app(context: &CommandContext) -> Result<Arc<Self>> {
        let (news, _) = watch::channel(SyncStatus::default());
        let first = context.open_journal_only()?.holding_little();
        let more = (1..reader_count()).map(|_| Ok(first.try_clone()?.holding_little()));
        let more = more.collect::<Result<Vec<_>>>()?;
        let journals = more.into_iter().chain([first]).collect();
        let app = Arc::new(Self {
            journals: Mutex::new(journals),
            readers: Arc::new(Semaphore::new(reader_count())),
            mode: context.settings.search.mode,
            max_results: context.settings.search.max_results as u64,
            export: context.settings.export_options(),
            pages: Cache::default(),
            news,
            asked: AtomicU64::default(),
            awaits_rest: AtomicBool::default(),
            contents: Mutex::default(),
        });
        if context.may_sync() {
            let (app, journal) = (Arc::downgrade(&app), context.open_journal_only()?);
            std::thread::Builder::new().name("sync".to_owned()).spawn(move || {
                let news = move |change: &dyn Fn(&mut SyncStatus)| {
                    if let Some(app) = app.upgrade() {
                        app.news.send_modify(|news| change(news));
                    }
                };
                sync_on_changes(journal, &news);
            })?;
        }
        Ok(app)
    }

    /// Runs a query against a journal on a blocking thread.
    pub(super) async fn run_query<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Journal, &Zoned) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if !self.awaits_rest.swap(true, Ordering::Relaxed) {
            tokio::spawn(release_caches_when_idle(Arc::downgrade(self)));
        }
        let app = Arc::clone(self);
        let turn = Arc::clone(&self.readers).acquire_owned().await?;
        let running = Running::default();
        let answer = tokio::task::spawn_blocking({
            let running = running.clone();
            move || {
                let journal = app.lock_journals().pop();
                let mut borrowed = Borrowed { journal, running, app, _turn: turn };
                let journal =
                    borrowed.journal.as_mut().context("all journal connections are in use")?;
                journal.refresh()?;
                borrowed.running.begin_query(journal.interrupter());
                panics::catch_panic(|| question(journal, &Zoned::now()))?
            }
        });
        let mut awaited = Awaited { answer: Some(answer), running };
        let answered = match &mut awaited.answer {
            Some(answer) => answer.await,
            None => anyhow::bail!("nothing was asked"),
        };
        awaited.answer = None;
        answered?
    }

    /// Returns a receiver of sync status changes.
    pub(super) fn subscribe_status(&self) -> watch::Receiver<SyncStatus> {
        self.news.subscribe()
    }

    /// Returns the outline of a session, if it is cached.
    pub(super) fn cached_contents(&self, entry: &Entry) -> Option<Arc<Contents>> {
        let stand = session_state_key(entry);
        let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        contents.iter().find(|(known, _)| *known == stand).map(|(_, contents)| Arc::clone(contents))
    }

    /// Returns the outline of a session; reads the whole session unless it is cached.
    pub(super) fn contents_of_session(
        &self,
        journal: &Journal,
        entry: &Entry,
    ) -> Result<Arc<Contents>> {
        if let Some(known) = self.cached_contents(entry) {
            return Ok(known);
        }
        let read = Arc::new(journal.table_of_contents(entry)?);
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        contents.truncate(REMEMBERED - 1);
        contents.push_front((session_state_key(entry), Arc::clone(&read)));
        Ok(read)
    }

    fn lock_journals(&self) -> MutexGuard<'_, Vec<Journal>> {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until no more queries arrive, then releases the caches that only queries need.
async fn release_caches_when_idle(app: Weak<App>) {
    let mut before = None;
    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(app) = app.upgrade() else { return };
        let asked = app.asked.load(Ordering::Relaxed);
        if before.replace(asked) == Some(asked) {
            app.awaits_rest.store(false, Ordering::Relaxed);
            app.lock_journals().iter().for_each(Journal::release_caches);
            return;
        }
    }
}

/// A handle that interrupts a query while it runs.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<RunningState>>);

#[derive(Default)]
struct RunningState {
    interrupter: Option<Interrupter>,
    is_abandoned: bool,
}

impl Running {
    fn lock_state(&self) -> MutexGuard<'_, RunningState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the interrupter of the query that starts now.
    fn begin_query(&self, interrupter: Interrupter) {
        let mut state = self.lock_state();
        if state.is_abandoned {
            interrupter.interrupt();
        }
        state.interrupter = Some(interrupter);
    }

    /// Removes the interrupter of a query that has ended: its journal serves the next query.
    fn end_query(&self) {
        self.lock_state().interrupter = None;
    }

    /// Interrupts the query, if it runs.
    fn interrupt_query(&self) {
        let mut state = self.lock_state();
        state.is_abandoned = true;
        if let Some(interrupter) = &state.interrupter {
            interrupter.interrupt();
        }
    }
}

/// A query that a request waits for. If it is dropped first, because it took too long or the client
/// disconnected, the thread is interrupted until it has stopped.
struct Awaited<T> {
    answer: Option<JoinHandle<T>>,
    running: Running,
}

impl<T> Drop for Awaited<T> {
    fn drop(&mut self) {
        let Some(answer) = self.answer.take() else { return };
        self.running.interrupt_query();
        let (Ok(runtime), running) = (Handle::try_current(), self.running.clone()) else { return };
        // A query that has not started never does.
        answer.abort();
        let is_over = answer.abort_handle();
        runtime.spawn(async move {
            while !is_over.is_finished() {
                running.interrupt_query();
                tokio::time::sleep(INTERRUPTION).await;
            }
        });
    }
}

/// A journal for one query. It is returned however the query ends, before the next one may start.
struct Borrowed {
    journal: Option<Journal>,
    running: Running,
    app: Arc<App>,
    _turn: OwnedSemaphorePermit,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.running.end_query();
        self.app.lock_journals().extend(self.journal.take());
    }
}

/// Returns the number of queries that are answered at once; more would slow each other down, so
/// they wait.
pub(super) fn reader_count() -> usize {
    available_parallelism().map_or(2, |cores| cores.get().clamp(2, READERS))
}

fn session_state_key(entry: &Entry) -> SessionStateKey {
    (entry.id.clone(), entry.transcript_length(), entry.ended_at)
}

/// Syncs whenever the system reports that agents wrote something. The first report covers
/// everything, so that the history is up to date when the browser opens.
fn sync_on_changes(mut journal: Journal, news: &StatusCallback<'_>) {
    let mut watch = journal.start_watch(WatchOptions::default());
    loop {
        let is_folded = match journal.wait_for_changes(&mut watch) {
            Ok(None) => return,
            Ok(Some(changes)) => sync_changes(&mut journal, &changes, &mut watch, news),
            Err(error) => Err(error.into()),
        };
        if !matches!(is_folded, Ok(true)) {
            watch.note_missed_changes();
        }
        if is_folded.is_err() {
            std::thread::sleep(RETRY);
        }
    }
}

/// Syncs changes. Returns whether all of them were read and no other process was writing.
fn sync_changes(
    journal: &mut Journal,
    changes: &Changes,
    watch: &mut Watch,
    news: &StatusCallback<'_>,
) -> Result<bool> {
    let options = SyncOptions { wait: Some(WAIT), ..SyncOptions::default() };
    let report = journal.sync_changes(changes, options, &mut |progress| match progress {
        Progress::Found { bytes, .. } => news(&|news| (news.total, news.done) = (bytes, 0)),
        Progress::Read { bytes } => news(&|news| news.done += bytes),
        _ => {}
    });
    let is_read = report.is_ok() && journal.refresh().is_ok();
    // Another process may have written the journal, so its own generation is used.
    let change = journal.change_generation().ok().filter(|_| is_read);
    news(&|news| {
        let change = change.unwrap_or(news.change);
        *news = SyncStatus { change, ..SyncStatus::default() };
    });
    let report = report?;
    watch.note_read(report.read_bytes);
    Ok(!report.busy && report.unsettled.is_empty())
}

#[cfg(test)]
mod tests {
    use agent_journal::search::{Query, SearchOptions};

    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "tests make their own files")]
    fn an_answer_that_nobody_waits_for_gives_its_reader_back() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".claude/projects/-w");
        std::fs::create_dir_all(&folder).unwrap();
        let line = r#"{"type":"user","uuid":"u1","sessionId":"s","cwd":"/w","timestamp":"2026-11-01T10:00:00.000Z","message":{"role":"user","content":"some word"}}"#;
        std::fs::write(folder.join("s.jsonl"), format!("{line}\n")).unwrap();
        let context = CommandContext::demo_context(home.path(), false).unwrap();
        context.open_journal_only().unwrap().sync(SyncOptions::default(), &mut |_| {}).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let app = App::start_app(&context).unwrap();
            for _ in 0..=reader_count() {
                let (begin, has_begun) = tokio::sync::oneshot::channel();
                let endless = app.run_query(move |journal, now| -> Result<()> {
                    let query = Query::parse("word", now)?;
                    assert_eq!(journal.search(&query, &SearchOptions::default())?.total, 1);
                    let _ = begin.send(());
                    loop {
                        journal.search(&query, &SearchOptions::default())?;
                    }
                });
                tokio::select! {
                    ended = endless => panic!("{ended:?}"),
                    done = has_begun => done.unwrap(),
                }
            }
            let readers = app.readers.acquire_many(reader_count() as u32).await.unwrap();
            drop(readers);
            assert!(app.run_query(|_, _| -> Result<()> { panic!("inside") }).await.is_err());
            assert_eq!(app.lock_journals().len(), super::reader_count());
        });
    }
}
