//! Reads chats of the terminal program. `store.db` holds content-addressed blobs: messages as JSON
//! and lists of messages as Protocol Buffers. The chat's metadata is JSON in hexadecimal, and in
//! `meta.json`.

use std::collections::HashSet;
use std::path::Path;

use serde::Deserialize;

use super::transcript::TranscriptReader;
use super::value::Moment;
use super::{AGENT, CHAT_META};
use crate::connectors::formats::jsonl::End;
use crate::connectors::formats::protobuf::ProtobufMessage;
use crate::connectors::formats::sqlite::{self, Database};
use crate::connectors::formats::{files, vscode};
use crate::connectors::{Record, Sink};
use crate::error::{Error, Result};
use crate::model::{Json, Session, SessionKind, TitleRank};

/// The title of a chat that has no name yet.
const UNNAMED: &str = "New Agent";

/// Numbers of the root blob's fields: the list of messages, and the workspace path.
const MESSAGES: u64 = 1;
const WORKSPACE: u64 = 9;

/// Maximum nesting of lists. Deeper lists are damaged.
const MAX_DEPTH: usize = 8;

/// Reads a chat database and emits its session and messages.
pub(super) fn read_chat_database(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let database = sqlite::open_database(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let meta = read_chat_meta(&database)?;
    let stem = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let native = meta.agent_id.clone().filter(|id| !id.is_empty()).unwrap_or(stem);
    let mut session = Session::new(AGENT.id, native);
    meta.apply_to_session(&mut session);
    add_meta_file(folder, &mut session);
    let root = match meta.latest_root_blob_id.as_deref() {
        Some(id) => read_blob(&database, id)?,
        None => ChatBlob::Missing,
    };
    let mut ids = Vec::new();
    if let ChatBlob::Bytes(root) = &root {
        for (field, bytes) in ProtobufMessage::new(root).byte_fields() {
            match field {
                MESSAGES => ids.extend(blob_id_of_field(bytes)),
                WORKSPACE if session.cwd.is_none() => session.cwd = find_workspace_path(bytes),
                _ => {}
            }
        }
    }
    let mut walk = BlobWalk {
        database: &database,
        seen: HashSet::new(),
        reader: TranscriptReader::new(session, sink),
    };
    walk.reader.emit_transcript_session()?;
    for id in ids {
        walk.visit_blob(&id, 0)?;
    }
    if walk.reader.emitted == 0 {
        walk.visit_all_blobs()?;
    }
    walk.reader.emit_transcript_session()
}

/// The chat's metadata in the database.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ChatMeta {
    agent_id: Option<String>,
    name: Option<String>,
    created_at: Option<Moment>,
    mode: Option<String>,
    last_used_model: Option<String>,
    latest_root_blob_id: Option<String>,
    subagent_info: Option<ChatSubagent>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChatSubagent {
    #[serde(alias = "parentComposerId", alias = "parentConversationId")]
    parent_agent_id: Option<String>,
}

impl ChatMeta {
    fn apply_to_session(&self, session: &mut Session) {
        let name = self.name.as_deref().filter(|name| *name != UNNAMED).unwrap_or_default();
        session.add_title(TitleRank::Generated, name);
        session.started_at = self.created_at.and_then(|at| at.0);
        session.model = self.last_used_model.clone().filter(|model| !model.is_empty());
        if let Some(mode) = &self.mode {
            session.extensions.insert("mode".into(), Json::from_value(mode));
        }
        if let Some(subagent) = &self.subagent_info {
            session.kind = SessionKind::Agent;
            session.parent.clone_from(&subagent.parent_agent_id);
        }
    }
}

/// Reads the metadata from the database: one row of JSON, in hexadecimal or as plain text.
fn read_chat_meta(database: &Database) -> Result<ChatMeta> {
    let mut meta = ChatMeta::default();
    if database.table_columns("meta")?.is_empty() {
        return Ok(meta);
    }
    let sql = format!("SELECT {} FROM meta ORDER BY key", sqlite::size_bounded_column("value"));
    database.for_each_row(&sql, [], |row| {
        let bytes = row.get_ref(0).ok().and_then(sqlite::format_bytes).unwrap_or_default();
        let decoded = decode_hex(bytes).unwrap_or_else(|| bytes.to_vec());
        if meta.agent_id.is_none()
            && let Ok(found) = serde_json::from_slice(&decoded)
        {
            meta = found;
        }
        Ok(())
    })?;
    Ok(meta)
}

/// Adds the metadata from the file beside the database, which newer builds write.
fn add_meta_file(folder: &Path, session: &mut Session) {
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
    session.add_title(TitleRank::Listed, title);
    session.cwd = beside.cwd.filter(|cwd| !cwd.is_empty());
    session.extend_time_span(beside.created_at_ms.and_then(|at| at.0));
    session.extend_time_span(beside.updated_at_ms.and_then(|at| at.0));
    if beside.is_subagent == Some(true) {
        session.kind = SessionKind::Agent;
    }
}

struct BlobWalk<'a, 's> {
    database: &'a Database,
    seen: HashSet<String>,
    reader: TranscriptReader<'s>,
}

impl BlobWalk<'_, '_> {
    /// Reads a blob that is a message, or all messages of a blob that is a list.
    fn visit_blob(&mut self, id: &str, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH || !self.seen.insert(id.to_owned()) {
            return Ok(());
        }
        let at = self.reader.emitted;
        let bytes = match read_blob(self.database, id)? {
            ChatBlob::Bytes(bytes) => bytes,
            ChatBlob::Missing => {
                return self
                    .reader
                    .sink
                    .accept_record(Record::passed_over_record(at, "missing blob"));
            }
            ChatBlob::TooLong => {
                return self
                    .reader
                    .sink
                    .accept_record(Record::unreadable_record(at, "blob too long"));
            }
        };
        if let Some(json) = unwrap_message_json(&bytes) {
            return self.reader.read_transcript_message(json, at, End::Newline);
        }
        let children: Vec<String> = ProtobufMessage::new(&bytes)
            .byte_fields()
            .filter_map(|(_, bytes)| self::blob_id_of_field(bytes))
            .collect();
        children.iter().try_for_each(|child| self.visit_blob(child, depth + 1))
    }

    /// Reads every message in the database, in the order of writing. Used when the root blob has an
    /// unknown format.
    fn visit_all_blobs(&mut self) -> Result<()> {
        if self.database.table_columns("blobs")?.is_empty() {
            return Ok(());
        }
        let reader = &mut self.reader;
        let sql =
            format!("SELECT {} FROM blobs ORDER BY rowid", sqlite::size_bounded_column("data"));
        self.database.for_each_row(&sql, [], |row| {
            let bytes = row.get_ref(0).ok().and_then(sqlite::format_bytes);
            match bytes.and_then(unwrap_message_json) {
                Some(json) => {
                    let at = reader.emitted;
                    reader.read_transcript_message(json, at, End::Newline)
                }
                None => Ok(()),
            }
        })
    }
}

/// Returns the JSON of a message, which may be wrapped in a single field.
fn unwrap_message_json(bytes: &[u8]) -> Option<&[u8]> {
    let is_message = |bytes: &[u8]| {
        bytes.starts_with(b"{\"") && memchr::memmem::find(bytes, b"\"role\"").is_some()
    };
    if is_message(bytes) {
        return Some(bytes);
    }
    ProtobufMessage::new(bytes)
        .byte_fields()
        .map(|(_, inside)| inside)
        .find(|inside| is_message(inside))
}

/// A row of `blobs`.
enum ChatBlob {
    Missing,
    TooLong,
    Bytes(Vec<u8>),
}

fn read_blob(database: &Database, id: &str) -> Result<ChatBlob> {
    let sql = format!(
        "SELECT {}, octet_length(data) FROM blobs WHERE id = ?1",
        sqlite::size_bounded_column("data")
    );
    let mut blob = ChatBlob::Missing;
    let found = database.for_each_row(&sql, [id], |row| {
        if let Some(bytes) = row.get_ref(0).ok().and_then(sqlite::format_bytes) {
            blob = ChatBlob::Bytes(bytes.to_vec());
        } else if row.get(1).is_ok_and(|length: i64| length > sqlite::MAX_VALUE_BYTES as i64) {
            blob = ChatBlob::TooLong;
        }
        Ok(())
    });
    match found {
        // A blob that cannot be read counts as missing.
        Err(Error::Database { .. }) => Ok(ChatBlob::Missing),
        found => found.map(|()| blob),
    }
}

fn find_workspace_path(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    (text.starts_with("file://") || text.starts_with('/')).then(|| vscode::path_from_uri(text))
}

/// Returns the blob id in a field of 32 bytes, in hexadecimal.
fn blob_id_of_field(bytes: &[u8]) -> Option<String> {
    let digits = |byte: &u8| {
        [byte >> 4, byte & 15].map(|half| char::from(b"0123456789abcdef"[usize::from(half)]))
    };
    (bytes.len() == 32).then(|| bytes.iter().flat_map(digits).collect())
}

fn decode_hex(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    let byte = |pair: Option<&str>| u8::from_str_radix(pair?, 16).ok();
    if text.is_empty() || !text.len().is_multiple_of(2) { None } else { pairs.map(byte).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_may_be_hexadecimal() {
        assert_eq!(decode_hex(b"7b7d").as_deref(), Some(&b"{}"[..]));
        assert_eq!(decode_hex(b"{}"), None);
        assert_eq!(decode_hex("7ä".as_bytes()), None);
    }
}
