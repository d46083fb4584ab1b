//! The projects of agents that keep no list of them. Only a search below the home directory finds
//! these projects, so its result is stored, and the search is repeated from time to time.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use xxhash_rust::xxh3::Xxh3;

use crate::config::Config;
use crate::connectors::formats::project_search::{SearchLimits, search_projects};
use crate::connectors::{ALL, Machine};

/// First bytes of the stored result, which identify its format.
const RESULT_MARK: &[u8; 8] = b"ajproj1\n";

/// Age at which a command that answers repeats the search.
const MAX_AGE: Duration = Duration::from_hours(1);

/// Limits of the search of a command that answers. In a debug build it has no practical time limit,
/// because tests check its result, not the speed of a machine.
const QUICK: SearchLimits = SearchLimits {
    directories: 20_000,
    time: Duration::from_millis(if cfg!(debug_assertions) { 600_000 } else { 200 }),
};

/// Limits of the search of a command that reads everything.
const THOROUGH: SearchLimits = SearchLimits { directories: 500_000, time: Duration::from_secs(20) };

/// The extent of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchEffort {
    /// Search the nearest directories, and only if the last search is too long ago.
    Quick,
    /// Search now, and as far as projects usually are.
    Thorough,
}

/// A search for the projects of agents that keep no list of them.
pub(crate) struct ProjectSearch {
    home: PathBuf,
    /// The files by which projects are recognised.
    names: Vec<&'static str>,
    /// The stored result.
    path: PathBuf,
}

/// The stored result of a search.
struct StoredProjects {
    directories: Vec<PathBuf>,
    is_old: bool,
}

impl ProjectSearch {
    pub(crate) fn new(config: &Config, machine: &Machine) -> Self {
        Self { home: machine.home.clone(), names: project_files(config), path: result_path(config) }
    }

    /// Returns the projects that the last search found, or searches if there was none.
    pub(crate) fn known_projects(&self) -> Vec<PathBuf> {
        match self.read_result() {
            _ if self.names.is_empty() => Vec::new(),
            Some(known) => known.directories,
            None => search_projects(&self.home, &self.names, QUICK).directories,
        }
    }

    /// Returns the projects, and repeats the search as `effort` demands.
    pub(crate) fn current_projects(&self, effort: SearchEffort) -> Vec<PathBuf> {
        if self.names.is_empty() {
            return Vec::new();
        }
        let known = self.read_result();
        let limits = match (effort, &known) {
            (SearchEffort::Thorough, _) => THOROUGH,
            (SearchEffort::Quick, Some(known)) if !known.is_old => {
                return known.directories.clone();
            }
            (SearchEffort::Quick, _) => QUICK,
        };
        let found = search_projects(&self.home, &self.names, limits);
        let mut directories = found.directories;
        if !found.is_complete {
            // An earlier search may have gone further.
            directories.extend(known.map(|known| known.directories).unwrap_or_default());
            directories.sort();
            directories.dedup();
        }
        self.write_result(&directories);
        directories
    }

    fn read_result(&self) -> Option<StoredProjects> {
        let (bytes, is_old) = read_bytes_and_age(&self.path)?;
        let (question, body) = bytes.strip_prefix(RESULT_MARK)?.split_first_chunk()?;
        if u64::from_le_bytes(*question) != self.question() {
            return None;
        }
        let names = std::str::from_utf8(body).ok()?.split_terminator('\0');
        Some(StoredProjects {
            directories: names.map(|name| self.home.join(name)).collect(),
            is_old,
        })
    }

    /// Stores a result. It only saves time, so write errors are ignored.
    fn write_result(&self, directories: &[PathBuf]) {
        let mut bytes = RESULT_MARK.to_vec();
        bytes.extend(self.question().to_le_bytes());
        let below =
            directories.iter().filter_map(|path| path.strip_prefix(&self.home).ok()?.to_str());
        for name in below {
            bytes.extend(name.as_bytes());
            bytes.push(0);
        }
        let write = || {
            let directory = self.path.parent().unwrap_or(Path::new("."));
            let mut file = tempfile::NamedTempFile::new_in(directory)?;
            file.write_all(&bytes)?;
            file.persist(&self.path).map_err(|error| error.error)
        };
        drop(write());
    }

    /// Returns a hash of the home directory and the names. The result of another search is ignored.
    fn question(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(self.home.as_os_str().as_encoded_bytes());
        for name in &self.names {
            hash.update(b"\0");
            hash.update(name.as_bytes());
        }
        hash.digest()
    }
}

/// Returns whether the next change check repeats the search.
pub(super) fn is_search_due(config: &Config) -> bool {
    !project_files(config).is_empty()
        && read_bytes_and_age(&result_path(config)).is_none_or(|(_, is_old)| is_old)
}

fn result_path(config: &Config) -> PathBuf {
    config.journal_dir.join("found_projects")
}

/// Lists the files by which projects are recognised. Configured directories of an agent replace the
/// search for its projects.
fn project_files(config: &Config) -> Vec<&'static str> {
    let searched = ALL.iter().filter(|one| !config.sources.contains_key(one.agent().id));
    searched.flat_map(|connector| connector.project_files()).copied().collect()
}

/// Reads a file. Returns its content and whether it is too old to be used without a new search.
fn read_bytes_and_age(path: &Path) -> Option<(Vec<u8>, bool)> {
    let mut file = std::fs::File::open(path).ok()?;
    let modified = file.metadata().ok()?.modified().ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    // A time in the future is wrong, and therefore old.
    let age = SystemTime::now().duration_since(modified);
    Some((bytes, age.map_or(true, |age| age >= MAX_AGE)))
}
