//! Reads the database of a home. Columns are read by name; a column that a schema lacks is treated
//! as absent.
//!
//! A compaction in place marks the messages so far as compacted and writes the summary and copies
//! of those that it keeps behind them. Older programs continue in a new session, which begins with
//! the copies. A branch begins with copies of all messages.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use rusqlite::Row;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::AGENT;
use super::message::{self, HermesMessage};
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::connectors::formats::rows::{
    bounded_select_list, count_column, number_column, real_column, text_column,
};
use crate::connectors::formats::sqlite::{self, Database};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{
    Block, Continuation, Json, Message, Origin, Session, SessionKind, Timestamp, TitleRank, Tokens,
    Usage,
};

const SESSIONS: &str = "sessions";
const MESSAGES: &str = "messages";
const MODEL_USAGE: &str = "session_model_usage";

/// Beginning of a content that is JSON and not a text.
const STRUCTURED: &str = "\0json:";

/// The reason why a session ended that continues in another one.
const COMPRESSION: &str = "compression";

/// The reason why a session ended that a branch was made of.
const BRANCHED: &str = "branched";

/// Columns of a session that are kept as they are.
const KEPT: &[&str] =
    &["source", "display_name", "chat_type", "end_reason", "profile_name", "billing_provider"];

/// Columns of the usage of a model in a session that tell its rows apart.
const ROUTE: &[&str] = &["model", "billing_provider", "billing_base_url", "billing_mode", "task"];

lenient! {
    /// Marks in the settings of a session's model.
    struct HermesModelConfig<'a> {
        "_branched_from" branched_from: Option<BorrowedText<'a>>,
        "_delegate_from" delegated_by: Option<BorrowedText<'a>>,
    }
}

/// Reads all sessions of a database and sends them to `sink`.
pub(super) fn read_state_database(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let database = sqlite::open_database(path)?;
    let mut store = HermesStore {
        database: &database,
        message_columns: database.table_columns(MESSAGES)?,
        usage_columns: database.table_columns(MODEL_USAGE)?,
        sessions: BTreeMap::new(),
    };
    let columns = database.table_columns(SESSIONS)?;
    if columns.is_empty() || store.message_columns.is_empty() {
        return Ok(());
    }
    let mut order = Vec::new();
    let sql = format!("SELECT {} FROM {SESSIONS} ORDER BY rowid", bounded_select_list(&columns));
    database.for_each_row(&sql, [], |row| {
        if let Some(session) = HermesSession::from_row(row) {
            order.push(session.session.id.native.clone());
            store.sessions.insert(session.session.id.native.clone(), session);
        }
        Ok(())
    })?;
    for id in &order {
        if sink.is_due() {
            break;
        }
        store.read_session(id, sink)?;
    }
    Ok(())
}

struct HermesStore<'d> {
    database: &'d Database,
    message_columns: Vec<String>,
    usage_columns: Vec<String>,
    sessions: BTreeMap<String, HermesSession>,
}

/// One row of the table of sessions.
struct HermesSession {
    session: Session,
    parent: Option<String>,
    end_reason: Option<String>,
    is_branch: bool,
    is_delegated: bool,
    /// The sums of the session's own calls, without those for tasks of the program.
    sums: HermesUsage,
}

/// Tokens and cost of several calls.
#[derive(Clone, Copy, Default)]
struct HermesUsage {
    tokens: Tokens,
    cost_micros: Option<u64>,
    calls: u64,
}

impl HermesUsage {
    fn from_row(row: &Row<'_>) -> Self {
        let reasoning = count_column(row, "reasoning_tokens");
        let tokens = Tokens {
            input: count_column(row, "input_tokens"),
            output: count_column(row, "output_tokens"),
            cache_read: count_column(row, "cache_read_tokens"),
            cache_creation: count_column(row, "cache_write_tokens"),
            // 0 stands for a model that does not count its reasoning, too.
            reasoning: (reasoning > 0).then_some(reasoning),
        };
        let dollars = |column: &str| real_column(row, column).filter(|dollars| *dollars > 0.0);
        let cost = dollars("actual_cost_usd").or_else(|| dollars("estimated_cost_usd"));
        Self {
            tokens,
            cost_micros: cost.map(|dollars| (dollars * 1e6).round() as u64),
            calls: count_column(row, "api_call_count"),
        }
    }

