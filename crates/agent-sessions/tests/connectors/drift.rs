//! The law of drift: a value of an unexpected type, anywhere in a record, costs that value alone.
//! Every JSON value in every fixture is replaced in turn, in sources and in the files beside them.
//! Everything else must be told as before.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use agent_sessions::connectors::{Checkpoint, Connector, Record, Source};
use agent_sessions::model::Block;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::each_case;
use crate::support::{Home, Records, each_file};

/// Keys that say what a record is. Another value there is another kind of record: it is kept or
/// counted as one, and its neighbours are told as before.
const DISCRIMINATORS: &[&str] = &[
    "type",
    "role",
    "kind",
    "subtype",
    "operation",
    "phase",
    "event.name",
    "record_type",
    "$set",
    "say",
    "ask",
    "sessionUpdate",
];

/// Places where a value joins two records, or is all that a record says, each with the reason. A
/// place that begins with `=` is the whole place.
const ARGUED: &[(&str, &str)] = &[
    ("queue-operation.", "one record puts a prompt into the queue, another takes it out"),
    (".toolCallResults", "what was put aside is named in it and stands in another file"),
    (".prompt_id", "it names the sub-agent that the record belongs to"),
    (".history_base", "it names the file and the place that a fork goes on from"),
    (".composerId", "a conversation without an id is no session"),
    (".tabId", "a conversation without an id is no session"),
    (".entries", "the record is a title and says nothing else"),
    ("=.session", "the session that a line of several belongs to"),
    ("=.id", "the session that an entry in a list of names is about"),
    ("=document.chatMessages[]", "two accounts of a conversation are joined, message by message"),
    ("=.timeline[]", "two accounts of a conversation are joined, message by message"),
    ("=.k", "a step of a log of changes: later steps build on it"),
    ("=.k[]", "a step of a log of changes: later steps build on it"),
    ("=.i", "a step of a log of changes: later steps build on it"),
    ("=.v", "a step of a log of changes: later steps build on it"),
    ("=.v[]", "a step of a log of changes: later steps build on it"),
];

/// Values in the same place of records of the same kind are replaced this often.
const MAX_ALIKE: usize = 2;

#[test]
fn a_value_of_another_type_costs_that_value_alone() {
    let mut broken = Vec::new();
    let mut count = 0;
    let mut alike: HashMap<String, usize> = HashMap::new();
    each_case(|connector, case, home| {
        for source in home.sources(connector) {
            let Some(mut file) = Drifting::open(&source.path) else { continue };
            file.restore();
            let before = SourceContent::of(connector, &source);
            for place in file.places() {
                let key = format!("{} {}", connector.agent().id, place.shape);
                let times = alike.entry(key).or_default();
                *times += 1;
                if *times > MAX_ALIKE || place.is_argued() {
                    continue;
                }
                for odd in odd_values(&place.value) {
                    count += 1;
                    file.replace(&place, &odd);
                    let after = SourceContent::of(connector, &source);
                    if let Some(lost) = before.lost_in(&after, &place) {
                        let case = case.file_name().unwrap().to_string_lossy();
                        let id = connector.agent().id;
                        broken.push(format!("{id}/{case} {} = {odd}: {lost}", place.shape));
                    }
                }
            }
            file.restore();
        }
    });
    assert!(count > 1000, "only {count} values were replaced");
    let total = broken.len();
    assert!(
        broken.is_empty(),
        "{total} of {count} replaced values cost more:\n{}",
        broken.join("\n")
    );
}

#[test]
fn a_value_of_another_type_in_a_file_beside_a_source_costs_that_value_alone() {
    let mut broken = Vec::new();
    let mut count = 0;
    let mut alike: HashMap<String, usize> = HashMap::new();
    each_case(|connector, case, home| {
        for path in companions(connector, home) {
            let Some(mut file) = Drifting::open(&path) else { continue };
            file.restore();
            let before = SourceContent::of_home(connector, home);
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            for place in file.places() {
                let key = format!("{} {} {}", connector.agent().id, stem(&name), place.shape);
                let times = alike.entry(key).or_default();
                *times += 1;
                if *times > MAX_ALIKE || place.is_argued() {
                    continue;
                }
                for odd in odd_values(&place.value) {
                    count += 1;
                    file.replace(&place, &odd);
                    let after = SourceContent::of_home(connector, home);
                    if let Some(lost) = before.lost_in(&after, &place) {
                        let case = case.file_name().unwrap().to_string_lossy();
                        let id = connector.agent().id;
                        broken.push(format!("{id}/{case} {name} {} = {odd}: {lost}", place.shape));
                    }
                }
            }
            file.restore();
        }
    });
    assert!(count > 100, "only {count} values were replaced");
    let total = broken.len();
    let list = broken.join("\n");
    assert!(broken.is_empty(), "{total} of {count} replaced values cost more:\n{list}");
}

