//! Read-only access to files and directories for connectors. Every stat and listing is recorded for
//! the scan snapshot.

use std::fs::{self, Metadata, ReadDir};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

use super::scan_snapshot::{self, ScanSnapshot};
use super::source_file::{SourceFile, stored_files};
use crate::connectors::{Source, Stamp};
use crate::error::{Error, Result};

/// Depth limit of a walk. Deeper trees are loops, or not an agent's.
const MAX_DEPTH: usize = 24;

impl Stamp {
    /// Creates a stamp from a file's metadata.
    pub fn from_metadata(metadata: &Metadata) -> Self {
        let modified = metadata.modified().ok().and_then(|time| {
            let since = time.duration_since(UNIX_EPOCH).ok()?;
            i64::try_from(since.as_nanos()).ok()
        });
        Self {
            size: metadata.len(),
            modified: modified.unwrap_or(0),
            inode: inode_number(metadata),
        }
    }

    /// Combines the stamp with that of a companion file, if the file exists.
    #[must_use]
    pub fn with_companion(self, companion: &Path) -> Self {
        observed_metadata(companion)
            .map_or(self, |metadata| self.combine_stamps(Self::from_metadata(&metadata)))
    }

    /// Combines the stamp with that of a companion file.
    #[must_use]
    pub fn combine_stamps(self, other: Self) -> Self {
        Self {
            size: self.size.wrapping_add(other.size),
            modified: self.modified.max(other.modified),
            inode: self.inode.wrapping_mul(31).wrapping_add(other.inode),
        }
    }
}

/// Reads the metadata of a file or directory and records its state for the scan snapshot.
pub fn observed_metadata(path: &Path) -> io::Result<Metadata> {
    let seen = fs::metadata(path);
    scan_snapshot::note_path_state(path, &seen);
    seen
}

/// Lists a directory and records its state for the scan snapshot.
pub fn observed_listing(path: &Path) -> io::Result<ReadDir> {
    // The state is read before the listing, so that the next check detects a change in between.
    if scan_snapshot::is_watched() {
        scan_snapshot::note_path_state(path, &fs::metadata(path));
    }
    fs::read_dir(path)
}

/// Lists the entries of a directory, sorted by path. While stored files are read, their copies are
/// listed too.
pub fn directory_entries(path: &Path) -> io::Result<Vec<PathBuf>> {
    let stored = stored_below(path);
    let mut entries: Vec<PathBuf> = match observed_listing(path) {
        Ok(listing) => listing.flatten().map(|entry| entry.path()).collect(),
        Err(error) if stored.is_empty() => return Err(error),
        Err(_) => Vec::new(),
    };
    let names = stored.iter().filter_map(|file| file.strip_prefix(path).ok()?.iter().next());
    entries.extend(names.map(|name| path.join(name)));
    entries.sort();
    entries.dedup();
    Ok(entries)
}

/// Lists the stored files below a directory; empty unless stored files are read.
fn stored_below(directory: &Path) -> Vec<PathBuf> {
    stored_files().map(|files| files.stored_below(directory)).unwrap_or_default()
}

/// Returns whether there is a stored copy of a file.
fn is_stored(path: &Path) -> bool {
    stored_files().is_some_and(|files| matches!(files.open_stored(path), Ok(Some(_))))
}

/// Returns whether a path exists.
pub fn path_exists(path: &Path) -> bool {
    observed_metadata_is(path, |_| true) || is_stored(path) || !stored_below(path).is_empty()
}

/// Returns whether a path leads to a directory.
pub fn is_dir(path: &Path) -> bool {
    observed_metadata_is(path, Metadata::is_dir) || !stored_below(path).is_empty()
}

/// Returns whether a path leads to a regular file.
pub fn is_regular_file(path: &Path) -> bool {
    observed_metadata_is(path, Metadata::is_file) || is_stored(path)
}

fn observed_metadata_is(path: &Path, kind: impl FnOnce(&Metadata) -> bool) -> bool {
    let seen = fs::metadata(path);
    scan_snapshot::note_kind(path, &seen);
    seen.is_ok_and(|metadata| kind(&metadata))
}

