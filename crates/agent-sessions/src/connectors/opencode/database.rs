//! Reads the database of versions since 1.2: a row for each session, message and part, and since
//! version 2 a row for each entry of a session.
//!
//! Version 2 copied the older sessions into its own tables and left the older tables in place. A
//! session that both have is read from the older tables, which hold more, and continued with the
//! entries that only the newer one has.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use rusqlite::Row;
use xxhash_rust::xxh3::Xxh3;

use super::document::{OpenCodeRevert, given_title};
use super::entry::{self, RecordedEntry};
use super::message::{MessageConverter, RecordedMessage};
use super::part::RecordedPart;
use super::transcript::TranscriptWriter;
use crate::connectors::formats::json::{self, document_text};
use crate::connectors::formats::rows::{
    bounded_select_list, hash_row, json_column, number_column, text_column,
};
use crate::connectors::formats::sqlite::{self, Database};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Json, Session, SessionKind, Timestamp, TitleRank};

/// Tables that are read. Others hold credentials, caches, and events that repeat the messages.
const TABLES: [&str; 8] = [
    "session",
    "session_v2",
    "message",
    "part",
    "session_message",
    "project",
    "claude_import",
    "external_import",
];

/// Columns of a session that are kept although the model has no field for them.
const KEPT_COLUMNS: &[&str] = &[
    "agent",
    "context_from",
    "fork_boundary",
    "idle_outcome",
    "metadata",
    "share_url",
    "time_archived",
];

/// The reason reported for a value over the size limit.
const TOO_LONG: &str = "a value is too long";

/// The agent id of messages that belong to the main conversation.
const MAIN_AGENT: &str = "main";

/// Reads all sessions of a database, most recently changed first.
pub(super) fn read_database(agent: &str, path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let database = sqlite::open_database(path)?;
    let mut columns = HashMap::new();
    for table in TABLES {
        columns.insert(table, database.table_columns(table)?);
    }
    let mut reader = DatabaseReader { agent, database, columns, imports: HashMap::new() };
    reader.read_imports()?;
    for session in reader.load_sessions()? {
        if sink.is_due() {
            break;
        }
        reader.read_session(session, sink)?;
    }
    Ok(())
}

struct DatabaseReader<'a> {
    agent: &'a str,
    database: Database,
    /// Column names, by table.
    columns: HashMap<&'static str, Vec<String>>,
    /// Messages that were imported from other agents, by session.
    imports: HashMap<String, ImportedMessages>,
}

/// The messages of a session that were imported from another agent.
#[derive(Default)]
struct ImportedMessages {
    ids: HashSet<String>,
    /// Whether the import does not say which messages are its own.
    is_whole_session: bool,
}

/// The row of a session.
struct SessionRow {
    session: Session,
    row: i64,
    created_ms: Option<i64>,
    updated_ms: Option<i64>,
    revert: Option<String>,
    /// The session that the row names as the origin of a fork.
    origin: Option<String>,
    /// Hash of all columns.
    hash: u64,
}

/// The row of a message or entry, without its document.
struct MessageRow {
    row: i64,
    id: String,
    kind: String,
    created_ms: Option<i64>,
    is_sidechain: bool,
}

