//! Finds usage on an agent's bill beyond the calls that messages record.
//!
//! No usage is invented. Each state of a bill is compared with the calls recorded up to its time.
//! If the calls exceed the state in any model and token class, the state is ignored. If it is
//! uncertain whether a call was already on the bill, it is assumed to be: counting too little is
//! better than counting anything twice.

use std::collections::BTreeMap;

use crate::model::{Bill, BilledModel, QUARTER, Timestamp, Tokens, Usage};

/// Number of token classes: input, output, cache read, cache write, the part of the cache write
/// that lives for an hour, and the part of the output that is reasoning.
const CLASSES: usize = 6;

/// Number of classes that do not overlap. Bills and calls are compared by these.
const COMPARED: usize = 4;

/// Tokens of recorded calls, by plain model name.
pub(super) type Sums = BTreeMap<String, [u64; CLASSES]>;

/// Tokens and cost on a bill, by plain model name.
type Listed = BTreeMap<String, ListedModel>;

#[derive(Clone, Copy, Default)]
struct ListedModel {
    classes: [Option<u64>; CLASSES],
    cost_micros: Option<u64>,
}

/// A model call that a message records.
pub(super) struct RecordedCall {
    pub(super) at: i64,
    /// Whether the session itself recorded the call, not one of its sub-agents.
    pub(super) is_own: bool,
    pub(super) model: String,
    pub(super) classes: [u64; CLASSES],
}

/// The data that the bill of a session is compared with.
#[derive(Default)]
pub(super) struct Evidence {
    /// States of the bill, in order of time.
    pub(super) states: Vec<Bill>,
    /// Calls of the session and its sub-agents, in order of time.
    pub(super) calls: Vec<RecordedCall>,
    /// Start and end times of other sessions of the project, if the bill was restarted.
    pub(super) other_sessions: Vec<(i64, i64)>,
    /// Whether the session continues another one.
    pub(super) is_fork: bool,
    /// States of the continued session's bill before this session began, in order of time.
    pub(super) origin_states: Vec<Bill>,
    /// Calls that the continued sessions recorded before this session began.
    pub(super) origin_calls: Sums,
}

/// The usage on bills that no message records.
#[derive(Default)]
pub(super) struct Unrecorded {
    pub(super) sums: Vec<UnrecordedSum>,
    /// Number of states that list less than the messages record.
    pub(super) left_aside: u64,
}

/// Unrecorded usage of one model in a quarter hour.
pub(super) struct UnrecordedSum {
    /// Number of the quarter hour since 1970 in which the bill lists the usage.
    pub(super) quarter: i64,
    /// Time of the last state in the quarter hour.
    pub(super) at: Timestamp,
    pub(super) plain_model: String,
    /// Model name as recorded by calls, else as on the bill.
    pub(super) model: String,
    pub(super) usage: Usage,
}

/// Consecutive states of a bill that only grow.
struct Segment {
    /// The bill at the start of the segment.
    base: Listed,
    /// Bounds of the calls that were recorded before the segment.
    before: Reach,
    last: Listed,
    /// Unrecorded usage found so far, with its cost.
    found: BTreeMap<String, ([u64; CLASSES], u64)>,
}

/// Lower and upper bound of the calls that a state of a bill includes.
#[derive(Clone, Default)]
struct Reach {
    least: Sums,
    most: Sums,
}

