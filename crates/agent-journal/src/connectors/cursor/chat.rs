//! Chats in the terminal: `store.db` keeps content-addressed blobs, messages as JSON and lists
//! of them as Protocol Buffers, with a small description in hexadecimal JSON and in `meta.json`.

use std::collections::HashSet;
use std::path::Path;

use serde::Deserialize;

use super::transcript::Reader;
use super::value::Moment;
use super::{AGENT, CHAT_META};
use crate::connectors::formats::jsonl::End;
use crate::connectors::formats::sqlite::{self, Database};
use crate::connectors::formats::{files, vscode};
use crate::connectors::{Record, Sink};
use crate::error::{Error, Result};
use crate::model::{Json, Kind, Session, TitleRank};

/// What a chat is called before it has a name.
const UNNAMED: &str = "New Agent";

/// Field of the root that lists the messages, and the one that names the workspace.
const MESSAGES: u64 = 1;
const WORKSPACE: u64 = 9;

/// Deeper lists than this are damaged.
const MAX_DEPTH: usize = 8;

/// Reads a chat.
pub(super) fn read(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let database = sqlite::open(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let meta = meta(&database)?;
    let stem = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let native = meta.agent_id.clone().filter(|id| !id.is_empty()).unwrap_or(stem);
    let mut session = Session::new(AGENT.id, native);
    meta.tell(&mut session);
    beside(folder, &mut session);
    let root = match meta.latest_root_blob_id.as_deref() {
        Some(id) => blob(&database, id)?,
        None => Blob::Missing,
    };
    let mut ids = Vec::new();
    if let Blob::Bytes(root) = &root {
        for (field, bytes) in fields(root) {
            match field {
                MESSAGES => ids.extend(id(bytes)),
                WORKSPACE if session.cwd.is_none() => session.cwd = workspace(bytes),
                _ => {}
            }
        }
    }
    let mut walk =
        Walk { database: &database, seen: HashSet::new(), reader: Reader::new(session, sink) };
    walk.reader.tell_session()?;
    for id in ids {
        walk.visit(&id, 0)?;
    }
    if walk.reader.told == 0 {
        walk.all()?;
    }
    walk.reader.tell_session()
}

/// The description in the database.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    agent_id: Option<String>,
    name: Option<String>,
    created_at: Option<Moment>,
    mode: Option<String>,
    last_used_model: Option<String>,
    latest_root_blob_id: Option<String>,
    subagent_info: Option<Subagent>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subagent {
    #[serde(alias = "parentComposerId", alias = "parentConversationId")]
    parent_agent_id: Option<String>,
}

impl Meta {
    fn tell(&self, session: &mut Session) {
        let name = self.name.as_deref().filter(|name| *name != UNNAMED).unwrap_or_default();
        session.title(TitleRank::Generated, name);
        session.started_at = self.created_at.and_then(|at| at.0);
        session.model = self.last_used_model.clone().filter(|model| !model.is_empty());
        if let Some(mode) = &self.mode {
            session.extensions.insert("mode".into(), Json::from_value(mode));
        }
        if let Some(subagent) = &self.subagent_info {
            session.kind = Kind::Agent;
            session.parent.clone_from(&subagent.parent_agent_id);
        }
    }
}

/// Reads the description: one row of JSON, in hexadecimal or as it is.
fn meta(database: &Database) -> Result<Meta> {
    let mut meta = Meta::default();
    if database.columns("meta")?.is_empty() {
        return Ok(meta);
    }
    let sql = format!("SELECT {} FROM meta ORDER BY key", sqlite::bounded("value"));
    database.each(&sql, [], |row| {
        let bytes = row.get_ref(0).ok().and_then(sqlite::bytes).unwrap_or_default();
        let decoded = unhex(bytes).unwrap_or_else(|| bytes.to_vec());
        if meta.agent_id.is_none()
            && let Ok(found) = serde_json::from_slice(&decoded)
        {
            meta = found;
        }
        Ok(())
    })?;
    Ok(meta)
}

/// Reads the description beside the database, which newer builds write.
fn beside(folder: &Path, session: &mut Session) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Beside {
        title: Option<String>,
        cwd: Option<String>,
        created_at_ms: Option<Moment>,
        updated_at_ms: Option<Moment>,
        is_subagent: Option<bool>,
    }
    let Some(text) = files::small_text(&folder.join(CHAT_META), 1 << 20) else { return };
    let Ok(beside) = serde_json::from_str::<Beside>(&text) else { return };
    let title = beside.title.filter(|title| title != UNNAMED).unwrap_or_default();
    session.title(TitleRank::Listed, title);
    session.cwd = beside.cwd.filter(|cwd| !cwd.is_empty());
    session.seen(beside.created_at_ms.and_then(|at| at.0));
    session.seen(beside.updated_at_ms.and_then(|at| at.0));
    if beside.is_subagent == Some(true) {
        session.kind = Kind::Agent;
    }
}

struct Walk<'a, 's> {
    database: &'a Database,
    seen: HashSet<String>,
    reader: Reader<'s>,
}

