//! Browsing: sessions in any order, a window of them, and how many there are of each kind.

use rusqlite::params_from_iter;
use rusqlite::types::Value;
use serde::Serialize;

use super::Store;
use super::sessions::{Entry, RUNNING};
use crate::error::Result;
use crate::model::Timestamp;
use crate::search::Filter;

/// How many values of a kind are named.
const VALUES: usize = 60;

/// What to browse.
#[derive(Clone, Debug, Default)]
pub struct Browse {
    /// Which sessions.
    pub filter: Filter,
    /// Only those in which this model answered.
    pub model: Option<String>,
    /// Only those with this status: `running`, `completed` or `error`.
    pub status: Option<String>,
    /// Only those that this session started.
    pub under: Option<Entry>,
    /// In which order.
    pub order: Order,
    /// How many to pass over.
    pub offset: usize,
    /// How many at most.
    pub limit: usize,
}

/// An order of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// The latest first.
    #[default]
    Latest,
    /// The earliest first.
    Oldest,
    /// The longest in active time first.
    Active,
    /// The most prompts first.
    Prompts,
    /// The most calls of tools first.
    Tools,
    /// The most tokens first.
    Tokens,
}

/// A window of the sessions that were chosen.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The sessions of the window.
    pub entries: Vec<Entry>,
    /// How many there are in all.
    pub total: u64,
    /// How many there are of each kind.
    pub facets: Facets,
}

/// How many sessions there are by each of their facts, the most frequent first; every kind is
/// counted as if nothing were chosen by it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Facets {
    /// By agent.
    pub agents: Vec<(String, u64)>,
    /// By project.
    pub projects: Vec<(String, u64)>,
    /// By branch.
    pub branches: Vec<(String, u64)>,
    /// By model.
    pub models: Vec<(String, u64)>,
    /// By status.
    pub statuses: Vec<(String, u64)>,
}

impl Order {
    fn sql(self) -> &'static str {
        match self {
            Self::Latest => "sessions.ended_at DESC",
            Self::Oldest => "sessions.started_at",
            Self::Active => "sessions.active_s DESC",
            Self::Prompts => "sessions.prompts DESC",
            Self::Tools => "sessions.tool_calls DESC",
            Self::Tokens => {
                "sessions.input + sessions.output + sessions.cache_read + sessions.cache_creation DESC"
            }
        }
    }
}

/// The status of a session, as `entry` works it out.
fn status(now: Timestamp) -> String {
    let since = now.as_millis() - RUNNING;
    // Sources are looked up for the few sessions that may run, not for all.
    format!(
        "CASE WHEN coalesce(sessions.ended_at, {since} + 1) > {since} AND EXISTS (
           SELECT 1 FROM tellings AS told JOIN sources AS origin ON origin.id = told.source
           WHERE told.key = sessions.telling AND origin.present = 1
           AND origin.modified / 1000000 > {since}) THEN 'running'
         WHEN sessions.failed = 1 THEN 'error' ELSE 'completed' END"
    )
}

impl Browse {
    fn sql(&self, now: Timestamp) -> (String, Vec<Value>) {
        let (mut sql, mut values) = self.filter.sql();
        let mut add = |condition: &str, value: Value| {
            values.push(value);
            sql.push_str(&condition.replace('?', &format!("?{}", values.len())));
        };
        if let Some(model) = &self.model {
            let condition =
                " AND EXISTS (SELECT 1 FROM json_each(sessions.models) WHERE value = ?)";
            add(condition, Value::from(model.clone()));
        }
        if let Some(wanted) = &self.status {
            add(&format!(" AND {} = ?", status(now)), Value::from(wanted.clone()));
        }
        if let Some(entry) = &self.under {
            add(" AND sessions.parent = ?", Value::from(entry.key as i64));
        }
        (sql, values)
    }

    fn without(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut other = self.clone();
        change(&mut other);
        other
    }
}

impl Store {
    /// Lists a window of the chosen sessions.
    pub(crate) fn browse(&self, browse: &Browse, now: Timestamp) -> Result<Listing> {
        let (condition, values) = browse.sql(now);
        let (order, limit, offset) = (browse.order.sql(), browse.limit, browse.offset);
        let tail = format!(
            "WHERE {condition} ORDER BY {order}, sessions.key LIMIT {limit} OFFSET {offset}"
        );
        let entries = self.entries(&tail, params_from_iter(&values), now)?;
        let sql = format!("SELECT count(*) FROM sessions WHERE {condition}");
        let total = self.connection.query_row(&sql, params_from_iter(&values), |row| row.get(0));
        let total = total.map(|total: i64| total as u64).map_err(self.error())?;
        Ok(Listing { entries, total, facets: self.facets(browse, now)? })
    }

    fn facets(&self, browse: &Browse, now: Timestamp) -> Result<Facets> {
        let count = |what: &str, browse: &Browse| self.tally(what, "", browse, now);
        Ok(Facets {
            agents: count("sessions.agent", &browse.without(|one| one.filter.agents.clear()))?,
            projects: count(
                "sessions.project",
                &browse.without(|one| one.filter.projects.clear()),
            )?,
            branches: count("sessions.branch", &browse.without(|one| one.filter.branches.clear()))?,
            models: self.tally(
                "model.value",
                ", json_each(sessions.models) AS model",
                &browse.without(|one| one.model = None),
                now,
            )?,
            statuses: count(&status(now), &browse.without(|one| one.status = None))?,
        })
    }

    fn tally(
        &self,
        what: &str,
        also: &str,
        browse: &Browse,
        now: Timestamp,
    ) -> Result<Vec<(String, u64)>> {
        let (condition, values) = browse.sql(now);
        let sql = format!(
            "SELECT {what} AS fact, count(*) FROM sessions{also} WHERE {condition}
             AND {what} IS NOT NULL GROUP BY fact ORDER BY count(*) DESC, fact LIMIT {VALUES}"
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(self.error())?;
        let rows = statement.query_map(params_from_iter(values), |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)? as u64))
        });
        rows.and_then(Iterator::collect).map_err(self.error())
    }

    /// Files that tools changed in a telling, with the number of calls.
    pub(crate) fn files(&self, telling: u64) -> Result<Vec<(String, u64)>> {
        let sql = "SELECT facts FROM chunks WHERE telling = ?1 ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([telling as i64]).map_err(self.error())?;
        let mut files = std::collections::BTreeMap::new();
        while let Some(row) = rows.next().map_err(self.error())? {
            let packed = row.get_ref(0).and_then(|facts| Ok(facts.as_blob()?));
            for (file, calls) in super::chunk::facts(packed.map_err(self.error())?).files {
                *files.entry(file).or_insert(0) += calls;
            }
        }
        Ok(files.into_iter().collect())
    }

    /// The size of a telling's messages.
    pub(crate) fn weight(&self, telling: u64) -> Result<u64> {
        let sql = "SELECT coalesce(sum(bytes), 0) FROM chunks WHERE telling = ?1";
        let bytes = self.connection.query_row(sql, [telling as i64], |row| row.get::<_, i64>(0));
        bytes.map(|bytes| bytes as u64).map_err(self.error())
    }
}
