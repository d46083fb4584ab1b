//! Loads a session document: one JSON object, or a change log that is replayed into one.
//!
//! Values stay unparsed text and are opened only where a change modifies them, so that a document
//! takes about as much memory as its file. Lines of a log have a `kind`: 0 (the whole state), 1
//! (set), 2 (truncate an array to `i` and append) or 3 (delete), each with a path.

use std::fmt;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::connectors::formats::jsonl::{self, End, LineReader, SourceLine};
use crate::connectors::formats::source_file::{self, SourceFile};
use crate::connectors::{Record, Sink};
use crate::error::{Error, Result};

/// Maximum length of a path. Changes with longer paths are refused.
const MAX_PATH: usize = 32;

/// Maximum number of elements by which a change may extend an array beyond its end.
const MAX_GAP: usize = 4096;

/// Maximum number of elements of an opened array, and of members of an opened object. One text
/// replaces the rest.
const MAX_CHILDREN: usize = 1 << 20;

/// The text that replaces the children beyond `MAX_CHILDREN`. As a request, it counts as unreadable.
const TOO_MANY: &str = "too many values";

/// The depth to which a document is opened: down to the single requests.
const REQUESTS: usize = 2;

/// A JSON value that is parsed level by level, on demand.
pub(super) enum LazyNode {
    /// An unparsed value, as written.
    Raw(Box<RawValue>),
    /// An opened array.
    Array(Vec<LazyNode>),
    /// An opened object.
    Object(Vec<(String, LazyNode)>),
}

/// Reads a document that is one JSON object.
pub(super) fn read_chat_document(path: &Path, sink: &mut dyn Sink) -> Result<LazyNode> {
    let file = SourceFile::open(path).map_err(Error::read(path))?;
    let length = file.size().map_err(Error::read(path))?;
    let mut document = LazyNode::empty_object();
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, file));
    if NodeSeed(&mut document, REQUESTS).deserialize(&mut json).is_ok() {
        return Ok(document);
    }
    if length <= jsonl::MAX_LINE as u64 {
        let mended = jsonl::mend_line(&source_file::read_file(path)?);
        document = LazyNode::empty_object();
        let mut json = serde_json::Deserializer::from_slice(&mended);
        if NodeSeed(&mut document, REQUESTS).deserialize(&mut json).is_ok() {
            return Ok(document);
        }
    }
    // The values before the damage are complete.
    sink.accept_record(Record::unreadable_record(0, "not a complete document"))?;
    Ok(document)
}

/// Parses a document that is part of a larger one.
pub(super) fn parse_embedded_document(raw: &RawValue) -> LazyNode {
    let mut document = LazyNode::empty_object();
    let mut json = serde_json::Deserializer::from_str(raw.get());
    // The text is valid JSON: only its type can be wrong.
    let _ = NodeSeed(&mut document, REQUESTS).deserialize(&mut json);
    document
}

/// Replays a change log and returns the resulting document.
pub(super) fn replay_change_log(path: &Path, sink: &mut dyn Sink) -> Result<LazyNode> {
    // A log without its first line still has the later changes.
    let mut document = LazyNode::empty_object();
    let mut lines = LineReader::open_at(path, 0)?.with_all_values();
    while let Some(line) = lines.next_line()? {
        let (offset, end) = (line.offset, line.end);
        let change = match end {
            End::TooLong => Change::read_long_change(path, offset)?,
            _ if jsonl::is_blank_line(line.bytes) => continue,
            _ => Change::parse_change_line(&line),
        };
        match change.map(|change| document.apply_change(change)) {
            Some(true) => {}
            Some(false) => sink
                .accept_record(Record::unreadable_record(offset, "a change to a missing value"))?,
            // The last line may be incomplete.
            None if end == End::File => {}
            None => sink.accept_record(Record::unreadable_record(offset, "not a change"))?,
        }
    }
    Ok(document)
}

/// One line of a change log.
#[derive(Default)]
struct Change {
    kind: Option<u64>,
    path: Vec<ChangePathStep>,
    value: Option<LazyNode>,
    length: Option<u64>,
}

/// One step of a path: an array index or an object key.
#[derive(Deserialize)]
#[serde(untagged)]
enum ChangePathStep {
    Index(u64),
    Key(String),
}

impl Change {
    fn parse_change_line(line: &SourceLine<'_>) -> Option<Self> {
        serde_json::from_slice(line.bytes)
            .or_else(|_| serde_json::from_slice(&jsonl::mend_line(line.bytes)))
            .ok()
    }

    /// Reads a line that is too long for the line buffer: the state of a large session is one line.
    fn read_long_change(path: &Path, offset: u64) -> Result<Option<Self>> {
        let mut file = SourceFile::open(path).map_err(Error::read(path))?;
        file.seek(SeekFrom::Start(offset)).map_err(Error::read(path))?;
        Ok(Self::from_reader(BufReader::with_capacity(1 << 16, file)))
    }

