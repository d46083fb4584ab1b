//! Browsing: sessions in any order, a window of them, and how many there are of each kind.

use std::collections::HashMap;

use rusqlite::params_from_iter;
use rusqlite::types::Value;
use serde::Serialize;

use super::Store;
use super::project::distinct_names;
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
    /// The most expensive first; those without a known price last.
    Cost,
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
    /// By project; those of one name are told apart by the directory above.
    pub projects: Vec<(String, u64)>,
    /// What chooses each of these projects in [`Filter::projects`], in the same order.
    #[serde(skip)]
    pub project_choices: Vec<String>,
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
            // Who knows the prices puts them in order.
            Self::Latest | Self::Cost => "sessions.ended_at DESC",
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
        "CASE WHEN sessions.messages > 0
         AND coalesce(sessions.ended_at, iif(sessions.prompts > 0, {since} + 1, 0)) > {since}
         AND EXISTS (
           SELECT 1 FROM tellings AS told JOIN sources AS origin ON origin.id = told.source
           WHERE told.key = sessions.telling AND origin.present = 1 AND told.gone = 0
           AND origin.modified / 1000000 > {since}) THEN 'running'
         WHEN sessions.failed = 1 THEN 'error' ELSE 'completed' END"
    )
}

/// The facts that sessions are chosen and counted by.
#[derive(Clone, Copy)]
enum Fact {
    Agent,
    Project,
    Branch,
    Model,
    Status,
}

impl Fact {
    const ALL: [Self; 5] = [Self::Agent, Self::Project, Self::Branch, Self::Model, Self::Status];
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

    /// Whether anything is chosen by a fact.
    fn chooses(&self, fact: Fact) -> bool {
        match fact {
            Fact::Agent => !self.filter.agents.is_empty(),
            Fact::Project => !self.filter.projects.is_empty(),
            Fact::Branch => !self.filter.branches.is_empty(),
            Fact::Model => self.model.is_some(),
            Fact::Status => self.status.is_some(),
        }
    }

    /// The same as if nothing were chosen by a fact.
    fn without(&self, fact: Fact) -> Self {
        let mut other = self.clone();
        match fact {
            Fact::Agent => other.filter.agents.clear(),
            Fact::Project => other.filter.projects.clear(),
            Fact::Branch => other.filter.branches.clear(),
            Fact::Model => other.model = None,
            Fact::Status => other.status = None,
        }
        other
    }
}

impl Store {
    /// Lists a window of the chosen sessions.
    pub(crate) fn browse(&self, browse: &Browse, now: Timestamp) -> Result<Listing> {
        let (condition, values) = browse.sql(self, now)?;
        let (order, limit, offset) = (browse.order.sql(), browse.limit, browse.offset);
        // Sorting is quicker without what is only shown.
        let sql = format!(
            "SELECT sessions.key FROM sessions WHERE {condition}
             ORDER BY {order}, sessions.key LIMIT {limit} OFFSET {offset}"
        );
        let keys = self.keys(&sql, params_from_iter(&values))?;
        self.browse_keys(browse, &keys, now)
    }

    /// Lists these of the chosen sessions, in this order.
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

    /// Lists the keys of the chosen sessions, in no order.
    pub(crate) fn browsed_keys(&self, browse: &Browse, now: Timestamp) -> Result<Vec<u64>> {
        let (condition, values) = browse.sql(self, now)?;
        let sql = format!("SELECT sessions.key FROM sessions WHERE {condition}");
        self.keys(&sql, params_from_iter(values))
    }

    /// Counts the chosen sessions, in all and by each fact. What nothing is chosen by is counted
    /// in one pass with the whole.
    fn facets(&self, browse: &Browse, now: Timestamp) -> Result<(u64, Facets)> {
        let is_chosen = |fact: &Fact| browse.chooses(*fact);
        let (chosen, free): (Vec<Fact>, Vec<Fact>) = Fact::ALL.into_iter().partition(is_chosen);
        let mut tally = Tally::default();
        let total = self.count_facts(browse, &free, &mut tally, now)?;
        for fact in chosen {
            self.count_facts(&browse.without(fact), &[fact], &mut tally, now)?;
        }
        Ok((total, tally.facets()))
    }

    /// Counts sessions by some facts, and tells how many sessions there are.
    fn count_facts(
        &self,
        browse: &Browse,
        facts: &[Fact],
        tally: &mut Tally,
        now: Timestamp,
    ) -> Result<u64> {
        let (condition, values) = browse.sql(self, now)?;
        // The whole row is read anyway: a way through an index would only be longer.
        let sql = format!(
            "SELECT agent, project_path, branch, models, {} FROM sessions NOT INDEXED WHERE {condition}",
            status(now)
        );
        let mut statement = self.connection.prepare(&sql).map_err(self.error())?;
        let mut rows = statement.query(params_from_iter(values)).map_err(self.error())?;
        let mut total = 0;
        while let Some(row) = rows.next().map_err(self.error())? {
            total += 1;
            for fact in facts {
                let text = row.get_ref(*fact as usize).and_then(|text| Ok(text.as_str_or_null()?));
                if let Some(text) = text.map_err(self.error())? {
                    tally.add(*fact, text);
                }
            }
        }
        Ok(total)
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

/// Numbers of sessions by each value of each fact.
#[derive(Default)]
struct Tally([HashMap<String, u64>; Fact::ALL.len()]);

impl Tally {
    fn add(&mut self, fact: Fact, text: &str) {
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

/// Names projects that were counted by their paths, the most frequent first, each with what
/// chooses it: its path only where its name is not enough.
fn named_projects(counts: &HashMap<String, u64>) -> (Vec<String>, Vec<(String, u64)>) {
    // Names are told apart before the rare ones are left out.
    let paths: Vec<&str> = counts.keys().map(String::as_str).collect();
    let names = distinct_names(&paths);
    let mut projects: Vec<(u64, String, &str)> =
        paths.into_iter().zip(names).map(|(path, name)| (counts[path], name, path)).collect();
    projects.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.cmp(other)));
    projects.truncate(VALUES);
    let choice = |(_, name, path): &(u64, String, &str)| {
        let is_plain = !name.contains(['/', '\\']);
        format!("={}", if is_plain { name } else { *path })
    };
    let choices = projects.iter().map(choice).collect();
    (choices, projects.into_iter().map(|(count, name, _)| (name, count)).collect())
}

/// Takes lists apart that were counted as they are written.
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
    counts.truncate(VALUES);
    counts
}
