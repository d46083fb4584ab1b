//! Checks the state of a journal: its file, its index and the sources that are still pending.

use std::path::Path;
use std::{fs, io};

use serde::Serialize;

use crate::error::{Result, is_access_refused};
use crate::journal::Journal;
use crate::store::Store;
use crate::sync::Plan;

/// The state of a journal.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// Faults of the journal's file; `None` if the file does not exist yet.
    pub faults: Option<Vec<String>>,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Whether the file is protected from other users of this machine.
    pub is_private: bool,
    /// Whether the journal can be written.
    pub is_writable: bool,
    /// State of the index.
    pub index: IndexState,
    /// Number of sources that changed since they were read.
    pub pending_sources: u64,
    /// Size of the pending sources in bytes.
    pub pending_bytes: u64,
    /// Pending sources by agent: agent id, number of sources, size in bytes.
    pub pending_agents: Vec<(&'static str, u64, u64)>,
    /// Directories that could not be scanned, with the reason.
    pub failures: Vec<(String, String)>,
}

/// The state of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexState {
    /// The index does not exist or cannot be used.
    Absent,
    /// The index lacks the latest changes of the journal.
    Behind,
    /// The index contains everything in the journal.
    Current,
}

impl Journal {
    /// Checks the journal. Reads its whole file.
    pub fn check_health(&self) -> Result<Health> {
        let plan = self.make_plan(false)?;
        let file = fs::metadata(self.database_path());
        let index = match self.open_lexical_index()? {
            None => IndexState::Absent,
            Some(_) if self.is_indexed()? => IndexState::Current,
            Some(_) => IndexState::Behind,
        };
        Ok(Health {
            faults: self.store.as_ref().map(Store::faults).transpose()?,
            bytes: file.as_ref().map_or(0, fs::Metadata::len),
            is_private: file.as_ref().map_or(true, is_private_file),
            is_writable: self.is_writable(),
            index,
            pending_sources: plan.changed.len() as u64,
            pending_bytes: plan.changed.iter().map(|found| found.source.stamp.size).sum(),
            pending_agents: pending_agents(&plan),
            failures: plan.failures,
        })
    }

    /// Returns whether a writer could open the lock file.
    fn is_writable(&self) -> bool {
        let lock = self.database_path().with_file_name("lock");
        match fs::OpenOptions::new().write(true).open(&lock) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => may_create(&lock),
            Err(error) => {
                !is_access_refused(&error) && error.kind() != io::ErrorKind::NotADirectory
            }
        }
    }
}

/// Returns whether a file can be created at `path`, judged by the nearest existing directory above
/// it.
fn may_create(path: &Path) -> bool {
    let above = path.ancestors().skip(1).find(|one| one.symlink_metadata().is_ok());
    let above = above.filter(|one| !one.as_os_str().is_empty()).unwrap_or(Path::new("."));
    above.is_dir() && is_writable_directory(above)
}

#[cfg(unix)]
fn is_writable_directory(directory: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn is_writable_directory(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|metadata| !metadata.permissions().readonly())
}

fn pending_agents(plan: &Plan) -> Vec<(&'static str, u64, u64)> {
    let mut agents: Vec<(&'static str, u64, u64)> = Vec::new();
    for found in &plan.changed {
        let (id, size) = (found.connector.agent().id, found.source.stamp.size);
        match agents.iter_mut().find(|(known, ..)| *known == id) {
            Some((_, sources, bytes)) => (*sources, *bytes) = (*sources + 1, *bytes + size),
            None => agents.push((id, 1, size)),
        }
    }
    agents.sort_unstable();
    agents
}

#[cfg(unix)]
fn is_private_file(file: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    // None of the permission bits of the group and of others are set.
    file.permissions().mode().trailing_zeros() >= 6
}

#[cfg(not(unix))]
fn is_private_file(_: &fs::Metadata) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_journal_can_be_made_where_a_directory_can() {
        let directory = tempfile::tempdir().unwrap();
        let check = |path: &str, expected: bool| {
            assert_eq!(may_create(&directory.path().join(path)), expected, "{path}");
        };
        check("new/deep/lock", true);
        fs::File::create(directory.path().join("file")).unwrap();
        check("file/lock", false);
        let closed = directory.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
        // The superuser can write everywhere.
        let is_open = fs::create_dir(closed.join("probe")).is_ok();
        check("closed/new/lock", is_open);
    }
}
