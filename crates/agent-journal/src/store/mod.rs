//! Where are entries kept? In one SQLite file: small rows for what is counted and filtered,
//! compressed runs of JSON lines for the messages themselves. One process writes at a time, any
//! number read; readers never wait.

mod account;
mod beside;
mod bills;
mod browse;
mod calls;
mod catalog;
mod choose;
mod chunk;
#[cfg(feature = "parquet")]
mod counted;
mod families;
mod figures;
mod fingerprints;
mod ledger;
mod lineage;
mod pack;
mod packing;
mod pieces;
mod presence;
mod project;
mod recordings;
mod rederive;
mod sessions;
mod settle;
mod sources;
mod summaries;
mod tasks;
mod tellings;
mod understanding;
mod unrecorded;
mod write;

pub use browse::{Browse, Facets, Listing, Order};
pub use ledger::Touches;
pub use presence::{KnownSession, KnownSource, ListingState, SourceState};
pub use sessions::{Entry, Origin};
pub use sources::AgentTotals;

pub(crate) use beside::NONE;
pub(crate) use catalog::Facts;
pub(crate) use families::FamilyMember;
pub(crate) use figures::Doings;
pub(crate) use fingerprints::Fingerprint;
pub(crate) use ledger::{Done, Quarter, SIZES, Spent};
pub(crate) use presence::RecordedSource;
pub(crate) use project::distinct_names;
pub(crate) use recordings::Recording;
pub(crate) use sources::SourceRow;
pub(crate) use tellings::{Hashes, Run, Whole};
pub(crate) use understanding::SourceUnderstanding;

pub(crate) use chunk::{Chunk, ChunkBuilder, FULL_RUN, Packed};
pub(crate) use packing::Packer;
pub(crate) use write::{Pending, Place, SourceEnd, Told, Writer};

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use self::catalog::Catalog;
use self::packing::Dictionary;
use crate::error::{Error, Result};
use crate::uri;

/// Version of the schema; each step up has its entry in `MIGRATIONS`.
const VERSION: i64 = 4;

/// The version of everything that turns a source into stored messages and facts: connectors,
/// facts, packing. A higher number has every source read again once, and the facts of sources
/// that are gone worked out again from their stored messages.
pub(crate) const READER_VERSION: i64 = 2;

/// SQL that leads from each version to the next, the first from nothing.
const MIGRATIONS: [&str; VERSION as usize] = [
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
];

/// Whoever reads has the file mapped, as much of it as SQLite can: a page that the system holds
/// is not copied. Nothing is ever cut off it but by SQLite itself.
const MAPPED: &str = "PRAGMA mmap_size = 2147418112";

/// Device and number of a file.
type FileId = (u64, u64);

/// The journal's database, open for reading.
pub(crate) struct Store {
    connection: Connection,
    path: PathBuf,
    /// What tells the file from another at its path.
    file: Option<FileId>,
    catalog: Catalog,
    /// What runs that were read needed.
    dictionaries: RefCell<HashMap<u32, Arc<Dictionary>>>,
    /// Whether it was opened as it lies, apart from all other processes.
    is_frozen: bool,
}

impl Store {
    /// Returns a handle that interrupts running statements from another thread.
    pub(crate) fn interrupt_handle(&self) -> rusqlite::InterruptHandle {
        self.connection.get_interrupt_handle()
    }