/// Creates a source from a regular file. `None` when the path is missing or anything else.
pub fn source_from_file(path: PathBuf) -> Option<Source> {
    let metadata = observed_metadata(&path).ok().filter(Metadata::is_file)?;
    Some(Source { stamp: Stamp::from_metadata(&metadata), path })
}

/// Lists all regular files below `root` whose name passes `wanted`, in a stable order. Follows
/// links, but not loops; never opens sockets, pipes or devices. An unreadable directory is an error
/// only if it is the root itself.
pub fn walk_files(root: &Path, wanted: &(dyn Fn(&str) -> bool + Sync)) -> Result<Vec<Source>> {
    let stored = stored_below(root);
    if stored.is_empty() {
        return walk_through(root, wanted, &|_, folder| folder);
    }
    let mut found = walk_through(root, wanted, &|_, folder| folder).unwrap_or_default();
    let is_wanted =
        |path: &PathBuf| path.file_name().is_some_and(|name| wanted(&name.to_string_lossy()));
    let stored = stored.into_iter().filter(is_wanted);
    found.extend(stored.map(|path| Source { path, stamp: Stamp::default() }));
    found.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    found.dedup_by(|a, b| a.path == b.path);
    Ok(found)
}

/// Lists files like `walk_files`, in trees with a known layout. `enter` maps each directory,
/// given its depth below the root (0 for the root's own directories), to the directory to continue
/// in.
pub fn walk_through(
    root: &Path,
    wanted: &(dyn Fn(&str) -> bool + Sync),
    enter: &(dyn Fn(usize, PathBuf) -> PathBuf + Sync),
) -> Result<Vec<Source>> {
    let mut top = TreeWalk { wanted, enter, found: Vec::new(), folders: Vec::new() };
    top.collect_listing(observed_listing(root).map_err(Error::read(root))?);
    let (mut found, folders) = (top.found, top.folders);
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let is_watched = scan_snapshot::is_watched();
    let work = || {
        let mut walk = TreeWalk { wanted, enter, found: Vec::new(), folders: Vec::new() };
        while let Some(folder) = folders.get(next.fetch_add(1, Ordering::Relaxed)) {
            walk.walk_folder(folder);
        }
        walk.found
    };
    let watched = || {
        if is_watched {
            scan_snapshot::observe_scan(work)
        } else {
            (work(), ScanSnapshot::default())
        }
    };
    std::thread::scope(|scope| {
        // Reading a few directories takes less time than starting a thread.
        let threads = workers.min(folders.len() / 4);
        let threads: Vec<_> = (1..threads).map(|_| scope.spawn(watched)).collect();
        found.extend(work());
        for thread in threads {
            let done = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            found.extend(done.0);
            scan_snapshot::merge_snapshot(&done.1);
        }
    });
    // Compared as bytes: comparing paths by component takes longer than the walk.
    found.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    Ok(found)
}

/// Lists files like `walk_files`, but only those inside directories named `inner` of the
/// directories in `root`. `root` may also be the parent of such a directory, or the directory
/// itself.
pub fn walk_in(
    root: &Path,
    inner: &str,
    wanted: &(dyn Fn(&str) -> bool + Sync),
) -> Result<Vec<Source>> {
    if root.file_name().is_some_and(|name| name == inner) {
        return walk_files(root, wanted);
    }
    let children = observed_listing(root).map_err(Error::read(root))?.flatten();
    let around = std::iter::once(root.to_owned()).chain(children.map(|entry| entry.path()));
    let mut found = Vec::new();
    for directory in around.map(|path| path.join(inner)).filter(|path| is_dir(path)) {
        // An unreadable directory does not hide the others.
        found.extend(walk_files(&directory, wanted).unwrap_or_default());
    }
    found.sort_by(|a: &Source, b| a.path.cmp(&b.path));
    Ok(found)
}

