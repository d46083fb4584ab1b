//! Reads changed files into the journal. A scan finds the changed sources, worker threads read them
//! in parallel, newest first, one writer stores the result, and the index is updated. The work is
//! proportional to the changes.

mod changes;
mod combine;
mod incremental;
mod lock;
mod plan;
mod projects;
mod queue_limit;
mod record;
mod reindex;
mod watch;

pub use changes::{ChangeCheck, PendingChanges};

pub(crate) use changes::{ScanCache, journal_state};
pub(crate) use combine::combine_changed;
pub(crate) use incremental::watch_dirs;
pub(crate) use lock::WriterLock;
pub(crate) use plan::{FoundSource, Plan, roots};
pub(crate) use projects::{ProjectSearch, SearchEffort};
pub(crate) use record::{TOO_MANY_BLOCKS, recording_key};
pub(crate) use watch::WatchDir;
pub use watch::{Changes, StopWatch, Watch, WatchOptions};

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::archive::{
    ArchiveItem, ArchiveShare, ArchivedCopies, FileArchiver, PackWriter, ReadExtent, pack_directory,
};
use crate::config::Config;
use crate::connectors::formats::jsonl;
use crate::connectors::formats::source_file::{FileReads, observe_reads, with_stored_files};
use crate::connectors::{self, Checkpoint, Connector, Source};
use crate::error::{Error, Result};
use crate::index::{IndexTargets, IndexWriter, LexicalWriter, Semantic, SemanticWriter};
use crate::model::Timestamp;
use crate::store::{
    Chunk, ChunkCompressor, FramePlace, KeptSource, PendingReason, SourceEnd, Store, Writer,
    reader_version,
};
use queue_limit::{QueueLimit, QueueReservation};
use record::{Event, Recorder, RecorderOutputs, StoredReuse};

/// Size of the first batch, which is small so that the newest sessions are searchable soon.
const FIRST_BATCH_BYTES: u64 = 48 << 20;

/// Size of the later batches. Each ends in a commit.
const BATCH_BYTES: u64 = 512 << 20;

/// Maximum number of events in the queue to the writer.
const MAX_QUEUED_EVENTS: usize = 32;

/// Maximum size of new data in a source that is read without a worker thread.
const MAX_INLINE_BYTES: u64 = 4 << 20;

/// Maximum number of sources that are read without worker threads, because starting threads would
/// take longer.
const MAX_INLINE_SOURCES: usize = 4;

/// Options of a sync.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyncOptions {
    /// Time after which no further source is started.
    pub budget: Option<Duration>,
    /// Whether to read all sources again and rebuild the index.
    pub full: bool,
    /// Maximum wait for another writer. With `None` the sync does not wait.
    pub wait: Option<Duration>,
}

/// Progress of a running sync.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress {
    /// The scan found this much to read.
    Found {
        /// Number of sources.
        sources: u64,
        /// Total size in bytes.
        bytes: u64,
    },
    /// A source has been read.
    Read {
        /// Size of the source in bytes.
        bytes: u64,
    },
    /// Another process is writing, and this one waits.
    Waiting,
    /// The index is being rebuilt from the journal.
    Rebuilding,
}

/// The result of a sync.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SyncReport {
    /// Number of sources read.
    pub sources: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Size of the data that was read of them, in bytes: of a file that only grew, the new part.
    pub read_bytes: u64,
    /// Number of pending sources.
    pub pending_sources: u64,
    /// Size of the pending data in bytes.
    pub pending_bytes: u64,
    /// Databases that changed while they were read. They are among the pending sources.
    pub unsettled: Vec<String>,
    /// Whether another process was writing, so that nothing was read.
    pub busy: bool,
    /// Roots and sources that could not be read, with the reason.
    pub failures: Vec<(String, String)>,
}

impl SyncReport {
    /// Counts a source that was read only up to `read_to`.
    fn pend(&mut self, source: &Source, read_to: u64) {
        self.pending_sources += 1;
        self.pending_bytes += source.stamp.size.saturating_sub(read_to);
    }
}

