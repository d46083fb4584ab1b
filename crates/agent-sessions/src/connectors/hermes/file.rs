//! Reads the files of the versions before the database: a transcript with a message on each line,
//! and a snapshot of the messages that the model sees. Their times are local.

use std::path::Path;

use serde_json::value::RawValue;

use super::AGENT;
use super::message::{self, HermesMessage, owned_if_present};
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::formats::source_file;
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::Result;
use crate::model::{Block, Json, Message, Session, Timestamp};

/// Beginning of the name of a snapshot.
pub(super) const SNAPSHOT: &str = "session_";

/// The role of the line about the session.
const ABOUT_SESSION: &str = "session_meta";

/// The reason reported for what is no message.
const NO_MESSAGE: &str = "not a message";

lenient! {
    /// A snapshot.
    struct HermesSnapshot<'a> {
        "session_id" id: Option<BorrowedText<'a>>,
        "model" model: Option<BorrowedText<'a>>,
        "platform" platform: Option<BorrowedText<'a>>,
        "session_start" start: Option<BorrowedText<'a>>,
        "last_updated" end: Option<BorrowedText<'a>>,
        "messages" messages: Option<&'a RawValue>,
    }
}

/// Reads a transcript from a checkpoint on.
pub(super) fn read_transcript(
    path: &Path,
    start: &Checkpoint,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let session = Session::new(AGENT.id, stem);
    let mut reader = HermesFileReader { session, emitted: start.messages, sink };
    let mut lines = LineReader::open_at(path, start.offset)?;
    let (mut end, mut settled) = (start.offset, None);
    reader.emit_session()?;
    while let Some(line) = lines.next_line()? {
        let is_complete = line.end != End::File;
        if !is_complete {
            settled = Some(reader.emitted);
        }
        if line.end == End::TooLong {
            reader.sink.accept_record(Record::unreadable_record(line.offset, LINE_TOO_LONG))?;
        } else if !jsonl::is_blank_line(line.bytes) {
            reader.read_line(line.bytes, line.offset, is_complete)?;
        }
        if is_complete {
            end = lines.next_offset();
            if reader.sink.is_due() {
                break;
            }
        }
    }
    reader.emit_session()?;
    Ok(Checkpoint {
        offset: end,
        guard: jsonl::checkpoint_guard(path, end)?,
        messages: settled.unwrap_or(reader.emitted),
        ..Checkpoint::default()
    })
}

/// Reads a snapshot.
pub(super) fn read_snapshot(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let bytes = jsonl::mend_line(&source_file::read_file(path)?);
    let text = String::from_utf8_lossy(&bytes);
    let Some(snapshot) = json::parse_json::<HermesSnapshot<'_>>(&text) else {
        return sink.accept_record(Record::unreadable_record(0, "not a JSON object"));
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let named = stem.strip_prefix(SNAPSHOT).unwrap_or(&stem).to_owned();
    let id = owned_if_present(snapshot.id).unwrap_or(named);
    let mut session = Session::new(AGENT.id, id);
    session.model = owned_if_present(snapshot.model);
    for time in [snapshot.start, snapshot.end].into_iter().flatten() {
        session.extend_time_span(parse_local_time(time.as_borrowed_str()));
    }
    keep_platform(snapshot.platform, &mut session);
    let mut reader = HermesFileReader { session, emitted: 0, sink };
    reader.emit_session()?;
    let messages = snapshot.messages.and_then(json::array_elements).unwrap_or_default();
    for (at, raw) in messages.into_iter().enumerate() {
        match json::parse_json::<HermesMessage<'_>>(raw.get()) {
            Some(message) => reader.read_message(message, raw)?,
            None => reader.sink.accept_record(Record::unreadable_record(at as u64, NO_MESSAGE))?,
        }
    }
    Ok(())
}

struct HermesFileReader<'s> {
    session: Session,
    emitted: u64,
    sink: &'s mut dyn Sink,
}

impl HermesFileReader<'_> {
    fn emit_session(&mut self) -> Result<()> {
        self.sink.accept_record(Record::Session(Box::new(self.session.clone())))
    }

    fn read_line(&mut self, bytes: &[u8], at: u64, is_complete: bool) -> Result<()> {
        let mended = jsonl::mend_line(bytes);
        let raw = serde_json::from_slice::<&RawValue>(&mended).ok();
        let parsed = raw.and_then(|raw| Some((json::parse_json(raw.get())?, raw)));
        let Some((message, raw)) = parsed else {
            // The last line may be incomplete: the next read starts with it again.
            if !is_complete {
                return Ok(());
            }
            return self.sink.accept_record(Record::unreadable_record(at, "not a JSON object"));
        };
        let message: HermesMessage<'_> = message;
        if message.role.as_ref().is_some_and(|role| role.as_borrowed_str() == ABOUT_SESSION) {
            self.session.model = owned_if_present(message.model);
            keep_platform(message.platform, &mut self.session);
            return self.sink.accept_record(Record::passed_over_record(at, ABOUT_SESSION));
        }
        self.read_message(message, raw)
    }

    fn read_message(&mut self, recorded: HermesMessage<'_>, raw: &RawValue) -> Result<()> {
        let time = recorded.timestamp.as_ref().map_or("", BorrowedText::as_borrowed_str);
        let envelope = Message { at: parse_local_time(time), ..Message::default() };
        self.session.extend_time_span(envelope.at);
        let role = recorded.role.as_ref().map_or("", BorrowedText::as_borrowed_str);
        let messages = if matches!(role, "user" | "assistant" | "tool") {
            message::convert_message(recorded, envelope)
        } else {
            vec![Message { blocks: vec![Block::Other(Json::from(raw))], ..envelope }]
        };
        for message in messages {
            self.emitted += 1;
            self.sink.accept_record(Record::Message(Box::new(message)))?;
        }
        Ok(())
    }
}

fn keep_platform(platform: Option<BorrowedText<'_>>, session: &mut Session) {
    if let Some(platform) = owned_if_present(platform) {
        session.extensions.insert("source".to_owned(), Json::from_value(&platform));
    }
}

/// Parses a time without a time zone, as if it were UTC. A later layer corrects it.
fn parse_local_time(text: &str) -> Option<Timestamp> {
    Timestamp::parse_iso_time(text).or_else(|| Timestamp::parse_iso_time(&format!("{text}Z")))
}
