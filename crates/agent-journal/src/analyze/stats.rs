//! Statistics: one pass over what the sessions did and spent, sorted into groups.

use jiff::Zoned;
use jiff::civil::Date;
use serde::Serialize;

use super::activity::Streak;
use super::cost::{Cost, Prices};
use super::spread::Class;
use super::tally::Tally;
use super::tools::{Counted, ToolFigures, ranked, refs};
use super::usage::Figures;
use crate::error::Result;
use crate::maps::Map;
use crate::model::{QUARTER, Ref, Timestamp, Tokens};
use crate::search::Filter;
use crate::store::{Doings, Store};

/// How many files are named.
const FILES: usize = 10;

/// What is asked of the statistics.
#[derive(Clone, Debug)]
pub struct StatsQuery {
    /// Which sessions, and which time. Times hold to the quarter hour.
    pub filter: Filter,
    /// What to sort by.
    pub by: Option<By>,
    /// Whether sub-agents count.
    pub extent: Extent,
    /// Now, in the zone whose days and hours are meant.
    pub now: Zoned,
    /// Whether to count what was left out.
    pub explain: bool,
}

/// What figures are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Days.
    Day,
    /// Weeks, by their Monday.
    Week,
    /// Months.
    Month,
    /// Hours of the day.
    Hour,
    /// Agents.
    Agent,
    /// Models.
    Model,
    /// Projects.
    Project,
    /// Branches.
    Branch,
    /// Tools.
    Tool,
    /// Sessions.
    Session,
}

/// Whether what sub-agents did and spent belongs to the task they were started for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// It does.
    #[default]
    Tasks,
    /// Only what sessions did and spent themselves.
    OwnOnly,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// The time that was asked for.
    pub period: Period,
    /// Everything together.
    pub totals: Figures,
    /// The equal period before, when there is one.
    pub previous: Option<Figures>,
    /// What was asked to sort by.
    pub by: Option<By>,
    /// The groups.
    pub groups: Vec<Group>,
    /// Every day with something in it.
    pub days: Vec<(Date, Figures)>,
    /// Messages in each hour of the day.
    pub hours: [u64; 24],
    /// By model, the most tokens first.
    pub models: Vec<Group>,
    /// By project, the most active first.
    pub projects: Vec<Group>,
    /// By agent, the most sessions first.
    pub agents: Vec<Group>,
    /// By branch, the most active first.
    pub branches: Vec<Group>,
    /// What each model spent on each day, in the order of days.
    pub spending: Vec<Spending>,
    /// Sessions by how many prompts a person gave them.
    pub turns: Vec<Class>,
    /// Sessions by how long they were active.
    pub durations: Vec<Class>,
    /// By tool.
    pub tools: Vec<ToolFigures>,
    /// Kinds of failure.
    pub errors: Vec<Counted>,
    /// Files changed most; empty unless no grouping was asked for.
    pub files: Vec<Counted>,
    /// Commits, pull requests and issues, by kind.
    pub refs: Vec<Counted>,
    /// Days in a row, whatever the period.
    pub streak: Streak,
    /// What was not counted; only on request.
    pub explained: Option<Explained>,
}

/// A time span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Period {
    /// Its beginning.
    pub since: Option<Timestamp>,
    /// Its end.
    pub until: Option<Timestamp>,
}

/// Some of the figures.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// What is common to them.
    pub key: String,
    /// The same for people, where it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What a model spent on a day.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spending {
    /// The day.
    pub date: Date,
    /// The model.
    pub model: String,
    /// The tokens.
    #[serde(serialize_with = "Tokens::serialize_known")]
    pub tokens: Tokens,
    /// What they cost.
    pub cost: Cost,
}

/// What was not counted, and why. It speaks of the whole journal.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Explained {
    /// Records left out, by reason.
    pub not_counted: Vec<Counted>,
    /// Models without a price, with their tokens in the period.
    pub unpriced_models: Vec<Counted>,
    /// Tokens without a time.
    pub undated_tokens: u64,
}

