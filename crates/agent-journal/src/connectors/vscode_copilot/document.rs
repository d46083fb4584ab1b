//! A session document: one JSON object, or the log of changes that makes one.
//!
//! Values stay the text they were written as and are opened only where a change reaches into
//! them, so that a document takes about as much memory as its file. Lines of a log are `kind` 0
//! (the whole state), 1 (set), 2 (cut an array to `i` and append) and 3 (delete), each at a path.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::connectors::formats::jsonl::{self, End, Line, Lines};
use crate::connectors::{Record, Sink};
use crate::error::{Error, Result};

/// Longer paths than this are not a session's.
const MAX_PATH: usize = 32;

/// An array is never stretched by more than this beyond its end.
const MAX_GAP: usize = 4096;

/// A document is opened down to the single requests.
const REQUESTS: usize = 2;

/// A JSON value, opened as far as it was needed.
pub(super) enum Node {
    /// As written.
    Raw(Box<RawValue>),
    /// An opened array.
    Array(Vec<Node>),
    /// An opened object.
    Object(Vec<(String, Node)>),
}

/// Reads a document that is one JSON object.
pub(super) fn read(path: &Path, sink: &mut dyn Sink) -> Result<Node> {
    let file = File::open(path).map_err(Error::read(path))?;
    let length = file.metadata().map_err(Error::read(path))?.len();
    let mut document = Node::empty();
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, file));
    if Opened(&mut document, REQUESTS).deserialize(&mut json).is_ok() {
        return Ok(document);
    }
    if length <= jsonl::MAX_LINE as u64 {
        let mended = jsonl::mend(&std::fs::read(path).map_err(Error::read(path))?);
        document = Node::empty();
        let mut json = serde_json::Deserializer::from_slice(&mended);
        if Opened(&mut document, REQUESTS).deserialize(&mut json).is_ok() {
            return Ok(document);
        }
    }
    // What stands before the damage is whole.
    sink.accept(Record::bad(0, "not a whole document"))?;
    Ok(document)
}

/// Reads a document out of a larger one.
pub(super) fn part(raw: &RawValue) -> Node {
    let mut document = Node::empty();
    let mut json = serde_json::Deserializer::from_str(raw.get());
    // The text was parsed once already: what may fail is only its shape.
    let _ = Opened(&mut document, REQUESTS).deserialize(&mut json);
    document
}

/// Replays a log of changes.
pub(super) fn replay(path: &Path, sink: &mut dyn Sink) -> Result<Node> {
    // A log that lost its first line still says what was added later.
    let mut document = Node::empty();
    let mut lines = Lines::open(path, 0)?.with_all_values();
    while let Some(line) = lines.next()? {
        let (offset, end) = (line.offset, line.end);
        let change = match end {
            End::TooLong => Change::long(path, offset)?,
            _ if jsonl::is_blank(line.bytes) => continue,
            _ => Change::of(&line),
        };
        match change.map(|change| document.apply(change)) {
            Some(true) => {}
            Some(false) => sink.accept(Record::bad(offset, "a change of what is not there"))?,
            // The last line is still being written.
            None if end == End::File => {}
            None => sink.accept(Record::bad(offset, "not a change"))?,
        }
    }
    Ok(document)
}

/// One line of a log.
#[derive(Default)]
struct Change {
    kind: Option<u64>,
    path: Vec<Step>,
    value: Option<Node>,
    length: Option<u64>,
}

/// One step of a path.
#[derive(Deserialize)]
#[serde(untagged)]
enum Step {
    Index(u64),
    Key(String),
}

impl Change {
    fn of(line: &Line<'_>) -> Option<Self> {
        serde_json::from_slice(line.bytes)
            .or_else(|_| serde_json::from_slice(&jsonl::mend(line.bytes)))
            .ok()
    }

    /// Reads a line that is too long to hold: the whole state of a large session is one line.
    fn long(path: &Path, offset: u64) -> Result<Option<Self>> {
        let mut file = File::open(path).map_err(Error::read(path))?;
        file.seek(SeekFrom::Start(offset)).map_err(Error::read(path))?;
        Ok(Self::from_reader(BufReader::with_capacity(1 << 16, file)))
    }

