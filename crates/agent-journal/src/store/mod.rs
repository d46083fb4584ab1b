//! The journal's database. Everything is in one SQLite file: small rows for counting and filtering,
//! and compressed chunks of JSON lines for the messages. One process writes at a time, any number
//! of processes read, and readers never wait.

mod activity_codec;
mod archive;
mod bills;
mod browse;
mod calls;
mod catalog;
mod choose;
mod chunk;
mod compression;
#[cfg(feature = "parquet")]
mod counted;
mod database;
mod derive;
mod detached_usage;
mod filter_sql;
mod fingerprints;
mod lineage;
mod lookup;
mod messages;
mod metadata;
mod migrations;
mod project;
mod recordings;
mod rederive;
mod session_activity;
mod session_families;
mod sessions;
mod sources;
mod stream;
mod summaries;
mod tasks;
mod understanding;
mod unrecorded;
mod varint;
mod write;

pub use activity_codec::Touches;
pub use archive::ArchiveTotals;
pub use browse::{Browse, Facets, Listing, Order};
pub use lookup::{KnownSession, KnownSource, ListingState, SourceState};
pub use sessions::{Entry, Origin};
pub use sources::AgentTotals;

pub(crate) use activity_codec::{ActivityBucket, ActivityLog, PROMPT_TOKEN_LIMITS, UsageBucket};
pub(crate) use archive::{
    ArchivedFile, ChunkHash, FrameChunk, FramePlace, FrameRow, LatestVersion, PartRow, StoredPart,
    VersionRow,
};
pub(crate) use catalog::Facts;
pub(crate) use detached_usage::NO_RECORDING;
pub(crate) use fingerprints::Fingerprint;
pub(crate) use lookup::RecordedSource;
pub(crate) use messages::{CompressedChunk, Hashes, SessionTexts};
pub(crate) use project::distinct_names;
pub(crate) use recordings::Recording;
pub(crate) use session_activity::SessionActivity;
pub(crate) use session_families::FamilyMember;
pub(crate) use sources::{KeptSource, SourceRow};
pub(crate) use understanding::SourceUnderstanding;

pub(crate) use chunk::{Chunk, ChunkBuilder, FULL_CHUNK_BYTES, SerializedMessage, text_bytes};
pub(crate) use compression::ChunkCompressor;
pub(crate) use write::{PendingReason, RecordingRow, SourceEnd, SourceHome, Writer};

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use self::catalog::Catalog;
use self::compression::Dictionary;
use self::database::{Database, OptionalRow};
use self::migrations::FORMAT;
use crate::error::{Error, Result};
use crate::private::private_directory;
use crate::uri;

/// Version of the code that turns a source into stored messages and facts: connectors, facts,
/// packing. After an increase every source is read again once, and the facts of sources that no
/// longer exist are derived again from their stored messages, unless the archive has their files.
pub(crate) const READER_VERSION: i64 = 2;

/// Returns the version of the code that reads a source with a connector of a version.
pub(crate) const fn reader_version(connector_version: u32) -> i64 {
    READER_VERSION * 1000 + connector_version as i64
}

/// Readers map as much of the file as SQLite supports, so that pages in the system's cache are not
/// copied. Only SQLite itself ever truncates the file.
const MEMORY_MAP: &str = "PRAGMA mmap_size = 2147418112";

/// Device and inode of a file.
type FileId = (u64, u64);

/// The journal's database, open for reading.
pub(crate) struct Store {
    database: Database,
    /// Identifies the open file, in case another one replaces it.
    file: Option<FileId>,
    catalog: Catalog,
    /// Dictionaries of the chunks that were read.
    dictionaries: RefCell<HashMap<u32, Arc<Dictionary>>>,
    /// Whether the file was opened without locks or shared files, so that changes by other
    /// processes are not visible.
    is_frozen: bool,
}

impl Store {
    /// Returns a handle that interrupts running statements from another thread.
    pub(crate) fn interrupt_handle(&self) -> rusqlite::InterruptHandle {
        self.database.connection().get_interrupt_handle()
    }

