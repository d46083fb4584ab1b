//! Restoring: writes the files that a session was read from, as the archive has them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;

use crate::archive::{self, ArchiveReader, copy_file, pack_directory};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::model::{SessionId, Timestamp};
use crate::private::private_directory;
use crate::store::{ArchiveTotals, ArchivedFile, Entry, Store};
use crate::sync::WriterLock;

/// Maximum wait for another writer.
const WAIT: Duration = Duration::from_secs(10);

/// The place to which files are restored.
#[derive(Clone, Debug)]
pub enum RestorePlace {
    /// Below a directory, at the paths that the files have below the home directory.
    Directory(PathBuf),
    /// The original paths.
    InPlace,
}

/// A file that can be restored.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RestorableFile {
    /// Path from which the file was read.
    pub path: PathBuf,
    /// Path at which it is restored.
    pub target: PathBuf,
    /// Size in bytes.
    pub bytes: u64,
    /// Time at which this state of the file was read.
    pub seen_at: Timestamp,
    /// The reason why it cannot be restored there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<RestoreObstacle>,
    /// The part of `target` that is chosen by the user and may contain links.
    #[serde(skip)]
    base: PathBuf,
    #[serde(skip)]
    file: ArchivedFile,
}

/// The reason why a file cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RestoreObstacle {
    /// A file with this path exists. Restoring never replaces a file.
    Exists,
    /// The path leads out of the chosen directory, or through a link.
    UnsafePath,
}

impl Journal {
    /// Lists the files that a session was read from, as they were at a time or as last read, and
    /// where each one would be restored.
    pub fn plan_restore(
        &self,
        entry: &Entry,
        place: &RestorePlace,
        at: Option<Timestamp>,
    ) -> Result<Vec<RestorableFile>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let id = SessionId { agent: entry.agent.clone(), native: entry.native_id.clone() };
        let mut files = BTreeMap::new();
        for source in store.session_sources(id.session_key())? {
            for file in store.archived_files(source, at)? {
                files.insert(file.path.clone(), file);
            }
        }
        Ok(files.into_values().map(|file| self.restorable_file(file, place)).collect())
    }

    fn restorable_file(&self, file: ArchivedFile, place: &RestorePlace) -> RestorableFile {
        let relative = self.path_below_home(&file.path);
        let (base, target) = match place {
            RestorePlace::Directory(directory) => (directory.clone(), directory.join(&relative)),
            RestorePlace::InPlace => (existing_part(&file.path), file.path.clone()),
        };
        let is_plain = match place {
            RestorePlace::Directory(_) => is_plain_relative(&relative),
            RestorePlace::InPlace => is_plain_absolute(&file.path),
        };
        let obstacle = if !is_plain || leads_through_link(&base, &target) {
            Some(RestoreObstacle::UnsafePath)
        } else {
            target.symlink_metadata().is_ok().then_some(RestoreObstacle::Exists)
        };
        RestorableFile {
            path: file.path.clone(),
            target,
            bytes: file.length,
            seen_at: file.seen_at,
            obstacle,
            base,
            file,
        }
    }

    /// Returns a path relative to the home that contains it, or else to the root of the file
    /// system.
    fn path_below_home(&self, path: &Path) -> PathBuf {
        let homes = self.config.homes.iter().map(|home| &home.machine.home);
        let mut homes = std::iter::once(&self.machine.home).chain(homes);
        let below = homes.find_map(|home| path.strip_prefix(home).ok());
        below.map_or_else(|| without_root(path), Path::to_owned)
    }

    /// Restores a file. Never replaces a file, and never follows a link below the chosen directory.
    pub fn restore_file(&self, file: &RestorableFile) -> Result<()> {
        let reader = self.archive_reader()?;
        let target = &file.target;
        if file.obstacle.is_some() || leads_through_link(&file.base, target) {
            let source = io::ErrorKind::AlreadyExists.into();
            return Err(Error::Write { path: target.clone(), source });
        }
        if let Some(parent) = target.parent() {
            private_directory(parent)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut output = options.open(target).map_err(Error::write_error(target))?;
        let written = write_content(&reader, file, &mut output);
        if written.is_err() {
            remove_incomplete(target);
        }
        written
    }

    fn archive_reader(&self) -> Result<Rc<ArchiveReader>> {
        let store = Store::open(&self.path)?.ok_or(Error::Stopped)?;
        let directory = pack_directory(&self.config.journal_dir);
        Ok(Rc::new(ArchiveReader::new(store, directory)))
    }

    /// Returns the sizes of the archive.
    pub fn archive_totals(&self) -> Result<ArchiveTotals> {
        self.store.as_ref().map_or(Ok(ArchiveTotals::default()), Store::archive_totals)
    }

    /// Verifies the whole archive. Lists the files that it cannot give back as they were.
    pub fn find_archive_damage(&self) -> Result<Vec<PathBuf>> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let directory = pack_directory(&self.config.journal_dir);
        Ok(archive::find_damage(&directory, store)?.into_iter().collect())
    }

    /// Removes the files of a session from the archive, and every byte that nothing else needs from
    /// its packs. Files that other sources were read from stay.
    pub fn remove_from_archive(&mut self, entry: &Entry) -> Result<()> {
        let lock = self.config.journal_dir.join("lock");
        let taken = WriterLock::take(&lock, Some(WAIT), &mut |_| {})?;
        let _lock = taken.ok_or(Error::Busy { path: lock })?;
        self.refresh()?;
        let Some(store) = &self.store else { return Ok(()) };
        let id = SessionId { agent: entry.agent.clone(), native: entry.native_id.clone() };
        let directory = pack_directory(&self.config.journal_dir);
        let mut writer = store.write()?;
        for source in store.session_sources(id.session_key())? {
            writer.forget_archived_source(source)?;
        }
        let obsolete = archive::collect_garbage(&directory, store, &writer)?;
        writer.commit()?;
        obsolete.remove(&directory)
    }
}