    /// Returns the part that other sums do not contain.
    fn beyond(self, others: Tokens) -> Self {
        let tokens = Tokens {
            input: self.tokens.input.saturating_sub(others.input),
            output: self.tokens.output.saturating_sub(others.output),
            cache_read: self.tokens.cache_read.saturating_sub(others.cache_read),
            cache_creation: self.tokens.cache_creation.saturating_sub(others.cache_creation),
            reasoning: self
                .tokens
                .reasoning
                .map(|count| count.saturating_sub(others.reasoning.unwrap_or(0)))
                .filter(|count| *count > 0),
        };
        let is_whole = tokens == self.tokens;
        let cost_micros = self.cost_micros.filter(|_| is_whole);
        Self { tokens, cost_micros, calls: if is_whole { self.calls } else { 0 } }
    }

    /// Converts the sums into a message without content.
    fn into_message(self, identity: String, since: Option<Timestamp>) -> Option<Message> {
        let Self { tokens, cost_micros, calls } = self;
        let usage =
            Usage { identity: Some(identity), tokens, cost_micros, since, ..Usage::default() };
        let mut message = Message { usage: Some(usage), ..Message::default() };
        if calls > 0 {
            message.extensions.insert("calls".to_owned(), Json::from_value(&calls));
        }
        tokens.is_known().then_some(message)
    }
}

impl HermesSession {
    fn from_row(row: &Row<'_>) -> Option<Self> {
        let mut session = Session::new(AGENT.id, text_column(row, "id")?);
        session.model = text_column(row, "model");
        session.cwd = text_column(row, "cwd");
        session.branch = text_column(row, "git_branch");
        session.root = text_column(row, "git_repo_root");
        session.add_title(TitleRank::Generated, text_column(row, "title").unwrap_or_default());
        session.extend_time_span(time_column(row, "started_at"));
        session.extend_time_span(time_column(row, "ended_at"));
        for column in KEPT {
            if let Some(text) = text_column(row, column) {
                session.extensions.insert((*column).to_owned(), Json::from_value(&text));
            }
        }
        for column in ["archived", "rewind_count"] {
            if let Some(count @ 1..) = number_column(row, column) {
                session.extensions.insert(column.to_owned(), Json::from_value(&count));
            }
        }
        let config = text_column(row, "model_config").unwrap_or_default();
        let config = json::parse_json::<HermesModelConfig<'_>>(&config).unwrap_or_default();
        Some(Self {
            session,
            parent: text_column(row, "parent_session_id"),
            end_reason: text_column(row, "end_reason"),
            is_branch: config.branched_from.is_some(),
            is_delegated: config.delegated_by.is_some(),
            sums: HermesUsage::from_row(row),
        })
    }
}

/// The content of a message by which copies are found.
struct HermesMessageKey {
    number: i64,
    hash: u64,
    is_summary: bool,
    is_compacted: bool,
}

