//! Finds the task that a session belongs to: the root of its chain of parents.

use std::sync::Arc;

use rusqlite::Row;

use super::Store;
use super::database::columns;
use crate::error::Result;
use crate::maps::{Map, Set};

/// Maximum number of parents that are followed. No real chain is this long, so a longer one is a
/// cycle.
const MAX_PARENTS: usize = 64;

/// Number of sessions above which all links are read at once.
const MAX_LISTED_KEYS: usize = 400;

/// A session with its parent.
#[derive(Clone, Copy)]
pub(super) struct ParentLink {
    key: i64,
    recording: i64,
    parent: Option<i64>,
    is_shown: bool,
}

impl Store {
    /// Returns the root recording of each given recording, except for those that are roots
    /// themselves.
    pub(crate) fn tasks(&self, recordings: &[u64]) -> Result<Map<u64, u64>> {
        let found = if recordings.len() > MAX_LISTED_KEYS {
            self.all_links()?
        } else {
            let sql = "SELECT sessions.key, sessions.recording, parent, shown FROM recordings
                       JOIN sessions ON sessions.key = recordings.session WHERE recordings.key IN";
            Arc::new(self.links_of(sql, recordings.iter().map(|key| *key as i64))?)
        };
        // Most sessions have neither parent nor children.
        let parents: Set<i64> = found.iter().filter_map(|link| link.parent).collect();
        let parents = found.iter().filter(|link| parents.contains(&link.key));
        let mut by_key: Map<u64, ParentLink> =
            parents.map(|link| (link.key as u64, *link)).collect();
        loop {
            let known = found.iter().chain(by_key.values());
            let parents = known.filter_map(|link| link.parent.map(|key| key as u64));
            let unknown: Set<u64> = parents.filter(|key| !by_key.contains_key(key)).collect();
            let sql = "SELECT key, recording, parent, shown FROM sessions WHERE key IN";
            let more = self.links_of(sql, unknown.into_iter().map(|key| key as i64))?;
            if more.is_empty() {
                break;
            }
            by_key.extend(more.into_iter().map(|link| (link.key as u64, link)));
        }
        let roots = found.iter().filter_map(|link| {
            let root = root(*link, &by_key);
            (root != link.recording).then_some((link.recording as u64, root as u64))
        });
        Ok(roots.collect())
    }

    fn links_of(&self, sql: &str, keys: impl Iterator<Item = i64>) -> Result<Vec<ParentLink>> {
        let keys: Vec<String> = keys.map(|key| key.to_string()).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        // The keys are integers of the database, so no escaping is needed.
        self.links(&format!("{sql} ({})", keys.join(",")))
    }

    fn links(&self, sql: &str) -> Result<Vec<ParentLink>> {
        let mut columns = None;
        let mut statement = self.database.prepare(sql)?;
        let rows =
            statement.query_map([], |row| link(row, ParentLinkColumns::of(&mut columns, row)?))?;
        rows.collect()
    }

    /// Lists the sessions that have a parent, then the parents. Most sessions are neither.
    pub(super) fn started(&self) -> Result<Vec<ParentLink>> {
        let sql = "SELECT key, recording, parent, shown FROM sessions ORDER BY parent DESC";
        let mut columns = None;
        let mut statement = self.database.prepare(sql)?;
        let rows =
            statement.query_map([], |row| link(row, ParentLinkColumns::of(&mut columns, row)?))?;
        let mut parents: Set<i64> = Set::default();
        let rows = rows.filter(|link| match link {
            Ok(ParentLink { parent: Some(parent), .. }) => {
                parents.insert(*parent);
                true
            }
            Ok(link) => parents.contains(&link.key),
            Err(_) => true,
        });
        rows.collect()
    }
}

columns! {
    /// The columns of a link.
    ParentLinkColumns { key, recording, parent, shown }
}

fn link(row: &Row<'_>, columns: &ParentLinkColumns) -> rusqlite::Result<ParentLink> {
    Ok(ParentLink {
        key: row.get(columns.key)?,
        recording: row.get(columns.recording)?,
        parent: row.get(columns.parent)?,
        is_shown: row.get(columns.shown)?,
    })
}

/// Returns the recording of the topmost shown ancestor.
fn root(link: ParentLink, by_key: &Map<u64, ParentLink>) -> i64 {
    let (mut at, mut root) = (link, link.recording);
    for _ in 0..MAX_PARENTS {
        let Some(parent) = at.parent.and_then(|key| by_key.get(&(key as u64))) else { return root };
        if parent.is_shown {
            root = parent.recording;
        }
        at = *parent;
    }
    link.recording
}
