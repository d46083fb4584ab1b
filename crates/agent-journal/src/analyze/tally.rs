//! The sums on their way: every session once, sorted into groups and times.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use jiff::civil::{Date, Weekday};

use super::activity::{Calendar, Local, by_quarter, streak, union};
use super::cost::{Cost, Prices};
use super::groups::Groups;
use super::spread::{DURATIONS, Spread, TURNS};
use super::stats::{By, Explained, Group, Period, Spending, Stats, StatsQuery, quarter_range};
use super::tools::{Counted, ToolTally, ranked};
use super::usage::Figures;
use crate::error::Result;
use crate::maps::{Map, Set};
use crate::model::{QUARTER, Ref, Tokens, unmarked};
use crate::store::{Doings, Done, Spent, Store, distinct_names};

/// Which of the two periods a quarter belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Asked,
    Before,
    Outside,
}

/// The sums on their way.
pub(super) struct Tally<'p> {
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
    branches: Groups,
    spending: Map<(Date, Rc<str>), (Tokens, Cost)>,
    turns: Spread,
    durations: Spread,
    tools: ToolTally,
    active_days: BTreeSet<Date>,
    periods: Vec<(i64, i64)>,
    unpriced: Map<String, u64>,
    /// Sessions that did something in the period asked for.
    pub(super) active: Set<u64>,
    /// What was done and spent in each quarter hour asked for.
    quarters: Map<i64, Figures>,
    /// The name of what has none.
    unknown: Rc<str>,
}

impl<'p> Tally<'p> {
    pub(super) fn new(query: &StatsQuery, prices: &'p Prices) -> Self {
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
            branches: Groups::default(),
            spending: Map::default(),
            turns: Spread::new(TURNS),
            durations: Spread::new(DURATIONS),
            tools: ToolTally::default(),
            active_days: BTreeSet::new(),
            periods: Vec::new(),
            unpriced: Map::default(),
            active: Set::default(),
            quarters: Map::default(),
            unknown: UNKNOWN.into(),
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

    /// Adds the sessions of one task.
    pub(super) fn add_task<'d>(
        &mut self,
        task: &Doings,
        sessions: impl Iterator<Item = &'d Doings>,
    ) {
        let mut sum = Figures::default();
        let mut has_time = false;
        for one in sessions {
            let done = one.done();
            has_time |= !done.quarters.is_empty();
            self.add_done((one, &done), task, &mut sum);
            self.add_periods(&done, task);
            self.add_spent(one, task, &mut sum);
        }
        if task.is_root && task.is_shown {
            self.add_start(task, &mut sum);
            if !has_time {
                self.count_silent(task, &mut sum);
            }
        }
        self.add_sum(task, &sum);
    }

    fn add_done(&mut self, (one, done): (&Doings, &Done), task: &Doings, sum: &mut Figures) {
        let counts = one.key == task.key && one.is_root && one.is_shown;
        let mut is_active = false;
        for quarter in &done.quarters {
            let local = if counts { self.calendar.local(quarter.number) } else { None };
            self.active_days.extend(local.map(|local| local.date));
            match self.side(quarter.number) {
                Side::Outside => {}
                Side::Before => {
                    self.previous.add_done(quarter, one.is_root);
                    if counts {
                        self.previous.count(task.key);
                    }
                }
                Side::Asked => {
                    is_active = true;
                    self.active.insert(one.key);
                    self.tools.add(quarter, task.key);
                    sum.add_done(quarter, one.is_root);
                    let moment = self.quarters.entry(quarter.number).or_default();
                    moment.add_done(quarter, one.is_root);
                    if counts {
                        sum.count(task.key);
                        self.count_time(local, task.key);
                    }
                }
            }
        }
        if is_active {
            self.count_models(one, task);
        }
    }

    /// Counts a session for its models, of which nothing but the names is recorded.
    fn count_models(&mut self, one: &Doings, task: &Doings) {
        for name in one.silent_models.iter().filter(|_| task.is_root && task.is_shown) {
            self.models.at(unmarked(name).0).figures.count(task.key);
        }
    }

    /// Counts a session in the times it was active.
    fn count_time(&mut self, local: Option<Local>, task: u64) {
        if let Some(local) = local {
            self.days.entry(local.date).or_default().count(task);
        }
        if let Some(key) = self.by.and_then(|by| time_key(by, local)) {
            self.groups.at(&key).figures.count(task);
        }
    }

    /// Counts a session without any message of its own, of which there is only a document or a
    /// title, where it began.
    fn count_silent(&mut self, task: &Doings, sum: &mut Figures) {
        let quarter = task.started.map_or(0, |at| at.div_euclid(QUARTER));
        match self.side(quarter) {
            Side::Asked => {
                sum.count(task.key);
                let local = self.calendar.local(quarter);
                self.count_time(local, task.key);
            }
            Side::Before => self.previous.count(task.key),
            Side::Outside => {}
        }
    }

