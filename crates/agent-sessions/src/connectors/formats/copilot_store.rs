//! Reads `session-store.db`, in which GitHub's Copilot programs keep one row for each session and
//! turn: prompts and final replies, checkpoints, files, references and, since schema 6, every model
//! call. The database is derived from the session files, so some sessions are missing and some
//! outlive their files. Columns are read by name; a column that a version lacks is treated as
//! absent.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rusqlite::Row;

use super::copilot_events::{is_beginning, model_call_identity, typed_part_of_prompt};
use super::rows::{
    bounded_select_list, count_column, json_column, keep_unmodeled_columns, number_column,
    text_column,
};
use super::sqlite::{self, Database};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{
    Block, Extensions, Json, Message, Origin, Ref, Role, Session, Timestamp, TitleRank, Tokens,
    Usage,
};

/// Billionths of an AI credit (1 credit = 1 cent) per millionth of a dollar.
const NANO_AIU_PER_MICRO_DOLLAR: u64 = 100_000;

/// The parts of a checkpoint: column and heading.
pub const SECTIONS: &[(&str, &str)] = &[
    ("overview", "Overview"),
    ("history", "History"),
    ("work_done", "Work done"),
    ("technical_details", "Technical details"),
    ("important_files", "Important files"),
    ("next_steps", "Next steps"),
];

/// Name under which the summary is stored among a session's documents.
const SUMMARY: &str = "summary in session-store.db";

/// Columns of a model call that have a field in the model.
const CALL_COLUMNS: &[&str] = &[
    "id",
    "session_id",
    "turn_index",
    "agent_id",
    "model",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "finish_reason",
    "created_at",
];

/// Columns of a session that have a field in the model.
const SESSION_COLUMNS: &[&str] =
    &["id", "cwd", "repository", "branch", "summary", "created_at", "updated_at"];

/// Columns with the time, tool and turn that created a checkpoint, a file or a reference.
const TIMES: &[&str] = &["created_at", "first_seen_at", "tool_name", "turn_index"];

/// Reads all sessions of a store and sends them to `sink`.
pub fn read_session_store(path: &Path, agent: &str, sink: &mut dyn Sink) -> Result<()> {
    let db = sqlite::open_database(path)?;
    let mut store = CopilotStore { agent, db, columns: HashMap::new(), indexed: HashMap::new() };
    for table in TABLES {
        let columns = store.db.table_columns(table)?;
        store.count_too_long(table, &columns, sink)?;
        store.columns.insert(table, columns);
    }
    store.indexed = store.indexed_texts(sink)?;
    let mut sessions = Vec::new();
    if let Some(columns) = store.select_list_of_table("sessions") {
        store.db.for_each_row(
            &format!("SELECT {columns} FROM sessions ORDER BY rowid"),
            [],
            |row| {
                sessions.extend(store.session_from_row(row));
                Ok(())
            },
        )?;
    }
    store.add_orphans(&mut sessions)?;
    for session in sessions {
        if sink.is_due() {
            break;
        }
        store.emit_stored_session(session, sink)?;
    }
    Ok(())
}

/// Joins the parts of a checkpoint to one text, which is the same for every source file.
pub fn checkpoint_text(title: Option<&str>, parts: &[(&str, String)]) -> String {
    let mut text = title.map(|title| format!("# {title}\n")).unwrap_or_default();
    for (heading, part) in parts.iter().filter(|(_, part)| !part.trim().is_empty()) {
        if !text.is_empty() {
            text.push('\n');
        }
        if !heading.is_empty() {
            text.extend(["## ", heading, "\n\n"]);
        }
        text.push_str(part.trim());
        text.push('\n');
    }
    text
}

/// Tables that are read.
const TABLES: [&str; 6] =
    ["sessions", "turns", "checkpoints", "session_files", "session_refs", "assistant_usage_events"];

struct CopilotStore<'p> {
    agent: &'p str,
    db: Database,
    /// Column names, by table.
    columns: HashMap<&'static str, Vec<String>>,
    /// Texts that only the search index table contains: name and text, by session.
    indexed: HashMap<String, Vec<(String, String)>>,
}

/// A model call and the turn it belongs to.
struct StoredModelCall {
    turn: Option<i64>,
    message: Message,
}

