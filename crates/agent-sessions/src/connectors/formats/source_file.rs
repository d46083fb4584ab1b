//! Opens the files of agents. Every connector reads files through this module, so that a caller can
//! learn which files a read depended on, and can let a connector read stored copies of files that
//! no longer exist.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use xxhash_rust::xxh3::Xxh3;

use crate::connectors::Stamp;
use crate::error::{Error, Result};

thread_local! {
    static OBSERVED: RefCell<Option<FileReads>> = const { RefCell::new(None) };
    static STORED: RefCell<Option<Rc<dyn StoredFiles>>> = const { RefCell::new(None) };
}

/// The files that were read, by path.
pub type FileReads = BTreeMap<PathBuf, FileRead>;

/// A file that was read, and the longest part of it that was read in one go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileRead {
    /// State of the file when it was first opened.
    pub stamp: Stamp,
    /// Offset of the first byte that was read.
    pub start: u64,
    /// Offset after the last byte that was read.
    pub end: u64,
    /// Hash of the bytes in between.
    pub hash: u64,
    /// Whether rows of a database were read instead of bytes.
    pub is_database: bool,
}

/// Notes that rows of a database are read.
pub(super) fn note_database(path: &Path) {
    OBSERVED.with_borrow_mut(|observed| {
        if let Some(observed) = observed {
            observed.entry(path.to_owned()).or_default().is_database = true;
        }
    });
}

/// Runs `read` and returns its result together with the files that this thread opened meanwhile.
pub fn observe_reads<T>(read: impl FnOnce() -> T) -> (T, FileReads) {
    struct Before(Option<FileReads>);
    impl Drop for Before {
        fn drop(&mut self) {
            OBSERVED.set(self.0.take());
        }
    }
    let _before = Before(OBSERVED.replace(Some(FileReads::new())));
    let result = read();
    (result, OBSERVED.take().unwrap_or_default())
}

/// Copies of files that may no longer exist.
pub trait StoredFiles {
    /// Opens the copy of a file; `None` if there is none.
    fn open_stored(&self, path: &Path) -> io::Result<Option<Box<dyn StoredFile>>>;

    /// Lists the paths of the files below a directory that have a copy.
    fn stored_below(&self, directory: &Path) -> Vec<PathBuf>;
}

/// The stored copy of a file.
pub trait StoredFile: Read + Seek {
    /// Returns the size of the file in bytes.
    fn stored_size(&self) -> u64;
}

/// Runs `read`. Meanwhile this thread reads the stored copy of each file that has one.
pub fn with_stored_files<T>(files: Rc<dyn StoredFiles>, read: impl FnOnce() -> T) -> T {
    struct Before(Option<Rc<dyn StoredFiles>>);
    impl Drop for Before {
        fn drop(&mut self) {
            STORED.set(self.0.take());
        }
    }
    let _before = Before(STORED.replace(Some(files)));
    read()
}

/// Returns the stored files that this thread reads.
pub(super) fn stored_files() -> Option<Rc<dyn StoredFiles>> {
    STORED.with_borrow(Clone::clone)
}

/// A file of an agent, open for reading.
pub struct SourceFile {
    content: Content,
    note: Option<Note>,
}

enum Content {
    Disk(File),
    Stored(Box<dyn StoredFile>),
}

/// The observation of one open file.
struct Note {
    path: PathBuf,
    stamp: Stamp,
    start: u64,
    position: u64,
    hash: Box<Xxh3>,
}

impl SourceFile {
    /// Opens a file for reading.
    #[expect(clippy::disallowed_methods, reason = "every other file is opened here")]
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(files) = stored_files()
            && let Some(stored) = files.open_stored(path)?
        {
            return Ok(Self { content: Content::Stored(stored), note: None });
        }
        let file = File::open(path)?;
        let note = OBSERVED.with_borrow(Option::is_some).then(|| Note::new(path, &file));
        Ok(Self { content: Content::Disk(file), note: note.transpose()? })
    }

    /// Returns the size of the file in bytes. Fails if the path does not lead to a regular file.
    pub fn size(&self) -> io::Result<u64> {
        match &self.content {
            Content::Disk(file) => {
                let metadata = file.metadata()?;
                let is_file = metadata.is_file().then_some(metadata.len());
                is_file.ok_or_else(|| io::ErrorKind::InvalidInput.into())
            }
            Content::Stored(file) => Ok(file.stored_size()),
        }
    }
}