fn write_content(
    reader: &Rc<ArchiveReader>,
    file: &RestorableFile,
    output: &mut File,
) -> Result<()> {
    copy_file(reader, &file.file, output)?;
    output.sync_all().map_err(Error::write_error(&file.target))
}

#[expect(clippy::disallowed_methods, reason = "the file was created by this process just now")]
fn remove_incomplete(path: &Path) {
    // An incomplete file that cannot be removed is reported with the error of writing it.
    let _ = fs::remove_file(path);
}

/// Returns the components of a path without its root and its prefix.
fn without_root(path: &Path) -> PathBuf {
    let components = path.components();
    components.filter(|one| !matches!(one, Component::RootDir | Component::Prefix(_))).collect()
}

/// Returns whether a path has names only, so that it stays below a directory that it is joined to.
fn is_plain_relative(path: &Path) -> bool {
    let mut components = path.components();
    path.file_name().is_some() && components.all(|one| matches!(one, Component::Normal(_)))
}

fn is_plain_absolute(path: &Path) -> bool {
    path.is_absolute() && is_plain_relative(&without_root(path))
}

/// Returns the deepest directory above a path that exists.
fn existing_part(path: &Path) -> PathBuf {
    let existing = path.ancestors().skip(1).find(|directory| directory.is_dir());
    existing.unwrap_or(Path::new("")).to_owned()
}

/// Returns whether something other than a directory is between a directory and a path below it.
fn leads_through_link(base: &Path, target: &Path) -> bool {
    let between = target.ancestors().skip(1).take_while(|path| *path != base);
    let is_other = |path: &Path| path.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir());
    between.filter(|path| !path.as_os_str().is_empty()).any(is_other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_stay_below_the_chosen_directory() {
        for (path, expected) in [
            (".claude/projects/a.jsonl", true),
            ("a", true),
            ("../a", false),
            ("a/../../b", false),
            ("/etc/passwd", false),
            ("", false),
            ("..", false),
        ] {
            assert_eq!(is_plain_relative(Path::new(path)), expected, "{path}");
        }
        assert!(!is_plain_absolute(Path::new("/home/../etc/passwd")));
        assert!(is_plain_absolute(Path::new("/home/mara/a.jsonl")) || cfg!(windows));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_below_the_chosen_directory_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let base = directory.path();
        std::os::unix::fs::symlink(elsewhere.path(), base.join("link")).unwrap();
        fs::create_dir(base.join("folder")).unwrap();
        assert!(leads_through_link(base, &base.join("link/a/b")));
        assert!(!leads_through_link(base, &base.join("folder/a/b")));
    }
}
