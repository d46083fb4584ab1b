//! Browses sessions: sorted, in pages, with the number of sessions per facet value.

use std::collections::HashMap;

use rusqlite::params_from_iter;
use rusqlite::types::Value;
use serde::Serialize;

use super::Store;
use super::filter_sql::number_column;
use super::project::distinct_names;
use super::sessions::Entry;
use crate::error::Result;
use crate::filter::{Filter, SessionNumber};
use crate::model::{RUNNING_WINDOW_MS, Timestamp};

/// Maximum number of values per facet.
const MAX_FACET_VALUES: usize = 60;

/// A selection of sessions to browse.
#[derive(Clone, Debug, Default)]
pub struct Browse {
    /// The filter on sessions.
    pub filter: Filter,
    /// Selects only sessions in which this model answered.
    pub model: Option<String>,
    /// Selects only sessions with this status: `running`, `completed` or `error`.
    pub status: Option<String>,
    /// Selects only sessions that this session started.
    pub under: Option<Entry>,
    /// The sort order.
    pub order: Order,
    /// Number of sessions to skip.
    pub offset: usize,
    /// Maximum number of sessions to return.
    pub limit: usize,
}

/// A sort order of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Latest first.
    #[default]
    Latest,
    /// Earliest first.
    Oldest,
    /// Longest active time first.
    Active,
    /// Most prompts first.
    Prompts,
    /// Most tool calls first.
    Tools,
    /// Most tokens first.
    Tokens,
    /// Highest cost first; sessions without a known price last.
    Cost,
}

/// One page of the selected sessions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listing {
    /// The sessions of the page.
    pub entries: Vec<Entry>,
    /// Number of selected sessions.
    pub total: u64,
    /// Number of sessions per facet value.
    pub facets: Facets,
}

/// Number of sessions per facet value, the most frequent first. Each facet is counted without the
/// condition on that facet.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Facets {
    /// Sessions by agent.
    pub agents: Vec<(String, u64)>,
    /// Sessions by project. Projects with equal names are distinguished by their parent
    /// directories.
    pub projects: Vec<(String, u64)>,
    /// The [`Filter::projects`] value that selects each of these projects, in the same order.
    #[serde(skip)]
    pub project_choices: Vec<String>,
    /// Sessions by branch.
    pub branches: Vec<(String, u64)>,
    /// Sessions by model.
    pub models: Vec<(String, u64)>,
    /// Sessions by status.
    pub statuses: Vec<(String, u64)>,
}

impl Order {
    fn sql(self) -> String {
        let number = match self {
            // The caller sorts by cost, because prices are not in the database.
            Self::Latest | Self::Cost => return "sessions.ended_at DESC".to_owned(),
            Self::Oldest => return "sessions.started_at".to_owned(),
            Self::Active => SessionNumber::ActiveSeconds,
            Self::Prompts => SessionNumber::Prompts,
            Self::Tools => SessionNumber::ToolCalls,
            Self::Tokens => SessionNumber::Tokens,
        };
        format!("{} DESC", number_column(number))
    }
}

/// Returns SQL for the status of a session, by the same rules as `listed_session_from_row`.
fn status(now: Timestamp) -> String {
    format!(
        "CASE WHEN {} THEN 'running' WHEN sessions.failed = 1 THEN 'error' ELSE 'completed' END",
        running_condition(now)
    )
}

/// Returns the SQL condition on a row of `sessions` that the session is running.
pub(super) fn running_condition(now: Timestamp) -> String {
    let since = now.as_millis() - RUNNING_WINDOW_MS;
    // Looks up the source only of the few sessions that may be running.
    format!(
        "(sessions.messages > 0
         AND coalesce(sessions.ended_at, iif(sessions.prompts > 0, {since} + 1, 0)) > {since}
         AND EXISTS (
           SELECT 1 FROM recordings AS told JOIN sources AS origin ON origin.id = told.source
           WHERE told.key = sessions.recording AND origin.present = 1 AND told.gone = 0
           AND origin.modified / 1000000 > {since}))"
    )
}

