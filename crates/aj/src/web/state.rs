//! What requests share: a few opened journals, the news of changes, and one thread that folds in
//! what the agents write while somebody looks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::available_parallelism;
use std::time::Duration;

use agent_journal::export;
use agent_journal::model::Timestamp;
use agent_journal::search::Mode;
use agent_journal::{
    Changes, Contents, Entry, Interrupter, Journal, Progress, SyncOptions, WatchOptions,
};
use anyhow::{Context as _, Result};
use jiff::Zoned;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;

use super::cache::Cache;
use super::panics;
use crate::commands::search::usual_mode;
use crate::context::Context;

/// How many questions are answered at once, at most; each keeps some megabytes of a journal.
const READERS: usize = 4;

/// When nobody asked for this long, what only answers need is let go.
const PAUSE: Duration = Duration::from_secs(3);

/// How long what is new waits for another writer, before everything is looked at again.
const WAIT: Duration = Duration::from_mins(1);

/// What could not be read or written is tried again after this long.
const RETRY: Duration = Duration::from_secs(30);

/// How often an answer that nobody waits for is interrupted, until it has ended.
const INTERRUPTION: Duration = Duration::from_millis(50);

/// How many sessions' landmarks are remembered.
const REMEMBERED: usize = 8;

/// What requests share.
pub(super) struct App {
    /// One for each question that is answered at once.
    journals: Mutex<Vec<Journal>>,
    readers: Arc<Semaphore>,
    /// How a search compares text.
    pub(super) mode: Mode,
    /// How many sessions a search shows.
    pub(super) max_results: u64,
    /// How sessions are exported.
    pub(super) export: export::Options,
    /// Pages that were made already.
    pub(super) pages: Cache,
    news: watch::Sender<News>,
    /// How many questions were asked.
    asked: AtomicU64,
    /// Whether somebody waits for the questions to stop.
    awaits_rest: AtomicBool,
    /// Landmarks of the sessions that were read last.
    contents: Mutex<VecDeque<(Stand, Arc<Contents>)>>,
}

/// A session as it stands: its id, its length, its end.
type Stand = (String, u64, Option<Timestamp>);

/// Takes a change of the news.
type Tell<'t> = dyn Fn(&dyn Fn(&mut News)) + 't;

/// What the thread that looks at the files last found.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Grows with every change of the journal.
    pub(super) change: i64,
    /// Bytes that a sync is to read, while it runs.
    pub(super) total: u64,
    /// Bytes that it has read.
    pub(super) done: u64,
}

impl App {
    /// Opens the journal, and begins to look for news.
    pub(super) fn start(context: &Context) -> Result<Arc<Self>> {
        let (news, _) = watch::channel(News::default());
        let first = context.journal()?.holding_little();
        let more = (1..readers()).map(|_| Ok(first.beside()?.holding_little()));
        let more = more.collect::<Result<Vec<_>>>()?;
        let journals = more.into_iter().chain([first]).collect();
        let app = Arc::new(Self {
            journals: Mutex::new(journals),
            readers: Arc::new(Semaphore::new(readers())),
            mode: usual_mode(&context.settings),
            max_results: context.settings.number("search.max_results") as u64,
            export: crate::commands::export::usual(&context.settings),
            pages: Cache::default(),
            news,
            asked: AtomicU64::default(),
            awaits_rest: AtomicBool::default(),
            contents: Mutex::default(),
        });
        if context.syncs() {
            let (app, journal) = (Arc::downgrade(&app), context.journal()?);
            std::thread::Builder::new().name("sync".to_owned()).spawn(move || {
                let news = move |change: &dyn Fn(&mut News)| {
                    if let Some(app) = app.upgrade() {
                        app.news.send_modify(|news| change(news));
                    }
                };
                follow(journal, &news);
            })?;
        }
        Ok(app)
    }

