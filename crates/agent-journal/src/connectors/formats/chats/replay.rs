//! Brings a chat's file to its last state: facts about the session, and messages by id.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::connectors::Record;
use crate::connectors::formats::json::{self, Rest, Text, lossless};
use crate::connectors::formats::jsonl::{self, End, Lines};
use crate::error::{Error, Result};
use crate::model::{Extensions, Json};

/// A broken document up to this size is mended as a whole.
const MAX_MENDED: u64 = 256 << 20;

/// A chat as its file leaves it.
#[derive(Default)]
pub(super) struct Chat {
    /// What is recorded about the session, under the names of the format.
    pub(super) facts: Extensions,
    /// The messages as written, in the order of their first appearance.
    pub(super) messages: Vec<Box<str>>,
    pub(super) skipped: Vec<Record>,
    /// Where the message of an id stands.
    places: HashMap<String, usize>,
}

lossless! {
    /// One line of a log. What it does depends on which of the fields it has.
    struct Step<'a> {
        "$rewindTo" rewind: Option<Text<'a>>,
        "$set" set: Option<Set<'a>>,
        "id" id: Option<Text<'a>>,
        "sessionId" session: Option<&'a RawValue>,
        "messages" messages: Option<Vec<&'a RawValue>>,
    }
}

lossless! {
    /// New values of facts; new messages replace all earlier ones.
    struct Set<'a> {
        "messages" messages: Option<Vec<&'a RawValue>>,
    }
}

/// Reads a chat, whichever way it is kept.
pub(super) fn load(path: &Path) -> Result<Chat> {
    if is_log(path)? { log(path) } else { document(path) }
}

/// A log has an object on each line. One broken line does not make it a document.
fn is_log(path: &Path) -> Result<bool> {
    let mut lines = Lines::open(path, 0)?;
    let mut looked = 0;
    while let Some(line) = lines.next()? {
        if jsonl::is_blank(line.bytes) && line.end != End::TooLong {
            continue;
        }
        let is_object = |bytes: &[u8]| {
            bytes.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
        };
        if is_object(line.bytes) || is_object(&jsonl::mend(line.bytes)) {
            return Ok(true);
        }
        looked += 1;
        if looked == 2 {
            break;
        }
    }
    Ok(looked == 0)
}

fn log(path: &Path) -> Result<Chat> {
    let mut chat = Chat::default();
    let mut lines = Lines::open(path, 0)?;
    while let Some(line) = lines.next()? {
        if line.end == End::TooLong {
            chat.skip(line.offset, "line too long");
        } else if !jsonl::is_blank(line.bytes) && !chat.line(line.bytes) {
            let mended = jsonl::mend(line.bytes);
            // A line that is still being written is read again when it is whole.
            if !chat.line(&mended) && line.end == End::Newline {
                chat.skip(line.offset, "not a JSON object");
            }
        }
    }
    Ok(chat)
}

fn document(path: &Path) -> Result<Chat> {
    let mut chat = Chat::default();
    let file = File::open(path).map_err(Error::read(path))?;
    let size = file.metadata().map_err(Error::read(path))?.len();
    let mut input = serde_json::Deserializer::from_reader(BufReader::new(file));
    let Err(error) = Document(&mut chat).deserialize(&mut input) else { return Ok(chat) };
    if error.is_io() {
        return Err(Error::read(path)(error.into()));
    }
    if !error.is_eof() && size <= MAX_MENDED {
        chat = Chat::default();
        let mended = jsonl::mend(&fs::read(path).map_err(Error::read(path))?);
        let mut input = serde_json::Deserializer::from_slice(&mended);
        if Document(&mut chat).deserialize(&mut input).is_ok() {
            return Ok(chat);
        }
    }
    // Documents are rewritten in place: this one is half written, or was never finished.
    if chat.fact("sessionId").is_none() || chat.messages.is_empty() {
        let what = "neither a chat nor the beginning of one".to_owned();
        return Err(Error::Format { path: path.to_owned(), what });
    }
    chat.skipped.push(Record::cut(size, "the document is cut off"));
    Ok(chat)
}

impl Chat {
    /// A fact that is a text.
    pub(super) fn fact(&self, key: &str) -> Option<String> {
        self.facts.get(key)?.parse::<String>().filter(|text| !text.is_empty())
    }

    fn fact_from(&mut self, key: String, text: &str) {
        // Compacting JSON leaves JSON.
        if let Ok(raw) = serde_json::from_str::<&RawValue>(text) {
            self.facts.insert(key, Json::from(raw));
        }
    }

    fn skip(&mut self, at: u64, reason: &'static str) {
        self.skipped.push(Record::bad(at, reason));
    }

