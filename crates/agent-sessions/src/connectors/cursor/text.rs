//! Reads plain-text transcripts: `user:` or `assistant:` alone on a line opens a block; tool calls
//! follow as `[Tool call] Name` with indented arguments, results as `[Tool result] Name`.
//!
//! Arguments can continue over many lines that are not indented. Therefore a block opens only after
//! a blank line, and never inside an open query.

use std::path::Path;

use serde::Serializer;

use super::entry::OpenToolCalls;
use super::{place, prompt};
use crate::connectors::formats::jsonl::{End, LINE_TOO_LONG, LineReader};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Block, Json, Message, Origin, Role};

/// Reads a plain-text transcript and emits its session and messages.
pub(super) fn read_text_transcript(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let mut reader = TextTranscriptReader {
        sink,
        calls: OpenToolCalls::default(),
        message: None,
        part: TranscriptPart::None,
        after_blank: true,
        is_query_open: false,
    };
    let mut session = place::session_from_path(path);
    session.cwd = session.cwd.take().or_else(|| place::folder_by_slug(path));
    reader.sink.accept_record(Record::Session(Box::new(session)))?;
    let mut lines = LineReader::open_at(path, 0)?.with_all_values();
    while let Some(line) = lines.next_line()? {
        if line.end == End::TooLong {
            reader.sink.accept_record(Record::unreadable_record(line.offset, LINE_TOO_LONG))?;
            continue;
        }
        let text = String::from_utf8_lossy(line.bytes);
        let text = if line.offset == 0 { text.trim_start_matches('\u{feff}') } else { &text };
        reader.read_text_line(text)?;
    }
    reader.close_message()
}

struct TextTranscriptReader<'s> {
    sink: &'s mut dyn Sink,
    calls: OpenToolCalls,
    message: Option<Message>,
    part: TranscriptPart,
    after_blank: bool,
    is_query_open: bool,
}

/// The part of a message that the current lines belong to.
enum TranscriptPart {
    None,
    Words(String),
    Thought(String),
    Call { name: String, body: String },
    Result { name: String, body: String },
}

impl TextTranscriptReader<'_> {
    fn read_text_line(&mut self, line: &str) -> Result<()> {
        let opens = self.after_blank && !self.is_query_open;
        self.after_blank = line.trim().is_empty();
        match line {
            "user:" if opens => return self.open_message(Role::User, Origin::Human),
            "assistant:" if opens => return self.open_message(Role::Assistant, Origin::Assistant),
            _ => {}
        }
        if self.current_role() == Some(Role::User) {
            self.note_query(line);
        } else if let Some(name) = line.strip_prefix("[Tool call] ") {
            return self.begin_part(TranscriptPart::Call {
                name: name.trim().to_owned(),
                body: String::new(),
            });
        } else if let Some(name) = line.strip_prefix("[Tool result]") {
            return self.begin_part(TranscriptPart::Result {
                name: name.trim().to_owned(),
                body: String::new(),
            });
        } else if let Some(thought) = line.strip_prefix("[Thinking]") {
            return self
                .begin_part(TranscriptPart::Thought(thought.trim_start().to_owned() + "\n"));
        }
        self.add_part_line(line)
    }

    fn current_role(&self) -> Option<Role> {
        self.message.as_ref().map(|message| message.role)
    }

    fn note_query(&mut self, line: &str) {
        let last = |tag: &str| line.rfind(tag);
        match (last("<user_query>"), last("</user_query>")) {
            (Some(open), close) => self.is_query_open = close.is_none_or(|close| close < open),
            (None, Some(_)) => self.is_query_open = false,
            (None, None) => {}
        }
    }

    fn add_part_line(&mut self, line: &str) -> Result<()> {
        // The end of reasoning is not marked. A blank line ends it, so that no reply is taken for
        // reasoning.
        if matches!(self.part, TranscriptPart::Thought(_)) && line.trim().is_empty() {
            return self.begin_part(TranscriptPart::Words(String::new()));
        }
        match &mut self.part {
            TranscriptPart::None => self.part = TranscriptPart::Words(format!("{line}\n")),
            TranscriptPart::Words(text) | TranscriptPart::Thought(text) => {
                text.push_str(line);
                text.push('\n');
            }
            TranscriptPart::Call { body, .. } | TranscriptPart::Result { body, .. } => {
                body.push_str(line);
                body.push('\n');
            }
        }
        Ok(())
    }

    /// Closes the current message and opens another.
    fn open_message(&mut self, role: Role, origin: Origin) -> Result<()> {
        self.close_message()?;
        self.message = Some(Message { role, origin, ..Message::default() });
        if role == Role::User {
            self.calls.forget_open_calls();
        }
        Ok(())
    }

    /// Ends the current part and begins another.
    fn begin_part(&mut self, next: TranscriptPart) -> Result<()> {
        let part = std::mem::replace(&mut self.part, next);
        let wanted = match (&part, self.current_role()) {
            (TranscriptPart::None, _) => return Ok(()),
            (TranscriptPart::Words(text) | TranscriptPart::Thought(text), _)
                if text.trim().is_empty() =>
            {
                return Ok(());
            }
            (TranscriptPart::Result { .. }, _) => Role::Tool,
            (_, Some(Role::Tool)) => Role::Assistant,
            (_, role) => role.unwrap_or(Role::System),
        };
        if self.current_role() != Some(wanted) {
            self.emit_open_message()?;
            let origin = match wanted {
                Role::Tool => Origin::Tool,
                Role::Assistant => Origin::Assistant,
                _ => Origin::System,
            };
            self.message = Some(Message { role: wanted, origin, ..Message::default() });
        }
        let Some(message) = &mut self.message else { return Ok(()) };
        push_transcript_part(part, message, &mut self.calls);
        Ok(())
    }

    fn close_message(&mut self) -> Result<()> {
        self.begin_part(TranscriptPart::None)?;
        self.is_query_open = false;
        self.emit_open_message()
    }

    fn emit_open_message(&mut self) -> Result<()> {
        let Some(mut message) = self.message.take() else { return Ok(()) };
        if message.blocks.is_empty() {
            return Ok(());
        }
        if message.role == Role::User {
            message.origin = prompt::unwrap_user_message(&mut message);
        }
        self.sink.accept_record(Record::Message(Box::new(message)))
    }
}

