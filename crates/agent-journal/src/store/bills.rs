//! Calls that no message records, counted from the bills that agents keep themselves.
//!
//! Bills are stored as their files have them. What they list beyond the messages is worked out
//! again whenever a session, one that worked for it or the one it continues changes, and stored as
//! calls of a recording of their own.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, Row, params};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::chunk::UsageRow;
use super::unrecorded::{Evidence, RecordedCall, Unrecorded, find_unrecorded, sum_up};
use super::{Store, Writer};
use crate::error::Result;
use crate::maps::Map;
use crate::model::{Bill, Session, Timestamp, unmarked};

/// No session is a fork of a fork more often than this.
const LONGEST_LINEAGE: usize = 64;

/// What a bill is held against of its session's listing.
struct BilledSession {
    name: String,
    is_persons: bool,
    project_path: Option<String>,
    started_at: Option<i64>,
}

impl Store {
    /// Counts the states of bills that list less than the messages record.
    pub(crate) fn bills_left_aside(&self) -> Result<u64> {
        let sql = "SELECT total(left_aside) FROM bills";
        let count = self.connection.query_row(sql, [], |row| row.get::<_, f64>(0));
        Ok(count.map_err(self.error())? as u64)
    }
}

impl Writer<'_> {
    /// Stores the bill of a session as its files have it.
    pub(super) fn note_bills(&self, session: u64, account: &Session) -> Result<()> {
        let since = account.bills.iter().filter_map(|state| state.since).max();
        let since = since.map(Timestamp::as_millis);
        let states = serde_json::to_string(&account.bills).expect("bills always serialise");
        // A session without a bill gets no row; one that lost its bill keeps an empty one.
        let sql = if account.bills.is_empty() {
            "UPDATE bills SET states = ?2, since = ?3 WHERE session = ?1"
        } else {
            "INSERT INTO bills (session, states, since) VALUES (?1, ?2, ?3)
             ON CONFLICT (session) DO UPDATE SET states = ?2, since = ?3"
        };
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        statement.execute(params![session as i64, states, since]).map_err(self.error())?;
        Ok(())
    }

    /// Forgets the bill of a session, and what was counted from it.
    pub(super) fn forget_bill(&mut self, session: u64) -> Result<()> {
        let sql = "DELETE FROM bills WHERE session = ?1";
        self.connection.execute(sql, [session as i64]).map_err(self.error())?;
        self.forget_calls(bill_key(session), 0..i64::MAX as u64)
    }

    /// Counts what bills list beyond the messages, for the sessions that changed, for those they
    /// worked for and for those that continue them.
    pub(super) fn settle_bills(&mut self, changed: &BTreeSet<u64>) -> Result<()> {
        let sql = "SELECT EXISTS (SELECT 1 FROM bills)";
        let has_bills: bool =
            self.connection.query_row(sql, [], |row| row.get(0)).map_err(self.error())?;
        if !has_bills {
            return Ok(());
        }
        let mut candidates = self.bills_beside_new_sessions()?;
        let sql = "WITH RECURSIVE above (key) AS (SELECT ?1 UNION
                   SELECT sessions.parent FROM sessions JOIN above ON sessions.key = above.key
                   WHERE sessions.parent IS NOT NULL)
                   SELECT session FROM bills WHERE session IN above
                   UNION SELECT bills.session FROM lineages
                   JOIN bills ON bills.session = lineages.session WHERE lineages.origin IN above";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        for session in changed {
            let rows = statement.query_map([*session as i64], |row| row.get::<_, i64>(0));
            for found in rows.map_err(self.error())? {
                candidates.insert(found.map_err(Store::error(self.store))? as u64);
            }
        }
        drop(statement);
        candidates.into_iter().try_for_each(|session| self.settle_bill(session))
    }

    /// Lists the sessions whose program may have worked in a session that is new: it began to
    /// count before that one and the session itself began after it, or it began to count anew.
    fn bills_beside_new_sessions(&self) -> Result<BTreeSet<u64>> {
        let sql = "SELECT sessions.project_path, sessions.started_at FROM tellings
                   JOIN sessions ON sessions.key = tellings.session
                   WHERE tellings.key = ?1 AND sessions.kind = 0 AND started_at IS NOT NULL";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut starts: Map<Option<String>, BTreeSet<i64>> = Map::default();
        for telling in self.fresh_tellings() {
            let row = statement
                .query_row([*telling as i64], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional();
            if let Some((project_path, start)) = row.map_err(self.error())? {
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
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([]).map_err(self.error())?;
        while let Some(row) = rows.next().map_err(self.error())? {
            let number = |at: usize| row.get::<_, i64>(at);
            let project_path = row.get(1).map_err(self.error())?;
            let (since, start) =
                (number(2).map_err(self.error())?, number(3).map_err(self.error())?);
            let is_beside = |starts: &BTreeSet<i64>| {
                since >= start || starts.range(since..start).next().is_some()
            };
            if starts.get(&project_path).is_some_and(is_beside) {
                found.insert(number(0).map_err(self.error())? as u64);
            }
        }
        Ok(found)
    }

    fn settle_bill(&mut self, session: u64) -> Result<()> {
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
        self.connection.execute(sql, row).map_err(self.error())?;
        let rows: Vec<UsageRow> = (0..)
            .zip(unrecorded.sums)
            .map(|(position, sum)| {
                // Of one quarter hour the fullest sum counts, whichever journal worked it out.
                let name = format!("bill {} {} {}", billed.name, sum.quarter, sum.plain_model);
                let identity = xxh3_128(name.as_bytes()).to_le_bytes();
                UsageRow::new(identity, (position, Some(sum.at)), Some(sum.model), sum.usage)
            })
            .collect();
        self.replace_calls(bill_key(session), session, &rows)
    }

    /// Stores the calls of a recording, unless it has just these.
    fn replace_calls(&mut self, telling: u64, session: u64, rows: &[UsageRow]) -> Result<()> {
        let sql = "SELECT identity, at, input, output, cache_read, cache_creation,
                   cache_creation_1h, reasoning, cost_micros FROM usage WHERE telling = ?1
                   ORDER BY position";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let known = statement.query_map([telling as i64], |row| {
            let numbers: rusqlite::Result<Vec<Option<i64>>> =
                (1..9).map(|at| row.get(at)).collect();
            Ok((row.get::<_, [u8; 16]>(0)?, numbers?))
        });
        let known: Vec<_> = known.and_then(Iterator::collect).map_err(self.error())?;
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
        self.forget_calls(telling, 0..i64::MAX as u64)?;
        rows.iter().try_for_each(|row| self.usage(telling, session, row))
    }

    fn billed_session(&self, session: u64) -> Result<Option<BilledSession>> {
        let sql = "SELECT agent || ':' || native, kind = 0, project_path, started_at
                   FROM sessions WHERE key = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let row = statement.query_row([session as i64], |row| {
            Ok(BilledSession {
                name: row.get(0)?,
                is_persons: row.get(1)?,
                project_path: row.get(2)?,
                started_at: row.get(3)?,
            })
        });
        row.optional().map_err(self.error())
    }

    fn bill_states(&self, session: u64) -> Result<Vec<Bill>> {
        let sql = "SELECT states FROM bills WHERE session = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let states =
            statement.query_row([session as i64], |row| row.get::<_, String>(0)).optional();
        let states: Option<Vec<Bill>> =
            states.map_err(self.error())?.and_then(|states| serde_json::from_str(&states).ok());
        Ok(states.unwrap_or_default().into_iter().filter(|state| state.at.is_some()).collect())
    }

    /// Whether other sessions may stand on the bill: the program began to count before this
    /// session, and another one of the project began in between.
    fn is_shared_bill(
        &self,
        session: u64,
        billed: &BilledSession,
        states: &[Bill],
    ) -> Result<bool> {
        let since = states.iter().filter_map(|state| state.since).min();
        let Some((since, start)) = since.zip(billed.started_at) else { return Ok(false) };
        // The bill of a fork goes on from that of the session it continues.
        if self.lineage(session)?.is_some() {
            return Ok(false);
        }
        let sql = "SELECT EXISTS (SELECT 1 FROM sessions JOIN sessions mine ON mine.key = ?1
                   WHERE sessions.project_path IS ?2 AND sessions.agent = mine.agent
                   AND sessions.key != ?1 AND sessions.kind = 0
                   AND sessions.started_at >= ?3 AND sessions.started_at < ?4)";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let row = params![session as i64, billed.project_path, since.as_millis(), start];
        statement.query_row(row, |row| row.get(0)).map_err(self.error())
    }

    /// Gathers what the bill of a session is held against.
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
            // Nothing was begun anew.
            since if since == billed.started_at => Vec::new(),
            _ => self.sessions_beside(session, billed)?,
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
        for _ in 0..LONGEST_LINEAGE {
            let Some(key) = origin else { break };
            origin_calls.extend(self.recorded_calls(key, begins)?);
            origin = self.lineage(key)?.map(|lineage| lineage.origin);
        }
        evidence.origin_calls = sum_up(&origin_calls);
        Ok(evidence)
    }

    /// Reads when other sessions of the project began and ended.
    fn sessions_beside(&self, session: u64, billed: &BilledSession) -> Result<Vec<(i64, i64)>> {
        let sql = "SELECT sessions.started_at, sessions.ended_at FROM sessions
                   JOIN sessions mine ON mine.key = ?1
                   WHERE sessions.project_path IS ?2 AND sessions.agent = mine.agent
                   AND sessions.key != ?1 AND sessions.kind = 0
                   AND sessions.started_at IS NOT NULL AND sessions.ended_at IS NOT NULL";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let row = params![session as i64, billed.project_path];
        let rows = statement.query_map(row, |row| Ok((row.get(0)?, row.get(1)?)));
        rows.and_then(Iterator::collect).map_err(self.error())
    }

    /// Reads the calls that count for a session and for those that worked for it, before a time,
    /// as far as messages record them.
    fn recorded_calls(&self, session: u64, before: i64) -> Result<Vec<RecordedCall>> {
        let sql = "WITH RECURSIVE workers (key) AS (SELECT ?1 UNION
                   SELECT sessions.key FROM sessions JOIN workers ON sessions.parent = workers.key)
                   SELECT coalesce(at, 0), owner = ?1, coalesce(models.name, ''), input, output,
                   cache_read, cache_creation, cache_creation_1h, coalesce(reasoning, 0)
                   FROM usage LEFT JOIN models ON models.id = usage.model
                   WHERE owner IN workers AND counted = 1 AND NOT unrecorded
                   AND coalesce(at, 0) < ?2 ORDER BY 1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map(params![session as i64, before], recorded_call);
        rows.and_then(Iterator::collect).map_err(self.error())
    }
}

fn recorded_call(row: &Row<'_>) -> rusqlite::Result<RecordedCall> {
    let mut classes = [0; 6];
    for (at, class) in classes.iter_mut().enumerate() {
        *class = row.get::<_, i64>(3 + at)? as u64;
    }
    let name: String = row.get(2)?;
    let model = unmarked(&name).0.to_owned();
    Ok(RecordedCall { at: row.get(0)?, is_own: row.get(1)?, model, classes })
}

/// The key under which calls of a bill are stored, like those of a recording.
fn bill_key(session: u64) -> u64 {
    xxh3_64(format!("bill {session}").as_bytes()) >> 1
}
