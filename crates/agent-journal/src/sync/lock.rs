//! The lock that allows one writer at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use super::Progress;
use crate::error::{Error, Result};

/// Wait between two attempts to take the lock.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The lock on writing the journal, held until dropped. The operating system releases it when the
/// process dies.
pub(crate) struct WriterLock {
    _file: File,
}

impl WriterLock {
    /// Takes the lock. Waits at most `wait` for another writer; returns `None` if the lock is still
    /// taken then.
    pub(crate) fn take(
        path: &Path,
        wait: Option<Duration>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        // A user who can open the file could block all writers.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(Error::write_error(path))?;
        let deadline = Instant::now() + wait.unwrap_or_default();
        let mut has_reported = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self { _file: file })),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    if !has_reported {
                        progress(Progress::Waiting);
                        has_reported = true;
                    }
                    std::thread::sleep(RETRY_PAUSE);
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(source)) => return Err(Error::write_error(path)(source)),
            }
        }
    }
}
