//! Plans a sync: finds the changes since the last scan.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::connectors::formats::{files, glob};
use crate::connectors::{Connector, Machine, Source, all_connectors, find_connector};
use crate::error::Result;
use crate::store::{KeptSource, SourceHome, SourceRow, Store, reader_version};

/// The changes that a sync applies.
#[derive(Default)]
pub(crate) struct Plan {
    /// Sources to read, the newest first.
    pub(crate) changed: Vec<FoundSource>,
    /// Row ids of sources that no longer exist.
    pub(crate) gone: Vec<i64>,
    /// Row ids of sources that exist again.
    pub(crate) returned: Vec<i64>,
    /// Whether another reader version read sources that cannot be read again from the disk. Only a
    /// sync without a time limit is made for them alone.
    pub(crate) has_outdated: bool,
    /// Roots that could not be scanned, with the reason.
    pub(crate) failures: Vec<(String, String)>,
}

/// A source that the scan found.
pub(crate) struct FoundSource {
    pub(crate) connector: &'static dyn Connector,
    pub(crate) source: Source,
    pub(crate) home: SourceHome,
}

/// A home to scan.
pub(super) struct ScannedHome<'a> {
    machine: &'a Machine,
    pub(super) home: SourceHome,
    /// Roots that the user configured; they apply only to the user's own home.
    named: Option<&'a Vec<PathBuf>>,
}

/// A directory or file in which an agent keeps sessions.
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    /// Whether the user configured it.
    pub(crate) configured: bool,
}

/// Lists the roots of an agent on a machine and in the additional homes.
pub(crate) fn roots(connector: &dyn Connector, config: &Config, machine: &Machine) -> Vec<Root> {
    scanned_homes(connector, config, machine).flat_map(|look| look.roots(connector)).collect()
}

/// Lists the homes to scan for an agent, the user's own first.
pub(super) fn scanned_homes<'a>(
    connector: &dyn Connector,
    config: &'a Config,
    machine: &'a Machine,
) -> impl Iterator<Item = ScannedHome<'a>> {
    let named = config.sources.get(connector.agent().id);
    let own = ScannedHome { machine, home: SourceHome::default(), named };
    let others = config.homes.iter().map(|home| ScannedHome {
        machine: &home.machine,
        home: SourceHome { kind: home.kind, host: home.host.clone() },
        named: None,
    });
    std::iter::once(own).chain(others)
}

impl ScannedHome<'_> {
    pub(super) fn roots(&self, connector: &dyn Connector) -> Vec<Root> {
        match self.named {
            Some(paths) => paths.iter().flat_map(|path| self.meant(path)).collect(),
            None => {
                let own = connector.roots(self.machine).into_iter();
                own.map(|path| Root { path, configured: false }).collect()
            }
        }
    }

    /// Expands a configured path. Paths from a pattern may be missing without an error.
    fn meant(&self, path: &Path) -> Vec<Root> {
        match glob::resolve_against_projects(path, self.machine) {
            Some(places) => {
                places.into_iter().map(|path| Root { path, configured: false }).collect()
            }
            None => vec![Root { path: path.to_owned(), configured: true }],
        }
    }
}

impl Plan {
    /// Scans all roots and compares the sources with the journal.
    pub(crate) fn make(
        config: &Config,
        machine: &Machine,
        store: Option<&Store>,
        full: bool,
    ) -> Result<Self> {
        let mut plan = Self::default();
        for connector in all_connectors() {
            plan.add(connector, config, machine, store, full)?;
        }
        plan.has_outdated = store.map_or(Ok(false), has_outdated_sources)?;
        plan.sort();
        Ok(plan)
    }

    /// Sorts the changed sources, the newest first.
    pub(super) fn sort(&mut self) {
        self.changed.sort_by(|a, b| {
            let (a, b) = (&a.source, &b.source);
            (b.stamp.modified, &a.path).cmp(&(a.stamp.modified, &b.path))
        });
    }

