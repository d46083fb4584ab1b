//! Reads transcripts and conversations in JSON: one message per line, or one document of messages.

use std::io::BufReader;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::entry::{CursorEntry, OpenToolCalls};
use super::value::{self, Moment};
use super::{place, prompt};
use crate::connectors::formats::json;
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::formats::source_file::SourceFile;
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::{Error, Result};
use crate::model::{Block, Json, Message, Origin, Session, Timestamp, TitleRank};

/// Reads a transcript with one message per line, which is append-only, from a checkpoint on.
pub(super) fn read_lines(
    path: &Path,
    start: &Checkpoint,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let mut reader = TranscriptReader::new(place::session_from_path(path), sink);
    reader.calls = serde_json::from_slice(&start.state).unwrap_or_default();
    reader.emitted = start.messages;
    reader.emit_transcript_session()?;
    let mut lines = LineReader::open_at(path, start.offset)?;
    let mut settled = (start.offset, start.messages, reader.calls.clone());
    while let Some(line) = lines.next_line()? {
        match line.end {
            End::TooLong => {
                reader.sink.accept_record(Record::unreadable_record(line.offset, LINE_TOO_LONG))?;
            }
            _ if jsonl::is_blank_line(line.bytes) => {}
            end => reader.read_transcript_message(line.bytes, line.offset, end)?,
        }
        // A line without a newline may be incomplete: the next read starts with it again.
        if line.end != End::File {
            settled = (lines.next_offset(), reader.emitted, reader.calls.clone());
            if reader.sink.is_due() {
                break;
            }
        }
    }
    let (offset, messages, calls) = settled;
    reader.finish_transcript_session(path)?;
    let state = serde_json::to_vec(&calls).unwrap_or_default();
    Ok(Checkpoint {
        offset,
        guard: jsonl::checkpoint_guard(path, offset)?,
        messages,
        state,
        ..Checkpoint::default()
    })
}

/// Reads a document: a list of messages, or an object that holds such a list.
pub(super) fn read_transcript_document(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let file = SourceFile::open(path).map_err(Error::read(path))?;
    let mut reader = TranscriptReader::new(place::session_from_path(path), sink);
    reader.emit_transcript_session()?;
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::new(file));
    let end = DocumentVisitor(&mut reader).deserialize(&mut deserializer);
    if let Some(error) = reader.error.take() {
        return Err(error);
    }
    match end {
        Ok(()) => {}
        Err(error) if error.is_io() => return Err(Error::read(path)(error.into())),
        Err(_) => {
            let reason = "not a list of messages, or cut off";
            reader.sink.accept_record(Record::truncated_record(reader.emitted, reason))?;
        }
    }
    reader.finish_transcript_session(path)
}

/// Reads the messages of one session and emits them.
pub(super) struct TranscriptReader<'s> {
    pub(super) sink: &'s mut dyn Sink,
    pub(super) session: Session,
    calls: OpenToolCalls,
    pub(super) emitted: u64,
    /// An error of the sink, which a serde visitor cannot return.
    error: Option<Error>,
}

impl<'s> TranscriptReader<'s> {
    pub(super) fn new(session: Session, sink: &'s mut dyn Sink) -> Self {
        Self { sink, session, calls: OpenToolCalls::default(), emitted: 0, error: None }
    }

    pub(super) fn emit_transcript_session(&mut self) -> Result<()> {
        self.sink.accept_record(Record::Session(Box::new(self.session.clone())))
    }

    /// Emits the session again, with the metadata found in its messages.
    fn finish_transcript_session(&mut self, path: &Path) -> Result<()> {
        self.session.cwd = self.session.cwd.take().or_else(|| place::folder_by_slug(path));
        self.emit_transcript_session()
    }

