//! Reads the lines of a journal or of a log of events.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::place::{self, KiroSource};
use super::{event, journal};
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::Result;
use crate::model::{Block, Json, Message, Session};

lenient! {
    struct KiroTextPart<'a> {
        "text" text: Option<BorrowedText<'a>>,
    }
}

/// The fields in the output of the tool for commands.
const COMMAND_FIELDS: &[&str] = &["exit_status", "stdout", "stderr"];

/// The outcome of converting a line.
pub(super) enum ConvertedLine {
    Message(Box<Message>),
    /// A line without content for the journal, with the reason.
    PassedOver(String),
    /// A line of an unknown form.
    Unknown,
    /// No JSON object.
    Unreadable,
}

/// State that the lines after a checkpoint need.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KiroLinesState {
    /// Whether a prompt was read.
    pub(super) has_prompt: bool,
    /// Id of the message that was read last.
    pub(super) last_id: Option<String>,
}

/// Reads a source from a checkpoint on.
pub(super) fn read_lines(
    agent: &str,
    path: &Path,
    kind: KiroSource,
    start: &Checkpoint,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let mut reader = KiroLines {
        session: place::session_of_source(agent, path),
        state: serde_json::from_slice(&start.state).unwrap_or_default(),
        emitted: start.messages,
        sink,
    };
    reader.emit_session()?;
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
            reader.read_line(line.bytes, line.offset, kind, is_complete)?;
        }
        if is_complete {
            end = lines.next_offset();
            if reader.sink.is_due() {
                break;
            }
        }
    }
    reader.emit_session()?;
    let (messages, state) = settled.unwrap_or_else(|| (reader.emitted, reader.encode_state()));
    Ok(Checkpoint {
        offset: end,
        guard: jsonl::checkpoint_guard(path, end)?,
        messages,
        state,
        ..Checkpoint::default()
    })
}

struct KiroLines<'s> {
    session: Session,
    state: KiroLinesState,
    /// Number of messages emitted so far.
    emitted: u64,
    sink: &'s mut dyn Sink,
}

impl KiroLines<'_> {
    fn read_line(
        &mut self,
        bytes: &[u8],
        at: u64,
        kind: KiroSource,
        is_complete: bool,
    ) -> Result<()> {
        let bytes = jsonl::mend_escapes(bytes);
        let convert = |bytes: &[u8], state: &mut KiroLinesState| match kind {
            KiroSource::Events => event::convert_line(bytes, state),
            _ => journal::convert_line(bytes, state),
        };
        let mut line = bytes.into_owned();
        let mut converted = convert(&line, &mut self.state);
        if matches!(converted, ConvertedLine::Unreadable) {
            line = jsonl::mend_line(&line);
            converted = convert(&line, &mut self.state);
        }
        match converted {
            ConvertedLine::Message(message) => self.emit(*message),
            ConvertedLine::PassedOver(reason) => {
                self.sink.accept_record(Record::passed_over_record(at, reason))
            }
            ConvertedLine::Unknown => match serde_json::from_slice::<&RawValue>(&line) {
                Ok(raw) => {
                    let blocks = vec![Block::Other(Json::from(raw))];
                    self.emit(Message { blocks, ..Message::default() })
                }
                Err(_) => self.skip_line(at),
            },
            // The last line may be incomplete: the next read starts with it again.
            ConvertedLine::Unreadable if !is_complete => Ok(()),
            ConvertedLine::Unreadable => self.skip_line(at),
        }
    }

    fn skip_line(&mut self, at: u64) -> Result<()> {
        self.sink.accept_record(Record::unreadable_record(at, "not a JSON object"))
    }

    fn emit(&mut self, message: Message) -> Result<()> {
        self.session.extend_time_span(message.at);
        self.emitted += 1;
        self.sink.accept_record(Record::Message(Box::new(message)))
    }

    fn emit_session(&mut self) -> Result<()> {
        self.sink.accept_record(Record::Session(Box::new(self.session.clone())))
    }

    fn encode_state(&self) -> Vec<u8> {
        serde_json::to_vec(&self.state).unwrap_or_default()
    }
}

/// Returns the text of a content that is a text or a list of parts, and its other parts.
pub(super) fn text_and_others(content: &RawValue) -> (String, Vec<Block>) {
    let text_of = |raw: &RawValue| {
        serde_json::from_str::<String>(raw.get()).ok().or_else(|| {
            let part = json::parse_json::<KiroTextPart<'_>>(raw.get())?;
            part.text.map(BorrowedText::into_owned)
        })
    };
    let parts = json::array_elements(content).unwrap_or_else(|| vec![content]);
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    for part in parts.into_iter().filter(|part| part.get() != "null") {
        match text_of(part) {
            Some(text) => texts.push(text),
            None => others.push(Block::Other(Json::from(part))),
        }
    }
    (texts.join("\n"), others)
}

/// The output of a tool as text.
pub(super) struct ToolOutput {
    pub(super) text: String,
    /// Whether it is that of a command with another exit code than 0.
    pub(super) has_failed: bool,
}

/// Converts the JSON that a tool returns. That of a command has its exit code and both streams.
pub(super) fn tool_output_of_json(raw: &RawValue) -> ToolOutput {
    let fields = json::object_fields(raw).unwrap_or_default();
    let is_command = fields.iter().any(|(name, _)| name == "exit_status")
        && fields.iter().all(|(name, _)| COMMAND_FIELDS.contains(&&**name));
    if !is_command {
        return ToolOutput { text: Json::from(raw).as_json_str().to_owned(), has_failed: false };
    }
    let text_of = |name: &str| {
        let (_, value) = fields.iter().find(|(field, _)| field == name)?;
        let text: Option<String> = serde_json::from_str(value.get()).ok();
        Some(text.unwrap_or_else(|| Json::from(*value).as_json_str().to_owned()))
    };
    // Older programs write `1`, newer ones `exit status: 1`.
    let status = text_of("exit_status").unwrap_or_default();
    let code: Option<i64> = status.rsplit(' ').next().and_then(|code| code.parse().ok());
    let has_failed = code.is_some_and(|code| code != 0);
    let mut parts = Vec::new();
    if has_failed {
        let is_code = status.parse::<i64>().is_ok();
        parts.push(if is_code { format!("exit status: {status}") } else { status });
    }
    parts.extend([text_of("stdout"), text_of("stderr")].into_iter().flatten());
    parts.retain(|part| !part.is_empty());
    ToolOutput { text: parts.join("\n"), has_failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_command_is_a_text() {
        let check = |json: &str, text: &str, has_failed: bool| {
            let raw: &RawValue = serde_json::from_str(json).unwrap();
            let output = tool_output_of_json(raw);
            assert_eq!((output.text.as_str(), output.has_failed), (text, has_failed), "{json}");
        };
        check(r#"{"exit_status":"0","stdout":"a","stderr":""}"#, "a", false);
        check(
            r#"{"exit_status":"exit status: 2","stdout":"a\n","stderr":"b"}"#,
            "exit status: 2\na\n\nb",
            true,
        );
        check(r#"{"exit_status":1}"#, "exit status: 1", true);
        check(r#"{"exit_status":"0","matches":[]}"#, r#"{"exit_status":"0","matches":[]}"#, false);
        check("7", "7", false);
    }
}
