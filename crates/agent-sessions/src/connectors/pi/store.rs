//! Reads the database of one of OpenClaw's agents, which holds the entries of all its sessions.
//!
//! `transcript_events` has one entry per row, as JSON or compressed. `session_windows` describes
//! each session, `session_nodes` the conversation that it belongs to, and
//! `session_transcript_archives` holds deleted sessions as compressed files.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::Path;

use rusqlite::Row;
use xxhash_rust::xxh3::Xxh3;

use super::place::SessionFile;
use super::reader::EntryReader;
use crate::connectors::formats::jsonl::{LineReader, MAX_LINE};
use crate::connectors::formats::rows::{
    bounded_select_list, count_column, number_column, text_column,
};
use crate::connectors::formats::sqlite::{self, Database};
use crate::connectors::{Checkpoint, Record, Sink};
use crate::error::{Error, Result};
use crate::model::{Json, SessionKind, Timestamp, TitleRank};

/// Extension of a session that names the key of its conversation.
pub(super) const SESSION_KEY: &str = "sessionKey";

/// Extension of a session that names the reason why it began.
const REASON: &str = "reason";

const EVENTS: &str = "transcript_events";
const WINDOWS: &str = "session_windows";
const NODES: &str = "session_nodes";
const REWRITES: &str = "transcript_rewrite_watermarks";
const ARCHIVES: &str = "session_transcript_archives";

/// Reads all sessions of a database and sends them to `sink`.
pub(super) fn read_agent_database(agent: &str, path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let database = sqlite::open_database(path)?;
    let mut store = OpenClawStore {
        agent,
        directory: agent_directory(path),
        windows: BTreeMap::new(),
        conversations: HashMap::new(),
        database: &database,
    };
    store.load_windows()?;
    store.load_conversations()?;
    let events = database.table_columns(EVENTS)?;
    let transcripts = store.list_transcripts(&events)?;
    for transcript in &transcripts {
        if sink.is_due() {
            return Ok(());
        }
        store.read_transcript(transcript, &events, sink)?;
    }
    store.read_archives(&transcripts, sink)
}

struct OpenClawStore<'d> {
    agent: &'d str,
    /// Name of the directory of OpenClaw's agent. Ids that people choose are unique in it.
    directory: String,
    windows: BTreeMap<String, OpenClawSession>,
    conversations: HashMap<String, OpenClawConversation>,
    database: &'d Database,
}

/// The description of a session: one window of a conversation.
#[derive(Default)]
struct OpenClawSession {
    key: Option<String>,
    reason: Option<String>,
    model: Option<String>,
    display_name: Option<String>,
    /// Key of the conversation that started this session.
    spawned_by: Option<String>,
    created_ms: Option<i64>,
}

/// The description of a conversation, under a key that stays the same over its sessions.
#[derive(Default)]
struct OpenClawConversation {
    current_session: Option<String>,
    label: Option<String>,
    display_name: Option<String>,
    spawned_by: Option<String>,
}

/// The entries of a session as a whole.
struct OpenClawTranscript {
    session: String,
    /// Hash of figures that change with the entries.
    fingerprint: u64,
}

