//! Reads the lines of a file and emits the messages of its session.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::about::{self, CopyOrigin};
use super::content;
use super::line::{KimiEvent, KimiLine, parse_line};
use super::place::KimiPlace;
use crate::connectors::formats::json;
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::formats::open_step::OpenStep;
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::Result;
use crate::model::{Block, Continuation, Json, Message, Session, Timestamp};

/// The reason reported for a line that cannot be parsed.
const NO_OBJECT: &str = "not a JSON object";

/// Key of the step of the session's own agent.
pub(super) const OWN_STEP: &str = "";

/// Reads a file from a checkpoint on.
pub(super) fn read_wire_file(
    agent: &str,
    path: &Path,
    start: &Checkpoint,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let place = KimiPlace::from_record_path(path);
    let mut reader = WireReader::new(agent, &place, start, sink)?;
    let mut lines = LineReader::open_at(path, start.offset)?;
    let mut end = start.offset;
    let mut is_at_end = true;
    // The state before a last line that may be incomplete.
    let mut settled = None;
    while let Some(line) = lines.next_line()? {
        let is_complete = line.end != End::File;
        if !is_complete {
            settled = Some(reader.opened.clone().unwrap_or_else(|| reader.mark(line.offset)));
        }
        if line.end == End::TooLong {
            reader.sink.accept_record(Record::unreadable_record(line.offset, LINE_TOO_LONG))?;
        } else if !jsonl::is_blank_line(line.bytes) {
            reader.read_line(line.bytes, line.offset, is_complete)?;
        }
        if is_complete {
            end = lines.next_offset();
            if reader.steps.is_empty() && reader.sink.is_due() {
                is_at_end = false;
                break;
            }
        }
    }
    let mark = settled.or(reader.opened.clone()).unwrap_or_else(|| reader.mark(end));
    reader.close_all_steps()?;
    reader.finish_session(is_at_end)?;
    Ok(Checkpoint {
        offset: mark.offset,
        guard: jsonl::checkpoint_guard(path, mark.offset)?,
        messages: mark.emitted,
        state: serde_json::to_vec(&mark.state).unwrap_or_default(),
        ..Checkpoint::default()
    })
}

/// Reads the lines of one session.
pub(super) struct WireReader<'s> {
    pub(super) sink: &'s mut dyn Sink,
    /// The session metadata found by this read.
    pub(super) session: Session,
    pub(super) state: WireReaderState,
    /// The session from which the first messages were copied.
    copied_from: Option<CopyOrigin>,
    /// Steps that have not ended, by the call that started their agent.
    steps: BTreeMap<String, OpenStep>,
    /// The position before the steps that have not ended.
    opened: Option<WireMark>,
    /// Position of the line that is being read.
    line_offset: u64,
    /// Whether the session was emitted.
    is_open: bool,
    /// Number of messages emitted so far.
    emitted: u64,
}

/// A position from which a later read can continue.
#[derive(Clone)]
struct WireMark {
    offset: u64,
    emitted: u64,
    state: WireReaderState,
}

/// Reader state that the lines after a checkpoint need.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct WireReaderState {
    /// The model in use.
    pub(super) model: Option<String>,
    /// The name of that model in the settings.
    pub(super) model_alias: Option<String>,
    /// Number of messages copied from another session.
    copied: u64,
    /// Whether the end of the copied records was read.
    is_fork_noted: bool,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
}

impl<'s> WireReader<'s> {
    fn new(
        agent: &str,
        place: &KimiPlace,
        start: &Checkpoint,
        sink: &'s mut dyn Sink,
    ) -> Result<Self> {
        let (session, copied_from) = about::session_metadata(agent, place);
        let mut reader = Self {
            sink,
            session,
            state: serde_json::from_slice(&start.state).unwrap_or_default(),
            copied_from,
            steps: BTreeMap::new(),
            opened: None,
            line_offset: start.offset,
            is_open: false,
            emitted: start.messages,
        };
        if reader.emitted > 0 {
            reader.open_session()?;
        }
        Ok(reader)
    }

    fn mark(&self, offset: u64) -> WireMark {
        WireMark { offset, emitted: self.emitted, state: self.state.clone() }
    }