    fn from_reader(reader: impl BufRead) -> Option<Self> {
        // Only the first value: the reader extends to the end of the file.
        serde_json::Deserializer::from_reader(reader).into_iter().next()?.ok()
    }
}

impl<'de> Deserialize<'de> for Change {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Change;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a change")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Change, A::Error> {
                let mut change = Change::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "kind" => change.kind = map.next_value()?,
                        "k" => change.path = map.next_value()?,
                        "i" => change.length = map.next_value()?,
                        "v" => {
                            let depth = if change.kind == Some(0) { REQUESTS } else { 0 };
                            let value = change.value.insert(LazyNode::empty_object());
                            map.next_value_seed(NodeSeed(value, depth))?;
                        }
                        _ => drop(map.next_value::<de::IgnoredAny>()?),
                    }
                }
                Ok(change)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl LazyNode {
    /// Returns an object without members.
    pub(super) fn empty_object() -> Self {
        Self::Object(Vec::new())
    }

    /// Removes a member of an object and returns it.
    pub(super) fn take_member(&mut self, key: &str) -> Option<LazyNode> {
        let members = self.object_members()?;
        let at = members.iter().rposition(|(name, _)| name == key)?;
        Some(members.remove(at).1)
    }

    /// Returns the elements of an array, or none for other values.
    pub(super) fn into_elements(mut self) -> Vec<LazyNode> {
        self.parse_one_level();
        match self {
            Self::Array(elements) => elements,
            _ => Vec::new(),
        }
    }

    /// Returns the value as JSON text.
    pub(super) fn into_raw(self) -> Option<Box<RawValue>> {
        match self {
            Self::Raw(raw) => Some(raw),
            opened => to_raw_value(&opened).ok(),
        }
    }

    /// Applies one change. Returns `false` when its path does not exist.
    fn apply_change(&mut self, change: Change) -> bool {
        let Change { kind, path, value, length } = change;
        if path.len() > MAX_PATH {
            return false;
        }
        match (kind, path.split_last()) {
            (Some(0), _) => {
                *self = value.unwrap_or_else(Self::empty_object);
                true
            }
            (Some(1..=3), None) => true,
            (Some(1), Some((last, way))) => {
                self.node_at(way).is_some_and(|parent| parent.set_child(last, value))
            }
            (Some(2), Some((last, way))) => {
                let values = value.map(Self::into_elements).unwrap_or_default();
                self.node_at(way).is_some_and(|parent| parent.push_values(last, values, length))
            }
            (Some(3), Some((last, way))) => {
                self.node_at(way).is_some_and(|parent| parent.set_child(last, None))
            }
            _ => false,
        }
    }

    fn node_at(&mut self, way: &[ChangePathStep]) -> Option<&mut LazyNode> {
        way.iter().try_fold(self, |node, step| node.child_node(step))
    }

    fn child_node(&mut self, step: &ChangePathStep) -> Option<&mut LazyNode> {
        self.parse_one_level();
        match (self, step) {
            (Self::Array(elements), ChangePathStep::Index(index)) => {
                elements.get_mut(*index as usize)
            }
            (Self::Object(members), ChangePathStep::Key(key)) => {
                // Of a repeated key, the last occurrence counts.
                members.iter_mut().rev().find(|(name, _)| name == key).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// Sets a member or an element. Without a value, removes the member or nulls the element.
    fn set_child(&mut self, step: &ChangePathStep, value: Option<LazyNode>) -> bool {
        self.parse_one_level();
        match (self, step) {
            (Self::Array(elements), ChangePathStep::Index(index)) => {
                let index = *index as usize;
                if index > elements.len() + MAX_GAP {
                    return false;
                }
                while elements.len() <= index {
                    elements.push(Self::null_node());
                }
                elements[index] = value.unwrap_or_else(Self::null_node);
                true
            }
            (Self::Object(members), ChangePathStep::Key(key)) => {
                match (members.iter().rposition(|(name, _)| name == key), value) {
                    (Some(at), Some(value)) => members[at].1 = value,
                    (Some(at), None) => drop(members.remove(at)),
                    (None, Some(value)) => members.push((key.clone(), value)),
                    (None, None) => {}
                }
                true
            }
            _ => false,
        }
    }

    /// Truncates the array at `step` to `length`, if given, and appends values to it.
    fn push_values(
        &mut self,
        step: &ChangePathStep,
        values: Vec<LazyNode>,
        length: Option<u64>,
    ) -> bool {
        let is_array = self.child_node(step).is_some_and(|child| {
            child.parse_one_level();
            matches!(child, Self::Array(_))
        });
        if !is_array && !self.set_child(step, Some(Self::Array(Vec::new()))) {
            return false;
        }
        let Some(Self::Array(elements)) = self.child_node(step) else { return false };
        if let Some(length) = length.map(|length| length as usize) {
            if length > elements.len() + MAX_GAP {
                return false;
            }
            elements.resize_with(length, Self::null_node);
        }
        elements.extend(values);
        true
    }

    /// Parses one level of an unparsed array or object.
    fn parse_one_level(&mut self) {
        if let Self::Raw(raw) = self
            && raw.get().starts_with(['{', '['])
        {
            let text = std::mem::take(raw);
            let mut json = serde_json::Deserializer::from_str(text.get());
            // The text is known to be JSON.
            let _ = NodeSeed(self, 1).deserialize(&mut json);
        }
    }

    fn object_members(&mut self) -> Option<&mut Vec<(String, LazyNode)>> {
        self.parse_one_level();
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    fn null_node() -> Self {
        Self::Raw(RawValue::NULL.to_owned())
    }

    fn set_text<E: de::Error>(&mut self, text: &str) -> Result<(), E> {
        *self = Self::Raw(to_raw_value(text).map_err(E::custom)?);
        Ok(())
    }
}

impl Serialize for LazyNode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Raw(raw) => raw.serialize(serializer),
            Self::Array(elements) => serializer.collect_seq(elements),
            Self::Object(members) => {
                serializer.collect_map(members.iter().map(|(key, value)| (key, value)))
            }
        }
    }
}

/// Deserializes a value into a node, opened to a given depth. Values before an error are kept.
struct NodeSeed<'n>(&'n mut LazyNode, usize);

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.1 == 0 {
            *self.0 = LazyNode::Raw(Box::deserialize(deserializer)?);
            return Ok(());
        }
        deserializer.deserialize_any(self)
    }
}

