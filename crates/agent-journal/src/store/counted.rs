//! The model calls that count, one by one.

use super::beside::INSIDE;
use super::{Spent, Store, ledger};
use crate::error::Result;
use crate::model::Timestamp;

impl Store {
    /// Reads the calls that count for a session, in the order they were made.
    pub(crate) fn counted_calls(
        &self,
        owner: u64,
        mut take: impl FnMut(Option<Timestamp>, Spent) -> Result<()>,
    ) -> Result<()> {
        let sql = format!(
            "{INSIDE} SELECT coalesce(usage.at, sessions.started_at, 0), models.name, usage.input,
             usage.output, usage.cache_read, usage.cache_creation, usage.cache_creation_1h,
             usage.reasoning, usage.cost_micros,
             usage.since IS NOT NULL AND usage.since IS NOT usage.at, usage.unrecorded,
             usage.at
             FROM usage LEFT JOIN sessions ON sessions.key = usage.owner
             LEFT JOIN models ON models.id = usage.model
             WHERE usage.owner IN inside AND usage.counted = 1
             ORDER BY usage.at, usage.telling, usage.position"
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(self.error())?;
        let mut rows = statement.query([owner as i64]).map_err(self.error())?;
        while let Some(row) = rows.next().map_err(self.error())? {
            let spent = ledger::spent(row).map_err(self.error())?;
            let at = row.get::<_, Option<i64>>(11).map_err(self.error())?;
            take(at.and_then(Timestamp::from_millis), spent)?;
        }
        Ok(())
    }
}
