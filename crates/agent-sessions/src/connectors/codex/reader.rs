//! Reads a rollout line by line and emits its messages.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::answer::OpenAnswer;
use super::branch::BranchState;
use super::items::PendingUserItem;
use super::line::{CodexItem, CodexLine, Compacted, ThreadMeta, TurnContext};
use super::prompt;
use super::usage::{Threads, Totals};
use super::{AGENT, RolloutFileName};
use crate::connectors::formats::files;
use crate::connectors::formats::json::{self, BorrowedText, FromOddValue};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::formats::source_file::SourceFile;
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::{Error, Result};
use crate::model::{Block, Extensions, Json, Message, Origin, Role, Session, Timestamp};

/// Size limit of a session document. The first versions wrote no larger ones.
const MAX_DOCUMENT: u64 = 256 << 20;

/// Number of texts remembered to detect their second record.
const MEMORY: usize = 16;

/// Records that hold state of Codex, or repeat events (`token_usage_record`).
const STATE: &[&str] = &["world_state", "inter_agent_communication_metadata", "token_usage_record"];

/// Reads a rollout from a checkpoint on.
pub(super) fn read_rollout(
    path: &Path,
    start: &Checkpoint,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let mut lines = LineReader::open_at(path, start.offset)?;
    let mut reader = RolloutReader::new(path, start, sink);
    while let Some(line) = lines.next_line()? {
        let is_whole = line.end != End::File;
        reader.read_rollout_line(&line)?;
        if is_whole {
            reader.end = lines.next_offset();
            if reader.sink.is_due() {
                break;
            }
        }
    }
    let RolloutMark { offset, emitted, state } = reader.finish_rollout()?;
    let state = serde_json::to_vec(&state).expect("strings and numbers serialise");
    Ok(Checkpoint {
        offset,
        guard: jsonl::checkpoint_guard(path, offset)?,
        messages: emitted,
        state,
        ..Checkpoint::default()
    })
}

/// Reads a compressed rollout, as far as it can be decompressed.
pub(super) fn read_compressed(path: &Path, sink: &mut dyn Sink) -> Result<Checkpoint> {
    let file = SourceFile::open(path).map_err(Error::read(path))?;
    read_packed(file, path, sink)
}

fn read_packed(input: impl Read + 'static, path: &Path, sink: &mut dyn Sink) -> Result<Checkpoint> {
    let decoder = zstd::Decoder::new(input).map_err(Error::read(path))?;
    let mut lines = LineReader::from_stream(Box::new(decoder), path);
    let mut reader = RolloutReader::new(path, &Checkpoint::default(), sink);
    loop {
        match lines.next_line() {
            Ok(Some(line)) => reader.read_rollout_line(&line)?,
            Ok(None) => break,
            Err(error) if jsonl::is_file_failure(&error) || reader.state.native.is_empty() => {
                return Err(error);
            }
            Err(_) => {
                let broken = Record::truncated_record(
                    reader.offset,
                    "compressed data is broken from here on",
                );
                reader.sink.accept_record(broken)?;
                break;
            }
        }
    }
    reader.finish_rollout()?;
    Ok(Checkpoint::default())
}

/// Reads a session of the first versions: one document with all items.
pub(super) fn read_first_generation_document(
    path: &Path,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    #[derive(Deserialize)]
    struct FirstGenerationDocument<'a> {
        #[serde(borrow)]
        session: &'a RawValue,
        #[serde(borrow)]
        items: Vec<&'a RawValue>,
    }
    let wrong = |what: &str| Error::Format { path: path.to_owned(), what: what.to_owned() };
    let text = files::small_text(path, MAX_DOCUMENT).ok_or_else(|| wrong("not a text file"))?;
    let document: FirstGenerationDocument<'_> =
        serde_json::from_str(&text).map_err(|_| wrong("not a session document"))?;
    let mut reader = RolloutReader::new(path, &Checkpoint::default(), sink);
    for (at, record) in std::iter::once(document.session).chain(document.items).enumerate() {
        let bytes = record.get().as_bytes();
        reader.read_rollout_line(&jsonl::SourceLine {
            offset: at as u64,
            bytes,
            end: End::Newline,
        })?;
    }
    reader.finish_rollout()?;
    Ok(Checkpoint::default())
}

