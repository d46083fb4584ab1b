//! Reads the database of a project: a row for each session and message.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rusqlite::Row;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::Xxh3;

use super::part::PartReader;
use crate::connectors::formats::json;
use crate::connectors::formats::rows::{
    bounded_select_list, hash_row, keep_unmodeled_columns, number_column, real_column, text_column,
};
use crate::connectors::formats::sqlite::{self, Database};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{
    Block, Json, Message, Origin, Role, Session, SessionKind, Timestamp, TitleRank, Usage,
};

/// Columns of a session that have a field in the model, or that messages repeat.
const SESSION_COLUMNS: &[&str] = &[
    "created_at",
    "id",
    "message_count",
    "parent_session_id",
    "session_rowid",
    "summary_message_id",
    "title",
    "todos",
    "updated_at",
];

/// Beginning of the ids of sessions in which the program generates a title.
const TITLE_SESSION: &str = "title-";

/// The titles that the program gives to every session.
const DEFAULT_TITLES: &[&str] =
    &["Generate a title", "New Agent Session", "New Session", "Untitled Session"];

/// Numbers above are milliseconds since 1970, others seconds.
const LARGEST_SECONDS: i64 = 100_000_000_000;

/// Reads all sessions of a database, most recently changed first. `folder` is the agent's directory
/// in a project.
pub(super) fn read_database(
    agent: &str,
    path: &Path,
    folder: &str,
    sink: &mut dyn Sink,
) -> Result<()> {
    let database = sqlite::open_database(path)?;
    let sessions = database.table_columns("sessions")?;
    let messages = database.table_columns("messages")?;
    let has = |columns: &[String], name: &str| columns.iter().any(|column| column == name);
    if !has(&sessions, "id") || !["id", "session_id", "parts"].iter().all(|one| has(&messages, one))
    {
        return sink.accept_record(Record::passed_over_record(0, "no sessions"));
    }
    let reader = CrushReader { database: &database, messages };
    for stored in
        load_sessions(&database, &sessions, agent, project_directory(path, folder).as_deref())?
    {
        if sink.is_due() {
            break;
        }
        reader.read_session(stored, sink)?;
    }
    Ok(())
}

/// Returns the project that a database belongs to: the directory around the agent's own.
fn project_directory(path: &Path, folder: &str) -> Option<String> {
    let own = path.parent()?;
    let is_own = own.file_name().is_some_and(|name| name == folder);
    is_own.then(|| own.parent().map(|project| project.to_string_lossy().into_owned())).flatten()
}

/// The row of a session.
struct CrushSession {
    session: Session,
    row: i64,
    updated: Option<i64>,
    /// Id of the summary after which the conversation continues.
    summary: Option<String>,
    /// Cost of the session and its sub-agents, in millionths of a dollar.
    cost_micros: Option<u64>,
    hash: u64,
}

fn load_sessions(
    database: &Database,
    columns: &[String],
    agent: &str,
    project: Option<&str>,
) -> Result<Vec<CrushSession>> {
    let mut sessions = Vec::new();
    let columns = bounded_select_list(columns);
    let sql = format!("SELECT rowid AS session_rowid, {columns} FROM sessions");
    database.for_each_row(&sql, [], |row| {
        let Some(id) = text_column(row, "id") else { return Ok(()) };
        let is_title = id.starts_with(TITLE_SESSION);
        let mut session = Session::new(agent, id);
        session.cwd = project.map(str::to_owned);
        session.parent = text_column(row, "parent_session_id");
        session.kind = match &session.parent {
            _ if is_title => SessionKind::Copy,
            Some(_) => SessionKind::Agent,
            None => SessionKind::Root,
        };
        let title = text_column(row, "title").unwrap_or_default();
        if !DEFAULT_TITLES.contains(&title.as_str()) {
            session.add_title(TitleRank::Generated, title);
        }
        keep_unmodeled_columns(row, SESSION_COLUMNS, &mut session.extensions);
        session.extensions.retain(|_, value| !matches!(value.as_json_str(), "0" | "0.0"));
        let mut hash = Xxh3::new();
        hash_row(row, &mut hash);
        let cost = real_column(row, "cost").filter(|dollars| *dollars > 0.0);
        sessions.push(CrushSession {
            row: number_column(row, "session_rowid").unwrap_or(0),
            updated: number_column(row, "updated_at"),
            summary: text_column(row, "summary_message_id"),
            // A session's cost includes that of its sub-agents.
            cost_micros: cost
                .filter(|_| session.parent.is_none())
                .map(|dollars| (dollars * 1e6).round() as u64),
            hash: hash.digest(),
            session,
        });
        Ok(())
    })?;
    sessions.sort_by_key(|session| std::cmp::Reverse((session.updated, session.row)));
    Ok(sessions)
}

struct CrushReader<'d> {
    database: &'d Database,
    /// Column names of the messages.
    messages: Vec<String>,
}

/// The row of a message, without its parts.
struct CrushMessageRow {
    row: i64,
    message: Message,
}