impl CopilotStore<'_> {
    fn session_from_row(&self, row: &Row<'_>) -> Option<Session> {
        let mut session = Session::new(self.agent, text_column(row, "id")?);
        session.cwd = text_column(row, "cwd");
        session.repository = text_column(row, "repository");
        session.branch = text_column(row, "branch");
        let summary = text_column(row, "summary").filter(|summary| !is_rendered(summary));
        session.add_title(TitleRank::Listed, summary.unwrap_or_default());
        session.extend_time_span(time_column(row, "created_at"));
        session.extend_time_span(time_column(row, "updated_at"));
        keep_unmodeled_columns(row, SESSION_COLUMNS, &mut session.extensions);
        Some(session)
    }

    /// Adds the sessions that occur only in the turns table.
    fn add_orphans(&self, sessions: &mut Vec<Session>) -> Result<()> {
        if !self.has_column("turns", "session_id") {
            return Ok(());
        }
        let known: HashSet<String> =
            sessions.iter().map(|session| session.id.native.clone()).collect();
        let id = sqlite::size_bounded_column("session_id");
        self.db.for_each_row(
            &format!("SELECT DISTINCT {id} AS id FROM turns ORDER BY 1"),
            [],
            |row| {
                if let Some(id) = text_column(row, "id").filter(|id| !known.contains(id)) {
                    sessions.push(Session::new(self.agent, id));
                }
                Ok(())
            },
        )
    }

    fn emit_stored_session(&self, mut session: Session, sink: &mut dyn Sink) -> Result<()> {
        let native = session.id.native.clone();
        let [mut checkpoints, mut files, mut refs] = [(); 3].map(|()| Extensions::new());
        self.for_each_session_row("checkpoints", "checkpoint_number", &native, |row| {
            let document = checkpoint_document(row);
            keep_times(row, &document.0, &mut checkpoints);
            session.documents.push(document);
            Ok(())
        })?;
        self.for_each_session_row("session_files", "rowid", &native, |row| {
            if let Some(path) =
                text_column(row, "file_path").filter(|path| !session.files.contains(path))
            {
                keep_times(row, &path, &mut files);
                session.files.push(path);
            }
            Ok(())
        })?;
        self.for_each_session_row("session_refs", "rowid", &native, |row| {
            if let (Some(kind), Some(value)) =
                (text_column(row, "ref_type"), text_column(row, "ref_value"))
            {
                keep_times(row, &format!("{kind} {value}"), &mut refs);
                session.refs.push(Ref { kind, value });
            }
            Ok(())
        })?;
        for (name, kept) in [("checkpoints", checkpoints), ("files", files), ("refs", refs)] {
            if !kept.is_empty() {
                session.extensions.insert(name.to_owned(), Json::from_value(&kept));
            }
        }
        self.add_summary_document(&native, &mut session)?;
        for (name, text) in self.indexed.get(&native).into_iter().flatten() {
            if session.documents.iter().all(|(_, known)| known.trim() != text.trim()) {
                session.documents.push((name.clone(), text.clone()));
            }
        }
        let mut calls = self.load_model_calls(&native)?;
        sink.accept_record(Record::Session(Box::new(session)))?;
        self.for_each_session_row("turns", "turn_index", &native, |row| {
            emit_turn(row, &mut calls, sink)
        })?;
        let mut rest = calls.into_iter().map(|call| call.message);
        rest.try_for_each(|message| sink.accept_record(Record::Message(Box::new(message))))
    }

    /// Adds the session's summary as a document, unless it only repeats a prompt. As a title alone
    /// it would be neither shown nor found once a better title exists.
    fn add_summary_document(&self, native: &str, session: &mut Session) -> Result<()> {
        let Some(summary) = session.titles.first().map(|title| title.text.clone()) else {
            return Ok(());
        };
        let mut is_prompt = false;
        self.for_each_session_row("turns", "turn_index", native, |row| {
            let prompt = text_column(row, "user_message").unwrap_or_default();
            is_prompt |= is_beginning(&summary, typed_part_of_prompt(&prompt));
            Ok(())
        })?;
        if !is_prompt {
            session.documents.push((SUMMARY.to_owned(), summary));
        }
        Ok(())
    }

    /// Reads the texts that no other table contains, which the program indexed from the session's
    /// files. Turns and checkpoints are read from their own tables.
    fn indexed_texts(&self, sink: &mut dyn Sink) -> Result<HashMap<String, Vec<(String, String)>>> {
        let mut texts: HashMap<String, Vec<(String, String)>> = HashMap::new();
        let columns = self.db.columns_of_index("search_index")?;
        let has = |name: &str| columns.iter().any(|column| column == name);
        if !(has("content") && has("session_id") && has("source_type")) {
            return Ok(texts);
        }
        self.count_too_long("search_index", &columns, sink)?;
        let sql = format!(
            "SELECT {} FROM search_index WHERE source_type NOT LIKE 'turn%'
             AND source_type NOT LIKE 'checkpoint%' ORDER BY rowid",
            bounded_select_list(&columns)
        );
        self.db.for_each_row(&sql, [], |row| {
            if let (Some(session), Some(content)) =
                (text_column(row, "session_id"), text_column(row, "content"))
            {
                let kind = text_column(row, "source_type").unwrap_or_default();
                let id = text_column(row, "source_id").unwrap_or_default();
                let place = id.strip_prefix(session.as_str()).unwrap_or(&id).trim_matches(':');
                let known = texts.entry(session).or_default();
                let mut name = format!("{kind} {place}").trim().replace('_', " ");
                if known.iter().any(|(other, _)| *other == name) {
                    name = format!("{name} {}", known.len() + 1);
                }
                known.push((name, content));
            }
            Ok(())
        })?;
        Ok(texts)
    }

    fn load_model_calls(&self, native: &str) -> Result<Vec<StoredModelCall>> {
        let mut calls = Vec::new();
        let mut outputs: HashMap<u64, u64> = HashMap::new();
        self.for_each_session_row("assistant_usage_events", "rowid", native, |row| {
            let output = count_column(row, "output_tokens");
            let nth = outputs.entry(output).or_default();
            *nth += 1;
            let identity = model_call_identity(native, output, *nth);
            calls.push(StoredModelCall {
                turn: number_column(row, "turn_index"),
                message: model_call_message(row, identity),
            });
            Ok(())
        })?;
        Ok(calls)
    }

    /// Passes the rows of one session to `row`; none when the table does not exist. Only row
    /// numbers are sorted, so that at most one row is in memory.
    fn for_each_session_row(
        &self,
        table: &str,
        order: &str,
        native: &str,
        mut row: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some(columns) = self.select_list_of_table(table) else { return Ok(()) };
        if !self.has_column(table, "session_id") {
            return Ok(());
        }
        let order = if self.has_column(table, order) { order } else { "rowid" };
        let mut numbers: Vec<i64> = Vec::new();
        let sql = format!("SELECT rowid FROM {table} WHERE session_id = ?1 ORDER BY {order}");
        self.db.for_each_row(&sql, [native], |row| {
            numbers.extend(row.get::<_, i64>(0));
            Ok(())
        })?;
        let sql = format!("SELECT {columns} FROM {table} WHERE rowid = ?1");
        numbers.into_iter().try_for_each(|number| self.db.for_each_row(&sql, [number], &mut row))
    }

    fn has_column(&self, table: &str, column: &str) -> bool {
        self.columns.get(table).is_some_and(|columns| columns.iter().any(|one| one == column))
    }

    /// Returns the select list of all columns of a table. `None` when the table does not exist.
    fn select_list_of_table(&self, table: &str) -> Option<String> {
        let columns = self.columns.get(table).filter(|columns| !columns.is_empty())?;
        Some(bounded_select_list(columns))
    }

    /// Reports every value that is too long as a skipped record.
    fn count_too_long(&self, table: &str, columns: &[String], sink: &mut dyn Sink) -> Result<()> {
        if columns.is_empty() {
            return Ok(());
        }
        let is_too_long = |column: &String| {
            let limit = sqlite::MAX_VALUE_BYTES;
            format!("ifnull(octet_length({}) > {limit}, 0)", sqlite::quoted_column(column))
        };
        let count: Vec<String> = columns.iter().map(is_too_long).collect();
        let sql = format!("SELECT sum({}) FROM {table}", count.join(" + "));
        let mut too_long = 0;
        self.db.for_each_row(&sql, [], |row| {
            too_long = row.get::<_, Option<i64>>(0).unwrap_or_default().unwrap_or(0);
            Ok(())
        })?;
        let mut skip = |at: i64| {
            sink.accept_record(Record::unreadable_record(at as u64, "a value is too long"))
        };
        (0..too_long).try_for_each(&mut skip)
    }
}

