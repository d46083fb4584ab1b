//! Read-only access to SQLite databases of other programs. All access goes through this module.
//!
//! A database is read in place, as a `DatabaseSnapshot`. SQLite itself would take locks, would
//! create `-shm` files beside a live database, and ignores the write-ahead log of a file opened as
//! immutable. Copying was tried first: copying some gigabytes for every row that an editor writes
//! was too expensive, hard and symbolic links lead SQLite to the wrong log, and few file systems
//! can clone a file.
//!
//! A foreign database may be hostile. Views and triggers are disabled, only tables are read, every
//! query has a time limit, and every value a size limit.

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

use self::snapshot::{DatabaseSnapshot, companion_path};
use super::source_file::note_database;
use super::{files, jsonl};
use crate::connectors::{Source, Stamp};
use crate::error::{Error, Result};

/// Size limit of a value. Longer values are not read.
pub const MAX_VALUE_BYTES: usize = jsonl::MAX_LINE;

/// Time limit of a query from one row to the next.
const ROW_LIMIT: Duration = Duration::from_secs(20);

/// Minimum read rate. The time limit of all queries together is three times [`ROW_TIME_LIMIT`],
/// plus the time to read the database at this rate.
const BYTES_PER_SECOND: u64 = 5 << 20;

/// Number of SQLite virtual machine steps between two checks of the time limit.
const STEPS_BETWEEN_LOOKS: i32 = 1000;

/// Number of attempts to take a snapshot of a database that is being modified, and the longest
/// pause between them.
const TRIES: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// A database of another program, as it was when opened.
pub struct Database {
    connection: Connection,
    snapshot: Arc<DatabaseSnapshot>,
    path: PathBuf,
    timer: Arc<QueryTimer>,
}

/// Time limits of queries. Only the time inside SQLite counts.
struct QueryTimer {
    started: Instant,
    row_limit: Duration,
    total_limit: Duration,
    /// Start of the search for the current row, in microseconds since `started`.
    row_began_us: AtomicU64,
    /// Time spent on all previous rows, in microseconds.
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

    fn end_row_timer(&self) {
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

/// Creates a source from a database. A change of its `-wal` file counts as a change.
pub fn database_source(path: PathBuf) -> Option<Source> {
    let metadata = files::observed_metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let stamp = Stamp::from_metadata(&metadata).with_companion(&companion_path(&path, "-wal"));
    Some(Source { path, stamp })
}

/// Opens a database of another program without creating files beside it. Returns
/// [`Error::Unsettled`] for a database that is modified continuously.
pub fn open_database(path: &Path) -> Result<Database> {
    open_with_limit(path, ROW_LIMIT)
}

fn open_with_limit(path: &Path, row_limit: Duration) -> Result<Database> {
    // The log is beside the file itself, not beside a link to it.
    let real = path.canonicalize().map_err(Error::read(path))?;
    let snapshot = Arc::new(settled_snapshot(path, &real)?);
    let timer = Arc::new(QueryTimer::new(row_limit, snapshot.database_size()));
    let offered = vfs::Offered::new(Arc::clone(&snapshot)).ok_or_else(|| Error::Format {
        path: path.to_owned(),
        what: "SQLite could not open the snapshot".to_owned(),
    })?;
    let connection =
        connect_in_place(offered.offered_name(), &timer).map_err(database_error(path))?;
    let database = Database { connection, snapshot, path: path.to_owned(), timer };
    // SQLite opens any file; only the first query shows whether it is a database.
    database.for_each_row("PRAGMA schema_version", [], |_| Ok(()))?;
    Ok(database)
}

/// Takes a snapshot between two modifications of a database.
fn settled_snapshot(path: &Path, real: &Path) -> Result<DatabaseSnapshot> {
    note_database(path);
    let mut pause = Duration::from_millis(1);
    for _ in 1..TRIES {
        if let Some(snapshot) = DatabaseSnapshot::take_snapshot(real).map_err(Error::read(path))? {
            return Ok(snapshot);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
    let last = DatabaseSnapshot::take_snapshot(real).map_err(Error::read(path))?;
    last.ok_or_else(|| Error::Unsettled { path: path.to_owned() })
}

fn connect_in_place(name: &str, timer: &Arc<QueryTimer>) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags_and_vfs(name, flags, vfs::NAME)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    // Sorted rows contain other columns besides the value.
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES as i32 + (64 << 10))?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY")?;
    let timer = Arc::clone(timer);
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || timer.is_over()))?;
    Ok(connection)
}