    /// Opens the journal for reading; `None` when there is none yet.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let mut is_frozen = false;
        let (connection, version) = match begin(path, path, OpenFlags::SQLITE_OPEN_READ_WRITE) {
            Err(error) if needs_files_beside(&error) => {
                is_frozen = true;
                // The first reason is the one to report.
                begin_frozen(path).map_err(|_| error)?
            }
            begun => begun?,
        };
        if version > VERSION {
            return Err(Error::Newer { path: path.to_owned(), found: version, known: VERSION });
        }
        // An unfinished or older journal is made ready by the next writer.
        let ready = version == VERSION;
        Ok(ready.then(|| Self { is_frozen, ..Self::new(connection, path) }))
    }

    fn new(connection: Connection, path: &Path) -> Self {
        let (catalog, dictionaries) = (Catalog::default(), RefCell::default());
        let (file, is_frozen) = (file_id(path), false);
        Self { connection, path: path.to_owned(), file, catalog, dictionaries, is_frozen }
    }

    /// Returns whether it has to be opened again to be written, or to see what others write.
    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// Whether the journal's file is still where it was opened.
    pub(crate) fn is_there(&self) -> bool {
        self.file.is_some() && file_id(&self.path) == self.file
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
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = connect(path, path, flags)?;
        private_file(path)?;
        migrate(&connection, path)?;
        Ok(Self::new(connection, path))
    }

    /// Holds few pages at a time: the system holds them too.
    pub(crate) fn hold_little(&self) {
        // A larger cache is no fault.
        let _ = self.connection.execute_batch("PRAGMA cache_size = -1000; PRAGMA mmap_size = 0");
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

    /// Whoever packs runs for this journal.
    fn packer(&self) -> Result<Packer> {
        let sql = "SELECT id FROM dictionaries ORDER BY learnt DESC LIMIT 1";
        let id = self.connection.query_row(sql, [], |row| row.get(0)).optional();
        let known = id.and_then(|id| id.map_or(Ok(None), |id| self.dictionary(id)));
        Ok(Packer::new(known.map_err(self.error())?))
    }

    /// Unpacks a run; `None` when it is damaged.
    fn unpack(&self, packed: &[u8]) -> rusqlite::Result<Option<Vec<u8>>> {
        let dictionary = self.needed(packed)?;
        Ok(packing::unpack(packed, dictionary.as_deref()))
    }

    /// The dictionary a run needs to be unpacked.
    fn needed(&self, packed: &[u8]) -> rusqlite::Result<Option<Arc<Dictionary>>> {
        packing::needs(packed).map_or(Ok(None), |id| self.dictionary(id))
    }

    fn dictionary(&self, id: u32) -> rusqlite::Result<Option<Arc<Dictionary>>> {
        if let Some(known) = self.dictionaries.borrow().get(&id) {
            return Ok(Some(Arc::clone(known)));
        }
        for copy in ["bytes", "spare"] {
            let sql = format!("SELECT sum, {copy} FROM dictionaries WHERE id = ?1");
            let found = self.connection.query_row(&sql, [id], |row| {
                let dictionary = Dictionary::new(row.get(1)?);
                let sum: i64 = row.get(0)?;
                Ok(dictionary.filter(|dictionary| dictionary.sum == sum))
            });
            if let Some(dictionary) = found.optional()?.flatten().map(Arc::new) {
                self.dictionaries.borrow_mut().insert(id, Arc::clone(&dictionary));
                return Ok(Some(dictionary));
            }
        }
        Ok(None)
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

#[cfg(unix)]
fn file_id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    path.metadata().ok().map(|file| (file.dev(), file.ino()))
}

/// A file that is open cannot be put elsewhere.
#[cfg(not(unix))]
fn file_id(path: &Path) -> Option<FileId> {
    path.exists().then_some((0, 0))
}

/// Opens a file that is to be read, by a name of it, with the version of its format.
fn begin(path: &Path, name: &Path, flags: OpenFlags) -> Result<(Connection, i64)> {
    prepare(path, connect(path, name, flags)?)
}

fn prepare(path: &Path, connection: Connection) -> Result<(Connection, i64)> {
    connection.execute_batch(MAPPED).map_err(Error::store(path))?;
    let version = version(&connection).map_err(Error::store(path))?;
    Ok((connection, version))
}

/// Opens a file as it lies, where the files beside it cannot be made through which readers and
/// writers meet: on a full disk, a file system that is read-only, in a directory of another user.
/// As long as there are none, nobody writes.
fn begin_frozen(path: &Path) -> Result<(Connection, i64)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if !fs::metadata(log).is_ok_and(|log| log.len() > 0) {
        return begin(path, Path::new(&uri::of(path, "immutable=1")), flags);
    }
    // The log holds the latest changes. Without locks and with the index of the log in this
    // process's own memory, it is read without a file beside it.
    let system = if cfg!(windows) { "vfs=win32-none" } else { "vfs=unix-none" };
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri::of(path, system), flags);
    let connection = connection.map_err(Error::store(path))?;
    // Before anything else: other settings read the file.
    connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE").map_err(Error::store(path))?;
    let kept = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    connection.set_db_config(kept, true).map_err(Error::store(path))?;
    prepare(path, configure(path, connection)?)
}