impl DatabaseReader<'_> {
    fn has_column(&self, table: &str, column: &str) -> bool {
        self.columns.get(table).is_some_and(|columns| columns.iter().any(|one| one == column))
    }

    /// Returns a column's name, or `NULL` when the table lacks it.
    fn column_or_null(&self, table: &str, column: &'static str) -> &'static str {
        if self.has_column(table, column) { column } else { "NULL" }
    }

    /// Returns whether a table of messages can be read.
    fn has_documents(&self, table: &str) -> bool {
        ["id", "session_id", "data"].iter().all(|column| self.has_column(table, column))
    }

    /// Returns whether the parts of messages can be read.
    fn has_parts(&self) -> bool {
        self.has_documents("part") && self.has_column("part", "message_id")
    }

    /// Reads which messages were imported from other agents: they are in those agents' own files.
    fn read_imports(&mut self) -> Result<()> {
        for table in ["claude_import", "external_import"] {
            if !self.has_column(table, "session_id") {
                continue;
            }
            let ids = self.column_or_null(table, "message_ids");
            let sql = format!("SELECT session_id, {ids} AS message_ids FROM {table}");
            let mut found: Vec<(String, Option<Vec<String>>)> = Vec::new();
            self.database.for_each_row(&sql, [], |row| {
                let ids = json_column(row, "message_ids");
                let ids = ids.and_then(|ids| ids.parse_as::<Vec<Json>>());
                let ids = ids.map(|ids| ids.iter().filter_map(Json::parse_as).collect());
                found.extend(text_column(row, "session_id").map(|session| (session, ids)));
                Ok(())
            })?;
            for (session, ids) in found {
                let imports = self.imports.entry(session).or_default();
                imports.is_whole_session |= ids.is_none();
                imports.ids.extend(ids.unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Loads the rows of all sessions, most recently changed first.
    fn load_sessions(&self) -> Result<Vec<SessionRow>> {
        let roots = self.project_roots()?;
        let mut sessions: BTreeMap<String, SessionRow> = BTreeMap::new();
        for table in ["session_v2", "session"] {
            if !self.has_column(table, "id") {
                continue;
            }
            let columns = bounded_select_list(&self.columns[table]);
            let sql = format!("SELECT rowid AS session_rowid, {columns} FROM {table}");
            self.database.for_each_row(&sql, [], |row| {
                let Some(found) = self.session_from_row(row, &roots) else { return Ok(()) };
                let native = found.session.id.native.clone();
                match sessions.get_mut(&native) {
                    Some(known) => known.complete_from(found),
                    None => drop(sessions.insert(native, found)),
                }
                Ok(())
            })?;
        }
        let mut sessions: Vec<SessionRow> = sessions.into_values().collect();
        sessions.sort_by_key(|session| std::cmp::Reverse((session.updated_ms, session.row)));
        Ok(sessions)
    }

    /// Reads the root directories of repositories, by project.
    fn project_roots(&self) -> Result<HashMap<String, String>> {
        let mut roots = HashMap::new();
        if ["id", "worktree", "vcs"].iter().all(|column| self.has_column("project", column)) {
            let sql = "SELECT id, worktree FROM project WHERE vcs IS NOT NULL";
            self.database.for_each_row(sql, [], |row| {
                roots.extend(text_column(row, "id").zip(text_column(row, "worktree")));
                Ok(())
            })?;
        }
        Ok(roots)
    }

    fn session_from_row(
        &self,
        row: &Row<'_>,
        roots: &HashMap<String, String>,
    ) -> Option<SessionRow> {
        let mut session = Session::new(self.agent, text_column(row, "id")?);
        session.cwd = text_column(row, "directory");
        session.agent_version = text_column(row, "version");
        session.parent = text_column(row, "parent_id");
        if session.parent.is_some() {
            session.kind = SessionKind::Agent;
        }
        let title = text_column(row, "title").unwrap_or_default();
        session.add_title(TitleRank::Generated, given_title(&title).unwrap_or_default());
        session.add_title(TitleRank::Slug, text_column(row, "slug").unwrap_or_default());
        session.root = text_column(row, "project_id").and_then(|id| roots.get(&id).cloned());
        for column in KEPT_COLUMNS {
            let value = json_column(row, column).filter(|value| value.as_json_str() != "{}");
            session.extensions.extend(value.map(|value| ((*column).to_owned(), value)));
        }
        let mut hash = Xxh3::new();
        hash.update(session.root.as_deref().unwrap_or_default().as_bytes());
        hash_row(row, &mut hash);
        Some(SessionRow {
            row: number_column(row, "session_rowid").unwrap_or(0),
            created_ms: number_column(row, "time_created"),
            updated_ms: number_column(row, "time_updated"),
            revert: text_column(row, "revert"),
            origin: text_column(row, "fork_session_id"),
            hash: hash.digest(),
            session,
        })
    }

    /// Reads one session, unless an earlier read emitted it as it is.
    fn read_session(&self, stored: SessionRow, sink: &mut dyn Sink) -> Result<()> {
        let native = stored.session.id.native.clone();
        let mut hash = Xxh3::new();
        hash.update(&stored.hash.to_le_bytes());
        let all_messages = self.message_rows("message", &native, &mut hash)?;
        self.hash_parts(&native, all_messages.last(), &mut hash)?;
        let entries = self.message_rows("session_message", &native, &mut hash)?;
        let at = stored.row as u64;
        let is_empty = all_messages.is_empty() && entries.is_empty();
        let messages = self.without_imports(&native, all_messages, &mut hash);
        let entries = without_copies(entries, &messages);
        if messages.is_empty() && entries.is_empty() {
            let reason =
                if is_empty { "session without messages" } else { "imported from another agent" };
            return sink.accept_record(Record::passed_over_record(at, reason));
        }
        let (id, fingerprint) = (stored.session.id.clone(), hash.digest());
        if sink.is_unchanged(&id, fingerprint)? {
            return Ok(());
        }
        let created = stored.created_ms.and_then(Timestamp::from_millis);
        let revert = stored.revert.as_deref().and_then(json::parse_json::<OpenCodeRevert<'_>>);
        let mut writer = TranscriptWriter::begin_session(stored.session, created, revert, sink)?;
        let mut converter = MessageConverter::default();
        for message in messages {
            self.read_message(message, &mut converter, &mut writer)?;
        }
        for entry in entries {
            self.read_entry(entry, &mut writer)?;
        }
        let origin = stored.origin;
        writer.finish_session(|copied_to| match origin {
            Some(origin) => Ok(Some(origin)),
            None => self.find_origin(&native, copied_to),
        })?;
        sink.finish_session(&id, fingerprint)
    }

    /// Lists the rows of a session's messages or entries in order, and hashes the columns that
    /// change with them.
    fn message_rows(&self, table: &str, native: &str, hash: &mut Xxh3) -> Result<Vec<MessageRow>> {
        if !self.has_documents(table) {
            return Ok(Vec::new());
        }
        let column = |name| self.column_or_null(table, name);
        let sql = format!(
            "SELECT rowid, id, {} AS type, {} AS time_created, {} AS time_updated, {} AS agent_id,
               octet_length(data) AS size
             FROM {table} WHERE session_id = ?1 ORDER BY {}, id",
            column("type"),
            column("time_created"),
            column("time_updated"),
            column("agent_id"),
            if self.has_column(table, "seq") { "seq" } else { column("time_created") },
        );
        let mut rows = Vec::new();
        self.database.for_each_row(&sql, [native], |row| {
            hash_row(row, hash);
            let agent = text_column(row, "agent_id");
            rows.push(MessageRow {
                row: number_column(row, "rowid").unwrap_or(0),
                id: text_column(row, "id").unwrap_or_default(),
                kind: text_column(row, "type").unwrap_or_default(),
                created_ms: number_column(row, "time_created"),
                is_sidechain: agent.is_some_and(|agent| agent != MAIN_AGENT),
            });
            Ok(())
        })?;
        Ok(rows)
    }

    /// Hashes the number of a session's parts, and the parts of its last message. The parts of
    /// other messages do not change without their message.
    fn hash_parts(&self, native: &str, last: Option<&MessageRow>, hash: &mut Xxh3) -> Result<()> {
        if !self.has_parts() {
            return Ok(());
        }
        let count = "SELECT count(*) FROM part WHERE session_id = ?1";
        let mut add = |row: &Row<'_>| {
            hash_row(row, hash);
            Ok(())
        };
        self.database.for_each_row(count, [native], &mut add)?;
        let Some(last) = last else { return Ok(()) };
        let updated = self.column_or_null("part", "time_updated");
        let sql =
            format!("SELECT id, {updated}, octet_length(data) FROM part WHERE message_id = ?1");
        self.database.for_each_row(&sql, [&last.id], &mut add)
    }

    /// Removes the messages that were imported from another agent.
    fn without_imports(
        &self,
        native: &str,
        messages: Vec<MessageRow>,
        hash: &mut Xxh3,
    ) -> Vec<MessageRow> {
        let Some(imports) = self.imports.get(native) else { return messages };
        if imports.is_whole_session {
            return Vec::new();
        }
        let own = messages.into_iter().filter(|message| !imports.ids.contains(&message.id));
        let own: Vec<MessageRow> = own.collect();
        hash.update(&own.len().to_le_bytes());
        own
    }

    /// Reads the document of a message or entry. `None` when it is too long.
    fn document(&self, table: &str, row: i64) -> Result<Option<String>> {
        let mut text = None;
        let data = sqlite::size_bounded_column("data");
        let sql = format!("SELECT {data} AS data FROM {table} WHERE rowid = ?1");
        self.database.for_each_row(&sql, [row], |row| {
            text = row.get_ref(0).ok().and_then(sqlite::format_bytes).map(document_text);
            Ok(())
        })?;
        Ok(text)
    }

    fn read_message(
        &self,
        message: MessageRow,
        converter: &mut MessageConverter,
        writer: &mut TranscriptWriter<'_>,
    ) -> Result<()> {
        let MessageRow { row, id, created_ms, is_sidechain, .. } = message;
        let at = row as u64;
        let mut parts = Vec::new();
        let mut too_long = 0;
        if self.has_parts() {
            let data = sqlite::size_bounded_column("data");
            let sql =
                format!("SELECT id, {data} AS data FROM part WHERE message_id = ?1 ORDER BY id");
            self.database.for_each_row(&sql, [&id], |row| {
                let bytes = row.get_ref(1).ok().and_then(sqlite::format_bytes);
                match bytes.map(document_text) {
                    Some(text) => parts.push(RecordedPart { id: text_column(row, "id"), text }),
                    None => too_long += 1,
                }
                Ok(())
            })?;
        }
        for _ in 0..too_long {
            writer.skip_record(at, TOO_LONG)?;
        }
        let Some(text) = self.document("message", row)? else {
            return writer.skip_record(at, TOO_LONG);
        };
        let record = RecordedMessage { id, created_ms, is_sidechain, text, parts };
        let (outcome, facts) = converter.convert_message(&record);
        writer.emit_converted(&record.id, outcome, facts, at)
    }

    fn read_entry(&self, entry: MessageRow, writer: &mut TranscriptWriter<'_>) -> Result<()> {
        let MessageRow { row, id, kind, created_ms, .. } = entry;
        let Some(text) = self.document("session_message", row)? else {
            return writer.skip_record(row as u64, TOO_LONG);
        };
        let record = RecordedEntry { id, kind, created_ms, text };
        let (outcome, facts) = entry::convert_entry(&record);
        writer.emit_converted(&record.id, outcome, facts, row as u64)
    }

    /// Finds the session from which a fork copied its beginning. Copies keep their times, so it is
    /// the session that made the last copied message.
    fn find_origin(&self, native: &str, copied_to: Option<Timestamp>) -> Result<Option<String>> {
        let Some(last) = copied_to else { return Ok(None) };
        for (messages, sessions) in [("message", "session"), ("session_message", "session_v2")] {
            let has_times =
                [messages, sessions].iter().all(|table| self.has_column(table, "time_created"));
            if !has_times {
                continue;
            }
            let sql = format!(
                "SELECT message.session_id AS origin FROM {messages} AS message
                 JOIN {sessions} AS origin ON origin.id = message.session_id
                 WHERE message.time_created = ?1 AND message.session_id != ?2
                   AND origin.time_created <= ?1
                 ORDER BY origin.time_created, message.id LIMIT 1"
            );
            let mut origin = None;
            self.database.for_each_row(&sql, (last.as_millis(), native), |row| {
                origin = text_column(row, "origin");
                Ok(())
            })?;
            if origin.is_some() {
                return Ok(origin);
            }
        }
        Ok(None)
    }
}

impl SessionRow {
    /// Adds the row of the same session in the older table.
    fn complete_from(&mut self, older: SessionRow) {
        self.session.complete_from(older.session);
        self.created_ms = self.created_ms.or(older.created_ms);
        self.updated_ms = self.updated_ms.max(older.updated_ms);
        self.revert = self.revert.take().or(older.revert);
        self.origin = self.origin.take().or(older.origin);
        self.hash ^= older.hash.rotate_left(1);
    }
}

/// Removes the entries that version 2 made from older messages.
fn without_copies(entries: Vec<MessageRow>, messages: &[MessageRow]) -> Vec<MessageRow> {
    let ids: HashSet<&str> = messages.iter().map(|message| message.id.as_str()).collect();
    let times: HashSet<i64> = messages.iter().filter_map(|message| message.created_ms).collect();
    let is_copy = |entry: &MessageRow| {
        // The text that the program had added to a prompt became an entry of its own.
        let is_split = entry.kind == "synthetic";
        ids.contains(entry.id.as_str())
            || is_split && entry.created_ms.is_some_and(|created| times.contains(&created))
    };
    entries.into_iter().filter(|entry| !is_copy(entry)).collect()
}