fn push_transcript_part(part: TranscriptPart, message: &mut Message, calls: &mut OpenToolCalls) {
    match part {
        TranscriptPart::None => {}
        TranscriptPart::Words(text) if message.role == Role::Assistant => {
            prompt::push_answer_blocks(&text, &mut message.blocks);
        }
        TranscriptPart::Words(text) => message.blocks.push(Block::Text(text.trim().to_owned())),
        TranscriptPart::Thought(text) => {
            message.blocks.push(Block::Thinking(text.trim().to_owned()));
        }
        TranscriptPart::Call { name, body } => {
            let id = calls.add_tool_call(&name, None);
            message.blocks.push(Block::ToolCall { id, name, input: parse_argument_lines(&body) });
        }
        TranscriptPart::Result { name, body } => {
            let call_id = calls.take_tool_call_id(&name, None);
            let output = body.trim().to_owned();
            message.blocks.push(Block::ToolResult { call_id, output, is_error: None });
        }
    }
}

/// Parses `  key: value` lines (`key=value` in older builds). Any other line continues the value
/// before it.
fn parse_argument_lines(body: &str) -> Json {
    let mut pairs: Vec<(&str, String)> = Vec::new();
    for line in body.trim_end().lines() {
        match parse_argument_line(line) {
            Some((key, value)) if pairs.iter().all(|(known, _)| *known != key) => {
                pairs.push((key, value.to_owned()));
            }
            _ => match pairs.last_mut() {
                Some((_, value)) => {
                    value.push('\n');
                    value.push_str(line);
                }
                None if line.trim().is_empty() => {}
                None => pairs.push(("", line.to_owned())),
            },
        }
    }
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut bytes);
    // Writing strings to memory cannot fail.
    let _ = serializer.collect_map(pairs);
    serde_json::from_slice(&bytes).unwrap_or_else(|_| Json::from_value(&body))
}

fn parse_argument_line(line: &str) -> Option<(&str, &str)> {
    let inside = line.strip_prefix("  ")?;
    let end = inside.find(|one: char| !(one.is_ascii_alphanumeric() || one == '_'))?;
    let (key, rest) = inside.split_at(end);
    let value = rest.strip_prefix(": ").or_else(|| rest.strip_prefix('='));
    let value = value.or_else(|| (rest == ":").then_some(""))?;
    (!key.is_empty()).then_some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_arguments_run_over_lines_that_are_not_indented() {
        let check = |body: &str, expected: &str| {
            assert_eq!(parse_argument_lines(body).as_json_str(), expected);
        };
        check("  path: /a\n  limit: 3\n\n", r#"{"path":"/a","limit":"3"}"#);
        check("  text: one\ntwo\n  three\n", r#"{"text":"one\ntwo\n  three"}"#);
        check("  path=/a b\n", r#"{"path":"/a b"}"#);
        check("  text:\nuser:\n", r#"{"text":"\nuser:"}"#);
        check("  path: a\n  path: b\n", r#"{"path":"a\n  path: b"}"#);
        check("", "{}");
        check("loose words\n", r#"{"":"loose words"}"#);
    }
}
