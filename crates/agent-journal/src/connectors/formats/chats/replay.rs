//! Brings a chat's file to its last state: facts about the session, and messages by id.
//!
//! A log may write the whole history again, in a poorer form: when a chat is resumed the list has
//! the same ids, but no tokens, models, thoughts or tool calls, and the time of the resume. So a
//! later record never takes away what an earlier one of the same id has, and what a new list or a
//! rewind leaves out stays: it was said, and its tokens were spent.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::connectors::Record;
use crate::connectors::formats::json::{self, Rest, Text, lossless};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, Lines};
use crate::error::{Error, Result};
use crate::model::{Extensions, Json};

use super::message;

/// A broken document up to this size is mended as a whole.
const MAX_MENDED: u64 = 256 << 20;

/// A chat as its file leaves it.
#[derive(Default)]
pub(super) struct Chat {
    /// What is recorded about the session, under the names of the format.
    pub(super) facts: Extensions,
    /// The messages in the order of their first appearance.
    pub(super) messages: Vec<Held>,
    pub(super) skipped: Vec<Record>,
    /// Where the message of an id stands.
    places: HashMap<String, usize>,
}

/// A message of a chat.
pub(super) struct Held {
    /// The record as written, or what several records of one id have together.
    pub(super) text: Box<str>,
    /// Whether the person took it back.
    pub(super) is_rewound: bool,
    has: Fields,
}

/// Which of the fields that a poorer record lacks are there, a bit each.
#[derive(Clone, Copy, Default)]
struct Fields(u8);

/// What a resumed chat's list of messages leaves out.
const PRECIOUS: [&str; 6] =
    ["tokens", "model", "thoughts", "toolCalls", "displayContent", "timestamp"];

/// Which of two records of one message holds where both say something.
#[derive(Clone, Copy, PartialEq)]
enum Precedence {
    /// The later one: it is a new state of the message.
    Later,
    /// The earlier one: the later one stands in a list of the history so far.
    Earlier,
}

lossless! {
    /// One line of a log. What it does depends on which of the fields it has.
    struct Step<'a> {
        "$rewindTo" rewind: Option<&'a RawValue>,
        "$set" set: Option<Set<'a>>,
        "id" id: Option<Text<'a>>,
        "sessionId" session: Option<&'a RawValue>,
        "messages" messages: Option<Vec<&'a RawValue>>,
    }
}

lossless! {
    /// A message, as far as it must be known to find its place.
    struct Named<'a> {
        "id" id: Option<Text<'a>>,
    }
}

lossless! {
    /// An object, field by field.
    struct Whole<'a> {}
}

lossless! {
    /// New values of facts, or the history so far as a list.
    struct Set<'a> {
        "messages" messages: Option<Vec<&'a RawValue>>,
    }
}

/// Reads a chat, whichever way it is kept.
pub(super) fn load(path: &Path) -> Result<Chat> {
    if !is_log(path)? {
        return document(path);
    }
    let mut chat = before(path).unwrap_or_default();
    log(path, &mut chat)?;
    Ok(chat)
}

/// Reads the document that a log of the same name goes on from.
fn before(log: &Path) -> Option<Chat> {
    let path = log.with_extension("json");
    let is_there = log.extension().is_some_and(|extension| extension == "jsonl") && path.is_file();
    let mut chat = is_there.then(|| document(&path).ok())??;
    chat.skipped.clear();
    Some(chat)
}

