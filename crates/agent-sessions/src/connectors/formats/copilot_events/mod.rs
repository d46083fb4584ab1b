//! Reads the event log of GitHub's Copilot runtime: one JSON event per line, append-only. Several
//! programs embed the runtime and write such logs, so the caller supplies the initial session.
//!
//! Peculiarities:
//! - `parentId` names the previous event, even if that was never written. Many parents are missing,
//!   so the file order applies unless the chain of parents is complete.
//! - A tool call is recorded three times: request, start and completion.
//! - Tokens are in up to three records.
//! - Crashes leave NULs, half a line before a complete one, and events cut by raw newlines.

mod about;
mod emit;
mod event;
mod order;
mod tools;
mod usage;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::event::CopilotEvent;
use self::order::RecentEvents;
use self::usage::CallState;
use super::json;
use super::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::Result;
use crate::model::{Block, Extensions, Json, Message, Session, TitleRank};

/// The bytes with which every event begins, used to find an event inside a damaged line.
const HEAD: &[u8] = br#"{"type":""#;

/// An event cut into more lines than this is given up.
const MAX_PIECES: usize = 256;

/// An event with more bytes than this, cut by raw newlines, is given up.
const MAX_BROKEN: usize = 4 << 20;

/// Limit of event starts tried in one damaged line. A line with more of them is text about events.
const MAX_HEADS: usize = 16;

/// Returns the identity of a model call, for the log and the store, which share no id of it: the
/// session's n-th call with this number of output tokens.
pub fn model_call_identity(native: &str, output: u64, count: u64) -> String {
    format!("{native} {output}#{count}")
}

pub use self::tools::{is_beginning, typed_part_of_prompt};

/// Name under which the summary is stored among a session's documents.
const SUMMARY: &str = "summary in workspace.yaml";

/// Reads a log from a checkpoint. `session` is the caller's metadata: at least the agent and an id,
/// which the first event of the log may correct.
pub fn read_event_log(
    path: &Path,
    start: Checkpoint,
    session: Session,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    if start.offset == 0
        && let Some(offsets) = order::chain_order(path)?
    {
        return read_in_order(path, &offsets, session, sink);
    }
    let mut reader = EventLogReader::new(start, session, sink);
    let mut lines = LineReader::open_at(path, reader.end)?;
    while let Some(line) = lines.next_line()? {
        if line.end == End::File && reader.mark.is_none() {
            reader.mark = Some(reader.log_mark_at(line.offset));
        }
        let is_whole = line.end != End::File;
        reader.read_event_line(&line)?;
        if is_whole {
            reader.end = lines.next_offset();
            // An event that raw newlines have cut is emitted when it is complete.
            if reader.broken.is_none() && reader.sink.is_due() {
                break;
            }
        }
    }
    reader.finish_event_log(path)
}

/// Reads the events of a log in an order other than the file's. The next read starts from the
/// beginning, because appended events may belong anywhere in that order.
fn read_in_order(
    path: &Path,
    offsets: &[u64],
    session: Session,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let mut reader = EventLogReader::new(Checkpoint::default(), session, sink);
    let mut lines = LineReader::open_at(path, 0)?;
    for offset in offsets {
        if lines.next_offset() != *offset {
            lines = LineReader::open_at(path, *offset)?;
        }
        let Some(line) = lines.next_line()? else { break };
        reader.read_event_line(&line)?;
    }
    reader.finish_event_log(path)?;
    Ok(Checkpoint::default())
}

/// Reads the events of one log and emits the session and its messages.
struct EventLogReader<'s> {
    sink: &'s mut dyn Sink,
    /// Session metadata as far as this read has found it.
    session: Session,
    is_session_emitted: bool,
    /// Whether an earlier read emitted the beginning of the log.
    is_continued: bool,
    files: HashSet<String>,
    state: EventLogState,
    emitted: u64,
    /// An event cut by raw newlines, as far as it was read.
    broken: Option<Broken>,
    /// The point from which a later read continues, if it is before the end.
    mark: Option<EventLogMark>,
    /// File offset after the last complete line.
    end: u64,
}

/// An event cut by raw newlines.
struct Broken {
    offset: u64,
    bytes: Vec<u8>,
    pieces: usize,
}

/// A point in the log from which a later read can continue.
struct EventLogMark {
    offset: u64,
    emitted: u64,
    state: EventLogState,
}

