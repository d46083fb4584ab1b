//! Reads declared files with one JSON value per line.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::DeclaredReader;
use super::convert::{self, ConvertedRecord};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::{Error, Result};
use crate::model::{Message, Session};

/// Number of lines in which the session's id is searched before the first message is emitted.
const LINES_BEFORE_ID: usize = 64;

/// Reader state that the lines after a checkpoint need.
#[derive(Clone, Default, Serialize, Deserialize)]
struct LineReaderState {
    /// Fingerprint of the declaration with which the lines before were read.
    declaration: u64,
    native: String,
    /// Whether a record names the session. Otherwise its id is the name of the file.
    is_named: bool,
}

/// Reads the lines of a file from a checkpoint on.
pub(super) fn read_lines(
    reader: DeclaredReader<'_>,
    start: &Checkpoint,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let path = reader.path;
    let state = if start.offset == 0 {
        let named = first_session_id(reader, path)?;
        let is_named = named.is_some();
        let native = named.unwrap_or_else(|| reader.file_stem());
        LineReaderState { declaration: reader.fingerprint, native, is_named }
    } else {
        let state: LineReaderState = serde_json::from_slice(&start.state).unwrap_or_default();
        if state.declaration != reader.fingerprint {
            return Err(Error::StartOver);
        }
        state
    };
    let mut sessions = LineSessions::new(reader, state, start, sink);
    let mut lines = LineReader::open_at(path, start.offset)?;
    let mut end = start.offset;
    // The number of messages before a last line that may be incomplete.
    let mut settled = None;
    while let Some(line) = lines.next_line()? {
        let is_complete = line.end != End::File;
        if !is_complete {
            settled = Some(sessions.emitted);
        }
        if line.end == End::TooLong {
            sessions.sink.accept_record(Record::unreadable_record(line.offset, LINE_TOO_LONG))?;
        } else if !jsonl::is_blank_line(line.bytes) {
            sessions.read_line(line.bytes, line.offset, is_complete)?;
        }
        if is_complete {
            end = lines.next_offset();
            let may_stop = !sessions.has_many && sessions.emitted > 0;
            if may_stop && sessions.sink.is_due() {
                break;
            }
        }
    }
    sessions.emit_session()?;
    if sessions.has_many || sessions.emitted == 0 {
        // The messages of several sessions alternate, so the file is read as a whole. Before the
        // first message, the facts of the session were not emitted.
        return Ok(Checkpoint::default());
    }
    Ok(Checkpoint {
        offset: end,
        guard: jsonl::checkpoint_guard(path, end)?,
        messages: settled.unwrap_or(sessions.emitted),
        state: serde_json::to_vec(&sessions.state).unwrap_or_default(),
        ..Checkpoint::default()
    })
}

/// Returns the first session id in the file.
fn first_session_id(reader: DeclaredReader<'_>, path: &Path) -> Result<Option<String>> {
    let mut lines = LineReader::open_at(path, 0)?;
    for _ in 0..LINES_BEFORE_ID {
        let Some(line) = lines.next_line()? else { break };
        if let Some(id) = parse_line(line.bytes).and_then(|record| reader.session_id(&record)) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

fn parse_line(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes)
        .or_else(|_| serde_json::from_slice(&jsonl::mend_line(&jsonl::mend_escapes(bytes))))
        .ok()
}

/// The sessions in a file of lines. Usually there is one.
struct LineSessions<'r, 's> {
    reader: DeclaredReader<'r>,
    sink: &'s mut dyn Sink,
    state: LineReaderState,
    session: Session,
    /// Whether this read continues an earlier one.
    is_continued: bool,
    /// Whether the session was emitted.
    is_open: bool,
    /// Number of messages emitted for the session.
    emitted: u64,
    /// Whether the file has messages of several sessions.
    has_many: bool,
}

impl<'r, 's> LineSessions<'r, 's> {
    fn new(
        reader: DeclaredReader<'r>,
        state: LineReaderState,
        start: &Checkpoint,
        sink: &'s mut dyn Sink,
    ) -> Self {
        let session = Session::new(&reader.declaration.id, state.native.clone());
        Self {
            reader,
            sink,
            state,
            session,
            is_continued: start.offset > 0,
            is_open: false,
            emitted: start.messages,
            has_many: false,
        }
    }

    fn read_line(&mut self, bytes: &[u8], at: u64, is_complete: bool) -> Result<()> {
        let Some(record) = parse_line(bytes).filter(Value::is_object) else {
            // The last line may be incomplete: the next read starts with it again.
            return if is_complete {
                self.sink.accept_record(Record::unreadable_record(at, "not a JSON object"))
            } else {
                Ok(())
            };
        };
        if let Some(id) = self.reader.session_id(&record).filter(|id| *id != self.session.id.native)
        {
            if self.is_continued && !self.state.is_named {
                return Err(Error::StartOver);
            }
            self.emit_session()?;
            self.session = Session::new(&self.reader.declaration.id, id);
            (self.is_open, self.has_many, self.emitted) = (false, true, 0);
        }
        let declaration = self.reader.declaration;
        let has_facts = convert::add_session_facts(declaration, &record, &mut self.session);
        match convert::convert_record(declaration, &record) {
            ConvertedRecord::Messages(messages) => {
                messages.into_iter().try_for_each(|message| self.emit_message(message))
            }
            ConvertedRecord::Empty => {
                self.sink.accept_record(Record::passed_over_record(at, "no content"))
            }
            ConvertedRecord::Unknown(_) if has_facts => {
                convert::keep_unnamed_session_fields(declaration, &record, &mut self.session);
                self.sink.accept_record(Record::passed_over_record(at, "facts of the session"))
            }
            ConvertedRecord::Unknown(reason) => {
                self.sink.accept_record(Record::unreadable_record(at, reason))
            }
        }
    }

    fn emit_message(&mut self, message: Message) -> Result<()> {
        self.session.extend_time_span(message.at);
        if !std::mem::replace(&mut self.is_open, true) {
            self.sink.accept_record(Record::Session(Box::new(self.session.clone())))?;
        }
        self.emitted += 1;
        self.sink.accept_record(Record::Message(Box::new(message)))
    }

    /// Emits the metadata of the session as far as it is known, if the session has messages.
    fn emit_session(&mut self) -> Result<()> {
        if self.emitted == 0 {
            return Ok(());
        }
        self.sink.accept_record(Record::Session(Box::new(self.session.clone())))
    }
}
