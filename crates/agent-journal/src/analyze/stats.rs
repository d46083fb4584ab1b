//! Statistics: one pass over the activity and usage of sessions, sorted into groups.

use jiff::Zoned;
use jiff::civil::Date;
use serde::Serialize;

use super::activity::Streak;
use super::cost::{Cost, Prices};
use super::spread::SizeClass;
use super::tally::StatsTally;
use super::tools::{CountedName, ToolFigures, count_refs, most_frequent};
use super::usage::Figures;
use crate::error::Result;
use crate::filter::Filter;
use crate::maps::Map;
use crate::model::{QUARTER, Ref, Timestamp, Tokens};
use crate::store::{SessionActivity, Store};

/// The maximum number of files listed.
const FILES: usize = 10;

/// A query for statistics.
#[derive(Clone, Debug)]
pub struct StatsQuery {
    /// The sessions and the time range. Times are rounded to quarter hours.
    pub filter: Filter,
    /// The grouping of the figures.
    pub by: Option<GroupBy>,
    /// Whether sub-agents count.
    pub extent: Extent,
    /// The current time, in the zone of the user's days and hours.
    pub now: Zoned,
    /// Whether to count excluded records.
    pub explain: bool,
}

/// A property by which figures are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// By day.
    Day,
    /// By week, named by its Monday.
    Week,
    /// By month.
    Month,
    /// By hour of the day.
    Hour,
    /// By agent.
    Agent,
    /// By model.
    Model,
    /// By project.
    Project,
    /// By branch.
    Branch,
    /// By tool.
    Tool,
    /// By session.
    Session,
}

/// Whether the activity and usage of sub-agents belong to the task they were started for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// They belong to the task.
    #[default]
    Tasks,
    /// Only the sessions' own activity and usage counts.
    OwnOnly,
}

/// The statistics.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// The requested time range.
    pub period: Period,
    /// The totals.
    pub totals: Figures,
    /// The totals of the equally long period before, if the range has a start.
    pub previous: Option<Figures>,
    /// The requested grouping.
    pub by: Option<GroupBy>,
    /// The groups of the requested grouping; empty without one.
    pub groups: Vec<StatsGroup>,
    /// Figures of every day with activity or usage.
    pub days: Vec<(Date, Figures)>,
    /// The number of messages in each hour of the day.
    pub hours: [u64; 24],
    /// Figures by model, the most tokens first.
    pub models: Vec<StatsGroup>,
    /// Figures by project, the most active first.
    pub projects: Vec<StatsGroup>,
    /// Figures by agent, the most sessions first.
    pub agents: Vec<StatsGroup>,
    /// Figures by branch, the most active first.
    pub branches: Vec<StatsGroup>,
    /// The tokens and cost of each model on each day, in the order of days.
    pub spending: Vec<DailySpending>,
    /// Sessions by number of prompts.
    pub turns: Vec<SizeClass>,
    /// Sessions by active time.
    pub durations: Vec<SizeClass>,
    /// Figures by tool.
    pub tools: Vec<ToolFigures>,
    /// Failures by kind.
    pub errors: Vec<CountedName>,
    /// The files changed most often; only without a grouping.
    pub files: Vec<CountedName>,
    /// Commits, pull requests and issues, by kind.
    pub refs: Vec<CountedName>,
    /// Consecutive days with a session, independent of the time range.
    pub streak: Streak,
    /// The excluded records; only on request.
    pub explained: Option<Explained>,
}

/// A time range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Period {
    /// The beginning; `None` if it is open.
    pub since: Option<Timestamp>,
    /// The end; `None` if it is open.
    pub until: Option<Timestamp>,
}

/// The figures of one group.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StatsGroup {
    /// The common key.
    pub key: String,
    /// A label for the user, if it differs from the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The figures of the group.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The tokens and cost of a model on a day.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DailySpending {
    /// The local date.
    pub date: Date,
    /// The name of the model.
    pub model: String,
    /// The tokens that the model used on that day.
    #[serde(serialize_with = "Tokens::serialize_known")]
    pub tokens: Tokens,
    /// The cost of the tokens.
    pub cost: Cost,
}

