//! The one door to other programs' SQLite databases.
//!
//! A database is read where it lies, as a `Snapshot`: SQLite would take locks, would create
//! `-shm` files beside a live database, and ignores its log when the file is opened as immutable.
//! Copies were tried first; a copy of some gigabytes for every row that an editor writes was too
//! dear, hard links and symbolic links lead SQLite to the wrong log, and only few file systems can
//! clone a file.
//!
//! A foreign database may be hostile. Views and triggers are off, only tables are read, every
//! query has a time limit, and every value a size limit.

mod leftovers;
mod snapshot;
mod vfs;
mod wal;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Params, Row};

use self::snapshot::{Snapshot, beside};
use super::{files, jsonl};
use crate::connectors::{Source, Stamp};
use crate::error::{Error, Result};

pub(crate) use leftovers::sweep;

/// A longer value is not read.
pub const MAX_VALUE_BYTES: usize = jsonl::MAX_LINE;

/// How long a query may take from one row to the next.
const ROW_LIMIT: Duration = Duration::from_secs(20);

/// All queries together may take three times as long, and as long as it takes to read the database
/// at this rate.
const BYTES_PER_SECOND: u64 = 5 << 20;

/// After how many steps of SQLite's machine the time is looked at.
const STEPS_BETWEEN_LOOKS: i32 = 1000;

/// How often a database that is being changed is tried again, and the longest pause before that.
const TRIES: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// A database of another program, as it was when it was opened.
pub struct Database {
    connection: Connection,
    snapshot: Arc<Snapshot>,
    path: PathBuf,
    timer: Arc<QueryTimer>,
}

/// Says when queries have taken too long. Only the time inside SQLite counts.
struct QueryTimer {
    started: Instant,
    row_limit: Duration,
    total_limit: Duration,
    /// When SQLite last began to look for a row, in microseconds since the start.
    row_began_us: AtomicU64,
    /// How long it took for all rows before.
    spent_us: AtomicU64,
}

impl QueryTimer {
    fn new(row_limit: Duration, database_bytes: u64) -> Self {
        Self {
            started: Instant::now(),
            row_limit,
            total_limit: 3 * row_limit + Duration::from_secs(database_bytes / BYTES_PER_SECOND),
            row_began_us: 0.into(),
            spent_us: 0.into(),
        }
    }

    fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    fn begin_row(&self) {
        self.row_began_us.store(self.now_us(), Ordering::Relaxed);
    }

    fn end_row(&self) {
        self.spent_us.fetch_add(self.row_us(), Ordering::Relaxed);
    }

    fn row_us(&self) -> u64 {
        self.now_us().saturating_sub(self.row_began_us.load(Ordering::Relaxed))
    }

    fn is_over(&self) -> bool {
        let row = Duration::from_micros(self.row_us());
        let spent = Duration::from_micros(self.spent_us.load(Ordering::Relaxed));
        row > self.row_limit || spent + row > self.total_limit
    }
}

/// Makes a source of a database, so that a change of its `-wal` counts as a change.
pub fn source(path: PathBuf) -> Option<Source> {
    let metadata = files::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let stamp = Stamp::of(&metadata).with(&beside(&path, "-wal"));
    Some(Source { path, stamp })
}

/// Opens a database of another program without leaving a trace beside it. A database that its
/// program is changing all the time is an [`Error::Unsettled`].
pub fn open(path: &Path) -> Result<Database> {
    open_with_limit(path, ROW_LIMIT)
}

fn open_with_limit(path: &Path, row_limit: Duration) -> Result<Database> {
    // The log lies beside the file itself, not beside a link to it.
    let real = path.canonicalize().map_err(Error::read(path))?;
    let snapshot = Arc::new(settled_snapshot(path, &real)?);
    let timer = Arc::new(QueryTimer::new(row_limit, snapshot.size()));
    let offered = vfs::Offered::new(Arc::clone(&snapshot)).ok_or_else(|| Error::Format {
        path: path.to_owned(),
        what: "SQLite refused the way it is read".to_owned(),
    })?;
    let connection = connect(offered.name(), &timer).map_err(database(path))?;
    let database = Database { connection, snapshot, path: path.to_owned(), timer };
    // SQLite opens anything; only the first look tells whether it is a database.
    database.each("PRAGMA schema_version", [], |_| Ok(()))?;
    Ok(database)
}