/// Finds the usage on bills that no message records.
pub(super) fn find_unrecorded(evidence: &Evidence) -> Unrecorded {
    let mut all = Unrecorded::default();
    let mut found: BTreeMap<(i64, String), UnrecordedSum> = BTreeMap::new();
    let names = recorded_names(&evidence.calls);
    let mut segment: Option<Segment> = None;
    let mut previous = (i64::MIN, Reach::default());
    let (mut passed, mut least) = (0, Sums::new());
    for state in &evidence.states {
        let Some(at) = state.at else { continue };
        let millis = at.as_millis();
        while let Some(call) = evidence.calls.get(passed).filter(|call| call.at <= millis) {
            add_call(&mut least, call);
            passed += 1;
        }
        let reach =
            Reach { most: with_late(&least, &evidence.calls[passed..]), least: least.clone() };
        let listed = listed(state);
        let fitting = fitting_segment(evidence, state, segment.take(), &listed, &reach, &previous);
        let (next, excess) = match fitting {
            Ok(fitting) => fitting,
            Err(unchanged) => {
                segment = unchanged;
                all.left_aside += 1;
                continue;
            }
        };
        let next = segment.insert(next);
        for (model, classes) in excess {
            let cost = next.recorded_cost(&model, &listed, &reach);
            let (growth, cost) = next.grow(&model, classes, cost);
            if growth.iter().take(COMPARED).sum::<u64>() == 0 {
                continue;
            }
            let quarter = millis.div_euclid(QUARTER);
            let shown = names.get(&*model).copied().unwrap_or(&model);
            let sum = found.entry((quarter, model.clone())).or_insert_with(|| UnrecordedSum {
                quarter,
                at,
                plain_model: model.clone(),
                model: shown.to_owned(),
                usage: Usage { unrecorded: true, cost_micros: Some(0), ..Usage::default() },
            });
            sum.add(at, growth, cost);
        }
        next.last = listed;
        previous = (millis, reach);
    }
    all.sums = found.into_values().collect();
    for sum in &mut all.sums {
        sum.usage.cost_micros = sum.usage.cost_micros.filter(|cost| *cost > 0);
    }
    all
}

/// Finds the segment that a state belongs to: the one of the previous state, else one based on the
/// bill of the continued session, else a new one. Returns the segment and the usage of the state
/// beyond the messages; if no segment fits, returns the unchanged segment as the error.
#[expect(clippy::result_large_err, reason = "both ways give the segment back")]
fn fitting_segment(
    evidence: &Evidence,
    state: &Bill,
    segment: Option<Segment>,
    listed: &Listed,
    reach: &Reach,
    previous: &(i64, Reach),
) -> Result<(Segment, Sums), Option<Segment>> {
    let is_first = segment.is_none();
    let unchanged = match segment {
        Some(segment) => {
            let is_grown = contains(listed, &segment.last);
            match segment.excess(listed, reach).filter(|_| is_grown) {
                Some(excess) => return Ok((segment, excess)),
                None => Some(segment),
            }
        }
        None => {
            for base in first_bases(evidence) {
                let segment = Segment::new(base, Reach::default());
                if let Some(excess) = segment.excess(listed, reach) {
                    return Ok((segment, excess));
                }
            }
            None
        }
    };
    // A program that restarted its bill lists no usage from before the restart.
    let since = state.since.map(Timestamp::as_millis).filter(|since| Some(*since) <= time(state));
    // But if another session was active meanwhile, the bill may include its usage.
    let is_in_between = |since: i64| {
        let overlaps = |one: &&(i64, i64)| Some(one.0) <= time(state) && one.1 >= since;
        evidence.other_sessions.iter().any(|one| overlaps(&one))
    };
    if since.is_some_and(is_in_between) {
        return Err(unchanged);
    }
    let is_new_bill = |since: i64| evidence.origin_states.iter().all(|one| time(one) < Some(since));
    let before = match (is_first, since) {
        (true, Some(since)) if is_new_bill(since) => recorded_before(&evidence.calls, since),
        (true, _) => return Err(unchanged),
        (false, Some(since)) if since > previous.0 => recorded_before(&evidence.calls, since),
        (false, _) => previous.1.clone(),
    };
    let anew = Segment::new(Listed::new(), before);
    match anew.excess(listed, reach) {
        Some(excess) => Ok((anew, excess)),
        None => Err(unchanged),
    }
}

/// Lists the possible bases of a session's first state, the largest first.
fn first_bases(evidence: &Evidence) -> Vec<Listed> {
    if !evidence.is_fork {
        return vec![Listed::new()];
    }
    if !evidence.origin_states.is_empty() {
        return evidence.origin_states.iter().rev().map(listed).collect();
    }
    // The continued session has no state, so its calls may or may not be on the bill.
    let calls = evidence.origin_calls.iter().map(|(model, classes)| {
        let classes = classes.map(Some);
        (model.clone(), ListedModel { classes, cost_micros: None })
    });
    vec![calls.collect(), Listed::new()]
}

