//! Reads the entries of a session and emits their messages.
//!
//! A session is a tree: every entry names the entry before it, and a branch that was left stays in
//! the file. All messages are emitted in file order, with their parents.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::line::{PiEntry, PiMessage, keep_unmodeled_fields, owned_if_present};
use super::message::{self, ConvertedMessage};
use super::place::SessionFile;
use crate::connectors::formats::json::{self, BorrowedText};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::formats::parents::PassedParents;
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::{Error, Result};
use crate::model::{
    Block, Continuation, Json, Message, Session, SessionKind, Timestamp, TitleRank,
};

/// Entry types that hold state of the program, not conversation.
const STATE: &[&str] = &[
    "active_tools_change",
    "agent_status",
    "child_usage_attributed",
    "context_edit",
    "credential_pin",
    "custom",
    "git_state",
    "label",
    "leaf",
    "mode_change",
    "reset",
    "reset_boundary",
    "service_tier_change",
    "session_init",
    "session_state",
    "thinking_level_change",
    "ttsr_injection",
];

/// The reason reported for an entry that cannot be parsed.
const NO_OBJECT: &str = "not a JSON object";

/// Extension of a compressed session file.
const COMPRESSED: &str = "zst";

/// Reads a session file from a checkpoint on. A compressed one is read from its beginning.
pub(super) fn read_session_file(
    agent: &str,
    path: &Path,
    start: &Checkpoint,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let file = SessionFile::from_session_path(path);
    if path.extension().is_some_and(|extension| extension == COMPRESSED) {
        let lines = LineReader::open_compressed(path)?;
        let mut reader = EntryReader::new(agent, file, &Checkpoint::default(), sink)?;
        reader.read_archive(lines)?;
        return Ok(Checkpoint::default());
    }
    let mut reader = EntryReader::new(agent, file, start, sink)?;
    let mut lines = LineReader::open_at(path, start.offset)?;
    let mut end = start.offset;
    // The state before a last line that may be incomplete.
    let mut settled = None;
    while let Some(line) = lines.next_line()? {
        let is_complete = line.end != End::File;
        if !is_complete {
            settled = Some((reader.emitted, reader.encode_state()));
        }
        if line.end == End::TooLong {
            reader.sink.accept_record(Record::unreadable_record(line.offset, LINE_TOO_LONG))?;
        } else if !jsonl::is_blank_line(line.bytes) {
            reader.read_entry(line.bytes, line.offset, is_complete)?;
        }
        if is_complete {
            end = lines.next_offset();
            if reader.sink.is_due() {
                break;
            }
        }
    }
    reader.finish_session()?;
    let (messages, state) = settled.unwrap_or_else(|| (reader.emitted, reader.encode_state()));
    Ok(Checkpoint {
        offset: end,
        guard: jsonl::checkpoint_guard(path, end)?,
        messages,
        state,
        ..Checkpoint::default()
    })
}

/// The reason reported where compressed data ends too early.
const BROKEN_ARCHIVE: &str = "compressed data is broken from here on";

/// Reads the entries of one session.
pub(super) struct EntryReader<'s> {
    pub(super) sink: &'s mut dyn Sink,
    /// The session metadata found by this read.
    pub(super) session: Session,
    file: SessionFile,
    state: EntryReaderState,
    /// Entries with an id that became no message.
    passed: PassedParents,
    /// Whether this read starts at the beginning of the session.
    is_from_start: bool,
    /// Whether the session was emitted.
    is_open: bool,
    /// Number of messages emitted so far.
    emitted: u64,
}

/// Reader state that the entries after a checkpoint need.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct EntryReaderState {
    native: String,
    /// Whether the source is known to be a session.
    is_session: bool,
    has_header: bool,
    /// Time of the header. Older entries of a fork were copied.
    began: Option<Timestamp>,
    /// The session that the header names as the one before this.
    origin: Option<String>,
    /// Depth below the session that a person started, where the header has it.
    depth: u64,
    /// Number of messages copied from the origin.
    shared: u64,
    /// Whether an entry of its own was read.
    has_own: bool,
    /// The model in use.
    model: Option<String>,
}

/// A state as stored in a checkpoint.
#[derive(Default, Serialize, Deserialize)]
struct StoredReaderState {
    #[serde(default)]
    state: EntryReaderState,
    /// The records of `PassedParents` in Base64.
    #[serde(default)]
    passed: String,
}

