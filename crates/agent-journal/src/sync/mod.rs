//! How do files become entries? Look what changed, read that in parallel, newest first, and let
//! one writer record it; then make it findable. Work is proportional to what changed.

mod combine;
mod lock;
mod near;
mod news;
mod plan;
mod record;
mod reindex;
mod room;
mod watch;

pub use news::{Look, News};

pub(crate) use combine::combine_changed;
pub(crate) use lock::Lock;
pub(crate) use near::spots;
pub(crate) use news::{Memory, state};
pub(crate) use plan::{Found, Plan, roots};
pub(crate) use record::{TOO_MANY_BLOCKS, telling_key};
pub(crate) use watch::Spot;
pub use watch::{Changes, StopWatch, Watch, WatchOptions};

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::config::Config;
use crate::connectors::formats::jsonl;
use crate::connectors::{self, Checkpoint, Connector, Source};
use crate::error::{Error, Result};
use crate::index::{IndexWriter, LexicalWriter, Semantic, SemanticWriter, Targets};
use crate::store::{Chunk, Packer, Pending, SourceEnd, Store, Writer};
use record::{Event, Recorder, Trust};
use room::{Room, Rooms};

/// The first batch is small, so that the newest sessions can be found soon.
const FIRST_BATCH: u64 = 48 << 20;

/// Later batches end in a commit each.
const BATCH: u64 = 512 << 20;

/// Runs of messages that may wait for the writer.
const WAITING: usize = 32;

/// News of a source that may be held in memory.
const HELD: u64 = 4 << 20;

/// Sources that are sooner read than a thread for them is started.
const FEW: usize = 4;

/// How to sync.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyncOptions {
    /// Stop beginning new sources after this long.
    pub budget: Option<Duration>,
    /// Read everything again and make the index anew.
    pub full: bool,
    /// How long to wait for another writer; none answers from what is there.
    pub wait: Option<Duration>,
}

/// News of a running sync.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress {
    /// This much is to be read.
    Found {
        /// Sources.
        sources: u64,
        /// Their size.
        bytes: u64,
    },
    /// A source has been read.
    Read {
        /// Its size.
        bytes: u64,
    },
    /// Another process is writing; this one waits.
    Waiting,
    /// The index is being made anew from the journal.
    Rebuilding,
}

/// What a sync did.
#[derive(Clone, Debug, Default)]
pub struct SyncReport {
    /// Sources read.
    pub sources: u64,
    /// Their size.
    pub bytes: u64,
    /// Sources still to be read.
    pub pending_sources: u64,
    /// Their size.
    pub pending_bytes: u64,
    /// Databases that were changed while they were read; they are among those still to be read.
    pub unsettled: Vec<String>,
    /// Another process was writing.
    pub busy: bool,
    /// Roots and sources that could not be read, with the reason.
    pub failures: Vec<(String, String)>,
}

impl SyncReport {
    /// Counts a source that was read only up to a place.
    fn pend(&mut self, source: &Source, read_to: u64) {
        self.pending_sources += 1;
        self.pending_bytes += source.stamp.size.saturating_sub(read_to);
    }
}

/// Everything a sync needs.
pub(crate) struct Sync<'a> {
    pub(crate) config: &'a Config,
    pub(crate) store: &'a Store,
    pub(crate) store_path: &'a Path,
    pub(crate) options: SyncOptions,
    pub(crate) progress: &'a mut dyn FnMut(Progress),
}

/// A source that is to be read.
pub(crate) struct Job {
    pub(crate) connector: &'static dyn Connector,
    pub(crate) source: Source,
    pub(crate) id: i64,
}

