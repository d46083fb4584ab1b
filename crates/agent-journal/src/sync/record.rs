//! Takes what a connector tells and makes it ready for the store and the index: on the reading
//! thread, so that the writer has little to do.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Instant;

use xxhash_rust::xxh3::Xxh3;

use super::room::Room;
use super::{Job, Outlet};
use crate::config::Config;
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::{Error, Result};
use crate::index::{Calls, Targets};
use crate::model::{Block, Kind, Message, Origin, Session, SessionId, Timestamp};
use crate::store::{
    Chunk, ChunkBuilder, FULL_RUN, Fingerprint, Hashes, Packed, Packer, Pending, SourceEnd, Store,
    Told,
};

/// News for the writer.
pub(super) enum Event {
    /// The runs of a telling are told again from a position on, its calls from another.
    Truncate { telling: u64, from: u64, calls: u64, is_append: bool },
    /// A telling is no longer told: its source tells it of another session.
    Forget { telling: u64 },
    /// A run of messages.
    Chunk { telling: u64, session: u64, chunk: Box<Chunk>, room: Option<Room> },
    /// What a source tells of a session as a whole.
    Telling(Box<Told>),
    /// A session was told to its end, and need not be told again while it has this fingerprint.
    Fingerprint { telling: u64, fingerprint: Fingerprint },
    /// A source has been read.
    End { job: usize, end: SourceEnd },
    /// The journal itself failed.
    Failed(Error),
}

/// How many bytes of messages of several sessions may wait for their runs to be full. A database
/// of thousands of sessions would fill the memory with the beginnings of runs.
const WAITING: u64 = 16 << 20;

/// Under this reason messages are counted whose surplus blocks were joined.
pub(crate) const TOO_MANY_BLOCKS: &str = "blocks of a very long message joined";

/// Records one source.
pub(super) struct Recorder<'a> {
    job: &'a Job,
    start: (u64, u64),
    store: Option<&'a Store>,
    index: Targets<'a>,
    events: &'a Outlet,
    packer: &'a Packer,
    config: &'a Config,
    open: Vec<Open>,
    by_id: HashMap<SessionId, usize>,
    current: usize,
    /// Bytes of messages since all runs were handed over.
    waiting: u64,
    records: u64,
    raw: u64,
    skipped: BTreeMap<String, u64>,
    /// Whether the source broke off before its end.
    is_cut: bool,
    /// When reading is to stop at the next place from which it can go on.
    deadline: Option<Instant>,
    /// Whether it stopped there.
    is_suspended: bool,
    /// Sessions that are as they were when they were told last.
    unchanged: Vec<u64>,
    /// What was counted before the session that is told now.
    counted_before: Fingerprint,
    /// Whether what the journal has is told anew.
    trust: Trust,
    /// Whether what the journal has is no beginning of what the source tells.
    is_at_odds: bool,
}