impl<'s> EntryReader<'s> {
    /// Creates a reader that continues from a checkpoint.
    pub(super) fn new(
        agent: &str,
        file: SessionFile,
        start: &Checkpoint,
        sink: &'s mut dyn Sink,
    ) -> Result<Self> {
        let stored: StoredReaderState = serde_json::from_slice(&start.state).unwrap_or_default();
        let mut state = stored.state;
        if state.native.is_empty() {
            state.native.clone_from(&file.native);
            state.is_session = file.is_named_as_session;
        }
        let mut session = Session::new(agent, state.native.clone());
        if let Some(parent) = &file.parent {
            session.parent = Some(parent.clone());
            session.kind = SessionKind::Agent;
        }
        let passed = STANDARD.decode(&stored.passed).unwrap_or_default();
        let mut reader = Self {
            sink,
            session,
            file,
            state,
            passed: PassedParents::decode_records(&passed),
            is_from_start: start.offset == 0,
            is_open: false,
            emitted: start.messages,
        };
        if !reader.is_from_start && reader.is_any_session() {
            reader.open_session()?;
        }
        Ok(reader)
    }

    /// Encodes the state for a checkpoint at the current position.
    fn encode_state(&self) -> Vec<u8> {
        let passed = self.passed.encode_first(self.passed.record_count());
        let stored =
            StoredReaderState { state: self.state.clone(), passed: STANDARD.encode(passed) };
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// Emits the final metadata of the session, unless the source proved to be none.
    pub(super) fn finish_session(&mut self) -> Result<()> {
        let session = &mut self.session;
        match &self.state {
            EntryReaderState { origin: Some(origin), shared: messages @ 1.., .. } => {
                session.continues =
                    Some(Continuation { session: origin.clone(), messages: *messages });
            }
            EntryReaderState { origin: Some(origin), depth: 1.., .. } => {
                session.parent = Some(origin.clone());
                session.kind = SessionKind::Agent;
            }
            _ => {}
        }
        self.is_open = false;
        if self.is_any_session() { self.open_session() } else { Ok(()) }
    }

    /// Returns whether the source is a session, so far as it was read.
    fn is_any_session(&self) -> bool {
        self.state.is_session || self.emitted > 0
    }

    /// Emits the session that the following messages belong to.
    fn open_session(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_open, true) {
            return Ok(());
        }
        self.sink.accept_record(Record::Session(Box::new(self.session.clone())))
    }

    fn emit(&mut self, message: Message) -> Result<()> {
        self.open_session()?;
        if self.is_copied(message.at) {
            self.state.shared = self.emitted + 1;
        } else {
            self.state.has_own = true;
        }
        self.emitted += 1;
        self.sink.accept_record(Record::Message(Box::new(message)))
    }

    /// Returns whether an entry of this time was copied from the session before.
    fn is_copied(&self, at: Option<Timestamp>) -> bool {
        let EntryReaderState { origin, began, has_own, .. } = &self.state;
        origin.is_some() && !has_own && at.zip(*began).is_some_and(|(at, began)| at < began)
    }

    /// Reads the lines of a compressed session, as far as they can be decompressed.
    pub(super) fn read_archive(&mut self, mut lines: LineReader) -> Result<()> {
        loop {
            match lines.next_line() {
                Ok(Some(line)) if line.end == End::TooLong => {
                    let too_long = Record::unreadable_record(line.offset, LINE_TOO_LONG);
                    self.sink.accept_record(too_long)?;
                }
                Ok(Some(line)) if jsonl::is_blank_line(line.bytes) => {}
                Ok(Some(line)) => self.read_entry(line.bytes, line.offset, true)?,
                Ok(None) => break,
                Err(error) if self.emitted == 0 || jsonl::is_file_failure(&error) => {
                    return Err(error);
                }
                Err(_) => {
                    let broken = Record::truncated_record(lines.next_offset(), BROKEN_ARCHIVE);
                    self.sink.accept_record(broken)?;
                    break;
                }
            }
        }
        self.finish_session()
    }

