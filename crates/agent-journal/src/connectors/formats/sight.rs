//! What a look at the file system saw, so that the next one can tell by looking at the same
//! things again that it would see nothing new. That is a fraction of the work: no folder is
//! listed, nothing is compared with the journal.
//!
//! Connectors look through `files`, which notes what they see on the thread that looks.

use std::cell::RefCell;
use std::fs::Metadata;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::glance::{Glance, Glimpse};
use crate::connectors::Stamp;
use crate::helper::Pieces;

/// A folder that changed this shortly before it was listed may change again within the same tick
/// of a file system's clock, in nanoseconds. Some clocks tick every two seconds.
const TICK: i64 = 2_000_000_000;

/// Things that are looked at by one thread, one after the other.
const BLOCK: usize = 128;

thread_local! {
    static NOTES: RefCell<Option<Vec<Thing>>> = const { RefCell::new(None) };
}

/// Everything a look saw.
#[derive(Debug, Default, PartialEq)]
pub struct Sight {
    things: Vec<Thing>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq)]
struct Thing {
    path: PathBuf,
    saw: Saw,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Saw {
    /// Nothing, or nothing that may be looked at.
    Nothing,
    /// A file; or a folder whose own change counts, such as one that was listed.
    Stamped(Stamp),
    /// A folder or a file, whatever its state.
    Folder,
    File,
}

/// Runs a look, and tells what it saw beside what it found.
pub fn watch<T>(look: impl FnOnce() -> T) -> (T, Sight) {
    let before = NOTES.replace(Some(Vec::new()));
    let found = look();
    let things = NOTES.replace(before).unwrap_or_default();
    (found, Sight { things })
}

/// Whether a look on this thread is being watched.
pub fn is_watched() -> bool {
    NOTES.with_borrow(Option::is_some)
}

/// Notes what was seen on another thread that took part in the look.
pub fn join(other: &Sight) {
    NOTES.with_borrow_mut(|notes| {
        if let Some(notes) = notes {
            notes.extend_from_slice(&other.things);
        }
    });
}

/// Notes how something looked, for which its state counts.
pub(super) fn note(path: &Path, seen: &io::Result<Metadata>) {
    add(path, || seen.as_ref().map_or(Saw::Nothing, |metadata| Saw::Stamped(Stamp::of(metadata))));
}

/// Notes of which kind something was.
pub(super) fn note_kind(path: &Path, seen: &io::Result<Metadata>) {
    add(path, || kind(seen));
}

fn kind(seen: &io::Result<Metadata>) -> Saw {
    match seen {
        Err(_) => Saw::Nothing,
        Ok(metadata) if metadata.is_dir() => Saw::Folder,
        Ok(_) => Saw::File,
    }
}

fn add(path: &Path, saw: impl FnOnce() -> Saw) {
    NOTES.with_borrow_mut(|notes| {
        if let Some(notes) = notes {
            notes.push(Thing { path: path.to_owned(), saw: saw() });
        }
    });
}

impl Sight {
    /// Whether every change after a look that began then, in nanoseconds, would be seen.
    pub fn is_settled(&self, began: i64) -> bool {
        let is_old = |thing: &Thing| match thing.saw {
            Saw::Stamped(stamp) => stamp.modified < began - TICK,
            _ => true,
        };
        self.things.iter().all(is_old)
    }

    /// Writes it down, in blocks that can be read without each other.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.things.len() * 64);
        for things in self.things.chunks(BLOCK) {
            let start = bytes.len();
            bytes.extend_from_slice(&[0; 4]);
            let mut before: &[u8] = &[];
            for thing in things {
                before = thing.write(before, &mut bytes);
            }
            let length = (bytes.len() - start - 4) as u32;
            bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
        }
        bytes
    }
}