/// Returns whether a summary is a prompt as rendered for the model, which begins with a tag.
fn is_rendered(summary: &str) -> bool {
    let tag = summary.trim_start().strip_prefix('<').and_then(|rest| rest.split_once('>'));
    tag.is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|one| one.is_ascii_alphabetic())
    })
}

/// Emits a turn: the prompt, then one message for each model call, the last with the final reply.
fn emit_turn(row: &Row<'_>, calls: &mut Vec<StoredModelCall>, sink: &mut dyn Sink) -> Result<()> {
    let at = time_column(row, "timestamp");
    let mut emit = |message: Message| sink.accept_record(Record::Message(Box::new(message)));
    if let Some(prompt) = text_column(row, "user_message") {
        emit(Message {
            role: Role::User,
            origin: Origin::Human,
            at,
            blocks: vec![Block::Text(prompt)],
            ..Message::default()
        })?;
    }
    let turn = number_column(row, "turn_index");
    let (here, later) = std::mem::take(calls).into_iter().partition(|call| call.turn == turn);
    *calls = later;
    let mut messages: Vec<Message> =
        here.into_iter().map(|call: StoredModelCall| call.message).collect();
    if let Some(answer) = text_column(row, "assistant_response") {
        if messages.is_empty() {
            let (role, origin) = (Role::Assistant, Origin::Assistant);
            messages.push(Message { role, origin, at, ..Message::default() });
        }
        let main = messages.iter().rposition(|message| !message.sidechain);
        let last = main.unwrap_or(messages.len() - 1);
        messages[last].blocks.push(Block::Text(answer));
    }
    messages.into_iter().try_for_each(emit)
}