/// Excluded records and the reasons, for the whole journal.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Explained {
    /// The number of excluded records, by reason.
    pub not_counted: Vec<CountedName>,
    /// Models without a price, with their tokens in the period.
    pub unpriced_models: Vec<CountedName>,
    /// The number of tokens without a time.
    pub undated_tokens: u64,
}

/// Computes statistics.
pub(crate) fn compute_stats(
    store: Option<&Store>,
    query: &StatsQuery,
    prices: &Prices,
) -> Result<Stats> {
    let mut tally = StatsTally::new(query, prices);
    let Some(store) = store else { return Ok(tally.into_stats(query)) };
    let activity = store.activity(&query.filter, None)?;
    let chosen = filter_from_fields(&activity, query.extent);
    for task in chosen.chunk_by(|one, next| one.0 == next.0) {
        tally.add_task(&activity[task[0].0], task.iter().map(|(_, at)| &activity[*at]));
    }
    let seen: Vec<&Ref> = tally.active_refs(&activity, &chosen);
    let refs = count_refs(seen.into_iter());
    let files = match query.by {
        None => count_changed_files(store, &tally)?,
        Some(_) => Vec::new(),
    };
    let explained = query.explain.then(|| tally.explain_totals(store)).transpose()?;
    Ok(Stats { files, refs, explained, ..tally.into_stats(query) })
}

/// Sums up the spending since an instant, and nothing else: fast enough for a shell prompt.
pub(crate) fn sum_spending_since(
    store: &Store,
    since: Timestamp,
    prices: &Prices,
) -> Result<Figures> {
    let first = since.as_millis().div_euclid(QUARTER);
    let mut sum = Figures::default();
    for one in store.activity(&Filter::default(), Some(since.as_millis()))? {
        for spent in one.spent().iter().filter(|spent| spent.quarter >= first) {
            sum.add_usage_with_cost(spent, prices.cost_of_usage(spent));
        }
    }
    Ok(sum)
}

/// Selects sessions by their tasks; returns the indexes of task and session. The sessions of a task
/// are adjacent, so that each task is counted once.
pub(super) fn filter_from_fields(
    activity: &[SessionActivity],
    extent: Extent,
) -> Vec<(usize, usize)> {
    let places: Map<u64, usize> =
        activity.iter().enumerate().map(|(at, one)| (one.key, at)).collect();
    // The usage of a hidden session counts as its parent's own.
    let own = |at: usize| root_task(activity, &places, at, |one| !one.is_root && !one.is_shown);
    let mut chosen: Vec<(usize, usize)> = (0..activity.len())
        .map(|at| (root_task(activity, &places, at, |one| !one.is_root), at))
        .filter(|(task, at)| {
            activity[*task].is_chosen && (extent == Extent::Tasks || own(*at) == *task)
        })
        .collect();
    chosen.sort_unstable();
    chosen
}

/// Returns the first and the last quarter hour of a filter.
pub(super) fn quarter_range(filter: &Filter) -> (i64, i64) {
    let quarter = |at: Timestamp| at.as_millis().div_euclid(QUARTER);
    (filter.since.map_or(i64::MIN, quarter), filter.until.map_or(i64::MAX, quarter))
}

/// Returns the index of the task that a session worked for: its farthest known ancestor through
/// sessions that `may_leave` accepts. A person's session with a parent was resumed or forked from
/// it, and is a task of its own. A visible session is never assigned to a hidden one.
fn root_task(
    activity: &[SessionActivity],
    places: &Map<u64, usize>,
    start: usize,
    may_leave: impl Fn(&SessionActivity) -> bool,
) -> usize {
    let (mut at, mut seen) = (start, start);
    // A cycle of parents has no root; no real chain is this long.
    for _ in 0..64 {
        match activity[at].parent.and_then(|key| places.get(&key)) {
            Some(up) if may_leave(&activity[at]) => at = *up,
            _ => return if activity[seen].is_shown { seen } else { at },
        }
        if activity[at].is_shown {
            seen = at;
        }
    }
    start
}

fn count_changed_files(store: &Store, tally: &StatsTally<'_>) -> Result<Vec<CountedName>> {
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
    Ok(most_frequent(counts, FILES))
}
