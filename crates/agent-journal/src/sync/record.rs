//! Receives records from a connector and prepares them for the store and the index. This happens on
//! the reading thread, so that little work is left for the writer.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Instant;

use xxhash_rust::xxh3::Xxh3;

use super::queue_limit::QueueReservation;
use super::{EventOutput, ReadJob};
use crate::archive::ArchiveItem;
use crate::config::Config;
use crate::connectors::formats::large::{LARGE_BYTES, LargeTurn};
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::{Error, Result};
use crate::index::{IndexTargets, KnownCalls};
use crate::model::{Block, Message, Origin, Session, SessionId, SessionKind, Timestamp};
use crate::store::{
    Chunk, ChunkBuilder, ChunkCompressor, FULL_CHUNK_BYTES, Fingerprint, Hashes, PendingReason,
    RecordingRow, SerializedMessage, SourceEnd, Store, text_bytes,
};

/// An event for the writer.
pub(super) enum Event {
    /// The messages of a recording are written again from a position on, its calls from another.
    Truncate { recording: u64, from: u64, calls: u64, is_append: bool },
    /// The recording is deleted, because its source now assigns it to another session.
    Forget { recording: u64 },
    /// A chunk of messages.
    Chunk { recording: u64, session: u64, chunk: Box<Chunk>, room: Option<QueueReservation> },
    /// The row of a recording.
    Recording(Box<RecordingRow>),
    /// A session was read to its end, and need not be read again while it has this fingerprint.
    Fingerprint { recording: u64, fingerprint: Fingerprint },
    /// The source has been read.
    End { job: usize, end: SourceEnd },
    /// Files of a source, for the archive.
    Archive(Box<ArchiveItem>, Option<QueueReservation>),
    /// The journal failed.
    Failed(Error),
}

/// Maximum size of messages of several sessions that wait for their chunks to fill. Otherwise a
/// database with thousands of sessions would fill the memory with partial chunks.
const MAX_WAITING_BYTES: u64 = 16 << 20;

/// Skip reason under which messages are counted whose surplus blocks were joined.
pub(crate) const TOO_MANY_BLOCKS: &str = "blocks of a very long message joined";

/// The destinations of the messages that a recorder receives.
#[derive(Clone, Copy)]
pub(super) struct RecorderOutputs<'a> {
    pub(super) index: IndexTargets<'a>,
    pub(super) events: &'a EventOutput,
    pub(super) packer: &'a ChunkCompressor,
}

/// Records the sessions of one source.
pub(super) struct Recorder<'a> {
    job: &'a ReadJob,
    start: (u64, u64),
    store: Option<&'a Store>,
    index: IndexTargets<'a>,
    events: &'a EventOutput,
    packer: &'a ChunkCompressor,
    config: &'a Config,
    open: Vec<OpenRecording>,
    by_id: HashMap<SessionId, usize>,
    current: usize,
    /// Size of the messages since all chunks were flushed, in bytes.
    waiting: u64,
    records: u64,
    raw: u64,
    skipped: BTreeMap<String, u64>,
    /// Whether the source ended prematurely.
    is_cut: bool,
    /// Time at which reading stops at the next possible checkpoint.
    deadline: Option<Instant>,
    /// Whether reading stopped because of the deadline.
    is_suspended: bool,
    /// Keys of the recordings that did not change since they were last read.
    unchanged: Vec<u64>,
    /// Record counts before the current session.
    counted_before: Fingerprint,
    /// Reuse of the stored messages.
    trust: StoredReuse,
    /// Whether the source must be read again from its beginning, because the stored messages do not
    /// match it.
    is_at_odds: bool,
}

