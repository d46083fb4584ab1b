//! Reads the database of threads.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::Path;

use rusqlite::Row;
use xxhash_rust::xxh3::Xxh3;

use super::AGENT;
use super::thread::{self, ZedThread};
use crate::connectors::formats::fold;
use crate::connectors::formats::json::BorrowedText;
use crate::connectors::formats::rows::{number_column, text_column};
use crate::connectors::formats::sqlite::{self, Database};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Bill, BilledModel, Json, Session, SessionKind, Timestamp, TitleRank, Tokens};

/// The text columns that are read for every thread.
const COLUMNS: &[&str] = &[
    "id",
    "summary",
    "updated_at",
    "created_at",
    "data_type",
    "parent_id",
    "folder_paths",
    "folder_paths_order",
];

/// Maximum number of sub-agents below each other.
const MAX_DEPTH: usize = 16;

/// Reads all threads and sends them to `sink`.
pub(super) fn read_threads(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let database = sqlite::open_database(path)?;
    let reader = ThreadsReader::open(&database)?;
    for at in 0..reader.rows.len() {
        if sink.is_due() {
            break;
        }
        reader.read_thread(at, sink)?;
    }
    Ok(())
}

/// A row of the table of threads, without the document.
struct ThreadRow {
    number: i64,
    texts: HashMap<&'static str, String>,
    /// Size of the document in bytes.
    size: i64,
}

impl ThreadRow {
    fn from_row(row: &Row<'_>) -> Self {
        let texts = COLUMNS.iter().filter_map(|name| Some((*name, text_column(row, name)?)));
        Self {
            number: number_column(row, "rowid").unwrap_or(0),
            texts: texts.collect(),
            size: number_column(row, "size").unwrap_or(0),
        }
    }

    fn text(&self, column: &str) -> Option<&str> {
        self.texts.get(column).map(String::as_str)
    }

    fn time(&self, column: &str) -> Option<Timestamp> {
        Timestamp::parse_iso_time(self.text(column)?)
    }

    /// Returns the folders of the thread in the order in which they were opened.
    fn folders(&self) -> Vec<&str> {
        let mut folders: Vec<&str> = self.text("folder_paths").unwrap_or("").lines().collect();
        let order = self.text("folder_paths_order").unwrap_or("").split(',');
        let order: Vec<usize> = order.filter_map(|place| place.trim().parse().ok()).collect();
        if order.len() == folders.len() {
            let mut placed: Vec<_> = order.into_iter().zip(folders).collect();
            placed.sort_unstable();
            folders = placed.into_iter().map(|(_, folder)| folder).collect();
        }
        folders
    }

    /// Adds what the row records about its thread.
    fn add_metadata(&self, thread: &ZedThread<'_>, session: &mut Session) {
        let title = [&thread.title, &thread.summary].into_iter().flatten().next();
        let title = self.text("summary").or(title.map(BorrowedText::as_borrowed_str));
        session.add_title(TitleRank::Generated, title.unwrap_or_default());
        session.extend_time_span(self.time("created_at"));
        session.extend_time_span(self.time("updated_at"));
        let folders = self.folders();
        session.cwd = folders.first().map(|folder| (*folder).to_owned());
        if folders.len() > 1 {
            session.extensions.insert("folders".to_owned(), Json::from_value(&folders));
        }
    }

    /// Returns a hash that changes with the thread.
    fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        for column in COLUMNS {
            hash.update(self.text(column).unwrap_or_default().as_bytes());
            hash.update(&[0]);
        }
        hash.update(&self.size.to_le_bytes());
        hash.digest()
    }
}

struct ThreadsReader<'d> {
    database: &'d Database,
    rows: Vec<ThreadRow>,
    /// Places in `rows` of the sub-agents of each thread, by its id.
    children: HashMap<String, Vec<usize>>,
}

impl<'d> ThreadsReader<'d> {
    fn open(database: &'d Database) -> Result<Self> {
        let columns = database.table_columns("threads")?;
        let mut reader = Self { database, rows: Vec::new(), children: HashMap::new() };
        let has = |name: &str| columns.iter().any(|column| column == name);
        if !(has("id") && has("data")) {
            return Ok(reader);
        }
        let texts = COLUMNS.iter().filter(|name| has(name));
        let texts = texts.map(|name| format!("{} AS {name}", sqlite::size_bounded_column(name)));
        let texts = texts.collect::<Vec<_>>().join(", ");
        let sql = format!(
            "SELECT rowid AS rowid, {texts}, octet_length(data) AS size FROM threads ORDER BY rowid"
        );
        database.for_each_row(&sql, [], |row| {
            reader.rows.push(ThreadRow::from_row(row));
            Ok(())
        })?;
        for (at, row) in reader.rows.iter().enumerate() {
            if let Some(parent) = row.text("parent_id") {
                reader.children.entry(parent.to_owned()).or_default().push(at);
            }
        }
        Ok(reader)
    }