/// The files of a home that are no sources.
fn companions(connector: &dyn Connector, home: &Home) -> Vec<PathBuf> {
    let sources = home.sources(connector);
    let mut found = Vec::new();
    each_file(home.path(), &mut |path| {
        let name = path.to_string_lossy();
        let is_log = name.ends_with("-wal") || name.ends_with("-shm");
        if !is_log && sources.iter().all(|source| source.path != path) {
            found.push(path.to_owned());
        }
    });
    found.sort();
    found
}

/// The name of a file without what differs between files of its kind.
fn stem(name: &str) -> String {
    name.chars().filter(|one| !one.is_ascii_hexdigit() && *one != '-').collect()
}

/// Values of other types than the one that stands there.
fn odd_values(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => vec![json!(7), json!({ "odd": 1 })],
        Value::Bool(_) | Value::Object(_) => vec![json!("odd"), json!([7])],
        Value::Number(_) => vec![json!("odd"), json!({ "odd": 1 }), json!(-1.5e30)],
        Value::String(_) => vec![json!(7), json!({ "odd": 1 }), json!(["odd"])],
        Value::Array(_) => vec![json!("odd"), json!({ "odd": 1 })],
    }
}

/// One JSON value in a source.
struct Place {
    /// Which record of the source it is in, and where.
    record: usize,
    path: Vec<Step>,
    /// The place as records of this kind have it.
    shape: String,
    value: Value,
    whole: Value,
}

#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

impl Place {
    /// Whether it says what the record is.
    fn is_discriminator(&self) -> bool {
        let key = self.path.iter().rev().find_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        });
        key.is_some_and(|key| DISCRIMINATORS.contains(&key))
    }

    /// Whether a record, or all records, stood there: then it is counted as not understood.
    fn is_whole_record(&self) -> bool {
        self.is_discriminator() || self.value.is_object() || self.value.is_array()
    }

    fn is_argued(&self) -> bool {
        ARGUED.iter().any(|(place, _)| match place.strip_prefix('=') {
            Some(whole) => self.shape == whole,
            None => self.shape.contains(place),
        })
    }

    /// The texts that the replacement may change: those of the value, or of all of a record that
    /// becomes one of another kind.
    fn changed_texts(&self) -> Vec<String> {
        let mut texts = Vec::new();
        leaves(if self.is_discriminator() { &self.whole } else { &self.value }, &mut texts);
        texts
    }
}

fn leaves(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            // Arguments and whole records may be written as JSON inside a string.
            if let Ok(inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text) {
                leaves(&inner, texts);
            }
            push(text, texts);
            // A file may be told by its name.
            push(text.rsplit(['/', '\\']).next().unwrap_or_default(), texts);
        }
        Value::Array(items) => items.iter().for_each(|item| leaves(item, texts)),
        Value::Object(fields) => fields.values().for_each(|value| leaves(value, texts)),
        Value::Null => {}
        scalar => texts.push(scalar.to_string()),
    }
}

