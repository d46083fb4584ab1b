//! Files and directories, looked at without touching them.

use std::fs::{self, Metadata, ReadDir};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

use super::sight::{self, Sight};
use crate::connectors::{Source, Stamp};
use crate::error::{Error, Result};

/// Deeper trees than this are loops or not an agent's.
const MAX_DEPTH: usize = 24;

impl Stamp {
    /// Looks at one file.
    pub fn of(metadata: &Metadata) -> Self {
        let modified = metadata.modified().ok().and_then(|time| {
            let since = time.duration_since(UNIX_EPOCH).ok()?;
            i64::try_from(since.as_nanos()).ok()
        });
        Self { size: metadata.len(), modified: modified.unwrap_or(0), inode: inode(metadata) }
    }

    /// Takes a companion file into account, present or not.
    #[must_use]
    pub fn with(self, companion: &Path) -> Self {
        metadata(companion).map_or(self, |metadata| self.and(Self::of(&metadata)))
    }

    /// Takes the stamp of a companion file into account.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            size: self.size.wrapping_add(other.size),
            modified: self.modified.max(other.modified),
            inode: self.inode.wrapping_mul(31).wrapping_add(other.inode),
        }
    }
}

/// Looks at a file or folder whose state counts.
pub fn metadata(path: &Path) -> io::Result<Metadata> {
    let seen = fs::metadata(path);
    sight::note(path, &seen);
    seen
}

/// Lists a folder.
pub fn list(path: &Path) -> io::Result<ReadDir> {
    // Looked at before it is listed: what comes in between is seen the next time.
    if sight::is_watched() {
        sight::note(path, &fs::metadata(path));
    }
    fs::read_dir(path)
}

/// Whether there is anything at a path.
pub fn exists(path: &Path) -> bool {
    has(path, |_| true)
}

/// Whether a path leads to a folder.
pub fn is_dir(path: &Path) -> bool {
    has(path, Metadata::is_dir)
}

/// Whether a path leads to a regular file.
pub fn is_file(path: &Path) -> bool {
    has(path, Metadata::is_file)
}

fn has(path: &Path, kind: impl FnOnce(&Metadata) -> bool) -> bool {
    let seen = fs::metadata(path);
    sight::note_kind(path, &seen);
    seen.is_ok_and(|metadata| kind(&metadata))
}

/// Makes a source of a regular file; `None` when it is anything else or gone.
pub fn source(path: PathBuf) -> Option<Source> {
    let metadata = metadata(&path).ok().filter(Metadata::is_file)?;
    Some(Source { stamp: Stamp::of(&metadata), path })
}

/// Lists every regular file below `root` whose name passes, in a stable order. Links are
/// followed, loops are not; sockets, pipes and devices are never opened. A directory that cannot
/// be read is an error only when it is the root itself.
pub fn walk(root: &Path, wanted: &(dyn Fn(&str) -> bool + Sync)) -> Result<Vec<Source>> {
    walk_through(root, wanted, &|_, folder| folder)
}

/// Lists files like [`walk`], in trees whose layout is known: `enter` is asked for every folder,
/// by its depth below the root (the root's own folders have 0), and says where in it to go on.
pub fn walk_through(
    root: &Path,
    wanted: &(dyn Fn(&str) -> bool + Sync),
    enter: &(dyn Fn(usize, PathBuf) -> PathBuf + Sync),
) -> Result<Vec<Source>> {
    let mut top = Walk { wanted, enter, found: Vec::new(), folders: Vec::new() };
    top.list(list(root).map_err(Error::read(root))?);
    let (mut found, folders) = (top.found, top.folders);
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let is_watched = sight::is_watched();
    let work = || {
        let mut walk = Walk { wanted, enter, found: Vec::new(), folders: Vec::new() };
        while let Some(folder) = folders.get(next.fetch_add(1, Ordering::Relaxed)) {
            walk.below(folder);
        }
        walk.found
    };
    let watched = || if is_watched { sight::watch(work) } else { (work(), Sight::default()) };
    std::thread::scope(|scope| {
        // A handful of folders is read sooner than a thread is started.
        let threads = workers.min(folders.len() / 4);
        let threads: Vec<_> = (1..threads).map(|_| scope.spawn(watched)).collect();
        found.extend(work());
        for thread in threads {
            let done = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            found.extend(done.0);
            sight::join(&done.1);
        }
    });
    // As bytes: comparing paths part by part costs more than the walk.
    found.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    Ok(found)
}

