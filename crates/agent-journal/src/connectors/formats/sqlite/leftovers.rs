//! Deletes what processes left in the temporary directory when they were killed: copies of
//! databases that earlier versions made, and sessions that were given to an editor.
//!
//! Anybody may write to that directory. So only what belongs to the same user is touched, nothing
//! is followed through a link, and nothing is opened that could make the program wait.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What the directories of copies are called, and the file in each that a living process locks.
const COPY_PREFIX: &str = "aj-copy-";
const COPY_LOCK: &str = "lock";

/// What a session is called that the program wrote down for an editor.
const SESSION_PREFIX: &str = "aj-session-";

/// How old such a session must be: an editor may have it open for some time.
const OLD: Duration = Duration::from_hours(24);

/// Deletes what was left behind. What cannot be deleted stays for another time.
pub(crate) fn sweep() {
    // The directory in which `tempfile` makes files.
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
    if !metadata.is_dir() || !is_own(&metadata) {
        return Ok(());
    }
    let lock = open_own_file(&directory.join(COPY_LOCK))?;
    lock.try_lock()?;
    // Where an open file cannot be deleted.
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
    // Where an open file cannot be deleted.
    #[cfg(windows)]
    drop(file);
    fs::remove_file(path)
}

/// Opens a regular file of this user: no link is followed, and a pipe in its place is not waited
/// for.
fn open_own_file(path: &Path) -> io::Result<File> {
    let seen = fs::symlink_metadata(path)?;
    if !seen.is_file() || !is_own(&seen) {
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
    // It may have been replaced meanwhile.
    let opened = file.metadata()?;
    if opened.is_file() && is_own(&opened) {
        return Ok(file);
    }
    Err(io::ErrorKind::PermissionDenied.into())
}

/// Returns whether a file belongs to the user who runs this program.
#[cfg(unix)]
fn is_own(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(metadata) == rustix::process::geteuid().as_raw()
}

/// The temporary directory is the user's own.
#[cfg(not(unix))]
fn is_own(_metadata: &fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a copy as earlier versions did, with its lock held.
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