    fn from_reader(reader: impl BufRead) -> Option<Self> {
        // Only the first value: the reader goes on to the end of the file.
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
                            let value = change.value.insert(Node::empty());
                            map.next_value_seed(Opened(value, depth))?;
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

impl Node {
    /// A session without requests.
    pub(super) fn empty() -> Self {
        Self::Object(Vec::new())
    }

    /// Takes a member out of an object.
    pub(super) fn take(&mut self, key: &str) -> Option<Node> {
        let members = self.members()?;
        let at = members.iter().rposition(|(name, _)| name == key)?;
        Some(members.remove(at).1)
    }

    /// The elements of an array; none of anything else.
    pub(super) fn elements(mut self) -> Vec<Node> {
        self.open();
        match self {
            Self::Array(elements) => elements,
            _ => Vec::new(),
        }
    }

    /// The value as JSON text.
    pub(super) fn into_raw(self) -> Option<Box<RawValue>> {
        match self {
            Self::Raw(raw) => Some(raw),
            opened => to_raw_value(&opened).ok(),
        }
    }

    /// Applies one change; `false` when there is no such place.
    fn apply(&mut self, change: Change) -> bool {
        let Change { kind, path, value, length } = change;
        if path.len() > MAX_PATH {
            return false;
        }
        match (kind, path.split_last()) {
            (Some(0), _) => {
                *self = value.unwrap_or_else(Self::empty);
                true
            }
            (Some(1..=3), None) => true,
            (Some(1), Some((last, way))) => {
                self.at(way).is_some_and(|parent| parent.set(last, value))
            }
            (Some(2), Some((last, way))) => {
                let values = value.map(Self::elements).unwrap_or_default();
                self.at(way).is_some_and(|parent| parent.push(last, values, length))
            }
            (Some(3), Some((last, way))) => {
                self.at(way).is_some_and(|parent| parent.set(last, None))
            }
            _ => false,
        }
    }

    fn at(&mut self, way: &[Step]) -> Option<&mut Node> {
        way.iter().try_fold(self, |node, step| node.child(step))
    }

    fn child(&mut self, step: &Step) -> Option<&mut Node> {
        self.open();
        match (self, step) {
            (Self::Array(elements), Step::Index(index)) => elements.get_mut(*index as usize),
            (Self::Object(members), Step::Key(key)) => {
                // A key that occurs twice counts as it stands last.
                members.iter_mut().rev().find(|(name, _)| name == key).map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// Sets a member or an element; without a value it is removed.
    fn set(&mut self, step: &Step, value: Option<Node>) -> bool {
        self.open();
        match (self, step) {
            (Self::Array(elements), Step::Index(index)) => {
                let index = *index as usize;
                if index > elements.len() + MAX_GAP {
                    return false;
                }
                while elements.len() <= index {
                    elements.push(Self::null());
                }
                elements[index] = value.unwrap_or_else(Self::null);
                true
            }
            (Self::Object(members), Step::Key(key)) => {
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

    /// Cuts the array at `step` to a length, where one is given, and appends to it.
    fn push(&mut self, step: &Step, values: Vec<Node>, length: Option<u64>) -> bool {
        let is_array = self.child(step).is_some_and(|child| {
            child.open();
            matches!(child, Self::Array(_))
        });
        if !is_array && !self.set(step, Some(Self::Array(Vec::new()))) {
            return false;
        }
        let Some(Self::Array(elements)) = self.child(step) else { return false };
        if let Some(length) = length.map(|length| length as usize) {
            if length > elements.len() + MAX_GAP {
                return false;
            }
            elements.resize_with(length, Self::null);
        }
        elements.extend(values);
        true
    }

    /// Opens one level, where there is one to open.
    fn open(&mut self) {
        if let Self::Raw(raw) = self
            && raw.get().starts_with(['{', '['])
        {
            let text = std::mem::take(raw);
            let mut json = serde_json::Deserializer::from_str(text.get());
            // The text is known to be JSON.
            let _ = Opened(self, 1).deserialize(&mut json);
        }
    }

    fn members(&mut self) -> Option<&mut Vec<(String, Node)>> {
        self.open();
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    fn null() -> Self {
        Self::Raw(RawValue::NULL.to_owned())
    }
}

impl Serialize for Node {
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

/// Reads a value into a node, opened to a depth. What was read before an error stays.
struct Opened<'n>(&'n mut Node, usize);

impl<'de> DeserializeSeed<'de> for Opened<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.1 == 0 {
            *self.0 = Node::Raw(Box::deserialize(deserializer)?);
            return Ok(());
        }
        deserializer.deserialize_any(self)
    }
}

impl Opened<'_> {
    fn scalar<E: de::Error>(self, value: &impl Serialize) -> Result<(), E> {
        *self.0 = Node::Raw(to_raw_value(value).map_err(E::custom)?);
        Ok(())
    }
}

impl<'de> Visitor<'de> for Opened<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.scalar(&())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.scalar(&value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.scalar(&value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.scalar(&value)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        self.scalar(&value)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        self.scalar(&value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        *self.0 = Node::Array(Vec::new());
        let Node::Array(elements) = self.0 else { return Ok(()) };
        let mut next = Node::null();
        while items.next_element_seed(Opened(&mut next, self.1 - 1))?.is_some() {
            elements.push(std::mem::replace(&mut next, Node::null()));
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        *self.0 = Node::Object(Vec::new());
        let Node::Object(members) = self.0 else { return Ok(()) };
        while let Some(key) = entries.next_key::<String>()? {
            members.push((key, Node::null()));
            let Some((_, value)) = members.last_mut() else { return Ok(()) };
            entries.next_value_seed(Opened(value, self.1 - 1))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&str], expected: &str, failed: usize) {
        let mut document = Node::empty();
        let mut refused = 0;
        for line in lines {
            let change = serde_json::from_str(line).unwrap();
            refused += usize::from(!document.apply(change));
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
        let mut document = Node::empty();
        let text = r#"{"x":1,"requests":[{"a":1},{"b":2},{"c":"#;
        let mut json = serde_json::Deserializer::from_str(text);
        assert!(Opened(&mut document, REQUESTS).deserialize(&mut json).is_err());
        let kept = serde_json::to_string(&document).unwrap();
        assert_eq!(kept, r#"{"x":1,"requests":[{"a":1},{"b":2}]}"#);
    }

    #[test]
    fn a_state_too_long_for_a_line_is_read_from_the_file() {
        use std::io::Write;

        let mut file = tempfile::NamedTempFile::new().unwrap();
        let long = "x".repeat(jsonl::MAX_LINE);
        writeln!(file, r#"{{"kind":0,"v":{{"requests":[{{"a":"{long}"}}]}}}}"#).unwrap();
        writeln!(file, r#"{{"kind":1,"k":["requests",0,"a"],"v":"short"}}"#).unwrap();
        let document = replay(file.path(), &mut Nothing).unwrap();
        let state = serde_json::to_string(&document).unwrap();
        assert_eq!(state, r#"{"requests":[{"a":"short"}]}"#);
    }

    struct Nothing;

    impl Sink for Nothing {
        fn accept(&mut self, record: Record) -> Result<()> {
            panic!("nothing is told: {record:?}");
        }
    }
}