/// A property by which sessions are filtered and counted.
#[derive(Clone, Copy)]
enum Facet {
    Agent,
    Project,
    Branch,
    Model,
    Status,
}

impl Facet {
    const ALL: [Self; 5] = [Self::Agent, Self::Project, Self::Branch, Self::Model, Self::Status];

    /// Returns the column with the value.
    fn column(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Project => "project_path",
            Self::Branch => "branch",
            Self::Model => "models",
            Self::Status => "status",
        }
    }
}

impl Browse {
    fn sql(&self, store: &Store, now: Timestamp) -> Result<(String, Vec<Value>)> {
        let (mut sql, mut values) = store.condition(&self.filter)?;
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
        Ok((sql, values))
    }

    /// Returns whether the query has a condition on a facet.
    fn chooses(&self, fact: Facet) -> bool {
        match fact {
            Facet::Agent => !self.filter.agents.is_empty(),
            Facet::Project => !self.filter.projects.is_empty(),
            Facet::Branch => !self.filter.branches.is_empty(),
            Facet::Model => self.model.is_some(),
            Facet::Status => self.status.is_some(),
        }
    }

    /// Returns the query without its condition on a facet.
    fn without(&self, fact: Facet) -> Self {
        let mut other = self.clone();
        match fact {
            Facet::Agent => other.filter.agents.clear(),
            Facet::Project => other.filter.projects.clear(),
            Facet::Branch => other.filter.branches.clear(),
            Facet::Model => other.model = None,
            Facet::Status => other.status = None,
        }
        other
    }
}

impl Store {
    /// Returns a page of the selected sessions.
    pub(crate) fn browse(&self, browse: &Browse, now: Timestamp) -> Result<Listing> {
        let (condition, values) = browse.sql(self, now)?;
        let (order, limit, offset) = (browse.order.sql(), browse.limit, browse.offset);
        // Sorting keys is faster than sorting full rows.
        let sql = format!(
            "SELECT sessions.key FROM sessions WHERE {condition}
             ORDER BY {order}, sessions.key LIMIT {limit} OFFSET {offset}"
        );
        let keys = self.keys(&sql, params_from_iter(&values))?;
        self.browse_keys(browse, &keys, now)
    }

    /// Returns the sessions with the given keys, in that order, with the facets of the query.
    pub(crate) fn browse_keys(
        &self,
        browse: &Browse,
        keys: &[u64],
        now: Timestamp,
    ) -> Result<Listing> {
        let mut entries = self.sessions_by_key(keys, now)?;
        let places: HashMap<u64, usize> = keys.iter().copied().zip(0..).collect();
        entries.sort_by_key(|entry| places.get(&entry.key));
        let (total, facets) = self.facets(browse, now)?;
        Ok(Listing { entries, total, facets })
    }

    /// Lists the keys of the selected sessions, unsorted.
    pub(crate) fn browsed_keys(&self, browse: &Browse, now: Timestamp) -> Result<Vec<u64>> {
        let (condition, values) = browse.sql(self, now)?;
        let sql = format!("SELECT sessions.key FROM sessions WHERE {condition}");
        self.keys(&sql, params_from_iter(values))
    }

    /// Counts the selected sessions, in total and per facet value. Facets without a condition are
    /// counted in one pass with the total.
    fn facets(&self, browse: &Browse, now: Timestamp) -> Result<(u64, Facets)> {
        let is_chosen = |fact: &Facet| browse.chooses(*fact);
        let (chosen, free): (Vec<Facet>, Vec<Facet>) = Facet::ALL.into_iter().partition(is_chosen);
        let mut tally = FacetCounts::default();
        let total = self.count_facts(browse, &free, &mut tally, now)?;
        for fact in chosen {
            self.count_facts(&browse.without(fact), &[fact], &mut tally, now)?;
        }
        Ok((total, tally.facets()))
    }

