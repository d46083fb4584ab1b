//! Reads counted model calls one by one.

use super::activity_codec::UsageBucketColumns;
use super::detached_usage::OWNERS;
use super::{Store, UsageBucket, activity_codec};
use crate::error::Result;
use crate::model::Timestamp;

impl Store {
    /// Calls `take` with each counted call of a session, in order of time.
    pub(crate) fn counted_calls(
        &self,
        owner: u64,
        mut take: impl FnMut(Option<Timestamp>, UsageBucket) -> Result<()>,
    ) -> Result<()> {
        let sql = format!(
            "{OWNERS} SELECT coalesce(usage.at, sessions.started_at, 0) AS at, models.name AS model, usage.input,
             usage.output, usage.cache_read, usage.cache_creation, usage.cache_creation_1h,
             usage.reasoning, usage.cost_micros,
             usage.since IS NOT NULL AND usage.since IS NOT usage.at AS is_sum, usage.unrecorded,
             usage.at AS recorded_at
             FROM usage LEFT JOIN sessions ON sessions.key = usage.owner
             LEFT JOIN models ON models.id = usage.model
             WHERE usage.owner IN inside AND usage.counted = 1
             ORDER BY usage.at, usage.recording, usage.position"
        );
        let mut columns = None;
        let mut statement = self.database.prepare_cached(&sql)?;
        let mut rows = statement.query([owner as i64])?;
        while let Some(row) = rows.next()? {
            let spent = row.read(|row| {
                activity_codec::usage_bucket(row, UsageBucketColumns::of(&mut columns, row)?)
            })?;
            let at = row.get::<Option<i64>>("recorded_at")?;
            take(at.and_then(Timestamp::from_millis), spent)?;
        }
        Ok(())
    }
}