impl HermesStore<'_> {
    fn read_session(&self, id: &str, sink: &mut dyn Sink) -> Result<()> {
        let Some(row) = self.sessions.get(id) else { return Ok(()) };
        let mut session = row.session.clone();
        let session_id = session.id.clone();
        let fingerprint = self.fingerprint(row)?;
        if sink.is_unchanged(&session_id, fingerprint)? {
            return Ok(());
        }
        let keys = self.message_keys(id)?;
        let parent = row.parent.as_ref().and_then(|parent| self.sessions.get(parent));
        if let Some(parent) = parent.filter(|parent| is_continued(row, parent)) {
            let origin = parent.session.id.native.clone();
            let known = self.message_keys(&origin)?.into_iter().map(|key| key.hash).collect();
            let messages = shared_beginning(&keys, &known) as u64;
            session.continues = Some(Continuation { session: origin, messages });
        } else if row.parent.is_some() && !row.is_branch {
            session.parent.clone_from(&row.parent);
            session.kind = SessionKind::Agent;
        }
        let is_compacted = keys.iter().any(|key| key.is_compacted);
        let copies = if is_compacted { copied_messages(&keys) } else { HashSet::new() };
        sink.accept_record(Record::Session(Box::new(session.clone())))?;
        let sql = format!(
            "SELECT {} FROM {MESSAGES} WHERE id = ?1",
            bounded_select_list(&self.message_columns)
        );
        for key in &keys {
            if copies.contains(&key.number) {
                let copy = Record::passed_over_record(key.number as u64, "copied by a compaction");
                sink.accept_record(copy)?;
                continue;
            }
            self.database.for_each_row(&sql, [key.number], |row| {
                for message in messages_from_row(row) {
                    session.extend_time_span(message.at);
                    sink.accept_record(Record::Message(Box::new(message)))?;
                }
                Ok(())
            })?;
        }
        for message in self.usage_messages(row, session.ended_at)? {
            sink.accept_record(Record::Message(Box::new(message)))?;
        }
        sink.accept_record(Record::Session(Box::new(session)))?;
        sink.finish_session(&session_id, fingerprint)
    }

    /// Hashes figures that change with a session, without reading the messages.
    fn fingerprint(&self, row: &HermesSession) -> Result<u64> {
        let mut hash = Xxh3::new();
        hash.update(&serde_json::to_vec(&row.session).unwrap_or_default());
        hash.update(row.parent.as_deref().unwrap_or_default().as_bytes());
        let parent = row.parent.as_ref().and_then(|parent| self.sessions.get(parent));
        hash.update(
            parent.and_then(|one| one.end_reason.as_deref()).unwrap_or_default().as_bytes(),
        );
        let has = |name: &&&str| self.message_columns.iter().any(|column| column == **name);
        let flags: Vec<&str> = ["active", "compacted", "0"]
            .iter()
            .filter(|name| **name == "0" || has(name))
            .copied()
            .collect();
        let flags = flags.join(" + ");
        let sql = format!(
            "SELECT count(*) AS messages, max(id) AS last, total({flags}) AS flags,
             total(octet_length(content)) AS bytes FROM {MESSAGES} WHERE session_id = ?1"
        );
        self.database.for_each_row(&sql, [&row.session.id.native], |row| {
            for column in ["messages", "last"] {
                hash.update(&number_column(row, column).unwrap_or(-1).to_le_bytes());
            }
            for column in ["flags", "bytes"] {
                hash.update(&real_column(row, column).unwrap_or(-1.0).to_le_bytes());
            }
            Ok(())
        })?;
        for message in self.usage_messages(row, None)? {
            hash.update(&serde_json::to_vec(&message).unwrap_or_default());
        }
        Ok(hash.digest())
    }

    /// Reads what tells the messages of a session apart, in their order.
    fn message_keys(&self, id: &str) -> Result<Vec<HermesMessageKey>> {
        let sql = format!(
            "SELECT {} FROM {MESSAGES} WHERE session_id = ?1 ORDER BY id",
            bounded_select_list(&self.message_columns)
        );
        let mut keys = Vec::new();
        self.database.for_each_row(&sql, [id], |row| {
            let content = text_column(row, "content").unwrap_or_default();
            let is_compacted = number_column(row, "compacted") == Some(1);
            keys.push(HermesMessageKey {
                number: number_column(row, "id").unwrap_or(0),
                hash: message_hash(row, &content),
                is_summary: message::is_summary(&content),
                is_compacted,
            });
            Ok(())
        })?;
        Ok(keys)
    }

    /// Returns the usage of a session as messages without content: a sum for each model and task.
    fn usage_messages(
        &self,
        row: &HermesSession,
        ended_at: Option<Timestamp>,
    ) -> Result<Vec<Message>> {
        let id = &row.session.id.native;
        let mut messages = Vec::new();
        let mut listed = Tokens::default();
        if !self.usage_columns.is_empty() {
            let sql = format!(
                "SELECT {} FROM {MODEL_USAGE} WHERE session_id = ?1 ORDER BY first_seen, rowid",
                bounded_select_list(&self.usage_columns)
            );
            self.database.for_each_row(&sql, [id], |row| {
                let sums = HermesUsage::from_row(row);
                let route: Vec<String> = ROUTE
                    .iter()
                    .map(|column| text_column(row, column).unwrap_or_default())
                    .collect();
                let since = time_column(row, "first_seen");
                let identity = format!("{}:{id} {}", AGENT.id, route.join(" ").trim_end());
                let task = text_column(row, "task");
                if task.is_none() {
                    listed += sums.tokens;
                }
                let Some(mut message) = sums.into_message(identity, since) else { return Ok(()) };
                message.at = time_column(row, "last_seen").or(since);
                message.model = text_column(row, "model").filter(|model| model != "unknown");
                if let Some(task) = task {
                    message.extensions.insert("task".to_owned(), Json::from_value(&task));
                }
                messages.push(message);
                Ok(())
            })?;
        }
        // Gateways, and programs of older schemas, only record the sums of the session.
        let rest = row.sums.beyond(listed);
        let (since, at) = (row.session.started_at, ended_at.or(row.session.ended_at));
        if let Some(message) = rest.into_message(format!("{}:{id}", AGENT.id), since) {
            messages.push(Message { at, model: row.session.model.clone(), ..message });
        }
        Ok(messages)
    }
}