impl Thing {
    /// Writes down how much of its path it shares with the one before, and the rest.
    fn write(&self, before: &[u8], bytes: &mut Vec<u8>) -> &[u8] {
        let (tag, stamp) = match self.saw {
            Saw::Nothing => (0, None),
            Saw::Folder => (1, None),
            Saw::File => (2, None),
            Saw::Stamped(stamp) => (3, Some(stamp)),
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

/// What was written down of an earlier look, being compared with what is there now. Any number of
/// threads may take part.
#[derive(Debug, Default)]
pub struct Comparison {
    bytes: Vec<u8>,
    /// Where the blocks are.
    blocks: Vec<Range<usize>>,
    pieces: Pieces,
    differs: AtomicBool,
}

impl Comparison {
    /// Begins to compare what [`Sight::to_bytes`] wrote, which is there from a place on; `None`
    /// when it is anything else.
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

    /// Compares a little more; false when nothing is left to compare, or something is not as it
    /// was.
    pub fn step(&self) -> bool {
        self.pieces.take(|at| {
            if is_same(&self.bytes[self.blocks[at].clone()]) != Some(true) {
                self.differs.store(true, Ordering::Relaxed);
                self.pieces.stop();
            }
        })
    }

    /// Whether nothing is left to compare.
    pub fn is_done(&self) -> bool {
        self.pieces.are_done()
    }

    /// Whether something was seen that is not as it was.
    pub fn differs(&self) -> bool {
        self.differs.load(Ordering::Relaxed)
    }

    /// Whether looking again sees the same; waits for everybody who takes part.
    pub fn holds(&self) -> bool {
        while self.step() {}
        self.pieces.wait();
        !self.differs()
    }
}

/// Whether everything of a block looks the same; `None` when it cannot be read.
fn is_same(bytes: &[u8]) -> Option<bool> {
    let mut glance = Glance::below(&common(bytes)?);
    let (mut rest, mut path) = (bytes, Vec::with_capacity(256));
    while !rest.is_empty() {
        let written = Written::next(&mut rest)?;
        written.lead(&mut path)?;
        if !written.saw.again(glance.at(&path)) {
            return Some(false);
        }
    }
    Some(true)
}

/// The folder that everything of a block is below; `None` when it cannot be read.
fn common(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut rest, mut path) = (bytes, Vec::new());
    Written::next(&mut rest)?.lead(&mut path)?;
    while !rest.is_empty() {
        path.truncate(Written::next(&mut rest)?.shared);
    }
    path.truncate(path.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
    Some(path)
}

/// A thing as it was written down.
struct Written<'b> {
    saw: Saw,
    /// How much of its path is that of the one before, and the rest of it.
    shared: usize,
    more: &'b [u8],
}

impl<'b> Written<'b> {
    /// Reads the next one; `None` when it cannot be read.
    fn next(bytes: &mut &'b [u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        *bytes = rest;
        let saw = match tag {
            0 => Saw::Nothing,
            1 => Saw::Folder,
            2 => Saw::File,
            3 => Saw::Stamped(Stamp {
                size: u64::from_le_bytes(take(bytes)?),
                modified: i64::from_le_bytes(take(bytes)?),
                inode: u64::from_le_bytes(take(bytes)?),
            }),
            _ => return None,
        };
        let shared = u32::from_le_bytes(take(bytes)?) as usize;
        let length = u32::from_le_bytes(take(bytes)?) as usize;
        let more = bytes.split_off(..length)?;
        Some(Self { saw, shared, more })
    }

    /// Leads from the path of the one before to its own.
    fn lead(&self, path: &mut Vec<u8>) -> Option<()> {
        if self.shared > path.len() {
            return None;
        }
        path.truncate(self.shared);
        path.extend_from_slice(self.more);
        Some(())
    }
}

impl Saw {
    fn again(self, seen: io::Result<Glimpse>) -> bool {
        match self {
            Self::Nothing => seen.is_err(),
            Self::Stamped(before) => seen.is_ok_and(|seen| seen.stamp == before),
            Self::Folder => seen.is_ok_and(|seen| seen.is_folder),
            Self::File => seen.is_ok_and(|seen| !seen.is_folder),
        }
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*head)
}
