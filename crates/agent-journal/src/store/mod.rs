//! Where are entries kept? In one SQLite file: small rows for what is counted and filtered,
//! compressed runs of JSON lines for the messages themselves. One process writes at a time, any
//! number read; readers never wait.

mod account;
mod beside;
mod browse;
mod calls;
mod catalog;
mod choose;
mod chunk;
#[cfg(feature = "parquet")]
mod counted;
mod figures;
mod ledger;
mod pack;
mod pieces;
mod project;
mod sessions;
mod settle;
mod sources;
mod tasks;
mod tellings;
mod write;

pub use browse::{Browse, Facets, Listing, Order};
pub use sessions::{Entry, Origin};
pub use sources::AgentTotals;

pub(crate) use catalog::Facts;
pub(crate) use figures::Doings;
pub(crate) use ledger::{Done, Quarter, SIZES, Spent};
pub(crate) use sources::SourceRow;
pub(crate) use tellings::Hashes;

pub(crate) use chunk::{Chunk, ChunkBuilder, FULL_RUN, Packed};
pub(crate) use write::{Place, SourceEnd, Told, Writer};

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use self::catalog::Catalog;
use crate::error::{Error, Result};

/// Version of the schema; each step up has its entry in `MIGRATIONS`.
const VERSION: i64 = 1;

/// SQL that leads from each version to the next, the first from nothing.
const MIGRATIONS: [&str; VERSION as usize] = [include_str!("schema.sql")];

/// The journal's database, open for reading.
pub(crate) struct Store {
    connection: Connection,
    path: PathBuf,
    catalog: Catalog,
}

impl Store {
    /// Opens the journal for reading; `None` when there is none yet.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let version = version(&connection).map_err(Error::store(path))?;
        if version > VERSION {
            return Err(Error::Newer { path: path.to_owned(), found: version, known: VERSION });
        }
        // An unfinished or older journal is made ready by the next writer.
        let ready = version == VERSION;
        Ok(ready.then(|| Self::new(connection, path)))
    }

    fn new(connection: Connection, path: &Path) -> Self {
        Self { connection, path: path.to_owned(), catalog: Catalog::default() }
    }

    /// Lists what is wrong with the file; nothing when it is sound.
    pub(crate) fn faults(&self) -> Result<Vec<String>> {
        let mut statement =
            self.connection.prepare("PRAGMA quick_check(5)").map_err(self.error())?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0));
        let mut faults: Vec<String> = rows.and_then(Iterator::collect).map_err(self.error())?;
        faults.retain(|fault| fault != "ok");
        Ok(faults)
    }

    /// Opens the journal for writing, making or migrating it. The caller holds the lock.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let directory = path.parent().unwrap_or(Path::new("."));
        private_directory(directory)?;
        let connection =
            connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        private_file(path)?;
        migrate(&connection, path)?;
        Ok(Self::new(connection, path))
    }

    /// Holds few pages at a time: the system holds them too.
    pub(crate) fn hold_little(&self) {
        // A larger cache is no fault.
        let _ = self.connection.execute_batch("PRAGMA cache_size = -1000");
    }

    /// Lets go of what is held for the next question.
    pub(crate) fn rest(&self) {
        self.catalog.clear();
        // They only save time.
        let _ = self.connection.release_memory();
    }

    /// The generation of the last change.
    pub(crate) fn generation(&self) -> Result<i64> {
        self.meta("generation")
    }

    /// A number that tells this journal from every other.
    pub(crate) fn identity(&self) -> Result<i64> {
        self.meta("identity")
    }

    pub(super) fn error(&self) -> impl FnOnce(rusqlite::Error) -> Error {
        Error::store(&self.path)
    }

    fn meta(&self, name: &str) -> Result<i64> {
        let sql = "SELECT value FROM meta WHERE name = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement.query_row([name], |row| row.get(0)).map_err(self.error())
    }
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(Error::store(path))?;
    let set = "PRAGMA busy_timeout = 10000; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -8000;
               PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 64;";
    connection.execute_batch(set).map_err(Error::store(path))?;
    Ok(connection)
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn migrate(connection: &Connection, path: &Path) -> Result<()> {
    let found = version(connection).map_err(Error::store(path))?;
    if found > VERSION {
        return Err(Error::Newer { path: path.to_owned(), found, known: VERSION });
    }
    if found == VERSION {
        return Ok(());
    }
    let mut sql = String::new();
    if found == 0 {
        sql.push_str("PRAGMA page_size = 8192; PRAGMA journal_mode = WAL;");
    }
    sql.push_str("BEGIN IMMEDIATE;");
    for step in &MIGRATIONS[found as usize..] {
        sql.push_str(step);
    }
    if found == 0 {
        sql.push_str("INSERT INTO meta VALUES ('generation', 0), ('identity', abs(random() / 2));");
    }
    sql.push_str(&format!("PRAGMA user_version = {VERSION}; COMMIT;"));
    connection.execute_batch(&sql).map_err(Error::store(path))
}

/// Makes a directory that only its owner may enter.
pub(crate) fn private_directory(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(Error::write(path))
}

#[cfg(unix)]
fn private_file(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(Error::write(path))
}

#[cfg(not(unix))]
fn private_file(_: &Path) -> Result<()> {
    Ok(())
}
