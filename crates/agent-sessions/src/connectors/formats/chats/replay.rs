//! Replays a chat file to its final state: session metadata, and messages by id.
//!
//! A log may repeat the whole history in a poorer form. When a chat is resumed, the repeated list
//! has the same ids, but no tokens, models, thoughts or tool calls, and the time of the resume.
//! Therefore a later record never removes fields of an earlier record with the same id. Messages
//! that a new list or a rewind omits are kept: they were part of the conversation, and their tokens
//! were spent.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::BufReader;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::connectors::Record;
use crate::connectors::formats::files;
use crate::connectors::formats::json::{self, BorrowedText, UnnamedFields, lossless};
use crate::connectors::formats::jsonl::{self, End, LINE_TOO_LONG, LineReader};
use crate::connectors::formats::source_file::{self, SourceFile};
use crate::error::{Error, Result};
use crate::model::{Extensions, Json};

use super::message;

/// A broken document up to this size is loaded whole and repaired.
const MAX_MENDED: u64 = 256 << 20;

/// The final state of a chat file.
#[derive(Default)]
pub(super) struct ReplayedChat {
    /// Session metadata, under the key names of the format.
    pub(super) facts: Extensions,
    /// Messages in the order of their first appearance.
    pub(super) messages: Vec<Held>,
    pub(super) skipped: Vec<Record>,
    /// Index into `messages`, by message id.
    places: HashMap<String, usize>,
}

/// One message, merged from all records with its id.
pub(super) struct Held {
    /// The record as written, or the merged fields of several records with the same id.
    pub(super) text: Box<str>,
    /// Whether the person rewound the chat to before this message.
    pub(super) is_rewound: bool,
    has: RichFieldSet,
}

/// The [`RICH_FIELDS`] that a record has, one bit each.
#[derive(Clone, Copy, Default)]
struct RichFieldSet(u8);

/// Fields that a resumed chat's list of messages omits.
const PRECIOUS: [&str; 6] =
    ["tokens", "model", "thoughts", "toolCalls", "displayContent", "timestamp"];

/// Precedence between two records of one message, for fields that both have.
#[derive(Clone, Copy, PartialEq)]
enum Precedence {
    /// The later record wins: it is a new state of the message.
    Later,
    /// The earlier record wins: the later one is part of a repeated history.
    Earlier,
}

lossless! {
    /// One line of a log. The fields it has determine its meaning.
    struct LogStep<'a> {
        "$rewindTo" rewind: Option<&'a RawValue>,
        "$set" set: Option<MetadataUpdate<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "sessionId" session: Option<&'a RawValue>,
        "messages" messages: Option<Vec<&'a RawValue>>,
    }
}

lossless! {
    /// The id of a message; all other fields are in `rest`.
    struct IdentifiedRecord<'a> {
        "id" id: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// Any object, as a list of fields.
    struct WholeObject<'a> {}
}

lossless! {
    /// New metadata values, or the history so far as a list.
    struct MetadataUpdate<'a> {
        "messages" messages: Option<Vec<&'a RawValue>>,
    }
}

/// Loads a chat from a log or a document.
pub(super) fn load_chat(path: &Path) -> Result<ReplayedChat> {
    if !is_log(path)? {
        return load_document(path);
    }
    let mut chat = load_continued_document(path).unwrap_or_default();
    replay_log(path, &mut chat)?;
    Ok(chat)
}

/// Reads the document of the same name that a log continues.
fn load_continued_document(log: &Path) -> Option<ReplayedChat> {
    let path = log.with_extension("json");
    let is_there = log.extension().is_some_and(|extension| extension == "jsonl")
        && files::is_regular_file(&path);
    let mut chat = is_there.then(|| load_document(&path).ok())??;
    chat.skipped.clear();
    Some(chat)
}