impl NodeSeed<'_> {
    fn visit_scalar<E: de::Error>(self, value: &impl Serialize) -> Result<(), E> {
        *self.0 = LazyNode::Raw(to_raw_value(value).map_err(E::custom)?);
        Ok(())
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.visit_scalar(&())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.visit_scalar(&value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.visit_scalar(&value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.visit_scalar(&value)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        self.visit_scalar(&value)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        self.visit_scalar(&value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        *self.0 = LazyNode::Array(Vec::new());
        let LazyNode::Array(elements) = self.0 else { return Ok(()) };
        let mut next = LazyNode::null_node();
        while items.next_element_seed(NodeSeed(&mut next, self.1 - 1))?.is_some() {
            elements.push(std::mem::replace(&mut next, LazyNode::null_node()));
            if elements.len() == MAX_CHILDREN {
                next.set_text(TOO_MANY)?;
                elements.push(next);
                while items.next_element::<de::IgnoredAny>()?.is_some() {}
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        *self.0 = LazyNode::Object(Vec::new());
        let LazyNode::Object(members) = self.0 else { return Ok(()) };
        while let Some(key) = entries.next_key::<String>()? {
            members.push((key, LazyNode::null_node()));
            let Some((_, value)) = members.last_mut() else { return Ok(()) };
            entries.next_value_seed(NodeSeed(value, self.1 - 1))?;
            if members.len() == MAX_CHILDREN {
                let mut rest = LazyNode::null_node();
                rest.set_text(TOO_MANY)?;
                members.push((String::new(), rest));
                while entries.next_entry::<de::IgnoredAny, de::IgnoredAny>()?.is_some() {}
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&str], expected: &str, failed: usize) {
        let mut document = LazyNode::empty_object();
        let mut refused = 0;
        for line in lines {
            let change = serde_json::from_str(line).unwrap();
            refused += usize::from(!document.apply_change(change));
        }
        assert_eq!(serde_json::to_string(&document).unwrap(), expected, "{lines:?}");
        assert_eq!(refused, failed, "{lines:?}");
    }

    #[test]
    fn pushing_cuts_the_array_before_it_appends() {
        let start = r#"{"kind":0,"v":{"r":[1,2,3]}}"#;
        check(&[start, r#"{"kind":2,"k":["r"],"v":[4,5],"i":1}"#], r#"{"r":[1,4,5]}"#, 0);
        check(&[start, r#"{"kind":2,"k":["r"],"v":[4]}"#], r#"{"r":[1,2,3,4]}"#, 0);
        check(&[start, r#"{"kind":2,"k":["r"],"i":0}"#], r#"{"r":[]}"#, 0);
        check(&[start, r#"{"kind":2,"k":["r"],"v":[9],"i":4}"#], r#"{"r":[1,2,3,null,9]}"#, 0);
        check(&[start, r#"{"kind":2,"k":["r"],"v":[9],"i":99999999}"#], r#"{"r":[1,2,3]}"#, 1);
        check(&[start, r#"{"kind":2,"k":["new"],"v":[1]}"#], r#"{"r":[1,2,3],"new":[1]}"#, 0);
    }

    #[test]
    fn changes_reach_into_values_that_were_kept_as_text() {
        let start = r#"{"kind":0,"v":{"requests":[{"a":{"b":[{"c": 1}]}},{"d":1.50}]}}"#;
        check(
            &[start, r#"{"kind":1,"k":["requests",0,"a","b",0,"c"],"v":"x"}"#],
            r#"{"requests":[{"a":{"b":[{"c":"x"}]}},{"d":1.50}]}"#,
            0,
        );
        check(
            &[start, r#"{"kind":3,"k":["requests",0,"a","b"]}"#],
            r#"{"requests":[{"a":{}},{"d":1.50}]}"#,
            0,
        );
        check(&[start, r#"{"kind":3,"k":["requests",0]}"#], r#"{"requests":[null,{"d":1.50}]}"#, 0);
    }

    #[test]
    fn setting_nothing_removes_and_an_empty_path_changes_nothing() {
        let start = r#"{"kind":0,"v":{"a":1,"b":2}}"#;
        check(&[start, r#"{"kind":1,"k":["a"]}"#], r#"{"b":2}"#, 0);
        check(&[start, r#"{"kind":1,"k":[],"v":3}"#], r#"{"a":1,"b":2}"#, 0);
        check(&[start, r#"{"kind":0,"v":{"c":3}}"#], r#"{"c":3}"#, 0);
    }

    #[test]
    fn a_change_of_what_is_not_there_is_refused_and_the_next_one_applied() {
        let start = r#"{"kind":0,"v":{"a":[]}}"#;
        let lost = [
            r#"{"kind":1,"k":["a",0,"b"],"v":1}"#,
            r#"{"kind":1,"k":["a","b"],"v":1}"#,
            r#"{"kind":2,"k":["x","y"],"v":[1]}"#,
            r#"{"kind":9,"k":["a"]}"#,
        ];
        for lost in lost {
            check(&[start, lost, r#"{"kind":2,"k":["a"],"v":[1]}"#], r#"{"a":[1]}"#, 1);
        }
    }

    #[test]
    fn a_log_without_its_first_line_still_adds_requests() {
        check(&[r#"{"kind":2,"k":["requests"],"v":[{"a":1}]}"#], r#"{"requests":[{"a":1}]}"#, 0);
    }

    #[test]
    fn what_stands_before_the_damage_is_kept() {
        let mut document = LazyNode::empty_object();
        let text = r#"{"x":1,"requests":[{"a":1},{"b":2},{"c":"#;
        let mut json = serde_json::Deserializer::from_str(text);
        assert!(NodeSeed(&mut document, REQUESTS).deserialize(&mut json).is_err());
        let kept = serde_json::to_string(&document).unwrap();
        assert_eq!(kept, r#"{"x":1,"requests":[{"a":1},{"b":2}]}"#);
    }

    #[test]
    fn one_text_replaces_children_beyond_the_limit() {
        let many = vec!["1"; MAX_CHILDREN + 3].join(",");
        let text = format!("{{\"requests\":[{many}],\"x\":2}}");
        let mut document = LazyNode::empty_object();
        let mut json = serde_json::Deserializer::from_str(&text);
        NodeSeed(&mut document, REQUESTS).deserialize(&mut json).unwrap();
        assert_eq!(document.take_member("x").unwrap().into_raw().unwrap().get(), "2");
        let mut requests = document.take_member("requests").unwrap().into_elements();
        assert_eq!(requests.len(), MAX_CHILDREN + 1);
        let last = requests.pop().unwrap().into_raw().unwrap();
        assert_eq!(last.get(), format!("\"{TOO_MANY}\""));
    }

    #[test]
    fn a_state_too_long_for_a_line_is_read_from_the_file() {
        use std::io::Write;

        let mut file = tempfile::NamedTempFile::new().unwrap();
        let long = "x".repeat(jsonl::MAX_LINE);
        writeln!(file, r#"{{"kind":0,"v":{{"requests":[{{"a":"{long}"}}]}}}}"#).unwrap();
        writeln!(file, r#"{{"kind":1,"k":["requests",0,"a"],"v":"short"}}"#).unwrap();
        let document = replay_change_log(file.path(), &mut Nothing).unwrap();
        let state = serde_json::to_string(&document).unwrap();
        assert_eq!(state, r#"{"requests":[{"a":"short"}]}"#);
    }

    struct Nothing;

    impl Sink for Nothing {
        fn accept_record(&mut self, record: Record) -> Result<()> {
            panic!("no record is expected: {record:?}");
        }
    }
}
