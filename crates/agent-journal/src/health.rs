//! Whether a journal is in order: its file, its index, what is still to be read.

use std::path::Path;
use std::{fs, io};

use serde::Serialize;

use crate::error::{Result, is_refused};
use crate::journal::Journal;
use crate::store::Store;
use crate::sync::Plan;

/// How a journal is.
#[derive(Clone, Debug, Serialize)]
pub struct Health {
    /// What is wrong with the journal's file; `None` when there is no file yet.
    pub faults: Option<Vec<String>>,
    /// The size of the file.
    pub bytes: u64,
    /// Whether others on this machine may read it.
    pub is_private: bool,
    /// Whether something can be recorded in it.
    pub is_writable: bool,
    /// How the index is.
    pub index: IndexState,
    /// Sources that changed since they were read.
    pub pending_sources: u64,
    /// Their size.
    pub pending_bytes: u64,
    /// The same, agent by agent: its id, the number of sources and their size.
    pub pending_agents: Vec<(&'static str, u64, u64)>,
    /// Places that could not be looked at, with the reason.
    pub failures: Vec<(String, String)>,
}

/// How an index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexState {
    /// There is none, or none that can be used.
    Absent,
    /// It lacks what the journal got last.
    Behind,
    /// It has everything.
    Current,
}

impl Journal {
    /// Looks whether the journal is in order. It reads the whole file.
    pub fn health(&self) -> Result<Health> {
        let plan = self.plan(false)?;
        let file = fs::metadata(self.path());
        let index = match self.lexical()? {
            None => IndexState::Absent,
            Some(_) if self.is_indexed()? => IndexState::Current,
            Some(_) => IndexState::Behind,
        };
        Ok(Health {
            faults: self.store.as_ref().map(Store::faults).transpose()?,
            bytes: file.as_ref().map_or(0, fs::Metadata::len),
            is_private: file.as_ref().map_or(true, is_private),
            is_writable: self.is_writable(),
            index,
            pending_sources: plan.changed.len() as u64,
            pending_bytes: plan.changed.iter().map(|found| found.source.stamp.size).sum(),
            pending_agents: pending_agents(&plan),
            failures: plan.failures,
        })
    }

    /// Whether a writer could take its lock.
    fn is_writable(&self) -> bool {
        let lock = self.path().with_file_name("lock");
        match fs::OpenOptions::new().write(true).open(&lock) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => may_create(&lock),
            Err(error) => !is_refused(&error) && error.kind() != io::ErrorKind::NotADirectory,
        }
    }
}

/// Whether a file can be made at a path: the nearest directory above it that exists lets us.
fn may_create(path: &Path) -> bool {
    let above = path.ancestors().skip(1).find(|one| one.symlink_metadata().is_ok());
    let above = above.filter(|one| !one.as_os_str().is_empty()).unwrap_or(Path::new("."));
    above.is_dir() && is_open_to_writing(above)
}

#[cfg(unix)]
fn is_open_to_writing(directory: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn is_open_to_writing(directory: &Path) -> bool {
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
fn is_private(file: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    // Neither the group nor others have any of their bits.
    file.permissions().mode().trailing_zeros() >= 6
}

#[cfg(not(unix))]
fn is_private(_: &fs::Metadata) -> bool {
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
        // Nothing is closed to the superuser.
        let is_open = fs::create_dir(closed.join("probe")).is_ok();
        check("closed/new/lock", is_open);
    }
}