    /// Returns whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.gone.is_empty() && self.returned.is_empty()
    }

    pub(super) fn add(
        &mut self,
        connector: &'static dyn Connector,
        config: &Config,
        machine: &Machine,
        store: Option<&Store>,
        full: bool,
    ) -> Result<()> {
        let (mut found, mut scanned_roots) = (Vec::new(), Vec::new());
        for look in scanned_homes(connector, config, machine) {
            let (more, there) = self.scan_home(connector, &look);
            add_new(&mut found, more);
            scanned_roots.extend(there);
        }
        let rows = store.map(|store| store.sources(connector.agent().id)).transpose()?;
        // Keyed by the whole path as bytes, because `Path` hashes each component.
        let rows = rows.unwrap_or_default();
        let mut known: HashMap<&OsStr, &SourceRow> =
            rows.iter().map(|row| (row.path.as_os_str(), row)).collect();
        let mut changed = Vec::new();
        let reader = reader_version(connector.version());
        for found in found {
            let row = known.remove(found.source.path.as_os_str());
            match row {
                Some(row) if row.stamp == found.source.stamp && row.reader == reader && !full => {
                    if !row.present {
                        self.returned.push(row.id);
                    }
                }
                _ => changed.push(found),
            }
        }
        // A missing root may be an unmounted disk, so nothing below it counts as gone. The same
        // applies to a directory that cannot be read.
        let is_gone = |row: &SourceRow| {
            scanned_roots.iter().any(|root| row.path.starts_with(root)) && is_absent(&row.path)
        };
        self.gone
            .extend(known.values().filter(|row| row.present && is_gone(row)).map(|row| row.id));
        self.changed.extend(changed);
        Ok(())
    }

    /// Lists the sources of an agent in one home, and the roots that were scanned.
    fn scan_home(
        &mut self,
        connector: &'static dyn Connector,
        home: &ScannedHome<'_>,
    ) -> (Vec<FoundSource>, Vec<PathBuf>) {
        let (mut sources, mut scanned_roots) = (Vec::new(), Vec::new());
        for root in home.roots(connector) {
            let base = glob::pattern_base(&root.path);
            if !files::path_exists(&base) {
                continue;
            }
            match connector.discover_sources(&root.path) {
                Ok(found) => {
                    sources.extend(found);
                    scanned_roots.push(base);
                }
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    self.fail(&root.path, &cause.unwrap_or_else(|| error.to_string()));
                }
            }
        }
        // Two roots may lead to the same file.
        if scanned_roots.len() > 1 {
            sources.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
            sources.dedup_by(|a, b| a.path.as_os_str() == b.path.as_os_str());
        }
        let found = sources.into_iter().map(|source| FoundSource {
            connector,
            source,
            home: home.home.clone(),
        });
        (found.collect(), scanned_roots)
    }

    fn fail(&mut self, path: &Path, reason: &str) {
        self.failures.push((path.display().to_string(), reason.to_owned()));
    }
}

/// Returns the reader version before which a source is outdated, whichever agent it belongs to.
pub(super) fn newest_reader() -> i64 {
    let versions = all_connectors().map(Connector::version);
    reader_version(versions.max().unwrap_or(1))
}

/// Returns the version of the reader of a kept source's agent.
pub(super) fn reader_of(kept: &KeptSource) -> i64 {
    let connector = find_connector(&kept.agent).filter(|_| !kept.is_import);
    reader_version(connector.map_or(1, Connector::version))
}

/// Returns whether another reader version read sources that cannot be read again from the disk.
fn has_outdated_sources(store: &Store) -> Result<bool> {
    let kept = store.kept_sources(newest_reader())?;
    Ok(kept.iter().any(|kept| kept.reader < reader_of(kept)))
}

/// Adds sources that are not in the list yet, because two homes may be the same directory.
fn add_new(found: &mut Vec<FoundSource>, mut more: Vec<FoundSource>) {
    if !found.is_empty() && !more.is_empty() {
        let paths = found.iter().map(|one| one.source.path.as_os_str());
        let known: HashSet<&OsStr> = paths.collect();
        more.retain(|one| !known.contains(one.source.path.as_os_str()));
    }
    found.append(&mut more);
}

/// Returns whether nothing exists at a path. A path that cannot be examined may exist.
pub(super) fn is_absent(path: &Path) -> bool {
    let error = std::fs::symlink_metadata(path).err().map(|error| error.kind());
    matches!(error, Some(ErrorKind::NotFound | ErrorKind::NotADirectory))
}