impl CrushReader<'_> {
    fn column_or_null(&self, column: &'static str) -> &'static str {
        if self.messages.iter().any(|one| one == column) { column } else { "NULL" }
    }

    /// Reads one session, unless an earlier read emitted it as it is.
    fn read_session(&self, stored: CrushSession, sink: &mut dyn Sink) -> Result<()> {
        let CrushSession { mut session, row, summary, cost_micros, hash, .. } = stored;
        let mut fingerprint = Xxh3::new();
        fingerprint.update(&hash.to_le_bytes());
        let rows = self.message_rows(&session, summary.as_deref(), &mut fingerprint)?;
        if rows.is_empty() {
            let reason = "session without messages";
            return sink.accept_record(Record::passed_over_record(row as u64, reason));
        }
        let id = session.id.clone();
        let fingerprint = fingerprint.digest();
        if sink.is_unchanged(&id, fingerprint)? {
            return Ok(());
        }
        for row in &rows {
            session.extend_time_span(row.message.at);
        }
        let ended_at = session.ended_at;
        sink.accept_record(Record::Session(Box::new(session)))?;
        let mut models = HashSet::new();
        let mut tools = HashMap::new();
        for CrushMessageRow { row, message } in rows {
            models.extend(message.model.clone());
            let Some(parts) = self.read_parts(row)? else {
                sink.accept_record(Record::unreadable_record(row as u64, "a value is too long"))?;
                continue;
            };
            let mut reader = PartReader::new(&mut tools, message);
            match parts_of_text(&parts) {
                Some(parts) => parts.into_iter().for_each(|part| reader.add_part(part)),
                None => {
                    let reason = "not a list of parts";
                    sink.accept_record(Record::unreadable_record(row as u64, reason))?;
                    continue;
                }
            }
            let messages = reader.into_messages();
            if messages.is_empty() {
                let reason = "message without content";
                sink.accept_record(Record::passed_over_record(row as u64, reason))?;
            }
            for message in messages {
                sink.accept_record(Record::Message(Box::new(message)))?;
            }
        }
        if let Some(cost_micros) = cost_micros {
            let mut message = cost_message(&id.native, cost_micros, models);
            message.at = ended_at;
            sink.accept_record(Record::Message(Box::new(message)))?;
        }
        sink.finish_session(&id, fingerprint)
    }

    /// Lists the rows of a session's messages in order.
    fn message_rows(
        &self,
        session: &Session,
        summary: Option<&str>,
        hash: &mut Xxh3,
    ) -> Result<Vec<CrushMessageRow>> {
        let column = |name| self.column_or_null(name);
        let sql = format!(
            "SELECT rowid, id, {} AS role, {} AS model, {} AS provider, {} AS created_at,
               {} AS updated_at, {} AS is_summary, octet_length(parts) AS size
             FROM messages WHERE session_id = ?1 ORDER BY {}, rowid",
            column("role"),
            column("model"),
            column("provider"),
            column("created_at"),
            column("updated_at"),
            column("is_summary_message"),
            column("created_at"),
        );
        let mut rows = Vec::new();
        self.database.for_each_row(&sql, [&session.id.native], |row| {
            hash_row(row, hash);
            let mut message = message_from_row(row);
            let is_summary = number_column(row, "is_summary").is_some_and(|flag| flag != 0)
                || summary.is_some() && summary == message.uuid.as_deref();
            if is_summary {
                message.role = Role::User;
                message.origin = Origin::Summary;
            }
            rows.push(CrushMessageRow { row: number_column(row, "rowid").unwrap_or(0), message });
            Ok(())
        })?;
        Ok(rows)
    }

    /// Reads the parts of a message. `None` when they are too long.
    fn read_parts(&self, row: i64) -> Result<Option<String>> {
        let mut text = None;
        let parts = sqlite::size_bounded_column("parts");
        let sql = format!("SELECT {parts} FROM messages WHERE rowid = ?1");
        self.database.for_each_row(&sql, [row], |row| {
            let bytes = row.get_ref(0).ok().and_then(sqlite::format_bytes);
            text = bytes.map(json::document_text);
            Ok(())
        })?;
        Ok(text)
    }
}

fn parts_of_text(text: &str) -> Option<Vec<&RawValue>> {
    json::array_elements(serde_json::from_str(text).ok()?)
}

fn message_from_row(row: &Row<'_>) -> Message {
    let (role, origin) = match text_column(row, "role").as_deref() {
        Some("user") => (Role::User, Origin::Human),
        Some("assistant") => (Role::Assistant, Origin::Assistant),
        Some("tool") => (Role::Tool, Origin::Tool),
        Some("system") => (Role::System, Origin::Injected),
        _ => (Role::System, Origin::System),
    };
    let mut message = Message {
        uuid: text_column(row, "id"),
        role,
        origin,
        at: number_column(row, "created_at").and_then(recorded_time),
        model: text_column(row, "model"),
        ..Message::default()
    };
    let provider = text_column(row, "provider").map(|name| Json::from_value(&name));
    message.extensions.extend(provider.map(|name| ("provider".to_owned(), name)));
    message
}

/// Returns the message with the cost of a session. No message records its own.
fn cost_message(native: &str, cost_micros: u64, models: HashSet<String>) -> Message {
    let mut models = models.into_iter();
    // The cost of several models is one sum.
    let model = models.next().filter(|_| models.next().is_none());
    let recorded = std::collections::BTreeMap::from([("cost", cost_micros as f64 / 1e6)]);
    Message {
        model,
        usage: Some(Usage {
            identity: Some(format!("{native} cost")),
            cost_micros: Some(cost_micros),
            ..Usage::default()
        }),
        blocks: vec![Block::Other(Json::from_value(&recorded))],
        ..Message::default()
    }
}

/// Converts a recorded time. The schema says milliseconds, but the programs write seconds.
fn recorded_time(number: i64) -> Option<Timestamp> {
    let is_seconds = number < LARGEST_SECONDS;
    Timestamp::from_millis(if is_seconds { number.checked_mul(1000)? } else { number })
}