/// Returns whether a file is a log, which has one object per line. One broken line is tolerated.
fn is_log(path: &Path) -> Result<bool> {
    let mut lines = LineReader::open_at(path, 0)?.with_all_values();
    let mut looked = 0;
    while let Some(line) = lines.next_line()? {
        if jsonl::is_blank_line(line.bytes) && line.end != End::TooLong {
            continue;
        }
        let is_object = |bytes: &[u8]| {
            bytes.starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
        };
        if is_object(line.bytes) || is_object(&jsonl::mend_line(line.bytes)) {
            return Ok(true);
        }
        looked += 1;
        if looked == 2 {
            break;
        }
    }
    Ok(looked == 0)
}

fn replay_log(path: &Path, chat: &mut ReplayedChat) -> Result<()> {
    let mut lines = LineReader::open_at(path, 0)?.with_all_values();
    while let Some(line) = lines.next_line()? {
        if line.end == End::TooLong {
            chat.report_skipped(line.offset, LINE_TOO_LONG);
        } else if !jsonl::is_blank_line(line.bytes) && !chat.apply_log_line(line.bytes) {
            let mended = jsonl::mend_line(line.bytes);
            // An incomplete last line is read again when it is complete.
            if !chat.apply_log_line(&mended) && line.end == End::Newline {
                chat.report_skipped(line.offset, "not a JSON object");
            }
        }
    }
    Ok(())
}

fn load_document(path: &Path) -> Result<ReplayedChat> {
    let mut chat = ReplayedChat::default();
    let file = SourceFile::open(path).map_err(Error::read(path))?;
    let size = file.size().map_err(Error::read(path))?;
    let mut input = serde_json::Deserializer::from_reader(BufReader::new(file));
    let Err(error) = ChatDocumentVisitor(&mut chat).deserialize(&mut input) else {
        return Ok(chat);
    };
    if error.is_io() {
        return Err(Error::read(path)(error.into()));
    }
    if !error.is_eof() && size <= MAX_MENDED {
        chat = ReplayedChat::default();
        let mended = jsonl::mend_line(&source_file::read_file(path)?);
        let mut input = serde_json::Deserializer::from_slice(&mended);
        if ChatDocumentVisitor(&mut chat).deserialize(&mut input).is_ok() {
            return Ok(chat);
        }
    }
    // Documents are rewritten in place: this one is half written, or was never finished.
    if chat.metadata_text("sessionId").is_none() || chat.messages.is_empty() {
        let what = "neither a chat nor the beginning of one".to_owned();
        return Err(Error::Format { path: path.to_owned(), what });
    }
    chat.skipped.push(Record::truncated_record(size, "the document is cut off"));
    Ok(chat)
}

impl ReplayedChat {
    /// Returns a metadata value that is a non-empty string.
    pub(super) fn metadata_text(&self, key: &str) -> Option<String> {
        self.facts.get(key)?.parse_as::<String>().filter(|text| !text.is_empty())
    }

    fn fact_from(&mut self, key: String, text: &str) {
        // Compacted JSON is still valid JSON.
        if let Ok(raw) = serde_json::from_str::<&RawValue>(text) {
            self.facts.insert(key, Json::from(raw));
        }
    }

    fn report_skipped(&mut self, at: u64, reason: &'static str) {
        self.skipped.push(Record::unreadable_record(at, reason));
    }