    fn add_start(&mut self, task: &Doings, sum: &mut Figures) {
        let Some(quarter) = task.started.map(|at| at.div_euclid(QUARTER)) else { return };
        match self.side(quarter) {
            Side::Asked => {
                sum.sessions_started += 1;
                let local = self.calendar.local(quarter);
                if let Some(local) = local {
                    self.days.entry(local.date).or_default().sessions_started += 1;
                }
                if let Some(key) = self.by.and_then(|by| time_key(by, local)) {
                    self.groups.at(&key).figures.sessions_started += 1;
                }
            }
            Side::Before => self.previous.sessions_started += 1,
            Side::Outside => {}
        }
    }

    /// Adds what a task came to, wherever tasks are sorted into.
    fn add_sum(&mut self, task: &Doings, sum: &Figures) {
        if *sum == Figures::default() {
            return;
        }
        if sum.sessions > 0 {
            self.turns.add(sum.prompts);
            self.durations.add(sum.active_ms);
        }
        let place = self.projects.at(project(task));
        if place.label.is_none() {
            place.label.clone_from(&task.project);
        }
        let mut all = vec![&mut self.totals, &mut place.figures];
        all.push(&mut self.agents.at(&task.agent).figures);
        all.push(&mut self.branches.at(branch(task)).figures);
        if let Some((key, label)) = self.by.and_then(|by| session_key(by, task)) {
            let group = self.groups.at(&key);
            group.label = group.label.take().or(label);
            all.push(&mut group.figures);
        }
        for figures in all {
            figures.add(sum);
            figures.sessions += sum.sessions;
            figures.sessions_started += sum.sessions_started;
        }
    }

    fn add_periods(&mut self, done: &Done, task: &Doings) {
        // Up to the end of the last quarter, without running over.
        let end = self.asked.1.checked_add(1).and_then(|last| last.checked_mul(QUARTER));
        let (start, end) = (self.asked.0.saturating_mul(QUARTER), end.unwrap_or(i64::MAX));
        for (from, to) in &done.periods {
            let period = ((*from).max(start), (*to).min(end));
            if period.0 >= period.1 {
                continue;
            }
            self.periods.push(period);
            self.projects.at(project(task)).periods.push(period);
            self.agents.at(&task.agent).periods.push(period);
            self.branches.at(branch(task)).periods.push(period);
            if let Some((key, _)) = self.by.and_then(|by| session_key(by, task)) {
                self.groups.at(&key).periods.push(period);
            }
        }
    }

    fn add_spent(&mut self, one: &Doings, task: &Doings, sum: &mut Figures) {
        for spent in &one.spent() {
            let side = self.side(spent.quarter);
            if side == Side::Outside {
                continue;
            }
            let cost = self.prices.cost(spent);
            if side == Side::Before {
                self.previous.add_spent(spent, cost);
                continue;
            }
            sum.add_spent(spent, cost);
            self.quarters.entry(spent.quarter).or_default().add_spent(spent, cost);
            let name = spent.model.as_deref().unwrap_or(UNKNOWN);
            let model = &mut self.models.at(unmarked(name).0).figures;
            model.add_spent(spent, cost);
            if task.is_root && task.is_shown {
                model.count(task.key);
            }
            self.add_spending(spent, cost);
            if cost.unpriced_tokens() > 0 {
                *self.unpriced.entry(name.to_owned()).or_default() += cost.unpriced_tokens();
            }
        }
    }

    fn add_spending(&mut self, spent: &Spent, cost: Cost) {
        let Some(local) = self.calendar.local(spent.quarter) else { return };
        let model = spent.model.clone().unwrap_or_else(|| self.unknown.clone());
        let model = match unmarked(&model) {
            (bare, Some(_)) => bare.into(),
            _ => model,
        };
        let sum = self.spending.entry((local.date, model)).or_default();
        sum.0 += spent.tokens;
        sum.1 += cost;
    }

    /// Sorts the quarter hours into days, hours and groups of time.
    fn add_quarters(&mut self) {
        for (number, figures) in std::mem::take(&mut self.quarters) {
            let local = self.calendar.local(number);
            if let Some(local) = local {
                self.hours[local.hour.clamp(0, 23) as usize] += figures.messages;
                self.days.entry(local.date).or_default().add(&figures);
            }
            if let Some(key) = self.by.and_then(|by| time_key(by, local)) {
                self.groups.at(&key).figures.add(&figures);
            }
        }
    }

