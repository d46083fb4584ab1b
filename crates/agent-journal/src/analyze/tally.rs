//! Accumulates the statistics: every session once, sorted into groups and times.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use jiff::civil::{Date, Weekday};

use super::activity::{Local, UserCalendar, by_quarter, count_streak, merge_periods};
use super::cost::{Cost, Prices};
use super::groups::Groups;
use super::spread::{DURATIONS, Spread, TURNS};
use super::stats::{
    DailySpending, Explained, GroupBy, Period, Stats, StatsGroup, StatsQuery, quarter_range,
};
use super::tools::{CountedName, ToolTally, most_frequent};
use super::usage::Figures;
use crate::error::Result;
use crate::maps::{Map, Set};
use crate::model::{QUARTER, Ref, Tokens, split_speed_mark};
use crate::store::{ActivityLog, SessionActivity, Store, UsageBucket, distinct_names};

/// The period that a quarter hour belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PeriodSide {
    Asked,
    Before,
    Outside,
}

/// The sums so far.
pub(super) struct StatsTally<'p> {
    prices: &'p Prices,
    calendar: UserCalendar,
    /// The first and last quarter hour of the requested period, and the first of the period before.
    asked: (i64, i64),
    before: Option<i64>,
    by: Option<GroupBy>,
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
    /// Sessions with activity in the requested period.
    pub(super) active: Set<u64>,
    /// The activity and usage of each quarter hour in the requested period.
    quarters: Map<i64, Figures>,
    /// The key of figures without a value.
    unknown: Rc<str>,
}

