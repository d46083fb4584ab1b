//! Model calls that count for a session without being part of its messages.

use rusqlite::{Row, params, params_from_iter};
use xxhash_rust::xxh3::xxh3_128;

use super::chunk::UsageRow;
use super::{Entry, Store, Writer};
use crate::error::Result;
use crate::filter::Filter;
use crate::model::{ModelCall, SessionId, Timestamp, Tokens, Usage, split_speed_mark};

/// SQL for the sessions whose calls count for session `?1`: the session itself and its hidden
/// descendants. With `CROSS JOIN` and `+`, SQLite looks descendants up by their parent; otherwise it
/// reads all hidden sessions.
pub(super) const OWNERS: &str = "WITH RECURSIVE inside (key) AS (SELECT ?1 UNION
     SELECT sessions.key FROM inside CROSS JOIN sessions ON sessions.parent = inside.key
     WHERE +sessions.shown = 0)";

/// A recording key that no recording has.
pub(crate) const NO_RECORDING: u64 = 0;

impl Store {
    /// Lists hidden sessions without a known parent that have counted calls. Only their usage is
    /// returned, not their content.
    pub(crate) fn sessions_with_detached_usage(
        &self,
        filter: &Filter,
        now: Timestamp,
    ) -> Result<Vec<Entry>> {
        let (condition, values) = self.about(filter)?;
        let millis = |at: Option<Timestamp>, or: i64| at.map_or(or, Timestamp::as_millis);
        let tail = format!(
            "WHERE {condition} AND sessions.shown = 0
             AND coalesce(sessions.ended_at, 0) >= {} AND coalesce(sessions.started_at, 0) <= {}
             AND NOT EXISTS (SELECT 1 FROM sessions up WHERE up.key = sessions.parent)
             ORDER BY sessions.ended_at DESC, sessions.key",
            millis(filter.since, i64::MIN),
            millis(filter.until, i64::MAX)
        );
        let mut entries = self.entries(&tail, params_from_iter(values), now)?;
        let mut failure = None;
        entries.retain_mut(|entry| {
            (entry.title, entry.title_source) = (entry.native_id.clone(), "id".to_owned());
            (entry.counts, entry.tokens, entry.active_s) = Default::default();
            (entry.models, entry.refs) = Default::default();
            entry.recording = NO_RECORDING;
            match self.detached_calls(entry.key, NO_RECORDING) {
                Ok(calls) => !calls.is_empty(),
                Err(error) => {
                    failure = Some(error);
                    false
                }
            }
        });
        failure.map_or(Ok(entries), Err)
    }

    /// Reads the calls that count for a session and that one of its recordings lacks or records
    /// with other figures.
    pub(crate) fn detached_calls(&self, owner: u64, recording: u64) -> Result<Vec<ModelCall>> {
        let columns = |row: &str| {
            let names = "at model input output cache_read cache_creation cache_creation_1h
                         reasoning cost_micros since unrecorded";
            let all: Vec<_> =
                names.split_whitespace().map(|name| format!("{row}.{name}")).collect();
            all.join(", ")
        };
        let (columns, own) = (columns("usage"), columns("own"));
        let name = "(SELECT name FROM models WHERE id = usage.model) AS model";
        let named_columns = columns.replace("usage.model", name);
        let sql = format!(
            "{OWNERS} SELECT hex(usage.identity) AS key, {named_columns} FROM usage
             WHERE usage.owner IN inside AND usage.counted = 1 AND usage.recording != ?2
             AND NOT EXISTS (SELECT 1 FROM usage own WHERE own.identity = usage.identity
                 AND own.recording = ?2 AND ({own}) IS ({columns}))
             ORDER BY usage.at, usage.identity"
        );
        let mut statement = self.database.prepare_cached(&sql)?;
        let place = params![owner as i64, recording as i64];
        let calls = statement.query_map(place, call)?;
        calls.collect()
    }
}

impl Writer<'_> {
    /// Writes calls that belong to no message, as the only content of a recording.
    pub(crate) fn calls(
        &mut self,
        recording: u64,
        session: &SessionId,
        calls: Vec<ModelCall>,
    ) -> Result<()> {
        self.truncate(recording, 0, 0)?;
        for (position, call) in (0..).zip(calls) {
            let identity = identity(&session.agent, &call.key);
            let row = UsageRow::new(identity, position, call.at, call.model, call.usage);
            self.usage(recording, session.session_key(), &row)?;
        }
        Ok(())
    }
}

/// Returns the identity that a key stands for. A key that no journal wrote is hashed like a name.
fn identity(agent: &str, key: &str) -> [u8; 16] {
    match u128::from_str_radix(key, 16) {
        Ok(number) if key.len() == 32 => number.to_be_bytes(),
        _ => xxh3_128(format!("{agent} {key}").as_bytes()).to_le_bytes(),
    }
}

fn call(row: &Row<'_>) -> rusqlite::Result<ModelCall> {
    let number = |name: &str| row.get::<_, i64>(name).map(|number| number as u64);
    let optional = |name: &str| row.get::<_, Option<i64>>(name).map(|it| it.map(|n| n as u64));
    let time = |name: &str| {
        let millis = row.get::<_, Option<i64>>(name)?;
        Ok::<_, rusqlite::Error>(millis.and_then(Timestamp::from_millis))
    };
    let name: Option<String> = row.get("model")?;
    let (model, speed) = name.as_deref().map(split_speed_mark).unzip();
    Ok(ModelCall {
        key: row.get::<_, String>("key")?.to_ascii_lowercase(),
        at: time("at")?,
        model: model.map(str::to_owned),
        usage: Usage {
            identity: None,
            tokens: Tokens {
                input: number("input")?,
                output: number("output")?,
                cache_read: number("cache_read")?,
                cache_creation: number("cache_creation")?,
                reasoning: optional("reasoning")?,
            },
            cache_creation_1h: number("cache_creation_1h")?,
            cost_micros: optional("cost_micros")?,
            speed: speed.flatten().map(str::to_owned),
            since: time("since")?,
            unrecorded: row.get("unrecorded")?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_descendants_are_looked_up_by_their_parent() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::create(&directory.path().join("journal.db")).unwrap();
        let sql = format!(
            "EXPLAIN QUERY PLAN {OWNERS} SELECT total(input) FROM usage
             WHERE owner IN inside AND counted = 1"
        );
        let plan: Vec<String> =
            store.database.rows(&sql, [1_i64], |row| row.get("detail")).unwrap();
        let by_parent = plan.iter().any(|step| step.contains("INDEX sessions_by_parent (parent=?"));
        assert!(by_parent, "{plan:?}");
    }
}