    /// Opens the journal for reading; returns `None` if it does not exist yet.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let mut is_frozen = false;
        let (connection, format) = match begin(path, path, OpenFlags::SQLITE_OPEN_READ_WRITE) {
            Err(error) if needs_files_beside(&error) => {
                is_frozen = true;
                // The first error is the one to report.
                begin_frozen(path).map_err(|_| error)?
            }
            begun => begun?,
        };
        if format > FORMAT {
            return Err(Error::Newer { path: path.to_owned(), found: format, known: FORMAT });
        }
        // The next writer completes an unfinished journal or migrates an older one.
        let ready = format == FORMAT;
        Ok(ready.then(|| Self { is_frozen, ..Self::new(connection, path) }))
    }

    fn new(connection: Connection, path: &Path) -> Self {
        let (catalog, dictionaries) = (Catalog::default(), RefCell::default());
        let (file, is_frozen) = (file_id(path), false);
        let database = Database::new(connection, path);
        Self { database, file, catalog, dictionaries, is_frozen }
    }

    /// Returns whether the database must be reopened before writing or to see changes by other
    /// processes.
    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// Returns whether the path still leads to the file that was opened.
    pub(crate) fn is_there(&self) -> bool {
        self.file.is_some() && file_id(self.database.path()) == self.file
    }

    /// Lists the faults of the file; empty if the file is sound.
    pub(crate) fn faults(&self) -> Result<Vec<String>> {
        let mut faults: Vec<String> = self.database.values("PRAGMA quick_check(5)", [])?;
        faults.retain(|fault| fault != "ok");
        Ok(faults)
    }

    /// Opens the journal for writing, and creates or migrates it if needed. The caller holds the
    /// lock.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let directory = path.parent().unwrap_or(Path::new("."));
        private_directory(directory)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = connect(path, path, flags)?;
        private_file(path)?;
        migrations::migrate(&connection, path)?;
        Ok(Self::new(connection, path))
    }

    /// Limits the page cache, because the operating system caches the file too.
    pub(crate) fn hold_little(&self) {
        // A failure only means that the cache stays larger.
        let _ = self.database.execute_batch("PRAGMA cache_size = -1000; PRAGMA mmap_size = 0");
    }

    /// Releases the data that is cached for the next query.
    pub(crate) fn rest(&self) {
        self.catalog.clear();
        // The caches only save time.
        let _ = self.database.connection().release_memory();
    }

    /// Returns the generation of the last change.
    pub(crate) fn generation(&self) -> Result<i64> {
        self.meta("generation")
    }

    /// Returns a random number that identifies this journal.
    pub(crate) fn identity(&self) -> Result<i64> {
        self.meta("identity")
    }

    /// Creates a compressor for the chunks of this journal.
    fn packer(&self) -> Result<ChunkCompressor> {
        let sql = "SELECT id FROM dictionaries ORDER BY learnt DESC LIMIT 1";
        let id: Option<u32> = self.database.optional_value(sql, [])?;
        let known = id.map_or(Ok(None), |id| self.dictionary(id))?;
        Ok(ChunkCompressor::new(known))
    }

    /// Decompresses a chunk; returns `None` if it is damaged.
    fn unpack(&self, packed: &[u8]) -> Result<Option<Vec<u8>>> {
        let dictionary = self.needed(packed)?;
        Ok(compression::unpack(packed, dictionary.as_deref()))
    }

    /// Returns the dictionary that a compressed chunk requires.
    fn needed(&self, packed: &[u8]) -> Result<Option<Arc<Dictionary>>> {
        compression::needs(packed).map_or(Ok(None), |id| self.dictionary(id))
    }

    fn dictionary(&self, id: u32) -> Result<Option<Arc<Dictionary>>> {
        if let Some(known) = self.dictionaries.borrow().get(&id) {
            return Ok(Some(Arc::clone(known)));
        }
        for copy in ["bytes", "spare"] {
            let sql = format!("SELECT sum, {copy} AS bytes FROM dictionaries WHERE id = ?1");
            let found = self.database.query_row(&sql, [id], |row| {
                let dictionary = Dictionary::new(row.get("bytes")?);
                let sum: i64 = row.get("sum")?;
                Ok(dictionary.filter(|dictionary| dictionary.sum == sum))
            });
            if let Some(dictionary) = found.optional()?.flatten().map(Arc::new) {
                self.dictionaries.borrow_mut().insert(id, Arc::clone(&dictionary));
                return Ok(Some(dictionary));
            }
        }
        Ok(None)
    }

    fn meta(&self, name: &str) -> Result<i64> {
        self.database.value("SELECT value FROM meta WHERE name = ?1", [name])
    }
}

