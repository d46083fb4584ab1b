//! One writer at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use super::Progress;
use crate::error::{Error, Result};

/// How often a waiting writer looks again.
const PAUSE: Duration = Duration::from_millis(20);

/// The right to write the journal, until it is dropped. The system takes it back from a process
/// that dies.
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, waiting for another writer as long as allowed; `None` when it is still
    /// taken then.
    pub(crate) fn take(
        path: &Path,
        wait: Option<Duration>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        // Who may open it could keep every writer waiting.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(Error::write(path))?;
        let deadline = Instant::now() + wait.unwrap_or_default();
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self { _file: file })),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    if !told {
                        progress(Progress::Waiting);
                        told = true;
                    }
                    std::thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(source)) => return Err(Error::write(path)(source)),
            }
        }
    }
}
