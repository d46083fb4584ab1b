//! Reads a session file of the versions before the database: a line about the session, then a line
//! for each message. Messages are appended.

use std::path::Path;

use serde_json::value::RawValue;

use super::message::{GooseMessage, MessageConverter};
use super::store::message_time;
use super::{AGENT, unique_id};
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Message, Session, TitleRank, Tokens, Usage};

lenient! {
    /// The first line of a file, or one of a message.
    struct GooseLine<'a> {
        "description" description: Option<BorrowedText<'a>>,
        "working_dir" directory: Option<BorrowedText<'a>>,
        "accumulated_input_tokens" input: Option<u64>,
        "accumulated_output_tokens" output: Option<u64>,
        "id" id: Option<BorrowedText<'a>>,
        "role" role: Option<BorrowedText<'a>>,
        "created" created: Option<f64>,
        "content" content: Option<&'a RawValue>,
        "metadata" metadata: Option<&'a RawValue>,
    }
}

/// Reads a session file. The program rewrites its first line, so that a file is always read from its
/// beginning.
pub(super) fn read_session_file(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let session = Session::new(AGENT.id, unique_id(&stem, None));
    let mut reader =
        GooseFileReader { session, sums: None, converter: MessageConverter::default(), sink };
    let mut lines = LineReader::open_at(path, 0)?;
    reader.emit_session()?;
    while let Some(line) = lines.next_line()? {
        if line.end == End::TooLong {
            reader.sink.accept_record(Record::unreadable_record(line.offset, LINE_TOO_LONG))?;
        } else if !jsonl::is_blank_line(line.bytes) {
            reader.read_line(line.bytes, line.offset, line.end != End::File)?;
        }
    }
    reader.emit_sums()?;
    reader.emit_session()
}

struct GooseFileReader<'s> {
    session: Session,
    /// The sums of the session.
    sums: Option<Usage>,
    converter: MessageConverter,
    sink: &'s mut dyn Sink,
}

impl GooseFileReader<'_> {
    fn emit_session(&mut self) -> Result<()> {
        self.sink.accept_record(Record::Session(Box::new(self.session.clone())))
    }

    fn read_line(&mut self, bytes: &[u8], at: u64, is_complete: bool) -> Result<()> {
        let mended = jsonl::mend_line(bytes);
        let text = String::from_utf8_lossy(&mended);
        let Some(line) = json::parse_json::<GooseLine<'_>>(&text) else {
            if !is_complete {
                return Ok(());
            }
            return self.sink.accept_record(Record::unreadable_record(at, "not a JSON object"));
        };
        match line.content {
            Some(content) => self.read_message(&line, content),
            None if line.role.is_none() => self.read_description(&line, at),
            None => {
                self.sink.accept_record(Record::unreadable_record(at, "a message has no content"))
            }
        }
    }

    fn read_description(&mut self, line: &GooseLine<'_>, at: u64) -> Result<()> {
        let owned = |text: &Option<BorrowedText<'_>>| {
            text.as_ref()
                .map(|text| text.as_borrowed_str().to_owned())
                .filter(|text| !text.is_empty())
        };
        self.session.add_title(TitleRank::Generated, owned(&line.description).unwrap_or_default());
        self.session.cwd = owned(&line.directory);
        let (input, output) = (line.input.unwrap_or(0), line.output.unwrap_or(0));
        let tokens = Tokens { input, output, ..Tokens::default() };
        self.sums = tokens.is_known().then(|| Usage {
            identity: Some(self.session.id.to_string()),
            tokens,
            ..Usage::default()
        });
        self.sink.accept_record(Record::passed_over_record(at, "description of the session"))
    }

    fn read_message(&mut self, line: &GooseLine<'_>, content: &RawValue) -> Result<()> {
        let at = line.created.and_then(|seconds| message_time(seconds as i64));
        self.session.extend_time_span(at);
        let uuid = line.id.as_ref().map(|id| id.as_borrowed_str().to_owned());
        let envelope = Message { uuid, at, ..Message::default() };
        let role = line.role.as_ref().map_or("", BorrowedText::as_borrowed_str);
        let recorded = GooseMessage { role, content, metadata: line.metadata };
        let (message, _) = self.converter.convert_message(&recorded, envelope);
        self.sink.accept_record(Record::Message(Box::new(message)))
    }

    /// Emits the sums of the session as a message without content.
    fn emit_sums(&mut self) -> Result<()> {
        let Some(sums) = self.sums.take() else { return Ok(()) };
        let usage = Some(Usage { since: self.session.started_at, ..sums });
        let message = Message { at: self.session.ended_at, usage, ..Message::default() };
        self.sink.accept_record(Record::Message(Box::new(message)))
    }
}