/// A session that the source tells of.
struct Open {
    key: u64,
    account: Session,
    /// The account as the journal has it.
    before: Option<Session>,
    /// Hashes of the messages the journal has.
    known: Hashes,
    /// Where the next message goes.
    position: u64,
    /// Messages that differ from what the journal has, from the first of them on.
    builder: Option<ChunkBuilder>,
    /// The calls of tools whose results may follow.
    calls: Calls,
    /// Set when the session was told to its end.
    fingerprint: Option<Fingerprint>,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        job: &'a Job,
        start: &Checkpoint,
        store: Option<&'a Store>,
        (index, events, packer): (Targets<'a>, &'a Outlet, &'a Packer),
        config: &'a Config,
    ) -> Self {
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
            trust: Trust::Full,
            is_at_odds: false,
        }
    }

    /// How far what the journal has is taken for told; with less than full trust the source is read
    /// from its beginning.
    pub(super) fn trusting(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    /// Sets when reading is to stop at the next place from which it can go on.
    pub(super) fn until(self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self }
    }

    /// Returns whether reading stopped because there was no more time.
    pub(super) fn is_suspended(&self) -> bool {
        self.is_suspended
    }

    /// The longest line that is read.
    pub(super) fn max_line_bytes(&self) -> usize {
        self.config.max_line_bytes
    }

    /// Whether the journal cannot read what new messages follow, or the source tells less than
    /// before: all must be told anew.
    pub(super) fn is_at_odds(&self) -> bool {
        self.is_at_odds
    }

    /// Ends the telling, because it must begin anew.
    pub(super) fn give_up(&mut self) -> Error {
        self.is_at_odds = true;
        Error::Stopped
    }

    /// Records the end of a source that was read.
    pub(super) fn finish(&mut self, checkpoint: Checkpoint) -> Result<SourceEnd> {
        for at in 0..self.open.len() {
            self.current = at;
            let open = &self.open[at];
            // A session told without any message was lost by its source: the journal keeps it.
            let is_lost = open.position == 0 && !open.known.is_empty();
            if is_lost && open.builder.is_none() {
                continue;
            }
            if self.is_cut || self.is_suspended || is_lost {
                self.keep_rest()?;
            }
            let open = &self.open[at];
            let is_less = open.known.len() > open.position;
            // What was said of the session may be about what is no longer told.
            if is_less && self.start.0 > 0 {
                return Err(self.give_up());
            }
            // The journal's last messages are no longer told.
            if is_less && open.builder.is_none() {
                self.diverge()?;
            }
            self.flush(Flush::Last)?;
            self.tell(at)?;
        }
        // What was told of a source that begins again next time is counted then.
        if self.is_suspended && checkpoint.offset == 0 {
            let pending = Some(Pending::OutOfTime);
            return Ok(SourceEnd { pending, ..SourceEnd::kept(checkpoint) });
        }
        let continued = self.start.0 > 0;
        let told_again = match self.open.first() {
            Some(open) if continued => open.known.len().saturating_sub(self.start.1),
            _ => 0,
        };
        Ok(SourceEnd {
            checkpoint,
            records: self.records.saturating_sub(told_again),
            raw: self.raw,
            skipped: std::mem::take(&mut self.skipped),
            continued,
            error: None,
            again: false,
            pending: self.is_suspended.then_some(Pending::OutOfTime),
            told: (!continued && !self.is_cut && !self.is_suspended).then(|| {
                let told = self.open.iter().map(|open| open.key);
                told.chain(self.unchanged.iter().copied()).collect()
            }),
        })
    }

    /// Records the end of a source that could not be read to its end: what was told so far is
    /// kept, and what the journal has beyond; the next read begins where this one did.
    pub(super) fn fail(&mut self, known: Checkpoint, error: &Error) -> Result<SourceEnd> {
        for at in 0..self.open.len() {
            self.current = at;
            self.keep_rest()?;
            self.flush(Flush::Last)?;
            self.tell(at)?;
        }
        let mut reason = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            reason = format!("{reason}: {inner}");
            cause = inner.source();
        }
        // What was told from the beginning on took the place of what the checkpoint follows.
        let checkpoint = if self.start.0 > 0 { known } else { Checkpoint::default() };
        if let Error::Unsettled { .. } = error {
            let pending = Some(Pending::Unsettled);
            return Ok(SourceEnd { pending, ..SourceEnd::kept(checkpoint) });
        }
        Ok(SourceEnd {
            error: Some(reason),
            again: matches!(error, Error::Read { .. }),
            ..SourceEnd::kept(checkpoint)
        })
    }

    /// Keeps what the journal has of a session beyond what was told of it: nobody said that it is
    /// gone.
    fn keep_rest(&mut self) -> Result<()> {
        let open = &mut self.open[self.current];
        if let Some(before) = open.before.clone().filter(|_| self.start.0 == 0) {
            let told = std::mem::replace(&mut open.account, before);
            open.account.merge(told);
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
            let packed = Packed::new(&message);
            self.add(message, &packed)
        })
    }

    /// Takes a time of the user's clock for what it is.
    fn put_right(&self, at: &mut Option<Timestamp>) {
        if self.job.connector.has_local_times() {
            *at = at.map(|at| at.as_local_in(&self.config.zone));
        }
    }

    fn session(&mut self, mut session: Session) -> Result<()> {
        if let Some(known) = self.known_elsewhere(&session.id)? {
            session.id = known;
        }
        if let Some(at) = self.by_id.get(&session.id) {
            self.current = *at;
            self.open[*at].account.merge(session);
            return Ok(());
        }
        self.forget_misplaced(&session.id)?;
        let key = telling_key(&session.id, &self.job.source.path);
        // A checkpoint counts the messages of the session that is told first after it.
        let continues = self.start.0 > 0 && self.open.is_empty();
        let position = if continues { self.start.1 } else { 0 };
        let telling = self.store.map(|store| store.telling(key, position)).transpose()?.flatten();
        let (before, known) = match telling {
            Some(telling) => (Some(telling.account), telling.hashes),
            None => (None, Hashes::default()),
        };
        let account = match &before {
            Some(before) if self.start.0 > 0 => {
                let mut account = before.clone();
                account.merge(session);
                account
            }
            _ => session,
        };
        self.current = self.open.len();
        self.by_id.insert(account.id.clone(), self.current);
        let calls = Calls::default();
        let (builder, fingerprint) = (None, None);
        self.open.push(Open { key, account, before, known, position, builder, calls, fingerprint });
        let is_sound = match (self.trust, self.store) {
            (Trust::Checked, Some(store)) => store.is_sound(key)?,
            (trust, _) => trust != Trust::None,
        };
        if is_sound { Ok(()) } else { self.diverge() }
    }

    /// Returns the id under which the source told a session before, where that was known to belong
    /// to another agent: what showed it may be gone, and the session is still the same.
    fn known_elsewhere(&self, id: &SessionId) -> Result<Option<SessionId>> {
        let is_own = id.agent == self.job.connector.agent().id;
        let Some(store) = self.store.filter(|_| is_own) else { return Ok(None) };
        for (telling, session) in store.few_recordings_of(self.job.id)? {
            if session == id.key() {
                continue;
            }
            let known = store.account(telling)?.map(|account| account.id);
            if let Some(known) = known.filter(|known| known.native == id.native) {
                return Ok(Some(known));
            }
        }
        Ok(None)
    }

    /// Forgets what the source told of a session of its own agent before it was known that the
    /// session belongs to another agent.
    fn forget_misplaced(&self, id: &SessionId) -> Result<()> {
        let own = self.job.connector.agent().id;
        let Some(store) = self.store.filter(|_| id.agent != own) else { return Ok(()) };
        let misplaced = SessionId { agent: own.to_owned(), native: id.native.clone() };
        let telling = telling_key(&misplaced, &self.job.source.path);
        if store.account(telling)?.is_none() {
            return Ok(());
        }
        self.index.remove(telling)?;
        self.events.send(Event::Forget { telling })
    }

    fn message(&mut self, message: Message) -> Result<()> {
        let Some(open) = self.open.get_mut(self.current) else { return Ok(()) };
        let packed = Packed::new(&message);
        if open.builder.is_none() && open.known.get(open.position) == Some(packed.hash) {
            open.position += 1;
            return Ok(());
        }
        self.diverge()?;
        self.add(message, &packed)
    }

    /// Adds a message to those that differ from what the journal has.
    fn add(&mut self, mut message: Message, packed: &Packed) -> Result<()> {
        self.index(&message)?;
        let open = &mut self.open[self.current];
        if let Some(builder) = &mut open.builder {
            builder.add(&open.account.id, &mut message, packed);
            open.position += 1;
            self.waiting += packed.size();
        }
        self.flush(Flush::Full)?;
        if self.waiting > WAITING && self.open.len() > 1 { self.flush_all() } else { Ok(()) }
    }

    /// Hands over the runs of all sessions, full or not.
    fn flush_all(&mut self) -> Result<()> {
        let current = self.current;
        for at in 0..self.open.len() {
            self.current = at;
            self.flush(Flush::Last)?;
        }
        (self.current, self.waiting) = (current, 0);
        Ok(())
    }

    /// Begins to tell anew at the current position, unless that has begun already.
    fn diverge(&mut self) -> Result<()> {
        let open = &mut self.open[self.current];
        if open.builder.is_some() {
            return Ok(());
        }
        let is_afresh = self.trust == Trust::None;
        let is_known = !open.known.is_empty() || is_afresh;
        let Some(store) = self.store.filter(|_| is_known) else {
            open.builder = Some(ChunkBuilder::at(open.position));
            return Ok(());
        };
        let from = store.run_before(open.key, open.position, FULL_RUN)?;
        let mut builder = ChunkBuilder::at(from);
        let messages = store.messages(open.key, from..open.position)?;
        if (messages.len() as u64) < open.position - from {
            return Err(self.give_up());
        }
        for (_, mut message) in messages {
            let packed = Packed::new(&message);
            open.calls.note(&message);
            builder.add(&open.account.id, &mut message, &packed);
        }
        let mut calls = from;
        let is_append = open.known.len() <= open.position && !is_afresh;
        if is_append {
            // Calls lie scattered: those that stay as they are stay where they are.
            calls = open.position;
            builder.forget_calls();
        } else {
            self.index.truncate(open.key, open.position)?;
        }
        open.builder = Some(builder);
        self.events.send(Event::Truncate { telling: open.key, from, calls, is_append })
    }

    fn flush(&mut self, when: Flush) -> Result<()> {
        let open = &mut self.open[self.current];
        let Some(builder) = &mut open.builder else { return Ok(()) };
        let ready = match when {
            Flush::Full => builder.is_full(),
            Flush::Last => !builder.is_empty(),
        };
        if ready {
            let (telling, session) = (open.key, open.account.id.key());
            let chunk = Box::new(builder.pack(self.packer));
            let room = self.events.room_for(&chunk);
            self.events.send(Event::Chunk { telling, session, chunk, room })?;
        }
        Ok(())
    }

    fn index(&mut self, message: &Message) -> Result<()> {
        let open = &mut self.open[self.current];
        if open.account.kind == Kind::Copy {
            return Ok(());
        }
        self.index.message((open.key, open.position), message, &mut open.calls)
    }

    /// Tells the writer of a session, if there is news of it.
    fn tell(&mut self, at: usize) -> Result<()> {
        let open = &mut self.open[at];
        let changed = open.builder.is_some() || open.before.as_ref() != Some(&open.account);
        let (telling, fingerprint) = (open.key, open.fingerprint.take());
        if changed {
            self.events.send(Event::Telling(Box::new(Told {
                key: open.key,
                source: self.job.id,
                account: std::mem::take(&mut open.account),
                messages: open.position,
                is_new: open.before.is_none(),
            })))?;
        }
        match fingerprint {
            Some(fingerprint) => self.events.send(Event::Fingerprint { telling, fingerprint }),
            None => Ok(()),
        }
    }

    /// What was counted so far.
    fn counted(&self) -> Fingerprint {
        let Self { records, raw, ref skipped, .. } = *self;
        Fingerprint { value: 0, records, raw, skipped: skipped.clone() }
    }
}