impl Sync<'_> {
    /// Carries out a plan. The caller holds the lock.
    pub(crate) fn run(&mut self, plan: Plan) -> Result<SyncReport> {
        let mut report = SyncReport { failures: plan.failures, ..SyncReport::default() };
        let mut index = self.open_index()?;
        let mut writer = self.store.write()?;
        // What it takes to open is no time for reading: on a slow disk nothing would ever be read.
        let deadline = self.options.budget.map(|budget| Instant::now() + budget);
        writer.present(&plan.gone, false)?;
        writer.present(&plan.returned, true)?;
        let bytes = plan.changed.iter().map(|found| found.source.stamp.size).sum();
        (self.progress)(Progress::Found { sources: plan.changed.len() as u64, bytes });

        let mut batches = batches(plan.changed);
        for batch in &mut batches {
            let jobs = batch
                .drain(..)
                .map(|Found { connector, source, home }| {
                    let id = writer.source(connector.agent().id, &source, &home)?;
                    Ok(Job { connector, source, id })
                })
                .collect::<Result<Vec<Job>>>()?;
            self.batch(&jobs, &mut writer, index.targets(), (deadline, &mut report))?;
            self.commit(&mut writer, &mut index)?;
        }
        let forks = self.sources_again(writer.take_incomplete_forks())?;
        if !forks.is_empty() {
            self.batch(&forks, &mut writer, index.targets(), (deadline, &mut report))?;
            self.commit(&mut writer, &mut index)?;
        }
        if self.rederive_gone(&mut writer, deadline)? {
            self.commit(&mut writer, &mut index)?;
        }
        index.close()?;
        Ok(report)
    }

    /// Returns the jobs of reading known sources once more.
    fn sources_again(&self, ids: BTreeSet<i64>) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        for id in ids {
            let Some((agent, source)) = self.store.known_source(id)? else { continue };
            if let Some(connector) = connectors::find(&agent) {
                jobs.push(Job { connector, source, id });
            }
        }
        Ok(jobs)
    }

    /// Works out again what follows from the messages of sources that another version of the
    /// reader read and that cannot be read again, as long as there is time; when everything is read
    /// again, of all sources that cannot be. Returns whether there were any.
    fn rederive_gone(&self, writer: &mut Writer<'_>, deadline: Option<Instant>) -> Result<bool> {
        let sources = if self.options.full {
            self.store.all_kept_sources()?
        } else {
            self.store.outdated_and_gone()?
        };
        for source in &sources {
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                break;
            }
            writer.rederive(self.store, *source)?;
        }
        Ok(!sources.is_empty())
    }

    /// Makes everything since the last commit durable and findable.
    fn commit(&self, writer: &mut Writer<'_>, index: &mut IndexWriter) -> Result<()> {
        combine_changed(self.store, writer, Some(index.targets()))?;
        let before = writer.generation();
        let generation = writer.conclude()?;
        if generation == before {
            return writer.commit();
        }
        let (changed, fresh) = (self.store.changed_wholes(before)?, writer.take_fresh());
        // Side by side: only the last step, which makes it visible, waits until it is durable.
        let written = std::thread::scope(|scope| {
            let written = scope.spawn(|| {
                reindex::wholes(&changed, index.targets(), &fresh)?;
                index.prepare()
            });
            writer.commit()?;
            written.join().unwrap_or_else(|panic| resume_unwind(panic))
        })?;
        written.commit(generation)
    }

    /// Opens the indexes, and brings them up to the journal when they are behind.
    pub(crate) fn open_index(&mut self) -> Result<IndexWriter> {
        let path = self.config.index_dir.join("lexical");
        let memory = self.config.writer_memory_mb.max(16) << 20;
        let identity = self.store.identity()?;
        let (lexical, mut indexed) = LexicalWriter::open(&path, identity, memory)?;
        // What is ahead of its journal is of another past, and may have what nobody told.
        if self.options.full || indexed > self.store.generation()? {
            lexical.clear()?;
            indexed = 0;
        }
        let (semantic, embedded) = self.open_semantic(identity)?.unzip();
        let thinking = self.config.include_thinking;
        let mut index = IndexWriter { lexical, semantic, thinking };
        self.catch_up(&mut index, (indexed, embedded))?;
        Ok(index)
    }

    /// Opens the index of meanings, with the generation it holds; `None` when there is none, or
    /// when making it would take longer than there is time for.
    fn open_semantic(&self, identity: i64) -> Result<Option<(SemanticWriter, i64)>> {
        let Some(semantic) = Semantic::chosen(self.config, identity) else { return Ok(None) };
        let generation = self.store.generation()?;
        if semantic.generation() > generation {
            semantic.discard()?;
        }
        let is_missing = semantic.generation() == 0 && generation > 0;
        if is_missing && self.options.budget.is_some() {
            return Ok(None);
        }
        let (writer, embedded) = semantic.write()?;
        Ok(Some((writer, if self.options.full { 0 } else { embedded })))
    }

    /// Indexes what changed in the journal since the indexes were written.
    fn catch_up(
        &mut self,
        index: &mut IndexWriter,
        (indexed, embedded): (i64, Option<i64>),
    ) -> Result<()> {
        let generation = self.store.generation()?;
        let is_behind = |known: i64| known != generation;
        let semantic_behind = embedded.is_some_and(is_behind);
        if !is_behind(indexed) && !semantic_behind {
            return Ok(());
        }
        (self.progress)(Progress::Rebuilding);
        let all = index.targets();
        if is_behind(indexed) {
            let both = embedded == Some(indexed);
            let targets = Targets { semantic: all.semantic.filter(|_| both), ..all };
            reindex::tellings(self.store_path, self.store, targets, indexed)?;
        }
        if let Some(embedded) = embedded.filter(|known| is_behind(*known) && *known != indexed) {
            let targets = Targets { lexical: None, ..all };
            reindex::tellings(self.store_path, self.store, targets, embedded)?;
        }
        index.prepare()?.commit(generation)?;
        match &index.semantic {
            Some(semantic) if semantic_behind => semantic.discard_others(),
            _ => Ok(()),
        }
    }

    /// Reads a batch of sources on worker threads, and writes what they tell.
    fn batch(
        &mut self,
        jobs: &[Job],
        writer: &mut Writer<'_>,
        index: Targets<'_>,
        (deadline, report): (Option<Instant>, &mut SyncReport),
    ) -> Result<()> {
        if jobs.len() <= FEW && jobs.iter().all(|job| self.is_small(job)) {
            return self.at_once(jobs, writer, index, report);
        }
        let next = AtomicUsize::new(0);
        let workers = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).min(8);
        let (config, full, path) = (self.config, self.options.full, self.store_path);
        let packer = &*writer.packer();
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(WAITING);
            let rooms = Rooms::default();
            for _ in 0..workers.min(jobs.len()) {
                let worker =
                    Worker { jobs, next: &next, deadline, full, index, packer, config, path };
                let outlet = Outlet::Channel(sender.clone(), rooms.clone());
                scope.spawn(move || worker.run(&outlet));
            }
            drop(sender);
            self.write(receiver, jobs, writer, report)
        })?;
        for job in &jobs[next.load(Ordering::Relaxed).min(jobs.len())..] {
            report.pend(&job.source, 0);
        }
        Ok(())
    }

    /// Whether a source goes on where it was left, with so little news that it can be held.
    fn is_small(&self, job: &Job) -> bool {
        let Beginning { start, .. } = beginning(job, Some(self.store)).unwrap_or_default();
        let news = job.source.stamp.size.saturating_sub(start.offset);
        start.offset > 0 && news <= HELD && !self.options.full
    }

    /// Reads a few sources with little news on this thread: what must be looked up for them, the
    /// journal still has at hand from the last time.
    fn at_once(
        &mut self,
        jobs: &[Job],
        writer: &mut Writer<'_>,
        index: Targets<'_>,
        report: &mut SyncReport,
    ) -> Result<()> {
        index.lexical.iter().for_each(|lexical| lexical.merge_little());
        let (next, deadline, full) = (AtomicUsize::new(0), None, false);
        let (config, path, packer) = (self.config, self.store_path, &*writer.packer());
        let worker = Worker { jobs, next: &next, deadline, full, index, packer, config, path };
        for (at, job) in jobs.iter().enumerate() {
            let outlet = Outlet::Held(RefCell::default());
            let end = worker.read(job, Some(self.store), &outlet)?;
            outlet.send(Event::End { job: at, end })?;
            self.write(outlet.held(), jobs, writer, report)?;
        }
        Ok(())
    }

    /// Writes what the workers tell, until the last of them is done.
    fn write(
        &mut self,
        events: impl IntoIterator<Item = Event>,
        jobs: &[Job],
        writer: &mut Writer<'_>,
        report: &mut SyncReport,
    ) -> Result<()> {
        for event in events {
            match event {
                Event::Truncate { telling, from, calls, is_append } => {
                    writer.truncate(telling, from, calls)?;
                    if !is_append {
                        writer.set_uncovered(telling)?;
                    }
                }
                Event::Forget { telling } => writer.forget(telling)?,
                Event::Chunk { telling, session, chunk, room } => {
                    writer.chunk(telling, session, &chunk)?;
                    drop((chunk, room));
                }
                Event::Telling(told) => writer.telling(&told)?,
                Event::Fingerprint { telling, fingerprint } => {
                    writer.fingerprint(telling, &fingerprint)?;
                }
                Event::End { job, end } => {
                    let source = &jobs[job].source;
                    if let Some(error) = &end.error {
                        report.failures.push((source.path.display().to_string(), error.clone()));
                    }
                    writer.source_end(jobs[job].id, source, &end)?;
                    writer.list_many()?;
                    if let Some(pending) = end.pending {
                        report.pend(source, end.checkpoint.offset);
                        if pending == Pending::Unsettled {
                            report.unsettled.push(source.path.display().to_string());
                        }
                        continue;
                    }
                    report.sources += 1;
                    report.bytes += source.stamp.size;
                    (self.progress)(Progress::Read { bytes: source.stamp.size });
                }
                Event::Failed(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Splits the work so that the newest sources can be found first.
fn batches(changed: Vec<Found>) -> Vec<Vec<Found>> {
    let mut batches = vec![Vec::new()];
    let (mut bytes, mut limit) = (0, FIRST_BATCH);
    for found in changed {
        bytes += found.source.stamp.size;
        let last = batches.len() - 1;
        batches[last].push(found);
        if bytes >= limit {
            batches.push(Vec::new());
            (bytes, limit) = (0, BATCH);
        }
    }
    batches
}

/// What a reading thread knows.
struct Worker<'a> {
    jobs: &'a [Job],
    next: &'a AtomicUsize,
    deadline: Option<Instant>,
    full: bool,
    index: Targets<'a>,
    packer: &'a Packer,
    config: &'a Config,
    path: &'a Path,
}

impl Worker<'_> {
    fn run(&self, events: &Outlet) {
        let told = self.read_all(events);
        self.index.rest();
        if let Err(error) = told {
            // When the writer has gone, it knows why.
            let _ = events.send(Event::Failed(error));
        }
    }

    fn read_all(&self, events: &Outlet) -> Result<()> {
        let store = Store::open(self.path)?;
        loop {
            if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Ok(());
            }
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(at) else { return Ok(()) };
            let end = self.read(job, store.as_ref(), events)?;
            events.send(Event::End { job: at, end })?;
        }
    }

    /// Reads one source. What is wrong with it is its own affair; what is wrong with the journal
    /// stops everything.
    fn read(&self, job: &Job, store: Option<&Store>, events: &Outlet) -> Result<SourceEnd> {
        let Beginning { known, mut start, is_outdated } = beginning(job, store)?;
        if self.full {
            start = Checkpoint::default();
        }
        let tools = (self.index, events, self.packer);
        let trust = match is_outdated {
            // The facts of a message may have changed although the message did not.
            true => Trust::None,
            false if self.full => Trust::Checked,
            false => Trust::Full,
        };
        let recorder = Recorder::new(job, &start, store, tools, self.config);
        let mut recorder = recorder.trusting(trust).until(self.deadline);
        let end = tell(job, (known.clone(), start), &mut recorder);
        if !recorder.is_at_odds() {
            return end;
        }
        // What the journal cannot read any more, or has of a source that was another then, the
        // source tells as it is.
        let start = Checkpoint::default();
        let recorder = Recorder::new(job, &start, store, tools, self.config);
        let mut recorder = recorder.trusting(Trust::None);
        tell(job, (known, start), &mut recorder)
    }
}

/// Has a source told to its end, or as far as it goes.
fn tell(
    job: &Job,
    (known, start): (Checkpoint, Checkpoint),
    recorder: &mut Recorder<'_>,
) -> Result<SourceEnd> {
    let max_line = recorder.max_line_bytes();
    let read = || job.connector.read(&job.source, start, recorder);
    match jsonl::with_max_line(max_line, read) {
        Ok(checkpoint) if recorder.is_suspended() => recorder.finish(checkpoint),
        Ok(checkpoint) => recorder.finish(jsonl::sealed(&job.source.path, checkpoint)),
        Err(Error::StartOver) => Err(recorder.give_up()),
        Err(
            error @ (Error::Read { .. }
            | Error::Format { .. }
            | Error::Database { .. }
            | Error::Unsettled { .. }),
        ) => recorder.fail(known, &error),
        Err(error) => Err(error),
    }
}

/// How a source is to be read.
#[derive(Default)]
struct Beginning {
    /// How far it has been read.
    known: Checkpoint,
    /// From where it is to be read now.
    start: Checkpoint,
    /// Whether another version of the reader read it last.
    is_outdated: bool,
}

/// Returns how far a source has been read, and from where it is to be read now.
fn beginning(job: &Job, store: Option<&Store>) -> Result<Beginning> {
    let known = store.map(|store| store.checkpoint(job.id)).transpose()?.unwrap_or_default();
    let before = store.map(|store| store.stamp(job.id)).transpose()?.flatten();
    // A file that was cut or replaced may have lost what followed the checkpoint, too.
    let is_same = before.is_some_and(|before| {
        before.inode == job.source.stamp.inode && before.size <= job.source.stamp.size
    });
    let is_outdated = store.map_or(Ok(false), |store| store.is_outdated(job.id))?;
    let goes_on = is_same && !is_outdated && jsonl::continues(&job.source.path, &known);
    let start = if goes_on { known.clone() } else { Checkpoint::default() };
    Ok(Beginning { known, start, is_outdated })
}

/// Where a reading thread puts what it was told.
enum Outlet {
    /// The writer takes it from another thread.
    Channel(SyncSender<Event>, Rooms),
    /// The writer takes it when all is told.
    Held(RefCell<Vec<Event>>),
}

impl Outlet {
    fn send(&self, event: Event) -> Result<()> {
        match self {
            Self::Channel(sender, _) => sender.send(event).map_err(|_| Error::Stopped),
            Self::Held(events) => {
                events.borrow_mut().push(event);
                Ok(())
            }
        }
    }

    /// Waits until another run may wait for the writer.
    fn room_for(&self, chunk: &Chunk) -> Option<Room> {
        match self {
            Self::Channel(_, rooms) => rooms.take(chunk.size()),
            Self::Held(_) => None,
        }
    }

    fn held(self) -> Vec<Event> {
        match self {
            Self::Channel(..) => Vec::new(),
            Self::Held(events) => events.into_inner(),
        }
    }
}