/// Returns whether a session goes on with the conversation of its parent, as a branch or after a
/// compaction. All other children are sub-agents.
fn is_continued(row: &HermesSession, parent: &HermesSession) -> bool {
    let is_ended_by = |reason: &str| parent.end_reason.as_deref() == Some(reason);
    !row.is_delegated && (row.is_branch || is_ended_by(COMPRESSION) || is_ended_by(BRANCHED))
}

/// Hashes what a copy of a message has in common with the message. The output of a tool may be
/// shortened in the copy.
fn message_hash(row: &Row<'_>, content: &str) -> u64 {
    let column = |name: &str| text_column(row, name).unwrap_or_default();
    let (role, call_id) = (column("role"), column("tool_call_id"));
    if role == "tool" && !call_id.is_empty() {
        return xxh3_64(format!("tool\0{call_id}").as_bytes());
    }
    xxh3_64(format!("{role}\0{content}\0{}", column("tool_calls")).as_bytes())
}

/// Returns the number of messages at the beginning of a session that are copies of known ones, or
/// a summary among them.
fn shared_beginning(keys: &[HermesMessageKey], known: &HashSet<u64>) -> usize {
    let is_shared = |key: &&HermesMessageKey| key.is_summary || known.contains(&key.hash);
    keys.iter().take_while(is_shared).count()
}

/// Finds the copies that compactions in place wrote, by their numbers. They stand around each
/// summary: before it messages from the beginning of the session, after it the latest ones.
fn copied_messages(keys: &[HermesMessageKey]) -> HashSet<i64> {
    let mut copies = HashSet::new();
    for at in (1..keys.len()).filter(|at| keys[*at].is_summary) {
        let is_head = |length: &usize| {
            let around = keys[at - length..at].iter().zip(keys);
            around.into_iter().all(|(copy, first)| copy.hash == first.hash)
        };
        let head = (1..=at / 2).rev().find(is_head).unwrap_or(0);
        copies.extend(keys[at - head..at].iter().map(|key| key.number));
        let known: HashSet<u64> = keys[..at - head].iter().map(|key| key.hash).collect();
        let tail = keys[at + 1..].iter().take_while(|key| known.contains(&key.hash));
        copies.extend(tail.map(|key| key.number));
    }
    copies
}

/// Converts a row. A content that is no text is kept as it is.
fn messages_from_row(row: &Row<'_>) -> Vec<Message> {
    let mut envelope = Message { at: time_column(row, "timestamp"), ..Message::default() };
    // A person took the message back.
    if number_column(row, "active") == Some(0) && number_column(row, "compacted") != Some(1) {
        envelope.extensions.insert("rewound".to_owned(), Json::from_value(&true));
    }
    let text = text_column(row, "content").unwrap_or_default();
    let structured = text.strip_prefix(STRUCTURED).filter(|json| is_json(json));
    let content = structured.map_or_else(|| Json::from_value(&text), json_of);
    let calls = text_column(row, "tool_calls").unwrap_or_default();
    let column = |name: &str| text_column(row, name).map(|text| BorrowedText(text.into()));
    let role = text_column(row, "role").unwrap_or_default();
    if !matches!(&*role, "user" | "assistant" | "tool") {
        let blocks = Vec::from_iter((!text.is_empty()).then_some(Block::Text(text)));
        return vec![Message { blocks, ..envelope }];
    }
    let recorded = HermesMessage {
        role: Some(BorrowedText(role.into())),
        content: serde_json::from_str::<&RawValue>(content.as_json_str()).ok(),
        tool_calls: serde_json::from_str::<&RawValue>(&calls).ok(),
        tool_call_id: column("tool_call_id"),
        reasoning: column("reasoning"),
        reasoning_content: column("reasoning_content"),
        finish_reason: column("finish_reason"),
        ..HermesMessage::default()
    };
    let mut messages = message::convert_message(recorded, envelope);
    // Somebody wrote it in a chat, but not to the agent.
    if number_column(row, "observed") == Some(1) {
        for message in messages.iter_mut().filter(|message| message.origin == Origin::Human) {
            message.origin = Origin::Injected;
            message.extensions.insert("observed".to_owned(), Json::from_value(&true));
        }
    }
    messages
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

fn json_of(text: &str) -> Json {
    Json::from_text(text.to_owned()).unwrap_or_else(|| Json::from_value(&text))
}

/// Converts a time in seconds.
fn time_column(row: &Row<'_>, column: &str) -> Option<Timestamp> {
    let seconds = real_column(row, column)?;
    Timestamp::from_millis((seconds * 1000.0).round() as i64)
}
