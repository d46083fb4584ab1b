//! Transcripts as plain text: `user:` and `assistant:` alone on a line open a block; calls of
//! tools follow as `[Tool call] Name` with indented arguments, results as `[Tool result] Name`.
//!
//! Arguments run over many lines that are not indented, so a block opens only after a blank
//! line, and never inside a query that has not been closed.

use std::path::Path;

use serde::Serializer;

use super::entry::Calls;
use super::{place, prompt};
use crate::connectors::formats::jsonl::{End, LINE_TOO_LONG, Lines};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Block, Json, Message, Origin, Role};

/// Reads a transcript of plain text.
pub(super) fn read(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let mut reader = Reader {
        sink,
        calls: Calls::default(),
        message: None,
        part: Part::None,
        after_blank: true,
        is_query_open: false,
    };
    let mut session = place::session(path);
    session.cwd = session.cwd.take().or_else(|| place::folder(path));
    reader.sink.accept(Record::Session(Box::new(session)))?;
    let mut lines = Lines::open(path, 0)?.with_all_values();
    while let Some(line) = lines.next()? {
        if line.end == End::TooLong {
            reader.sink.accept(Record::bad(line.offset, LINE_TOO_LONG))?;
            continue;
        }
        let text = String::from_utf8_lossy(line.bytes);
        let text = if line.offset == 0 { text.trim_start_matches('\u{feff}') } else { &text };
        reader.line(text)?;
    }
    reader.close()
}

struct Reader<'s> {
    sink: &'s mut dyn Sink,
    calls: Calls,
    message: Option<Message>,
    part: Part,
    after_blank: bool,
    is_query_open: bool,
}

/// What the lines being read belong to.
enum Part {
    None,
    Words(String),
    Thought(String),
    Call { name: String, body: String },
    Result { name: String, body: String },
}

impl Reader<'_> {
    fn line(&mut self, line: &str) -> Result<()> {
        let opens = self.after_blank && !self.is_query_open;
        self.after_blank = line.trim().is_empty();
        match line {
            "user:" if opens => return self.open(Role::User, Origin::Human),
            "assistant:" if opens => return self.open(Role::Assistant, Origin::Assistant),
            _ => {}
        }
        if self.role() == Some(Role::User) {
            self.note_query(line);
        } else if let Some(name) = line.strip_prefix("[Tool call] ") {
            return self.turn(Part::Call { name: name.trim().to_owned(), body: String::new() });
        } else if let Some(name) = line.strip_prefix("[Tool result]") {
            return self.turn(Part::Result { name: name.trim().to_owned(), body: String::new() });
        } else if let Some(thought) = line.strip_prefix("[Thinking]") {
            return self.turn(Part::Thought(thought.trim_start().to_owned() + "\n"));
        }
        self.add(line)
    }

    fn role(&self) -> Option<Role> {
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

    fn add(&mut self, line: &str) -> Result<()> {
        // Nobody says where reasoning ends; an answer must not be taken for it.
        if matches!(self.part, Part::Thought(_)) && line.trim().is_empty() {
            return self.turn(Part::Words(String::new()));
        }
        match &mut self.part {
            Part::None => self.part = Part::Words(format!("{line}\n")),
            Part::Words(text) | Part::Thought(text) => {
                text.push_str(line);
                text.push('\n');
            }
            Part::Call { body, .. } | Part::Result { body, .. } => {
                body.push_str(line);
                body.push('\n');
            }
        }
        Ok(())
    }

    /// Opens a message.
    fn open(&mut self, role: Role, origin: Origin) -> Result<()> {
        self.close()?;
        self.message = Some(Message { role, origin, ..Message::default() });
        if role == Role::User {
            self.calls.forget();
        }
        Ok(())
    }

    /// Ends the part being read and begins another.
    fn turn(&mut self, next: Part) -> Result<()> {
        let part = std::mem::replace(&mut self.part, next);
        let wanted = match (&part, self.role()) {
            (Part::None, _) => return Ok(()),
            (Part::Words(text) | Part::Thought(text), _) if text.trim().is_empty() => return Ok(()),
            (Part::Result { .. }, _) => Role::Tool,
            (_, Some(Role::Tool)) => Role::Assistant,
            (_, role) => role.unwrap_or(Role::System),
        };
        if self.role() != Some(wanted) {
            self.emit()?;
            let origin = match wanted {
                Role::Tool => Origin::Tool,
                Role::Assistant => Origin::Assistant,
                _ => Origin::System,
            };
            self.message = Some(Message { role: wanted, origin, ..Message::default() });
        }
        let Some(message) = &mut self.message else { return Ok(()) };
        push(part, message, &mut self.calls);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.turn(Part::None)?;
        self.is_query_open = false;
        self.emit()
    }

    fn emit(&mut self) -> Result<()> {
        let Some(mut message) = self.message.take() else { return Ok(()) };
        if message.blocks.is_empty() {
            return Ok(());
        }
        if message.role == Role::User {
            message.origin = prompt::unwrap(&mut message);
        }
        self.sink.accept(Record::Message(Box::new(message)))
    }
}

fn push(part: Part, message: &mut Message, calls: &mut Calls) {
    match part {
        Part::None => {}
        Part::Words(text) if message.role == Role::Assistant => {
            prompt::answer(&text, &mut message.blocks);
        }
        Part::Words(text) => message.blocks.push(Block::Text(text.trim().to_owned())),
        Part::Thought(text) => message.blocks.push(Block::Thinking(text.trim().to_owned())),
        Part::Call { name, body } => {
            let id = calls.ask(&name, None);
            message.blocks.push(Block::ToolCall { id, name, input: arguments(&body) });
        }
        Part::Result { name, body } => {
            let call_id = calls.answer(&name, None);
            let output = body.trim().to_owned();
            message.blocks.push(Block::ToolResult { call_id, output, is_error: None });
        }
    }
}

/// Reads `  key: value` lines (`key=value` in older builds); what follows a value without being
/// one of them continues it.
fn arguments(body: &str) -> Json {
    let mut pairs: Vec<(&str, String)> = Vec::new();
    for line in body.trim_end().lines() {
        match argument(line) {
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
    // Strings written to memory cannot fail.
    let _ = serializer.collect_map(pairs);
    serde_json::from_slice(&bytes).unwrap_or_else(|_| Json::from_value(&body))
}

fn argument(line: &str) -> Option<(&str, &str)> {
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
        let check = |body: &str, expected: &str| assert_eq!(arguments(body).as_str(), expected);
        check("  path: /a\n  limit: 3\n\n", r#"{"path":"/a","limit":"3"}"#);
        check("  text: one\ntwo\n  three\n", r#"{"text":"one\ntwo\n  three"}"#);
        check("  path=/a b\n", r#"{"path":"/a b"}"#);
        check("  text:\nuser:\n", r#"{"text":"\nuser:"}"#);
        check("  path: a\n  path: b\n", r#"{"path":"a\n  path: b"}"#);
        check("", "{}");
        check("loose words\n", r#"{"":"loose words"}"#);
    }
}