/// Answers a query.
pub(crate) fn stats(store: Option<&Store>, query: &StatsQuery, prices: &Prices) -> Result<Stats> {
    let mut tally = Tally::new(query, prices);
    let Some(store) = store else { return Ok(tally.finish(query)) };
    let doings = store.doings(&query.filter, None)?;
    let chosen = chosen(&doings, query.extent);
    for task in chosen.chunk_by(|one, next| one.0 == next.0) {
        tally.add_task(&doings[task[0].0], task.iter().map(|(_, at)| &doings[*at]));
    }
    let seen: Vec<&Ref> = tally.refs(&doings, &chosen);
    let refs = refs(seen.into_iter());
    let files = match query.by {
        None => files(store, &tally)?,
        Some(_) => Vec::new(),
    };
    let explained = query.explain.then(|| tally.explain(store)).transpose()?;
    Ok(Stats { files, refs, explained, ..tally.finish(query) })
}

/// Sums up what was spent from an instant on, and nothing else: quick enough for a prompt.
pub(crate) fn spent_since(store: &Store, since: Timestamp, prices: &Prices) -> Result<Figures> {
    let first = since.as_millis().div_euclid(QUARTER);
    let mut sum = Figures::default();
    for one in store.doings(&Filter::default(), Some(since.as_millis()))? {
        for spent in one.spent().iter().filter(|spent| spent.quarter >= first) {
            sum.add_spent(spent, prices.cost(spent));
        }
    }
    Ok(sum)
}

/// Chooses sessions by the tasks they worked for, and returns the places of both. A task's
/// sessions follow each other, so that each task is counted once.
pub(super) fn chosen(doings: &[Doings], extent: Extent) -> Vec<(usize, usize)> {
    let places: Map<u64, usize> =
        doings.iter().enumerate().map(|(at, one)| (one.key, at)).collect();
    // What a session that is not shown spent is its parent's own.
    let own = |at: usize| climb(doings, &places, at, |one| !one.is_root && !one.is_shown);
    let mut chosen: Vec<(usize, usize)> = (0..doings.len())
        .map(|at| (climb(doings, &places, at, |one| !one.is_root), at))
        .filter(|(task, at)| {
            doings[*task].is_chosen && (extent == Extent::Tasks || own(*at) == *task)
        })
        .collect();
    chosen.sort_unstable();
    chosen
}

/// The first and the last quarter hour a filter asks for.
pub(super) fn quarter_range(filter: &Filter) -> (i64, i64) {
    let quarter = |at: Timestamp| at.as_millis().div_euclid(QUARTER);
    (filter.since.map_or(i64::MIN, quarter), filter.until.map_or(i64::MAX, quarter))
}

/// Finds the session that a session worked for, by place: its farthest known ancestor, over
/// sessions that may be left. A person's session that names a parent was resumed or forked from
/// it, and is a task of its own. What can be seen is never sorted under what cannot.
fn climb(
    doings: &[Doings],
    places: &Map<u64, usize>,
    start: usize,
    may_leave: impl Fn(&Doings) -> bool,
) -> usize {
    let (mut at, mut seen) = (start, start);
    // Parents that lead in a circle are nobody's root; no real chain is this long.
    for _ in 0..64 {
        match doings[at].parent.and_then(|key| places.get(&key)) {
            Some(up) if may_leave(&doings[at]) => at = *up,
            _ => return if doings[seen].is_shown { seen } else { at },
        }
        if doings[at].is_shown {
            seen = at;
        }
    }
    start
}

fn files(store: &Store, tally: &Tally<'_>) -> Result<Vec<Counted>> {
    let mut counts: Map<String, u64> = Map::default();
    store.each_file(&mut |session, path, count| {
        if !tally.active.contains(&session) {
            return;
        }
        match counts.get_mut(path) {
            Some(known) => *known += count,
            None => drop(counts.insert(path.to_owned(), count)),
        }
    })?;
    Ok(ranked(counts, FILES))
}