/// A session of the source that is being read.
struct OpenRecording {
    key: u64,
    metadata: Session,
    /// The metadata as stored in the journal.
    before: Option<Session>,
    /// Hashes of the stored messages.
    known: Hashes,
    /// Position of the next message.
    position: u64,
    /// Messages from the first one on that differs from the journal.
    builder: Option<ChunkBuilder>,
    /// Tool calls whose results may follow.
    calls: KnownCalls,
    /// Set when the session was read to its end.
    fingerprint: Option<Fingerprint>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        job: &'a ReadJob,
        start: &Checkpoint,
        store: Option<&'a Store>,
        outputs: RecorderOutputs<'a>,
        config: &'a Config,
    ) -> Self {
        let RecorderOutputs { index, events, packer } = outputs;
        Self {
            job,
            start: (start.offset, start.messages),
            store,
            index,
            events,
            packer,
            config,
            open: Vec::new(),
            by_id: HashMap::new(),
            current: 0,
            waiting: 0,
            records: 0,
            raw: 0,
            skipped: BTreeMap::new(),
            is_cut: false,
            deadline: None,
            is_suspended: false,
            unchanged: Vec::new(),
            counted_before: Fingerprint::default(),
            trust: StoredReuse::Full,
            is_at_odds: false,
        }
    }

    /// Sets how much of the stored messages is reused. Unless it is `Full`, the source must be read
    /// from its beginning.
    pub(super) fn reusing(self, trust: StoredReuse) -> Self {
        Self { trust, ..self }
    }

    /// Sets the time at which reading stops at the next possible checkpoint.
    pub(super) fn until(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self }
    }

    /// Returns whether reading stopped because of the deadline.
    pub(super) fn is_suspended(&self) -> bool {
        self.is_suspended
    }

    /// Returns the maximum length of a line, in bytes.
    pub(super) fn max_line_bytes(&self) -> usize {
        self.config.max_line_bytes
    }

    /// Returns whether the source must be read again from its beginning: its stored beginning is
    /// unreadable, or the source shrank.
    pub(super) fn is_at_odds(&self) -> bool {
        self.is_at_odds
    }

    /// Stops reading, because the source must be read again from its beginning.
    pub(super) fn give_up(&mut self) -> Error {
        self.is_at_odds = true;
        Error::Stopped
    }

    /// Completes a source that was read without an error.
    pub(super) fn finish(&mut self, checkpoint: Checkpoint) -> Result<SourceEnd> {
        for at in 0..self.open.len() {
            self.current = at;
            let open = &self.open[at];
            // A session that lost all its messages in the source is kept in the journal.
            let is_lost = open.position == 0 && !open.known.is_empty();
            if is_lost && open.builder.is_none() {
                continue;
            }
            if self.is_cut || self.is_suspended || is_lost {
                self.keep_rest()?;
            }
            let open = &self.open[at];
            let is_less = open.known.len() > open.position;
            // The stored metadata may describe messages that are no longer in the source.
            if is_less && self.start.0 > 0 {
                return Err(self.give_up());
            }
            // The source no longer contains the last stored messages.
            if is_less && open.builder.is_none() {
                self.start_rewrite()?;
            }
            self.flush(Flush::Last)?;
            self.send_row(at)?;
        }
        // A source that starts from its beginning next time is counted then.
        if self.is_suspended && checkpoint.offset == 0 {
            let pending = Some(PendingReason::OutOfTime);
            return Ok(SourceEnd { pending, ..SourceEnd::kept(checkpoint) });
        }
        let continued = self.start.0 > 0;
        let repeated = match self.open.first() {
            Some(open) if continued => open.known.len().saturating_sub(self.start.1),
            _ => 0,
        };
        Ok(SourceEnd {
            checkpoint,
            read_bytes: 0,
            records: self.records.saturating_sub(repeated),
            raw: self.raw,
            skipped: std::mem::take(&mut self.skipped),
            continued,
            error: None,
            again: false,
            pending: self.is_suspended.then_some(PendingReason::OutOfTime),
            recordings: (!continued && !self.is_cut && !self.is_suspended).then(|| {
                let read = self.open.iter().map(|open| open.key);
                read.chain(self.unchanged.iter().copied()).collect()
            }),
        })
    }

    /// Completes a source that could not be read to its end. Keeps the messages read so far and the
    /// stored ones after them. The next read starts where this one did.
    pub(super) fn fail(&mut self, known: Checkpoint, error: &Error) -> Result<SourceEnd> {
        for at in 0..self.open.len() {
            self.current = at;
            self.keep_rest()?;
            self.flush(Flush::Last)?;
            self.send_row(at)?;
        }
        let mut reason = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            reason = format!("{reason}: {inner}");
            cause = inner.source();
        }
        // A read from the beginning replaced the messages that the checkpoint refers to.
        let checkpoint = if self.start.0 > 0 { known } else { Checkpoint::default() };
        if let Error::Unsettled { .. } = error {
            let pending = Some(PendingReason::Unsettled);
            return Ok(SourceEnd { pending, ..SourceEnd::kept(checkpoint) });
        }
        Ok(SourceEnd {
            error: Some(reason),
            again: matches!(error, Error::Read { .. }),
            ..SourceEnd::kept(checkpoint)
        })
    }

    /// Keeps the stored messages after those that were read, because nothing indicates that they
    /// were deleted.
    fn keep_rest(&mut self) -> Result<()> {
        let open = &mut self.open[self.current];
        if let Some(before) = open.before.clone().filter(|_| self.start.0 == 0) {
            let read = std::mem::replace(&mut open.metadata, before);
            open.metadata.merge_later(read);
        }
        let (key, rest) = (open.key, open.position..open.known.len());
        if !rest.is_empty() {
            open.fingerprint = None;
        }
        let Some(store) = self.store.filter(|_| open.builder.is_some()) else {
            open.position = open.position.max(rest.end);
            return Ok(());
        };
        store.each_message_in(key, rest, |_, message| {
            let packed = SerializedMessage::new(&message);
            self.add(message, packed)
        })
    }

    /// Converts a local time to UTC, if the agent records local times.
    fn correct_time(&self, at: &mut Option<Timestamp>) {
        if self.job.connector.has_local_times(&self.job.source.path) {
            *at = at.map(|at| at.as_local_in(&self.config.zone));
        }
    }

    fn session(&mut self, mut session: Session) -> Result<()> {
        if let Some(known) = self.known_elsewhere(&session.id)? {
            session.id = known;
        }
        if let Some(at) = self.by_id.get(&session.id) {
            self.current = *at;
            self.open[*at].metadata.merge_later(session);
            return Ok(());
        }
        self.forget_misplaced(&session.id)?;
        let key = recording_key(&session.id, &self.job.source.path);
        // The message count of a checkpoint refers to the first session after it.
        let continues = self.start.0 > 0 && self.open.is_empty();
        let position = if continues { self.start.1 } else { 0 };
        let recording =
            self.store.map(|store| store.stored_recording(key, position)).transpose()?.flatten();
        let (before, known) = match recording {
            Some(recording) => (Some(recording.metadata), recording.hashes),
            None => (None, Hashes::default()),
        };
        let metadata = match &before {
            Some(before) if self.start.0 > 0 => {
                let mut metadata = before.clone();
                metadata.merge_later(session);
                metadata
            }
            _ => session,
        };
        self.current = self.open.len();
        self.by_id.insert(metadata.id.clone(), self.current);
        let calls = KnownCalls::default();
        let (builder, fingerprint) = (None, None);
        self.open.push(OpenRecording {
            key,
            metadata,
            before,
            known,
            position,
            builder,
            calls,
            fingerprint,
        });
        let is_sound = match (self.trust, self.store) {
            (StoredReuse::Checked, Some(store)) => store.is_sound(key)?,
            (trust, _) => trust != StoredReuse::None,
        };
        if is_sound { Ok(()) } else { self.start_rewrite() }
    }

    /// Returns the id under which this source recorded a session earlier, if it belonged to another
    /// agent. The evidence for that may be gone, but the session is the same.
    fn known_elsewhere(&self, id: &SessionId) -> Result<Option<SessionId>> {
        let is_own = id.agent == self.job.connector.agent().id;
        let Some(store) = self.store.filter(|_| is_own) else { return Ok(None) };
        for (recording, session) in store.few_recordings_of(self.job.id)? {
            if session == id.session_key() {
                continue;
            }
            let known = store.metadata(recording)?.map(|metadata| metadata.id);
            if let Some(known) = known.filter(|known| known.native == id.native) {
                return Ok(Some(known));
            }
        }
        Ok(None)
    }

    /// Deletes the recording that was assigned to the source's own agent before it was known that
    /// the session belongs to another agent.
    fn forget_misplaced(&self, id: &SessionId) -> Result<()> {
        let own = self.job.connector.agent().id;
        let Some(store) = self.store.filter(|_| id.agent != own) else { return Ok(()) };
        let misplaced = SessionId { agent: own.to_owned(), native: id.native.clone() };
        let recording = recording_key(&misplaced, &self.job.source.path);
        if store.metadata(recording)?.is_none() {
            return Ok(());
        }
        self.index.remove(recording)?;
        self.events.send(Event::Forget { recording })
    }

    fn message(&mut self, message: Message) -> Result<()> {
        let Some(open) = self.open.get_mut(self.current) else { return Ok(()) };
        // A connector may emit a large record after it has read the next one.
        let _turn = (text_bytes(&message) > LARGE_BYTES).then(LargeTurn::wait_for_turn);
        let packed = SerializedMessage::new(&message);
        if open.builder.is_none() && open.known.get(open.position) == Some(packed.hash) {
            open.position += 1;
            return Ok(());
        }
        self.start_rewrite()?;
        self.add(message, packed)
    }

    /// Adds a message that differs from the journal.
    fn add(&mut self, mut message: Message, mut packed: SerializedMessage) -> Result<()> {
        let is_released = packed.release_large_line();
        self.index(&message)?;
        if is_released {
            packed = SerializedMessage::new(&message);
        }
        let open = &mut self.open[self.current];
        if let Some(builder) = &mut open.builder {
            self.waiting += packed.size();
            builder.add(&open.metadata.id, &mut message, packed);
            open.position += 1;
        }
        // A large message is not needed while its chunk is compressed.
        drop(message);
        self.flush(Flush::Full)?;
        if self.waiting > MAX_WAITING_BYTES && self.open.len() > 1 {
            self.flush_all()
        } else {
            Ok(())
        }
    }

    /// Flushes the chunks of all sessions, full or not.
    fn flush_all(&mut self) -> Result<()> {
        let current = self.current;
        for at in 0..self.open.len() {
            self.current = at;
            self.flush(Flush::Last)?;
        }
        (self.current, self.waiting) = (current, 0);
        Ok(())
    }

    /// Starts to write messages again from the current position, unless that has started already.
    fn start_rewrite(&mut self) -> Result<()> {
        let open = &mut self.open[self.current];
        if open.builder.is_some() {
            return Ok(());
        }
        let is_afresh = self.trust == StoredReuse::None;
        let is_known = !open.known.is_empty() || is_afresh;
        let Some(store) = self.store.filter(|_| is_known) else {
            open.builder = Some(ChunkBuilder::at(open.position));
            return Ok(());
        };
        let from = store.rewrite_start(open.key, open.position, FULL_CHUNK_BYTES)?;
        let mut builder = ChunkBuilder::at(from);
        let messages = store.messages(open.key, from..open.position)?;
        if (messages.len() as u64) < open.position - from {
            return Err(self.give_up());
        }
        for (_, mut message) in messages {
            let packed = SerializedMessage::new(&message);
            open.calls.note(&message);
            builder.add(&open.metadata.id, &mut message, packed);
        }
        let mut calls = from;
        let is_append = open.known.len() <= open.position && !is_afresh;
        if is_append {
            // Rows of calls are scattered in the database, so unchanged ones are not rewritten.
            calls = open.position;
            builder.forget_calls();
        } else {
            self.index.truncate(open.key, open.position)?;
        }
        open.builder = Some(builder);
        self.events.send(Event::Truncate { recording: open.key, from, calls, is_append })
    }

    fn flush(&mut self, when: Flush) -> Result<()> {
        let open = &mut self.open[self.current];
        let Some(builder) = &mut open.builder else { return Ok(()) };
        let ready = match when {
            Flush::Full => builder.is_full(),
            Flush::Last => !builder.is_empty(),
        };
        if ready {
            let (recording, session) = (open.key, open.metadata.id.session_key());
            let chunk = Box::new(builder.pack(self.packer));
            let room = self.events.reserve(&chunk);
            self.events.send(Event::Chunk { recording, session, chunk, room })?;
        }
        Ok(())
    }

    fn index(&mut self, message: &Message) -> Result<()> {
        let open = &mut self.open[self.current];
        if open.metadata.kind == SessionKind::Copy {
            return Ok(());
        }
        self.index.message(open.key, open.position, message, &mut open.calls)
    }

    /// Sends the row of a recording to the writer if it changed.
    fn send_row(&mut self, at: usize) -> Result<()> {
        let open = &mut self.open[at];
        let changed = open.builder.is_some() || open.before.as_ref() != Some(&open.metadata);
        let (recording, fingerprint) = (open.key, open.fingerprint.take());
        if changed {
            self.events.send(Event::Recording(Box::new(RecordingRow {
                key: open.key,
                source: self.job.id,
                metadata: std::mem::take(&mut open.metadata),
                messages: open.position,
                is_new: open.before.is_none(),
            })))?;
        }
        match fingerprint {
            Some(fingerprint) => self.events.send(Event::Fingerprint { recording, fingerprint }),
            None => Ok(()),
        }
    }

    /// Returns the record counts so far.
    fn counted(&self) -> Fingerprint {
        let Self { records, raw, ref skipped, .. } = *self;
        Fingerprint { value: 0, records, raw, skipped: skipped.clone() }
    }
}