/// The state of reading one rollout.
pub(super) struct RolloutReader<'s> {
    pub(super) sink: &'s mut dyn Sink,
    /// The file, and the parts of its name; while a referenced history is read, the name of that
    /// file.
    pub(super) path: PathBuf,
    pub(super) name: RolloutFileName,
    /// The threads whose files are being read as the history of this one.
    pub(super) forks: Vec<String>,
    /// Session metadata collected by this read.
    pub(super) session: Session,
    pub(super) state: RolloutState,
    is_introduced: bool,
    pub(super) emitted: u64,
    /// The current line: its offset, its time, and the extra fields of its envelope.
    pub(super) offset: u64,
    pub(super) now: Option<Timestamp>,
    pub(super) envelope: Extensions,
    /// The open answer, or the prompt whose event may follow. Never both.
    pub(super) open: Option<OpenAnswer>,
    pub(super) asked: Option<PendingUserItem>,
    /// End offset of the last complete line.
    end: u64,
    /// The position from which to continue when the last line is not complete.
    unfinished: Option<RolloutMark>,
}

/// Strictness of parsing a record.
#[derive(Clone, Copy)]
enum RecordStrictness {
    /// The structure that every known version writes.
    Strict,
    /// Field by field: an odd value costs only its field.
    Odd,
}

impl RecordStrictness {
    fn parse_with_strictness<'a, T>(self, bytes: &'a [u8]) -> Option<T>
    where
        T: Deserialize<'a> + FromOddValue<'a>,
    {
        match self {
            Self::Strict => serde_json::from_slice(bytes).ok(),
            Self::Odd => serde_json::from_slice(bytes).ok().or_else(|| json::parse_odd(bytes)),
        }
    }
}

/// A position from which a later read can continue, with the reader's state there.
#[derive(Clone)]
pub(super) struct RolloutMark {
    offset: u64,
    emitted: u64,
    state: RolloutState,
}

/// State carried from the lines before a checkpoint to those after it.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RolloutState {
    pub(super) native: String,
    /// The thread whose history this one begins with, if any.
    pub(super) origin: Option<String>,
    /// Whether the thread is a fork of `origin`.
    pub(super) is_fork: bool,
    /// Whether a message of this thread itself was emitted.
    pub(super) has_own: bool,
    pub(super) branch: BranchState,
    pub(super) threads: Threads,
    pub(super) totals: Option<Totals>,
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    pub(super) cwd: Option<String>,
    /// Number of answers emitted.
    pub(super) answers: u64,
    /// Hashes of texts emitted from their item, and of texts emitted from their event.
    pub(super) from_items: Vec<u64>,
    pub(super) from_events: Vec<u64>,
}

impl<'s> RolloutReader<'s> {
    fn new(path: &Path, start: &Checkpoint, sink: &'s mut dyn Sink) -> Self {
        let state: RolloutState = serde_json::from_slice(&start.state).unwrap_or_default();
        Self {
            sink,
            path: path.to_owned(),
            name: RolloutFileName::parse_rollout_name(path),
            forks: Vec::new(),
            session: Session::new(AGENT.id, state.native.clone()),
            state,
            is_introduced: false,
            emitted: start.messages,
            offset: start.offset,
            now: None,
            envelope: Extensions::new(),
            open: None,
            asked: None,
            end: start.offset,
            unfinished: None,
        }
    }

    fn finish_rollout(mut self) -> Result<RolloutMark> {
        let end =
            RolloutMark { offset: self.end, emitted: self.emitted, state: self.state.clone() };
        let pending = self.open.as_ref().map(|open| open.mark.clone());
        let pending = pending.or(self.asked.as_ref().map(|asked| asked.mark.clone()));
        let mark = self.unfinished.take().or(pending).unwrap_or(end);
        self.close_answer()?;
        if !self.state.native.is_empty() {
            self.sink.accept_record(Record::Session(Box::new(self.session)))?;
        }
        Ok(mark)
    }

    /// Returns the position from which a later read continues if the current line begins something
    /// incomplete.
    pub(super) fn continuation_mark(&self) -> RolloutMark {
        RolloutMark { offset: self.offset, emitted: self.emitted, state: self.state.clone() }
    }