/// Reads a whole file.
pub fn read_file(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = SourceFile::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(Error::read(path))?;
    Ok(bytes)
}

impl Read for SourceFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.content {
            Content::Disk(file) => file.read(buffer)?,
            Content::Stored(file) => file.read(buffer)?,
        };
        if let Some(note) = &mut self.note {
            note.hash.update(&buffer[..read]);
            note.position += read as u64;
        }
        Ok(read)
    }
}

impl Seek for SourceFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match &mut self.content {
            Content::Disk(file) => file.seek(to)?,
            Content::Stored(file) => file.seek(to)?,
        };
        if let Some(note) = self.note.as_mut().filter(|note| note.position != position) {
            note.finish_part();
            (note.start, note.position) = (position, position);
        }
        Ok(position)
    }
}

impl Drop for SourceFile {
    fn drop(&mut self) {
        if let Some(note) = &mut self.note {
            note.finish_part();
        }
    }
}

impl Note {
    fn new(path: &Path, file: &File) -> io::Result<Self> {
        let stamp = Stamp::from_metadata(&file.metadata()?);
        Ok(Self {
            path: path.to_owned(),
            stamp,
            start: 0,
            position: 0,
            hash: Box::new(Xxh3::new()),
        })
    }

    /// Adds the part that was read to the observations. Of several parts the longest is kept.
    fn finish_part(&mut self) {
        let part = FileRead {
            stamp: self.stamp,
            start: self.start,
            end: self.position,
            hash: self.hash.digest(),
            is_database: false,
        };
        self.hash.reset();
        OBSERVED.with_borrow_mut(|observed| {
            let Some(observed) = observed else { return };
            match observed.get_mut(&self.path) {
                Some(known) if known.end - known.start >= part.end - part.start => {}
                Some(known) if known.is_database => {}
                Some(known) => *known = FileRead { stamp: known.stamp, ..part },
                None => drop(observed.insert(self.path.clone(), part)),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use xxhash_rust::xxh3::xxh3_64;

    use super::*;

    fn file_with(content: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        file
    }

    #[test]
    fn the_longest_part_that_was_read_is_observed_with_its_hash() {
        let file = file_with(b"0123456789");
        let ((), reads) = observe_reads(|| {
            let mut open = SourceFile::open(file.path()).unwrap();
            let mut some = [0; 2];
            open.read_exact(&mut some).unwrap();
            open.seek(SeekFrom::Start(4)).unwrap();
            open.read_to_end(&mut Vec::new()).unwrap();
            open.seek(SeekFrom::Start(0)).unwrap();
            drop(open);
            let mut again = SourceFile::open(file.path()).unwrap();
            again.read_exact(&mut some).unwrap();
        });
        let read = reads[file.path()];
        assert_eq!((read.start, read.end, read.hash), (4, 10, xxh3_64(b"456789")));
        assert_eq!(read.stamp.size, 10);
        let (other, _) = observe_reads(|| observe_reads(|| SourceFile::open(file.path())).1.len());
        assert_eq!(other, 0, "a file that is still open was not read to its end");
    }

    struct OneFile(PathBuf, &'static [u8]);

    impl StoredFile for io::Cursor<&'static [u8]> {
        fn stored_size(&self) -> u64 {
            self.get_ref().len() as u64
        }
    }

    impl StoredFiles for OneFile {
        fn open_stored(&self, path: &Path) -> io::Result<Option<Box<dyn StoredFile>>> {
            let is_it = path == self.0;
            Ok(is_it.then(|| Box::new(io::Cursor::new(self.1)) as Box<dyn StoredFile>))
        }

        fn stored_below(&self, directory: &Path) -> Vec<PathBuf> {
            Vec::from_iter(self.0.starts_with(directory).then(|| self.0.clone()))
        }
    }

    #[test]
    fn a_stored_copy_is_read_in_place_of_its_file_and_only_meanwhile() {
        let file = file_with(b"on disk");
        let text = |path: &Path| io::read_to_string(SourceFile::open(path).unwrap()).unwrap();
        let gone = Path::new("/no/such/file");
        let stored = Rc::new(OneFile(gone.to_owned(), b"as stored"));
        with_stored_files(stored, || {
            assert_eq!(text(gone), "as stored");
            assert_eq!(SourceFile::open(gone).unwrap().size().unwrap(), 9);
            assert_eq!(text(file.path()), "on disk");
        });
        assert!(SourceFile::open(gone).is_err());
    }
}