    /// Takes one line of a log; `false` when it is no object.
    fn line(&mut self, bytes: &[u8]) -> bool {
        let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) else { return false };
        if !raw.get().starts_with('{') {
            return false;
        }
        match serde_json::from_str::<Step<'_>>(raw.get()) {
            Ok(step) => self.step(step, raw),
            // Valid, but not of a shape we know: kept as it is.
            Err(_) => self.messages.push(raw.get().into()),
        }
        true
    }

    fn step(&mut self, step: Step<'_>, raw: &RawValue) {
        if let Some(id) = step.rewind {
            self.rewind(id.as_str());
        } else if let Some(id) = step.id {
            self.put(id.as_str(), raw);
        } else if let Some(set) = step.set {
            if let Some(messages) = set.messages {
                self.truncate(0);
                self.add(&messages);
            }
            self.note(set.rest);
        } else if let Some(session) = step.session {
            self.facts.insert("sessionId".to_owned(), Json::from(session));
            self.note(step.rest);
            self.add(&step.messages.unwrap_or_default());
        } else {
            self.messages.push(raw.get().into());
        }
    }

    fn note(&mut self, facts: Rest<'_>) {
        self.facts.extend(facts.into_iter().map(|(key, raw)| (key.into_owned(), Json::from(raw))));
    }

    fn add(&mut self, messages: &[&RawValue]) {
        for message in messages {
            self.upsert(message);
        }
    }

    fn upsert(&mut self, raw: &RawValue) {
        #[derive(Deserialize)]
        struct Id<'a> {
            #[serde(borrow)]
            id: Option<Text<'a>>,
        }
        match serde_json::from_str(raw.get()) {
            Ok(Id { id: Some(id) }) => self.put(id.as_str(), raw),
            _ => self.messages.push(json::compact(raw.get())),
        }
    }

    /// Puts a message in the place of an earlier state of it, or at the end.
    fn put(&mut self, id: &str, raw: &RawValue) {
        if let Some(place) = self.places.get(id) {
            self.messages[*place] = json::compact(raw.get());
        } else {
            self.places.insert(id.to_owned(), self.messages.len());
            self.messages.push(json::compact(raw.get()));
        }
    }

    /// Takes a message and all after it back; of an unknown message, everything.
    fn rewind(&mut self, id: &str) {
        let place = self.places.get(id).copied();
        self.truncate(place.unwrap_or(0));
    }

    fn truncate(&mut self, length: usize) {
        self.messages.truncate(length);
        self.places.retain(|_, place| *place < length);
    }
}

/// Takes a document in, message by message: what was read before it breaks off is kept.
struct Document<'c>(&'c mut Chat);

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a chat")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "messages" {
                map.next_value_seed(Messages(self.0))?;
            } else {
                let raw: Box<RawValue> = map.next_value()?;
                self.0.fact_from(key, &json::compact(raw.get()));
            }
        }
        Ok(())
    }
}

struct Messages<'c>(&'c mut Chat);

impl<'de> DeserializeSeed<'de> for Messages<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Messages<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(raw) = items.next_element::<Box<RawValue>>()? {
            self.0.upsert(&raw);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn check(content: &str, expected: &[&str]) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        let chat = load(file.path()).unwrap();
        let messages: Vec<&str> = chat.messages.iter().map(|message| &**message).collect();
        assert_eq!(messages, expected, "{content}");
    }

    #[test]
    fn what_is_kept_of_a_pretty_document_fits_on_one_line() {
        let content = "{\n  \"sessionId\": \"s\",\n  \"messages\": [\n    {\n      \"id\": \"a\"\n    }\n  ]\n}";
        check(content, &[r#"{"id":"a"}"#]);
    }

    const A: &str = r#"{"id":"a","type":"user"}"#;
    const B: &str = r#"{"id":"b","type":"gemini"}"#;
    const B2: &str = r#"{"id":"b","type":"gemini","content":"more"}"#;

    #[test]
    fn the_last_record_of_an_id_stands_where_the_first_did() {
        check(&format!("{A}\n{B}\n{A}\n{B2}\n"), &[A, B2]);
        check(&format!(r#"{{"sessionId":"s","messages":[{A},{B},{B2}]}}"#), &[A, B2]);
        check(&format!("{{\n\"messages\": [{A},\n{B},{B2}]}}"), &[A, B2]);
    }

    #[test]
    fn rewinding_takes_back_a_message_and_what_follows_it() {
        check(&format!("{A}\n{B}\n{{\"$rewindTo\":\"b\"}}\n{B2}\n"), &[A, B2]);
        check(&format!("{A}\n{{\"$rewindTo\":\"nowhere\"}}\n{B}\n"), &[B]);
    }

    #[test]
    fn set_messages_replace_all_earlier_ones() {
        check(&format!("{A}\n{B}\n{{\"$set\":{{\"messages\":[{B2}]}}}}\n{A}\n"), &[B2, A]);
        check(&format!("{A}\n{{\"$set\":{{\"lastUpdated\":\"x\"}}}}\n"), &[A]);
    }

    #[test]
    fn broken_lines_cost_their_neighbours_nothing() {
        check(&format!("{{\"sessionId\":\"s\n{A}\nnonsense\n{B}\n"), &[A, B]);
        check(&format!("{A}\n{B}\n{{\"id\":\"c\""), &[A, B]);
    }

    #[test]
    fn a_document_that_breaks_off_keeps_what_came_before() {
        check(
            &format!("{{\n\"sessionId\": \"s\",\n\"messages\": [\n{A},\n{B},\n{{\"id\""),
            &[A, B],
        );
    }

    #[test]
    fn a_document_with_stray_bytes_is_mended() {
        let broken = format!("{{\n\"sessionId\": \"s\",\0\n\"messages\": [\n{A},\n{B}]}}");
        check(&broken, &[A, B]);
    }
}
