//! The sources of sessions, and the progress of reading them.

use std::path::PathBuf;

/// One file (or database, or directory) that holds sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Path of the file that the agent extends.
    pub path: PathBuf,
    /// State by which a change of the source is detected.
    pub stamp: Stamp,
}

/// A cheap indicator of change: as long as it is equal, a source is not opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification, in nanoseconds since 1970.
    pub modified: i64,
    /// Inode number, which identifies the file.
    pub inode: u64,
}

/// The position up to which a source has been read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Offset in bytes from which to continue; 0 reads everything again.
    pub offset: u64,
    /// Hash of the bytes before the offset: if they changed, everything is read again.
    pub guard: u64,
    /// Number of messages before the offset, of the session that the next read emits first. Its
    /// later messages are emitted again; other sessions of the source stay as they were emitted.
    pub messages: u64,
    /// State that the connector needs from the bytes before the offset.
    pub state: Vec<u8>,
    /// End of the source in bytes when it was read. The part between the offset and this end was
    /// emitted, and is emitted again.
    pub seen_to: u64,
    /// Hash of the bytes after the offset and of those before that end: if they changed, everything
    /// is read again.
    pub seen_guard: u64,
}