    /// Emits the session that the following messages belong to.
    fn open_session(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_open, true) {
            return Ok(());
        }
        self.sink.accept_record(Record::Session(Box::new(self.session.clone())))
    }

    /// Emits the final metadata of the session. Its time span is complete only at the end: the
    /// times of copied records are not its own.
    fn finish_session(&mut self, is_at_end: bool) -> Result<()> {
        let copied = self.state.copied;
        if let Some(CopyOrigin::Fork(origin) | CopyOrigin::Import(origin)) = &self.copied_from
            && copied > 0
        {
            self.session.continues =
                Some(Continuation { session: origin.clone(), messages: copied });
        }
        let is_fork = matches!(self.copied_from, Some(CopyOrigin::Fork(_)));
        if is_at_end && (!is_fork || self.state.is_fork_noted) {
            self.session.extend_time_span(self.state.started_at);
            self.session.extend_time_span(self.state.ended_at);
        }
        self.is_open = false;
        if self.emitted > 0 { self.open_session() } else { Ok(()) }
    }

    fn read_line(&mut self, bytes: &[u8], at: u64, is_complete: bool) -> Result<()> {
        self.line_offset = at;
        let bytes = jsonl::mend_escapes(bytes);
        if let Some(line) = parse_line(&bytes) {
            return self.read_parsed_line(line, &bytes);
        }
        let mended = jsonl::mend_line(&bytes);
        match parse_line(&mended) {
            Some(line) => self.read_parsed_line(line, &mended),
            // The last line may be incomplete: the next read starts with it again.
            None if !is_complete => Ok(()),
            None => self.sink.accept_record(Record::unreadable_record(at, NO_OBJECT)),
        }
    }

    fn read_parsed_line(&mut self, line: KimiLine<'_>, bytes: &[u8]) -> Result<()> {
        let at = line.line_time();
        let span = [self.state.started_at, self.state.ended_at, at].into_iter().flatten();
        (self.state.started_at, self.state.ended_at) = (span.clone().min(), span.max());
        if line.role.is_some() {
            return self.read_context_message(&line, bytes);
        }
        let event = line.message.filter(|_| line.kind.is_none());
        match event.and_then(|raw| json::parse_json::<KimiEvent<'_>>(raw.get())) {
            Some(event) => self.read_event(&event, OWN_STEP, at, bytes),
            None => self.read_record(line, bytes),
        }
    }

    /// Reads a line that is a message as the model gets it.
    fn read_context_message(&mut self, line: &KimiLine<'_>, bytes: &[u8]) -> Result<()> {
        let role = line.role.as_ref().map_or("", |role| role.as_borrowed_str());
        if role.starts_with('_') {
            return self.pass_over(role.to_owned());
        }
        let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) else {
            return self.keep_unknown(bytes, None);
        };
        match json::parse_json(raw.get()).and_then(content::convert_message) {
            Some(message) => {
                self.push_message(OWN_STEP, Message { at: line.line_time(), ..message })
            }
            None => self.keep_unknown(bytes, None),
        }
    }

    /// Notes that everything read so far was copied from another session.
    pub(super) fn note_fork(&mut self) {
        self.state.copied = self.emitted;
        self.state.is_fork_noted = true;
        (self.state.started_at, self.state.ended_at) = (None, None);
    }

    /// Returns the step of an agent, and begins one if there is none.
    pub(super) fn open_step(&mut self, key: &str) -> &mut OpenStep {
        if !self.steps.contains_key(key) {
            self.begin_step(key, None);
        }
        self.steps.entry(key.to_owned()).or_default()
    }

    /// Reads a part of the reply: a text, reasoning or an image.
    pub(super) fn read_part(&mut self, part: &RawValue, key: &str, at: Option<Timestamp>) {
        let mut blocks = Vec::new();
        content::push_part(part, &mut blocks);
        self.open_step(key).add_blocks(blocks, at);
    }

    /// Returns the step of an agent that has not ended.
    pub(super) fn running_step(&mut self, key: &str) -> Option<&mut OpenStep> {
        self.steps.get_mut(key)
    }

    /// Begins a step; the step before it ends.
    pub(super) fn begin_step(&mut self, key: &str, id: Option<String>) {
        if self.opened.is_none() {
            self.opened = Some(self.mark(self.line_offset));
        }
        let mut step = OpenStep::begin(id);
        step.set_model(self.state.model.clone());
        if key != OWN_STEP {
            step.mark_as_sidechain();
        }
        self.steps.insert(key.to_owned(), step);
    }

    /// Emits the messages of a step.
    pub(super) fn close_step(&mut self, key: &str) -> Result<()> {
        let messages = self.steps.remove(key).map(OpenStep::into_messages).unwrap_or_default();
        if self.steps.is_empty() {
            self.opened = None;
        }
        for message in messages {
            self.push_message(OWN_STEP, message)?;
        }
        Ok(())
    }

    /// Emits the messages of all steps. Those of the session's own agent come last, because its
    /// calls started the others.
    pub(super) fn close_all_steps(&mut self) -> Result<()> {
        while let Some(key) = self.steps.keys().next_back().cloned() {
            self.close_step(&key)?;
        }
        Ok(())
    }

    /// Emits a message after the step that is running.
    pub(super) fn push_message(&mut self, key: &str, message: Message) -> Result<()> {
        let key = if self.steps.contains_key(key) { key } else { OWN_STEP };
        match self.steps.get_mut(key) {
            Some(step) => {
                step.add_follower(message);
                Ok(())
            }
            None => self.emit(message),
        }
    }

    fn emit(&mut self, message: Message) -> Result<()> {
        self.open_session()?;
        let is_import = matches!(self.copied_from, Some(CopyOrigin::Import(_)));
        // Imported messages have no times.
        if is_import && message.at.is_none() && self.state.copied == self.emitted {
            self.state.copied += 1;
        }
        self.emitted += 1;
        self.sink.accept_record(Record::Message(Box::new(message)))
    }

    /// Counts a line that has no content for the journal.
    pub(super) fn pass_over(&mut self, reason: String) -> Result<()> {
        self.sink.accept_record(Record::passed_over_record(self.line_offset, reason))
    }

    /// Keeps a line that is not understood.
    pub(super) fn keep_unknown(&mut self, bytes: &[u8], at: Option<Timestamp>) -> Result<()> {
        let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) else {
            let unreadable = Record::unreadable_record(self.line_offset, NO_OBJECT);
            return self.sink.accept_record(unreadable);
        };
        let blocks = vec![Block::Other(Json::from(raw))];
        self.push_message(OWN_STEP, Message { at, blocks, ..Message::default() })
    }
}
