//! Reads the database of conversations. Other tables of it hold credentials and settings, and are
//! not opened.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::Row;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::conversation;
use crate::connectors::formats::fold;
use crate::connectors::formats::rows::{number_column, text_column};
use crate::connectors::formats::sqlite::{self, Database};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Session, Timestamp};

/// The tables of conversations, newest form first. The older one has one for each directory.
const TABLES: [&str; 2] = ["conversations_v2", "conversations"];

/// Reads all conversations and sends them to `sink`.
pub(super) fn read_conversations(agent: &str, path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let database = sqlite::open_database(path)?;
    let mut rows = Vec::new();
    for table in TABLES {
        rows.extend(list_rows(&database, table)?);
    }
    // A conversation that went on in another directory has a row for each: the latest counts.
    let mut latest: HashMap<String, (i64, usize)> = HashMap::new();
    for (at, row) in rows.iter().enumerate() {
        let Some(id) = &row.id else { continue };
        let known = latest.get(id).copied();
        if known.is_none_or(|(updated, _)| row.updated_ms.unwrap_or(i64::MIN) > updated) {
            latest.insert(id.clone(), (row.updated_ms.unwrap_or(i64::MIN), at));
        }
    }
    for (at, row) in rows.iter().enumerate() {
        if sink.is_due() {
            break;
        }
        let is_latest = |id: &String| latest.get(id).is_none_or(|(_, place)| *place == at);
        if row.id.as_ref().is_none_or(is_latest) {
            row.read_conversation(agent, &database, sink)?;
        }
    }
    Ok(())
}

/// A row of a table of conversations, without its document.
struct ConversationRow {
    table: &'static str,
    number: i64,
    /// The working directory.
    key: Option<String>,
    /// Id of the conversation. In the older table only the document has it.
    id: Option<String>,
    created_ms: Option<i64>,
    updated_ms: Option<i64>,
    size: i64,
}

fn list_rows(database: &Database, table: &'static str) -> Result<Vec<ConversationRow>> {
    let columns = database.table_columns(table)?;
    let has = |name: &str| columns.iter().any(|column| column == name);
    let mut rows = Vec::new();
    if !has("value") {
        return Ok(rows);
    }
    let known = ["key", "conversation_id", "created_at", "updated_at"];
    let known = known.iter().filter(|name| has(name));
    let known = known.map(|name| format!("{} AS {name}", sqlite::size_bounded_column(name)));
    let known: Vec<String> = known.collect();
    let sql = format!(
        "SELECT rowid AS rowid, octet_length(value) AS size, {} FROM {table} ORDER BY rowid",
        if known.is_empty() { "1".to_owned() } else { known.join(", ") }
    );
    database.for_each_row(&sql, [], |row| {
        rows.push(ConversationRow::from_row(table, row));
        Ok(())
    })?;
    Ok(rows)
}

impl ConversationRow {
    fn from_row(table: &'static str, row: &Row<'_>) -> Self {
        Self {
            table,
            number: number_column(row, "rowid").unwrap_or(0),
            key: text_column(row, "key"),
            id: text_column(row, "conversation_id"),
            created_ms: number_column(row, "created_at"),
            updated_ms: number_column(row, "updated_at"),
            size: number_column(row, "size").unwrap_or(0),
        }
    }

    /// Returns a hash that changes with the conversation. Without a time of its last change, it
    /// covers the document.
    fn fingerprint(&self, document: Option<&[u8]>) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(self.key.as_deref().unwrap_or_default().as_bytes());
        hash.update(&self.updated_ms.unwrap_or(0).to_le_bytes());
        hash.update(&self.size.to_le_bytes());
        hash.update(&document.map_or(0, xxh3_64).to_le_bytes());
        hash.digest()
    }

    fn read_conversation(
        &self,
        agent: &str,
        database: &Database,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let position = self.number as u64;
        let early = self.updated_ms.map(|_| self.fingerprint(None));
        if let (Some(id), Some(fingerprint)) = (&self.id, early)
            && sink.is_unchanged(&Session::new(agent, id.clone()).id, fingerprint)?
        {
            return Ok(());
        }
        let bytes = self.read_document(database)?;
        let text = String::from_utf8_lossy(&bytes);
        let text = fold::fold_text(&text);
        let Some(mut parsed) = conversation::parse_conversation(&text) else {
            return sink.accept_record(Record::unreadable_record(position, "not a conversation"));
        };
        if parsed.is_empty() {
            let reason = "empty conversation";
            return sink.accept_record(Record::passed_over_record(position, reason));
        }
        // The older table has one conversation for each directory.
        let native = self.id.clone().or_else(|| parsed.take_id()).or_else(|| self.key.clone());
        let Some(native) = native else {
            let reason = "a conversation without id";
            return sink.accept_record(Record::unreadable_record(position, reason));
        };
        let mut session = Session::new(agent, native);
        let fingerprint = early.unwrap_or_else(|| self.fingerprint(Some(&bytes)));
        if early.is_none() && sink.is_unchanged(&session.id, fingerprint)? {
            return Ok(());
        }
        session.cwd.clone_from(&self.key);
        session.extend_time_span(self.created_ms.and_then(Timestamp::from_millis));
        session.extend_time_span(self.updated_ms.and_then(Timestamp::from_millis));
        parsed.add_metadata(&mut session);
        let id = session.id.clone();
        sink.accept_record(Record::Session(Box::new(session.clone())))?;
        parsed.emit_history(&mut session, sink)?;
        sink.accept_record(Record::Session(Box::new(session)))?;
        sink.finish_session(&id, fingerprint)
    }

    fn read_document(&self, database: &Database) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let value = sqlite::size_bounded_column("value");
        let sql = format!("SELECT {value} FROM {} WHERE rowid = ?1", self.table);
        database.for_each_row(&sql, [self.number], |row| {
            bytes = row.get_ref(0).ok().and_then(sqlite::format_bytes).unwrap_or_default().to_vec();
            Ok(())
        })?;
        Ok(bytes)
    }
}