impl OpenClawStore<'_> {
    fn load_windows(&mut self) -> Result<()> {
        let Some(columns) = self.select_list(WINDOWS)? else { return Ok(()) };
        let sql = format!("SELECT {columns} FROM {WINDOWS}");
        self.database.for_each_row(&sql, [], |row| {
            let Some(session) = text_column(row, "session_id") else { return Ok(()) };
            let window = OpenClawSession {
                key: text_column(row, "session_key"),
                reason: text_column(row, "reason"),
                model: text_column(row, "model"),
                display_name: text_column(row, "display_name"),
                spawned_by: text_column(row, "spawned_by"),
                created_ms: number_column(row, "created_at"),
            };
            self.windows.insert(session, window);
            Ok(())
        })
    }

    fn load_conversations(&mut self) -> Result<()> {
        let columns = self.database.table_columns(NODES)?;
        // Other columns hold copies of prompts, some of them large.
        let wanted = ["session_key", "current_session_id", "label", "display_name", "spawned_by"];
        let known: Vec<String> =
            columns.into_iter().filter(|column| wanted.contains(&column.as_str())).collect();
        if known.is_empty() {
            return Ok(());
        }
        let sql = format!("SELECT {} FROM {NODES}", bounded_select_list(&known));
        self.database.for_each_row(&sql, [], |row| {
            let Some(key) = text_column(row, "session_key") else { return Ok(()) };
            let conversation = OpenClawConversation {
                current_session: text_column(row, "current_session_id"),
                label: text_column(row, "label"),
                display_name: text_column(row, "display_name"),
                spawned_by: text_column(row, "spawned_by"),
            };
            self.conversations.insert(key, conversation);
            Ok(())
        })
    }

    /// Lists the sessions that have entries, each with a fingerprint. The entries themselves are
    /// not read.
    fn list_transcripts(&self, events: &[String]) -> Result<Vec<OpenClawTranscript>> {
        let has = |name: &str| events.iter().any(|column| column == name);
        if !(has("session_id") && has("seq") && has("event_json")) {
            return Ok(Vec::new());
        }
        let generations = self.rewrite_generations()?;
        let packed = if has("event_zstd") { "octet_length(event_zstd)" } else { "0" };
        let sql = format!(
            "SELECT {} AS session_id, count(*) AS events, max(seq) AS last,
             total(ifnull(octet_length(event_json), 0) + ifnull({packed}, 0)) AS bytes
             FROM {EVENTS} GROUP BY session_id ORDER BY session_id",
            sqlite::size_bounded_column("session_id")
        );
        let mut all = Vec::new();
        self.database.for_each_row(&sql, [], |row| {
            let Some(session) = text_column(row, "session_id") else { return Ok(()) };
            let mut hash = Xxh3::new();
            for column in ["events", "last"] {
                hash.update(&number_column(row, column).unwrap_or(-1).to_le_bytes());
            }
            hash.update(&row.get::<_, f64>("bytes").unwrap_or(-1.0).to_le_bytes());
            self.hash_description(&session, &mut hash);
            hash.update(generations.get(&session).map_or(&[], |name| name.as_bytes()));
            all.push(OpenClawTranscript { session, fingerprint: hash.digest() });
            Ok(())
        })?;
        Ok(all)
    }

    /// Returns the generation of each session, which changes when its entries are rewritten.
    fn rewrite_generations(&self) -> Result<HashMap<String, String>> {
        let mut all = HashMap::new();
        let Some(columns) = self.select_list(REWRITES)? else { return Ok(all) };
        self.database.for_each_row(&format!("SELECT {columns} FROM {REWRITES}"), [], |row| {
            if let (Some(session), Some(generation)) =
                (text_column(row, "session_id"), text_column(row, "generation"))
            {
                all.insert(session, generation);
            }
            Ok(())
        })?;
        Ok(all)
    }

    fn hash_description(&self, session: &str, hash: &mut Xxh3) {
        let window = self.windows.get(session);
        let conversation = window
            .and_then(|window| window.key.as_ref())
            .and_then(|key| self.conversations.get(key));
        let of_window = window.map(|one| [&one.key, &one.reason, &one.model, &one.display_name]);
        let of_conversation = conversation
            .map(|one| [&one.current_session, &one.label, &one.display_name, &one.spawned_by]);
        for text in of_window.into_iter().chain(of_conversation).flatten() {
            hash.update(text.as_deref().unwrap_or_default().as_bytes());
            hash.update(b"\0");
        }
    }

    fn read_transcript(
        &self,
        transcript: &OpenClawTranscript,
        events: &[String],
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let OpenClawTranscript { session, fingerprint } = transcript;
        let mut reader = self.open_reader(session, sink)?;
        let id = reader.session.id.clone();
        if reader.sink.is_unchanged(&id, *fingerprint)? {
            return Ok(());
        }
        let sql = format!(
            "SELECT {} FROM {EVENTS} WHERE session_id = ?1 ORDER BY seq",
            bounded_select_list(events)
        );
        self.database.for_each_row(&sql, [session.as_str()], |row| {
            let at = count_column(row, "seq");
            match event_bytes(row) {
                Some(bytes) => reader.read_entry(&bytes, at, true),
                None => reader.sink.accept_record(Record::unreadable_record(
                    at,
                    "an entry is too long or cannot be decompressed",
                )),
            }
        })?;
        reader.finish_session()?;
        reader.sink.finish_session(&id, *fingerprint)
    }

    /// Opens a reader for the entries of a session, with the description of the session.
    fn open_reader<'s>(&self, session: &str, sink: &'s mut dyn Sink) -> Result<EntryReader<'s>> {
        let mut file = SessionFile::in_database(session, &self.directory);
        let window = self.windows.get(session);
        let conversation = window
            .and_then(|window| window.key.as_ref())
            .and_then(|key| self.conversations.get(key));
        let spawned_by = window
            .and_then(|window| window.spawned_by.as_ref())
            .or_else(|| conversation.and_then(|conversation| conversation.spawned_by.as_ref()));
        let started_by = spawned_by.and_then(|key| {
            self.session_of_conversation(key, window.and_then(|window| window.created_ms))
        });
        file.parent = started_by.map(|parent| file.native_id(parent));
        let mut reader = EntryReader::new(self.agent, file, &Checkpoint::default(), sink)?;
        let described = &mut reader.session;
        if spawned_by.is_some() {
            described.kind = SessionKind::Agent;
        }
        let Some(window) = window else { return Ok(reader) };
        described.model.clone_from(&window.model);
        let named = [(SESSION_KEY, &window.key), (REASON, &window.reason)];
        for (name, text) in named {
            if let Some(text) = text {
                described.extensions.insert(name.to_owned(), Json::from_value(text));
            }
        }
        described.extend_time_span(window.created_ms.and_then(Timestamp::from_millis));
        // The names of a conversation are those of its current session.
        let is_current =
            |one: &&OpenClawConversation| one.current_session.as_deref() == Some(session);
        let conversation = conversation.filter(is_current);
        let label = conversation.and_then(|conversation| conversation.label.clone());
        let generated = conversation.and_then(|conversation| conversation.display_name.clone());
        described.add_title(TitleRank::Renamed, label.unwrap_or_default());
        let generated = generated.or_else(|| window.display_name.clone());
        described.add_title(TitleRank::Generated, generated.unwrap_or_default());
        Ok(reader)
    }

    /// Returns the session of a conversation that was in use at a time, else its current one.
    fn session_of_conversation(&self, key: &str, at_ms: Option<i64>) -> Option<&str> {
        let of_key = self.windows.iter().filter(|(_, window)| window.key.as_deref() == Some(key));
        let before = of_key.filter(|(_, window)| window.created_ms <= at_ms);
        let latest = before.max_by_key(|(_, window)| window.created_ms);
        let current = || self.conversations.get(key)?.current_session.as_deref();
        latest.map(|(session, _)| session.as_str()).or_else(current)
    }

    /// Reads the deleted sessions. Of several archives of a session the latest is read, and none of
    /// a session that still has entries.
    fn read_archives(&self, transcripts: &[OpenClawTranscript], sink: &mut dyn Sink) -> Result<()> {
        let columns = self.database.table_columns(ARCHIVES)?;
        let has = |name: &str| columns.iter().any(|column| column == name);
        if !["session_id", "archive_blob", "encoding", "created_at"].iter().all(|name| has(name)) {
            return Ok(());
        }
        let sql = format!(
            "SELECT max(rowid) AS number, {} AS session_id FROM {ARCHIVES}
             WHERE (session_id, created_at) IN
             (SELECT session_id, max(created_at) FROM {ARCHIVES} GROUP BY session_id)
             GROUP BY session_id ORDER BY session_id",
            sqlite::size_bounded_column("session_id")
        );
        let mut latest = Vec::new();
        self.database.for_each_row(&sql, [], |row| {
            let is_live = |session: &String| transcripts.iter().any(|one| one.session == *session);
            let session = text_column(row, "session_id").filter(|session| !is_live(session));
            latest.extend(session.zip(number_column(row, "number")));
            Ok(())
        })?;
        for (session, number) in latest {
            if sink.is_due() {
                break;
            }
            self.read_archive(&session, number, sink)?;
        }
        Ok(())
    }

    fn read_archive(&self, session: &str, number: i64, sink: &mut dyn Sink) -> Result<()> {
        let sql = format!(
            "SELECT {}, octet_length(archive_blob) AS bytes, {}, created_at
             FROM {ARCHIVES} WHERE rowid = ?1",
            bounded_select_list(&["archive_blob".to_owned()]),
            bounded_select_list(&["encoding".to_owned()]),
        );
        let mut reader = self.open_reader(session, sink)?;
        let id = reader.session.id.clone();
        self.database.for_each_row(&sql, [number], |row| {
            let mut hash = Xxh3::new();
            for column in ["bytes", "created_at"] {
                hash.update(&number_column(row, column).unwrap_or(-1).to_le_bytes());
            }
            let fingerprint = hash.digest();
            if reader.sink.is_unchanged(&id, fingerprint)? {
                return Ok(());
            }
            let Some(bytes) = row.get_ref("archive_blob").ok().and_then(sqlite::format_bytes)
            else {
                let too_long = Record::unreadable_record(number as u64, "a value is too long");
                return reader.sink.accept_record(too_long);
            };
            let content = std::io::Cursor::new(bytes.to_vec());
            let is_packed = text_column(row, "encoding").is_some_and(|name| name == "zstd");
            let content: Box<dyn Read> = if is_packed {
                Box::new(
                    zstd::Decoder::new(content)
                        .map_err(Error::read(self.database.database_path()))?,
                )
            } else {
                Box::new(content)
            };
            reader.read_archive(LineReader::from_stream(content, self.database.database_path()))?;
            reader.sink.finish_session(&id, fingerprint)
        })
    }

    fn select_list(&self, table: &str) -> Result<Option<String>> {
        let columns = self.database.table_columns(table)?;
        Ok((!columns.is_empty()).then(|| bounded_select_list(&columns)))
    }
}

/// Returns the JSON of an entry. `None` if it is too long or damaged.
fn event_bytes(row: &Row<'_>) -> Option<Vec<u8>> {
    let bytes = |column: &str| row.get_ref(column).ok().and_then(sqlite::format_bytes);
    if let Some(bytes) = bytes("event_json") {
        return Some(bytes.to_vec());
    }
    let mut unpacked = Vec::new();
    let decoder = zstd::Decoder::new(bytes("event_zstd")?).ok()?;
    let limit = MAX_LINE as u64;
    decoder.take(limit + 1).read_to_end(&mut unpacked).ok()?;
    (unpacked.len() as u64 <= limit).then_some(unpacked)
}

/// Returns the name of the directory of OpenClaw's agent: `agents/<name>/agent/<database>`.
fn agent_directory(path: &Path) -> String {
    let name = path.parent().and_then(Path::parent).and_then(Path::file_name);
    name.unwrap_or_default().to_string_lossy().into_owned()
}