    /// Asks the journal on a thread of its own.
    pub(super) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Journal, &Zoned) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if !self.awaits_rest.swap(true, Ordering::Relaxed) {
            tokio::spawn(rest(Arc::downgrade(self)));
        }
        let app = Arc::clone(self);
        let turn = Arc::clone(&self.readers).acquire_owned().await?;
        let running = Running::default();
        let answer = tokio::task::spawn_blocking({
            let running = running.clone();
            move || {
                let journal = app.journals().pop();
                let mut borrowed = Borrowed { journal, running, app, _turn: turn };
                let journal = borrowed.journal.as_mut().context("every journal is in use")?;
                journal.renew()?;
                borrowed.running.begin(journal.interruptible());
                panics::caught(|| question(journal, &Zoned::now()))?
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

    /// Follows what changes.
    pub(super) fn news(&self) -> watch::Receiver<News> {
        self.news.subscribe()
    }

    /// The landmarks of a session, if they are known.
    pub(super) fn known(&self, entry: &Entry) -> Option<Arc<Contents>> {
        let stand = stand(entry);
        let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        contents.iter().find(|(known, _)| *known == stand).map(|(_, contents)| Arc::clone(contents))
    }

    /// The landmarks of a session; reads all of it unless they are known.
    pub(super) fn contents(&self, journal: &Journal, entry: &Entry) -> Result<Arc<Contents>> {
        if let Some(known) = self.known(entry) {
            return Ok(known);
        }
        let read = Arc::new(journal.contents(entry)?);
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        contents.truncate(REMEMBERED - 1);
        contents.push_front((stand(entry), Arc::clone(&read)));
        Ok(read)
    }

    fn journals(&self) -> MutexGuard<'_, Vec<Journal>> {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until nobody asks any more, and lets go of what only answers need.
async fn rest(app: Weak<App>) {
    let mut before = None;
    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(app) = app.upgrade() else { return };
        let asked = app.asked.load(Ordering::Relaxed);
        if before.replace(asked) == Some(asked) {
            app.awaits_rest.store(false, Ordering::Relaxed);
            app.journals().iter().for_each(Journal::rest);
            return;
        }
    }
}

/// What interrupts the question that a thread answers, while it does.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<RunningState>>);

#[derive(Default)]
struct RunningState {
    interrupter: Option<Interrupter>,
    is_abandoned: bool,
}

impl Running {
    fn state(&self) -> MutexGuard<'_, RunningState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what interrupts the answer that begins now.
    fn begin(&self, interrupter: Interrupter) {
        let mut state = self.state();
        if state.is_abandoned {
            interrupter.interrupt();
        }
        state.interrupter = Some(interrupter);
    }

    /// Notes that the answer has ended: its journal is the next question's.
    fn end(&self) {
        self.state().interrupter = None;
    }

    /// Interrupts the answer, if it is being made.
    fn interrupt(&self) {
        let mut state = self.state();
        state.is_abandoned = true;
        if let Some(interrupter) = &state.interrupter {
            interrupter.interrupt();
        }
    }
}

/// An answer that somebody waits for. When nobody does any more, because it took too long or the
/// client went away, the thread that makes it is interrupted until it has stopped.
struct Awaited<T> {
    answer: Option<JoinHandle<T>>,
    running: Running,
}

impl<T> Drop for Awaited<T> {
    fn drop(&mut self) {
        let Some(answer) = self.answer.take() else { return };
        self.running.interrupt();
        let (Ok(runtime), running) = (Handle::try_current(), self.running.clone()) else { return };
        // What has not begun never does.
        answer.abort();
        let is_over = answer.abort_handle();
        runtime.spawn(async move {
            while !is_over.is_finished() {
                running.interrupt();
                tokio::time::sleep(INTERRUPTION).await;
            }
        });
    }
}

/// A journal for one question: it goes back however that ends, before the next may ask.
struct Borrowed {
    journal: Option<Journal>,
    running: Running,
    app: Arc<App>,
    _turn: OwnedSemaphorePermit,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.running.end();
        self.app.journals().extend(self.journal.take());
    }
}

/// How many questions are answered at once; more wait, rather than be in each other's way.
pub(super) fn readers() -> usize {
    available_parallelism().map_or(2, |cores| cores.get().clamp(2, READERS))
}

fn stand(entry: &Entry) -> Stand {
    (entry.id.clone(), entry.transcript_length(), entry.ended_at)
}

/// Folds in what the agents write, whenever the system tells that they did. The first thing it is
/// told is that everything may have changed: the history is there when the browser is.
fn follow(mut journal: Journal, news: &Tell<'_>) {
    let mut watch = journal.watch(WatchOptions::default());
    loop {
        let is_folded = match journal.wait(&mut watch) {
            Ok(None) => return,
            Ok(Some(changes)) => fold(&mut journal, &changes, news),
            Err(error) => Err(error.into()),
        };
        if !matches!(is_folded, Ok(true)) {
            watch.missed();
        }
        if is_folded.is_err() {
            std::thread::sleep(RETRY);
        }
    }
}

/// Folds changes in; tells whether nobody else was writing.
fn fold(journal: &mut Journal, changes: &Changes, news: &Tell<'_>) -> Result<bool> {
    let options = SyncOptions { wait: Some(WAIT), ..SyncOptions::default() };
    let report = journal.sync_changes(changes, options, &mut |progress| match progress {
        Progress::Found { bytes, .. } => news(&|news| (news.total, news.done) = (bytes, 0)),
        Progress::Read { bytes } => news(&|news| news.done += bytes),
        _ => {}
    });
    let is_read = report.is_ok() && journal.renew().is_ok();
    // Another program may have written the journal: its own number tells.
    let change = journal.generation().ok().filter(|_| is_read);
    news(&|news| {
        let change = change.unwrap_or(news.change);
        *news = News { change, ..News::default() };
    });
    let report = report?;
    Ok(!report.busy && report.unsettled.is_empty())
}

#[cfg(test)]
mod tests {
    use agent_journal::search::{Options, Query};

    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "tests make their own files")]
    fn an_answer_that_nobody_waits_for_gives_its_reader_back() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".claude/projects/-w");
        std::fs::create_dir_all(&folder).unwrap();
        let line = r#"{"type":"user","uuid":"u1","sessionId":"s","cwd":"/w","timestamp":"2026-11-01T10:00:00.000Z","message":{"role":"user","content":"some word"}}"#;
        std::fs::write(folder.join("s.jsonl"), format!("{line}\n")).unwrap();
        let context = Context::made_up(home.path(), false).unwrap();
        context.journal().unwrap().sync(SyncOptions::default(), &mut |_| {}).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let app = App::start(&context).unwrap();
            for _ in 0..=readers() {
                let (begin, has_begun) = tokio::sync::oneshot::channel();
                let endless = app.ask(move |journal, now| -> Result<()> {
                    let query = Query::parse("word", now)?;
                    assert_eq!(journal.find(&query, &Options::default())?.total, 1);
                    let _ = begin.send(());
                    loop {
                        journal.find(&query, &Options::default())?;
                    }
                });
                tokio::select! {
                    ended = endless => panic!("{ended:?}"),
                    done = has_begun => done.unwrap(),
                }
            }
            let readers = app.readers.acquire_many(readers() as u32).await.unwrap();
            drop(readers);
            assert!(app.ask(|_, _| -> Result<()> { panic!("inside") }).await.is_err());
            assert_eq!(app.journals().len(), super::readers());
        });
    }
}
