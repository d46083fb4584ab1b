//! The errors of reading, grouped by the action that the caller can take.

use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};

/// The result type of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A cause whose type is not part of the interface.
pub type Cause = Box<dyn StdError + Send + Sync>;

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
    /// A source does not have the format that its location implies.
    #[error("could not understand {}: {what}", path.display())]
    Format {
        /// The source.
        path: PathBuf,
        /// The problem with it.
        what: String,
    },
    /// An agent's database could not be read.
    #[error("could not read the database {}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// The cause.
        source: Cause,
    },
    /// An agent changed its database during the read, so no consistent snapshot was possible.
    #[error("{} is being written by its agent; it will be read later", path.display())]
    Unsettled {
        /// The database.
        path: PathBuf,
    },
    /// The user has no home directory.
    #[error("could not find your home directory; set HOME")]
    NoHome,
    /// Data after a checkpoint changes the meaning of data before it, so the source must be read
    /// again from its beginning.
    #[error("the source must be read again from the start")]
    StartOver,
    /// The receiver of the records failed or asked to stop. A [`Sink`](crate::connectors::Sink)
    /// creates this error with [`Error::sink`].
    #[error("could not pass on a record")]
    Sink {
        /// The cause.
        source: Cause,
    },
}

impl Error {
    /// Wraps an error of a [`Sink`](crate::connectors::Sink), so that it ends the read.
    pub fn sink(source: impl Into<Cause>) -> Self {
        Self::Sink { source: source.into() }
    }

    /// Returns a function for `map_err` that reports a failed read of `path`.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }
}
