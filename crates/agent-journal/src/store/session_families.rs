//! Reads the activity and usage of sessions together with their sub-agents.

use super::Store;
use super::session_activity::{
    ACTIVITY_COLUMNS, ACTIVITY_TABLES, SessionActivity, SessionActivityColumns, session_activity,
};
use crate::error::Result;

/// A session in the family of a requested session.
pub(crate) struct FamilyMember {
    /// Key of the requested session.
    pub(crate) family: u64,
    /// Whether the usage counts for the requested session itself: the member is that session or a
    /// hidden descendant of it.
    pub(crate) is_own: bool,
    /// Activity and usage of the member.
    pub(crate) activity: SessionActivity,
}

impl Store {
    /// Reads the activity and usage of sessions and of all their sub-agents. A person's session
    /// that has a parent was resumed or forked from it and is not a sub-agent.
    pub(crate) fn families(&self, sessions: &[u64]) -> Result<Vec<FamilyMember>> {
        let keys: Vec<String> = sessions.iter().map(|key| (*key as i64).to_string()).collect();
        // The keys are integers of the database, so no escaping is needed.
        let sql = format!(
            "WITH RECURSIVE families (family, member, own) AS (
                 SELECT key, key, 1 FROM sessions WHERE key IN ({}) UNION
                 SELECT family, sessions.key, own AND sessions.shown = 0 FROM families
                 JOIN sessions ON sessions.parent = families.member AND sessions.kind > 0
                 WHERE sessions.key != family)
             SELECT {ACTIVITY_COLUMNS}, 1 AS is_chosen, family, own FROM families JOIN {ACTIVITY_TABLES}
             WHERE sessions.key = families.member",
            keys.join(",")
        );
        let mut columns = None;
        let mut statement = self.database.prepare(&sql)?;
        let rows = statement.query_map([], |row| {
            Ok(FamilyMember {
                family: row.get::<_, i64>("family")? as u64,
                is_own: row.get("own")?,
                activity: session_activity(row, SessionActivityColumns::of(&mut columns, row)?)?,
            })
        });
        rows?.collect()
    }
}
