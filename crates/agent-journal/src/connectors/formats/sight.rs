//! What a look at the file system saw, so that the next one can tell by looking at the same
//! things again that it would see nothing new. That is a fraction of the work: no folder is
//! listed, nothing is compared with the journal.
//!
//! Connectors look through `files`, which notes what they see on the thread that looks.

use std::cell::RefCell;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::glance::Glance;
use crate::connectors::Stamp;

/// A folder that changed this shortly before it was listed may change again within the same tick
/// of a file system's clock, in nanoseconds. Some clocks tick every two seconds.
const TICK: i64 = 2_000_000_000;

/// Fewer things than this are looked at sooner than a thread is started.
const WORTH_A_THREAD: usize = 512;

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
    /// Whether looking again would see the same.
    pub fn holds(&self) -> bool {
        let differs = AtomicBool::new(false);
        let look = |things: &[Thing]| {
            let mut glance = Glance::default();
            for thing in things {
                if differs.load(Ordering::Relaxed) {
                    return;
                }
                if !thing.is_same(&mut glance) {
                    differs.store(true, Ordering::Relaxed);
                }
            }
        };
        if self.things.len() <= WORTH_A_THREAD {
            look(&self.things);
            return !differs.into_inner();
        }
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let share = self.things.len().div_ceil(threads).max(WORTH_A_THREAD);
        let mut shares = self.things.chunks(share);
        let own = shares.next().unwrap_or_default();
        std::thread::scope(|scope| {
            for share in shares {
                scope.spawn(|| look(share));
            }
            look(own);
        });
        !differs.into_inner()
    }

    /// Whether every change after a look that began then, in nanoseconds, would be seen.
    pub fn is_settled(&self, began: i64) -> bool {
        let is_old = |thing: &Thing| match thing.saw {
            Saw::Stamped(stamp) => stamp.modified < began - TICK,
            _ => true,
        };
        self.things.iter().all(is_old)
    }

    /// Writes it down: for each thing how much of its path it shares with the one before.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.things.len() * 64);
        let mut before: &[u8] = &[];
        for thing in &self.things {
            let (tag, stamp) = match thing.saw {
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
            let path = thing.path.as_os_str().as_encoded_bytes();
            let shared = path.iter().zip(before).take_while(|(a, b)| a == b).count();
            bytes.extend_from_slice(&(shared as u32).to_le_bytes());
            bytes.extend_from_slice(&((path.len() - shared) as u32).to_le_bytes());
            bytes.extend_from_slice(&path[shared..]);
            before = path;
        }
        bytes
    }

    /// Reads what [`Sight::to_bytes`] wrote; `None` when it is anything else.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let (mut things, mut before) = (Vec::new(), Vec::new());
        while let Some((tag, rest)) = bytes.split_first() {
            bytes = rest;
            let saw = match tag {
                0 => Saw::Nothing,
                1 => Saw::Folder,
                2 => Saw::File,
                3 => Saw::Stamped(Stamp {
                    size: u64::from_le_bytes(take(&mut bytes)?),
                    modified: i64::from_le_bytes(take(&mut bytes)?),
                    inode: u64::from_le_bytes(take(&mut bytes)?),
                }),
                _ => return None,
            };
            let shared = u32::from_le_bytes(take(&mut bytes)?) as usize;
            let length = u32::from_le_bytes(take(&mut bytes)?) as usize;
            let (more, rest) = bytes.split_at_checked(length)?;
            bytes = rest;
            if shared > before.len() {
                return None;
            }
            before.truncate(shared);
            before.extend_from_slice(more);
            things.push(Thing { path: path(&before), saw });
        }
        Some(Self { things })
    }
}

impl Thing {
    fn is_same<'t>(&'t self, glance: &mut Glance<'t>) -> bool {
        let seen = glance.at(&self.path);
        match self.saw {
            Saw::Nothing => seen.is_err(),
            Saw::Stamped(before) => seen.is_ok_and(|seen| seen.stamp == before),
            Saw::Folder => seen.is_ok_and(|seen| seen.is_folder),
            Saw::File => seen.is_ok_and(|seen| !seen.is_folder),
        }
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*head)
}

#[cfg(unix)]
fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(not(unix))]
fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}
