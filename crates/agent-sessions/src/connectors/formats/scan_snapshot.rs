//! Snapshot of the file system as a scan observed it. If all paths are unchanged, the next scan
//! would find nothing new and is skipped. The check is a fraction of the work: it lists no
//! directories and compares nothing with the journal.
//!
//! Connectors access the file system through `files`, which records the observations of the current
//! thread.

use std::cell::RefCell;
use std::fs::Metadata;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::dir_stat::{DirectoryStat, FileState};
use super::pieces::Pieces;
use crate::connectors::Stamp;

/// Clock tick of a file system in nanoseconds. A directory modified within one tick before it was
/// listed may change again without a new modification time. Some clocks tick every two seconds.
const TICK: i64 = 2_000_000_000;

/// Number of paths that one thread checks in a row.
const BLOCK: usize = 128;

thread_local! {
    static NOTES: RefCell<Option<Vec<ObservedPath>>> = const { RefCell::new(None) };
}

/// All paths that a scan observed.
#[derive(Debug, Default, PartialEq)]
pub struct ScanSnapshot {
    things: Vec<ObservedPath>,
}

/// A path and its observed state.
#[derive(Clone, Debug, PartialEq)]
struct ObservedPath {
    path: PathBuf,
    saw: ObservedState,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ObservedState {
    /// The path does not exist or is not accessible.
    Nothing,
    /// A file, or a directory whose own modification matters, such as one that was listed.
    Stamped(Stamp),
    /// A directory or a file, regardless of its state.
    Folder,
    File,
}

/// Runs a scan and returns its result together with the snapshot of the observed paths.
pub fn observe_scan<T>(look: impl FnOnce() -> T) -> (T, ScanSnapshot) {
    let before = NOTES.replace(Some(Vec::new()));
    let found = look();
    let things = NOTES.replace(before).unwrap_or_default();
    (found, ScanSnapshot { things })
}

/// Returns whether a scan on this thread is being captured.
pub fn is_watched() -> bool {
    NOTES.with_borrow(Option::is_some)
}

/// Adds the paths that another thread of the same scan observed.
pub fn merge_snapshot(other: &ScanSnapshot) {
    NOTES.with_borrow_mut(|notes| {
        if let Some(notes) = notes {
            notes.extend_from_slice(&other.things);
        }
    });
}

/// Records the state of a path whose modification matters.
pub(super) fn note_path_state(path: &Path, seen: &io::Result<Metadata>) {
    add_observation(path, || {
        seen.as_ref().map_or(ObservedState::Nothing, |metadata| {
            ObservedState::Stamped(Stamp::from_metadata(metadata))
        })
    });
}

/// Records whether a path is a file or a directory.
pub(super) fn note_kind(path: &Path, seen: &io::Result<Metadata>) {
    add_observation(path, || observed_kind(seen));
}

fn observed_kind(seen: &io::Result<Metadata>) -> ObservedState {
    match seen {
        Err(_) => ObservedState::Nothing,
        Ok(metadata) if metadata.is_dir() => ObservedState::Folder,
        Ok(_) => ObservedState::File,
    }
}

fn add_observation(path: &Path, saw: impl FnOnce() -> ObservedState) {
    NOTES.with_borrow_mut(|notes| {
        if let Some(notes) = notes {
            notes.push(ObservedPath { path: path.to_owned(), saw: saw() });
        }
    });
}

impl ScanSnapshot {
    /// Returns whether every change after `began` (nanoseconds since 1970) changes a modification
    /// time.
    pub fn is_settled(&self, began: i64) -> bool {
        let is_old = |thing: &ObservedPath| match thing.saw {
            ObservedState::Stamped(stamp) => stamp.modified < began - TICK,
            _ => true,
        };
        self.things.iter().all(is_old)
    }

    /// Encodes the snapshot, in blocks that can be decoded independently.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.things.len() * 64);
        for things in self.things.chunks(BLOCK) {
            let start = bytes.len();
            bytes.extend_from_slice(&[0; 4]);
            let mut before: &[u8] = &[];
            for thing in things {
                before = thing.encode_path(before, &mut bytes);
            }
            let length = (bytes.len() - start - 4) as u32;
            bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
        }
        bytes
    }
}

impl ObservedPath {
    /// Encodes the path as the length of the prefix shared with the previous path, and the
    /// remainder.
    fn encode_path(&self, before: &[u8], bytes: &mut Vec<u8>) -> &[u8] {
        let (tag, stamp) = match self.saw {
            ObservedState::Nothing => (0, None),
            ObservedState::Folder => (1, None),
            ObservedState::File => (2, None),
            ObservedState::Stamped(stamp) => (3, Some(stamp)),
        };
        bytes.push(tag);
        if let Some(stamp) = stamp {
            bytes.extend_from_slice(&stamp.size.to_le_bytes());
            bytes.extend_from_slice(&stamp.modified.to_le_bytes());
            bytes.extend_from_slice(&stamp.inode.to_le_bytes());
        }
        let path = self.path.as_os_str().as_encoded_bytes();
        let shared = path.iter().zip(before).take_while(|(a, b)| a == b).count();
        bytes.extend_from_slice(&(shared as u32).to_le_bytes());
        bytes.extend_from_slice(&((path.len() - shared) as u32).to_le_bytes());
        bytes.extend_from_slice(&path[shared..]);
        path
    }
}

