//! Which task a session belongs to: the session at the beginning of those that started each other.

use std::sync::Arc;

use rusqlite::Row;

use super::Store;
use crate::error::Result;
use crate::maps::{Map, Set};

/// Parents that lead in a circle are nobody's beginning; no real chain is this long.
const LONGEST_CHAIN: usize = 64;

/// For more sessions than this all links are read at once.
const MANY: usize = 400;

/// A session among those that started each other.
#[derive(Clone, Copy)]
pub(super) struct Link {
    key: i64,
    telling: i64,
    parent: Option<i64>,
    is_shown: bool,
}

impl Store {
    /// Finds the tellings of the tasks that tellings belong to, for those that belong to another.
    pub(crate) fn tasks(&self, tellings: &[u64]) -> Result<Map<u64, u64>> {
        let found = if tellings.len() > MANY {
            self.all_links()?
        } else {
            let sql = "SELECT sessions.key, sessions.telling, parent, shown FROM tellings
                       JOIN sessions ON sessions.key = tellings.session WHERE tellings.key IN";
            Arc::new(self.links_of(sql, tellings.iter().map(|key| *key as i64))?)
        };
        // Most sessions have nothing to do with others.
        let parents: Set<i64> = found.iter().filter_map(|link| link.parent).collect();
        let parents = found.iter().filter(|link| parents.contains(&link.key));
        let mut by_key: Map<u64, Link> = parents.map(|link| (link.key as u64, *link)).collect();
        loop {
            let known = found.iter().chain(by_key.values());
            let parents = known.filter_map(|link| link.parent.map(|key| key as u64));
            let unknown: Set<u64> = parents.filter(|key| !by_key.contains_key(key)).collect();
            let sql = "SELECT key, telling, parent, shown FROM sessions WHERE key IN";
            let more = self.links_of(sql, unknown.into_iter().map(|key| key as i64))?;
            if more.is_empty() {
                break;
            }
            by_key.extend(more.into_iter().map(|link| (link.key as u64, link)));
        }
        let roots = found.iter().filter_map(|link| {
            let root = root(*link, &by_key);
            (root != link.telling).then_some((link.telling as u64, root as u64))
        });
        Ok(roots.collect())
    }

    fn links_of(&self, sql: &str, keys: impl Iterator<Item = i64>) -> Result<Vec<Link>> {
        let keys: Vec<String> = keys.map(|key| key.to_string()).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        // The keys are numbers of our own making: nothing to escape.
        self.links(&format!("{sql} ({})", keys.join(",")))
    }

    fn links(&self, sql: &str) -> Result<Vec<Link>> {
        let mut statement = self.connection.prepare(sql).map_err(self.error())?;
        let rows = statement.query_map([], link).map_err(self.error())?;
        rows.collect::<rusqlite::Result<_>>().map_err(self.error())
    }

    /// Lists the sessions that others started, and then those that started them. Most sessions are
    /// neither.
    pub(super) fn started(&self) -> Result<Vec<Link>> {
        let sql = "SELECT key, telling, parent, shown FROM sessions ORDER BY parent DESC";
        let mut statement = self.connection.prepare(sql).map_err(self.error())?;
        let rows = statement.query_map([], link).map_err(self.error())?;
        let mut parents: Set<i64> = Set::default();
        let rows = rows.filter(|link| match link {
            Ok(Link { parent: Some(parent), .. }) => {
                parents.insert(*parent);
                true
            }
            Ok(link) => parents.contains(&link.key),
            Err(_) => true,
        });
        rows.collect::<rusqlite::Result<_>>().map_err(self.error())
    }
}

fn link(row: &Row<'_>) -> rusqlite::Result<Link> {
    Ok(Link { key: row.get(0)?, telling: row.get(1)?, parent: row.get(2)?, is_shown: row.get(3)? })
}

/// The telling at the beginning of a chain, as far as sessions are shown.
fn root(link: Link, by_key: &Map<u64, Link>) -> i64 {
    let (mut at, mut root) = (link, link.telling);
    for _ in 0..LONGEST_CHAIN {
        let Some(parent) = at.parent.and_then(|key| by_key.get(&(key as u64))) else { return root };
        if parent.is_shown {
            root = parent.telling;
        }
        at = *parent;
    }
    link.telling
}