/// How far what the journal has is taken for told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// What is told as before need not be told again.
    Full,
    /// Unless the journal cannot read it any more.
    Checked,
    /// Everything is told anew.
    None,
}

/// When a run is handed over.
#[derive(Clone, Copy)]
enum Flush {
    Full,
    Last,
}

impl Sink for Recorder<'_> {
    fn accept(&mut self, record: Record) -> Result<()> {
        match record {
            Record::Session(mut session) => {
                self.put_right(&mut session.started_at);
                self.put_right(&mut session.ended_at);
                self.session(*session)
            }
            Record::Message(mut message) => {
                self.put_right(&mut message.at);
                self.records += 1;
                if message.join_surplus() > 0 {
                    *self.skipped.entry(TOO_MANY_BLOCKS.to_owned()).or_default() += 1;
                }
                // Context that the program attached is known for what it is.
                let is_attached = message.origin == Origin::Injected;
                let is_other = |block: &Block| matches!(block, Block::Other(_));
                if !is_attached && message.blocks.iter().any(is_other) {
                    self.raw += 1;
                }
                self.message(*message)
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

    fn is_unchanged(&mut self, session: &SessionId, fingerprint: u64) -> Result<bool> {
        self.counted_before = self.counted();
        let is_open = self.by_id.get(session).is_some_and(|at| self.open[*at].position > 0);
        let Some(store) = self.store.filter(|_| self.trust == Trust::Full && !is_open) else {
            return Ok(false);
        };
        let key = telling_key(session, &self.job.source.path);
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

    fn finish_session(&mut self, session: &SessionId, fingerprint: u64) -> Result<()> {
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

/// The key of what one source tells of one session.
pub(crate) fn telling_key(session: &SessionId, path: &Path) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&session.key().to_le_bytes());
    hasher.update(path.as_os_str().as_encoded_bytes());
    hasher.digest() >> 1
}