impl Database {
    /// Runs a query and passes each row to `row`, which skips an unreadable row by returning `Ok`.
    /// Every row belongs to the state of the database when it was opened.
    pub fn for_each_row(
        &self,
        sql: &str,
        parameters: impl Params,
        mut row: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        self.timer.begin_row();
        let mut statement =
            self.connection.prepare_cached(sql).map_err(|error| self.query_failure(error))?;
        let mut rows = statement.query(parameters).map_err(|error| self.query_failure(error))?;
        while let Some(next) = rows.next().map_err(|error| self.query_failure(error))? {
            self.check_settled()?;
            self.timer.end_row_timer();
            row(next)?;
            self.timer.begin_row();
        }
        self.timer.end_row_timer();
        // The end of the rows must belong to the same state.
        self.check_settled()
    }

    /// Lists the columns of a table; empty when the table does not exist. Views and virtual tables
    /// do not count as tables.
    pub fn table_columns(&self, table: &str) -> Result<Vec<String>> {
        self.columns_if(table, "rootpage > 0")
    }

    /// Lists the columns of a table or of an FTS5 full-text index.
    pub fn columns_of_index(&self, table: &str) -> Result<Vec<String>> {
        self.columns_if(table, "(rootpage > 0 OR sql LIKE 'CREATE VIRTUAL TABLE % USING fts5%')")
    }

    fn columns_if(&self, table: &str, condition: &str) -> Result<Vec<String>> {
        let sql = format!(
            "SELECT 1 FROM sqlite_schema
             WHERE type = 'table' AND name = ?1 COLLATE NOCASE AND {condition}"
        );
        let mut is_table = false;
        self.for_each_row(&sql, [table], |_| {
            is_table = true;
            Ok(())
        })?;
        let mut names = Vec::new();
        if is_table {
            self.for_each_row("SELECT name FROM pragma_table_info(?1)", [table], |row| {
                names.extend(row.get::<_, String>(0));
                Ok(())
            })?;
        }
        Ok(names)
    }

    /// Returns the path of the database.
    pub fn database_path(&self) -> &Path {
        &self.path
    }

    /// Fails if the database was modified so that the data read may mix two states.
    fn check_settled(&self) -> Result<()> {
        if self.snapshot.is_still_valid() {
            return Ok(());
        }
        Err(Error::Unsettled { path: self.path.clone() })
    }

    /// Converts an error of a query. Only an error on an unmodified file means that the file is
    /// damaged.
    fn query_failure(&self, error: rusqlite::Error) -> Error {
        if let Err(unsettled) = self.check_settled() {
            return unsettled;
        }
        let path = self.path.clone();
        match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => {
                Error::Format { path, what: "its queries took too long".to_owned() }
            }
            _ => Error::Database { path, source: error.into() },
        }
    }
}

/// Returns a column name quoted for SQL.
pub fn quoted_column(column: &str) -> String {
    format!("\"{}\"", column.replace('"', "\"\""))
}

/// Returns an SQL expression that reads a column, or NULL if its value exceeds the size limit.
/// SQLite determines the length without reading the value.
pub fn size_bounded_column(column: &str) -> String {
    let column = quoted_column(column);
    format!("CASE WHEN octet_length({column}) <= {MAX_VALUE_BYTES} THEN {column} END")
}

/// Returns the bytes of a text or blob.
pub fn format_bytes(value: ValueRef<'_>) -> Option<&[u8]> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
        _ => None,
    }
}

/// Returns a conversion to [`Error::Database`] for the database at `path`, for `map_err`.
fn database_error(path: &Path) -> impl FnOnce(rusqlite::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::Database { path, source: error.into() }
}

#[cfg(test)]
mod tests;