/// The state of a running sync.
pub(crate) struct SyncRun<'a> {
    pub(crate) config: &'a Config,
    pub(crate) store: &'a Store,
    pub(crate) store_path: &'a Path,
    pub(crate) options: SyncOptions,
    pub(crate) progress: &'a mut dyn FnMut(Progress),
    /// The archive; `None` if it is off.
    pub(crate) archive: Option<SyncArchive<'a>>,
}

/// The archive during a sync.
pub(crate) struct SyncArchive<'a> {
    packs: PackWriter<'a>,
    share: Arc<ArchiveShare>,
    seen_at: Timestamp,
}

impl<'a> SyncArchive<'a> {
    /// Prepares the archive for a sync; returns `None` if it is off.
    pub(crate) fn open(config: &Config, store: &'a Store) -> Result<Option<Self>> {
        if !config.archive.enabled {
            return Ok(None);
        }
        let max_bytes = config.archive.max_bytes.unwrap_or(u64::MAX);
        let now = jiff::Timestamp::now().as_millisecond();
        Ok(Some(Self {
            packs: PackWriter::new(&pack_directory(&config.journal_dir), store, max_bytes),
            share: Arc::new(ArchiveShare::new(store)?),
            seen_at: Timestamp::from_millis(now).unwrap_or_default(),
        }))
    }

    /// Writes what a reading thread archived.
    fn write(&mut self, item: &ArchiveItem, writer: &Writer<'_>) -> Result<()> {
        match item {
            ArchiveItem::Frame(frame) => {
                if !frame.is_new(writer)? {
                    return Ok(());
                }
                let place = if frame.is_piece {
                    Some(FramePlace::Row(frame.body.clone()))
                } else {
                    self.packs.append(&frame.body)?
                };
                let Some(place) = place else { return Ok(()) };
                writer.add_frame(&place, frame.raw, frame.sum, &frame.chunks)
            }
            ArchiveItem::Version(row) => writer.add_version(row).map(drop),
            ArchiveItem::Link { source, path } => writer.link_archive_file(*source, path),
            ArchiveItem::Source { source, stamp } => writer.set_archived(*source, *stamp),
        }
    }
}

/// A source to read.
pub(crate) struct ReadJob {
    pub(crate) connector: &'static dyn Connector,
    pub(crate) source: Source,
    pub(crate) id: i64,
    /// Whether the files no longer exist and are read from the archive.
    pub(crate) is_archived: bool,
}

impl ReadJob {
    /// Returns the version of the reader.
    fn reader(&self) -> i64 {
        reader_version(self.connector.version())
    }
}