impl<'p> StatsTally<'p> {
    pub(super) fn new(query: &StatsQuery, prices: &'p Prices) -> Self {
        let asked = quarter_range(&query.filter);
        let now = query.now.timestamp().as_millisecond().div_euclid(QUARTER);
        let end = if asked.1 == i64::MAX { now } else { asked.1 };
        let has_start = asked.0 != i64::MIN;
        Self {
            prices,
            calendar: UserCalendar::new(query.now.time_zone().clone()),
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

    fn period_of_quarter(&self, quarter: i64) -> PeriodSide {
        let limited = self.asked.0 != i64::MIN || self.asked.1 != i64::MAX;
        if quarter == 0 && limited {
            return PeriodSide::Outside;
        }
        if (self.asked.0..=self.asked.1).contains(&quarter) {
            return PeriodSide::Asked;
        }
        match self.before {
            Some(before) if (before..self.asked.0).contains(&quarter) => PeriodSide::Before,
            _ => PeriodSide::Outside,
        }
    }

    /// Adds the sessions of one task.
    pub(super) fn add_task<'d>(
        &mut self,
        task: &SessionActivity,
        sessions: impl Iterator<Item = &'d SessionActivity>,
    ) {
        let mut sum = Figures::default();
        let mut has_time = false;
        for one in sessions {
            let done = one.done();
            has_time |= !done.quarters.is_empty();
            self.add_task_activity(one, &done, task, &mut sum);
            self.add_periods(&done, task);
            self.add_task_usage(one, task, &mut sum);
        }
        if task.is_root && task.is_shown {
            self.add_start(task, &mut sum);
            if !has_time {
                self.count_silent(task, &mut sum);
            }
        }
        self.add_sum(task, &sum);
    }

    fn add_task_activity(
        &mut self,
        one: &SessionActivity,
        done: &ActivityLog,
        task: &SessionActivity,
        sum: &mut Figures,
    ) {
        let counts = one.key == task.key && one.is_root && one.is_shown;
        let mut is_active = false;
        for quarter in &done.quarters {
            let local =
                if counts { self.calendar.local_time_of_quarter(quarter.number) } else { None };
            self.active_days.extend(local.map(|local| local.date));
            match self.period_of_quarter(quarter.number) {
                PeriodSide::Outside => {}
                PeriodSide::Before => {
                    self.previous.add_quarter_activity(quarter, one.is_root);
                    if counts {
                        self.previous.count_session_once(task.key);
                    }
                }
                PeriodSide::Asked => {
                    is_active = true;
                    self.active.insert(one.key);
                    self.tools.add_quarter(quarter, task.key);
                    sum.add_quarter_activity(quarter, one.is_root);
                    let moment = self.quarters.entry(quarter.number).or_default();
                    moment.add_quarter_activity(quarter, one.is_root);
                    if counts {
                        sum.count_session_once(task.key);
                        self.count_time(local, task.key);
                    }
                }
            }
        }
        if is_active {
            self.count_models(one, task);
        }
    }

    /// Counts a session for models of which only the names are recorded.
    fn count_models(&mut self, one: &SessionActivity, task: &SessionActivity) {
        for name in one.silent_models.iter().filter(|_| task.is_root && task.is_shown) {
            self.models.group_sums(split_speed_mark(name).0).figures.count_session_once(task.key);
        }
    }

    /// Counts a session at a time of activity.
    fn count_time(&mut self, local: Option<Local>, task: u64) {
        if let Some(local) = local {
            self.days.entry(local.date).or_default().count_session_once(task);
        }
        if let Some(key) = self.by.and_then(|by| time_key(by, local)) {
            self.groups.group_sums(&key).figures.count_session_once(task);
        }
    }

    /// Counts a session without messages, of which only a document or a title exists, at its start.
    fn count_silent(&mut self, task: &SessionActivity, sum: &mut Figures) {
        let quarter = task.started.map_or(0, |at| at.div_euclid(QUARTER));
        match self.period_of_quarter(quarter) {
            PeriodSide::Asked => {
                sum.count_session_once(task.key);
                let local = self.calendar.local_time_of_quarter(quarter);
                self.count_time(local, task.key);
            }
            PeriodSide::Before => self.previous.count_session_once(task.key),
            PeriodSide::Outside => {}
        }
    }

    fn add_start(&mut self, task: &SessionActivity, sum: &mut Figures) {
        let Some(quarter) = task.started.map(|at| at.div_euclid(QUARTER)) else { return };
        match self.period_of_quarter(quarter) {
            PeriodSide::Asked => {
                sum.sessions_started += 1;
                let local = self.calendar.local_time_of_quarter(quarter);
                if let Some(local) = local {
                    self.days.entry(local.date).or_default().sessions_started += 1;
                }
                if let Some(key) = self.by.and_then(|by| time_key(by, local)) {
                    self.groups.group_sums(&key).figures.sessions_started += 1;
                }
            }
            PeriodSide::Before => self.previous.sessions_started += 1,
            PeriodSide::Outside => {}
        }
    }

    /// Adds the sum of a task to the totals and to all groups of tasks.
    fn add_sum(&mut self, task: &SessionActivity, sum: &Figures) {
        if *sum == Figures::default() {
            return;
        }
        if sum.sessions > 0 {
            self.turns.add_size(sum.prompts);
            self.durations.add_size(sum.active_ms);
        }
        let place = self.projects.group_sums(project_key(task));
        if place.label.is_none() {
            place.label.clone_from(&task.project);
        }
        let mut all = vec![&mut self.totals, &mut place.figures];
        all.push(&mut self.agents.group_sums(&task.agent).figures);
        all.push(&mut self.branches.group_sums(branch_name(task)).figures);
        if let Some((key, label)) = self.by.and_then(|by| session_key(by, task)) {
            let group = self.groups.group_sums(&key);
            group.label = group.label.take().or(label);
            all.push(&mut group.figures);
        }
        for figures in all {
            figures.add_figures(sum);
            figures.sessions += sum.sessions;
            figures.sessions_started += sum.sessions_started;
        }
    }

    fn add_periods(&mut self, done: &ActivityLog, task: &SessionActivity) {
        // Up to the end of the last quarter hour, without overflow.
        let end = self.asked.1.checked_add(1).and_then(|last| last.checked_mul(QUARTER));
        let (start, end) = (self.asked.0.saturating_mul(QUARTER), end.unwrap_or(i64::MAX));
        for (from, to) in &done.periods {
            let period = ((*from).max(start), (*to).min(end));
            if period.0 >= period.1 {
                continue;
            }
            self.periods.push(period);
            self.projects.group_sums(project_key(task)).periods.push(period);
            self.agents.group_sums(&task.agent).periods.push(period);
            self.branches.group_sums(branch_name(task)).periods.push(period);
            if let Some((key, _)) = self.by.and_then(|by| session_key(by, task)) {
                self.groups.group_sums(&key).periods.push(period);
            }
        }
    }

    fn add_task_usage(&mut self, one: &SessionActivity, task: &SessionActivity, sum: &mut Figures) {
        for spent in &one.spent() {
            let side = self.period_of_quarter(spent.quarter);
            if side == PeriodSide::Outside {
                continue;
            }
            let cost = self.prices.cost_of_usage(spent);
            if side == PeriodSide::Before {
                self.previous.add_usage_with_cost(spent, cost);
                continue;
            }
            sum.add_usage_with_cost(spent, cost);
            self.quarters.entry(spent.quarter).or_default().add_usage_with_cost(spent, cost);
            let name = spent.model.as_deref().unwrap_or(UNKNOWN);
            let model = &mut self.models.group_sums(split_speed_mark(name).0).figures;
            model.add_usage_with_cost(spent, cost);
            if task.is_root && task.is_shown {
                model.count_session_once(task.key);
            }
            self.add_spending(spent, cost);
            if cost.unpriced_tokens() > 0 {
                *self.unpriced.entry(name.to_owned()).or_default() += cost.unpriced_tokens();
            }
        }
    }

    fn add_spending(&mut self, spent: &UsageBucket, cost: Cost) {
        let Some(local) = self.calendar.local_time_of_quarter(spent.quarter) else { return };
        let model = spent.model.clone().unwrap_or_else(|| self.unknown.clone());
        let model = match split_speed_mark(&model) {
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
            let local = self.calendar.local_time_of_quarter(number);
            if let Some(local) = local {
                self.hours[local.hour.clamp(0, 23) as usize] += figures.messages;
                self.days.entry(local.date).or_default().add_figures(&figures);
            }
            if let Some(key) = self.by.and_then(|by| time_key(by, local)) {
                self.groups.group_sums(&key).figures.add_figures(&figures);
            }
        }
    }

    /// Returns the references of the sessions that were active in the period.
    pub(super) fn active_refs<'d>(
        &self,
        activity: &'d [SessionActivity],
        chosen: &[(usize, usize)],
    ) -> Vec<&'d Ref> {
        let active = |one: &&SessionActivity| self.active.contains(&one.key);
        chosen
            .iter()
            .map(|(_, at)| &activity[*at])
            .filter(active)
            .flat_map(|one| &one.refs)
            .collect()
    }

    pub(super) fn explain_totals(&self, store: &Store) -> Result<Explained> {
        let repeats = store.repeats()?;
        let reasons = [
            ("duplicate: same call again in one file (streaming, repeated lines)", repeats.in_file),
            ("duplicate: same session in another file", repeats.in_copies),
            (
                "duplicate: same call in another session (resumed, forked, replayed)",
                repeats.in_sessions,
            ),
            ("duplicate: same call in a working copy of its session", repeats.in_working_copies),
            ("sum of calls that are also recorded one by one", repeats.sums),
            ("synthetic reply, written by the agent program and not by a model", repeats.synthetic),
            (
                "agent's own bill that lists less than its messages record",
                store.bills_left_aside()?,
            ),
        ];
        let not_counted = reasons
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| CountedName { name: name.to_owned(), count })
            .collect();
        Ok(Explained {
            not_counted,
            unpriced_models: most_frequent(self.unpriced.clone(), usize::MAX),
            undated_tokens: self.quarters.get(&0).map_or(0, |it| it.tokens.total_tokens()),
        })
    }

    pub(super) fn into_stats(mut self, query: &StatsQuery) -> Stats {
        self.add_quarters();
        self.add_work();
        self.totals.finish_sums();
        self.previous.finish_sums();
        self.days.values_mut().for_each(Figures::finish_sums);
        let (tools, errors) = self.tools.into_tool_figures();
        let today = query.now.date();
        let by_tokens = |group: &StatsGroup| std::cmp::Reverse(group.figures.tokens.total_tokens());
        let by_active = |group: &StatsGroup| std::cmp::Reverse(group.figures.active_s);
        let by_sessions = |group: &StatsGroup| std::cmp::Reverse(group.figures.sessions);
        let models = self.models.into_sorted_groups(by_tokens);
        let groups = match self.by {
            Some(GroupBy::Model) => models.clone(),
            Some(GroupBy::Day | GroupBy::Week | GroupBy::Month | GroupBy::Hour) | None => {
                self.groups.into_sorted_groups(|_| 0)
            }
            Some(GroupBy::Project) => {
                with_distinct_labels(self.groups.into_sorted_groups(by_active))
            }
            Some(GroupBy::Branch) => self.groups.into_sorted_groups(by_active),
            Some(GroupBy::Agent) => self.groups.into_sorted_groups(by_sessions),
            Some(GroupBy::Session | GroupBy::Tool) => self.groups.into_sorted_groups(by_tokens),
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
            projects: with_distinct_labels(self.projects.into_sorted_groups(by_active)),
            agents: self.agents.into_sorted_groups(by_sessions),
            branches: self.branches.into_sorted_groups(by_active),
            spending: sorted_spending(self.spending),
            turns: self.turns.into_classes(),
            durations: self.durations.into_classes(),
            tools,
            errors,
            files: Vec::new(),
            refs: Vec::new(),
            streak: count_streak(&self.active_days, today),
            explained: None,
        }
    }

    /// Adds the periods of work, with overlaps counted once, to the total, the days and the groups
    /// of time.
    fn add_work(&mut self) {
        let joined = merge_periods(std::mem::take(&mut self.periods));
        let mut by_key: Map<String, u64> = Map::default();
        let mut by_day: Map<Date, u64> = Map::default();
        let mut total = 0;
        by_quarter(&joined, |quarter, length| {
            total += length;
            let local = self.calendar.local_time_of_quarter(quarter);
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
            self.groups.group_sums(&key).figures.work_s = length / 1000;
        }
    }
}

