//! Gives archived files back: as streams, and as the stored copies that connectors read.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::pack::read_frame;
use crate::connectors::formats::source_file::{StoredFile, StoredFiles};
use crate::error::{Error, Result};
use crate::store::{ArchivedFile, Store, StoredPart};

/// Reads files of the archive. Keeps the last frame in memory.
pub(crate) struct ArchiveReader {
    store: Store,
    directory: PathBuf,
    last: RefCell<Option<LastFrame>>,
}

struct LastFrame {
    id: i64,
    content: Rc<Vec<u8>>,
}

impl ArchiveReader {
    pub(crate) fn new(store: Store, directory: PathBuf) -> Self {
        Self { store, directory, last: RefCell::default() }
    }

    /// Opens a file of the archive.
    pub(crate) fn open_file(self: &Rc<Self>, file: &ArchivedFile) -> Result<ArchivedStream> {
        let parts = self.store.stored_parts(file.version)?;
        Ok(ArchivedStream { reader: Rc::clone(self), parts, length: file.length, at: 0 })
    }

    fn frame_content(&self, id: i64) -> io::Result<Rc<Vec<u8>>> {
        if let Some(last) = self.last.borrow().as_ref().filter(|last| last.id == id) {
            return Ok(Rc::clone(&last.content));
        }
        let missing = || io::Error::new(io::ErrorKind::InvalidData, "the archive lacks a frame");
        let frame = self.store.frame(id).map_err(io::Error::other)?.ok_or_else(missing)?;
        let content = Rc::new(read_frame(&self.directory, &frame)?);
        *self.last.borrow_mut() = Some(LastFrame { id, content: Rc::clone(&content) });
        Ok(content)
    }
}

/// The content of a file in the archive.
pub(crate) struct ArchivedStream {
    reader: Rc<ArchiveReader>,
    parts: Vec<StoredPart>,
    length: u64,
    at: u64,
}

impl Read for ArchivedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.length.saturating_sub(self.at);
        if left == 0 || buffer.is_empty() {
            return Ok(0);
        }
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the archive lacks a part");
        let next = self.parts.partition_point(|part| part.start <= self.at);
        let part = next.checked_sub(1).and_then(|at| self.parts.get(at)).ok_or_else(damaged)?;
        let skipped = self.at - part.start;
        if skipped >= part.bytes {
            return Err(damaged());
        }
        let content = self.reader.frame_content(part.frame)?;
        let range = (part.frame_start + skipped) as usize..(part.frame_start + part.bytes) as usize;
        let bytes = content.get(range).ok_or_else(damaged)?;
        let count = bytes.len().min(buffer.len()).min(left as usize);
        buffer[..count].copy_from_slice(&bytes[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for ArchivedStream {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(offset) => self.at.checked_add_signed(offset),
            SeekFrom::End(offset) => self.length.checked_add_signed(offset),
        };
        self.at = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

impl StoredFile for ArchivedStream {
    fn stored_size(&self) -> u64 {
        self.length
    }
}

/// The archived files of one source, which a connector reads in place of the files.
pub(crate) struct ArchivedCopies {
    reader: Rc<ArchiveReader>,
    files: BTreeMap<PathBuf, ArchivedFile>,
}

impl ArchivedCopies {
    /// Finds the files of a source as they were last seen. `store` is a connection of its own.
    pub(crate) fn of_source(store: Store, directory: PathBuf, source: i64) -> Result<Self> {
        let files = store.archived_files(source, None)?;
        let files = files.into_iter().map(|file| (file.path.clone(), file)).collect();
        Ok(Self { reader: Rc::new(ArchiveReader::new(store, directory)), files })
    }
}

impl StoredFiles for ArchivedCopies {
    fn open_stored(&self, path: &Path) -> io::Result<Option<Box<dyn StoredFile>>> {
        let Some(file) = self.files.get(path) else { return Ok(None) };
        let stream = self.reader.open_file(file).map_err(io::Error::other)?;
        Ok(Some(Box::new(stream)))
    }

    fn stored_below(&self, directory: &Path) -> Vec<PathBuf> {
        self.files.keys().filter(|path| path.starts_with(directory)).cloned().collect()
    }
}

/// Writes an archived file to a stream.
pub(crate) fn copy_file(
    reader: &Rc<ArchiveReader>,
    file: &ArchivedFile,
    output: &mut dyn io::Write,
) -> Result<()> {
    let mut stream = reader.open_file(file)?;
    io::copy(&mut stream, output).map(drop).map_err(Error::read(&file.path))
}