    /// Applies one line of a log. Returns `false` when the line is not an object.
    fn apply_log_line(&mut self, bytes: &[u8]) -> bool {
        let Ok(raw) = serde_json::from_slice::<&RawValue>(bytes) else { return false };
        if !raw.get().starts_with('{') {
            return false;
        }
        match json::parse_json::<LogStep<'_>>(raw.get()) {
            Some(step) => self.apply_step(step, raw),
            // Valid JSON of an unknown form: kept as it is.
            None => self.messages.push(Held::from_nameless_record(raw.get().into())),
        }
        true
    }

    fn apply_step(&mut self, step: LogStep<'_>, raw: &RawValue) {
        if let Some(rewind) = step.rewind {
            match serde_json::from_str::<BorrowedText<'_>>(rewind.get()) {
                Ok(id) => self.mark_rewound(id.as_borrowed_str()),
                // It has no message id, so nothing is rewound.
                Err(_) => self.messages.push(Held::from_nameless_record(raw.get().into())),
            }
        } else if let Some(id) = step.id {
            self.put_message(
                id.as_borrowed_str(),
                raw,
                RichFieldSet::from_fields(&step.rest),
                Precedence::Later,
            );
        } else if let Some(set) = step.set {
            if let Some(messages) = set.messages {
                self.merge_history_list(&messages);
            }
            self.add_metadata(set.rest);
        } else if let Some(session) = step.session {
            self.facts.insert("sessionId".to_owned(), Json::from(session));
            self.add_metadata(step.rest);
            for message in &step.messages.unwrap_or_default() {
                self.upsert_message(message);
            }
        } else {
            self.messages.push(Held::from_nameless_record(raw.get().into()));
        }
    }

    /// Adds metadata. A resume writes another header, so the first `startTime` is kept.
    fn add_metadata(&mut self, facts: UnnamedFields<'_>) {
        for (key, raw) in facts {
            if key != "startTime" || !self.facts.contains_key(&*key) {
                self.facts.insert(key.into_owned(), Json::from(raw));
            }
        }
    }

    fn upsert_message(&mut self, raw: &RawValue) {
        match json::parse_json(raw.get()) {
            Some(IdentifiedRecord { id: Some(id), rest }) => {
                self.put_message(
                    id.as_borrowed_str(),
                    raw,
                    RichFieldSet::from_fields(&rest),
                    Precedence::Later,
                );
            }
            _ => self.messages.push(Held::from_nameless_record(json::compact_json(raw.get()))),
        }
    }

    /// Merges a list of the history so far. Known messages keep their position; new ones, such as
    /// the summary of a compression, are appended. A listed message without an id, or with an
    /// unknown id, is dropped when it has the same content as a known message that the list omits.
    fn merge_history_list(&mut self, list: &[&RawValue]) {
        let id = |raw: &RawValue| {
            let named: IdentifiedRecord<'_> = json::parse_json(raw.get())?;
            named.id.map(BorrowedText::into_owned)
        };
        let listed: HashSet<String> = list.iter().filter_map(|raw| id(raw)).collect();
        let mut left_out: Option<HashMap<String, usize>> = None;
        for raw in list {
            let IdentifiedRecord { id, rest } = json::parse_json(raw.get()).unwrap_or_default();
            let id = id.map(BorrowedText::into_owned);
            if let Some(id) = id.as_deref().filter(|id| self.places.contains_key(*id)) {
                self.put_message(id, raw, RichFieldSet::from_fields(&rest), Precedence::Earlier);
                continue;
            }
            let known = left_out.get_or_insert_with(|| self.count_unlisted_messages(&listed));
            let times =
                message::message_content_key(raw.get()).and_then(|gist| known.get_mut(&gist));
            if let Some(times) = times.filter(|times| **times > 0) {
                *times -= 1;
                continue;
            }
            match id {
                Some(id) => self.put_message(
                    &id,
                    raw,
                    RichFieldSet::from_fields(&rest),
                    Precedence::Earlier,
                ),
                None => {
                    self.messages.push(Held::from_nameless_record(json::compact_json(raw.get())));
                }
            }
        }
    }

    /// Counts the messages that a list does not name, by content key.
    fn count_unlisted_messages(&self, listed: &HashSet<String>) -> HashMap<String, usize> {
        let place = |id: &String| self.places.get(id).copied();
        let named: HashSet<usize> = listed.iter().filter_map(place).collect();
        let others = self.messages.iter().enumerate().filter(|(place, _)| !named.contains(place));
        let mut times = HashMap::new();
        for gist in others.filter_map(|(_, held)| message::message_content_key(&held.text)) {
            *times.entry(gist).or_default() += 1;
        }
        times
    }

    /// Merges a record into the message with the same id, or appends a new message.
    fn put_message(&mut self, id: &str, raw: &RawValue, has: RichFieldSet, precedence: Precedence) {
        let text = json::compact_json(raw.get());
        match self.places.get(id) {
            Some(place) => self.messages[*place].merge_record(text, has, precedence),
            None => {
                self.places.insert(id.to_owned(), self.messages.len());
                self.messages.push(Held { text, has, is_rewound: false });
            }
        }
    }

    /// Marks a message and all later ones as rewound. An unknown id marks all messages.
    fn mark_rewound(&mut self, id: &str) {
        let place = self.places.get(id).copied().unwrap_or(0);
        for held in &mut self.messages[place..] {
            held.is_rewound = true;
        }
    }
}

