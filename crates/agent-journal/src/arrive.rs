//! The journal's door inwards for what left another one: exported sessions come back, as one more
//! telling each. They are kept when the file is gone, and count what they spent only once.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::config::HomeKind;
use crate::connectors::{self, Checkpoint, Source, Stamp};
use crate::error::{Error, Result};
use crate::export::schema::{Head, Message};
use crate::export::{Part, Surveyed, Trouble, documents, survey, told_message, told_session};
use crate::journal::Journal;
use crate::model::{Block, MAX_BLOCKS, ModelCall, Session};
use crate::store::{ChunkBuilder, Packed, Place, SourceEnd, Store, Told, Writer};
use crate::sync::{
    Lock, Progress, Sync, SyncOptions, TOO_MANY_BLOCKS, combine_changed, telling_key,
};

/// The longest name of an agent that is believed.
const LONGEST_NAME: usize = 64;

/// A file on its way into the journal.
pub struct Arriving<'f> {
    /// What the file is known by: the same name again replaces what it told before.
    pub path: &'f Path,
    /// Opens it, unpacked; it is read twice.
    pub open: &'f dyn Fn() -> io::Result<Box<dyn Read>>,
}

/// What came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Arrival {
    /// Sessions in the file.
    pub sessions: u64,
    /// Of those, how many the journal did not have.
    pub new: u64,
    /// Of those, how many an earlier import of the file told more of: they stay as they were.
    pub kept: u64,
    /// Messages in the file.
    pub messages: u64,
}

impl Journal {
    /// Takes in a file of exported sessions: all of them, or none when something is wrong.
    pub fn import(
        &mut self,
        file: &Arriving<'_>,
        wait: Duration,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Arrival> {
        let surveyed = survey(file.input()?).map_err(|what| file.wrong(what))?;
        crate::store::private_directory(&self.config.journal_dir)?;
        let lock = self.config.journal_dir.join("lock");
        let taken = Lock::take(&lock, Some(wait), progress)?;
        let _lock = taken.ok_or(Error::Busy { path: lock })?;
        self.store = Some(Store::create(&self.path)?);
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        let arrival = {
            let mut desk = Desk::new(store, file)?;
            desk.take_all(surveyed)?;
            desk.finish()?
        };
        let (config, store_path) = (&self.config, &self.path);
        let options = SyncOptions::default();
        // What came in makes the index older than the journal: that is mended from the journal.
        Sync { config, store, store_path, options, progress }.open_index()?.close()?;
        Ok(arrival)
    }
}

impl Arriving<'_> {
    fn input(&self) -> Result<Box<dyn Read>> {
        (self.open)().map_err(|source| Error::Read { path: self.path.to_owned(), source })
    }

    fn wrong(&self, what: String) -> Error {
        Error::Import { path: self.path.to_owned(), what }
    }
}

/// Where a file is taken in: everything it tells is one transaction.
struct Desk<'a> {
    store: &'a Store,
    writer: Writer<'a>,
    file: &'a Arriving<'a>,
    source: Source,
    /// The rows of the file as a source, one for each agent it tells of.
    ends: BTreeMap<String, (i64, SourceEnd)>,
    open: Option<Open>,
    arrival: Arrival,
}

/// The session that is being told.
struct Open {
    session: Session,
    telling: u64,
    builder: ChunkBuilder,
    source: i64,
    is_new: bool,
    /// The latest branch that a message names.
    branch: Option<String>,
}

impl<'a> Desk<'a> {
    fn new(store: &'a Store, file: &'a Arriving<'a>) -> Result<Self> {
        let size = std::fs::metadata(file.path).map_or(0, |metadata| metadata.len());
        // Nobody is working in a session that comes from elsewhere: it has no time of change.
        let stamp = Stamp { size, ..Stamp::default() };
        Ok(Self {
            store,
            writer: store.write()?,
            file,
            source: Source { path: file.path.to_owned(), stamp },
            ends: BTreeMap::new(),
            open: None,
            arrival: Arrival::default(),
        })
    }

    fn take_all(&mut self, surveyed: Vec<Surveyed>) -> Result<()> {
        let counts: Vec<u64> = surveyed.iter().map(|one| one.messages).collect();
        let mut counts = counts.into_iter();
        let input = self.file.input()?;
        let told = documents(input, surveyed, &mut |part| match part {
            Part::Head(head) => self.begin(*head, counts.next().unwrap_or_default()),
            Part::Message(message) => self.message(*message),
            Part::End => self.end(),
        });
        told.map_err(|trouble| match trouble {
            Trouble::File(what) => self.file.wrong(what),
            Trouble::Taker(error) => error,
        })
    }