    /// Lists the places of a thread and of all its sub-agents.
    fn with_sub_agents(&self, at: usize) -> Vec<usize> {
        let mut found = vec![at];
        let mut level = vec![at];
        for _ in 0..MAX_DEPTH {
            let ids = level.iter().filter_map(|at| self.rows[*at].text("id"));
            let below = ids.filter_map(|id| self.children.get(id)).flatten().copied();
            level = below.filter(|at| !found.contains(at)).collect();
            found.extend(&level);
        }
        found
    }

    fn read_thread(&self, at: usize, sink: &mut dyn Sink) -> Result<()> {
        let row = &self.rows[at];
        let position = row.number as u64;
        let Some(native) = row.text("id") else {
            return sink.accept_record(Record::unreadable_record(position, "a thread without id"));
        };
        let mut session = Session::new(AGENT.id, native);
        session.parent = row.text("parent_id").filter(|id| *id != native).map(str::to_owned);
        let family = self.with_sub_agents(at);
        let mut hash = Xxh3::new();
        for at in &family {
            hash.update(&self.rows[*at].fingerprint().to_le_bytes());
        }
        let fingerprint = hash.digest();
        if sink.is_unchanged(&session.id, fingerprint)? {
            return Ok(());
        }
        let text = match self.document_text(row)? {
            Ok(text) => text,
            Err(reason) => {
                return sink.accept_record(Record::unreadable_record(position, reason));
            }
        };
        let text = fold::fold_text(&text);
        let Some(mut thread) = thread::parse_thread(&text) else {
            return sink.accept_record(Record::unreadable_record(position, "not a thread"));
        };
        row.add_metadata(&thread, &mut session);
        let own = thread.take_cumulative_usage();
        thread.add_metadata(&mut session);
        // The bill of a thread includes the calls of its sub-agents.
        if session.kind == SessionKind::Root {
            let bill = self.bill_with_sub_agents(own, &family[1..])?;
            if !bill.is_empty() {
                let at = session.ended_at;
                session.add_bill(Bill { at, since: None, models: bill });
            }
        }
        let id = session.id.clone();
        sink.accept_record(Record::Session(Box::new(session.clone())))?;
        thread.emit_messages(&session, sink)?;
        sink.finish_session(&id, fingerprint)
    }

    /// Returns the sums of a thread and of its sub-agents, by model.
    fn bill_with_sub_agents(
        &self,
        own: Option<(String, Tokens)>,
        sub_agents: &[usize],
    ) -> Result<Vec<BilledModel>> {
        let mut sums: BTreeMap<String, Tokens> = BTreeMap::new();
        let mut add = |sum: Option<(String, Tokens)>| {
            if let Some((model, tokens)) = sum {
                *sums.entry(model).or_default() += tokens;
            }
        };
        add(own);
        for at in sub_agents {
            if let Ok(text) = self.document_text(&self.rows[*at])? {
                let thread = thread::parse_thread(&text);
                add(thread.and_then(|mut thread| thread.take_cumulative_usage()));
            }
        }
        let billed = sums.into_iter().map(|(name, tokens)| BilledModel {
            name,
            input: Some(tokens.input),
            output: Some(tokens.output),
            cache_read: Some(tokens.cache_read),
            cache_creation: Some(tokens.cache_creation),
            ..BilledModel::default()
        });
        Ok(billed.collect())
    }

    /// Reads the document of a thread, or returns the reason why it cannot be read.
    fn document_text(&self, row: &ThreadRow) -> Result<std::result::Result<String, &'static str>> {
        let mut bytes = Vec::new();
        let data = sqlite::size_bounded_column("data");
        let sql = format!("SELECT {data} FROM threads WHERE rowid = ?1");
        self.database.for_each_row(&sql, [row.number], |row| {
            bytes = row.get_ref(0).ok().and_then(sqlite::format_bytes).unwrap_or_default().to_vec();
            Ok(())
        })?;
        if bytes.is_empty() {
            return Ok(Err("a thread without readable content"));
        }
        Ok(unpack_document(bytes))
    }
}

/// The first bytes of a compressed document.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fn unpack_document(bytes: Vec<u8>) -> std::result::Result<String, &'static str> {
    let mut text = bytes;
    if text.starts_with(&ZSTD_MAGIC) {
        let damaged = |_| "a thread with damaged compression";
        let mut unpacked = Vec::new();
        let decoder = zstd::Decoder::new(&*text).map_err(damaged)?;
        let limit = sqlite::MAX_VALUE_BYTES as u64;
        decoder.take(limit + 1).read_to_end(&mut unpacked).map_err(damaged)?;
        if unpacked.len() as u64 > limit {
            return Err("a thread that is too long");
        }
        text = unpacked;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}
