//! A database of another program at one point in time, read in place: the file, with the pages that
//! its write-ahead log replaces.
//!
//! No lock is taken, and nothing is copied or written, so the program that owns the database never
//! waits. It may write at any time. After pages were read, [`DatabaseSnapshot::is_consistent`]
//! checks whether all of them belong to the time of the snapshot. Only then the data is used. The
//! check is reliable for these reasons:
//!
//! - With a log, the file changes only when committed frames of the log are copied into it. As long
//!   as nothing was appended to the log, these are frames that the snapshot reads from the log
//!   itself. As long as the file was not modified, nothing was copied. One of the two is enough.
//!   Frames are overwritten only after the log's header got another salt.
//! - Without a log, a writer creates a rollback journal before it modifies the file, changes the
//!   counter in the file's header, and deletes the journal last.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use super::wal::WalIndex;
use crate::connectors::Stamp;

/// Minimum age of a modification for its timestamp to be reliable. A more recently modified file
/// may be modified again with the same timestamp: file system clocks tick every 4 to 16 ms.
const CLOCK_TICK: Duration = Duration::from_millis(50);

/// The same for timestamps in whole seconds.
const COARSE_CLOCK_TICK: Duration = Duration::from_secs(3);

/// Age above which an untouched rollback journal counts as left by a program that ended during a
/// transaction.
const ABANDONED: Duration = Duration::from_mins(1);

/// First bytes of a valid rollback journal.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Size limit of databases that are read into memory at once. Such a snapshot must be consistent
/// only at that moment, and a program that writes continuously cannot invalidate it later.
const MAX_IMAGE_BYTES: u64 = 8 << 20;

/// Size of a database header.
const HEADER_BYTES: usize = 100;

/// Offsets in the header: page size, format versions (which indicate a write-ahead log), and change
/// counter.
const PAGE_SIZE_AT: usize = 16;
const VERSIONS_AT: usize = 18;
const COUNTER_AT: u64 = 24;

/// A database at one point in time.
pub(super) struct DatabaseSnapshot {
    path: PathBuf,
    file: File,
    page_bytes: usize,
    /// Size of the database in bytes.
    size: u64,
    log: Option<Log>,
    counter: [u8; 4],
    journal: RollbackJournal,
    /// Stamp of the file at a time when nothing had been copied into it since the snapshot. `None`
    /// while its modification time is too recent to be reliable.
    unmodified: Mutex<Option<Stamp>>,
    /// The whole database, if it is small.
    image: Option<Vec<u8>>,
}

/// The write-ahead log of a database.
struct Log {
    file: File,
    stamp: Stamp,
    index: WalIndex,
}

impl DatabaseSnapshot {
    /// Takes a snapshot. `None` when the database is being modified.
    pub(super) fn take_snapshot(path: &Path) -> io::Result<Option<Self>> {
        let file = open_without_blocking(path)?;
        let seen = file.metadata()?;
        let unmodified = Mutex::new(settled_stamp(&seen));
        let mut counter = [0; 4];
        read_fully_at(&file, &mut counter, COUNTER_AT)?;
        let log = if seen.len() > 0 { Log::open_log(path)? } else { None };
        let journal = rollback_journal_state(path)?;
        // A log without a commit may be one that is just being restarted. Then only the
        // modification time shows whether the file changed.
        let is_unsure = log.is_none() && has_log_file(path) && settled_stamp(&seen).is_none();
        if journal == RollbackJournal::Active || is_unsure {
            return Ok(None);
        }
        let mut header = [0; HEADER_BYTES];
        read_fully_at(&file, &mut header, 0)?;
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
                snapshot.read_page_bytes(&mut image, 0)?;
                Some(image)
            }
            _ => None,
        };
        if !snapshot.is_still_valid() {
            return Ok(None);
        }
        snapshot.image = image;
        Ok(Some(snapshot))
    }

    /// Returns the size of the database in bytes.
    pub(super) fn database_size(&self) -> u64 {
        self.size
    }

    /// Reads bytes of the database. Returns the number of bytes read.
    pub(super) fn read_page_bytes(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
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
            return read_fully_at(&log.file, part, offset + inside as u64);
        }
        read_fully_at(&self.file, part, start + inside as u64)
    }

    /// Returns whether everything read so far belongs to the time of the snapshot.
    pub(super) fn is_still_valid(&self) -> bool {
        let holds = match &self.log {
            _ if self.image.is_some() => Ok(true),
            Some(log) => self.holds_with(log),
            None => self.holds_without_log(),
        };
        holds.unwrap_or(false)
    }

    fn holds_with(&self, log: &Log) -> io::Result<bool> {
        // The order matters: pages are appended to the log before they are copied into the file.
        let now = self.file.metadata()?;
        if !log.index.is_same_log(&log.file)? {
            return Ok(false);
        }
        let Ok(mut unmodified) = self.unmodified.lock() else { return Ok(false) };
        if *unmodified == Some(Stamp::from_metadata(&now)) {
            return Ok(true);
        }
        let is_same_file = fs::metadata(companion_path(&self.path, "-wal"))
            .is_ok_and(|log_now| Stamp::from_metadata(&log_now).inode == log.stamp.inode);
        if !is_same_file || !log.index.is_at_end(&log.file)? {
            return Ok(false);
        }
        *unmodified = settled_stamp(&now);
        Ok(true)
    }

    fn holds_without_log(&self) -> io::Result<bool> {
        let now = self.file.metadata()?;
        let Ok(mut unmodified) = self.unmodified.lock() else { return Ok(false) };
        if let Some(known) = *unmodified {
            return Ok(known == Stamp::from_metadata(&now));
        }
        // The order matters: the counter is changed before the journal is deleted.
        if rollback_journal_state(&self.path)? != self.journal || now.len() != self.size {
            return Ok(false);
        }
        let mut counter = [0; 4];
        read_fully_at(&self.file, &mut counter, COUNTER_AT)?;
        if counter != self.counter || has_log_file(&self.path) {
            return Ok(false);
        }
        *unmodified = settled_stamp(&now);
        Ok(true)
    }
}