/// A walk through one part of a tree.
struct TreeWalk<'w> {
    wanted: &'w (dyn Fn(&str) -> bool + Sync),
    enter: &'w (dyn Fn(usize, PathBuf) -> PathBuf + Sync),
    found: Vec<Source>,
    /// Directories that still have to be listed.
    folders: Vec<PendingFolder>,
}

struct PendingFolder {
    path: PathBuf,
    /// Inodes of directories reached through links on the way here. Reaching one again is a loop.
    through: Vec<u64>,
    depth: usize,
}

impl TreeWalk<'_> {
    /// Walks a directory and everything below it.
    fn walk_folder(&mut self, folder: &PendingFolder) {
        let mut stack = vec![PendingFolder {
            path: folder.path.clone(),
            through: folder.through.clone(),
            depth: folder.depth,
        }];
        while let Some(folder) = stack.pop() {
            let place = (self.enter)(folder.depth, folder.path);
            let Ok(entries) = observed_listing(&place) else { continue };
            self.collect_listing(entries);
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

    /// Collects the files and directories of one listing.
    fn collect_listing(&mut self, entries: fs::ReadDir) {
        for entry in entries.flatten() {
            let Ok(file_type) = entry.file_type() else { continue };
            if file_type.is_dir() {
                self.folders.push(PendingFolder {
                    path: entry.path(),
                    through: Vec::new(),
                    depth: 0,
                });
            } else if file_type.is_symlink() {
                self.follow_link(entry.path());
            } else if file_type.is_file() && (self.wanted)(&entry.file_name().to_string_lossy()) {
                let path = entry.path();
                let seen = listed_file_metadata(&entry, &path);
                scan_snapshot::note_path_state(&path, &seen);
                let Ok(metadata) = seen else { continue };
                self.found.push(Source { stamp: Stamp::from_metadata(&metadata), path });
            }
        }
    }

    fn follow_link(&mut self, path: PathBuf) {
        let seen = fs::metadata(&path);
        scan_snapshot::note_kind(&path, &seen);
        let Ok(metadata) = seen else { return };
        if metadata.is_dir() {
            self.folders.push(PendingFolder {
                path,
                through: vec![inode_number(&metadata)],
                depth: 0,
            });
        } else if metadata.is_file()
            && path.file_name().is_some_and(|name| (self.wanted)(&name.to_string_lossy()))
        {
            scan_snapshot::note_path_state(&path, &Ok(metadata.clone()));
            self.found.push(Source { stamp: Stamp::from_metadata(&metadata), path });
        }
    }
}

/// Reads the metadata of a listed file. On Windows a listing has the size at the last close, so the
/// file itself is queried.
fn listed_file_metadata(entry: &fs::DirEntry, path: &Path) -> std::io::Result<Metadata> {
    if cfg!(windows) { fs::metadata(path) } else { entry.metadata() }
}

/// Reads a small companion file. `None` when it is absent, too large or not a regular file.
pub fn small_text(path: &Path, limit: u64) -> Option<String> {
    let file = observed_file(path)?;
    if file.size().ok()? > limit { None } else { read_text(file, limit) }
}

/// Reads a companion file up to `limit` bytes and appends a note if it was cut.
pub fn text_up_to(path: &Path, limit: u64) -> Option<String> {
    read_text(observed_file(path)?, limit)
}

/// Opens a regular file and records its state for the scan snapshot. Anything else is not opened: a
/// pipe would block.
fn observed_file(path: &Path) -> Option<SourceFile> {
    let is_file = observed_metadata(path).is_ok_and(|metadata| metadata.is_file());
    if is_file || is_stored(path) { SourceFile::open(path).ok() } else { None }
}

fn read_text(file: SourceFile, limit: u64) -> Option<String> {
    let size = file.size().ok()?;
    let mut bytes = Vec::with_capacity(size.min(limit) as usize);
    file.take(limit).read_to_end(&mut bytes).ok()?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if size > limit {
        text.push_str(&format!("\n[cut: {size} bytes in all]"));
    }
    Some(text)
}

#[cfg(unix)]
fn inode_number(metadata: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.ino()
}

#[cfg(not(unix))]
fn inode_number(_: &Metadata) -> u64 {
    0
}
