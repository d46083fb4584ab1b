//! Transcripts and conversations as JSON: one message a line, or one document of messages.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::entry::{Calls, Entry};
use super::value::{self, Moment};
use super::{place, prompt};
use crate::connectors::formats::json;
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, Lines};
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::{Error, Result};
use crate::model::{Block, Json, Message, Origin, Session, Timestamp, TitleRank};

/// Reads a transcript of lines, which only grows.
pub(super) fn read_lines(
    path: &Path,
    start: &Checkpoint,
    sink: &mut dyn Sink,
) -> Result<Checkpoint> {
    let mut reader = Reader::new(place::session(path), sink);
    reader.calls = serde_json::from_slice(&start.state).unwrap_or_default();
    reader.told = start.messages;
    reader.tell_session()?;
    let mut lines = Lines::open(path, start.offset)?;
    let mut settled = (start.offset, start.messages, reader.calls.clone());
    while let Some(line) = lines.next()? {
        match line.end {
            End::TooLong => reader.sink.accept(Record::bad(line.offset, LINE_TOO_LONG))?,
            _ if jsonl::is_blank(line.bytes) => {}
            end => reader.line(line.bytes, line.offset, end)?,
        }
        // A line without its newline may still be being written: it is read again.
        if line.end != End::File {
            settled = (lines.offset(), reader.told, reader.calls.clone());
            if reader.sink.is_due() {
                break;
            }
        }
    }
    let (offset, messages, calls) = settled;
    reader.finish(path)?;
    let state = serde_json::to_vec(&calls).unwrap_or_default();
    Ok(Checkpoint {
        offset,
        guard: jsonl::guard(path, offset)?,
        messages,
        state,
        ..Checkpoint::default()
    })
}

/// Reads a document: a list of messages, or an object with one.
pub(super) fn read_document(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let file = File::open(path).map_err(Error::read(path))?;
    let mut reader = Reader::new(place::session(path), sink);
    reader.tell_session()?;
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::new(file));
    let end = Document(&mut reader).deserialize(&mut deserializer);
    if let Some(error) = reader.error.take() {
        return Err(error);
    }
    match end {
        Ok(()) => {}
        Err(error) if error.is_io() => return Err(Error::read(path)(error.into())),
        Err(_) => {
            let reason = "not a list of messages, or cut off";
            reader.sink.accept(Record::cut(reader.told, reason))?;
        }
    }
    reader.finish(path)
}

/// Tells the messages of one session.
pub(super) struct Reader<'s> {
    pub(super) sink: &'s mut dyn Sink,
    pub(super) session: Session,
    calls: Calls,
    pub(super) told: u64,
    /// An error that a parser cannot carry.
    error: Option<Error>,
}

impl<'s> Reader<'s> {
    pub(super) fn new(session: Session, sink: &'s mut dyn Sink) -> Self {
        Self { sink, session, calls: Calls::default(), told: 0, error: None }
    }

    pub(super) fn tell_session(&mut self) -> Result<()> {
        self.sink.accept(Record::Session(Box::new(self.session.clone())))
    }

    /// Tells the session again, with all that its messages said about it.
    fn finish(&mut self, path: &Path) -> Result<()> {
        self.session.cwd = self.session.cwd.take().or_else(|| place::folder(path));
        self.tell_session()
    }

    /// Tells one message; `at` is where it stands.
    pub(super) fn line(&mut self, bytes: &[u8], at: u64, end: End) -> Result<()> {
        let bytes = value::sound(bytes);
        if let Ok(entry) = serde_json::from_slice::<Entry<'_>>(&bytes) {
            return self.entry(entry, &bytes, at);
        }
        let mended = jsonl::mend(&bytes);
        if let Ok(entry) = serde_json::from_slice::<Entry<'_>>(&mended) {
            return self.entry(entry, &mended, at);
        }
        match json::parse_odd::<Entry<'_>>(&mended) {
            Some(entry) => self.entry(entry, &mended, at),
            None if end == End::File => Ok(()),
            None => self.sink.accept(Record::bad(at, "not a JSON object")),
        }
    }

    fn entry(&mut self, entry: Entry<'_>, bytes: &[u8], at: u64) -> Result<()> {
        let kind = entry.kind.as_ref().map_or("", |kind| kind.as_str());
        let speaks = entry.role.is_some() || entry.message.is_some();
        let when = entry.at();
        self.session.seen(when);
        if !speaks && kind == "turn_ended" {
            let status = entry.status.as_ref().map_or("", |status| status.as_str());
            if matches!(status, "" | "success" | "completed" | "finished") {
                return self.sink.accept(Record::passed(at, "turn_ended"));
            }
        }
        let named = matches!(kind, "user" | "assistant" | "human" | "ai" | "tool" | "system");
        if !speaks && !named {
            return match serde_json::from_slice::<&RawValue>(bytes) {
                Ok(raw) => self.other(raw, when),
                Err(_) => self.sink.accept(Record::bad(at, "not a JSON object")),
            };
        }
        match entry.message(&mut self.calls) {
            Some(message) => self.emit(message),
            None => self.sink.accept(Record::passed(at, "empty message")),
        }
    }

    /// Keeps a record we have no word for. A turn that did not end well is one of them.
    fn other(&mut self, raw: &RawValue, at: Option<Timestamp>) -> Result<()> {
        let failed = raw.get().contains("\"turn_ended\"");
        let blocks = vec![Block::Other(Json::from(raw))];
        self.emit(Message { at, blocks, failed, ..Message::default() })
    }

    fn emit(&mut self, message: Message) -> Result<()> {
        if self.session.cwd.is_none() && message.origin == Origin::Injected {
            self.session.cwd = prompt::workspace(&message.text());
        }
        self.told += 1;
        self.sink.accept(Record::Message(Box::new(message)))
    }

    /// Takes in a field of the document around the messages.
    fn about(&mut self, key: &str, raw: &RawValue) {
        let text =
            || serde_json::from_str::<String>(raw.get()).ok().filter(|text| !text.is_empty());
        let moment = || serde_json::from_str::<Moment>(raw.get()).ok()?.0;
        match key {
            "id" | "conversationId" | "composerId" | "sessionId" => {}
            "title" | "name" => {
                self.session.title(TitleRank::Generated, text().unwrap_or_default());
            }
            "model" => self.session.model = text(),
            "cwd" | "workspacePath" | "workspace" => {
                self.session.cwd = self.session.cwd.take().or_else(text);
            }
            "createdAt" | "created_at" | "updatedAt" | "updated_at" | "lastUpdatedAt" => {
                self.session.seen(moment());
            }
            _ => value::keep(vec![(key.into(), raw)], &[], &mut self.session.extensions),
        }
    }
}

/// Hands the messages of a document to its reader one by one.
struct Document<'r, 's>(&'r mut Reader<'s>);

impl<'de> DeserializeSeed<'de> for Document<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.write_str("messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(raw) = items.next_element::<Box<RawValue>>()? {
            let at = self.0.told;
            if let Err(error) = self.0.line(raw.get().as_bytes(), at, End::Newline) {
                self.0.error = Some(error);
                while items.next_element::<IgnoredAny>()?.is_some() {}
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            if matches!(key.as_str(), "messages" | "conversation" | "bubbles") {
                fields.next_value_seed(Document(&mut *self.0))?;
            } else {
                let raw = fields.next_value::<Box<RawValue>>()?;
                self.0.about(&key, &raw);
            }
        }
        Ok(())
    }
}
