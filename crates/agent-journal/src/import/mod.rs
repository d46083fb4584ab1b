//! Import of exported sessions and of web chats. Each imported session becomes one more recording. Recordings stay
//! in the journal after the file is gone, and their usage is counted only once.

mod web_chats;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::connectors::{self, Checkpoint, Source, Stamp};
use crate::error::{Error, Result};
use crate::export::schema::{DocumentMessage, Head};
use crate::export::{
    DocumentPart, Surveyed, Trouble, message_from_document, read_documents, session_from_head,
    survey_documents,
};
use crate::home_kind::HomeKind;
use crate::journal::Journal;
use crate::model::{Block, MAX_BLOCKS, Message, ModelCall, Session};
use crate::store::{
    ChunkBuilder, RecordingRow, SerializedMessage, SourceEnd, SourceHome, Store, Writer,
    reader_version,
};
use crate::sync::{Progress, TOO_MANY_BLOCKS, WriterLock, combine_changed, recording_key};

/// The longest accepted agent name, in bytes.
const LONGEST_NAME: usize = 64;

/// A file to import into the journal.
pub struct ImportSource<'f> {
    /// The path that identifies the file: importing the same path again replaces its earlier
    /// recordings.
    pub path: &'f Path,
    /// Opens the file, decompressed. It is called twice, because the file is read twice.
    pub open: &'f dyn Fn() -> io::Result<Box<dyn Read>>,
}

/// The counts of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// The number of sessions in the file.
    pub sessions: u64,
    /// The number of these sessions that the journal did not have.
    pub new: u64,
    /// The number of these sessions of which an earlier import of the same file had more messages.
    /// They stay as they were.
    pub kept: u64,
    /// The number of messages in the file.
    pub messages: u64,
    /// The number of conversations of a web chat that could not be read.
    #[serde(skip_serializing_if = "is_zero")]
    pub unread: u64,
    /// The reason why the index could not be updated. The sessions are in the journal all the same,
    /// and the next update of the index adds them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_error: Option<String>,
}

impl Journal {
    /// Imports a file of exported sessions: all of them, or none if one is invalid.
    pub fn import_file(
        &mut self,
        file: &ImportSource<'_>,
        wait: Duration,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<ImportReport> {
        let read_error = |source| Error::Read { path: file.path.to_owned(), source };
        let surveyed = if web_chats::is_chat_list(file.open_input()?).map_err(read_error)? {
            None
        } else {
            let surveyed = survey_documents(file.open_input()?);
            Some(surveyed.map_err(|what| file.import_error(what))?)
        };
        crate::private::private_directory(&self.config.journal_dir)?;
        let lock = self.config.journal_dir.join("lock");
        let taken = WriterLock::take(&lock, Some(wait), progress)?;
        let _lock = taken.ok_or(Error::Busy { path: lock })?;
        self.store = Some(Store::create(&self.path)?);
        let store = self.store.as_ref().ok_or(Error::Stopped)?;
        let mut arrival = {
            let mut desk = ImportDesk::new(store, file)?;
            match surveyed {
                Some(surveyed) => desk.take_documents(surveyed)?,
                None => desk.take_web_chats()?,
            }
            desk.finish_import()?
        };
        // The import makes the index older than the journal, so the index is updated from the
        // journal.
        arrival.index_error = self.update_index(progress).err().map(|error| error.with_causes());
        Ok(arrival)
    }
}

impl ImportSource<'_> {
    fn open_input(&self) -> Result<Box<dyn Read>> {
        (self.open)().map_err(|source| Error::Read { path: self.path.to_owned(), source })
    }

    fn import_error(&self, what: String) -> Error {
        Error::Import { path: self.path.to_owned(), what }
    }
}

/// The import of one file. All its sessions are written in one transaction.
struct ImportDesk<'a> {
    store: &'a Store,
    writer: Writer<'a>,
    file: &'a ImportSource<'a>,
    source: Source,
    /// The rows of the file as a source, one for each agent in the file.
    ends: BTreeMap<String, (i64, SourceEnd)>,
    open: Option<OpenImport>,
    arrival: ImportReport,
}

/// The session that is being imported.
struct OpenImport {
    session: Session,
    recording: u64,
    builder: ChunkBuilder,
    source: i64,
    is_new: bool,
    /// The branch named by the latest message that names one.
    branch: Option<String>,
}

impl<'a> ImportDesk<'a> {
    fn new(store: &'a Store, file: &'a ImportSource<'a>) -> Result<Self> {
        let size = std::fs::metadata(file.path).map_or(0, |metadata| metadata.len());
        // No agent works in an imported session, so it has no modification time.
        let stamp = Stamp { size, ..Stamp::default() };
        Ok(Self {
            store,
            writer: store.write()?,
            file,
            source: Source { path: file.path.to_owned(), stamp },
            ends: BTreeMap::new(),
            open: None,
            arrival: ImportReport::default(),
        })
    }

    fn take_documents(&mut self, surveyed: Vec<Surveyed>) -> Result<()> {
        let counts: Vec<u64> = surveyed.iter().map(|one| one.messages).collect();
        let mut counts = counts.into_iter();
        let input = self.file.open_input()?;
        let outcome = read_documents(input, surveyed, &mut |part| match part {
            DocumentPart::Head(head) => self.begin_import(*head, counts.next().unwrap_or_default()),
            DocumentPart::Message(message) => self.import_document_message(*message),
            DocumentPart::End => self.end_import(),
        });
        outcome.map_err(|trouble| self.import_trouble(trouble))
    }

