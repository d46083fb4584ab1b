//! Evaluates the conditions of filters on packed columns by scanning these columns.

use std::collections::HashSet;

use rusqlite::types::Value;

use super::activity_codec::{ActivityBucket, ActivityLog};
use super::filter_sql::{PackedCondition, fact_condition, filter_condition, packed_conditions};
use super::{Store, chunk};
use crate::error::Result;
use crate::filter::{Filter, HoursOfDay};
use crate::model::QUARTER;

impl Store {
    /// Returns a filter as an SQL condition on `sessions`, with its values.
    pub(super) fn condition(&self, filter: &Filter) -> Result<(String, Vec<Value>)> {
        let (sql, values) = filter_condition(filter);
        Ok((self.with_packed(sql, filter)?, values))
    }

    /// Returns a filter as an SQL condition on `sessions`, without its conditions on time.
    pub(super) fn about(&self, filter: &Filter) -> Result<(String, Vec<Value>)> {
        let (sql, values) = fact_condition(filter);
        Ok((self.with_packed(sql, filter)?, values))
    }

    fn with_packed(&self, mut sql: String, filter: &Filter) -> Result<String> {
        let left_out = filter.not.iter().flat_map(|not| packed_conditions(not));
        let wanted = packed_conditions(filter).into_iter().map(|one| ("", one));
        for (not, packed) in wanted.chain(left_out.map(|one| ("NOT ", one))) {
            let keys: Vec<String> = self.fitting(&packed)?.iter().map(i64::to_string).collect();
            let column = if packed == PackedCondition::Image { "recording" } else { "key" };
            // The keys are integers of the database, so no escaping is needed.
            sql.push_str(&format!(" AND {not}sessions.{column} IN ({})", keys.join(",")));
        }
        Ok(sql)
    }

    fn fitting(&self, packed: &PackedCondition<'_>) -> Result<HashSet<i64>> {
        let mut keys = HashSet::new();
        match packed {
            PackedCondition::Touched(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| part.to_lowercase()).collect();
                self.each_touched(&mut |session, path, _| {
                    if has_part(path, &parts) {
                        keys.insert(session as i64);
                    }
                })?;
            }
            PackedCondition::Edited(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| part.to_lowercase()).collect();
                self.each_file(&mut |session, path, _| {
                    if parts.is_empty() || has_part(path, &parts) {
                        keys.insert(session as i64);
                    }
                })?;
            }
            PackedCondition::Tools(names) => {
                self.each_row(
                    "SELECT session AS key, done AS packed FROM activity",
                    &mut |session, done| {
                        let used =
                            ActivityLog::unpack(done).quarters.into_iter().flat_map(|it| it.tools);
                        if used.into_iter().any(|tool| is_one(&tool.name, names)) {
                            keys.insert(session);
                        }
                    },
                )?;
            }
            PackedCondition::Hours(hours) => {
                let is_wanted = |it: &ActivityBucket| it.messages > 0 && is_at(it.number, hours);
                self.each_row(
                    "SELECT session AS key, done AS packed FROM activity",
                    &mut |session, done| {
                        if ActivityLog::unpack(done).quarters.iter().any(is_wanted) {
                            keys.insert(session);
                        }
                    },
                )?;
            }
            PackedCondition::Image => {
                self.each_row(
                    "SELECT recording AS key, facts AS packed FROM chunks",
                    &mut |recording, facts| {
                        if !keys.contains(&recording) && chunk::facts(facts).images > 0 {
                            keys.insert(recording);
                        }
                    },
                )?;
            }
        }
        Ok(keys)
    }

    fn each_row(&self, sql: &str, found: &mut dyn FnMut(i64, &[u8])) -> Result<()> {
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            found(row.get("key")?, row.blob("packed")?);
        }
        Ok(())
    }
}

/// Returns whether a quarter hour is in one of the wanted hours.
fn is_at(quarter: i64, hours: &HoursOfDay) -> bool {
    let at = jiff::Timestamp::from_millisecond(quarter * QUARTER);
    at.is_ok_and(|at| hours.wanted.contains(&hours.zone.to_datetime(at).hour()))
}

/// Returns whether a path contains one of `parts`, which are lower case.
fn has_part(path: &str, parts: &[String]) -> bool {
    let path = path.to_lowercase();
    parts.iter().any(|part| path.contains(part.as_str()))
}

fn is_one(tool: &str, names: &[String]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(tool))
}
