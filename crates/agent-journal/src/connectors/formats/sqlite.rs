//! The one door to other programs' SQLite databases.
//!
//! Opening a live database read-only still creates `-shm` files beside it, and `immutable=1`
//! does not see what its `-wal` holds. So a database with a `-wal` is copied, both files, into a
//! private directory and opened there; one without is opened in place as immutable.
//!
//! A copy goes when it is closed. What a killed process left is known by a lock that nobody holds,
//! and `sweep` deletes it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::files;
use crate::connectors::{Source, Stamp};
use crate::error::{Error, Result};
use crate::uri;

/// What the directories of copies are called.
const PREFIX: &str = "aj-copy-";

/// In each of them: held as long as the copy is used.
const LOCK: &str = "lock";

/// An open copy (or immutable view) of a database; what was copied goes with it.
pub struct Database {
    connection: Connection,
    path: PathBuf,
    _copy: Option<Copy>,
}

/// A private directory that is deleted when it is done with, by us or by whoever comes after.
struct Copy {
    // The lock first: where an open file cannot be deleted, it would keep its directory.
    _lock: File,
    directory: tempfile::TempDir,
}

impl Copy {
    /// Makes an empty one. The lock gets its name when it is held: nobody can find it free before.
    fn new() -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
        let draft = tempfile::NamedTempFile::new_in(directory.path())?;
        draft.as_file().lock()?;
        let lock = draft.persist(directory.path().join(LOCK)).map_err(|error| error.error)?;
        Ok(Self { _lock: lock, directory })
    }
}

/// Deletes the copies that processes left behind when they were killed. What cannot be deleted
/// stays for another time.
pub(crate) fn sweep() {
    // The directory in which `tempfile` makes the copies.
    let Ok(entries) = fs::read_dir(tempfile::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let is_copy = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if is_copy && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            drop(sweep_one(&entry.path()));
        }
    }
}

fn sweep_one(directory: &Path) -> io::Result<()> {
    let lock = OpenOptions::new().write(true).open(directory.join(LOCK))?;
    lock.try_lock()?;
    // Where an open file cannot be deleted.
    #[cfg(windows)]
    drop(lock);
    fs::remove_dir_all(directory)
}

/// Makes a source of a database, so that a change of its `-wal` counts as a change.
pub fn source(path: PathBuf) -> Option<Source> {
    let metadata = files::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let stamp = Stamp::of(&metadata).with(&beside(&path, "-wal"));
    Some(Source { path, stamp })
}

/// Opens a database of another program without leaving a trace beside it.
pub fn open(path: &Path) -> Result<Database> {
    let wal = beside(path, "-wal");
    let has_wal = fs::metadata(&wal).is_ok_and(|metadata| metadata.len() > 0);
    if !has_wal {
        let connection = connect(path, "immutable=1").map_err(database(path))?;
        return Database { connection, path: path.to_owned(), _copy: None }.checked();
    }
    let copy = Copy::new().map_err(Error::read(path))?;
    let copied = copy.directory.path().join("copy.db");
    fs::copy(path, &copied).map_err(Error::read(path))?;
    fs::copy(&wal, beside(&copied, "-wal")).map_err(Error::read(&wal))?;
    let connection = connect(&copied, "mode=rw").map_err(database(path))?;
    Database { connection, path: path.to_owned(), _copy: Some(copy) }.checked()
}

impl Database {
    /// SQLite opens anything; only the first look tells whether it is a database.
    fn checked(self) -> Result<Self> {
        let look = self.connection.query_row("PRAGMA schema_version", [], |_| Ok(()));
        look.map_err(database(&self.path))?;
        Ok(self)
    }

    /// Runs one query and hands every row to `row`; a row that cannot be read is passed over by
    /// returning `Ok` from `row`.
    pub fn each(
        &self,
        sql: &str,
        mut row: impl FnMut(&rusqlite::Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut statement = self.connection.prepare(sql).map_err(database(&self.path))?;
        let mut rows = statement.query([]).map_err(database(&self.path))?;
        while let Some(next) = rows.next().map_err(database(&self.path))? {
            row(next)?;
        }
        Ok(())
    }

    /// Lists the columns of a table; none when there is no such table.
    pub fn columns(&self, table: &str) -> Vec<String> {
        let mut names = Vec::new();
        let sql = format!("SELECT name FROM pragma_table_info('{}')", table.replace('\'', "''"));
        // A database that cannot even tell its columns has none for us.
        let _ = self.each(&sql, |row| {
            names.extend(row.get::<_, String>(0));
            Ok(())
        });
        names
    }

    /// Where the original lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The connection, for queries with parameters.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// Says that reading the database at `path` failed, for `map_err`.
pub fn database(path: &Path) -> impl FnOnce(rusqlite::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Database { path, source }
}

fn connect(path: &Path, mode: &str) -> rusqlite::Result<Connection> {
    let flags = if mode == "mode=rw" {
        OpenFlags::SQLITE_OPEN_READ_WRITE
    } else {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    };
    Connection::open_with_flags(
        uri::of(path, mode),
        flags | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(directory: &Path) -> Vec<(String, Vec<u8>)> {
        let mut all: Vec<(String, Vec<u8>)> = fs::read_dir(directory)
            .unwrap()
            .flatten()
            .map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                (name, fs::read(entry.path()).unwrap())
            })
            .collect();
        all.sort();
        all
    }

    #[test]
    fn rows_that_are_only_in_the_wal_are_read_and_nothing_is_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a #1?.db");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let writer = Connection::open_with_flags(&path, flags).unwrap();
        writer
            .execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(x); INSERT INTO t VALUES (7);")
            .unwrap();
        let before = listing(directory.path());
        assert!(before.iter().any(|(name, _)| name.ends_with("-wal")));

        let mut values: Vec<i64> = Vec::new();
        open(&path)
            .unwrap()
            .each("SELECT x FROM t", |row| {
                values.extend(row.get::<_, i64>(0));
                Ok(())
            })
            .unwrap();
        assert_eq!(values, [7]);
        assert_eq!(listing(directory.path()), before);
    }

    #[test]
    fn copies_of_the_dead_are_swept_and_those_of_the_living_stay() {
        let dead = Copy::new().unwrap();
        let living = Copy::new().unwrap();
        let unlocked = tempfile::Builder::new().prefix(PREFIX).tempdir().unwrap();
        // As a kill leaves it: the lock is free and the directory is there.
        let Copy { _lock: lock, directory } = dead;
        let dead = directory.keep();
        fs::copy(dead.join(LOCK), dead.join("copy.db")).unwrap();
        drop(lock);
        sweep();
        assert!(!dead.exists());
        assert!(living.directory.path().join(LOCK).exists());
        assert!(unlocked.path().exists(), "one that is being made");
        let left = living.directory.path().to_owned();
        drop(living);
        assert!(!left.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_name_that_is_not_utf_8_is_opened_in_place() {
        use std::os::unix::ffi::OsStrExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9 \xff%.db"));
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        Connection::open_with_flags(&path, flags)
            .unwrap()
            .execute_batch("CREATE TABLE t(x)")
            .unwrap();
        assert_eq!(open(&path).unwrap().columns("t"), ["x"]);
    }

    #[test]
    fn what_is_no_database_is_an_error_not_an_empty_one() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"plain text, and a good deal of it").unwrap();
        assert!(matches!(open(file.path()), Err(Error::Database { .. })));
    }
}