    fn take_web_chats(&mut self) -> Result<()> {
        let input = self.file.open_input()?;
        let mut invalid = 0;
        let read = web_chats::read_web_chats(input, &mut |chat| {
            if !is_session_id(&chat.session.id.native) {
                invalid += 1;
                return Ok(());
            }
            let messages = chat.messages.len() as u64;
            self.begin_session(chat.session, Vec::new(), messages)?;
            for message in chat.messages {
                self.import_message(message)?;
            }
            self.end_import()
        });
        self.arrival.unread = invalid + read.map_err(|trouble| self.import_trouble(trouble))?;
        Ok(())
    }

    fn import_trouble(&self, trouble: Trouble) -> Error {
        match trouble {
            Trouble::File(what) => self.file.import_error(what),
            Trouble::Taker(error) => error,
        }
    }

    fn begin_import(&mut self, mut head: Head, messages: u64) -> Result<()> {
        let number = self.arrival.sessions + 1;
        if let Some(connector) = connectors::find_connector(&head.agent) {
            connector.agent().id.clone_into(&mut head.agent);
        }
        if let Some(what) = find_complaint(&head) {
            return Err(self.file.import_error(format!("session {number}: {what}")));
        }
        let calls = head.session.parse_notes().calls;
        self.begin_session(session_from_head(head), calls, messages)
    }

    fn begin_session(
        &mut self,
        session: Session,
        calls: Vec<ModelCall>,
        messages: u64,
    ) -> Result<()> {
        let recording = recording_key(&session.id, self.file.path);
        let known = self.store.stored_recording(recording, 0)?;
        let is_known = self.store.merged_metadata(session.id.session_key())?.is_some();
        self.arrival.sessions += 1;
        self.arrival.messages += messages;
        self.arrival.new += u64::from(!is_known);
        if known.as_ref().is_some_and(|known| known.hashes.len() > messages) {
            self.arrival.kept += 1;
            return Ok(());
        }
        self.writer.truncate(recording, 0, 0)?;
        self.writer.set_uncovered(recording)?;
        let source = self.source_row(&session.id.agent)?;
        self.import_calls(&session, source, calls)?;
        let is_new = known.is_none();
        let (builder, branch) = (ChunkBuilder::at(0), None);
        self.open = Some(OpenImport { session, recording, builder, source, is_new, branch });
        Ok(())
    }

    /// Imports the model calls that are in no message. They become a recording of their own, so
    /// that the figures of the session still equal the sums over its messages.
    fn import_calls(
        &mut self,
        session: &Session,
        source: i64,
        calls: Vec<ModelCall>,
    ) -> Result<()> {
        let key = recording_key(&session.id, &self.file.path.join("calls"));
        let is_new = self.store.metadata(key)?.is_none();
        if is_new && calls.is_empty() {
            return Ok(());
        }
        self.writer.calls(key, &session.id, calls)?;
        let account = Session { id: session.id.clone(), kind: session.kind, ..Session::default() };
        self.writer.write_recording(&RecordingRow {
            key,
            source,
            metadata: account,
            messages: 0,
            is_new,
        })
    }

    /// Returns the row of the file as a source of an agent, and inserts it if it does not exist.
    fn source_row(&mut self, agent: &str) -> Result<i64> {
        if let Some((row, _)) = self.ends.get(agent) {
            return Ok(*row);
        }
        let place = SourceHome { kind: HomeKind::Import, host: None };
        let row = self.writer.source(agent, &self.source, &place, reader_version(1))?;
        let end = SourceEnd {
            checkpoint: Checkpoint::default(),
            read_bytes: 0,
            records: 0,
            raw: 0,
            skipped: BTreeMap::new(),
            continued: false,
            error: None,
            recordings: None,
            pending: None,
            again: false,
        };
        self.ends.insert(agent.to_owned(), (row, end));
        Ok(row)
    }

    fn import_document_message(&mut self, message: DocumentMessage) -> Result<()> {
        let Some(open) = &self.open else { return Ok(()) };
        self.import_message(message_from_document(&open.session.id.agent, message))
    }

    fn import_message(&mut self, mut message: Message) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
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
        let packed = SerializedMessage::new(&message);
        open.builder.add(&open.session.id, &mut message, packed);
        // A large message is not needed while its chunk is compressed.
        drop(message);
        if open.builder.is_full() {
            let chunk = open.builder.pack(&self.writer.packer());
            self.writer.chunk(open.recording, open.session.id.session_key(), &chunk)?;
        }
        Ok(())
    }

    fn end_import(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        if !open.builder.is_empty() {
            let chunk = open.builder.pack(&self.writer.packer());
            self.writer.chunk(open.recording, open.session.id.session_key(), &chunk)?;
        }
        let branch = open.session.branch.take().or(open.branch);
        self.writer.write_recording(&RecordingRow {
            key: open.recording,
            source: open.source,
            metadata: Session { branch, ..open.session },
            messages: open.builder.next(),
            is_new: open.is_new,
        })
    }

    fn finish_import(mut self) -> Result<ImportReport> {
        for (row, end) in self.ends.values() {
            self.writer.source_end(*row, &self.source, end, reader_version(1))?;
        }
        combine_changed(self.store, &mut self.writer, None)?;
        self.writer.commit()?;
        Ok(self.arrival)
    }
}

/// Returns the reason why a well-formed head is invalid, or `None` if it is valid.
fn find_complaint(head: &Head) -> Option<String> {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    let agent = &head.agent;
    if agent.is_empty() || agent.len() > LONGEST_NAME || !agent.chars().all(is_plain) {
        return Some("`agent` is not a valid agent name".to_owned());
    }
    if !is_session_id(&head.session.id) {
        return Some("`session.id` is not a valid id".to_owned());
    }
    None
}

/// Returns whether a text can be the id of a session.
fn is_session_id(id: &str) -> bool {
    !id.trim().is_empty() && !id.contains(char::is_control)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