impl Segment {
    fn new(base: Listed, before: Reach) -> Self {
        Self { base, before, last: Listed::new(), found: BTreeMap::new() }
    }

    /// Returns the usage of a state beyond the calls of this segment; `None` if the calls exceed
    /// the state in any class.
    fn excess(&self, listed: &Listed, reach: &Reach) -> Option<Sums> {
        if !contains(listed, &self.base) {
            return None;
        }
        let mut all = Sums::new();
        for (model, billed) in listed {
            let base = self.base.get(model);
            let mut classes = [0; CLASSES];
            for (at, class) in classes.iter_mut().enumerate() {
                let Some(total) = billed.classes[at] else { continue };
                let Some(base) = base.map_or(Some(0), |base| base.classes[at]) else { continue };
                let between = |end: &Sums, start: &Sums| {
                    let of = |sums: &Sums| sums.get(model).map_or(0, |classes| classes[at]);
                    of(end).saturating_sub(of(start))
                };
                let grown = total.saturating_sub(base);
                let least = between(&reach.least, &self.before.most);
                if at < COMPARED && grown < least {
                    return None;
                }
                *class = grown.saturating_sub(between(&reach.most, &self.before.least));
            }
            let [_, output, _, created, lives_an_hour, reasoning] = &mut classes;
            *lives_an_hour = (*lives_an_hour).min(*created);
            *reasoning = (*reasoning).min(*output);
            all.insert(model.clone(), classes);
        }
        let is_listed = |(model, classes): (&String, &[u64; CLASSES])| {
            let before = self.before.most.get(model).copied().unwrap_or_default();
            let grown = classes.iter().zip(before).take(COMPARED).any(|(now, then)| *now > then);
            !grown || listed.contains_key(model)
        };
        reach.least.iter().all(is_listed).then_some(all)
    }

    /// Returns the cost of a model's calls on the bill, if no message records any of them.
    fn recorded_cost(&self, model: &str, listed: &Listed, reach: &Reach) -> Option<u64> {
        let before = self.before.least.get(model);
        if reach.most.get(model) != before && reach.most.contains_key(model) {
            return None;
        }
        let cost = listed.get(model)?.cost_micros?;
        let base = self.base.get(model).map_or(Some(0), |base| base.cost_micros)?;
        cost.checked_sub(base)
    }

    /// Records the total unrecorded usage of a model. Returns by how much usage and cost grew.
    fn grow(
        &mut self,
        model: &str,
        classes: [u64; CLASSES],
        cost: Option<u64>,
    ) -> ([u64; CLASSES], Option<u64>) {
        let (found, spent) = self.found.entry(model.to_owned()).or_default();
        let mut growth = [0; CLASSES];
        for at in 0..CLASSES {
            growth[at] = classes[at].saturating_sub(found[at]);
            found[at] = found[at].max(classes[at]);
        }
        let more = cost.map(|cost| cost.saturating_sub(*spent));
        *spent = (*spent).max(cost.unwrap_or(0));
        (growth, more)
    }
}

impl UnrecordedSum {
    fn add(&mut self, at: Timestamp, classes: [u64; CLASSES], cost: Option<u64>) {
        let [input, output, cache_read, cache_creation, cache_creation_1h, reasoning] = classes;
        let reasoning = (reasoning > 0).then_some(reasoning);
        self.at = at;
        self.usage.tokens += Tokens { input, output, cache_read, cache_creation, reasoning };
        self.usage.cache_creation_1h += cache_creation_1h;
        let sum = self.usage.cost_micros.zip(cost);
        self.usage.cost_micros = sum.map(|(known, more)| known.saturating_add(more));
    }
}

/// Returns the token counts of a state by plain model name.
fn listed(state: &Bill) -> Listed {
    let mut all = Listed::new();
    for model in &state.models {
        let BilledModel { name, input, output, cache_read, cache_creation, .. } = model;
        let parts = [model.cache_creation_1h, model.reasoning];
        let classes = [*input, *output, *cache_read, *cache_creation, parts[0], parts[1]];
        let one = ListedModel { classes, cost_micros: model.cost_micros };
        match all.entry(plain_model(name)) {
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(one);
            }
            std::collections::btree_map::Entry::Occupied(mut place) => place.get_mut().add(&one),
        }
    }
    all
}