/// Lists files like [`walk`], but only those inside the directories called `inner` of the
/// directories in `root`; `root` may also be the one around such a directory, or the directory
/// itself.
pub fn walk_in(
    root: &Path,
    inner: &str,
    wanted: &(dyn Fn(&str) -> bool + Sync),
) -> Result<Vec<Source>> {
    if root.file_name().is_some_and(|name| name == inner) {
        return walk(root, wanted);
    }
    let children = list(root).map_err(Error::read(root))?.flatten();
    let around = std::iter::once(root.to_owned()).chain(children.map(|entry| entry.path()));
    let mut found = Vec::new();
    for directory in around.map(|path| path.join(inner)).filter(|path| is_dir(path)) {
        // A directory that cannot be read does not hide the others.
        found.extend(walk(&directory, wanted).unwrap_or_default());
    }
    found.sort_by(|a: &Source, b| a.path.cmp(&b.path));
    Ok(found)
}

/// A walk through one part of a tree.
struct Walk<'w> {
    wanted: &'w (dyn Fn(&str) -> bool + Sync),
    enter: &'w (dyn Fn(usize, PathBuf) -> PathBuf + Sync),
    found: Vec<Source>,
    /// Folders still to be looked into.
    folders: Vec<Folder>,
}

struct Folder {
    path: PathBuf,
    /// Folders that links led through on the way here: coming back to one is a loop.
    through: Vec<u64>,
    depth: usize,
}

impl Walk<'_> {
    /// Looks through a folder and everything below it.
    fn below(&mut self, folder: &Folder) {
        let mut stack = vec![Folder {
            path: folder.path.clone(),
            through: folder.through.clone(),
            depth: folder.depth,
        }];
        while let Some(folder) = stack.pop() {
            let place = (self.enter)(folder.depth, folder.path);
            let Ok(entries) = list(&place) else { continue };
            self.list(entries);
            for mut child in self.folders.drain(..) {
                child.depth = folder.depth + 1;
                let loops = child.through.iter().any(|inode| folder.through.contains(inode));
                if child.depth < MAX_DEPTH && !loops {
                    child.through.extend(&folder.through);
                    stack.push(child);
                }
            }
        }
    }

    /// Notes the files and folders of one listing.
    fn list(&mut self, entries: fs::ReadDir) {
        for entry in entries.flatten() {
            let Ok(file_type) = entry.file_type() else { continue };
            if file_type.is_dir() {
                self.folders.push(Folder { path: entry.path(), through: Vec::new(), depth: 0 });
            } else if file_type.is_symlink() {
                self.follow(entry.path());
            } else if file_type.is_file() && (self.wanted)(&entry.file_name().to_string_lossy()) {
                let path = entry.path();
                let seen = look(&entry, &path);
                sight::note(&path, &seen);
                let Ok(metadata) = seen else { continue };
                self.found.push(Source { stamp: Stamp::of(&metadata), path });
            }
        }
    }

    fn follow(&mut self, path: PathBuf) {
        let seen = fs::metadata(&path);
        sight::note_kind(&path, &seen);
        let Ok(metadata) = seen else { return };
        if metadata.is_dir() {
            self.folders.push(Folder { path, through: vec![inode(&metadata)], depth: 0 });
        } else if metadata.is_file()
            && path.file_name().is_some_and(|name| (self.wanted)(&name.to_string_lossy()))
        {
            sight::note(&path, &Ok(metadata.clone()));
            self.found.push(Source { stamp: Stamp::of(&metadata), path });
        }
    }
}

/// Looks at a listed file. Where a listing tells how large a file was when it was last closed, the
/// file itself is asked.
fn look(entry: &fs::DirEntry, path: &Path) -> std::io::Result<Metadata> {
    if cfg!(windows) { fs::metadata(path) } else { entry.metadata() }
}

/// Reads a small companion file whole; `None` when it is absent, too large or no regular file.
pub fn small_text(path: &Path, limit: u64) -> Option<String> {
    let metadata = metadata(path).ok()?;
    if metadata.len() > limit { None } else { text_up_to(path, limit) }
}

/// Reads a companion file up to a limit, and says so at the end when that cut it.
pub fn text_up_to(path: &Path, limit: u64) -> Option<String> {
    let metadata = metadata(path).ok().filter(Metadata::is_file)?;
    let mut bytes = Vec::with_capacity(metadata.len().min(limit) as usize);
    fs::File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if metadata.len() > limit {
        text.push_str(&format!("\n[cut: {} bytes in all]", metadata.len()));
    }
    Some(text)
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.ino()
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}
