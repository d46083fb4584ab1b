//! Reads the database of all sessions. Columns are read by name; a column that a schema lacks is
//! treated as absent.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::Row;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::Xxh3;

use super::message::{GooseMessage, MessageConverter};
use super::{AGENT, unique_id};
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::connectors::formats::rows::{
    bounded_select_list, count_column, number_column, real_column, text_column,
};
use crate::connectors::formats::sqlite::{self, Database};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{
    Block, Json, Message, Session, SessionKind, Timestamp, TitleRank, Tokens, Usage,
};

lenient! {
    /// The settings of a session's model.
    struct GooseModel<'a> {
        "model_name" name: Option<BorrowedText<'a>>,
    }
}

/// The type of sessions that another session started.
const SUB_AGENT: &str = "sub_agent";

/// Columns of a session that are kept as they are.
const KEPT: &[&str] =
    &["session_type", "schedule_id", "provider_name", "goose_mode", "archived_at"];

/// Part of a result that names the session of a sub-agent.
const SUB_AGENT_MARK: &str = "%subagent_session_id%";

/// Reads all sessions of a database and sends them to `sink`.
pub(super) fn read_session_database(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let database = sqlite::open_database(path)?;
    let columns = database.table_columns("sessions")?;
    let message_columns = database.table_columns("messages")?;
    if columns.is_empty() || message_columns.is_empty() {
        return Ok(());
    }
    let mut store = GooseStore { database: &database, message_columns, natives: HashMap::new() };
    let mut rows = Vec::new();
    let sql = format!("SELECT {} FROM sessions ORDER BY rowid", bounded_select_list(&columns));
    database.for_each_row(&sql, [], |row| {
        rows.extend(GooseSession::from_row(row));
        Ok(())
    })?;
    for row in &rows {
        store.natives.insert(row.id.clone(), row.session.id.native.clone());
    }
    let parents = store.parents_of_sub_agents()?;
    for mut row in rows {
        if sink.is_due() {
            break;
        }
        if row.is_sub_agent {
            row.session.kind = SessionKind::Agent;
            row.session.parent = parents.get(&row.id).cloned();
        }
        store.read_session(row, sink)?;
    }
    Ok(())
}

struct GooseStore<'d> {
    database: &'d Database,
    message_columns: Vec<String>,
    /// The globally unique id of each session, by the id in the database.
    natives: HashMap<String, String>,
}

/// One row of the table of sessions.
struct GooseSession {
    id: String,
    is_sub_agent: bool,
    session: Session,
    /// Hash of what the row says.
    hash: u64,
    usage: Option<Usage>,
}

impl GooseSession {
    fn from_row(row: &Row<'_>) -> Option<Self> {
        let id = text_column(row, "id")?;
        let created_at = text_column(row, "created_at");
        let mut session = Session::new(AGENT.id, unique_id(&id, created_at.as_deref()));
        session.cwd = text_column(row, "working_dir");
        let config = text_column(row, "model_config_json").unwrap_or_default();
        let model = json::parse_json::<GooseModel<'_>>(&config).and_then(|config| config.name);
        session.model = model.map(BorrowedText::into_owned).filter(|name| !name.is_empty());
        let is_chosen = number_column(row, "user_set_name") == Some(1);
        let rank = if is_chosen { TitleRank::Renamed } else { TitleRank::Generated };
        session.add_title(rank, text_column(row, "name").unwrap_or_default());
        session.add_title(TitleRank::Listed, text_column(row, "description").unwrap_or_default());
        let began = created_at.as_deref().and_then(parse_database_time);
        session.extend_time_span(began);
        for column in KEPT {
            if let Some(text) = text_column(row, column) {
                session.extensions.insert((*column).to_owned(), Json::from_value(&text));
            }
        }
        let is_sub_agent = text_column(row, "session_type").is_some_and(|kind| kind == SUB_AGENT);
        let updated_at = text_column(row, "updated_at").and_then(|time| parse_database_time(&time));
        let usage = session_usage(row, &session.id.native, began.or(updated_at));
        let mut hash = Xxh3::new();
        hash.update(&serde_json::to_vec(&session).unwrap_or_default());
        hash.update(&serde_json::to_vec(&usage).unwrap_or_default());
        hash.update(text_column(row, "updated_at").unwrap_or_default().as_bytes());
        Some(Self { id, is_sub_agent, session, hash: hash.digest(), usage })
    }
}

/// Returns the sums that the program keeps of a session. The input includes the tokens read from a
/// cache; the program does not record how many.
fn session_usage(row: &Row<'_>, native: &str, since: Option<Timestamp>) -> Option<Usage> {
    let tokens = Tokens {
        input: count_column(row, "accumulated_input_tokens"),
        output: count_column(row, "accumulated_output_tokens"),
        ..Tokens::default()
    };
    let cost = real_column(row, "accumulated_cost").filter(|dollars| *dollars > 0.0);
    tokens.is_known().then(|| Usage {
        identity: Some(format!("{}:{native}", AGENT.id)),
        tokens,
        cost_micros: cost.map(|dollars| (dollars * 1e6).round() as u64),
        since,
        ..Usage::default()
    })
}

