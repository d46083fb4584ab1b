//! Plans a sync for a few changed paths: only the sources they belong to are scanned.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::plan::{FoundSource, Plan, is_absent, roots, scanned_homes};
use super::watch::{Changes, WatchDir};
use crate::config::Config;
use crate::connectors::formats::glob;
use crate::connectors::{Connector, Machine, all_connectors};
use crate::error::Result;
use crate::store::Store;
use crate::store::reader_version;

impl Plan {
    /// Scans the sources that changes affect, and compares them with the journal.
    pub(crate) fn for_changes(
        changes: &Changes,
        config: &Config,
        machine: &Machine,
        store: Option<&Store>,
    ) -> Result<Self> {
        let Changes::Paths(paths) = changes else {
            return Self::make(config, machine, store, false);
        };
        let paths = as_named(paths, &bases(config, machine));
        let mut plan = Self::default();
        for connector in all_connectors() {
            match affected_sources(connector, config, machine, &paths) {
                Some(found) => plan.compare(connector, found, &paths, store)?,
                None => plan.add(connector, config, machine, store, false)?,
            }
        }
        plan.sort();
        Ok(plan)
    }

    fn compare(
        &mut self,
        connector: &'static dyn Connector,
        found: Vec<FoundSource>,
        paths: &BTreeSet<PathBuf>,
        store: Option<&Store>,
    ) -> Result<()> {
        let agent = connector.agent().id;
        let reader = reader_version(connector.version());
        for found in found {
            let row = store.map(|store| store.source(agent, &found.source.path)).transpose()?;
            match row.flatten() {
                Some(row) if row.stamp == found.source.stamp && row.reader == reader => {
                    self.returned.extend((!row.present).then_some(row.id));
                }
                _ => self.changed.push(found),
            }
        }
        let Some(store) = store else { return Ok(()) };
        for path in paths.iter().filter(|path| is_absent(path)) {
            let rows = store.sources_at(agent, path)?.into_iter();
            self.gone.extend(rows.filter(|row| row.present).map(|row| row.id));
        }
        Ok(())
    }
}

/// Lists the directories of all roots.
fn bases(config: &Config, machine: &Machine) -> BTreeSet<PathBuf> {
    let roots = all_connectors().flat_map(|connector| roots(connector, config, machine));
    roots.map(|root| glob::pattern_base(&root.path)).collect()
}

/// Adds the names that paths have below their roots, because the system may report the real path of
/// a file whose root is a symbolic link.
fn as_named(paths: &BTreeSet<PathBuf>, bases: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let is_named = |path: &PathBuf| path.ancestors().any(|around| bases.contains(around));
    let real: Vec<&PathBuf> = paths.iter().filter(|path| !is_named(path)).collect();
    let mut named = paths.clone();
    // Usually all paths are below a root, and links need not be resolved.
    for base in bases.iter().filter(|_| !real.is_empty()) {
        let Ok(place) = base.canonicalize() else { continue };
        let below = real.iter().filter_map(|path| path.strip_prefix(&place).ok());
        named.extend(below.map(|rest| base.join(rest)));
    }
    named
}

/// Finds the sources of an agent that changed paths affect; returns `None` if all its roots must be
/// scanned.
fn affected_sources(
    connector: &'static dyn Connector,
    config: &Config,
    machine: &Machine,
    paths: &BTreeSet<PathBuf>,
) -> Option<Vec<FoundSource>> {
    let mut all: Vec<FoundSource> = Vec::new();
    for look in scanned_homes(connector, config, machine) {
        for root in look.roots(connector) {
            let base = glob::pattern_base(&root.path);
            for path in paths.iter().filter(|path| path.starts_with(&base)) {
                // A new directory may contain any number of sources.
                if path.is_dir() {
                    return None;
                }
                for source in connector.affected_sources(&root.path, path)? {
                    if all.iter().all(|known| known.source.path != source.path) {
                        all.push(FoundSource { connector, source, home: look.home.clone() });
                    }
                }
            }
        }
    }
    Some(all)
}

/// Lists the directories to watch, those of the newest sources first.
pub(crate) fn watch_dirs(
    config: &Config,
    machine: &Machine,
    store: Option<&Store>,
) -> Result<Vec<WatchDir>> {
    let (mut roots, mut inside) = (Vec::new(), Vec::new());
    for connector in all_connectors() {
        let rows = store.map(|store| store.sources(connector.agent().id)).transpose()?;
        let rows = rows.unwrap_or_default();
        for look in scanned_homes(connector, config, machine) {
            for root in look.roots(connector) {
                let base = glob::pattern_base(&root.path);
                let below = rows.iter().filter(|row| row.present && row.path.starts_with(&base));
                let known = inside.len();
                for row in below {
                    let folders = row.path.ancestors().skip(1);
                    let folders = folders.take_while(|folder| *folder != base);
                    let folders = folders.filter(|folder| folder.starts_with(&base));
                    inside.extend(folders.map(|one| (row.stamp.modified, one.to_owned())));
                }
                // On these systems watching a tree costs no more than watching a directory.
                let is_deep = !WATCHES_ARE_DEAR && inside.len() > known;
                if is_deep {
                    inside.truncate(known);
                }
                roots.push(WatchDir { path: folder(base), is_deep });
            }
        }
    }
    inside.sort_by_key(|(modified, _)| std::cmp::Reverse(*modified));
    let mut seen = BTreeSet::new();
    inside.retain(|(_, path)| seen.insert(path.clone()));
    roots.extend(inside.into_iter().map(|(_, path)| WatchDir { path, is_deep: false }));
    Ok(roots)
}

/// Whether the system needs a separate watch for each directory.
const WATCHES_ARE_DEAR: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Returns the directory of a root, which may be a file.
fn folder(base: PathBuf) -> PathBuf {
    if base.is_file() { base.parent().map_or(base.clone(), Path::to_owned) } else { base }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_path_behind_a_linked_root_is_known_by_the_name_of_the_root() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join("disk/sessions")).unwrap();
        std::os::unix::fs::symlink(home.join("disk"), home.join("root")).unwrap();
        let all = |paths: &[&str]| paths.iter().map(|path| home.join(path)).collect();
        let bases = all(&["root", "other", "missing"]);
        let check = |told: &[&str], named: &[&str]| {
            assert_eq!(as_named(&all(told), &bases), all(named), "{told:?}");
        };
        check(&["root/sessions/a"], &["root/sessions/a"]);
        check(&["disk/sessions/a"], &["disk/sessions/a", "root/sessions/a"]);
        check(&["disk/gone"], &["disk/gone", "root/gone"]);
        check(&["disk", "elsewhere"], &["disk", "root", "elsewhere"]);
    }
}
