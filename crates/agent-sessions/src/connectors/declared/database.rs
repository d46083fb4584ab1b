//! Reads declared SQLite databases: one table of messages, and optionally one of sessions.

use std::collections::HashMap;

use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde_json::{Map, Value};
use xxhash_rust::xxh3::Xxh3;

use super::DeclaredReader;
use super::convert::{self, ConvertedRecord};
use crate::connectors::formats::rows::{bounded_select_list, json_column};
use crate::connectors::formats::sqlite::{self, Database};
use crate::connectors::{Record, Sink};
use crate::error::{Error, Result};
use crate::model::{Message, Session};

/// Reads all sessions of a database.
pub(super) fn read_database(reader: DeclaredReader<'_>, sink: &mut dyn Sink) -> Result<()> {
    let database = sqlite::open_database(reader.path)?;
    let declared = &reader.declaration.message;
    let table = declared.table.as_deref().unwrap_or_default();
    let columns = database.table_columns(table)?;
    if columns.is_empty() {
        let what = format!("there is no table `{table}`");
        return Err(Error::Format { path: reader.path.to_owned(), what });
    }
    let sessions = session_rows(reader, &database)?;
    let is_column = |name: &&str| columns.iter().any(|column| column == name);
    let group = declared.session.first_steps().find(is_column);
    let order = [group, declared.order.as_deref().filter(is_column)];
    let order: Vec<String> = order.into_iter().flatten().map(sqlite::quoted_column).collect();
    let order = if order.is_empty() { "rowid".to_owned() } else { order.join(", ") };
    let sql = format!(
        "SELECT {} FROM {} ORDER BY {order}",
        bounded_select_list(&columns),
        sqlite::quoted_column(table)
    );
    let mut groups = RowGroups { reader, sessions, current: None, at: 0, is_stopped: false, sink };
    database.for_each_row(&sql, [], |row| groups.read_row(&row_value(row)))?;
    groups.emit_group()
}

/// Reads the rows of the sessions, by id.
fn session_rows(reader: DeclaredReader<'_>, database: &Database) -> Result<HashMap<String, Value>> {
    let mut rows = HashMap::new();
    let Some(table) = &reader.declaration.session.table else { return Ok(rows) };
    let columns = database.table_columns(table)?;
    if columns.is_empty() {
        return Ok(rows);
    }
    let (list, table) = (bounded_select_list(&columns), sqlite::quoted_column(table));
    database.for_each_row(&format!("SELECT {list} FROM {table}"), [], |row| {
        let row = row_value(row);
        rows.extend(reader.declaration.session.id.find_text(&row).map(|id| (id, row)));
        Ok(())
    })?;
    Ok(rows)
}

/// Returns a row as a JSON object. A text that contains JSON is parsed.
pub(super) fn row_value(row: &Row<'_>) -> Value {
    let columns = row.as_ref().column_names();
    let value = |column: &str| match row.get_ref(column).ok()? {
        ValueRef::Blob(bytes) => serde_json::from_slice(bytes).ok(),
        _ => json_column(row, column)?.parse_as::<Value>(),
    };
    let fields = columns.into_iter().filter_map(|column| Some((column.to_owned(), value(column)?)));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// The rows of messages, grouped by session.
struct RowGroups<'r, 's> {
    reader: DeclaredReader<'r>,
    sessions: HashMap<String, Value>,
    current: Option<RowGroup>,
    /// Number of rows so far.
    at: u64,
    /// Whether the time is used up.
    is_stopped: bool,
    sink: &'s mut dyn Sink,
}

/// The messages of one session.
struct RowGroup {
    native: String,
    messages: Vec<Message>,
    others: Vec<Record>,
    hash: Xxh3,
}

impl RowGroups<'_, '_> {
    fn read_row(&mut self, row: &Value) -> Result<()> {
        if self.is_stopped {
            return Ok(());
        }
        let declaration = self.reader.declaration;
        let id = declaration.message.session.find_text(row);
        let native = id.unwrap_or_else(|| self.reader.file_stem());
        if self.current.as_ref().is_none_or(|group| group.native != native) {
            self.emit_group()?;
            self.is_stopped = self.sink.is_due();
            if self.is_stopped {
                return Ok(());
            }
            let (messages, others, hash) = (Vec::new(), Vec::new(), Xxh3::new());
            self.current = Some(RowGroup { native, messages, others, hash });
        }
        let Some(group) = &mut self.current else { return Ok(()) };
        group.hash.update(row.to_string().as_bytes());
        match convert::convert_record(declaration, row) {
            ConvertedRecord::Messages(more) => group.messages.extend(more),
            ConvertedRecord::Empty => {
                group.others.push(Record::passed_over_record(self.at, "no content"));
            }
            ConvertedRecord::Unknown(reason) => {
                group.others.push(Record::unreadable_record(self.at, reason));
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Emits the rows of the current session, unless they are the same as in an earlier read.
    fn emit_group(&mut self) -> Result<()> {
        let Some(mut group) = self.current.take() else { return Ok(()) };
        let declaration = self.reader.declaration;
        let mut session = Session::new(&declaration.id, group.native);
        if let Some(row) = self.sessions.get(&session.id.native) {
            convert::add_session_facts(declaration, row, &mut session);
            convert::keep_unnamed_session_fields(declaration, row, &mut session);
            group.hash.update(row.to_string().as_bytes());
        }
        group.others.into_iter().try_for_each(|other| self.sink.accept_record(other))?;
        if group.messages.is_empty() {
            return Ok(());
        }
        group.hash.update(&self.reader.fingerprint.to_le_bytes());
        let fingerprint = group.hash.digest();
        if self.sink.is_unchanged(&session.id, fingerprint)? {
            return Ok(());
        }
        for message in &group.messages {
            session.extend_time_span(message.at);
        }
        let id = session.id.clone();
        self.sink.accept_record(Record::Session(Box::new(session)))?;
        for message in group.messages {
            self.sink.accept_record(Record::Message(Box::new(message)))?;
        }
        self.sink.finish_session(&id, fingerprint)
    }
}
