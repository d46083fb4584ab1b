//! Reads the transcript of a conversation without a database: one step per line. It has no ids of
//! tool calls and no tokens. After a rewind the steps that it replaced stay in the file.

use std::collections::VecDeque;
use std::path::Path;

use serde_json::value::RawValue;

use super::AGENT;
use super::place::{self, ConversationFiles};
use super::step::exit_code_of_output;
use crate::connectors::formats::json::{self, BorrowedText, lenient, lossless};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Block, Json, Message, Origin, Role, Session, Timestamp};

lossless! {
    /// One line of a transcript.
    struct TranscriptStep<'a> {
        "step_index" index: Option<u64>,
        "source" source: Option<BorrowedText<'a>>,
        "type" kind: Option<BorrowedText<'a>>,
        "status" status: Option<BorrowedText<'a>>,
        "created_at" created_at: Option<BorrowedText<'a>>,
        "content" content: Option<BorrowedText<'a>>,
        "thinking" thinking: Option<BorrowedText<'a>>,
        "tool_calls" tool_calls: Option<Vec<TranscriptCall<'a>>>,
    }
}

lenient! {
    struct TranscriptCall<'a> {
        "name" name: Option<BorrowedText<'a>>,
        "args" arguments: Option<&'a RawValue>,
    }
}

/// Reads a transcript and emits its session and messages.
pub(super) fn read_transcript(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let files = ConversationFiles::of_source(path);
    let mut session = Session::new(AGENT.id, files.native.clone());
    files.add_facts(&mut session);
    let mut reader = TranscriptLines { session, calls: VecDeque::new(), emitted: 0, sink };
    reader.emit_session()?;
    for part in place::transcript_parts(path) {
        reader.read_part(&part)?;
    }
    reader.emit_session()
}

/// A tool call that has no result yet.
struct OpenCall {
    id: String,
    /// Index of the step that has the result.
    step: Option<u64>,
}

struct TranscriptLines<'s> {
    session: Session,
    calls: VecDeque<OpenCall>,
    /// Number of messages emitted so far.
    emitted: u64,
    sink: &'s mut dyn Sink,
}

