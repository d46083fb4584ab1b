//! Finds the projects of agents that write into the directories they work in and keep no list of
//! them.
//!
//! The search is bounded in depth, in directories and in time. It goes through ordinary directories
//! below the home directory, the nearest first, and passes over the ones in which nobody works:
//! hidden directories, third-party code, build output, links and mounted file systems. Its
//! directories change all the time, so a search is not part of a scan: the caller stores the result
//! and searches again from time to time.

use std::collections::VecDeque;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{files, scan_snapshot};

/// Maximum number of directories between the home directory and a project.
const MAX_DEPTH: usize = 6;

/// Maximum number of directories between the top directory of a repository and a project in it.
const MAX_DEPTH_IN_REPOSITORY: usize = 2;

/// Directories that hold third-party files or build output, besides hidden ones.
const SKIPPED: [&str; 11] = [
    "node_modules",
    "bower_components",
    "vendor",
    "site-packages",
    "venv",
    "__pycache__",
    "target",
    "build",
    "dist",
    "cache",
    "Caches",
];

/// Directories directly below the home directory that hold the data of programs, not projects.
const SKIPPED_IN_HOME: [&str; 6] =
    ["Library", "AppData", "Applications", "Application Data", "Local Settings", "snap"];

/// The limits of a search.
#[derive(Clone, Copy, Debug)]
pub struct SearchLimits {
    /// Number of directories to list.
    pub directories: usize,
    /// Time after which the search ends.
    pub time: Duration,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundProjects {
    /// The directories that contain one of the files, sorted.
    pub directories: Vec<PathBuf>,
    /// Whether the search ended before one of its limits was reached.
    pub is_complete: bool,
}

/// A directory that is still to be listed.
struct PendingDirectory {
    path: PathBuf,
    depth: usize,
    /// Number of further levels to search.
    levels: usize,
}

/// Finds the directories below `home`, at any depth within the limits, that contain one of the
/// `names`. A name may have several components, such as `.tool/log.db`. The home directory itself is
/// not a result.
pub fn search_projects(home: &Path, names: &[&str], limits: SearchLimits) -> FoundProjects {
    // The directories must not become part of the snapshot of a scan.
    scan_snapshot::observe_scan(|| search_below(home, names, limits)).0
}

fn search_below(home: &Path, names: &[&str], limits: SearchLimits) -> FoundProjects {
    let (began, device) = (Instant::now(), device_of(home));
    let mut found = FoundProjects { directories: Vec::new(), is_complete: true };
    let mut queue =
        VecDeque::from([PendingDirectory { path: home.to_owned(), depth: 0, levels: MAX_DEPTH }]);
    let mut listed = 0;
    while let Some(directory) = queue.pop_front() {
        if listed == limits.directories || began.elapsed() >= limits.time {
            found.is_complete = false;
            break;
        }
        listed += 1;
        if device_of(&directory.path) != device {
            continue;
        }
        let Ok(entries) = files::observed_listing(&directory.path) else { continue };
        let mut levels = directory.levels;
        let (mut children, mut is_project) = (Vec::new(), false);
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name == ".git" {
                levels = levels.min(MAX_DEPTH_IN_REPOSITORY);
            }
            is_project |= names.iter().any(|wanted| is_present(&entry, &name, wanted));
            if may_enter(&entry, &name, directory.depth) {
                children.push(entry.path());
            }
        }
        if levels > 0 {
            let (depth, levels) = (directory.depth + 1, levels - 1);
            queue.extend(children.into_iter().map(|path| PendingDirectory { path, depth, levels }));
        }
        if is_project && directory.depth > 0 {
            found.directories.push(directory.path);
        }
    }
    found.directories.sort();
    found
}

/// Returns whether the entry `name` of a directory is the file `wanted`, or the directory that
/// contains it.
fn is_present(entry: &DirEntry, name: &str, wanted: &str) -> bool {
    match wanted.split_once('/') {
        None => name == wanted,
        Some((first, rest)) => name == first && files::is_regular_file(&entry.path().join(rest)),
    }
}

fn may_enter(entry: &DirEntry, name: &str, depth: usize) -> bool {
    let is_skipped = name.starts_with('.')
        || SKIPPED.contains(&name)
        || (depth == 0 && SKIPPED_IN_HOME.contains(&name));
    // Links are left out: only they can form loops.
    !is_skipped && entry.file_type().is_ok_and(|kind| kind.is_dir())
}

/// Returns the file system of a directory. A mounted one may be slow, or a whole other machine.
#[cfg(unix)]
fn device_of(directory: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    files::observed_metadata(directory).ok().map(|metadata| metadata.dev())
}

#[cfg(not(unix))]
fn device_of(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LIMITS: SearchLimits =
        SearchLimits { directories: usize::MAX, time: Duration::from_mins(10) };

    struct SearchedHome(tempfile::TempDir);

    impl SearchedHome {
        fn with_files(paths: &[&str]) -> Self {
            let home = tempfile::tempdir().unwrap();
            for path in paths {
                let path = home.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::File::create(path).unwrap();
            }
            Self(home)
        }

        fn found(&self, limits: SearchLimits) -> (Vec<String>, bool) {
            let found = search_projects(self.0.path(), &[".log.md", ".tool/log.db"], limits);
            let names = found.directories.iter().map(|path| path.strip_prefix(self.0.path()));
            let names = names.map(|path| path.unwrap().to_string_lossy().replace('\\', "/"));
            (names.collect(), found.is_complete)
        }
    }

    #[test]
    fn projects_are_found_by_their_files_wherever_people_work() {
        let home = SearchedHome::with_files(&[
            ".log.md",
            "project/.log.md",
            "src/team/api/.tool/log.db",
            "src/team/web/.tool/other.db",
            "src/node_modules/pack/.log.md",
            "project/target/debug/.log.md",
            ".cache/project/.log.md",
            "Library/project/.log.md",
            "src/Library/.log.md",
            "1/2/3/4/5/6/.log.md",
            "1/2/3/4/5/6/7/.log.md",
        ]);
        let expected = ["1/2/3/4/5/6", "project", "src/Library", "src/team/api"];
        assert_eq!(home.found(LIMITS), (expected.map(str::to_owned).into(), true));
    }

    #[test]
    fn a_repository_is_searched_only_near_its_top() {
        let home =
            SearchedHome::with_files(&["big/.git/HEAD", "big/1/2/.log.md", "big/1/2/3/.log.md"]);
        assert_eq!(home.found(LIMITS), (vec!["big/1/2".to_owned()], true));
    }

    #[test]
    fn the_nearest_directories_are_searched_before_a_limit_ends_the_search() {
        let home = SearchedHome::with_files(&["a/b/c/.log.md", "z/.log.md"]);
        let few = SearchLimits { directories: 3, ..LIMITS };
        assert_eq!(home.found(few), (vec!["z".to_owned()], false));
        let no_time = SearchLimits { time: Duration::ZERO, ..LIMITS };
        assert_eq!(home.found(no_time), (Vec::new(), false));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed_and_nothing_is_part_of_a_scan() {
        let home = SearchedHome::with_files(&["a/.log.md"]);
        std::os::unix::fs::symlink(home.0.path(), home.0.path().join("a/loop")).unwrap();
        let (found, snapshot) = scan_snapshot::observe_scan(|| home.found(LIMITS));
        assert_eq!(found, (vec!["a".to_owned()], true));
        assert_eq!(snapshot, scan_snapshot::ScanSnapshot::default());
    }
}
