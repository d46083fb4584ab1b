//! What can go wrong, by what the caller can do about it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the library. The cause is the `source`, never part of the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory could not be read.
    #[error("could not read {}", path.display())]
    Read {
        /// What was read.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A file or directory of the journal could not be written.
    #[error("could not write {}", path.display())]
    Write {
        /// What was written.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A source is not what its place promises.
    #[error("could not understand {}: {what}", path.display())]
    Format {
        /// The source.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Another program's database could not be read.
    #[error("could not read the database {}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// Why it failed.
        source: rusqlite::Error,
    },
    /// Another program's database is being changed, and could not be read at one moment.
    #[error("{} is being written by its agent; it will be read later", path.display())]
    Unsettled {
        /// The database.
        path: PathBuf,
    },
    /// The journal's own database failed.
    #[error("could not use the journal {}", path.display())]
    Store {
        /// The journal.
        path: PathBuf,
        /// Why it failed.
        source: rusqlite::Error,
    },
    /// The journal's own database is damaged.
    #[error("the journal {} is damaged", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Why it failed.
        source: rusqlite::Error,
    },
    /// The disk has no room for the journal.
    #[error("no space left for {}", path.display())]
    Full {
        /// What could not grow.
        path: PathBuf,
    },
    /// The journal was written by a newer program.
    #[error("the journal {} has format {found}, this program knows up to {known}", path.display())]
    Newer {
        /// The journal.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest version this program knows.
        known: i64,
    },
    /// Another process is writing the journal.
    #[error("another process is writing the journal {}", path.display())]
    Busy {
        /// The lock file.
        path: PathBuf,
    },
    /// The index of words failed.
    #[error("could not use the index {}", path.display())]
    Index {
        /// The index directory.
        path: PathBuf,
        /// Why it failed.
        source: tantivy::TantivyError,
    },
    /// No session has this id.
    #[error("no session `{id}`")]
    UnknownSession {
        /// What was asked for.
        id: String,
    },
    /// Several sessions begin with this id.
    #[error("`{id}` could be any of {count} sessions")]
    AmbiguousSession {
        /// What was asked for.
        id: String,
        /// How many sessions fit.
        count: u64,
        /// Full ids and titles of the first of them.
        candidates: Vec<(String, String)>,
    },
    /// What leaves the journal could not be written.
    #[error("could not write the export")]
    Export {
        /// Why it failed.
        source: io::Error,
    },
    /// A file is no export that this program can read.
    #[error("could not import {}: {what}", path.display())]
    Import {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The query could not be understood.
    #[error("{message}")]
    Query {
        /// What is wrong, and where.
        message: String,
    },
    /// What follows a checkpoint changes what was read before it: the source must be read from its
    /// beginning.
    #[error("the source must be read from its beginning")]
    StartOver,
    /// A consumer of the library asked to stop.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// Says that reading `path` failed, for `map_err`.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    /// Says that writing `path` failed, for `map_err`.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            let path = path.to_owned();
            if is_full(&source) { Self::Full { path } } else { Self::Write { path, source } }
        }
    }

    /// Whether it failed because the journal may be read and not written.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Write { source, .. } if is_refused(source))
    }

    /// Returns whether waiting or another try cannot help: the user has to do something first.
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::Newer { .. } | Self::Damaged { .. })
    }

    /// Says that the journal at `path` failed, for `map_err`.
    pub(crate) fn store(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseCorrupt, DiskFull, NotADatabase, SystemIoFailure,
        };
        move |source| {
            let path = path.to_owned();
            let extended = source.sqlite_error().map(|error| error.extended_code);
            match source.sqlite_error_code() {
                Some(DatabaseCorrupt | NotADatabase) => Self::Damaged { path, source },
                Some(DiskFull) => Self::Full { path },
                // The file that readers and writers share cannot grow.
                _ if extended == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE) => Self::Full { path },
                // The system knows better than SQLite why.
                Some(CannotOpen) => match std::fs::File::open(&path) {
                    Err(source) => Self::Read { path, source },
                    Ok(_) => match try_to_write_beside(&path) {
                        Err(cause) => Self::write(&path)(cause),
                        Ok(()) => Self::Store { path, source },
                    },
                },
                // SQLite knows a full disk, and no quota.
                Some(SystemIoFailure)
                    if try_to_write_beside(&path).is_err_and(|cause| is_full(&cause)) =>
                {
                    Self::Full { path }
                }
                _ => Self::Store { path, source },
            }
        }
    }

    /// Says that the index at `path` failed, for `map_err`.
    pub(crate) fn index(path: &Path) -> impl FnOnce(tantivy::TantivyError) -> Self {
        move |source| match source {
            tantivy::TantivyError::IoError(cause) if is_full(&cause) => {
                Self::Full { path: path.to_owned() }
            }
            source => Self::Index { path: path.to_owned(), source },
        }
    }
}

/// Returns whether the disk, or the user's share of it, is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Writes a temporary file beside another one, to learn why the system refuses.
fn try_to_write_beside(path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    tempfile::tempfile_in(directory)?.write_all(&[0; 8192])
}

/// Whether the system does not let somebody write.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