impl Walk<'_, '_> {
    /// Tells a message, or the messages of a list.
    fn visit(&mut self, id: &str, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH || !self.seen.insert(id.to_owned()) {
            return Ok(());
        }
        let at = self.reader.told;
        let bytes = match blob(self.database, id)? {
            Blob::Bytes(bytes) => bytes,
            Blob::Missing => return self.reader.sink.accept(Record::passed(at, "missing blob")),
            Blob::TooLong => return self.reader.sink.accept(Record::bad(at, "blob too long")),
        };
        if let Some(json) = message(&bytes) {
            return self.reader.line(json, at, End::Newline);
        }
        let children: Vec<String> =
            fields(&bytes).filter_map(|(_, bytes)| self::id(bytes)).collect();
        children.iter().try_for_each(|child| self.visit(child, depth + 1))
    }

    /// Tells every message there is, in the order they were written: for roots that nobody
    /// knows how to read.
    fn all(&mut self) -> Result<()> {
        if self.database.columns("blobs")?.is_empty() {
            return Ok(());
        }
        let reader = &mut self.reader;
        let sql = format!("SELECT {} FROM blobs ORDER BY rowid", sqlite::bounded("data"));
        self.database.each(&sql, [], |row| {
            let bytes = row.get_ref(0).ok().and_then(sqlite::bytes);
            match bytes.and_then(message) {
                Some(json) => {
                    let at = reader.told;
                    reader.line(json, at, End::Newline)
                }
                None => Ok(()),
            }
        })
    }
}

/// The JSON of a message, alone or inside a wrapper of one field.
fn message(bytes: &[u8]) -> Option<&[u8]> {
    let is_message = |bytes: &[u8]| {
        bytes.starts_with(b"{\"") && memchr::memmem::find(bytes, b"\"role\"").is_some()
    };
    if is_message(bytes) {
        return Some(bytes);
    }
    fields(bytes).map(|(_, inside)| inside).find(|inside| is_message(inside))
}

/// A row of `blobs`.
enum Blob {
    Missing,
    TooLong,
    Bytes(Vec<u8>),
}

fn blob(database: &Database, id: &str) -> Result<Blob> {
    let sql =
        format!("SELECT {}, octet_length(data) FROM blobs WHERE id = ?1", sqlite::bounded("data"));
    let mut blob = Blob::Missing;
    let found = database.each(&sql, [id], |row| {
        if let Some(bytes) = row.get_ref(0).ok().and_then(sqlite::bytes) {
            blob = Blob::Bytes(bytes.to_vec());
        } else if row.get(1).is_ok_and(|length: i64| length > sqlite::MAX_VALUE_BYTES as i64) {
            blob = Blob::TooLong;
        }
        Ok(())
    });
    match found {
        // A blob that cannot be read is one that is not there.
        Err(Error::Database { .. }) => Ok(Blob::Missing),
        found => found.map(|()| blob),
    }
}

fn workspace(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    (text.starts_with("file://") || text.starts_with('/')).then(|| vscode::path(text))
}

/// The id that a field of 32 bytes is.
fn id(bytes: &[u8]) -> Option<String> {
    let digits = |byte: &u8| {
        [byte >> 4, byte & 15].map(|half| char::from(b"0123456789abcdef"[usize::from(half)]))
    };
    (bytes.len() == 32).then(|| bytes.iter().flat_map(digits).collect())
}

fn unhex(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    let byte = |pair: Option<&str>| u8::from_str_radix(pair?, 16).ok();
    if text.is_empty() || !text.len().is_multiple_of(2) { None } else { pairs.map(byte).collect() }
}

/// The fields of a Protocol Buffers message that have a length; what is damaged ends it.
fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        loop {
            let tag = varint(&mut bytes)?;
            match tag & 7 {
                0 => drop(varint(&mut bytes)?),
                1 => bytes = bytes.get(8..)?,
                5 => bytes = bytes.get(4..)?,
                2 => {
                    let length = usize::try_from(varint(&mut bytes)?).ok()?;
                    let (inside, rest) = bytes.split_at_checked(length)?;
                    bytes = rest;
                    return Some((tag >> 3, inside));
                }
                _ => return None,
            }
        }
    })
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_a_length_are_found_among_others() {
        let check = |bytes: &[u8], expected: &[(u64, &[u8])]| {
            assert_eq!(fields(bytes).collect::<Vec<_>>(), expected, "{bytes:?}");
        };
        check(b"\x0a\x02ab\x10\x96\x01\x4a\x01c", &[(1, b"ab"), (9, b"c")]);
        check(b"\x0a\x05ab", &[]);
        check(b"\x0a\x01a\x0f", &[(1, b"a")]);
        check(b"", &[]);
    }

    #[test]
    fn the_description_may_be_hexadecimal() {
        assert_eq!(unhex(b"7b7d").as_deref(), Some(&b"{}"[..]));
        assert_eq!(unhex(b"{}"), None);
        assert_eq!(unhex("7ä".as_bytes()), None);
    }
}