/// The extent to which stored messages are reused instead of being written again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredReuse {
    /// Unchanged messages are not written again.
    Full,
    /// Unchanged messages are not written again, unless the journal cannot read them.
    Checked,
    /// All messages are written again.
    None,
}

/// The condition for flushing a chunk.
#[derive(Clone, Copy)]
enum Flush {
    Full,
    Last,
}

impl Sink for Recorder<'_> {
    fn accept_record(&mut self, record: Record) -> agent_sessions::Result<()> {
        match record {
            Record::Session(mut session) => {
                self.correct_time(&mut session.started_at);
                self.correct_time(&mut session.ended_at);
                Ok(self.session(*session)?)
            }
            Record::Message(mut message) => {
                self.correct_time(&mut message.at);
                self.records += 1;
                if message.join_surplus() > 0 {
                    *self.skipped.entry(TOO_MANY_BLOCKS.to_owned()).or_default() += 1;
                }
                // Attached context is of a known type, even if kept raw.
                let is_attached = message.origin == Origin::Injected;
                let is_other = |block: &Block| matches!(block, Block::Other(_));
                if !is_attached && message.blocks.iter().any(is_other) {
                    self.raw += 1;
                }
                Ok(self.message(*message)?)
            }
            Record::Skipped(skipped) if skipped.understood => {
                self.records += 1;
                Ok(())
            }
            Record::Skipped(skipped) => {
                self.is_cut |= skipped.is_cut;
                *self.skipped.entry(skipped.reason.into_owned()).or_default() += 1;
                Ok(())
            }
        }
    }

    fn is_due(&mut self) -> bool {
        self.is_suspended |= self.deadline.is_some_and(|deadline| Instant::now() > deadline);
        self.is_suspended
    }

    fn is_unchanged(
        &mut self,
        session: &SessionId,
        fingerprint: u64,
    ) -> agent_sessions::Result<bool> {
        self.counted_before = self.counted();
        let is_open = self.by_id.get(session).is_some_and(|at| self.open[*at].position > 0);
        let Some(store) = self.store.filter(|_| self.trust == StoredReuse::Full && !is_open) else {
            return Ok(false);
        };
        let key = recording_key(session, &self.job.source.path);
        let known = store.fingerprint(key)?.filter(|known| known.value == fingerprint);
        let Some(known) = known else { return Ok(false) };
        self.records += known.records;
        self.raw += known.raw;
        for (reason, count) in known.skipped {
            *self.skipped.entry(reason).or_default() += count;
        }
        self.unchanged.push(key);
        Ok(true)
    }

    fn finish_session(
        &mut self,
        session: &SessionId,
        fingerprint: u64,
    ) -> agent_sessions::Result<()> {
        let (before, now) = (&self.counted_before, self.counted());
        let mut skipped = now.skipped;
        for (reason, count) in &before.skipped {
            skipped.entry(reason.clone()).and_modify(|all| *all -= count);
        }
        skipped.retain(|_, count| *count > 0);
        let (records, raw) = (now.records - before.records, now.raw - before.raw);
        if let Some(at) = self.by_id.get(session) {
            self.open[*at].fingerprint =
                Some(Fingerprint { value: fingerprint, records, raw, skipped });
        }
        Ok(())
    }
}

/// Returns the key of the recording of a session in a source.
pub(crate) fn recording_key(session: &SessionId, path: &Path) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&session.session_key().to_le_bytes());
    hasher.update(path.as_os_str().as_encoded_bytes());
    hasher.digest() >> 1
}
