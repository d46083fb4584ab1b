//! What changed since the last look.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::connectors::formats::glob;
use crate::connectors::{ALL, Connector, Machine, Source};
use crate::error::Result;
use crate::store::{SourceRow, Store};

/// What is to be done.
#[derive(Default)]
pub(crate) struct Plan {
    /// Sources to read, the newest first.
    pub(crate) changed: Vec<(&'static dyn Connector, Source)>,
    /// Sources that are no longer there.
    pub(crate) gone: Vec<i64>,
    /// Sources that are there again.
    pub(crate) returned: Vec<i64>,
    /// Roots that could not be looked at.
    pub(crate) failures: Vec<(String, String)>,
}

/// A place where an agent keeps sessions.
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    /// Whether the user named it.
    pub(crate) configured: bool,
}

/// Lists where an agent keeps sessions on a machine.
pub(crate) fn roots(connector: &dyn Connector, config: &Config, machine: &Machine) -> Vec<Root> {
    match config.sources.get(connector.agent().id) {
        Some(paths) => {
            paths.iter().map(|path| Root { path: path.clone(), configured: true }).collect()
        }
        None => {
            let own = connector.roots(machine).into_iter();
            own.map(|path| Root { path, configured: false }).collect()
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
        plan.changed.sort_by(|(_, a), (_, b)| {
            (b.stamp.modified, &a.path).cmp(&(a.stamp.modified, &b.path))
        });
        Ok(plan)
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.gone.is_empty() && self.returned.is_empty()
    }

    fn add(
        &mut self,
        connector: &'static dyn Connector,
        config: &Config,
        machine: &Machine,
        (store, full): (Option<&Store>, bool),
    ) -> Result<()> {
        let (found, looked_at) = self.look(connector, config, machine);
        let rows = store.map(|store| store.sources(connector.agent().id)).transpose()?;
        let mut known: HashMap<PathBuf, SourceRow> =
            rows.unwrap_or_default().into_iter().map(|row| (row.path.clone(), row)).collect();
        for source in found {
            let row = known.remove(&source.path);
            match row {
                Some(row) if row.stamp == source.stamp && !full => {
                    if !row.present {
                        self.returned.push(row.id);
                    }
                }
                _ => self.changed.push((connector, source)),
            }
        }
        // A root that is not there may be a disk that is not mounted: nothing under it is gone.
        // Neither is what lies in a directory that cannot be looked into.
        let is_absent = |path: &Path| {
            let error = std::fs::symlink_metadata(path).err().map(|error| error.kind());
            matches!(error, Some(ErrorKind::NotFound | ErrorKind::NotADirectory))
        };
        let is_gone = |row: &SourceRow| {
            looked_at.iter().any(|root| row.path.starts_with(root)) && is_absent(&row.path)
        };
        self.gone
            .extend(known.values().filter(|row| row.present && is_gone(row)).map(|row| row.id));
        Ok(())
    }

    /// Lists an agent's sources, and the roots that were there to be looked at.
    fn look(
        &mut self,
        connector: &dyn Connector,
        config: &Config,
        machine: &Machine,
    ) -> (Vec<Source>, Vec<PathBuf>) {
        let (mut found, mut looked_at) = (HashMap::new(), Vec::new());
        for root in roots(connector, config, machine) {
            let base = glob::base(&root.path);
            if !base.exists() {
                if root.configured {
                    self.fail(&root.path, "no such file or directory");
                }
                continue;
            }
            match connector.discover(&root.path) {
                Ok(sources) => {
                    found.extend(sources.into_iter().map(|source| (source.path.clone(), source)));
                    looked_at.push(base);
                }
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    self.fail(&root.path, &cause.unwrap_or_else(|| error.to_string()));
                }
            }
        }
        (found.into_values().collect(), looked_at)
    }

    fn fail(&mut self, path: &Path, reason: &str) {
        self.failures.push((path.display().to_string(), reason.to_owned()));
    }
}
