//! Calls that count for a session and stand in none of its messages.

use rusqlite::{Row, params, params_from_iter};
use xxhash_rust::xxh3::xxh3_128;

use super::chunk::UsageRow;
use super::{Entry, Store, Writer};
use crate::error::Result;
use crate::model::{ModelCall, SessionId, Timestamp, Tokens, Usage, unmarked};
use crate::search::Filter;

/// Says in SQL which sessions' calls are told with a session: its own, and those of sessions that
/// worked for it and are not shown.
pub(super) const INSIDE: &str = "WITH RECURSIVE inside (key) AS (SELECT ?1 UNION
     SELECT sessions.key FROM sessions JOIN inside ON sessions.parent = inside.key
     WHERE sessions.shown = 0)";

/// The key of no telling.
pub(crate) const NONE: u64 = 0;

impl Store {
    /// Lists sessions that are not shown and worked for none that is known, as far as they made
    /// calls that count: what they spent, and nothing of what they said.
    pub(crate) fn spenders(&self, filter: &Filter, now: Timestamp) -> Result<Vec<Entry>> {
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
            entry.telling = NONE;
            match self.calls_beside(entry.key, NONE) {
                Ok(calls) => !calls.is_empty(),
                Err(error) => {
                    failure = Some(error);
                    false
                }
            }
        });
        failure.map_or(Ok(entries), Err)
    }

    /// Reads the calls that count for a session and do not stand so in one of its tellings.
    pub(crate) fn calls_beside(&self, owner: u64, telling: u64) -> Result<Vec<ModelCall>> {
        let columns = |row: &str| {
            let names = "at model input output cache_read cache_creation cache_creation_1h
                         reasoning cost_micros since unrecorded";
            let all: Vec<_> =
                names.split_whitespace().map(|name| format!("{row}.{name}")).collect();
            all.join(", ")
        };
        let (columns, own) = (columns("usage"), columns("own"));
        let name = "(SELECT name FROM models WHERE id = usage.model)";
        let told = columns.replace("usage.model", name);
        let sql = format!(
            "{INSIDE} SELECT hex(usage.identity), {told} FROM usage
             WHERE usage.owner IN inside AND usage.counted = 1 AND usage.telling != ?2
             AND NOT EXISTS (SELECT 1 FROM usage own WHERE own.identity = usage.identity
                 AND own.telling = ?2 AND ({own}) IS ({columns}))
             ORDER BY usage.at, usage.identity"
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(self.error())?;
        let place = params![owner as i64, telling as i64];
        let calls = statement.query_map(place, call).map_err(self.error())?;
        calls.collect::<rusqlite::Result<_>>().map_err(self.error())
    }
}

impl Writer<'_> {
    /// Stores calls that stand in no message, as all there is in a telling.
    pub(crate) fn calls(
        &mut self,
        telling: u64,
        session: &SessionId,
        calls: Vec<ModelCall>,
    ) -> Result<()> {
        self.truncate(telling, 0, 0)?;
        for (position, call) in (0..).zip(calls) {
            let identity = identity(&session.agent, &call.key);
            let row = UsageRow::new(identity, (position, call.at), call.model, call.usage);
            self.usage(telling, session.key(), &row)?;
        }
        Ok(())
    }
}

/// The identity that a key names. One that no journal wrote is a name like any other.
fn identity(agent: &str, key: &str) -> [u8; 16] {
    match u128::from_str_radix(key, 16) {
        Ok(number) if key.len() == 32 => number.to_be_bytes(),
        _ => xxh3_128(format!("{agent} {key}").as_bytes()).to_le_bytes(),
    }
}

fn call(row: &Row<'_>) -> rusqlite::Result<ModelCall> {
    let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
    let optional = |at: usize| row.get::<_, Option<i64>>(at).map(|it| it.map(|n| n as u64));
    let time = |at: usize| {
        let millis = row.get::<_, Option<i64>>(at)?;
        Ok::<_, rusqlite::Error>(millis.and_then(Timestamp::from_millis))
    };
    let name: Option<String> = row.get(2)?;
    let (model, speed) = name.as_deref().map(unmarked).unzip();
    Ok(ModelCall {
        key: row.get::<_, String>(0)?.to_ascii_lowercase(),
        at: time(1)?,
        model: model.map(str::to_owned),
        usage: Usage {
            identity: None,
            tokens: Tokens {
                input: number(3)?,
                output: number(4)?,
                cache_read: number(5)?,
                cache_creation: number(6)?,
                reasoning: optional(8)?,
            },
            cache_creation_1h: number(7)?,
            cost_micros: optional(9)?,
            speed: speed.flatten().map(str::to_owned),
            since: time(10)?,
            unrecorded: row.get(11)?,
        },
    })
}