fn walk(value: &Value, path: &mut Vec<Step>, found: &mut dyn FnMut(&[Step], &Value)) {
    if !path.is_empty() {
        found(path, value);
    }
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Index(index));
                walk(item, path, found);
                path.pop();
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                path.push(Step::Key(key.clone()));
                walk(value, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

fn replaced(whole: &Value, path: &[Step], odd: &Value) -> Value {
    let mut whole = whole.clone();
    let mut at = &mut whole;
    for step in path {
        at = match step {
            Step::Key(key) => &mut at[key.as_str()],
            Step::Index(index) => &mut at[*index],
        };
    }
    *at = odd.clone();
    whole
}

/// A source whose records can be replaced one by one.
enum Drifting {
    /// A record a line, maybe compressed. Lines that are no JSON stay as they are.
    Lines(PathBuf, Vec<Result<Value, String>>),
    /// One document.
    Document(PathBuf, Value),
    /// JSON in the rows of a database: table, column and row of each.
    Rows(PathBuf, Vec<(String, String, i64, Value)>),
}

impl Drifting {
    fn open(path: &Path) -> Option<Self> {
        let mut bytes = fs::read(path).unwrap();
        if bytes.starts_with(b"SQLite format 3") {
            // Rows that wait in a log beside the database drift like the others.
            let connection = Connection::open(path).unwrap();
            connection.pragma_update(None, "journal_mode", "DELETE").unwrap();
            drop(connection);
            return Some(Self::Rows(path.to_owned(), rows(path)));
        }
        if is_compressed(path) {
            bytes = zstd::decode_all(&*bytes).ok()?;
        }
        let text = String::from_utf8(bytes).ok()?;
        if let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(&text)
            && text.trim().contains('\n')
        {
            return Some(Self::Document(path.to_owned(), value));
        }
        let lines = text.lines().map(|line| match serde_json::from_str(line) {
            Ok(value @ Value::Object(_)) => Ok(value),
            _ => Err(line.to_owned()),
        });
        let lines: Vec<_> = lines.collect();
        lines.iter().any(Result::is_ok).then(|| Self::Lines(path.to_owned(), lines))
    }

    fn records(&self) -> Vec<(usize, String, Value)> {
        match self {
            Self::Lines(_, lines) => {
                let known = lines
                    .iter()
                    .enumerate()
                    .filter_map(|(at, line)| Some((at, line.as_ref().ok()?)));
                known.map(|(at, value)| (at, kind_of(value), value.clone())).collect()
            }
            Self::Document(_, value) => vec![(0, "document".to_owned(), value.clone())],
            Self::Rows(_, rows) => {
                let row = |(at, row): (usize, &(String, String, i64, Value))| {
                    (at, format!("{}.{}", row.0, row.1), row.3.clone())
                };
                rows.iter().enumerate().map(row).collect()
            }
        }
    }

    fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for (record, kind, whole) in self.records() {
            walk(&whole, &mut Vec::new(), &mut |path, value| {
                let steps = path.iter().map(|step| match step {
                    Step::Key(key) => format!(".{key}"),
                    Step::Index(_) => "[]".to_owned(),
                });
                let shape = format!("{kind}{}", steps.collect::<String>());
                let (path, value, whole) = (path.to_vec(), value.clone(), whole.clone());
                places.push(Place { record, path, shape, value, whole });
            });
        }
        places
    }

    fn replace(&mut self, place: &Place, odd: &Value) {
        let changed = replaced(&place.whole, &place.path, odd);
        self.write(Some((place.record, &changed)));
    }

    fn restore(&mut self) {
        self.write(None);
    }

    /// Writes every record, one of them changed.
    fn write(&self, change: Option<(usize, &Value)>) {
        let at = |record: usize| change.filter(|(at, _)| *at == record).map(|(_, value)| value);
        match self {
            Self::Lines(path, lines) => {
                let mut text = String::new();
                for (record, line) in lines.iter().enumerate() {
                    match line {
                        Ok(value) => text.push_str(&at(record).unwrap_or(value).to_string()),
                        Err(line) => text.push_str(line),
                    }
                    text.push('\n');
                }
                let mut bytes = text.into_bytes();
                if is_compressed(path) {
                    bytes = zstd::encode_all(&*bytes, 1).unwrap();
                }
                fs::write(path, bytes).unwrap();
            }
            Self::Document(path, value) => {
                let text = serde_json::to_string_pretty(at(0).unwrap_or(value)).unwrap();
                fs::write(path, text).unwrap();
            }
            Self::Rows(path, rows) => {
                let connection = Connection::open(path).unwrap();
                connection
                    .execute_batch("PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF")
                    .unwrap();
                for (record, (table, column, row, value)) in rows.iter().enumerate() {
                    let sql = format!("UPDATE \"{table}\" SET \"{column}\" = ?1 WHERE rowid = ?2");
                    let text = at(record).unwrap_or(value).to_string();
                    connection.execute(&sql, (text, row)).unwrap();
                }
            }
        }
    }
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// What kind of record it is, so far as a field of any format says so.
fn kind_of(value: &Value) -> String {
    let named = ["type", "role", "kind", "subtype"].map(|key| value[key].as_str().unwrap_or(""));
    let inner = ["payload", "message", "data"].map(|key| value[key]["type"].as_str().unwrap_or(""));
    named.into_iter().chain(inner).filter(|name| !name.is_empty()).collect::<Vec<_>>().join("/")
}

/// Every row of every table that holds JSON as text.
fn rows(path: &Path) -> Vec<(String, String, i64, Value)> {
    let connection = Connection::open(path).unwrap();
    let mut tables = connection
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%' AND sql NOT LIKE '%WITHOUT ROWID%'")
        .unwrap();
    let tables: Vec<String> =
        tables.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut found = Vec::new();
    for table in tables {
        let mut statement = connection
            .prepare(&format!("SELECT rowid, * FROM \"{table}\" ORDER BY rowid"))
            .unwrap();
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut rows = statement.query(()).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let id: i64 = row.get(0).unwrap();
            for (at, column) in columns.iter().enumerate().skip(1) {
                let Ok(text) = row.get_ref(at).unwrap().as_str() else { continue };
                if let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text)
                {
                    found.push((table.clone(), column.clone(), id, value));
                }
            }
        }
    }
    found
}