/// Returns whether opening failed because a file beside the journal could not be made.
fn needs_files_beside(error: &Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly, SystemIoFailure};
    match error {
        Error::Full { .. } | Error::Write { .. } => true,
        Error::Store { source, .. } => {
            matches!(source.sqlite_error_code(), Some(CannotOpen | ReadOnly | SystemIoFailure))
        }
        _ => false,
    }
}

fn connect(path: &Path, name: &Path, flags: OpenFlags) -> Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(name, flags).map_err(Error::store(path))?;
    configure(path, connection)
}

fn configure(path: &Path, connection: Connection) -> Result<Connection> {
    let set = "PRAGMA busy_timeout = 10000; PRAGMA synchronous = FULL; PRAGMA cache_size = -8000;
               PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 64;";
    connection.execute_batch(set).map_err(Error::store(path))?;
    // Without it, queries are planned anew for every value they are asked with.
    let steady = DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG;
    connection.set_db_config(steady, true).map_err(Error::store(path))?;
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
        sql.push_str("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL;");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_dictionary_is_read_from_its_spare() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.db");
        let store = Store::create(&path).unwrap();
        let run = |number: u64| -> Vec<u8> {
            let word = |at: u64| format!("word{} ", (number * 31 + at * at * 7) % 4001);
            (0..5000).flat_map(|at| word(at).into_bytes()).collect()
        };
        let mut writer = store.write().unwrap();
        let packer = writer.packer();
        (0..99).for_each(|number| drop(packer.pack(&run(number))));
        let run = run(99);
        let (body, Some(dictionary)) = packer.pack(&run) else { panic!("nothing was learnt") };
        writer.dictionary(&dictionary).unwrap();
        writer.commit().unwrap();
        drop(writer);
        let read = |sql: &str| {
            store.connection.execute_batch(sql).unwrap();
            Store::open(&path).unwrap().unwrap().unpack(&body).unwrap()
        };
        assert_eq!(read("").as_ref(), Some(&run));
        let torn = "substr(bytes, 1, 2000) || zeroblob(100) || substr(bytes, 2101)";
        let damage = format!("UPDATE dictionaries SET bytes = CAST({torn} AS BLOB)");
        assert_eq!(read(&damage).as_ref(), Some(&run));
        assert_eq!(read("UPDATE dictionaries SET spare = bytes"), None);
    }

    #[expect(clippy::disallowed_methods, reason = "a journal as an older program made it")]
    #[test]
    fn a_journal_of_the_first_format_keeps_its_calls() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.db");
        let old = Connection::open(&path).unwrap();
        old.execute_batch(MIGRATIONS[0]).unwrap();
        old.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA user_version = 1;
             INSERT INTO meta VALUES ('generation', 3), ('identity', 4);
             INSERT INTO usage (identity, session, telling, position, at, model, input, output,
             cache_read, cache_creation, cache_creation_1h, repeats, counted, owner) VALUES
             (x'02', 7, 70, 1, 20, 'one', 1, 2, 3, 4, 0, 0, 1, 7),
             (x'01', 7, 70, 0, 10, NULL, 5, 6, 7, 8, 0, 2, 1, 7),
             (x'01', 8, 80, 0, 10, 'two', 5, 6, 7, 8, 0, 0, 0, 7);",
        )
        .unwrap();
        drop(old);
        assert!(Store::open(&path).unwrap().is_none(), "a reader waits for a writer");
        let store = Store::create(&path).unwrap();
        assert_eq!((store.generation().unwrap(), store.identity().unwrap()), (3, 4));
        let sql = "SELECT hex(identity), models.name, repeats, counted FROM usage
                   LEFT JOIN models ON models.id = model ORDER BY telling, position";
        let mut statement = store.connection.prepare(sql).unwrap();
        let row = |row: &rusqlite::Row<'_>| -> rusqlite::Result<_> {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        };
        let rows = statement.query_map([], row).unwrap();
        let calls: Vec<(String, Option<String>, i64, i64)> =
            rows.collect::<rusqlite::Result<_>>().unwrap();
        let call = |id: &str, model: Option<&str>, repeats, counted| {
            (id.to_owned(), model.map(str::to_owned), repeats, counted)
        };
        let one = Some("one");
        let expected =
            [call("01", None, 2, 1), call("02", one, 0, 1), call("01", Some("two"), 0, 0)];
        assert_eq!(calls, expected);
        assert!(Store::open(&path).unwrap().is_some());
    }
}