/// A comparison of an earlier snapshot with the current file system. Any number of threads may work
/// on it.
#[derive(Debug, Default)]
pub struct Comparison {
    bytes: Vec<u8>,
    /// Byte ranges of the blocks in `bytes`.
    blocks: Vec<Range<usize>>,
    pieces: Pieces,
    differs: AtomicBool,
}

impl Comparison {
    /// Starts a comparison with the output of [`ScanSnapshot::to_bytes`], which begins at `from`.
    /// `None` when the bytes have another format.
    pub fn new(bytes: Vec<u8>, from: usize) -> Option<Self> {
        let (mut blocks, mut at) = (Vec::new(), from);
        while at < bytes.len() {
            let length =
                bytes.get(at..)?.first_chunk().map(|length| u32::from_le_bytes(*length))?;
            let block = at + 4..(at + 4).checked_add(length as usize)?;
            at = block.end;
            blocks.push(block);
        }
        let pieces = Pieces::new(blocks.len());
        (at == bytes.len()).then(|| Self { bytes, blocks, pieces, ..Self::default() })
    }

    /// Compares the next block. Returns `false` when no block is left, or a difference was found.
    pub fn compare_next_block(&self) -> bool {
        self.pieces.take(|at| {
            if is_block_unchanged(&self.bytes[self.blocks[at].clone()]) != Some(true) {
                self.differs.store(true, Ordering::Relaxed);
                self.pieces.stop();
            }
        })
    }

    /// Returns whether no block is left to compare.
    pub fn is_exhausted(&self) -> bool {
        self.pieces.are_done()
    }

    /// Returns whether a difference was found.
    pub fn found_difference(&self) -> bool {
        self.differs.load(Ordering::Relaxed)
    }

    /// Compares all remaining blocks and waits for the other threads. Returns whether nothing
    /// differs.
    pub fn finish_comparison(&self) -> bool {
        while self.compare_next_block() {}
        self.pieces.wait();
        !self.found_difference()
    }
}

/// Returns whether all paths of a block are unchanged. `None` when the block cannot be decoded.
fn is_block_unchanged(bytes: &[u8]) -> Option<bool> {
    let mut glance = DirectoryStat::below_directory(&common_directory(bytes)?);
    let (mut rest, mut path) = (bytes, Vec::with_capacity(256));
    while !rest.is_empty() {
        let written = Written::decode_next_path(&mut rest)?;
        written.expand_path(&mut path)?;
        if !written.saw.matches_current_state(glance.stat_path(&path)) {
            return Some(false);
        }
    }
    Some(true)
}

/// Returns the directory that contains all paths of a block. `None` when the block cannot be
/// decoded.
fn common_directory(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut rest, mut path) = (bytes, Vec::new());
    Written::decode_next_path(&mut rest)?.expand_path(&mut path)?;
    while !rest.is_empty() {
        path.truncate(Written::decode_next_path(&mut rest)?.shared);
    }
    path.truncate(path.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
    Some(path)
}

/// An encoded path with its observation.
struct Written<'b> {
    saw: ObservedState,
    /// Length of the prefix shared with the previous path, and the remainder.
    shared: usize,
    more: &'b [u8],
}

impl<'b> Written<'b> {
    /// Decodes the next path. `None` when the bytes are invalid.
    fn decode_next_path(bytes: &mut &'b [u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        *bytes = rest;
        let saw = match tag {
            0 => ObservedState::Nothing,
            1 => ObservedState::Folder,
            2 => ObservedState::File,
            3 => ObservedState::Stamped(Stamp {
                size: u64::from_le_bytes(take_bytes(bytes)?),
                modified: i64::from_le_bytes(take_bytes(bytes)?),
                inode: u64::from_le_bytes(take_bytes(bytes)?),
            }),
            _ => return None,
        };
        let shared = u32::from_le_bytes(take_bytes(bytes)?) as usize;
        let length = u32::from_le_bytes(take_bytes(bytes)?) as usize;
        let more = bytes.split_off(..length)?;
        Some(Self { saw, shared, more })
    }

    /// Turns the previous path into this one.
    fn expand_path(&self, path: &mut Vec<u8>) -> Option<()> {
        if self.shared > path.len() {
            return None;
        }
        path.truncate(self.shared);
        path.extend_from_slice(self.more);
        Some(())
    }
}

impl ObservedState {
    fn matches_current_state(self, seen: io::Result<FileState>) -> bool {
        match self {
            Self::Nothing => seen.is_err(),
            Self::Stamped(before) => seen.is_ok_and(|seen| seen.stamp == before),
            Self::Folder => seen.is_ok_and(|seen| seen.is_folder),
            Self::File => seen.is_ok_and(|seen| !seen.is_folder),
        }
    }
}

fn take_bytes<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*head)
}