/// What a source tells, as far as the law compares it.
struct SourceContent {
    sessions: usize,
    texts: Vec<String>,
    /// What is said about the sessions as a whole.
    about: Vec<String>,
    skipped: usize,
    is_refused: bool,
    is_panic: bool,
}

impl SourceContent {
    fn of(connector: &dyn Connector, source: &Source) -> Self {
        Self::made_by(|records| {
            connector.read_source(source, Checkpoint::default(), records).map(drop)
        })
    }

    /// What all sources of a home tell, those that are found as it is now.
    fn of_home(connector: &dyn Connector, home: &Home) -> Self {
        let mut content = Self::made_by(|records| {
            let sources = home.sources(connector);
            sources.iter().try_for_each(|source| {
                connector.read_source(source, Checkpoint::default(), records).map(drop)
            })
        });
        content.texts.append(&mut content.about);
        content
    }

    fn made_by(read: impl FnOnce(&mut Records) -> agent_sessions::Result<()>) -> Self {
        let mut records = Records::default();
        let read = std::panic::AssertUnwindSafe(|| read(&mut records));
        let end = std::panic::catch_unwind(read);
        let mut content = Self {
            sessions: 0,
            texts: Vec::new(),
            about: Vec::new(),
            skipped: 0,
            is_panic: end.is_err(),
            is_refused: end.is_ok_and(|end| end.is_err()),
        };
        let mut ids = std::collections::HashSet::new();
        for record in &records.0 {
            match record {
                Record::Session(session) => {
                    ids.insert(&session.id);
                    let titles = session.titles.iter().map(|title| &title.text);
                    let documents = session.documents.iter().map(|(_, text)| text);
                    titles.chain(documents).for_each(|text| push(text, &mut content.about));
                }
                Record::Message(message) => {
                    message.blocks.iter().for_each(|block| texts_of(block, &mut content.texts));
                }
                Record::Skipped(skipped) => content.skipped += usize::from(!skipped.understood),
            }
        }
        content.sessions = ids.len();
        content
    }

    /// Says what another reading of the source lacks, apart from what the place held.
    fn lost_in(&self, after: &Self, place: &Place) -> Option<String> {
        if after.is_panic {
            return Some("the connector panics".to_owned());
        }
        if !place.is_whole_record() {
            if after.is_refused && !self.is_refused {
                return Some("the source is refused".to_owned());
            }
            if after.sessions < self.sessions {
                return Some(format!("{} of {} sessions", after.sessions, self.sessions));
            }
            if after.skipped > self.skipped {
                return Some("a record is not understood".to_owned());
            }
        }
        let changed = place.changed_texts();
        let is_changed =
            |text: &str| changed.iter().any(|one| text.contains(&**one) || one.contains(text));
        let is_told = |text: &String| after.texts.iter().any(|told| told.contains(text.as_str()));
        let lost = self.texts.iter().find(|text| !is_changed(text) && !is_told(text))?;
        Some(format!("{:?} is not told", lost.chars().take(60).collect::<String>()))
    }
}

/// The words of a block, as a person or a search would see them.
fn texts_of(block: &Block, texts: &mut Vec<String>) {
    match block {
        Block::Text(text) | Block::Thinking(text) => push(text, texts),
        Block::ToolResult { output, .. } => push(output, texts),
        Block::ToolCall { name, input, .. } => {
            push(name, texts);
            input.visit_strings(&mut |text| push(text, texts));
        }
        _ => {}
    }
}

/// Adds a text without its white space: where lines break is no loss.
fn push(text: &str, texts: &mut Vec<String>) {
    let text: String = text.split_whitespace().collect();
    if !text.is_empty() {
        texts.push(text);
    }
}
