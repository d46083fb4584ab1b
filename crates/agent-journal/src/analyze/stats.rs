//! Statistics: one pass over what the sessions did and spent, sorted into groups.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Zoned;
use jiff::civil::{Date, Weekday};
use serde::Serialize;

use super::activity::{Calendar, Local, Streak, by_quarter, streak, union};
use super::cost::Prices;
use super::tools::{Counted, ToolFigures, ToolTally, ranked, refs};
use super::usage::Figures;
use crate::error::Result;
use crate::model::{QUARTER, Ref, Timestamp};
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

/// Which of the two periods a quarter belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Asked,
    Before,
    Outside,
}

/// Answers a query.
pub(crate) fn stats(store: Option<&Store>, query: &StatsQuery, prices: &Prices) -> Result<Stats> {
    let mut tally = Tally::new(query, prices);
    let Some(store) = store else { return Ok(tally.finish(query)) };
    let doings = store.doings(&query.filter, None)?;
    let chosen = chosen(&doings, query.extent);
    for (task, at) in &chosen {
        tally.add(&doings[*at], &doings[*task]);
    }
    let seen: Vec<&Ref> = tally.refs(&doings, &chosen);
    let refs = refs(seen.into_iter());
    let files = match query.by {
        None => files(store, &doings, &chosen, &tally)?,
        Some(_) => Vec::new(),
    };
    let explained = query.explain.then(|| tally.explain(store)).transpose()?;
    Ok(Stats { refs, files, explained, ..tally.finish(query) })
}

/// Sums up what was spent from an instant on, and nothing else: quick enough for a prompt.
pub(crate) fn spent_since(store: &Store, since: Timestamp, prices: &Prices) -> Result<Figures> {
    let first = since.as_millis().div_euclid(QUARTER);
    let mut sum = Figures::default();
    for one in store.doings(&Filter::default(), Some(since.as_millis()))? {
        for spent in one.spent.iter().filter(|spent| spent.quarter >= first) {
            sum.add_spent(spent, prices.cost(spent));
        }
    }
    Ok(sum)
}

/// Chooses sessions by the tasks they worked for, and returns the places of both. A task's
/// sessions follow each other, so that each task is counted once.
pub(super) fn chosen(doings: &[Doings], extent: Extent) -> Vec<(usize, usize)> {
    let mut chosen: Vec<(usize, usize)> = tasks(doings)
        .into_iter()
        .filter(|(at, task)| doings[*task].is_chosen && (at == task || extent == Extent::Tasks))
        .map(|(at, task)| (task, at))
        .collect();
    chosen.sort_unstable();
    chosen
}

/// The first and the last quarter hour a filter asks for.
pub(super) fn quarter_range(filter: &Filter) -> (i64, i64) {
    let quarter = |at: Timestamp| at.as_millis().div_euclid(QUARTER);
    (filter.since.map_or(i64::MIN, quarter), filter.until.map_or(i64::MAX, quarter))
}

/// Finds the session each session worked for, by place: its farthest known ancestor.
fn tasks(doings: &[Doings]) -> Vec<(usize, usize)> {
    let places: HashMap<u64, usize> =
        doings.iter().enumerate().map(|(at, one)| (one.key, at)).collect();
    let parent = |at: usize| doings[at].parent.and_then(|key| places.get(&key)).copied();
    let root = |start: usize| {
        let mut at = start;
        // Parents that lead in a circle are nobody's root; no real chain is this long.
        for _ in 0..64 {
            match parent(at) {
                // A person's session that names a parent was resumed or forked from it, and is a
                // task of its own.
                Some(up) if !doings[at].is_root => at = up,
                _ => return at,
            }
        }
        start
    };
    (0..doings.len()).map(|at| (at, root(at))).collect()
}

fn files(
    store: &Store,
    doings: &[Doings],
    chosen: &[(usize, usize)],
    tally: &Tally<'_>,
) -> Result<Vec<Counted>> {
    let active = |one: &Doings| {
        one.done.quarters.iter().any(|quarter| tally.side(quarter.number) == Side::Asked)
    };
    let keys: BTreeSet<u64> = chosen
        .iter()
        .map(|(_, at)| &doings[*at])
        .filter(|one| active(one))
        .map(|one| one.key)
        .collect();
    let mut counts: HashMap<String, u64> = HashMap::new();
    store.each_file(&mut |session, path, count| {
        if !keys.contains(&session) {
            return;
        }
        match counts.get_mut(path) {
            Some(known) => *known += count,
            None => drop(counts.insert(path.to_owned(), count)),
        }
    })?;
    Ok(ranked(counts, FILES))
}

