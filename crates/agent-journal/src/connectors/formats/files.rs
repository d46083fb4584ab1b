//! Files and directories, looked at without touching them.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

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
        let Ok(metadata) = fs::metadata(companion) else { return self };
        let other = Self::of(&metadata);
        Self {
            size: self.size.wrapping_add(other.size),
            modified: self.modified.max(other.modified),
            inode: self.inode.wrapping_mul(31).wrapping_add(other.inode),
        }
    }
}

/// Makes a source of a regular file; `None` when it is anything else or gone.
pub fn source(path: PathBuf) -> Option<Source> {
    let metadata = fs::metadata(&path).ok().filter(Metadata::is_file)?;
    Some(Source { stamp: Stamp::of(&metadata), path })
}

/// Lists every regular file below `root` whose name passes, in a stable order. Links are
/// followed, loops are not; sockets, pipes and devices are never opened. A directory that cannot
/// be read is an error only when it is the root itself.
pub fn walk(root: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let entries = fs::read_dir(root).map_err(Error::read(root))?;
    visit(entries, wanted, &mut Visit { found: &mut found, seen: &mut seen, depth: 0 });
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Lists files like [`walk`], but only those inside the directories called `inner` of the
/// directories in `root`; `root` may also be the one around such a directory, or the directory
/// itself.
pub fn walk_in(root: &Path, inner: &str, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Source>> {
    if root.file_name().is_some_and(|name| name == inner) {
        return walk(root, wanted);
    }
    let children = fs::read_dir(root).map_err(Error::read(root))?.flatten();
    let around = std::iter::once(root.to_owned()).chain(children.map(|entry| entry.path()));
    let mut found = Vec::new();
    for directory in around.map(|path| path.join(inner)).filter(|path| path.is_dir()) {
        // A directory that cannot be read does not hide the others.
        found.extend(walk(&directory, wanted).unwrap_or_default());
    }
    found.sort_by(|a: &Source, b| a.path.cmp(&b.path));
    Ok(found)
}

struct Visit<'a> {
    found: &'a mut Vec<Source>,
    seen: &'a mut HashSet<(u64, u64)>,
    depth: usize,
}

fn visit(entries: fs::ReadDir, wanted: &dyn Fn(&str) -> bool, visit_state: &mut Visit<'_>) {
    for entry in entries.flatten() {
        let Ok(file_type) = entry.file_type() else { continue };
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if file_type.is_dir() || file_type.is_symlink() {
            let path = entry.path();
            let Ok(metadata) = fs::metadata(&path) else { continue };
            if metadata.is_file() && wanted(&name) {
                visit_state.found.push(Source { stamp: Stamp::of(&metadata), path });
            } else if metadata.is_dir() {
                descend(&path, &metadata, file_type.is_symlink(), wanted, visit_state);
            }
        } else if file_type.is_file() && wanted(&name) {
            let Ok(metadata) = entry.metadata() else { continue };
            visit_state.found.push(Source { stamp: Stamp::of(&metadata), path: entry.path() });
        }
    }
}

fn descend(
    path: &Path,
    metadata: &Metadata,
    linked: bool,
    wanted: &dyn Fn(&str) -> bool,
    state: &mut Visit<'_>,
) {
    // Only links can lead back: real directories form a tree.
    if linked && !state.seen.insert((inode(metadata), metadata.len())) {
        return;
    }
    if state.depth >= MAX_DEPTH {
        return;
    }
    let Ok(entries) = fs::read_dir(path) else { return };
    state.depth += 1;
    visit(entries, wanted, state);
    state.depth -= 1;
}

/// Reads a small companion file whole; `None` when it is absent, too large or no regular file.
pub fn small_text(path: &Path, limit: u64) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    if metadata.len() > limit { None } else { text_up_to(path, limit) }
}

/// Reads a companion file up to a limit, and says so at the end when that cut it.
pub fn text_up_to(path: &Path, limit: u64) -> Option<String> {
    let metadata = fs::metadata(path).ok().filter(Metadata::is_file)?;
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
