//! The directory of the word index for tantivy. A reader needs no write permission, and the cause
//! of a failed write is kept: tantivy's threads report only that they have ended.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tantivy::Index;
use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, Directory, DirectoryLock, FileHandle, Lock, META_LOCK, MmapDirectory,
    TerminatingWrite, WatchCallback, WatchHandle, WritePtr,
};

use crate::error::{is_access_refused, is_disk_full};

/// The list of segments; files that it does not name are not part of the index.
pub(super) const META: &str = "meta.json";

/// The prefix of files that are renamed once they are complete.
const UNFINISHED: &str = ".tmp";

/// A directory of memory-mapped files. A reader that cannot create the lock file continues without
/// the lock. The lock keeps a writer from deleting files under a reader; an index that loses a file
/// this way is opened again.
#[derive(Clone, Debug)]
pub(super) struct IndexDirectory {
    files: MmapDirectory,
    failure: WriteFailure,
}

/// The first error of a writer.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteFailure(Arc<OnceLock<FirstError>>);

#[derive(Debug)]
struct FirstError {
    kind: io::ErrorKind,
    /// The error number of the operating system, if there is one.
    number: Option<i32>,
}

impl WriteFailure {
    fn note(&self, error: &io::Error) {
        // Later errors may be consequences of the first.
        self.0.get_or_init(|| FirstError { kind: error.kind(), number: error.raw_os_error() });
    }

    fn noted<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| self.note(error))
    }

    /// Returns the first error.
    pub(super) fn cause(&self) -> Option<io::Error> {
        let FirstError { kind, number } = self.0.get()?;
        Some(number.map_or_else(|| io::Error::from(*kind), io::Error::from_raw_os_error))
    }
}

impl IndexDirectory {
    pub(super) fn open(path: &Path) -> tantivy::Result<Self> {
        Ok(Self { files: MmapDirectory::open(path)?, failure: WriteFailure::default() })
    }

    pub(super) fn failure(&self) -> WriteFailure {
        self.failure.clone()
    }
}

/// Deletes the files of an interrupted writer: those that the list of segments does not name.
/// Tantivy refuses to overwrite a file and chooses the same names again. The caller must be the
/// only writer.
#[expect(clippy::disallowed_methods, reason = "the index owns its files")]
pub(super) fn delete_leftovers(index: &Index, path: &Path, kept: &str) -> tantivy::Result<()> {
    let _lock = index.directory().acquire_lock(&META_LOCK)?;
    let named = index.load_metas()?.list_segment_files();
    for file in std::fs::read_dir(path)?.flatten() {
        let name = file.file_name();
        let is_own = name == META || name == kept || named.contains(Path::new(&name));
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        let is_unfinished = name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
        if !is_own && (!is_hidden || is_unfinished) {
            // If the file cannot be deleted, the write to it reports the error.
            let _ = std::fs::remove_file(file.path());
        }
    }
    Ok(())
}

/// A file that is being written, which records its first error.
struct NotedWriter {
    file: Box<dyn TerminatingWrite + Send + Sync>,
    failure: WriteFailure,
}

impl Write for NotedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.failure.noted(self.file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.failure.noted(self.file.flush())
    }
}

impl TerminatingWrite for NotedWriter {
    fn terminate_ref(&mut self, token: AntiCallToken) -> io::Result<()> {
        self.failure.noted(self.file.terminate_ref(token))
    }
}

impl Directory for IndexDirectory {
    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        match self.files.acquire_lock(lock) {
            Err(LockError::IoError(error))
                if (is_access_refused(&error) || is_disk_full(&error))
                    && lock.filepath == META_LOCK.filepath =>
            {
                Ok(DirectoryLock::from(Box::new(())))
            }
            Err(LockError::IoError(error)) => {
                self.failure.note(&error);
                Err(LockError::IoError(error))
            }
            taken => taken,
        }
    }

    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.files.get_file_handle(path)
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.files.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.files.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let opened = self.files.open_write(path);
        let file = opened.inspect_err(|error| {
            if let OpenWriteError::IoError { io_error, .. } = error {
                self.failure.note(io_error);
            }
        })?;
        let file = file.into_inner().map_err(|error| {
            OpenWriteError::wrap_io_error(error.into_error(), path.to_path_buf())
        })?;
        let failure = self.failure.clone();
        Ok(BufWriter::new(Box::new(NotedWriter { file, failure })))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.files.atomic_read(path)
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.failure.noted(self.files.atomic_write(path, data))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.failure.noted(self.files.sync_directory())
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.files.watch(callback)
    }
}