/// Converts billionths of an AI credit to millionths of a dollar.
pub fn cost_micros(nano_aiu: u64) -> u64 {
    nano_aiu / NANO_AIU_PER_MICRO_DOLLAR
}

/// Builds the message of a model call. The recorded input includes the tokens read from and written
/// to a cache.
fn model_call_message(row: &Row<'_>, identity: String) -> Message {
    let cache_read = count_column(row, "cache_read_tokens");
    let cache_creation = count_column(row, "cache_write_tokens");
    let input = count_column(row, "input_tokens").saturating_sub(cache_read);
    let tokens = Tokens {
        input: input.saturating_sub(cache_creation),
        output: count_column(row, "output_tokens"),
        cache_read,
        cache_creation,
        reasoning: number_column(row, "reasoning_tokens").and_then(|n| u64::try_from(n).ok()),
    };
    let cost = number_column(row, "total_nano_aiu").and_then(|nano| u64::try_from(nano).ok());
    let cost_micros = cost.map(cost_micros);
    let mut extensions = Extensions::new();
    keep_unmodeled_columns(row, CALL_COLUMNS, &mut extensions);
    let agent = text_column(row, "agent_id");
    if let Some(agent) = &agent {
        extensions.insert("agent_id".into(), Json::from_value(agent));
    }
    Message {
        role: Role::Assistant,
        origin: Origin::Assistant,
        at: time_column(row, "created_at"),
        model: text_column(row, "model"),
        stop_reason: text_column(row, "finish_reason"),
        sidechain: agent.is_some() || extensions.contains_key("parent_tool_call_id"),
        usage: Some(Usage { identity: Some(identity), tokens, cost_micros, ..Usage::default() }),
        extensions,
        ..Message::default()
    }
}

fn checkpoint_document(row: &Row<'_>) -> (String, String) {
    let name = match number_column(row, "checkpoint_number") {
        Some(number) => format!("checkpoint {number}"),
        None => "checkpoint".to_owned(),
    };
    let parts: Vec<(&str, String)> = SECTIONS
        .iter()
        .map(|(column, heading)| (*heading, text_column(row, column).unwrap_or_default()))
        .collect();
    (name, checkpoint_text(text_column(row, "title").as_deref(), &parts))
}

/// Keeps the time, tool and turn that created an item, where the store has them.
fn keep_times(row: &Row<'_>, name: &str, all: &mut Extensions) {
    let said: Extensions = TIMES
        .iter()
        .filter_map(|column| Some(((*column).to_owned(), json_column(row, column)?)))
        .collect();
    if !said.is_empty() {
        all.entry(name.to_owned()).or_insert_with(|| Json::from_value(&said));
    }
}

fn time_column(row: &Row<'_>, column: &str) -> Option<Timestamp> {
    parse_store_time(&text_column(row, column)?)
}

/// Parses a timestamp as the program writes it, or as `datetime('now')` does.
fn parse_store_time(text: &str) -> Option<Timestamp> {
    Timestamp::parse_iso_time(text)
        .or_else(|| Timestamp::parse_iso_time(&format!("{}Z", text.replace(' ', "T"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_in_both_spellings() {
        let check = |text: &str| {
            let at = parse_store_time(text).map(|at| at.to_string());
            assert_eq!(at.as_deref(), Some("2026-08-17T09:27:02.000Z"), "{text}");
        };
        check("2026-08-17T09:27:02.000Z");
        check("2026-08-17 09:27:02");
        check("2026-08-17T11:27:02+02:00");
        assert_eq!(parse_store_time("now"), None);
    }

    #[test]
    fn a_checkpoint_reads_as_one_text_and_empty_parts_are_left_out() {
        let parts = [("Overview", "All.\n".to_owned()), ("History", String::new())];
        assert_eq!(checkpoint_text(Some("T"), &parts), "# T\n\n## Overview\n\nAll.\n");
        assert_eq!(checkpoint_text(None, &[("", "x".to_owned())]), "x\n");
    }
}