/// The key for unknown values; it cannot be a name.
const UNKNOWN: &str = "(unknown)";

/// Returns the spending in the order of days and models.
fn sorted_spending(spending: Map<(Date, Rc<str>), (Tokens, Cost)>) -> Vec<DailySpending> {
    let one = |((date, model), (tokens, cost)): ((Date, Rc<str>), _)| DailySpending {
        date,
        model: model.to_string(),
        tokens,
        cost,
    };
    let mut all: Vec<DailySpending> = spending.into_iter().map(one).collect();
    all.sort_by(|a, b| (a.date, &a.model).cmp(&(b.date, &b.model)));
    all
}

/// Labels projects of the same name with their parent directory, or with their complete path.
fn with_distinct_labels(mut groups: Vec<StatsGroup>) -> Vec<StatsGroup> {
    let mut labelled: Vec<&mut StatsGroup> =
        groups.iter_mut().filter(|group| group.label.is_some()).collect();
    let paths: Vec<String> = labelled.iter().map(|group| group.key.clone()).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    for (group, name) in labelled.iter_mut().zip(distinct_names(&paths)) {
        group.label = Some(name);
    }
    groups
}

/// Returns the key of a quarter hour, if the figures are grouped by time.
fn time_key(by: GroupBy, local: Option<Local>) -> Option<String> {
    let unknown = || UNKNOWN.to_owned();
    match by {
        GroupBy::Day => Some(local.map_or_else(unknown, |local| local.date.to_string())),
        GroupBy::Week => {
            Some(local.map_or_else(unknown, |local| monday_of_week(local.date).to_string()))
        }
        GroupBy::Month => {
            Some(local.map_or_else(unknown, |local| local.date.strftime("%Y-%m").to_string()))
        }
        GroupBy::Hour => Some(local.map_or_else(unknown, |local| format!("{:02}", local.hour))),
        _ => None,
    }
}

fn monday_of_week(date: Date) -> Date {
    if date.weekday() == Weekday::Monday {
        return date;
    }
    date.nth_weekday(-1, Weekday::Monday).unwrap_or(date)
}

/// Returns the key and label of a task, if the figures are grouped by a property of sessions.
fn session_key(by: GroupBy, task: &SessionActivity) -> Option<(String, Option<String>)> {
    match by {
        GroupBy::Agent => Some((task.agent.clone(), None)),
        GroupBy::Project => Some((project_key(task).to_owned(), task.project.clone())),
        GroupBy::Branch => Some((branch_name(task).to_owned(), None)),
        GroupBy::Session => Some((task.id.clone(), Some(task.title.clone()))),
        _ => None,
    }
}

/// Returns the key of a project: its path, because two projects may have the same name.
fn project_key(task: &SessionActivity) -> &str {
    task.project_path.as_deref().unwrap_or(UNKNOWN)
}

fn branch_name(task: &SessionActivity) -> &str {
    task.branch.as_deref().unwrap_or(UNKNOWN)
}