/// The sums on their way.
struct Tally<'p> {
    prices: &'p Prices,
    calendar: Calendar,
    /// First and last quarter asked for, and the first of the period before.
    asked: (i64, i64),
    before: Option<i64>,
    by: Option<By>,
    totals: Figures,
    previous: Figures,
    groups: Groups,
    days: BTreeMap<Date, Figures>,
    hours: [u64; 24],
    models: Groups,
    projects: Groups,
    agents: Groups,
    tools: ToolTally,
    active_days: BTreeSet<Date>,
    periods: Vec<(i64, i64)>,
    unpriced: HashMap<String, u64>,
    undated_tokens: u64,
}

/// Groups by key, with their periods of work.
#[derive(Default)]
struct Groups(HashMap<String, Gathered>);

#[derive(Default)]
struct Gathered {
    label: Option<String>,
    figures: Figures,
    periods: Vec<(i64, i64)>,
}

impl<'p> Tally<'p> {
    fn new(query: &StatsQuery, prices: &'p Prices) -> Self {
        let asked = quarter_range(&query.filter);
        let now = query.now.timestamp().as_millisecond().div_euclid(QUARTER);
        let end = if asked.1 == i64::MAX { now } else { asked.1 };
        let has_start = asked.0 != i64::MIN;
        Self {
            prices,
            calendar: Calendar::new(query.now.time_zone().clone()),
            asked,
            before: has_start.then(|| asked.0 - (end - asked.0 + 1).max(1)),
            by: query.by,
            totals: Figures::default(),
            previous: Figures::default(),
            groups: Groups::default(),
            days: BTreeMap::new(),
            hours: [0; 24],
            models: Groups::default(),
            projects: Groups::default(),
            agents: Groups::default(),
            tools: ToolTally::default(),
            active_days: BTreeSet::new(),
            periods: Vec::new(),
            unpriced: HashMap::new(),
            undated_tokens: 0,
        }
    }

    fn side(&self, quarter: i64) -> Side {
        let limited = self.asked.0 != i64::MIN || self.asked.1 != i64::MAX;
        if quarter == 0 && limited {
            return Side::Outside;
        }
        if (self.asked.0..=self.asked.1).contains(&quarter) {
            return Side::Asked;
        }
        match self.before {
            Some(before) if (before..self.asked.0).contains(&quarter) => Side::Before,
            _ => Side::Outside,
        }
    }

    /// Adds a session to the task it worked for.
    fn add(&mut self, one: &Doings, task: &Doings) {
        let counts = one.key == task.key && one.is_root && one.is_shown;
        for quarter in &one.done.quarters {
            let local = self.calendar.local(quarter.number);
            if let Some(local) = local.filter(|_| counts) {
                self.active_days.insert(local.date);
            }
            match self.side(quarter.number) {
                Side::Outside => {}
                Side::Before => {
                    self.previous.add_done(quarter, one.is_root);
                    if counts {
                        self.previous.count(task.key);
                    }
                }
                Side::Asked => {
                    self.tools.add(quarter, task.key);
                    if let Some(local) = local {
                        self.hours[local.hour.clamp(0, 23) as usize] += quarter.messages;
                    }
                    self.each(local, task, &mut |figures| {
                        figures.add_done(quarter, one.is_root);
                        if counts {
                            figures.count(task.key);
                        }
                    });
                }
            }
        }
        if counts {
            self.add_start(task);
        }
        self.add_periods(one, task);
        self.add_spent(one, task);
    }

    fn add_start(&mut self, task: &Doings) {
        let Some(quarter) = task.started.map(|at| at.div_euclid(QUARTER)) else { return };
        match self.side(quarter) {
            Side::Asked => {
                let local = self.calendar.local(quarter);
                self.each(local, task, &mut |figures| figures.sessions_started += 1);
            }
            Side::Before => self.previous.sessions_started += 1,
            Side::Outside => {}
        }
    }