/// State that the events before a checkpoint leave for the events after it.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct EventLogState {
    /// Id of the session.
    native: String,
    /// Location of the work according to the log: first directory, repository and root, latest
    /// branch.
    cwd: Option<String>,
    repository: Option<String>,
    root: Option<String>,
    branch: Option<String>,
    /// Model in use, by the tool call that started the agent; "" is the main agent.
    models: BTreeMap<String, String>,
    /// Ids of emitted tool calls without a result.
    pending: Vec<String>,
    /// A reply that is held back until its tool calls start, because their start events add
    /// details.
    open: Option<Box<Message>>,
    /// Details of a tool call that arrived after its reply was emitted.
    late: BTreeMap<String, Extensions>,
    /// Ids of omitted tool calls, whose results are omitted too.
    ignored: Vec<String>,
    /// Beginning of the first prompt, at most `MAX_BEGINNING_CHARS` characters.
    first_prompt: Option<String>,
    /// A directory that the user trusted. Older logs name the working directory nowhere else.
    trusted: Option<String>,
    /// Current turn, by the tool call that started the agent.
    turns: BTreeMap<String, String>,
    /// The most recent events, to resolve parents.
    recent: RecentEvents,
    /// Usage state of the model calls.
    calls: CallState,
}

impl<'s> EventLogReader<'s> {
    fn new(start: Checkpoint, session: Session, sink: &'s mut dyn Sink) -> Self {
        let Checkpoint { offset, messages, state, .. } = start;
        let state: EventLogState = serde_json::from_slice(&state).unwrap_or_default();
        let mut reader = Self {
            sink,
            files: session.files.iter().cloned().collect(),
            session,
            is_session_emitted: false,
            is_continued: offset > 0,
            state,
            emitted: messages,
            broken: None,
            mark: None,
            end: offset,
        };
        if reader.state.native.is_empty() {
            reader.state.native.clone_from(&reader.session.id.native);
        } else {
            reader.session.id.native.clone_from(&reader.state.native);
        }
        reader.apply_logged_location();
        reader
    }

    /// Overrides the caller's location of the session with the one from the log.
    fn apply_logged_location(&mut self) {
        let (state, session) = (&self.state, &mut self.session);
        let places = [
            (&state.cwd, &mut session.cwd),
            (&state.repository, &mut session.repository),
            (&state.root, &mut session.root),
            (&state.branch, &mut session.branch),
        ];
        for (said, known) in places {
            if said.is_some() {
                known.clone_from(said);
            }
        }
    }

    fn log_mark_at(&self, offset: u64) -> EventLogMark {
        EventLogMark { offset, emitted: self.emitted, state: self.state.clone() }
    }

    fn finish_event_log(mut self, path: &Path) -> Result<Checkpoint> {
        if let Some(broken) = self.broken.take() {
            self.sink
                .accept_record(Record::unreadable_record(broken.offset, "not a JSON object"))?;
        }
        // A reply that is held back, or a call without a reply, is emitted now and again by the
        // next read.
        let mark = self.mark.take();
        let EventLogMark { offset, emitted, state } =
            mark.unwrap_or_else(|| self.log_mark_at(self.end));
        self.close_held_reply()?;
        self.emit_unclaimed()?;
        if self.session.cwd.is_none() {
            self.session.cwd.clone_from(&self.state.trusted);
        }
        self.add_caller_summary();
        self.emit_log_session()?;
        Ok(Checkpoint {
            offset,
            guard: jsonl::checkpoint_guard(path, offset)?,
            messages: emitted,
            state: serde_json::to_vec(&state).expect("strings and numbers serialise"),
            ..Checkpoint::default()
        })
    }

    /// Adds the caller's summary as a document, unless it only repeats the first prompt or a title.
    /// As a title alone it would be neither shown nor found once a better title exists.
    fn add_caller_summary(&mut self) {
        let titles = &self.session.titles;
        let summary = titles.iter().find(|title| title.rank == TitleRank::Summary);
        let Some(summary) = summary.map(|title| title.text.clone()) else { return };
        let prompt = self.state.first_prompt.as_deref();
        let is_title = titles
            .iter()
            .any(|title| title.rank < TitleRank::Summary && is_beginning(&summary, &title.text));
        if !is_title && !prompt.is_some_and(|prompt| is_beginning(&summary, prompt)) {
            self.session.documents.push((SUMMARY.to_owned(), summary));
        }
    }