impl TranscriptLines<'_> {
    fn read_part(&mut self, path: &Path) -> Result<()> {
        let mut lines = LineReader::open_at(path, 0)?;
        while let Some(line) = lines.next_line()? {
            if line.end == End::TooLong {
                self.sink.accept_record(Record::unreadable_record(line.offset, LINE_TOO_LONG))?;
            } else if !jsonl::is_blank_line(line.bytes) {
                self.read_line(line.bytes, line.offset, line.end == End::Newline)?;
            }
        }
        Ok(())
    }

    fn read_line(&mut self, bytes: &[u8], at: u64, is_complete: bool) -> Result<()> {
        if let Ok(step) = serde_json::from_slice::<TranscriptStep<'_>>(bytes) {
            return self.read_step(step, bytes, at);
        }
        let mended = jsonl::mend_line(bytes);
        let step = serde_json::from_slice(&mended).ok().or_else(|| json::parse_odd(&mended));
        match step {
            Some(step) => self.read_step(step, &mended, at),
            // An incomplete last line is read again when it is complete.
            None if !is_complete => Ok(()),
            None => self.sink.accept_record(Record::unreadable_record(at, "not a JSON object")),
        }
    }

    fn read_step(&mut self, mut step: TranscriptStep<'_>, line: &[u8], at: u64) -> Result<()> {
        let time = step.created_at.as_ref().map(BorrowedText::as_borrowed_str);
        let mut message =
            Message { at: time.and_then(Timestamp::parse_iso_time), ..Message::default() };
        self.session.extend_time_span(message.at);
        json::keep_non_empty_fields(std::mem::take(&mut step.rest), &mut message.extensions);
        let text = |text: &Option<BorrowedText<'_>>| {
            text.as_ref().map_or("", BorrowedText::as_borrowed_str).to_owned()
        };
        let (source, kind) = (text(&step.source), text(&step.kind));
        let content = text(&step.content);
        let mut fill = |role: Role, origin: Origin, content: String| {
            (message.role, message.origin) = (role, origin);
            message.blocks.extend(non_empty(content).map(Block::Text));
        };
        match kind.as_str() {
            "USER_INPUT" if source != "USER_IMPLICIT" => {
                (message.role, message.origin) = (Role::User, Origin::Human);
                fill_prompt(&content, &mut message);
            }
            "PLANNER_RESPONSE" => self.fill_reply(step, &mut message),
            "CHECKPOINT" => fill(Role::User, Origin::Summary, content),
            "ERROR_MESSAGE" => {
                fill(Role::System, Origin::System, content);
                message.failed = true;
            }
            "USER_INPUT" | "SYSTEM_MESSAGE" | "EPHEMERAL_MESSAGE" | "CONVERSATION_HISTORY" => {
                fill(Role::User, Origin::Injected, content);
            }
            kind if !kind.is_empty() && source == "SYSTEM" => {
                fill(Role::User, Origin::Injected, content);
            }
            kind if !kind.is_empty() => self.fill_result(&step, &mut message),
            _ => {
                let raw = serde_json::from_slice::<&RawValue>(line).ok().map(Json::from);
                message.blocks.extend(raw.map(Block::Other));
                message.extensions.clear();
            }
        }
        if message.blocks.is_empty() {
            let reason = "a step without content";
            return self.sink.accept_record(Record::passed_over_record(at, reason));
        }
        self.emitted += 1;
        self.sink.accept_record(Record::Message(Box::new(message)))
    }

    fn fill_reply(&mut self, step: TranscriptStep<'_>, message: &mut Message) {
        (message.role, message.origin) = (Role::Assistant, Origin::Assistant);
        let owned = |text: Option<BorrowedText<'_>>| text.map(BorrowedText::into_owned);
        message.blocks.extend(owned(step.thinking).and_then(non_empty).map(Block::Thinking));
        message.blocks.extend(owned(step.content).and_then(non_empty).map(Block::Text));
        self.calls.clear();
        for (at, call) in step.tool_calls.into_iter().flatten().enumerate() {
            let id = format!("{}.{at}", self.emitted);
            let place = step.index.map(|index| index.saturating_add(at as u64 + 1));
            self.calls.push_back(OpenCall { id: id.clone(), step: place });
            let input = call.arguments.map_or_else(|| Json::from_value(&()), Json::from);
            message.blocks.push(Block::ToolCall {
                id,
                name: owned(call.name).unwrap_or_default(),
                input,
            });
        }
    }

    /// A result is the step that follows its call. A failed call may have none.
    fn fill_result(&mut self, step: &TranscriptStep<'_>, message: &mut Message) {
        (message.role, message.origin) = (Role::Tool, Origin::Tool);
        let output = step.content.as_ref().map_or("", BorrowedText::as_borrowed_str).to_owned();
        let place = self.calls.iter().position(|call| call.step == step.index);
        let call = self.calls.remove(place.unwrap_or(0));
        let is_error = match step.status.as_ref().map_or("", BorrowedText::as_borrowed_str) {
            "ERROR" | "CANCELED" => Some(true),
            "DONE" => Some(exit_code_of_output(&output).is_some_and(|code| code != 0)),
            _ => None,
        };
        let call_id = call.map(|call| call.id).unwrap_or_default();
        message.blocks.push(Block::ToolResult { call_id, output, is_error });
    }

    fn emit_session(&mut self) -> Result<()> {
        self.sink.accept_record(Record::Session(Box::new(self.session.clone())))
    }
}

/// Adds a prompt. The program encloses the typed text in tags and appends texts of its own.
fn fill_prompt(content: &str, message: &mut Message) {
    let (start, end) = ("<USER_REQUEST>", "</USER_REQUEST>");
    let enclosed = content.split_once(start).and_then(|(before, rest)| {
        let (typed, after) = rest.split_once(end)?;
        Some((typed.trim(), format!("{}{}", before.trim(), after.trim())))
    });
    let Some((typed, envelope)) = enclosed else {
        message.blocks.extend(non_empty(content.to_owned()).map(Block::Text));
        return;
    };
    message.blocks.extend(non_empty(typed.to_owned()).map(Block::Text));
    if !envelope.is_empty() {
        message.extensions.insert("envelope".to_owned(), Json::from_value(&envelope));
    }
}

fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
