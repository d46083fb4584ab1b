//! What sessions did and spent together with the sub-agents that worked for them.

use super::Store;
use super::figures::{DOINGS, DOINGS_FROM, Doings, doings};
use crate::error::Result;

/// A session among those that worked for one that was asked for.
pub(crate) struct FamilyMember {
    /// The session that was asked for.
    pub(crate) family: u64,
    /// Whether what it spent counts for that session itself: it is that session, or worked for
    /// it and is not shown.
    pub(crate) is_own: bool,
    /// What this one did and spent.
    pub(crate) doings: Doings,
}

impl Store {
    /// Reads what sessions did and spent, and what every sub-agent below them did and spent. A
    /// person's session that names a parent was resumed or forked from it: it is no sub-agent.
    pub(crate) fn families(&self, sessions: &[u64]) -> Result<Vec<FamilyMember>> {
        let keys: Vec<String> = sessions.iter().map(|key| (*key as i64).to_string()).collect();
        // The keys are numbers of our own making: nothing to escape.
        let sql = format!(
            "WITH RECURSIVE families (family, member, own) AS (
                 SELECT key, key, 1 FROM sessions WHERE key IN ({}) UNION
                 SELECT family, sessions.key, own AND sessions.shown = 0 FROM families
                 JOIN sessions ON sessions.parent = families.member AND sessions.kind > 0
                 WHERE sessions.key != family)
             SELECT {DOINGS}, 1, family, own FROM families JOIN {DOINGS_FROM}
             WHERE sessions.key = families.member",
            keys.join(",")
        );
        let mut statement = self.connection.prepare(&sql).map_err(self.error())?;
        let rows = statement.query_map([], |row| {
            Ok(FamilyMember {
                family: row.get::<_, i64>(16)? as u64,
                is_own: row.get(17)?,
                doings: doings(row)?,
            })
        });
        rows.and_then(Iterator::collect).map_err(self.error())
    }
}
