//! A database of another program at one moment, read where it lies: the file, with the pages that
//! its write-ahead log replaces.
//!
//! No lock is taken, nothing is copied and nothing is written, so the program that owns the
//! database never waits. It may write at any time instead. After pages were read, [`Snapshot::holds`]
//! says whether all of them belong to the moment at which the snapshot was taken. What was read is
//! used only when it does. Why that is certain:
//!
//! - With a log, the file changes only when committed frames of the log are copied into it. As long
//!   as nothing was appended to the log, these are frames that the snapshot reads from the log
//!   itself. As long as the file was not modified, nothing was copied. One of the two is enough.
//!   Frames are overwritten only after the log's header got another salt.
//! - Without a log, a writer makes a rollback journal before it changes the file, changes the
//!   counter in the file's header, and deletes the journal last.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use super::wal::WalIndex;
use crate::connectors::Stamp;

/// A file that was modified less than this before it was looked at may be modified again without
/// another time of modification: clocks of file systems tick every 4 to 16 ms.
const CLOCK_TICK: Duration = Duration::from_millis(50);

/// The same where times are kept in whole seconds.
const COARSE_CLOCK_TICK: Duration = Duration::from_secs(3);

/// A rollback journal that nobody touched for this long was left by a program that ended in the
/// middle of a transaction.
const ABANDONED: Duration = Duration::from_mins(1);

/// What a rollback journal begins with while it is valid.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// A database of at most this size is read into memory at once: then only that moment counts, and
/// a program that writes without pause cannot get in the way later.
const MAX_IMAGE_BYTES: u64 = 8 << 20;

/// Size of the header of a database.
const HEADER_BYTES: usize = 100;

/// Where the header has the size of pages, the versions that say whether there may be a log, and
/// the counter of changes.
const PAGE_SIZE_AT: usize = 16;
const VERSIONS_AT: usize = 18;
const COUNTER_AT: u64 = 24;

/// A database at one moment.
pub(super) struct Snapshot {
    path: PathBuf,
    file: File,
    page_bytes: usize,
    /// Size of the database in bytes.
    size: u64,
    log: Option<Log>,
    counter: [u8; 4],
    journal: Journal,
    /// How the file looked when nothing was known to have been copied into it since the snapshot;
    /// `None` while its time of modification cannot tell.
    unmodified: Mutex<Option<Stamp>>,
    /// The whole database, when it is small.
    image: Option<Vec<u8>>,
}

/// The log of a database.
struct Log {
    file: File,
    stamp: Stamp,
    index: WalIndex,
}

impl Snapshot {
    /// Takes a snapshot; `None` when the database is in the middle of a change.
    pub(super) fn take(path: &Path) -> io::Result<Option<Self>> {
        let file = open(path)?;
        let seen = file.metadata()?;
        let unmodified = Mutex::new(settled(&seen));
        let mut counter = [0; 4];
        read_at(&file, &mut counter, COUNTER_AT)?;
        let log = if seen.len() > 0 { Log::open(path)? } else { None };
        let journal = journal(path)?;
        // A log without a commit in it may be one that is just being begun again. Then only the
        // time of modification tells whether the file changed.
        let is_unsure = log.is_none() && has_log_file(path) && settled(&seen).is_none();
        if journal == Journal::Active || is_unsure {
            return Ok(None);
        }
        let mut header = [0; HEADER_BYTES];
        read_at(&file, &mut header, 0)?;
        let page_bytes = match u16::from_be_bytes([header[PAGE_SIZE_AT], header[PAGE_SIZE_AT + 1]])
        {
            1 => 65536,
            bytes => usize::from(bytes).max(512),
        };
        let log = log.filter(|log| log.index.page_bytes == page_bytes);
        let size = match &log {
            Some(log) => u64::from(log.index.page_count) * page_bytes as u64,
            None => file.metadata()?.len(),
        };
        let path = path.to_owned();
        let mut snapshot =
            Self { path, file, page_bytes, size, log, counter, journal, unmodified, image: None };
        let image = match size {
            ..=MAX_IMAGE_BYTES => {
                let mut image = vec![0; size as usize];
                snapshot.read(&mut image, 0)?;
                Some(image)
            }
            _ => None,
        };
        if !snapshot.holds() {
            return Ok(None);
        }
        snapshot.image = image;
        Ok(Some(snapshot))
    }