    pub(super) fn read_rollout_line(&mut self, line: &jsonl::SourceLine<'_>) -> Result<()> {
        self.offset = line.offset;
        match line.end {
            End::Newline => {}
            End::TooLong => return self.report_unreadable_record(LINE_TOO_LONG),
            End::File => {
                let pending = self.open.as_ref().map(|open| &open.mark);
                let pending = pending.or(self.asked.as_ref().map(|asked| &asked.mark)).cloned();
                self.unfinished = Some(pending.unwrap_or_else(|| self.continuation_mark()));
            }
        }
        if jsonl::is_blank_line(line.bytes) {
            return Ok(());
        }
        if let Some(result) = self.read_structured_line(line.bytes, RecordStrictness::Strict) {
            return result;
        }
        let mended = jsonl::mend_line(line.bytes);
        for shape in [RecordStrictness::Strict, RecordStrictness::Odd] {
            if let Some(result) = self.read_structured_line(&mended, shape) {
                return result;
            }
        }
        match serde_json::from_slice::<&RawValue>(&mended) {
            // The payload is not an object, so the record is kept as it is.
            Ok(raw) if raw.get().starts_with('{') => {
                self.set_session_id(None);
                self.keep_raw_record(raw)
            }
            // A line that is still being written is read again when it is complete.
            _ if line.end == End::File => Ok(()),
            _ => self.report_unreadable_record("not a JSON object"),
        }
    }

    /// Reads a line of a known structure; `None` when it has none.
    fn read_structured_line(
        &mut self,
        bytes: &[u8],
        shape: RecordStrictness,
    ) -> Option<Result<()>> {
        let mut line: CodexLine<'_> = shape.parse_with_strictness(bytes)?;
        let at = line.timestamp.take();
        self.now = at.and_then(|text| Timestamp::parse_iso_time(text.as_borrowed_str()));
        self.envelope.clear();
        let Some(payload) = line.payload else {
            let item: CodexItem<'_> = shape.parse_with_strictness(bytes)?;
            return self.read_bare_record(item, bytes, shape);
        };
        json::keep_non_empty_fields(line.rest, &mut self.envelope);
        let kind = line.kind.as_ref().map_or("", BorrowedText::as_borrowed_str);
        if kind == "session_meta" {
            let meta: ThreadMeta<'_> = shape.parse_with_strictness(payload.get().as_bytes())?;
            return Some(self.read_session_meta(meta));
        }
        self.set_session_id(None);
        self.extend_session_span();
        match kind {
            "response_item" => {
                let item: CodexItem<'_> = shape.parse_with_strictness(payload.get().as_bytes())?;
                Some(self.read_item(item, payload))
            }
            "event_msg" => {
                let event = shape.parse_with_strictness(payload.get().as_bytes())?;
                Some(self.read_event(event, payload))
            }
            "turn_context" => {
                let turn: TurnContext<'_> =
                    shape.parse_with_strictness(payload.get().as_bytes())?;
                Some(self.read_turn_context(turn))
            }
            "compacted" => {
                let compacted: Compacted<'_> =
                    shape.parse_with_strictness(payload.get().as_bytes())?;
                Some(self.read_compacted_record(compacted))
            }
            kind if STATE.contains(&kind) => Some(self.pass_over_record(kind)),
            _ => Some(self.keep_raw_record(serde_json::from_slice(bytes).ok()?)),
        }
    }

    /// Reads a record without an envelope: an item of the first versions, or a flat message.
    fn read_bare_record(
        &mut self,
        mut item: CodexItem<'_>,
        bytes: &[u8],
        shape: RecordStrictness,
    ) -> Option<Result<()>> {
        if item.record_type.is_some() {
            return Some(self.pass_over_record("state"));
        }
        if item.kind.is_none() && item.role.is_none() && item.id.is_some() {
            return Some(self.read_session_meta(shape.parse_with_strictness(bytes)?));
        }
        let owner = item.session.take().and_then(|session| session.id);
        self.set_session_id(owner.as_ref().map(BorrowedText::as_borrowed_str));
        self.extend_session_span();
        if let Some(cwd) = item.cwd.take().map(BorrowedText::into_owned) {
            self.session.cwd.get_or_insert_with(|| cwd.clone());
            self.state.cwd = Some(cwd);
        }
        if let Some(model) = item.model.take().map(BorrowedText::into_owned) {
            self.session.model.get_or_insert_with(|| model.clone());
            self.state.model = Some(model);
        }
        if let Some(branch) = item.branch.take() {
            self.session.branch = Some(branch.into_owned());
            self.state.branch.is_recorded = true;
        }
        Some(self.read_item(item, serde_json::from_slice(bytes).ok()?))
    }

    fn read_compacted_record(&mut self, compacted: Compacted<'_>) -> Result<()> {
        let text = compacted.message.map(BorrowedText::into_owned).unwrap_or_default();
        if text.trim().is_empty() {
            self.close_answer()?;
            return self.pass_over_record("compacted");
        }
        let message = self.new_message_at_line(Role::User, Origin::Summary);
        self.emit_after_pending(Message { blocks: vec![Block::Text(text)], ..message })
    }