/// A log has an object on each line. One broken line does not make it a document.
fn is_log(path: &Path) -> Result<bool> {
    let mut lines = Lines::open(path, 0)?.with_all_values();
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

fn log(path: &Path, chat: &mut Chat) -> Result<()> {
    let mut lines = Lines::open(path, 0)?.with_all_values();
    while let Some(line) = lines.next()? {
        if line.end == End::TooLong {
            chat.skip(line.offset, LINE_TOO_LONG);
        } else if !jsonl::is_blank(line.bytes) && !chat.line(line.bytes) {
            let mended = jsonl::mend(line.bytes);
            // A line that is still being written is read again when it is whole.
            if !chat.line(&mended) && line.end == End::Newline {
                chat.skip(line.offset, "not a JSON object");
            }
        }
    }
    Ok(())
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
        match json::parse::<Step<'_>>(raw.get()) {
            Some(step) => self.step(step, raw),
            // Valid, but not of a shape we know: kept as it is.
            None => self.messages.push(Held::nameless(raw.get().into())),
        }
        true
    }

    fn step(&mut self, step: Step<'_>, raw: &RawValue) {
        if let Some(rewind) = step.rewind {
            match serde_json::from_str::<Text<'_>>(rewind.get()) {
                Ok(id) => self.rewind(id.as_str()),
                // It names no message: nothing is taken back.
                Err(_) => self.messages.push(Held::nameless(raw.get().into())),
            }
        } else if let Some(id) = step.id {
            self.put(id.as_str(), raw, Fields::of(&step.rest), Precedence::Later);
        } else if let Some(set) = step.set {
            if let Some(messages) = set.messages {
                self.repeat(&messages);
            }
            self.note(set.rest);
        } else if let Some(session) = step.session {
            self.facts.insert("sessionId".to_owned(), Json::from(session));
            self.note(step.rest);
            for message in &step.messages.unwrap_or_default() {
                self.upsert(message);
            }
        } else {
            self.messages.push(Held::nameless(raw.get().into()));
        }
    }

    /// Notes facts. A resume writes another header: the chat began when it first did.
    fn note(&mut self, facts: Rest<'_>) {
        for (key, raw) in facts {
            if key != "startTime" || !self.facts.contains_key(&*key) {
                self.facts.insert(key.into_owned(), Json::from(raw));
            }
        }
    }

    fn upsert(&mut self, raw: &RawValue) {
        match json::parse(raw.get()) {
            Some(Named { id: Some(id), rest }) => {
                self.put(id.as_str(), raw, Fields::of(&rest), Precedence::Later);
            }
            _ => self.messages.push(Held::nameless(json::compact(raw.get()))),
        }
    }

    /// Takes a list of the history so far. Known messages stay where they are; new ones, such as
    /// the summary that a compression makes, come last. Messages without an id, or with a new one,
    /// that say the same as one that the list leaves out are that one.
    fn repeat(&mut self, list: &[&RawValue]) {
        let id = |raw: &RawValue| {
            let named: Named<'_> = json::parse(raw.get())?;
            named.id.map(Text::into_owned)
        };
        let listed: HashSet<String> = list.iter().filter_map(|raw| id(raw)).collect();
        let mut left_out: Option<HashMap<String, usize>> = None;
        for raw in list {
            let Named { id, rest } = json::parse(raw.get()).unwrap_or_default();
            let id = id.map(Text::into_owned);
            if let Some(id) = id.as_deref().filter(|id| self.places.contains_key(*id)) {
                self.put(id, raw, Fields::of(&rest), Precedence::Earlier);
                continue;
            }
            let known = left_out.get_or_insert_with(|| self.left_out(&listed));
            let told = message::gist(raw.get()).and_then(|gist| known.get_mut(&gist));
            if let Some(times) = told.filter(|times| **times > 0) {
                *times -= 1;
                continue;
            }
            match id {
                Some(id) => self.put(&id, raw, Fields::of(&rest), Precedence::Earlier),
                None => self.messages.push(Held::nameless(json::compact(raw.get()))),
            }
        }
    }

    /// What the messages say that a list does not name, and how often.
    fn left_out(&self, listed: &HashSet<String>) -> HashMap<String, usize> {
        let place = |id: &String| self.places.get(id).copied();
        let named: HashSet<usize> = listed.iter().filter_map(place).collect();
        let others = self.messages.iter().enumerate().filter(|(place, _)| !named.contains(place));
        let mut times = HashMap::new();
        for gist in others.filter_map(|(_, held)| message::gist(&held.text)) {
            *times.entry(gist).or_default() += 1;
        }
        times
    }

    /// Puts a message together with an earlier record of it, or at the end.
    fn put(&mut self, id: &str, raw: &RawValue, has: Fields, precedence: Precedence) {
        let text = json::compact(raw.get());
        match self.places.get(id) {
            Some(place) => self.messages[*place].take(text, has, precedence),
            None => {
                self.places.insert(id.to_owned(), self.messages.len());
                self.messages.push(Held { text, has, is_rewound: false });
            }
        }
    }

    /// A person took a message and all after it back; of an unknown message, everything.
    fn rewind(&mut self, id: &str) {
        let place = self.places.get(id).copied().unwrap_or(0);
        for held in &mut self.messages[place..] {
            held.is_rewound = true;
        }
    }
}

impl Held {
    /// A record without an id, which no other can add to.
    fn nameless(text: Box<str>) -> Self {
        Self { text, is_rewound: false, has: Fields::default() }
    }

    /// Takes another record of the same message in, which takes nothing away.
    fn take(&mut self, later: Box<str>, has: Fields, precedence: Precedence) {
        if precedence == Precedence::Later && self.has.0 & !has.0 == 0 {
            *self = Self { text: later, has, is_rewound: false };
            return;
        }
        let joined = match precedence {
            Precedence::Later => united(&later, &self.text),
            Precedence::Earlier => united(&self.text, &later),
        };
        let has = Fields(self.has.0 | has.0);
        *self = Self { text: joined.unwrap_or(later), has, is_rewound: false };
    }
}

impl Fields {
    fn of(rest: &Rest<'_>) -> Self {
        let said = rest.iter().filter(|(_, value)| !is_nothing(value));
        let place = |key: &str| PRECIOUS.iter().position(|one| *one == key);
        Self(said.filter_map(|(key, _)| place(key)).fold(0, |bits, at| bits | 1 << at))
    }
}