impl Log {
    /// Opens the log of a database. `None` when there is none, or when it has no commit.
    fn open_log(database: &Path) -> io::Result<Option<Self>> {
        let path = companion_path(database, "-wal");
        if !has_log_file(database) {
            return Ok(None);
        }
        let file = match open_without_blocking(&path) {
            // A program deletes its log when it ends.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let stamp = Stamp::from_metadata(&file.metadata()?);
        Ok(WalIndex::read_wal_index(&file)?.map(|index| Self { file, stamp, index }))
    }
}

/// Returns whether a database has a log file that is not empty.
fn has_log_file(database: &Path) -> bool {
    let log = fs::metadata(companion_path(database, "-wal"));
    log.is_ok_and(|log| log.is_file() && log.len() > 0)
}

/// State of a database's rollback journal.
#[derive(PartialEq, Eq)]
enum RollbackJournal {
    /// No program is modifying the file.
    Absent,
    /// A program is modifying the file, or is about to.
    Active,
    /// A program ended while it modified the file.
    Abandoned(Stamp),
}

fn rollback_journal_state(database: &Path) -> io::Result<RollbackJournal> {
    let path = companion_path(database, "-journal");
    let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let metadata = match fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() && metadata.len() > 0 => metadata,
        Err(error) if !is_missing(&error) => return Err(error),
        _ => return Ok(RollbackJournal::Absent),
    };
    let mut magic = [0; 8];
    match open_without_blocking(&path).and_then(|file| read_fully_at(&file, &mut magic, 0)) {
        Err(error) if !is_missing(&error) => return Err(error),
        // The magic is written before the file is modified. A journal that is not deleted at the
        // end of a transaction is truncated, or begins with zeros.
        Ok(_) if magic == JOURNAL_MAGIC => {}
        _ => return Ok(RollbackJournal::Absent),
    }
    Ok(match age_of_modification(&metadata) {
        Some(age) if age > ABANDONED => RollbackJournal::Abandoned(Stamp::from_metadata(&metadata)),
        _ => RollbackJournal::Active,
    })
}

/// Changes the format versions in a header from write-ahead log to rollback journal, because the
/// pages already include the log's content.
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

/// Returns the stamp of a file. `None` if the file was modified so recently that it may be modified
/// again without a new stamp.
fn settled_stamp(metadata: &Metadata) -> Option<Stamp> {
    let stamp = Stamp::from_metadata(metadata);
    let is_coarse = stamp.modified % 1_000_000_000 == 0;
    let tick = if is_coarse { COARSE_CLOCK_TICK } else { CLOCK_TICK };
    age_of_modification(metadata).is_some_and(|age| age > tick).then_some(stamp)
}

/// Returns the time since a file was modified. `None` when its modification time is in the future.
fn age_of_modification(metadata: &Metadata) -> Option<Duration> {
    SystemTime::now().duration_since(metadata.modified().ok()?).ok()
}

/// Opens a file for reading. Does not block on a pipe in its place.
fn open_without_blocking(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    options.open(path)
}

/// Reads at an offset until the buffer is full or the file ends.
pub(super) fn read_fully_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match read_some_at(file, &mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(unix)]
fn read_some_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_some_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

/// Returns the path of a file that SQLite keeps beside a database.
pub(super) fn companion_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
