//! What changed since the last look.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::connectors::formats::{files, glob};
use crate::connectors::{ALL, Connector, Machine, Source};
use crate::error::Result;
use crate::store::{Place, SourceRow, Store};

/// What is to be done.
#[derive(Default)]
pub(crate) struct Plan {
    /// Sources to read, the newest first.
    pub(crate) changed: Vec<Found>,
    /// Sources that are no longer there.
    pub(crate) gone: Vec<i64>,
    /// Sources that are there again.
    pub(crate) returned: Vec<i64>,
    /// Roots that could not be looked at.
    pub(crate) failures: Vec<(String, String)>,
}

/// A source that is to be read.
pub(crate) struct Found {
    pub(crate) connector: &'static dyn Connector,
    pub(crate) source: Source,
    pub(crate) home: Place,
}

/// A home to look into.
pub(super) struct Look<'a> {
    machine: &'a Machine,
    pub(super) home: Place,
    /// Roots the user named; they are about the own home only.
    named: Option<&'a Vec<PathBuf>>,
}

/// A place where an agent keeps sessions.
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    /// Whether the user named it.
    pub(crate) configured: bool,
}

/// Lists where an agent keeps sessions on a machine.
pub(crate) fn roots(connector: &dyn Connector, config: &Config, machine: &Machine) -> Vec<Root> {
    looks(connector, config, machine).flat_map(|look| look.roots(connector)).collect()
}

/// Lists the homes an agent may have, the own one first.
pub(super) fn looks<'a>(
    connector: &dyn Connector,
    config: &'a Config,
    machine: &'a Machine,
) -> impl Iterator<Item = Look<'a>> {
    let named = config.sources.get(connector.agent().id);
    let own = Look { machine, home: Place::default(), named };
    let others = config.homes.iter().map(|home| Look {
        machine: &home.machine,
        home: Place { kind: home.kind, host: home.host.clone() },
        named: None,
    });
    std::iter::once(own).chain(others)
}

impl Look<'_> {
    pub(super) fn roots(&self, connector: &dyn Connector) -> Vec<Root> {
        match self.named {
            Some(paths) => paths.iter().flat_map(|path| self.meant(path)).collect(),
            None => {
                let own = connector.roots(self.machine).into_iter();
                own.map(|path| Root { path, configured: false }).collect()
            }
        }
    }

    /// What a path stands for that the user named. Of places that were not named one by one, some
    /// may be missing.
    fn meant(&self, path: &Path) -> Vec<Root> {
        match glob::places(path, self.machine) {
            Some(places) => {
                places.into_iter().map(|path| Root { path, configured: false }).collect()
            }
            None => vec![Root { path: path.to_owned(), configured: true }],
        }
    }
}

impl Plan {
    /// Looks at every root, and compares what is there with what the journal knows.
    pub(crate) fn make(
        config: &Config,
        machine: &Machine,
        store: Option<&Store>,
        full: bool,
    ) -> Result<Self> {
        let mut plan = Self::default();
        for connector in ALL {
            plan.add(*connector, config, machine, (store, full))?;
        }
        plan.sort();
        Ok(plan)
    }

    /// Puts the newest first.
    pub(super) fn sort(&mut self) {
        self.changed.sort_by(|a, b| {
            let (a, b) = (&a.source, &b.source);
            (b.stamp.modified, &a.path).cmp(&(a.stamp.modified, &b.path))
        });
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.gone.is_empty() && self.returned.is_empty()
    }

    pub(super) fn add(
        &mut self,
        connector: &'static dyn Connector,
        config: &Config,
        machine: &Machine,
        (store, full): (Option<&Store>, bool),
    ) -> Result<()> {
        let (mut found, mut looked_at) = (Vec::new(), Vec::new());
        for look in looks(connector, config, machine) {
            let (more, there) = self.look(connector, &look);
            add_new(&mut found, more);
            looked_at.extend(there);
        }
        let rows = store.map(|store| store.sources(connector.agent().id)).transpose()?;
        // Keyed by bytes: a path is hashed part by part.
        let rows = rows.unwrap_or_default();
        let mut known: HashMap<&OsStr, &SourceRow> =
            rows.iter().map(|row| (row.path.as_os_str(), row)).collect();
        let mut changed = Vec::new();
        for found in found {
            let row = known.remove(found.source.path.as_os_str());
            match row {
                Some(row) if row.stamp == found.source.stamp && row.is_current && !full => {
                    if !row.present {
                        self.returned.push(row.id);
                    }
                }
                _ => changed.push(found),
            }
        }
        // A root that is not there may be a disk that is not mounted: nothing under it is gone.
        // Neither is what lies in a directory that cannot be looked into.
        let is_gone = |row: &SourceRow| {
            looked_at.iter().any(|root| row.path.starts_with(root)) && is_absent(&row.path)
        };
        self.gone
            .extend(known.values().filter(|row| row.present && is_gone(row)).map(|row| row.id));
        self.changed.extend(changed);
        Ok(())
    }

    /// Lists an agent's sources in one home, and the roots that were there to be looked at.
    fn look(
        &mut self,
        connector: &'static dyn Connector,
        look: &Look<'_>,
    ) -> (Vec<Found>, Vec<PathBuf>) {
        let (mut sources, mut looked_at) = (Vec::new(), Vec::new());
        for root in look.roots(connector) {
            let base = glob::base(&root.path);
            if !files::exists(&base) {
                continue;
            }
            match connector.discover(&root.path) {
                Ok(found) => {
                    sources.extend(found);
                    looked_at.push(base);
                }
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    self.fail(&root.path, &cause.unwrap_or_else(|| error.to_string()));
                }
            }
        }
        // Two roots may lead to one file.
        if looked_at.len() > 1 {
            sources.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
            sources.dedup_by(|a, b| a.path.as_os_str() == b.path.as_os_str());
        }
        let found =
            sources.into_iter().map(|source| Found { connector, source, home: look.home.clone() });
        (found.collect(), looked_at)
    }

    fn fail(&mut self, path: &Path, reason: &str) {
        self.failures.push((path.display().to_string(), reason.to_owned()));
    }
}

/// Adds what is not there yet: two homes may be one.
fn add_new(found: &mut Vec<Found>, mut more: Vec<Found>) {
    if !found.is_empty() && !more.is_empty() {
        let paths = found.iter().map(|one| one.source.path.as_os_str());
        let known: HashSet<&OsStr> = paths.collect();
        more.retain(|one| !known.contains(one.source.path.as_os_str()));
    }
    found.append(&mut more);
}

/// Whether nothing is at a path; what cannot be looked at may well be there.
pub(super) fn is_absent(path: &Path) -> bool {
    let error = std::fs::symlink_metadata(path).err().map(|error| error.kind());
    matches!(error, Some(ErrorKind::NotFound | ErrorKind::NotADirectory))
}