    /// Returns the size of the database in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Reads bytes of the database, and returns how many there are.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(image) = &self.image {
            let rest = image.get(offset.min(self.size) as usize..).unwrap_or_default();
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            return Ok(length);
        }
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let inside = (at % self.page_bytes as u64) as usize;
            let length = (self.page_bytes - inside).min(buffer.len() - done);
            let part = &mut buffer[done..done + length];
            let read = self.read_in_page(part, at / self.page_bytes as u64, inside)?;
            done += read;
            if read < length {
                break;
            }
        }
        hide_log(&mut buffer[..done], offset);
        Ok(done)
    }

    fn read_in_page(&self, part: &mut [u8], page: u64, inside: usize) -> io::Result<usize> {
        let start = page * self.page_bytes as u64;
        if start >= self.size {
            return Ok(0);
        }
        let number = u32::try_from(page + 1).unwrap_or(u32::MAX);
        if let Some(log) = &self.log
            && let Some(offset) = log.index.offset_of(number)
        {
            return read_at(&log.file, part, offset + inside as u64);
        }
        read_at(&self.file, part, start + inside as u64)
    }

    /// Returns whether everything that was read so far belongs to the moment of the snapshot.
    pub(super) fn holds(&self) -> bool {
        let holds = match &self.log {
            _ if self.image.is_some() => Ok(true),
            Some(log) => self.holds_with(log),
            None => self.holds_without_log(),
        };
        holds.unwrap_or(false)
    }

    fn holds_with(&self, log: &Log) -> io::Result<bool> {
        // The order matters: whoever copied pages into the file appended them to the log before.
        let now = self.file.metadata()?;
        if !log.index.is_same_log(&log.file)? {
            return Ok(false);
        }
        let Ok(mut unmodified) = self.unmodified.lock() else { return Ok(false) };
        if *unmodified == Some(Stamp::of(&now)) {
            return Ok(true);
        }
        let is_same_file = fs::metadata(beside(&self.path, "-wal"))
            .is_ok_and(|log_now| Stamp::of(&log_now).inode == log.stamp.inode);
        if !is_same_file || !log.index.is_at_end(&log.file)? {
            return Ok(false);
        }
        *unmodified = settled(&now);
        Ok(true)
    }

    fn holds_without_log(&self) -> io::Result<bool> {
        let now = self.file.metadata()?;
        let Ok(mut unmodified) = self.unmodified.lock() else { return Ok(false) };
        if let Some(known) = *unmodified {
            return Ok(known == Stamp::of(&now));
        }
        // The order matters: the counter is changed before the journal goes.
        if journal(&self.path)? != self.journal || now.len() != self.size {
            return Ok(false);
        }
        let mut counter = [0; 4];
        read_at(&self.file, &mut counter, COUNTER_AT)?;
        if counter != self.counter || has_log_file(&self.path) {
            return Ok(false);
        }
        *unmodified = settled(&now);
        Ok(true)
    }
}

impl Log {
    /// Opens the log of a database; `None` when there is none, or nothing committed in it.
    fn open(database: &Path) -> io::Result<Option<Self>> {
        let path = beside(database, "-wal");
        if !has_log_file(database) {
            return Ok(None);
        }
        let file = match open(&path) {
            // A program that ends deletes it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let stamp = Stamp::of(&file.metadata()?);
        Ok(WalIndex::read(&file)?.map(|index| Self { file, stamp, index }))
    }
}

/// Returns whether there is a log that is not empty.
fn has_log_file(database: &Path) -> bool {
    let log = fs::metadata(beside(database, "-wal"));
    log.is_ok_and(|log| log.is_file() && log.len() > 0)
}

/// What the rollback journal of a database says.
#[derive(PartialEq, Eq)]
enum Journal {
    /// Nobody is changing the file.
    Absent,
    /// A program changes the file, or is about to.
    Active,
    /// A program ended while it changed the file.
    Abandoned(Stamp),
}

fn journal(database: &Path) -> io::Result<Journal> {
    let path = beside(database, "-journal");
    let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let metadata = match fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() && metadata.len() > 0 => metadata,
        Err(error) if !is_missing(&error) => return Err(error),
        _ => return Ok(Journal::Absent),
    };
    let mut magic = [0; 8];
    match open(&path).and_then(|file| read_at(&file, &mut magic, 0)) {
        Err(error) if !is_missing(&error) => return Err(error),
        // The magic is written before the file is changed. A journal that is not deleted at the
        // end of a transaction is truncated, or begins with zeros.
        Ok(_) if magic == JOURNAL_MAGIC => {}
        _ => return Ok(Journal::Absent),
    }
    Ok(match age(&metadata) {
        Some(age) if age > ABANDONED => Journal::Abandoned(Stamp::of(&metadata)),
        _ => Journal::Active,
    })
}

/// Says of a database with a log that it has none: what the log holds is in the pages already.
fn hide_log(bytes: &mut [u8], offset: u64) {
    for at in [VERSIONS_AT, VERSIONS_AT + 1] {
        let Some(inside) = (at as u64).checked_sub(offset) else { continue };
        if let Some(version) = usize::try_from(inside).ok().and_then(|at| bytes.get_mut(at))
            && *version == 2
        {
            *version = 1;
        }
    }
}

/// Returns how a file looks, unless it was modified so recently that it may be modified again
/// without looking different.
fn settled(metadata: &Metadata) -> Option<Stamp> {
    let stamp = Stamp::of(metadata);
    let is_coarse = stamp.modified % 1_000_000_000 == 0;
    let tick = if is_coarse { COARSE_CLOCK_TICK } else { CLOCK_TICK };
    age(metadata).is_some_and(|age| age > tick).then_some(stamp)
}

/// How long ago a file was modified; `None` when it lies in the future.
fn age(metadata: &Metadata) -> Option<Duration> {
    SystemTime::now().duration_since(metadata.modified().ok()?).ok()
}

/// Opens a file for reading. Something else in its place must not make the program wait.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    options.open(path)
}

/// Reads at an offset as much as there is.
pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match read_once_at(file, &mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(unix)]
fn read_once_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_once_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

/// Returns the path of a file that SQLite keeps beside a database.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
