//! Where sessions come from, and how far that has been read.

use std::path::PathBuf;

/// One file (or database, or directory) that holds sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file that grows.
    pub path: PathBuf,
    /// What tells that it changed.
    pub stamp: Stamp,
}

/// A cheap sign of change: as long as it is equal, a source is not opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification, in nanoseconds since 1970.
    pub modified: i64,
    /// Which file it is.
    pub inode: u64,
}

/// How far a source has been read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Where to go on, in bytes; 0 reads everything again.
    pub offset: u64,
    /// Hash of the bytes before the offset: another history there means reading again.
    pub guard: u64,
    /// How many messages lie before the offset, of the session that the next read tells first.
    /// Its later messages are told again; other sessions of the source stay as they were told.
    pub messages: u64,
    /// What the connector must remember of the bytes before the offset.
    pub state: Vec<u8>,
    /// Where the source ended when it was read: what lies between the offset and there was told,
    /// and is told again.
    pub seen_to: u64,
    /// Hash of the bytes behind the offset and of those before that end: another text there means
    /// reading everything again.
    pub seen_guard: u64,
}