    /// The references of the sessions that were active in the period.
    pub(super) fn refs<'d>(&self, doings: &'d [Doings], chosen: &[(usize, usize)]) -> Vec<&'d Ref> {
        let active = |one: &&Doings| self.active.contains(&one.key);
        chosen.iter().map(|(_, at)| &doings[*at]).filter(active).flat_map(|one| &one.refs).collect()
    }

    pub(super) fn explain(&self, store: &Store) -> Result<Explained> {
        let repeats = store.repeats()?;
        let reasons = [
            ("further records of a call in one file (streaming, repeated lines)", repeats.in_file),
            ("the same session in another file", repeats.in_copies),
            ("the call in another session (resumed, forked, replayed)", repeats.in_sessions),
            ("the call in a working copy of its session", repeats.in_working_copies),
            ("a sum over calls that are recorded one by one", repeats.sums),
            ("an answer that the program wrote itself (synthetic)", repeats.synthetic),
            (
                "a state of the agent's own bill that lists less than the messages record",
                store.bills_left_aside()?,
            ),
        ];
        let not_counted = reasons
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| Counted { name: name.to_owned(), count })
            .collect();
        Ok(Explained {
            not_counted,
            unpriced_models: ranked(self.unpriced.clone(), usize::MAX),
            undated_tokens: self.quarters.get(&0).map_or(0, |it| it.tokens.total()),
        })
    }

    pub(super) fn finish(mut self, query: &StatsQuery) -> Stats {
        self.add_quarters();
        self.add_work();
        self.totals.finish();
        self.previous.finish();
        self.days.values_mut().for_each(Figures::finish);
        let (tools, errors) = self.tools.finish();
        let today = query.now.date();
        let by_tokens = |group: &Group| std::cmp::Reverse(group.figures.tokens.total());
        let by_active = |group: &Group| std::cmp::Reverse(group.figures.active_s);
        let by_sessions = |group: &Group| std::cmp::Reverse(group.figures.sessions);
        let models = self.models.finish(by_tokens);
        let groups = match self.by {
            Some(By::Model) => models.clone(),
            Some(By::Day | By::Week | By::Month | By::Hour) | None => self.groups.finish(|_| 0),
            Some(By::Project) => told_apart(self.groups.finish(by_active)),
            Some(By::Branch) => self.groups.finish(by_active),
            Some(By::Agent) => self.groups.finish(by_sessions),
            Some(By::Session | By::Tool) => self.groups.finish(by_tokens),
        };
        Stats {
            period: Period { since: query.filter.since, until: query.filter.until },
            totals: self.totals,
            previous: self.before.map(|_| self.previous),
            by: self.by,
            groups,
            days: self.days.into_iter().collect(),
            hours: self.hours,
            models,
            projects: told_apart(self.projects.finish(by_active)),
            agents: self.agents.finish(by_sessions),
            branches: self.branches.finish(by_active),
            spending: sorted(self.spending),
            turns: self.turns.finish(),
            durations: self.durations.finish(),
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
        let mut by_key: Map<String, u64> = Map::default();
        let mut by_day: Map<Date, u64> = Map::default();
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

/// What was spent, in the order of days and names.
fn sorted(spending: Map<(Date, Rc<str>), (Tokens, Cost)>) -> Vec<Spending> {
    let one = |((date, model), (tokens, cost)): ((Date, Rc<str>), _)| Spending {
        date,
        model: model.to_string(),
        tokens,
        cost,
    };
    let mut all: Vec<Spending> = spending.into_iter().map(one).collect();
    all.sort_by(|a, b| (a.date, &a.model).cmp(&(b.date, &b.model)));
    all
}

/// Gives projects of one name the directory above it, or their whole path.
fn told_apart(mut groups: Vec<Group>) -> Vec<Group> {
    let mut labelled: Vec<&mut Group> =
        groups.iter_mut().filter(|group| group.label.is_some()).collect();
    let paths: Vec<String> = labelled.iter().map(|group| group.key.clone()).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    for (group, name) in labelled.iter_mut().zip(distinct_names(&paths)) {
        group.label = Some(name);
    }
    groups
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
    match by {
        By::Agent => Some((task.agent.clone(), None)),
        By::Project => Some((project(task).to_owned(), task.project.clone())),
        By::Branch => Some((branch(task).to_owned(), None)),
        By::Session => Some((task.id.clone(), Some(task.title.clone()))),
        _ => None,
    }
}

/// Two projects of one name are two projects.
fn project(task: &Doings) -> &str {
    task.project_path.as_deref().unwrap_or(UNKNOWN)
}

fn branch(task: &Doings) -> &str {
    task.branch.as_deref().unwrap_or(UNKNOWN)
}