    /// Parses and emits one message. `at` is its position in the source.
    pub(super) fn read_transcript_message(
        &mut self,
        bytes: &[u8],
        at: u64,
        end: End,
    ) -> Result<()> {
        let bytes = value::repair_surrogates(bytes);
        if let Ok(entry) = serde_json::from_slice::<CursorEntry<'_>>(&bytes) {
            return self.emit_entry(entry, &bytes, at);
        }
        let mended = jsonl::mend_line(&bytes);
        if let Ok(entry) = serde_json::from_slice::<CursorEntry<'_>>(&mended) {
            return self.emit_entry(entry, &mended, at);
        }
        match json::parse_odd::<CursorEntry<'_>>(&mended) {
            Some(entry) => self.emit_entry(entry, &mended, at),
            None if end == End::File => Ok(()),
            None => self.sink.accept_record(Record::unreadable_record(at, "not a JSON object")),
        }
    }

    fn emit_entry(&mut self, entry: CursorEntry<'_>, bytes: &[u8], at: u64) -> Result<()> {
        let kind = entry.kind.as_ref().map_or("", |kind| kind.as_borrowed_str());
        let speaks = entry.role.is_some() || entry.message.is_some();
        let when = entry.recorded_time();
        self.session.extend_time_span(when);
        if !speaks && kind == "turn_ended" {
            let status = entry.status.as_ref().map_or("", |status| status.as_borrowed_str());
            if matches!(status, "" | "success" | "completed" | "finished") {
                return self.sink.accept_record(Record::passed_over_record(at, "turn_ended"));
            }
        }
        let named = matches!(kind, "user" | "assistant" | "human" | "ai" | "tool" | "system");
        if !speaks && !named {
            return match serde_json::from_slice::<&RawValue>(bytes) {
                Ok(raw) => self.emit_unknown_record(raw, when),
                Err(_) => {
                    self.sink.accept_record(Record::unreadable_record(at, "not a JSON object"))
                }
            };
        }
        match entry.into_message(&mut self.calls) {
            Some(message) => self.emit_transcript_message(message),
            None => self.sink.accept_record(Record::passed_over_record(at, "empty message")),
        }
    }

    /// Emits a record of an unknown kind as it is. This includes turns that ended with an error.
    fn emit_unknown_record(&mut self, raw: &RawValue, at: Option<Timestamp>) -> Result<()> {
        let failed = raw.get().contains("\"turn_ended\"");
        let blocks = vec![Block::Other(Json::from(raw))];
        self.emit_transcript_message(Message { at, blocks, failed, ..Message::default() })
    }

    fn emit_transcript_message(&mut self, message: Message) -> Result<()> {
        if self.session.cwd.is_none() && message.origin == Origin::Injected {
            self.session.cwd = prompt::find_described_workspace(&message.joined_text());
        }
        self.emitted += 1;
        self.sink.accept_record(Record::Message(Box::new(message)))
    }

    /// Applies a field of the document outside its messages to the session.
    fn apply_document_field(&mut self, key: &str, raw: &RawValue) {
        let text =
            || serde_json::from_str::<String>(raw.get()).ok().filter(|text| !text.is_empty());
        let moment = || serde_json::from_str::<Moment>(raw.get()).ok()?.0;
        match key {
            "id" | "conversationId" | "composerId" | "sessionId" => {}
            "title" | "name" => {
                self.session.add_title(TitleRank::Generated, text().unwrap_or_default());
            }
            "model" => self.session.model = text(),
            "cwd" | "workspacePath" | "workspace" => {
                self.session.cwd = self.session.cwd.take().or_else(text);
            }
            "createdAt" | "created_at" | "updatedAt" | "updated_at" | "lastUpdatedAt" => {
                self.session.extend_time_span(moment());
            }
            _ => value::keep_informative_values(
                vec![(key.into(), raw)],
                &[],
                &mut self.session.extensions,
            ),
        }
    }
}

/// Passes the messages of a document to a reader one by one, without loading all of them.
struct DocumentVisitor<'r, 's>(&'r mut TranscriptReader<'s>);

impl<'de> DeserializeSeed<'de> for DocumentVisitor<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DocumentVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.write_str("messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(raw) = items.next_element::<Box<RawValue>>()? {
            let at = self.0.emitted;
            if let Err(error) =
                self.0.read_transcript_message(raw.get().as_bytes(), at, End::Newline)
            {
                self.0.error = Some(error);
                while items.next_element::<IgnoredAny>()?.is_some() {}
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            if matches!(key.as_str(), "messages" | "conversation" | "bubbles") {
                fields.next_value_seed(DocumentVisitor(&mut *self.0))?;
            } else {
                let raw = fields.next_value::<Box<RawValue>>()?;
                self.0.apply_document_field(&key, &raw);
            }
        }
        Ok(())
    }
}
