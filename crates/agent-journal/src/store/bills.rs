//! Usage that no message records, derived from the bills that agents keep.
//!
//! Bills are stored as the agent wrote them. Usage on a bill beyond that of the messages is derived
//! again whenever the session, one of its sub-agents or the session it continues changes. It is
//! stored as the calls of a separate recording.

use std::collections::BTreeSet;

use rusqlite::{Row, params};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::chunk::UsageRow;
use super::database::OptionalRow;
use super::unrecorded::{Evidence, RecordedCall, Unrecorded, find_unrecorded, sum_up};
use super::{Store, Writer};
use crate::error::Result;
use crate::maps::Map;
use crate::model::{Bill, Session, Timestamp, split_speed_mark};

/// Maximum number of fork origins that are followed.
const MAX_LINEAGE_SESSIONS: usize = 64;

/// The columns of a call by which derived calls are compared with stored ones.
const FIGURES: [&str; 8] = [
    "at",
    "input",
    "output",
    "cache_read",
    "cache_creation",
    "cache_creation_1h",
    "reasoning",
    "cost_micros",
];

/// The columns of a session that its bill is compared with.
struct BilledSession {
    name: String,
    is_persons: bool,
    project_path: Option<String>,
    started_at: Option<i64>,
}

impl Store {
    /// Counts the ignored states of bills, which list less than the messages record.
    pub(crate) fn bills_left_aside(&self) -> Result<u64> {
        let sql = "SELECT total(left_aside) FROM bills";
        let count: f64 = self.database.value(sql, [])?;
        Ok(count as u64)
    }
}