fn is_nothing(value: &RawValue) -> bool {
    matches!(value.get(), "null" | "[]" | "{}" | "\"\"")
}

/// An object with the fields of both; where both say something, the first holds. A content that
/// is empty stays so: what a list has there may repeat thoughts and calls.
fn united(first: &str, second: &str) -> Option<Box<str>> {
    let mut first: Whole<'_> = json::parse(first)?;
    let second: Whole<'_> = json::parse(second)?;
    for (key, value) in second.rest {
        match first.rest.iter_mut().find(|(known, _)| *known == key) {
            Some(known) if is_nothing(known.1) && known.0 != "content" => known.1 = value,
            Some(_) => {}
            None => first.rest.push((key, value)),
        }
    }
    let fields = first.rest.iter().map(|(key, value)| {
        let key = serde_json::to_string(key).expect("a string serialises");
        format!("{key}:{}", value.get())
    });
    Some(format!("{{{}}}", fields.collect::<Vec<_>>().join(",")).into_boxed_str())
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
        let messages: Vec<&str> = chat.messages.iter().map(|held| &*held.text).collect();
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

    fn rewound(content: &str) -> Vec<bool> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        load(file.path()).unwrap().messages.iter().map(|held| held.is_rewound).collect()
    }

    #[test]
    fn rewinding_marks_a_message_and_what_follows_it() {
        let content = format!("{A}\n{B}\n{{\"$rewindTo\":\"b\"}}\n");
        check(&content, &[A, B]);
        assert_eq!(rewound(&content), [false, true]);
        assert_eq!(rewound(&format!("{content}{B2}\n")), [false, false]);
        assert_eq!(rewound(&format!("{A}\n{{\"$rewindTo\":\"nowhere\"}}\n{B}\n")), [true, false]);
    }

    const FULL: &str = r#"{"id":"b","type":"gemini","content":"","timestamp":"1","tokens":{"input":3},"thoughts":[{"subject":"so"}]}"#;
    const POOR: &str = r#"{"id":"b","timestamp":"2","type":"gemini","content":[{"text":"so","thought":true}],"extra":1}"#;

    #[test]
    fn a_list_of_the_history_takes_nothing_away() {
        let list = |messages: &str| format!("{{\"$set\":{{\"messages\":[{messages}]}}}}\n");
        let both = FULL.replace("]}", r#"],"extra":1}"#);
        check(&format!("{A}\n{FULL}\n{}", list(&format!("{A},{POOR}"))), &[A, &both]);
        // A compression: a summary takes the place of what was said, and comes behind it.
        let summary = r#"{"id":"s","type":"user","content":"<state_snapshot>"}"#;
        check(
            &format!("{A}\n{FULL}\n{}", list(&format!("{summary},{POOR}"))),
            &[A, &both, summary],
        );
        check(&format!("{A}\n{{\"$set\":{{\"lastUpdated\":\"x\"}}}}\n"), &[A]);
    }

    #[test]
    fn a_listed_message_under_a_new_id_is_told_once() {
        let said = r#"{"id":"a","type":"user","content":"yes"}"#;
        let again = r#"{"id":"z","type":"user","content":[{"text":"yes"}]}"#;
        let list = |messages: &str| format!("{{\"$set\":{{\"messages\":[{messages}]}}}}\n");
        check(&format!("{said}\n{}", list(again)), &[said]);
        let third = again.replace("\"z\"", "\"y\"");
        let listed = list(&format!("{again},{third}"));
        check(&format!("{said}\n{listed}"), &[said, &third]);
        // What the list itself names is another message.
        check(&format!("{said}\n{}", list(&format!("{said},{again}"))), &[said, again]);
    }

    #[test]
    fn a_later_state_keeps_the_tokens_it_leaves_out() {
        let later = r#"{"id":"b","type":"gemini","content":"done"}"#;
        let joined = r#"{"id":"b","type":"gemini","content":"done","timestamp":"1","tokens":{"input":3},"thoughts":[{"subject":"so"}]}"#;
        check(&format!("{FULL}\n{later}\n"), &[joined]);
    }

    #[test]
    fn a_log_goes_on_from_the_document_of_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("session-1.jsonl");
        let write = |path: &Path, content: String| {
            File::create(path).unwrap().write_all(content.as_bytes()).unwrap();
        };
        write(&path.with_extension("json"), format!("{{\"messages\": [{A},\n{FULL}]}}"));
        write(&path, format!("{{\"$set\":{{\"messages\":[{A},{POOR}]}}}}\n{B2}\n"));
        let chat = load(&path).unwrap();
        assert_eq!(chat.messages.len(), 2);
        assert!(chat.messages[1].text.contains(r#""tokens":{"input":3}"#));
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