    /// Reads one entry. `at` is its position in the source.
    pub(super) fn read_entry(&mut self, bytes: &[u8], at: u64, is_complete: bool) -> Result<()> {
        let bytes = jsonl::mend_escapes(bytes);
        if let Ok(entry) = serde_json::from_slice::<PiEntry<'_>>(&bytes) {
            return self.read_parsed_entry(entry, &bytes, at);
        }
        let mended = jsonl::mend_line(&bytes);
        if let Ok(entry) = serde_json::from_slice::<PiEntry<'_>>(&mended) {
            return self.read_parsed_entry(entry, &mended, at);
        }
        match json::parse_odd::<PiEntry<'_>>(&mended) {
            Some(entry) => self.read_parsed_entry(entry, &mended, at),
            // The last line may be incomplete: the next read starts with it again.
            None if !is_complete => Ok(()),
            None => self.sink.accept_record(Record::unreadable_record(at, NO_OBJECT)),
        }
    }

    fn read_parsed_entry(&mut self, entry: PiEntry<'_>, bytes: &[u8], at: u64) -> Result<()> {
        let kind = entry.kind.as_ref().map_or("", BorrowedText::as_borrowed_str).to_owned();
        let time = entry.entry_time();
        if !self.is_copied(time) {
            self.session.extend_time_span(time);
        }
        match kind.as_str() {
            "session" => self.read_header(entry, at),
            "message" => self.read_message(entry, bytes, at),
            "compaction" | "branch_summary" => self.read_summary(entry),
            "custom_message" => {
                let message = self.message_from_entry(&entry);
                let PiEntry { content, details, rest, .. } = entry;
                self.emit(message::convert_injected(content, details, rest, message))
            }
            "usage" | "model_usage" => self.read_usage(entry, at),
            "label" if entry.label.is_some() => self.read_label(entry),
            "session_info" => self.read_name(&entry, at),
            "title" | "title_change" => {
                self.add_title(entry.title.as_ref(), entry.source.as_ref());
                self.pass_over_entry(&entry, at, kind)
            }
            "model_change" => {
                let model = entry.model_id.as_ref().or(entry.model.as_ref());
                if let Some(model) = model.map(BorrowedText::as_borrowed_str) {
                    let name = model.split_once('/').map_or(model, |(_, name)| name);
                    self.state.model = Some(name.to_owned());
                }
                self.pass_over_entry(&entry, at, kind)
            }
            state if STATE.contains(&state) => self.pass_over_entry(&entry, at, kind),
            _ if self.is_any_session() => self.keep_unknown_entry(&entry, bytes, at),
            _ => {
                self.sink.accept_record(Record::unreadable_record(at, "not an entry of a session"))
            }
        }
    }

    fn read_header(&mut self, entry: PiEntry<'_>, at: u64) -> Result<()> {
        if std::mem::replace(&mut self.state.has_header, true) {
            return self.pass_over_entry(&entry, at, "repeated header".to_owned());
        }
        self.add_title(entry.title.as_ref(), entry.title_source.as_ref());
        self.state.is_session = true;
        self.state.began = entry.entry_time();
        self.state.depth = entry.depth.unwrap_or(u64::from(self.file.is_in_sub_agent_folder));
        if let Some(id) = owned_if_present(entry.id).filter(|_| !self.is_open) {
            self.state.native = self.file.native_id(&id);
            self.session.id.native.clone_from(&self.state.native);
        }
        let origin = owned_if_present(entry.parent_session.or(entry.branched_from));
        self.state.origin = origin.as_deref().map(|origin| self.file.named_session(origin));
        self.session.cwd = owned_if_present(entry.cwd);
        self.session.model = owned_if_present(entry.model_id).or(self.session.model.take());
        self.state.model.clone_from(&self.session.model);
        if let Some(origin) = origin {
            let origin = Json::from_value(&origin);
            self.session.extensions.insert("parentSession".to_owned(), origin);
        }
        keep_unmodeled_fields(entry.rest, &mut self.session.extensions);
        self.open_session()
    }

    /// Adds a title that a person chose or that the program generated.
    fn add_title(&mut self, title: Option<&BorrowedText<'_>>, source: Option<&BorrowedText<'_>>) {
        let is_chosen = source.is_some_and(|source| source.as_borrowed_str() == "user");
        let rank = if is_chosen { TitleRank::Renamed } else { TitleRank::Generated };
        self.session.add_title(rank, title.map_or("", BorrowedText::as_borrowed_str));
    }

    /// Reads the name of the session. An empty name removes an earlier one.
    fn read_name(&mut self, entry: &PiEntry<'_>, at: u64) -> Result<()> {
        let name = entry.name.as_ref().map_or("", BorrowedText::as_borrowed_str).trim();
        if !name.is_empty() {
            self.session.add_title(TitleRank::Renamed, name);
        } else if self.is_from_start {
            self.session.titles.retain(|title| title.rank != TitleRank::Renamed);
        } else {
            return Err(Error::StartOver);
        }
        self.pass_over_entry(entry, at, "session_info".to_owned())
    }

    fn read_message(&mut self, mut entry: PiEntry<'_>, bytes: &[u8], at: u64) -> Result<()> {
        let parsed = entry.message.and_then(|raw| json::parse_json::<PiMessage<'_>>(raw.get()));
        let Some(parsed) = parsed else { return self.keep_unknown_entry(&entry, bytes, at) };
        let mut envelope = self.message_from_entry(&entry);
        let identity = entry.call_identity();
        keep_unmodeled_fields(std::mem::take(&mut entry.rest), &mut envelope.extensions);
        match message::convert_message(parsed, envelope, identity) {
            ConvertedMessage::Messages(messages) => {
                for message in messages {
                    self.state.model = message.model.clone().or(self.state.model.take());
                    self.emit(message)?;
                }
                Ok(())
            }
            ConvertedMessage::SystemPrompt => {
                self.pass_over_entry(&entry, at, "system prompt".to_owned())
            }
            ConvertedMessage::Unknown => self.keep_unknown_entry(&entry, bytes, at),
        }
    }

    /// Reads a summary, with the model call that wrote it.
    fn read_summary(&mut self, mut entry: PiEntry<'_>) -> Result<()> {
        let mut message = self.message_from_entry(&entry);
        let identity = entry.call_identity();
        message.usage = entry.usage.take().and_then(|usage| usage.into_usage(identity));
        // An extension may use any model for its summaries.
        if message.usage.is_some() && entry.from_hook != Some(true) {
            message.model.clone_from(&self.state.model);
        }
        let PiEntry { summary, details, rest, .. } = entry;
        self.emit(message::convert_summary(summary, details, rest, message))
    }

    /// Reads a model call that is no part of the conversation.
    fn read_usage(&mut self, mut entry: PiEntry<'_>, at: u64) -> Result<()> {
        let identity = entry.call_identity();
        let usage = entry.usage.take().and_then(|usage| usage.into_usage(identity));
        if usage.is_none() {
            return self.pass_over_entry(&entry, at, "model call without tokens".to_owned());
        }
        let mut message = self.message_from_entry(&entry);
        message.usage = usage;
        message.model = owned_if_present(entry.model);
        keep_unmodeled_fields(entry.rest, &mut message.extensions);
        self.emit(message)
    }

    /// Reads a bookmark that a person set.
    fn read_label(&mut self, entry: PiEntry<'_>) -> Result<()> {
        let mut message = self.message_from_entry(&entry);
        message.blocks.extend(owned_if_present(entry.label).map(Block::Text));
        keep_unmodeled_fields(entry.rest, &mut message.extensions);
        self.emit(message)
    }

    /// Returns an empty message with the id, parent and time of an entry.
    fn message_from_entry(&self, entry: &PiEntry<'_>) -> Message {
        let parent = entry.parent.as_ref().map(|parent| parent.as_borrowed_str().to_owned());
        Message {
            uuid: owned_if_present(entry.id.clone()),
            parent: parent.and_then(|parent| self.passed.resolve_parent(parent)),
            at: entry.entry_time(),
            ..Message::default()
        }
    }

    /// Counts an entry that has no content for the journal. Messages that follow it follow the
    /// message before it.
    fn pass_over_entry(&mut self, entry: &PiEntry<'_>, at: u64, reason: String) -> Result<()> {
        if let Some(id) = &entry.id {
            let parent = entry.parent.as_ref().map(BorrowedText::as_borrowed_str);
            self.passed.add_passed_record(id.as_borrowed_str(), parent);
        }
        self.sink.accept_record(Record::passed_over_record(at, reason))
    }

    fn keep_unknown_entry(&mut self, entry: &PiEntry<'_>, bytes: &[u8], at: u64) -> Result<()> {
        let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) else {
            return self.sink.accept_record(Record::unreadable_record(at, NO_OBJECT));
        };
        let mut message = self.message_from_entry(entry);
        message.blocks.push(Block::Other(Json::from(raw)));
        self.emit(message)
    }
}