    fn read_event_line(&mut self, line: &jsonl::SourceLine<'_>) -> Result<()> {
        if line.end == End::TooLong {
            return self.sink.accept_record(Record::unreadable_record(line.offset, LINE_TOO_LONG));
        }
        if let Some(broken) = self.broken.take()
            && !self.mend_broken(broken, line)?
        {
            return Ok(());
        }
        if jsonl::is_blank_line(line.bytes) {
            return Ok(());
        }
        if self.read_event_bytes(line.bytes, line.offset)? {
            return Ok(());
        }
        let mended = jsonl::mend_line(line.bytes);
        if jsonl::is_blank_line(&mended) || self.read_event_bytes(&mended, line.offset)? {
            return Ok(());
        }
        if let Some(event) = json::parse_odd::<CopilotEvent<'_>>(&mended) {
            return self.read_and_emit_event(event, &mended, line.offset);
        }
        self.read_damaged_line(&mended, line)
    }

    /// Reads a line that is not a complete object: a cut event followed by a complete one, or a
    /// part of an event.
    fn read_damaged_line(&mut self, bytes: &[u8], line: &jsonl::SourceLine<'_>) -> Result<()> {
        let heads: Vec<usize> = memchr::memmem::find_iter(bytes, HEAD).take(MAX_HEADS).collect();
        for head in heads.into_iter().filter(|head| *head > 0) {
            if serde_json::from_slice::<CopilotEvent<'_>>(&bytes[head..]).is_ok() {
                self.sink.accept_record(Record::unreadable_record(line.offset, "cut event"))?;
                self.read_event_bytes(&bytes[head..], line.offset + head as u64)?;
                return Ok(());
            }
        }
        if line.end == End::File {
            // An incomplete last line is read again when it is complete.
            return Ok(());
        }
        if !bytes.starts_with(b"{") {
            return self
                .sink
                .accept_record(Record::unreadable_record(line.offset, "not a JSON object"));
        }
        if self.mark.is_none() {
            self.mark = Some(self.log_mark_at(line.offset));
        }
        self.broken = Some(Broken { offset: line.offset, bytes: bytes.to_vec(), pieces: 1 });
        Ok(())
    }

    /// Appends a line to a cut event. Returns whether the line must still be read as an event of
    /// its own.
    fn mend_broken(&mut self, mut broken: Broken, line: &jsonl::SourceLine<'_>) -> Result<bool> {
        let fits = broken.bytes.len() + line.bytes.len() < MAX_BROKEN;
        if !fits || broken.pieces >= MAX_PIECES || begins_event(line.bytes) {
            self.mark = (line.end == End::File).then(|| self.log_mark_at(line.offset));
            self.sink
                .accept_record(Record::unreadable_record(broken.offset, "not a JSON object"))?;
            return Ok(true);
        }
        broken.bytes.extend_from_slice(br"\n");
        broken.bytes.extend_from_slice(&jsonl::mend_line(line.bytes));
        broken.pieces += 1;
        if !line.bytes.ends_with(b"}") || !self.read_event_bytes(&broken.bytes, broken.offset)? {
            self.broken = Some(broken);
        } else if line.end != End::File {
            self.mark = None;
        }
        Ok(false)
    }

    /// Reads an event. Returns `false` when the bytes are not an event.
    fn read_event_bytes(&mut self, bytes: &[u8], offset: u64) -> Result<bool> {
        let Ok(event) = serde_json::from_slice::<CopilotEvent<'_>>(bytes) else { return Ok(false) };
        self.read_and_emit_event(event, bytes, offset)?;
        Ok(true)
    }

    /// Emits an event of an unknown type as a raw JSON block.
    fn keep_unknown_event(&mut self, mut message: Message, raw: &RawValue) -> Result<()> {
        message.blocks.push(Block::Other(Json::from(raw)));
        self.emit_after_held_reply(message)
    }

    /// Emits a message, after the reply that is held back.
    fn emit_after_held_reply(&mut self, message: Message) -> Result<()> {
        self.close_held_reply()?;
        self.emit_event_message(message)
    }

    fn close_held_reply(&mut self) -> Result<()> {
        let Some(open) = self.state.open.take() else { return Ok(()) };
        self.emit_event_message(*open)
    }

    fn emit_event_message(&mut self, message: Message) -> Result<()> {
        if !self.is_session_emitted {
            self.emit_log_session()?;
        }
        self.emitted += 1;
        self.sink.accept_record(Record::Message(Box::new(message)))
    }

    fn emit_log_session(&mut self) -> Result<()> {
        self.is_session_emitted = true;
        self.sink.accept_record(Record::Session(Box::new(self.session.clone())))
    }

    fn pass_over_event(&mut self, offset: u64, kind: String) -> Result<()> {
        self.sink.accept_record(Record::passed_over_record(offset, kind))
    }
}

/// Returns whether a line is an event of its own rather than a part of a cut one.
fn begins_event(line: &[u8]) -> bool {
    line.starts_with(HEAD)
        || serde_json::from_slice::<CopilotEvent<'_>>(line)
            .is_ok_and(|event| event.kind.is_some() && event.data.is_some())
}