    fn begin(&mut self, mut head: Head, messages: u64) -> Result<()> {
        let number = self.arrival.sessions + 1;
        if let Some(connector) = connectors::find(&head.agent) {
            connector.agent().id.clone_into(&mut head.agent);
        }
        if let Some(what) = complaint(&head) {
            return Err(self.file.wrong(format!("session {number}: {what}")));
        }
        let calls = head.session.notes().calls;
        let session = told_session(head);
        let telling = telling_key(&session.id, self.file.path);
        let known = self.store.telling(telling, 0)?;
        let is_known = self.store.whole_account(session.id.key())?.is_some();
        self.arrival.sessions += 1;
        self.arrival.messages += messages;
        self.arrival.new += u64::from(!is_known);
        if known.as_ref().is_some_and(|known| known.hashes.len() > messages) {
            self.arrival.kept += 1;
            return Ok(());
        }
        self.writer.truncate(telling, 0, 0)?;
        self.writer.set_uncovered(telling)?;
        let source = self.row(&session.id.agent)?;
        self.calls(&session, source, calls)?;
        let is_new = known.is_none();
        let (builder, branch) = (ChunkBuilder::at(0), None);
        self.open = Some(Open { session, telling, builder, source, is_new, branch });
        Ok(())
    }

    /// Takes in the calls that stand in no message: a telling of their own, so that the session's
    /// own sums stay what its messages say.
    fn calls(&mut self, session: &Session, source: i64, calls: Vec<ModelCall>) -> Result<()> {
        let key = telling_key(&session.id, &self.file.path.join("calls"));
        let is_new = self.store.account(key)?.is_none();
        if is_new && calls.is_empty() {
            return Ok(());
        }
        self.writer.calls(key, &session.id, calls)?;
        let account = Session { id: session.id.clone(), kind: session.kind, ..Session::default() };
        self.writer.telling(&Told { key, source, account, messages: 0, is_new })
    }

    /// The row of the file as a source of an agent.
    fn row(&mut self, agent: &str) -> Result<i64> {
        if let Some((row, _)) = self.ends.get(agent) {
            return Ok(*row);
        }
        let place = Place { kind: HomeKind::Import, host: None };
        let row = self.writer.source(agent, &self.source, &place)?;
        let end = SourceEnd {
            checkpoint: Checkpoint::default(),
            records: 0,
            raw: 0,
            skipped: BTreeMap::new(),
            continued: false,
            error: None,
            told: None,
            pending: None,
            again: false,
        };
        self.ends.insert(agent.to_owned(), (row, end));
        Ok(row)
    }

    fn message(&mut self, message: Message) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut message = told_message(&open.session.id.agent, message);
        message.join_surplus();
        if let Some((_, end)) = self.ends.get_mut(&open.session.id.agent) {
            end.records += 1;
            if message.blocks.len() > MAX_BLOCKS {
                *end.skipped.entry(TOO_MANY_BLOCKS.to_owned()).or_default() += 1;
            }
            let is_raw = |block: &Block| matches!(block, Block::Other(_));
            end.raw += u64::from(message.blocks.iter().any(is_raw));
        }
        open.branch = message.branch.clone().or(open.branch.take());
        let packed = Packed::new(&message);
        open.builder.add(&open.session.id, &mut message, &packed);
        if open.builder.is_full() {
            let chunk = open.builder.pack(&self.writer.packer());
            self.writer.chunk(open.telling, open.session.id.key(), &chunk)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        if !open.builder.is_empty() {
            let chunk = open.builder.pack(&self.writer.packer());
            self.writer.chunk(open.telling, open.session.id.key(), &chunk)?;
        }
        let branch = open.session.branch.take().or(open.branch);
        self.writer.telling(&Told {
            key: open.telling,
            source: open.source,
            account: Session { branch, ..open.session },
            messages: open.builder.next(),
            is_new: open.is_new,
        })
    }

    fn finish(mut self) -> Result<Arrival> {
        for (row, end) in self.ends.values() {
            self.writer.source_end(*row, &self.source, end)?;
        }
        combine_changed(self.store, &mut self.writer, None)?;
        self.writer.commit()?;
        Ok(self.arrival)
    }
}

/// What is wrong with a head whose shape is right.
fn complaint(head: &Head) -> Option<String> {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    let agent = &head.agent;
    if agent.is_empty() || agent.len() > LONGEST_NAME || !agent.chars().all(is_plain) {
        return Some("`agent` is no name of an agent".to_owned());
    }
    let id = &head.session.id;
    if id.trim().is_empty() || id.contains(char::is_control) {
        return Some("`session.id` is no id".to_owned());
    }
    None
}