#[cfg(unix)]
fn file_id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    path.metadata().ok().map(|file| (file.dev(), file.ino()))
}

/// An open file cannot be moved on this system.
#[cfg(not(unix))]
fn file_id(path: &Path) -> Option<FileId> {
    path.exists().then_some((0, 0))
}

/// Opens a database for reading by one of its names. Returns the connection and the format.
fn begin(path: &Path, name: &Path, flags: OpenFlags) -> Result<(Connection, i64)> {
    prepare(path, connect(path, name, flags)?)
}

fn prepare(path: &Path, connection: Connection) -> Result<(Connection, i64)> {
    connection.execute_batch(MEMORY_MAP).map_err(Error::store_error(path))?;
    let format = migrations::format(&connection).map_err(Error::store_error(path))?;
    Ok((connection, format))
}

/// Opens a database without the shared files that coordinate readers and writers, because they
/// cannot be created: on a full disk, on a read-only file system, in a directory of another user.
/// While they do not exist, no process writes.
fn begin_frozen(path: &Path) -> Result<(Connection, i64)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if !fs::metadata(log).is_ok_and(|log| log.len() > 0) {
        return begin(path, Path::new(&uri::file_uri(path, "immutable=1")), flags);
    }
    // The log contains the latest changes. Without locks, and with the index of the log in the
    // memory of this process, it can be read without a shared file.
    let system = if cfg!(windows) { "vfs=win32-none" } else { "vfs=unix-none" };
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri::file_uri(path, system), flags);
    let connection = connection.map_err(Error::store_error(path))?;
    // This must come first, because other settings read the file.
    connection
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE")
        .map_err(Error::store_error(path))?;
    let kept = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    connection.set_db_config(kept, true).map_err(Error::store_error(path))?;
    prepare(path, configure(path, connection)?)
}

/// Returns whether opening failed because a file next to the journal could not be created.
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
    let connection = Connection::open_with_flags(name, flags).map_err(Error::store_error(path))?;
    configure(path, connection)
}

fn configure(path: &Path, connection: Connection) -> Result<Connection> {
    let set = "PRAGMA busy_timeout = 10000; PRAGMA synchronous = FULL; PRAGMA cache_size = -8000;
               PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = 64;";
    connection.execute_batch(set).map_err(Error::store_error(path))?;
    // Without this setting, statements are planned again for each new parameter value.
    let steady = DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG;
    connection.set_db_config(steady, true).map_err(Error::store_error(path))?;
    Ok(connection)
}

#[cfg(unix)]
fn private_file(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(Error::write_error(path))
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
            store.database.execute_batch(sql).unwrap();
            Store::open(&path).unwrap().unwrap().unpack(&body).unwrap()
        };
        assert_eq!(read("").as_ref(), Some(&run));
        let torn = "substr(bytes, 1, 2000) || zeroblob(100) || substr(bytes, 2101)";
        let damage = format!("UPDATE dictionaries SET bytes = CAST({torn} AS BLOB)");
        assert_eq!(read(&damage).as_ref(), Some(&run));
        assert_eq!(read("UPDATE dictionaries SET spare = bytes"), None);
    }
}