impl GooseStore<'_> {
    /// Returns the session that started each sub-agent: its result names the sub-agent's session.
    fn parents_of_sub_agents(&self) -> Result<HashMap<String, String>> {
        let mut parents = HashMap::new();
        let sql = format!(
            "SELECT {} FROM messages WHERE content_json LIKE ?1",
            bounded_select_list(&self.message_columns)
        );
        self.database.for_each_row(&sql, [SUB_AGENT_MARK], |row| {
            let parent = text_column(row, "session_id").and_then(|id| self.natives.get(&id));
            let (Some(parent), Some(content)) = (parent, text_column(row, "content_json")) else {
                return Ok(());
            };
            let Ok(content) = serde_json::from_str::<&RawValue>(&content) else { return Ok(()) };
            let recorded = GooseMessage { role: "user", content, metadata: None };
            let mut converter = MessageConverter::default();
            let (_, children) = converter.convert_message(&recorded, Message::default());
            parents.extend(children.into_iter().map(|child| (child, parent.clone())));
            Ok(())
        })?;
        Ok(parents)
    }

    fn read_session(&self, row: GooseSession, sink: &mut dyn Sink) -> Result<()> {
        let GooseSession { id, mut session, hash, usage, .. } = row;
        let fingerprint = self.fingerprint(&id, &session, hash)?;
        let session_id = session.id.clone();
        if sink.is_unchanged(&session_id, fingerprint)? {
            return Ok(());
        }
        sink.accept_record(Record::Session(Box::new(session.clone())))?;
        let mut converter = MessageConverter::default();
        let mut numbers = Vec::new();
        let order =
            if self.has_column("created_timestamp") { "created_timestamp, id" } else { "id" };
        let sql = format!("SELECT id FROM messages WHERE session_id = ?1 ORDER BY {order}");
        self.database.for_each_row(&sql, [id.as_str()], |row| {
            numbers.extend(row.get::<_, i64>(0));
            Ok(())
        })?;
        let sql = format!(
            "SELECT {} FROM messages WHERE id = ?1",
            bounded_select_list(&self.message_columns)
        );
        for number in numbers {
            self.database.for_each_row(&sql, [number], |row| {
                let Some(message) = message_from_row(row, &mut converter) else {
                    let too_long = Record::unreadable_record(number as u64, "a value is too long");
                    return sink.accept_record(too_long);
                };
                session.extend_time_span(message.at);
                sink.accept_record(Record::Message(Box::new(message)))
            })?;
        }
        if let Some(usage) = usage {
            let (at, model) = (session.ended_at, session.model.clone());
            let sums = Message { at, model, usage: Some(usage), ..Message::default() };
            sink.accept_record(Record::Message(Box::new(sums)))?;
        }
        sink.accept_record(Record::Session(Box::new(session)))?;
        sink.finish_session(&session_id, fingerprint)
    }

    /// Hashes figures that change with the messages of a session, without reading the messages.
    fn fingerprint(&self, id: &str, session: &Session, hash: u64) -> Result<u64> {
        let mut hasher = Xxh3::new();
        hasher.update(&hash.to_le_bytes());
        hasher.update(session.parent.as_deref().unwrap_or_default().as_bytes());
        let metadata =
            if self.has_column("metadata_json") { "octet_length(metadata_json)" } else { "0" };
        let sql = format!(
            "SELECT count(*) AS messages, max(id) AS last, total(octet_length(content_json)) AS bytes,
             total({metadata}) AS metadata FROM messages WHERE session_id = ?1"
        );
        self.database.for_each_row(&sql, [id], |row| {
            for column in ["messages", "last"] {
                hasher.update(&number_column(row, column).unwrap_or(-1).to_le_bytes());
            }
            for column in ["bytes", "metadata"] {
                hasher.update(&real_column(row, column).unwrap_or(-1.0).to_le_bytes());
            }
            Ok(())
        })?;
        Ok(hasher.digest())
    }

    fn has_column(&self, name: &str) -> bool {
        self.message_columns.iter().any(|column| column == name)
    }
}

/// Converts a row. `None` if its content is too long. Content that is no JSON is kept as a text.
fn message_from_row(row: &Row<'_>, converter: &mut MessageConverter) -> Option<Message> {
    let text = text_column(row, "content_json")?;
    let role = text_column(row, "role").unwrap_or_default();
    let envelope = Message {
        uuid: text_column(row, "message_id"),
        at: number_column(row, "created_timestamp").and_then(message_time),
        ..Message::default()
    };
    let Ok(content) = serde_json::from_str::<&RawValue>(&text) else {
        return Some(Message { blocks: vec![Block::Text(text)], ..envelope });
    };
    let metadata = text_column(row, "metadata_json").unwrap_or_default();
    let metadata = serde_json::from_str::<&RawValue>(&metadata).ok();
    let recorded = GooseMessage { role: &role, content, metadata };
    Some(converter.convert_message(&recorded, envelope).0)
}

/// Converts the time of a message, in seconds or in milliseconds.
pub(super) fn message_time(number: i64) -> Option<Timestamp> {
    const LAST_SECOND: i64 = 100_000_000_000;
    Timestamp::from_millis(if number < LAST_SECOND { number.checked_mul(1000)? } else { number })
}

/// Parses a time as SQLite writes it, in UTC.
fn parse_database_time(text: &str) -> Option<Timestamp> {
    Timestamp::parse_iso_time(text)
        .or_else(|| Timestamp::parse_iso_time(&format!("{}Z", text.replace(' ', "T"))))
}