    fn add_periods(&mut self, one: &Doings, task: &Doings) {
        // Up to the end of the last quarter, without running over.
        let end = self.asked.1.checked_add(1).and_then(|last| last.checked_mul(QUARTER));
        let (start, end) = (self.asked.0.saturating_mul(QUARTER), end.unwrap_or(i64::MAX));
        for (from, to) in &one.done.periods {
            let period = ((*from).max(start), (*to).min(end));
            if period.0 >= period.1 {
                continue;
            }
            self.periods.push(period);
            self.projects.at(project(task)).periods.push(period);
            self.agents.at(&task.agent).periods.push(period);
            if let Some((key, _)) = self.by.and_then(|by| session_key(by, task)) {
                self.groups.at(&key).periods.push(period);
            }
        }
    }

    fn add_spent(&mut self, one: &Doings, task: &Doings) {
        for spent in &one.spent {
            let side = self.side(spent.quarter);
            if side == Side::Outside {
                continue;
            }
            let cost = self.prices.cost(spent);
            if side == Side::Before {
                self.previous.add_spent(spent, cost);
                continue;
            }
            let local = self.calendar.local(spent.quarter);
            self.each(local, task, &mut |figures| figures.add_spent(spent, cost));
            let model = spent.model.as_deref().unwrap_or(UNKNOWN);
            let counted = task.is_root && task.is_shown;
            let models =
                [Some(&mut self.models), (self.by == Some(By::Model)).then_some(&mut self.groups)];
            for group in models.into_iter().flatten() {
                let figures = &mut group.at(model).figures;
                figures.add_spent(spent, cost);
                if counted {
                    figures.count(task.key);
                }
            }
            if cost.unpriced_tokens() > 0 {
                *self.unpriced.entry(model.to_owned()).or_default() += cost.unpriced_tokens();
            }
            if local.is_none() {
                self.undated_tokens += spent.tokens.total();
            }
        }
    }

    /// Calls `add` with everything a quarter of a task belongs to, but models and tools.
    fn each(&mut self, local: Option<Local>, task: &Doings, add: &mut dyn FnMut(&mut Figures)) {
        add(&mut self.totals);
        if let Some(local) = local {
            add(self.days.entry(local.date).or_default());
        }
        let place = self.projects.at(project(task));
        if place.label.is_none() {
            place.label.clone_from(&task.project);
        }
        add(&mut place.figures);
        add(&mut self.agents.at(&task.agent).figures);
        let Some(by) = self.by else { return };
        let found = match time_key(by, local) {
            Some(key) => Some((key, None)),
            None => session_key(by, task),
        };
        if let Some((key, label)) = found {
            let group = self.groups.at(&key);
            group.label = group.label.take().or(label);
            add(&mut group.figures);
        }
    }