/// Takes a snapshot between two changes of a database.
fn settled_snapshot(path: &Path, real: &Path) -> Result<Snapshot> {
    let mut pause = Duration::from_millis(1);
    for _ in 1..TRIES {
        if let Some(snapshot) = Snapshot::take(real).map_err(Error::read(path))? {
            return Ok(snapshot);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
    let last = Snapshot::take(real).map_err(Error::read(path))?;
    last.ok_or_else(|| Error::Unsettled { path: path.to_owned() })
}

fn connect(name: &str, timer: &Arc<QueryTimer>) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags_and_vfs(name, flags, vfs::NAME)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    // Rows that are put in order have other columns beside the value.
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES as i32 + (64 << 10))?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY")?;
    let timer = Arc::clone(timer);
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || timer.is_over()))?;
    Ok(connection)
}

impl Database {
    /// Runs one query and hands every row to `row`; a row that cannot be read is passed over by
    /// returning `Ok` from `row`. Every row that is handed out is one that the database had at the
    /// moment it was opened.
    pub fn each(
        &self,
        sql: &str,
        parameters: impl Params,
        mut row: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        self.timer.begin_row();
        let mut statement =
            self.connection.prepare_cached(sql).map_err(|error| self.failure(error))?;
        let mut rows = statement.query(parameters).map_err(|error| self.failure(error))?;
        while let Some(next) = rows.next().map_err(|error| self.failure(error))? {
            self.check()?;
            self.timer.end_row();
            row(next)?;
            self.timer.begin_row();
        }
        self.timer.end_row();
        // That there are no more rows must be true as well.
        self.check()
    }

    /// Lists the columns of a table; none when there is no such table. A view, or a table that a
    /// module of SQLite makes up, is no table.
    pub fn columns(&self, table: &str) -> Result<Vec<String>> {
        self.columns_if(table, "rootpage > 0")
    }

    /// Lists the columns of a table that may also be a full-text index of FTS5.
    pub fn columns_of_index(&self, table: &str) -> Result<Vec<String>> {
        self.columns_if(table, "(rootpage > 0 OR sql LIKE 'CREATE VIRTUAL TABLE % USING fts5%')")
    }

    fn columns_if(&self, table: &str, condition: &str) -> Result<Vec<String>> {
        let sql = format!(
            "SELECT 1 FROM sqlite_schema
             WHERE type = 'table' AND name = ?1 COLLATE NOCASE AND {condition}"
        );
        let mut is_table = false;
        self.each(&sql, [table], |_| {
            is_table = true;
            Ok(())
        })?;
        let mut names = Vec::new();
        if is_table {
            self.each("SELECT name FROM pragma_table_info(?1)", [table], |row| {
                names.extend(row.get::<_, String>(0));
                Ok(())
            })?;
        }
        Ok(names)
    }

    /// Where the database lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fails when the database was changed in a way that what was read may be of two moments.
    fn check(&self) -> Result<()> {
        if self.snapshot.holds() {
            return Ok(());
        }
        Err(Error::Unsettled { path: self.path.clone() })
    }

    /// Says why a query failed. Only what fails while the file stays as it is, is damaged.
    fn failure(&self, error: rusqlite::Error) -> Error {
        if let Err(unsettled) = self.check() {
            return unsettled;
        }
        let path = self.path.clone();
        match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => {
                Error::Format { path, what: "its queries take too long".to_owned() }
            }
            _ => Error::Database { path, source: error },
        }
    }
}

/// Returns the name of a column as SQL has it.
pub fn quoted(column: &str) -> String {
    format!("\"{}\"", column.replace('"', "\"\""))
}

/// Returns the expression that reads a column unless its value is too long: then it is NULL. How
/// long a value is, SQLite knows without reading it.
pub fn bounded(column: &str) -> String {
    let column = quoted(column);
    format!("CASE WHEN octet_length({column}) <= {MAX_VALUE_BYTES} THEN {column} END")
}

/// Returns the bytes of a text or blob.
pub fn bytes(value: ValueRef<'_>) -> Option<&[u8]> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
        _ => None,
    }
}

/// Says that reading the database at `path` failed, for `map_err`.
fn database(path: &Path) -> impl FnOnce(rusqlite::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Database { path, source }
}

#[cfg(test)]
mod tests;