impl Writer<'_> {
    /// Writes the bill of a session as the agent wrote it.
    pub(super) fn note_bills(&self, session: u64, metadata: &Session) -> Result<()> {
        let since = metadata.bills.iter().filter_map(|state| state.since).max();
        let since = since.map(Timestamp::as_millis);
        let states = serde_json::to_string(&metadata.bills).expect("bills always serialise");
        // A session without a bill gets no row. A session that lost its bill keeps an empty row.
        let sql = if metadata.bills.is_empty() {
            "UPDATE bills SET states = ?2, since = ?3 WHERE session = ?1"
        } else {
            "INSERT INTO bills (session, states, since) VALUES (?1, ?2, ?3)
             ON CONFLICT (session) DO UPDATE SET states = ?2, since = ?3"
        };
        self.database.execute(sql, params![session as i64, states, since])?;
        Ok(())
    }

    /// Deletes the bill of a session and the usage derived from it.
    pub(super) fn forget_bill(&mut self, session: u64) -> Result<()> {
        let sql = "DELETE FROM bills WHERE session = ?1";
        self.database.execute(sql, [session as i64])?;
        self.forget_calls(bill_key(session), 0..i64::MAX as u64)
    }

    /// Derives the unrecorded usage of bills for the changed sessions, for their parents and for
    /// the sessions that continue them.
    pub(super) fn derive_unrecorded_usage(&mut self, changed: &BTreeSet<u64>) -> Result<()> {
        let sql = "SELECT EXISTS (SELECT 1 FROM bills)";
        let has_bills: bool = self.database.value(sql, [])?;
        if !has_bills {
            return Ok(());
        }
        let mut candidates = self.bills_around_new_sessions()?;
        let sql = "WITH RECURSIVE above (key) AS (SELECT ?1 UNION
                   SELECT sessions.parent FROM sessions JOIN above ON sessions.key = above.key
                   WHERE sessions.parent IS NOT NULL)
                   SELECT session FROM bills WHERE session IN above
                   UNION SELECT bills.session FROM lineages
                   JOIN bills ON bills.session = lineages.session WHERE lineages.origin IN above";
        let mut statement = self.database.prepare_cached(sql)?;
        for session in changed {
            let rows = statement.query_map([*session as i64], |row| row.get::<_, i64>(0));
            for found in rows? {
                candidates.insert(found? as u64);
            }
        }
        drop(statement);
        candidates.into_iter().try_for_each(|session| self.derive_unrecorded_of_session(session))
    }

    /// Lists the sessions whose bill may include usage of a new session: the bill begins before the
    /// new session and the billed session begins after it, or the bill was restarted.
    fn bills_around_new_sessions(&self) -> Result<BTreeSet<u64>> {
        let sql = "SELECT sessions.project_path, sessions.started_at FROM recordings
                   JOIN sessions ON sessions.key = recordings.session
                   WHERE recordings.key = ?1 AND sessions.kind = 0 AND started_at IS NOT NULL";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut starts: Map<Option<String>, BTreeSet<i64>> = Map::default();
        for recording in self.fresh_recordings() {
            let row = statement
                .query_row([*recording as i64], |row| {
                    Ok((row.get("project_path")?, row.get("started_at")?))
                })
                .optional();
            if let Some((project_path, start)) = row? {
                starts.entry(project_path).or_default().insert(start);
            }
        }
        let mut found = BTreeSet::new();
        if starts.is_empty() {
            return Ok(found);
        }
        let sql = "SELECT bills.session, project_path, since, started_at FROM bills
                   JOIN sessions ON sessions.key = bills.session
                   WHERE since IS NOT NULL AND started_at IS NOT NULL";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let project_path = row.get("project_path")?;
            let (since, start) = (row.get::<i64>("since")?, row.get::<i64>("started_at")?);
            let is_in_between = |starts: &BTreeSet<i64>| {
                since >= start || starts.range(since..start).next().is_some()
            };
            if starts.get(&project_path).is_some_and(is_in_between) {
                found.insert(row.get::<i64>("session")? as u64);
            }
        }
        Ok(found)
    }

    fn derive_unrecorded_of_session(&mut self, session: u64) -> Result<()> {
        let Some(billed) = self.billed_session(session)? else { return Ok(()) };
        let states = self.bill_states(session)?;
        let count = states.len() as u64;
        let unrecorded = if !billed.is_persons || states.is_empty() {
            Unrecorded::default()
        } else if self.is_shared_bill(session, &billed, &states)? {
            Unrecorded { left_aside: count, ..Unrecorded::default() }
        } else {
            find_unrecorded(&self.evidence(session, &billed, states)?)
        };
        let sql = "UPDATE bills SET left_aside = ?2 WHERE session = ?1 AND left_aside != ?2";
        let row = params![session as i64, unrecorded.left_aside as i64];
        self.database.execute(sql, row)?;
        let rows: Vec<UsageRow> = (0..)
            .zip(unrecorded.sums)
            .map(|(position, sum)| {
                // All journals compute the same identity for a quarter hour, so that the largest
                // sum counts.
                let name = format!("bill {} {} {}", billed.name, sum.quarter, sum.plain_model);
                let identity = xxh3_128(name.as_bytes()).to_le_bytes();
                UsageRow::new(identity, position, Some(sum.at), Some(sum.model), sum.usage)
            })
            .collect();
        self.replace_calls(bill_key(session), session, &rows)
    }

    /// Replaces the calls of a recording, unless they are equal already.
    fn replace_calls(&mut self, recording: u64, session: u64, rows: &[UsageRow]) -> Result<()> {
        let sql = "SELECT identity, at, input, output, cache_read, cache_creation,
                   cache_creation_1h, reasoning, cost_micros FROM usage WHERE recording = ?1
                   ORDER BY position";
        let mut statement = self.database.prepare_cached(sql)?;
        let known = statement.query_map([recording as i64], |row| {
            let numbers: rusqlite::Result<Vec<Option<i64>>> =
                FIGURES.iter().map(|name| row.get(*name)).collect();
            Ok((row.get::<_, [u8; 16]>("identity")?, numbers?))
        });
        let known: Vec<_> = known.and_then(Iterator::collect)?;
        drop(statement);
        let wanted = rows.iter().map(|row| {
            let tokens = &row.usage.tokens;
            let numbers = [
                Some(tokens.input),
                Some(tokens.output),
                Some(tokens.cache_read),
                Some(tokens.cache_creation),
                Some(row.usage.cache_creation_1h),
                tokens.reasoning,
                row.usage.cost_micros,
            ];
            let numbers = numbers.into_iter().map(|number| number.map(|number| number as i64));
            (row.identity, std::iter::once(row.at).chain(numbers).collect::<Vec<_>>())
        });
        if known.iter().cloned().eq(wanted) {
            return Ok(());
        }
        self.forget_calls(recording, 0..i64::MAX as u64)?;
        rows.iter().try_for_each(|row| self.usage(recording, session, row))
    }

    fn billed_session(&self, session: u64) -> Result<Option<BilledSession>> {
        let sql = "SELECT agent || ':' || native AS name, kind = 0 AS is_persons, project_path, started_at
                   FROM sessions WHERE key = ?1";
        let row = self.database.query_row(sql, [session as i64], |row| {
            Ok(BilledSession {
                name: row.get("name")?,
                is_persons: row.get("is_persons")?,
                project_path: row.get("project_path")?,
                started_at: row.get("started_at")?,
            })
        });
        row.optional()
    }

    fn bill_states(&self, session: u64) -> Result<Vec<Bill>> {
        let sql = "SELECT states FROM bills WHERE session = ?1";
        let states = self
            .database
            .query_row(sql, [session as i64], |row| row.get::<_, String>(0))
            .optional();
        let states: Option<Vec<Bill>> =
            states?.and_then(|states| serde_json::from_str(&states).ok());
        Ok(states.unwrap_or_default().into_iter().filter(|state| state.at.is_some()).collect())
    }

    /// Returns whether the bill may include usage of other sessions: it begins before this session,
    /// and another session of the project began in between.
    fn is_shared_bill(
        &self,
        session: u64,
        billed: &BilledSession,
        states: &[Bill],
    ) -> Result<bool> {
        let since = states.iter().filter_map(|state| state.since).min();
        let Some((since, start)) = since.zip(billed.started_at) else { return Ok(false) };
        // The bill of a fork continues the bill of the original session.
        if self.lineage(session)?.is_some() {
            return Ok(false);
        }
        let sql = "SELECT EXISTS (SELECT 1 FROM sessions JOIN sessions mine ON mine.key = ?1
                   WHERE sessions.project_path IS ?2 AND sessions.agent = mine.agent
                   AND sessions.key != ?1 AND sessions.kind = 0
                   AND sessions.started_at >= ?3 AND sessions.started_at < ?4)";
        let mut statement = self.database.prepare_cached(sql)?;
        let row = params![session as i64, billed.project_path, since.as_millis(), start];
        statement.query_row(row, |row| row.get(0))
    }

    /// Collects the data that the bill of a session is compared with.
    fn evidence(
        &self,
        session: u64,
        billed: &BilledSession,
        states: Vec<Bill>,
    ) -> Result<Evidence> {
        let calls = self.recorded_calls(session, i64::MAX)?;
        let lineage = self.lineage(session)?;
        let latest = states.iter().filter_map(|state| state.since).max();
        let other_sessions = match latest.map(Timestamp::as_millis).max(billed.started_at) {
            // The bill was not restarted.
            since if since == billed.started_at => Vec::new(),
            _ => self.sessions_of_project(session, billed)?,
        };
        let mut evidence = Evidence { states, calls, other_sessions, ..Evidence::default() };
        let Some(lineage) = lineage else { return Ok(evidence) };
        evidence.is_fork = true;
        let own = evidence.calls.iter().filter(|call| call.is_own && call.at > 0);
        let first_state = evidence.states.first().and_then(|state| state.at);
        let begins = own.map(|call| call.at).min().or(first_state.map(Timestamp::as_millis));
        let begins = begins.unwrap_or(0);
        evidence.origin_states = self.bill_states(lineage.origin)?;
        evidence.origin_states.retain(|one| one.at.is_some_and(|at| at.as_millis() <= begins));
        let mut origin_calls = Vec::new();
        let mut origin = Some(lineage.origin);
        for _ in 0..MAX_LINEAGE_SESSIONS {
            let Some(key) = origin else { break };
            origin_calls.extend(self.recorded_calls(key, begins)?);
            origin = self.lineage(key)?.map(|lineage| lineage.origin);
        }
        evidence.origin_calls = sum_up(&origin_calls);
        Ok(evidence)
    }

    /// Reads the start and end times of the other sessions of the project.
    fn sessions_of_project(&self, session: u64, billed: &BilledSession) -> Result<Vec<(i64, i64)>> {
        let sql = "SELECT sessions.started_at, sessions.ended_at FROM sessions
                   JOIN sessions mine ON mine.key = ?1
                   WHERE sessions.project_path IS ?2 AND sessions.agent = mine.agent
                   AND sessions.key != ?1 AND sessions.kind = 0
                   AND sessions.started_at IS NOT NULL AND sessions.ended_at IS NOT NULL";
        let mut statement = self.database.prepare_cached(sql)?;
        let row = params![session as i64, billed.project_path];
        let rows =
            statement.query_map(row, |row| Ok((row.get("started_at")?, row.get("ended_at")?)));
        rows?.collect()
    }

    /// Reads the counted calls of a session and of its descendants before a time, without those
    /// that no message records.
    fn recorded_calls(&self, session: u64, before: i64) -> Result<Vec<RecordedCall>> {
        let sql = "WITH RECURSIVE workers (key) AS (SELECT ?1 UNION
                   SELECT sessions.key FROM sessions JOIN workers ON sessions.parent = workers.key)
                   SELECT coalesce(at, 0) AS called_at, owner = ?1 AS is_own, coalesce(models.name, '') AS model,
                   input, output, cache_read, cache_creation, cache_creation_1h,
                   coalesce(reasoning, 0) AS reasoning
                   FROM usage LEFT JOIN models ON models.id = usage.model
                   WHERE owner IN workers AND counted = 1 AND NOT unrecorded
                   AND coalesce(at, 0) < ?2 ORDER BY called_at";
        self.database.rows(sql, params![session as i64, before], recorded_call)
    }
}

fn recorded_call(row: &Row<'_>) -> rusqlite::Result<RecordedCall> {
    let number = |name: &str| row.get::<_, i64>(name).map(|number| number as u64);
    let classes = [
        number("input")?,
        number("output")?,
        number("cache_read")?,
        number("cache_creation")?,
        number("cache_creation_1h")?,
        number("reasoning")?,
    ];
    let name: String = row.get("model")?;
    let model = split_speed_mark(&name).0.to_owned();
    Ok(RecordedCall { at: row.get("called_at")?, is_own: row.get("is_own")?, model, classes })
}

/// Returns the key of the recording that stores the calls derived from a bill.
fn bill_key(session: u64) -> u64 {
    xxh3_64(format!("bill {session}").as_bytes()) >> 1
}