    /// The references of the sessions that were active in the period.
    fn refs<'d>(&self, doings: &'d [Doings], chosen: &[(usize, usize)]) -> Vec<&'d Ref> {
        let active = |one: &&Doings| {
            one.done.quarters.iter().any(|quarter| self.side(quarter.number) == Side::Asked)
        };
        chosen.iter().map(|(_, at)| &doings[*at]).filter(active).flat_map(|one| &one.refs).collect()
    }

    fn explain(&self, store: &Store) -> Result<Explained> {
        let repeats = store.repeats()?;
        let reasons = [
            ("further records of a call in one file (streaming, repeated lines)", repeats.in_file),
            ("the same session in another file", repeats.in_copies),
            ("the call in another session (resumed, forked, replayed)", repeats.in_sessions),
            ("the call in a working copy of its session", repeats.in_working_copies),
            ("a sum over calls that are recorded one by one", repeats.sums),
        ];
        let not_counted = reasons
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| Counted { name: name.to_owned(), count })
            .collect();
        Ok(Explained {
            not_counted,
            unpriced_models: ranked(self.unpriced.clone(), usize::MAX),
            undated_tokens: self.undated_tokens,
        })
    }

    fn finish(mut self, query: &StatsQuery) -> Stats {
        self.add_work();
        self.totals.finish();
        self.previous.finish();
        self.days.values_mut().for_each(Figures::finish);
        let (tools, errors) = self.tools.finish();
        let today = query.now.date();
        let by_tokens = |group: &Group| std::cmp::Reverse(group.figures.tokens.total());
        let by_active = |group: &Group| std::cmp::Reverse(group.figures.active_s);
        let by_sessions = |group: &Group| std::cmp::Reverse(group.figures.sessions);
        let groups = match self.by {
            Some(By::Day | By::Week | By::Month | By::Hour) | None => self.groups.finish(|_| 0),
            Some(By::Project | By::Branch) => self.groups.finish(by_active),
            Some(By::Agent) => self.groups.finish(by_sessions),
            Some(By::Model | By::Session | By::Tool) => self.groups.finish(by_tokens),
        };
        Stats {
            period: Period { since: query.filter.since, until: query.filter.until },
            totals: self.totals,
            previous: self.before.map(|_| self.previous),
            by: self.by,
            groups,
            days: self.days.into_iter().collect(),
            hours: self.hours,
            models: self.models.finish(by_tokens),
            projects: self.projects.finish(by_active),
            agents: self.agents.finish(by_sessions),
            tools,
            errors,
            files: Vec::new(),
            refs: Vec::new(),
            streak: streak(&self.active_days, today),
            explained: None,
        }
    }

    /// Lays the periods of work, overlaps counted once, over the total and the times of day.
    fn add_work(&mut self) {
        let joined = union(std::mem::take(&mut self.periods));
        let mut by_key: HashMap<String, u64> = HashMap::new();
        let mut by_day: HashMap<Date, u64> = HashMap::new();
        let mut total = 0;
        by_quarter(&joined, |quarter, length| {
            total += length;
            let local = self.calendar.local(quarter);
            if let Some(local) = local {
                *by_day.entry(local.date).or_default() += length;
            }
            if let Some(key) = self.by.and_then(|by| time_key(by, local)) {
                *by_key.entry(key).or_default() += length;
            }
        });
        self.totals.work_s = total / 1000;
        for (day, length) in by_day {
            self.days.entry(day).or_default().work_s = length / 1000;
        }
        for (key, length) in by_key {
            self.groups.at(&key).figures.work_s = length / 1000;
        }
    }
}

/// What is not known is called this, in words that cannot be a name.
const UNKNOWN: &str = "(unknown)";

impl Groups {
    fn at(&mut self, key: &str) -> &mut Gathered {
        if !self.0.contains_key(key) {
            self.0.insert(key.to_owned(), Gathered::default());
        }
        self.0.get_mut(key).expect("it was just put there")
    }

    fn finish<K: Ord>(self, rank: impl Fn(&Group) -> K) -> Vec<Group> {
        let finished = self.0.into_iter().map(|(key, gathered)| {
            let mut figures = gathered.figures;
            figures.finish();
            if !gathered.periods.is_empty() {
                let joined = union(gathered.periods);
                let length: i64 = joined.iter().map(|(start, end)| end - start).sum();
                figures.work_s = length as u64 / 1000;
            }
            Group { key, label: gathered.label, figures }
        });
        let mut groups: Vec<Group> = finished.collect();
        groups.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.key.cmp(&b.key)));
        groups
    }
}

/// The key of a quarter, when the figures are sorted by time.
fn time_key(by: By, local: Option<Local>) -> Option<String> {
    let unknown = || UNKNOWN.to_owned();
    match by {
        By::Day => Some(local.map_or_else(unknown, |local| local.date.to_string())),
        By::Week => Some(local.map_or_else(unknown, |local| monday(local.date).to_string())),
        By::Month => {
            Some(local.map_or_else(unknown, |local| local.date.strftime("%Y-%m").to_string()))
        }
        By::Hour => Some(local.map_or_else(unknown, |local| format!("{:02}", local.hour))),
        _ => None,
    }
}

fn monday(date: Date) -> Date {
    if date.weekday() == Weekday::Monday {
        return date;
    }
    date.nth_weekday(-1, Weekday::Monday).unwrap_or(date)
}

/// The key of a task, when the figures are sorted by what is about sessions.
fn session_key(by: By, task: &Doings) -> Option<(String, Option<String>)> {
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    match by {
        By::Agent => Some((task.agent.clone(), None)),
        By::Project => Some((project(task).to_owned(), task.project.clone())),
        By::Branch => Some((or_unknown(&task.branch), None)),
        By::Session => Some((task.id.clone(), Some(task.title.clone()))),
        _ => None,
    }
}

/// Two projects of one name are two projects.
fn project(task: &Doings) -> &str {
    task.project_path.as_deref().unwrap_or(UNKNOWN)
}