    /// Starts a message at the current line.
    pub(super) fn new_message_at_line(&mut self, role: Role, origin: Origin) -> Message {
        Message {
            uuid: Some(format!("{}@{}", self.file_thread(), self.offset)),
            role,
            origin,
            at: self.now,
            cwd: self.state.cwd.clone(),
            extensions: std::mem::take(&mut self.envelope),
            ..Message::default()
        }
    }

    /// Returns the thread of the file that is being read.
    fn file_thread(&self) -> &str {
        self.forks.last().unwrap_or(&self.state.native)
    }

    /// Extends the session's time span to the current line, unless the line is another session's.
    fn extend_session_span(&mut self) {
        if self.forks.is_empty() {
            self.session.extend_time_span(self.now);
        }
    }

    /// Keeps a record of unknown type as it is.
    pub(super) fn keep_raw_record(&mut self, raw: &RawValue) -> Result<()> {
        let message = self.new_message_at_line(Role::System, Origin::System);
        self.queue_trailing_message(Message {
            blocks: vec![Block::Other(Json::from(raw))],
            ..message
        })
    }

    /// Reports a record that has no content for the journal.
    pub(super) fn pass_over_record(&mut self, what: &str) -> Result<()> {
        if !self.forks.is_empty() {
            return Ok(());
        }
        self.sink.accept_record(Record::passed_over_record(self.offset, what.to_owned()))
    }

    /// Reports a record that could not be understood.
    fn report_unreadable_record(&mut self, why: &'static str) -> Result<()> {
        if !self.forks.is_empty() {
            return Ok(());
        }
        self.sink.accept_record(Record::unreadable_record(self.offset, why))
    }

    /// Emits a message after everything that is pending.
    pub(super) fn emit_after_pending(&mut self, message: Message) -> Result<()> {
        self.close_answer()?;
        self.emit_to_sink(message)
    }

    pub(super) fn emit_to_sink(&mut self, message: Message) -> Result<()> {
        if !self.is_introduced {
            self.is_introduced = true;
            self.sink.accept_record(Record::Session(Box::new(self.session.clone())))?;
        }
        self.emitted += 1;
        self.note_shared();
        self.sink.accept_record(Record::Message(Box::new(message)))
    }
}

/// Adds a text to a list of the last emitted texts.
pub(super) fn remember_emitted_text(texts: &mut Vec<u64>, text: &str) {
    if texts.len() == MEMORY {
        texts.remove(0);
    }
    texts.push(emitted_text_hash(text));
}

/// Returns whether a text was emitted, and removes it from the list: it can be repeated only once.
pub(super) fn forget_emitted_text(texts: &mut Vec<u64>, text: &str) -> bool {
    let place = texts.iter().position(|known| *known == emitted_text_hash(text));
    place.map(|place| texts.remove(place)).is_some()
}

fn emitted_text_hash(text: &str) -> u64 {
    xxh3_64(prompt::without_placeholders(text).trim().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// A reader that returns its data, then fails.
    struct Failing(io::Cursor<Vec<u8>>);

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::from_raw_os_error(5)),
                read => Ok(read),
            }
        }
    }

    #[derive(Default)]
    struct Records(Vec<Record>);

    impl Sink for Records {
        fn accept_record(&mut self, record: Record) -> Result<()> {
            self.0.push(record);
            Ok(())
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_no_broken_archive() {
        let meta =
            r#"{"timestamp":"2026-05-01T12:00:00Z","type":"session_meta","payload":{"id":"a"}}"#;
        let packed = zstd::encode_all(format!("{meta}\n").as_bytes(), 3).unwrap();
        // Two frames, so that the first line is out before the second ends too soon.
        let half = [&packed[..], &packed[..packed.len() - 4]].concat();
        let path = Path::new("rollout-2026-05-01T12-00-00-a.jsonl.zst");

        let mut records = Records::default();
        assert!(read_packed(io::Cursor::new(half.clone()), path, &mut records).is_ok());
        let is_broken = |record: &Record| matches!(record, Record::Skipped(one) if !one.understood);
        assert!(records.0.iter().any(is_broken), "{:?}", records.0);

        let mut records = Records::default();
        let failing = Failing(io::Cursor::new(half));
        assert!(read_packed(failing, path, &mut records).is_err());
        assert!(!records.0.iter().any(is_broken), "{:?}", records.0);
    }
}