impl ListedModel {
    fn add(&mut self, other: &Self) {
        let add = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
        for (sum, more) in self.classes.iter_mut().zip(other.classes) {
            *sum = add(*sum, more);
        }
        self.cost_micros = add(self.cost_micros, other.cost_micros);
    }
}

/// Returns whether a bill lists at least as much as another one in every class.
fn contains(listed: &Listed, base: &Listed) -> bool {
    let is_within = |at: usize, one: &ListedModel, base: &ListedModel| {
        one.classes[at].zip(base.classes[at]).is_none_or(|(one, base)| one >= base)
    };
    base.iter().all(|(model, base)| match listed.get(model) {
        Some(one) => (0..COMPARED).all(|at| is_within(at, one, base)),
        None => base.classes.iter().take(COMPARED).flatten().all(|count| *count == 0),
    })
}

fn time(state: &Bill) -> Option<i64> {
    state.at.map(Timestamp::as_millis)
}

fn add_call(sums: &mut Sums, call: &RecordedCall) {
    let sum = sums.entry(plain_model(&call.model)).or_default();
    for (sum, more) in sum.iter_mut().zip(call.classes) {
        *sum = sum.saturating_add(more);
    }
}

/// Adds the calls that sub-agents recorded before the next call of the session itself, because a
/// background sub-agent may end after the last record that a state follows.
fn with_late(least: &Sums, later: &[RecordedCall]) -> Sums {
    let mut all = least.clone();
    later.iter().take_while(|call| !call.is_own).for_each(|call| add_call(&mut all, call));
    all
}

fn recorded_before(calls: &[RecordedCall], since: i64) -> Reach {
    let mut sums = Sums::new();
    calls.iter().filter(|call| call.at < since).for_each(|call| add_call(&mut sums, call));
    Reach { least: sums.clone(), most: sums }
}

/// Sums up calls by plain model name.
pub(super) fn sum_up(calls: &[RecordedCall]) -> Sums {
    let mut all = Sums::new();
    for call in calls {
        add_call(&mut all, call);
    }
    all
}

/// Returns the recorded model names by plain name.
fn recorded_names(calls: &[RecordedCall]) -> BTreeMap<String, &str> {
    calls.iter().map(|call| (plain_model(&call.model), &*call.model)).collect()
}

/// Returns a model name without its decorations: reseller prefix, context window in brackets, date
/// and revision suffix.
fn plain_model(name: &str) -> String {
    let name = name.split('[').next().unwrap_or(name).trim();
    let name = name.rsplit('/').next().unwrap_or(name);
    let name = name.split('@').next().unwrap_or(name);
    let is_reseller = |(at, _): &(usize, &str)| {
        name[at + 1..].starts_with(|first: char| first.is_ascii_alphabetic())
    };
    let name = match name.rmatch_indices('.').find(is_reseller) {
        Some((at, _)) => &name[at + 1..],
        None => name,
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
    let revision = name.rsplit_once("-v").filter(|(_, rest)| rest.split(':').all(is_number));
    let name = revision.map_or(name, |(name, _)| name);
    let date = name.rsplit_once('-').filter(|(_, date)| date.len() == 8 && is_number(date));
    date.map_or(name, |(name, _)| name).replace('.', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_has_no_decoration() {
        for name in [
            "claude-opus-4-5",
            "claude-opus-4.5",
            "claude-opus-4-5[1m]",
            "claude-opus-4-5-20251101",
            "claude-opus-4-5@20251101",
            "anthropic/claude-opus-4.5",
            "us.anthropic.claude-opus-4-5-20251101-v1:0",
        ] {
            assert_eq!(plain_model(name), "claude-opus-4-5", "{name}");
        }
        assert_eq!(plain_model("gpt-4.1"), "gpt-4-1");
        assert_eq!(plain_model(""), "");
        assert_eq!(plain_model("x."), "x-");
    }
}
