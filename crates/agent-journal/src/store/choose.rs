//! Which sessions a filter chooses: what columns tell in SQL, what packed rows tell by looking
//! through them.

use std::collections::HashSet;

use rusqlite::types::Value;

use super::ledger::{Done, Quarter};
use super::{Store, chunk};
use crate::error::Result;
use crate::model::QUARTER;
use crate::search::{Filter, Hours, Packed};

impl Store {
    /// Says a filter as a condition on `sessions`.
    pub(super) fn condition(&self, filter: &Filter) -> Result<(String, Vec<Value>)> {
        let (sql, values) = filter.sql();
        Ok((self.with_packed(sql, filter)?, values))
    }

    /// Says what a filter asks of a session whatever its time.
    pub(super) fn about(&self, filter: &Filter) -> Result<(String, Vec<Value>)> {
        let (sql, values) = filter.about_sql();
        Ok((self.with_packed(sql, filter)?, values))
    }

    fn with_packed(&self, mut sql: String, filter: &Filter) -> Result<String> {
        let left_out = filter.not.iter().flat_map(|not| not.packed());
        let wanted = filter.packed().into_iter().map(|one| ("", one));
        for (not, packed) in wanted.chain(left_out.map(|one| ("NOT ", one))) {
            let keys: Vec<String> = self.fitting(&packed)?.iter().map(i64::to_string).collect();
            let column = if packed == Packed::Image { "telling" } else { "key" };
            // The keys are numbers of our own making: nothing to escape.
            sql.push_str(&format!(" AND {not}sessions.{column} IN ({})", keys.join(",")));
        }
        Ok(sql)
    }

    fn fitting(&self, packed: &Packed<'_>) -> Result<HashSet<i64>> {
        let mut keys = HashSet::new();
        match packed {
            Packed::Touched(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| part.to_lowercase()).collect();
                self.each_touched(&mut |session, path, _| {
                    if has_part(path, &parts) {
                        keys.insert(session as i64);
                    }
                })?;
            }
            Packed::Edited(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| part.to_lowercase()).collect();
                self.each_file(&mut |session, path, _| {
                    if parts.is_empty() || has_part(path, &parts) {
                        keys.insert(session as i64);
                    }
                })?;
            }
            Packed::Tools(names) => {
                self.each_row("SELECT session, done FROM activity", &mut |session, done| {
                    let used = Done::unpack(done).quarters.into_iter().flat_map(|it| it.tools);
                    if used.into_iter().any(|tool| is_one(&tool.name, names)) {
                        keys.insert(session);
                    }
                })?;
            }
            Packed::Hours(hours) => {
                let is_wanted = |it: &Quarter| it.messages > 0 && is_at(it.number, hours);
                self.each_row("SELECT session, done FROM activity", &mut |session, done| {
                    if Done::unpack(done).quarters.iter().any(is_wanted) {
                        keys.insert(session);
                    }
                })?;
            }
            Packed::Image => {
                self.each_row("SELECT telling, facts FROM chunks", &mut |telling, facts| {
                    if !keys.contains(&telling) && chunk::facts(facts).images > 0 {
                        keys.insert(telling);
                    }
                })?;
            }
        }
        Ok(keys)
    }

    fn each_row(&self, sql: &str, found: &mut dyn FnMut(i64, &[u8])) -> Result<()> {
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([]).map_err(self.error())?;
        while let Some(row) = rows.next().map_err(self.error())? {
            let key = row.get(0).map_err(self.error())?;
            let packed = row.get_ref(1).and_then(|it| Ok(it.as_blob()?)).map_err(self.error())?;
            found(key, packed);
        }
        Ok(())
    }
}

/// Whether a quarter hour lies in one of the hours.
fn is_at(quarter: i64, hours: &Hours) -> bool {
    let at = jiff::Timestamp::from_millisecond(quarter * QUARTER);
    at.is_ok_and(|at| hours.wanted.contains(&hours.zone.to_datetime(at).hour()))
}

/// Whether a path has one of some parts, which are in lower case.
fn has_part(path: &str, parts: &[String]) -> bool {
    let path = path.to_lowercase();
    parts.iter().any(|part| path.contains(part.as_str()))
}

fn is_one(tool: &str, names: &[String]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(tool))
}