impl Held {
    /// Creates a message from a record without an id, with which no other record can be merged.
    fn from_nameless_record(text: Box<str>) -> Self {
        Self { text, is_rewound: false, has: RichFieldSet::default() }
    }

    /// Merges another record of the same message without removing fields.
    fn merge_record(&mut self, later: Box<str>, has: RichFieldSet, precedence: Precedence) {
        if precedence == Precedence::Later && self.has.0 & !has.0 == 0 {
            *self = Self { text: later, has, is_rewound: false };
            return;
        }
        let joined = match precedence {
            Precedence::Later => merge_objects(&later, &self.text),
            Precedence::Earlier => merge_objects(&self.text, &later),
        };
        let has = RichFieldSet(self.has.0 | has.0);
        *self = Self { text: joined.unwrap_or(later), has, is_rewound: false };
    }
}

impl RichFieldSet {
    fn from_fields(rest: &UnnamedFields<'_>) -> Self {
        let said = rest.iter().filter(|(_, value)| !is_empty_value(value));
        let place = |key: &str| PRECIOUS.iter().position(|one| *one == key);
        Self(said.filter_map(|(key, _)| place(key)).fold(0, |bits, at| bits | 1 << at))
    }
}

fn is_empty_value(value: &RawValue) -> bool {
    matches!(value.get(), "null" | "[]" | "{}" | "\"\"")
}

/// Returns an object with the fields of both. Where both have a value, the first wins. An empty
/// `content` stays empty, because the content in a list may repeat thoughts and tool calls.
fn merge_objects(first: &str, second: &str) -> Option<Box<str>> {
    let mut first: WholeObject<'_> = json::parse_json(first)?;
    let second: WholeObject<'_> = json::parse_json(second)?;
    for (key, value) in second.rest {
        match first.rest.iter_mut().find(|(known, _)| *known == key) {
            Some(known) if is_empty_value(known.1) && known.0 != "content" => known.1 = value,
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

/// Reads a document message by message, so that the messages before a truncation are kept.
struct ChatDocumentVisitor<'c>(&'c mut ReplayedChat);

impl<'de> DeserializeSeed<'de> for ChatDocumentVisitor<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ChatDocumentVisitor<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a chat")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "messages" {
                map.next_value_seed(MessageListVisitor(self.0))?;
            } else {
                let raw: Box<RawValue> = map.next_value()?;
                self.0.fact_from(key, &json::compact_json(raw.get()));
            }
        }
        Ok(())
    }
}

struct MessageListVisitor<'c>(&'c mut ReplayedChat);

impl<'de> DeserializeSeed<'de> for MessageListVisitor<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for MessageListVisitor<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(raw) = items.next_element::<Box<RawValue>>()? {
            self.0.upsert_message(&raw);
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
        let chat = load_chat(file.path()).unwrap();
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
        load_chat(file.path()).unwrap().messages.iter().map(|held| held.is_rewound).collect()
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
        // A compression: the summary replaces earlier messages and is appended after them.
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
        // Two messages that the same list names are different messages.
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
            std::fs::File::create(path).unwrap().write_all(content.as_bytes()).unwrap();
        };
        write(&path.with_extension("json"), format!("{{\"messages\": [{A},\n{FULL}]}}"));
        write(&path, format!("{{\"$set\":{{\"messages\":[{A},{POOR}]}}}}\n{B2}\n"));
        let chat = load_chat(&path).unwrap();
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
