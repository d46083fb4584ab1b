//! Deletes files that killed processes left in the temporary directory: database copies made by
//! earlier versions, and sessions opened in an editor.
//!
//! Any user may write to that directory. Therefore only files of the same user are touched, no
//! links are followed, and nothing is opened that could block.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Name prefix of the directories with copies, and the file in each that a running process locks.
const COPY_PREFIX: &str = "aj-copy-";
const COPY_LOCK: &str = "lock";

/// Name prefix of session files written for an editor.
const SESSION_PREFIX: &str = "aj-session-";

/// Minimum age of a session file before it is deleted. An editor may keep it open for some time.
const OLD: Duration = Duration::from_hours(24);

/// Deletes leftover files. Files that cannot be deleted remain until the next sweep.
pub(crate) fn sweep_leftovers() {
    // The directory in which `tempfile` creates files.
    sweep_in(&tempfile::env::temp_dir());
}

fn sweep_in(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        let path = entry.path();
        if name.starts_with(COPY_PREFIX.as_bytes()) {
            drop(sweep_copy(&path));
        } else if name.starts_with(SESSION_PREFIX.as_bytes()) {
            drop(sweep_session(&path));
        }
    }
}

fn sweep_copy(directory: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(directory)?;
    if !metadata.is_dir() || !is_owned_by_user(&metadata) {
        return Ok(());
    }
    let lock = open_own_file(&directory.join(COPY_LOCK))?;
    lock.try_lock()?;
    // Windows cannot delete an open file.
    #[cfg(windows)]
    drop(lock);
    fs::remove_dir_all(directory)
}

#[expect(clippy::disallowed_methods, reason = "a temporary file of this program's own")]
fn sweep_session(path: &Path) -> io::Result<()> {
    let file = open_own_file(path)?;
    let age = SystemTime::now().duration_since(file.metadata()?.modified()?);
    if !age.is_ok_and(|age| age > OLD) {
        return Ok(());
    }
    // Windows cannot delete an open file.
    #[cfg(windows)]
    drop(file);
    fs::remove_file(path)
}

/// Opens a regular file of this user. Does not follow links, and does not block on a pipe.
fn open_own_file(path: &Path) -> io::Result<File> {
    let seen = fs::symlink_metadata(path)?;
    if !seen.is_file() || !is_owned_by_user(&seen) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut options = fs::OpenOptions::new();
    options.read(true);
    #[cfg(windows)]
    options.write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    // The file may have been replaced meanwhile.
    let opened = file.metadata()?;
    if opened.is_file() && is_owned_by_user(&opened) {
        return Ok(file);
    }
    Err(io::ErrorKind::PermissionDenied.into())
}

/// Returns whether a file belongs to the user who runs this program.
#[cfg(unix)]
fn is_owned_by_user(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(metadata) == rustix::process::geteuid().as_raw()
}

/// Returns `true`: the temporary directory belongs to the user.
#[cfg(not(unix))]
fn is_owned_by_user(_metadata: &fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a copy like earlier versions did, and holds its lock.
    fn copy(directory: &Path, name: &str) -> File {
        let copy = directory.join(name);
        fs::create_dir(&copy).unwrap();
        File::create(copy.join("copy.db")).unwrap();
        let lock = File::create(copy.join(COPY_LOCK)).unwrap();
        lock.lock().unwrap();
        lock
    }

    #[test]
    fn copies_of_the_dead_are_swept_and_those_of_the_living_stay() {
        let place = tempfile::tempdir().unwrap();
        drop(copy(place.path(), "aj-copy-dead"));
        let living = copy(place.path(), "aj-copy-living");
        fs::create_dir(place.path().join("aj-copy-unlocked")).unwrap();
        sweep_in(place.path());
        let is_there = |name: &str| place.path().join(name).exists();
        assert!(!is_there("aj-copy-dead"));
        assert!(is_there("aj-copy-living") && is_there("aj-copy-unlocked"));
        drop(living);
    }

    #[test]
    fn sessions_for_an_editor_are_swept_when_they_are_old() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, age: Duration| {
            let file = File::create(place.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        };
        make("aj-session-old.md", 2 * OLD);
        make("aj-session-new.md", OLD / 2);
        make("mine.md", 2 * OLD);
        sweep_in(place.path());
        let is_there = |name: &str| place.path().join(name).exists();
        assert!(!is_there("aj-session-old.md"));
        assert!(is_there("aj-session-new.md") && is_there("mine.md"));
    }

    #[cfg(unix)]
    #[test]
    fn pipes_and_links_in_their_place_are_left_alone() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let pipe = |path: &Path| {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
        };
        fs::create_dir(place.path().join("aj-copy-pipe")).unwrap();
        pipe(&place.path().join("aj-copy-pipe/lock"));
        pipe(&place.path().join("aj-session-pipe.md"));
        let elsewhere = tempfile::tempdir().unwrap();
        drop(copy(elsewhere.path(), "kept"));
        symlink(elsewhere.path().join("kept"), place.path().join("aj-copy-link")).unwrap();
        symlink(elsewhere.path().join("kept/copy.db"), place.path().join("aj-session-l")).unwrap();
        sweep_in(place.path());
        assert!(place.path().join("aj-copy-pipe/lock").exists());
        assert!(elsewhere.path().join("kept/copy.db").exists());
    }
}