    /// Counts sessions by the values of some facets. Returns the number of sessions.
    fn count_facts(
        &self,
        browse: &Browse,
        facts: &[Facet],
        tally: &mut FacetCounts,
        now: Timestamp,
    ) -> Result<u64> {
        let (condition, values) = browse.sql(self, now)?;
        // All rows are read, so an index lookup would only add work.
        let sql = format!(
            "SELECT agent, project_path, branch, models, {} AS status FROM sessions NOT INDEXED WHERE {condition}",
            status(now)
        );
        let mut statement = self.database.prepare(&sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        let mut total = 0;
        while let Some(row) = rows.next()? {
            total += 1;
            for fact in facts {
                if let Some(text) = row.text(fact.column())? {
                    tally.add(*fact, text);
                }
            }
        }
        Ok(total)
    }

    /// Lists the files that tools changed in a recording, with the number of calls.
    pub(crate) fn files(&self, recording: u64) -> Result<Vec<(String, u64)>> {
        let sql = "SELECT facts FROM chunks WHERE recording = ?1 ORDER BY first";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query([recording as i64])?;
        let mut files = std::collections::BTreeMap::new();
        while let Some(row) = rows.next()? {
            for (file, calls) in super::chunk::facts(row.blob("facts")?).files {
                *files.entry(file).or_insert(0) += calls;
            }
        }
        Ok(files.into_iter().collect())
    }

    /// Returns the uncompressed size of a recording's messages in bytes.
    pub(crate) fn weight(&self, recording: u64) -> Result<u64> {
        let sql = "SELECT coalesce(sum(bytes), 0) FROM chunks WHERE recording = ?1";
        let bytes = self.database.query_row(sql, [recording as i64], |row| row.get::<_, i64>(0));
        bytes.map(|bytes| bytes as u64)
    }
}

/// Number of sessions per value of each facet.
#[derive(Default)]
struct FacetCounts([HashMap<String, u64>; Facet::ALL.len()]);

impl FacetCounts {
    fn add(&mut self, fact: Facet, text: &str) {
        let counts = &mut self.0[fact as usize];
        match counts.get_mut(text) {
            Some(count) => *count += 1,
            None => drop(counts.insert(text.to_owned(), 1)),
        }
    }

    fn facets(self) -> Facets {
        let [agents, projects, branches, models, statuses] = self.0;
        let (project_choices, projects) = named_projects(&projects);
        Facets {
            agents: most(agents),
            projects,
            project_choices,
            branches: most(branches),
            models: most(each(models)),
            statuses: most(statuses),
        }
    }
}

/// Names projects that were counted by path, the most frequent first. Also returns the filter value
/// of each project: its name, or its path if the name is ambiguous.
fn named_projects(counts: &HashMap<String, u64>) -> (Vec<String>, Vec<(String, u64)>) {
    // Names are made distinct before rare projects are dropped.
    let paths: Vec<&str> = counts.keys().map(String::as_str).collect();
    let names = distinct_names(&paths);
    let mut projects: Vec<(u64, String, &str)> =
        paths.into_iter().zip(names).map(|(path, name)| (counts[path], name, path)).collect();
    projects.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.cmp(other)));
    projects.truncate(MAX_FACET_VALUES);
    let choice = |(_, name, path): &(u64, String, &str)| {
        let is_plain = !name.contains(['/', '\\']);
        format!("={}", if is_plain { name } else { *path })
    };
    let choices = projects.iter().map(choice).collect();
    (choices, projects.into_iter().map(|(count, name, _)| (name, count)).collect())
}

/// Splits counts of JSON lists of models into counts of models.
fn each(lists: HashMap<String, u64>) -> HashMap<String, u64> {
    let mut counts = HashMap::new();
    for (list, count) in lists {
        for model in serde_json::from_str::<Vec<String>>(&list).unwrap_or_default() {
            *counts.entry(model).or_default() += count;
        }
    }
    counts
}

fn most(counts: HashMap<String, u64>) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    counts.truncate(MAX_FACET_VALUES);
    counts
}
