//! The errors of the library, grouped by the action that the caller can take.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agent_sessions::Cause;

/// The result type of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the library. The cause is returned by `source` and is never part of the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory could not be read.
    #[error("could not read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file or directory of the journal could not be written.
    #[error("could not write {}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A source does not have the format that its location implies.
    #[error("could not parse {}: {what}", path.display())]
    Format {
        /// The source.
        path: PathBuf,
        /// The problem with it.
        what: String,
    },
    /// Another program's database could not be read.
    #[error("could not read the database {}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// The cause.
        source: Cause,
    },
    /// Another program changed its database during the read, so no consistent snapshot was
    /// possible.
    #[error("{} is being written by its agent; it will be read later", path.display())]
    Unsettled {
        /// The database.
        path: PathBuf,
    },
    /// The journal's own database failed.
    #[error("could not use the journal {}", path.display())]
    Store {
        /// Path of the journal.
        path: PathBuf,
        /// The cause.
        source: rusqlite::Error,
    },
    /// The journal's own database is damaged.
    #[error("the journal {} is damaged", path.display())]
    Damaged {
        /// Path of the journal.
        path: PathBuf,
        /// The cause.
        source: rusqlite::Error,
    },
    /// The disk has no space left for the journal.
    #[error("no space left for {}", path.display())]
    Full {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// A newer version of the program wrote the journal.
    #[error("the journal {} has format {found}; this version supports formats up to {known}", path.display())]
    Newer {
        /// Path of the journal.
        path: PathBuf,
        /// The format version of the journal.
        found: i64,
        /// The newest format version that this program supports.
        known: i64,
    },
    /// Another process is writing the journal.
    #[error("another process is writing the journal {}", path.display())]
    Busy {
        /// The lock file.
        path: PathBuf,
    },
    /// The lexical index failed.
    #[error("could not use the index {}", path.display())]
    Index {
        /// The index directory.
        path: PathBuf,
        /// The cause.
        source: tantivy::TantivyError,
    },
    /// The user has no home directory.
    #[error("could not find your home directory; set HOME")]
    NoHome,
    /// No session has this id.
    #[error("no session `{id}`")]
    UnknownSession {
        /// The requested id.
        id: String,
    },
    /// Several sessions begin with this id.
    #[error("`{id}` matches {count} sessions; type more of the id")]
    AmbiguousSession {
        /// The requested id or prefix.
        id: String,
        /// Number of matching sessions.
        count: u64,
        /// Full ids and titles of the first matching sessions.
        candidates: Vec<(String, String)>,
    },
    /// An export could not be written.
    #[error("could not write the export")]
    Export {
        /// The cause.
        source: io::Error,
    },
    /// A file is not an export that this program can read.
    #[error("could not import {}: {what}", path.display())]
    Import {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        what: String,
    },
    /// The query is invalid.
    #[error("{message}")]
    Query {
        /// A description of the problem and its position.
        message: String,
    },
    /// Data after a checkpoint changes the meaning of data before it, so the source must be read
    /// again from its beginning.
    #[error("the source must be read again from the start")]
    StartOver,
    /// The caller asked the library to stop.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// Returns a function for `map_err` that reports a failed read of `path`.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    /// Returns a function for `map_err` that reports a failed write of `path`.
    pub(crate) fn write_error(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            let path = path.to_owned();
            if is_disk_full(&source) { Self::Full { path } } else { Self::Write { path, source } }
        }
    }

    /// Returns the message, followed by the messages of its causes, in one line.
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(inner) = cause {
            let reason = inner.to_string().replace('\n', " ");
            if !text.ends_with(&reason) {
                text = format!("{text}: {reason}");
            }
            cause = inner.source();
        }
        text
    }

    /// Returns whether the journal can be read but not written.
    pub fn is_write_refused(&self) -> bool {
        matches!(self, Self::Write { source, .. } if is_access_refused(source))
    }

    /// Returns whether a retry cannot succeed until the user acts.
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::Newer { .. } | Self::Damaged { .. })
    }

    /// Returns a function for `map_err` that reports a failure of the journal at `path`.
    pub(crate) fn store_error(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseCorrupt, DiskFull, NotADatabase, SystemIoFailure,
        };
        move |source| {
            let path = path.to_owned();
            let extended = source.sqlite_error().map(|error| error.extended_code);
            match source.sqlite_error_code() {
                Some(DatabaseCorrupt | NotADatabase) => Self::Damaged { path, source },
                Some(DiskFull) => Self::Full { path },
                // The shared-memory file cannot grow.
                _ if extended == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE) => Self::Full { path },
                // The operating system reports the reason more exactly than SQLite.
                Some(CannotOpen) => match std::fs::File::open(&path) {
                    Err(source) => Self::Read { path, source },
                    Ok(_) => match try_to_write_beside(&path) {
                        Err(cause) => Self::write_error(&path)(cause),
                        Ok(()) => Self::Store { path, source },
                    },
                },
                // SQLite recognises a full disk, but not an exceeded quota.
                Some(SystemIoFailure)
                    if try_to_write_beside(&path).is_err_and(|cause| is_disk_full(&cause)) =>
                {
                    Self::Full { path }
                }
                _ => Self::Store { path, source },
            }
        }
    }

    /// Returns a function for `map_err` that reports a failure of the index at `path`.
    pub(crate) fn index_error(path: &Path) -> impl FnOnce(tantivy::TantivyError) -> Self {
        move |source| match source {
            tantivy::TantivyError::IoError(cause) if is_disk_full(&cause) => {
                Self::Full { path: path.to_owned() }
            }
            source => Self::Index { path: path.to_owned(), source },
        }
    }
}

impl From<agent_sessions::Error> for Error {
    fn from(error: agent_sessions::Error) -> Self {
        use agent_sessions::Error as Reading;
        match error {
            Reading::Read { path, source } => Self::Read { path, source },
            Reading::Format { path, what } => Self::Format { path, what },
            Reading::Database { path, source } => Self::Database { path, source },
            Reading::Unsettled { path } => Self::Unsettled { path },
            Reading::NoHome => Self::NoHome,
            Reading::StartOver => Self::StartOver,
            // The journal's own sinks fail with the journal's errors.
            Reading::Sink { source } => source.downcast().map_or(Self::Stopped, |own| *own),
            _ => Self::Stopped,
        }
    }
}

impl From<Error> for agent_sessions::Error {
    fn from(error: Error) -> Self {
        Self::sink(error)
    }
}

/// Returns whether the disk is full or the user's quota is exceeded.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Writes a temporary file into the directory of `path` to obtain the system's error.
fn try_to_write_beside(path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    tempfile::tempfile_in(directory)?.write_all(&[0; 8192])
}

/// Returns whether the system denies write access.
pub(crate) fn is_access_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