impl SyncRun<'_> {
    /// Executes a plan. The caller holds the lock.
    pub(crate) fn run(&mut self, plan: Plan) -> Result<SyncReport> {
        let mut report = SyncReport { failures: plan.failures, ..SyncReport::default() };
        let mut index = self.open_index()?;
        let mut writer = self.store.write()?;
        // The time for opening does not count against the budget. Otherwise nothing would ever be
        // read on a slow disk.
        let deadline = self.options.budget.map(|budget| Instant::now() + budget);
        writer.present(&plan.gone, false)?;
        writer.present(&plan.returned, true)?;
        let bytes = plan.changed.iter().map(|found| found.source.stamp.size).sum();
        (self.progress)(Progress::Found { sources: plan.changed.len() as u64, bytes });

        let mut batches = batches(plan.changed);
        for batch in &mut batches {
            let jobs = batch
                .drain(..)
                .map(|FoundSource { connector, source, home }| {
                    let reader = reader_version(connector.version());
                    let id = writer.source(connector.agent().id, &source, &home, reader)?;
                    Ok(ReadJob { connector, source, id, is_archived: false })
                })
                .collect::<Result<Vec<ReadJob>>>()?;
            self.read_batch(&jobs, &mut writer, index.targets(), deadline, &mut report)?;
            self.commit(&mut writer, &mut index)?;
        }
        let forks = self.sources_again(writer.take_incomplete_forks())?;
        if !forks.is_empty() {
            self.read_batch(&forks, &mut writer, index.targets(), deadline, &mut report)?;
            self.commit(&mut writer, &mut index)?;
        }
        let archived = self.renew_kept_sources(&mut writer, deadline)?;
        if let Some(jobs) = archived {
            self.read_batch(&jobs, &mut writer, index.targets(), None, &mut report)?;
            writer.present(&jobs.iter().map(|job| job.id).collect::<Vec<_>>(), false)?;
            self.commit(&mut writer, &mut index)?;
        }
        index.close()?;
        Ok(report)
    }

    /// Creates jobs for reading known sources again.
    fn sources_again(&self, ids: BTreeSet<i64>) -> Result<Vec<ReadJob>> {
        let mut jobs = Vec::new();
        for id in ids {
            let Some((agent, source)) = self.store.known_source(id)? else { continue };
            if let Some(connector) = connectors::find_connector(&agent) {
                jobs.push(ReadJob { connector, source, id, is_archived: false });
            }
        }
        Ok(jobs)
    }

    /// Renews what the journal has of sources whose files cannot be read again and that another
    /// reader version read last; in a full sync, of all such sources. Lists those that can be read
    /// from the archive, which takes place without a time limit only. Derives the data of the
    /// others again from their messages, until the deadline. Returns `None` if there was nothing to
    /// do.
    fn renew_kept_sources(
        &self,
        writer: &mut Writer<'_>,
        deadline: Option<Instant>,
    ) -> Result<Option<Vec<ReadJob>>> {
        let before = if self.options.full { i64::MAX } else { plan::newest_reader() };
        let mut is_changed = false;
        let mut jobs = Vec::new();
        for kept in self.store.kept_sources(before)? {
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                break;
            }
            let connector = connectors::find_connector(&kept.agent).filter(|_| !kept.is_import);
            let reader = plan::reader_of(&kept);
            if !self.options.full && kept.reader >= reader {
                continue;
            }
            match connector.filter(|_| self.archive.is_some()) {
                Some(connector) if self.store.is_archived(kept.id)? => {
                    jobs.extend(self.archived_job(connector, &kept)?);
                }
                _ => {
                    writer.rederive(self.store, kept.id, reader)?;
                    is_changed = true;
                }
            }
        }
        Ok((is_changed || !jobs.is_empty()).then_some(jobs))
    }

    /// Creates a job for reading a source from the archive; `None` while there is a time limit.
    fn archived_job(
        &self,
        connector: &'static dyn Connector,
        kept: &KeptSource,
    ) -> Result<Option<ReadJob>> {
        if self.options.budget.is_some() {
            return Ok(None);
        }
        let known = self.store.known_source(kept.id)?;
        Ok(known.map(|(_, source)| ReadJob { connector, source, id: kept.id, is_archived: true }))
    }

    /// Commits everything since the last commit, to the journal and to the index.
    fn commit(&mut self, writer: &mut Writer<'_>, index: &mut IndexWriter) -> Result<()> {
        if let Some(archive) = &mut self.archive {
            archive.packs.sync()?;
            archive.share = Arc::new(ArchiveShare::new(self.store)?);
        }
        combine_changed(self.store, writer, Some(index.targets()))?;
        let before = writer.generation();
        let generation = writer.conclude()?;
        if generation == before {
            return writer.commit();
        }
        let (changed, fresh) = (self.store.changed_session_texts(before)?, writer.take_fresh());
        // Both are written in parallel. Only the last step, which makes the index visible, waits
        // until the journal is durable.
        let written = std::thread::scope(|scope| {
            let written = scope.spawn(|| {
                reindex::index_session_texts(&changed, index.targets(), &fresh)?;
                index.prepare()
            });
            writer.commit()?;
            written.join().unwrap_or_else(|panic| resume_unwind(panic))
        })?;
        written.commit(generation)
    }

    /// Opens the indexes for writing, and updates them if they are behind the journal.
    pub(crate) fn open_index(&mut self) -> Result<IndexWriter> {
        let path = self.config.index_dir.join("lexical");
        let memory = self.config.writer_memory_mb.max(16) << 20;
        let identity = self.store.identity()?;
        let (lexical, mut indexed) = LexicalWriter::open(&path, identity, memory)?;
        // An index that is ahead of the journal belongs to another history, and may contain
        // messages that the journal lacks.
        if self.options.full || indexed > self.store.generation()? {
            lexical.clear()?;
            indexed = 0;
        }
        let (semantic, embedded) = self.open_semantic(identity)?.unzip();
        let thinking = self.config.include_thinking;
        let mut index = IndexWriter { lexical, semantic, thinking };
        self.catch_up(&mut index, indexed, embedded)?;
        Ok(index)
    }

    /// Opens the semantic index for writing, with the generation it contains. Returns `None` if
    /// there is none, or if building it would exceed the budget.
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

    /// Indexes the changes of the journal since the indexes were written.
    fn catch_up(
        &mut self,
        index: &mut IndexWriter,
        indexed: i64,
        embedded: Option<i64>,
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
            let targets = IndexTargets { semantic: all.semantic.filter(|_| both), ..all };
            reindex::index_changed_recordings(self.store_path, self.store, targets, indexed)?;
        }
        if let Some(embedded) = embedded.filter(|known| is_behind(*known) && *known != indexed) {
            let targets = IndexTargets { lexical: None, ..all };
            reindex::index_changed_recordings(self.store_path, self.store, targets, embedded)?;
        }
        index.prepare()?.commit(generation)?;
        match &index.semantic {
            Some(semantic) if semantic_behind => semantic.discard_others(),
            _ => Ok(()),
        }
    }

    /// Reads a batch of sources on worker threads and writes the results.
    fn read_batch(
        &mut self,
        jobs: &[ReadJob],
        writer: &mut Writer<'_>,
        index: IndexTargets<'_>,
        deadline: Option<Instant>,
        report: &mut SyncReport,
    ) -> Result<()> {
        if jobs.len() <= MAX_INLINE_SOURCES && jobs.iter().all(|job| self.is_small(job)) {
            return self.read_inline(jobs, writer, index, report);
        }
        let next = AtomicUsize::new(0);
        let workers = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).min(8);
        let (config, full, path) = (self.config, self.options.full, self.store_path);
        let packer = &*writer.packer();
        // The writer changes the rest of the archive meanwhile.
        let share = self.archive.as_ref().map(|archive| Arc::clone(&archive.share));
        let seen_at = self.archive.as_ref().map(|archive| archive.seen_at).unwrap_or_default();
        let archive = share.as_deref().map(|share| WorkerArchive { share, seen_at });
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(MAX_QUEUED_EVENTS);
            let rooms = QueueLimit::default();
            for _ in 0..workers.min(jobs.len()) {
                let worker = Worker {
                    jobs,
                    next: &next,
                    deadline,
                    full,
                    index,
                    packer,
                    config,
                    path,
                    archive,
                };
                let outlet = EventOutput::Channel(sender.clone(), rooms.clone());
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

    /// Returns whether reading of the source can continue at its checkpoint and the new data is
    /// small enough to hold in memory.
    fn is_small(&self, job: &ReadJob) -> bool {
        let ReadStart { start, .. } = read_start(job, Some(self.store)).unwrap_or_default();
        let new_bytes = job.source.stamp.size.saturating_sub(start.offset);
        start.offset > 0 && new_bytes <= MAX_INLINE_BYTES && !self.options.full
    }

    /// Reads a few sources with little new data on this thread, where the pages of the journal that
    /// they need are still cached.
    fn read_inline(
        &mut self,
        jobs: &[ReadJob],
        writer: &mut Writer<'_>,
        index: IndexTargets<'_>,
        report: &mut SyncReport,
    ) -> Result<()> {
        index.lexical.iter().for_each(|lexical| lexical.merge_little());
        let (next, deadline, full) = (AtomicUsize::new(0), None, false);
        let (config, path, packer) = (self.config, self.store_path, &*writer.packer());
        let share = self.archive.as_ref().map(|archive| Arc::clone(&archive.share));
        let seen_at = self.archive.as_ref().map(|archive| archive.seen_at).unwrap_or_default();
        let archive = share.as_deref().map(|share| WorkerArchive { share, seen_at });
        let worker =
            Worker { jobs, next: &next, deadline, full, index, packer, config, path, archive };
        for (at, job) in jobs.iter().enumerate() {
            let outlet = EventOutput::Held(RefCell::default());
            let mut archiver = worker.archiver(Some(self.store));
            let end = worker.read(job, Some(self.store), &outlet, archiver.as_mut())?;
            flush_archive(archiver.as_mut(), &outlet)?;
            outlet.send(Event::End { job: at, end })?;
            self.write(outlet.held(), jobs, writer, report)?;
        }
        Ok(())
    }

    /// Writes the events of the workers until the last worker is done.
    fn write(
        &mut self,
        events: impl IntoIterator<Item = Event>,
        jobs: &[ReadJob],
        writer: &mut Writer<'_>,
        report: &mut SyncReport,
    ) -> Result<()> {
        for event in events {
            match event {
                Event::Truncate { recording, from, calls, is_append } => {
                    writer.truncate(recording, from, calls)?;
                    if !is_append {
                        writer.set_uncovered(recording)?;
                    }
                }
                Event::Forget { recording } => writer.forget(recording)?,
                Event::Chunk { recording, session, chunk, room } => {
                    writer.chunk(recording, session, &chunk)?;
                    drop((chunk, room));
                }
                Event::Recording(row) => writer.write_recording(&row)?,
                Event::Fingerprint { recording, fingerprint } => {
                    writer.fingerprint(recording, &fingerprint)?;
                }
                Event::End { job, end } => {
                    let source = &jobs[job].source;
                    report.read_bytes += end.read_bytes;
                    if let Some(error) = &end.error {
                        report.failures.push((source.path.display().to_string(), error.clone()));
                    }
                    writer.source_end(jobs[job].id, source, &end, jobs[job].reader())?;
                    writer.derive_listings_if_many()?;
                    if let Some(pending) = end.pending {
                        report.pend(source, end.checkpoint.offset);
                        if pending == PendingReason::Unsettled {
                            report.unsettled.push(source.path.display().to_string());
                        }
                        continue;
                    }
                    report.sources += 1;
                    report.bytes += source.stamp.size;
                    (self.progress)(Progress::Read { bytes: source.stamp.size });
                }
                Event::Archive(item, room) => {
                    if let Some(archive) = &mut self.archive {
                        archive.write(&item, writer)?;
                    }
                    drop((item, room));
                }
                Event::Failed(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Splits the sources into batches, so that the newest ones are searchable first.
fn batches(changed: Vec<FoundSource>) -> Vec<Vec<FoundSource>> {
    let mut batches = vec![Vec::new()];
    let (mut bytes, mut limit) = (0, FIRST_BATCH_BYTES);
    for found in changed {
        bytes += found.source.stamp.size;
        let last = batches.len() - 1;
        batches[last].push(found);
        if bytes >= limit {
            batches.push(Vec::new());
            (bytes, limit) = (0, BATCH_BYTES);
        }
    }
    batches
}

/// The data of a worker thread that reads sources.
struct Worker<'a> {
    jobs: &'a [ReadJob],
    next: &'a AtomicUsize,
    deadline: Option<Instant>,
    full: bool,
    index: IndexTargets<'a>,
    packer: &'a ChunkCompressor,
    config: &'a Config,
    path: &'a Path,
    archive: Option<WorkerArchive<'a>>,
}

/// The archive as reading threads see it.
#[derive(Clone, Copy)]
struct WorkerArchive<'a> {
    share: &'a ArchiveShare,
    seen_at: Timestamp,
}

impl<'a> Worker<'a> {
    /// Returns an archiver for this thread; `None` if the archive is off.
    fn archiver<'s>(&self, store: Option<&'s Store>) -> Option<FileArchiver<'s>>
    where
        'a: 's,
    {
        let WorkerArchive { share, seen_at } = self.archive?;
        Some(FileArchiver::new(share, store?, seen_at))
    }

    /// Archives the files that a source was read from.
    fn archive_reads(
        &self,
        job: &ReadJob,
        reads: &FileReads,
        end: &SourceEnd,
        archiver: &mut FileArchiver<'_>,
        events: &EventOutput,
    ) -> Result<()> {
        let is_excluded =
            self.config.archive.agents_excluded.iter().any(|id| id == job.connector.agent().id);
        if is_excluded || job.is_archived || end.error.is_some() {
            return Ok(());
        }
        let extent = match end.pending {
            Some(_) => ReadExtent::Partial,
            None => ReadExtent::Complete,
        };
        let (source, stamp) = (job.id, job.source.stamp);
        archiver.archive_source(source, stamp, reads, extent, &mut |item| events.archive(item))
    }

    fn run(&self, events: &EventOutput) {
        let outcome = self.read_all(events);
        self.index.rest();
        if let Err(error) = outcome {
            // If the writer has stopped, it reports the reason itself.
            let _ = events.send(Event::Failed(error));
        }
    }

    fn read_all(&self, events: &EventOutput) -> Result<()> {
        let store = Store::open(self.path)?;
        let mut archiver = self.archiver(store.as_ref());
        while self.deadline.is_none_or(|deadline| Instant::now() <= deadline) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(at) else { break };
            let end = self.read(job, store.as_ref(), events, archiver.as_mut())?;
            events.send(Event::End { job: at, end })?;
        }
        flush_archive(archiver.as_mut(), events)
    }

    /// Reads one source and archives its files. Errors in the source are part of the result; errors
    /// of the journal stop the sync.
    fn read(
        &self,
        job: &ReadJob,
        store: Option<&Store>,
        events: &EventOutput,
        archiver: Option<&mut FileArchiver<'_>>,
    ) -> Result<SourceEnd> {
        if job.is_archived {
            return self.read_archived(job, store, events);
        }
        let Some(archiver) = archiver else { return self.read_records(job, store, events) };
        let (end, reads) = observe_reads(|| self.read_records(job, store, events));
        let end = end?;
        self.archive_reads(job, &reads, &end, archiver, events)?;
        Ok(end)
    }

    /// Reads a source from the archive.
    fn read_archived(
        &self,
        job: &ReadJob,
        store: Option<&Store>,
        events: &EventOutput,
    ) -> Result<SourceEnd> {
        let own = Store::open(self.path)?.ok_or(Error::Stopped)?;
        let directory = pack_directory(&self.config.journal_dir);
        let copies = Rc::new(ArchivedCopies::of_source(own, directory, job.id)?);
        with_stored_files(copies, || self.read_records(job, store, events))
    }

    fn read_records(
        &self,
        job: &ReadJob,
        store: Option<&Store>,
        events: &EventOutput,
    ) -> Result<SourceEnd> {
        let ReadStart { known, mut start, is_outdated } = read_start(job, store)?;
        if self.full {
            start = Checkpoint::default();
        }
        let outputs = RecorderOutputs { index: self.index, events, packer: self.packer };
        let new_bytes = job.source.stamp.size.saturating_sub(start.offset);
        let trust = match is_outdated {
            // The facts of a message may have changed although the message did not.
            true => StoredReuse::None,
            false if self.full => StoredReuse::Checked,
            false => StoredReuse::Full,
        };
        let recorder = Recorder::new(job, &start, store, outputs, self.config);
        let mut recorder = recorder.reusing(trust).until(self.deadline);
        let end = read_source(job, known.clone(), start, &mut recorder);
        if !recorder.is_at_odds() {
            return end.map(|end| SourceEnd { read_bytes: new_bytes, ..end });
        }
        // The stored messages are unreadable or belong to an earlier file, so the source is read
        // again from its beginning.
        let start = Checkpoint::default();
        let recorder = Recorder::new(job, &start, store, outputs, self.config);
        let mut recorder = recorder.reusing(StoredReuse::None);
        let end = read_source(job, known, start, &mut recorder)?;
        Ok(SourceEnd { read_bytes: job.source.stamp.size, ..end })
    }
}

/// Sends the files that wait for a frame to fill.
fn flush_archive(archiver: Option<&mut FileArchiver<'_>>, events: &EventOutput) -> Result<()> {
    archiver.map_or(Ok(()), |archiver| archiver.flush(&mut |item| events.archive(item)))
}

/// Reads a source with its connector, to its end or as far as possible.
fn read_source(
    job: &ReadJob,
    known: Checkpoint,
    start: Checkpoint,
    recorder: &mut Recorder<'_>,
) -> Result<SourceEnd> {
    let max_line = recorder.max_line_bytes();
    let read = || job.connector.read_source(&job.source, start, recorder);
    match jsonl::with_max_line(max_line, read).map_err(Error::from) {
        Ok(checkpoint) if recorder.is_suspended() => recorder.finish(checkpoint),
        Ok(checkpoint) => recorder.finish(jsonl::seal_checkpoint(&job.source.path, checkpoint)),
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

/// The starting point for reading a source.
#[derive(Default)]
struct ReadStart {
    /// Checkpoint of the last read.
    known: Checkpoint,
    /// Checkpoint at which reading starts now.
    start: Checkpoint,
    /// Whether another reader version read the source last.
    is_outdated: bool,
}

/// Determines the checkpoint of the last read and the one at which reading starts now.
fn read_start(job: &ReadJob, store: Option<&Store>) -> Result<ReadStart> {
    let known = store.map(|store| store.checkpoint(job.id)).transpose()?.unwrap_or_default();
    let before = store.map(|store| store.stamp(job.id)).transpose()?.flatten();
    // A file that was truncated or replaced may also have lost data after the checkpoint.
    let is_same = before.is_some_and(|before| {
        before.inode == job.source.stamp.inode && before.size <= job.source.stamp.size
    });
    let is_outdated = store.map_or(Ok(false), |store| store.is_outdated(job.id, job.reader()))?;
    let goes_on = is_same && !is_outdated && jsonl::is_unchanged_around(&job.source.path, &known);
    let start = if goes_on { known.clone() } else { Checkpoint::default() };
    Ok(ReadStart { known, start, is_outdated })
}

/// The output of a worker thread.
enum EventOutput {
    /// Events go to the writer on another thread.
    Channel(SyncSender<Event>, QueueLimit),
    /// Events are held until the source has been read.
    Held(RefCell<Vec<Event>>),
}

impl EventOutput {
    fn send(&self, event: Event) -> Result<()> {
        match self {
            Self::Channel(sender, _) => sender.send(event).map_err(|_| Error::Stopped),
            Self::Held(events) => {
                events.borrow_mut().push(event);
                Ok(())
            }
        }
    }

    /// Sends what was archived to the writer.
    fn archive(&self, item: ArchiveItem) -> Result<()> {
        let room = match (self, &item) {
            (Self::Channel(_, rooms), ArchiveItem::Frame(frame)) => {
                rooms.take(frame.body.len() as u64)
            }
            _ => None,
        };
        self.send(Event::Archive(Box::new(item), room))
    }

    /// Waits until the queue to the writer has space for a chunk.
    fn reserve(&self, chunk: &Chunk) -> Option<QueueReservation> {
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
