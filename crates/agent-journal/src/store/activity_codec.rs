//! Packs the activity and usage of a session by quarter hour into a few bytes, so that totals over
//! years are read in milliseconds.

use std::collections::BTreeMap;
use std::rc::Rc;

use rusqlite::Row;
use serde::Serialize;

use super::database::columns;
use super::varint::{Names, Reader, put, put_signed};
use crate::maps::{Map, Set};
use crate::model::{MessageFacts, QUARTER, Tokens};

/// A longer pause ends a period of work.
const PERIOD_GAP_MS: i64 = 30 * 60 * 1000;

/// Maximum part of a gap between messages that counts as active.
const ACTIVE_GAP_MS: i64 = 5 * 60 * 1000;

/// Prompt sizes in tokens above which some models cost more.
pub(crate) const PROMPT_TOKEN_LIMITS: [u64; 3] = [100_000, 200_000, 272_000];

/// The activity of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ActivityLog {
    /// Quarter hours in order. The one numbered 0 contains everything without a time.
    pub(crate) quarters: Vec<ActivityBucket>,
    /// Periods of work without a pause of half an hour: first and last millisecond.
    pub(crate) periods: Vec<(i64, i64)>,
}

/// The activity in a quarter hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ActivityBucket {
    /// Number of the quarter hour since 1970.
    pub(crate) number: i64,
    pub(crate) messages: u64,
    pub(crate) prompts: u64,
    pub(crate) prompt_chars: u64,
    /// Active time in milliseconds.
    pub(crate) active: u64,
    pub(crate) tools: Vec<ToolUse>,
    /// Number of failures by kind.
    pub(crate) failures: Vec<(u8, u64)>,
}

/// The calls of one tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolUse {
    pub(crate) name: Rc<str>,
    pub(crate) calls: u64,
    pub(crate) results: u64,
    pub(crate) errors: u64,
}

/// Calls of one model in one quarter hour that are priced alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UsageBucket {
    pub(crate) quarter: i64,
    /// Model name used for pricing.
    pub(crate) model: Option<Rc<str>>,
    /// Number of `PROMPT_TOKEN_LIMITS` that the prompts exceed.
    pub(crate) size: u8,
    pub(crate) calls: u64,
    pub(crate) tokens: Tokens,
    pub(crate) cache_creation_1h: u64,
    /// Cost recorded by the agent, in millionths of a dollar.
    pub(crate) recorded: Option<u64>,
    /// Whether no message records the calls, so that they come from the agent's bill.
    pub(crate) is_unrecorded: bool,
}

impl ActivityLog {
    /// Builds the activity log of a session. Events without a time are placed at `start`.
    pub(super) fn of(facts: &MessageFacts, start: Option<i64>) -> Self {
        let mut quarters: BTreeMap<i64, ActivityBucket> = BTreeMap::new();
        let home = start.or(facts.times.first().copied()).map_or(0, |at| at.div_euclid(QUARTER));
        let place = |number: i64| if number == 0 { home } else { number };
        for at in &facts.times {
            quarters.entry(at.div_euclid(QUARTER)).or_default().messages += 1;
        }
        let undated = facts.messages.saturating_sub(facts.times.len() as u64);
        if undated > 0 {
            quarters.entry(home).or_default().messages += undated;
        }
        for (number, (prompts, characters)) in &facts.prompt_quarters {
            let quarter = quarters.entry(place(*number)).or_default();
            quarter.prompts += prompts;
            quarter.prompt_chars += characters;
        }
        add_tools(facts, &mut quarters, place);
        let times = facts.active_times();
        add_active(&times, &mut quarters);
        for (number, quarter) in &mut quarters {
            quarter.number = *number;
        }
        Self { quarters: quarters.into_values().collect(), periods: periods(&times) }
    }

    pub(super) fn pack(&self) -> Vec<u8> {
        let mut names = Names::default();
        let mut body = Vec::new();
        put(&mut body, self.quarters.len() as u64);
        let mut last = 0;
        for quarter in &self.quarters {
            put_signed(&mut body, quarter.number - last);
            last = quarter.number;
            for number in [quarter.messages, quarter.prompts, quarter.prompt_chars, quarter.active]
            {
                put(&mut body, number);
            }
            put(&mut body, quarter.tools.len() as u64);
            for tool in &quarter.tools {
                put(&mut body, names.place(&tool.name));
                for number in [tool.calls, tool.results, tool.errors] {
                    put(&mut body, number);
                }
            }
            put(&mut body, quarter.failures.len() as u64);
            for (kind, count) in &quarter.failures {
                put(&mut body, u64::from(*kind));
                put(&mut body, *count);
            }
        }
        put(&mut body, self.periods.len() as u64);
        last = 0;
        for (start, end) in &self.periods {
            put_signed(&mut body, start - last);
            put(&mut body, (end - start) as u64);
            last = *start;
        }
        names.before(body)
    }

    /// Decodes an activity log. Stops at damaged data.
    pub(super) fn unpack(bytes: &[u8]) -> Self {
        let mut reader = Reader(bytes);
        let mut done = Self::default();
        // Buckets decoded before the damage are valid.
        let _ = done.fill(&mut reader);
        done
    }

    fn fill(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let names = reader.names()?;
        let mut last = 0;
        for _ in 0..reader.number()? {
            last += reader.signed()?;
            let mut quarter = ActivityBucket {
                number: last,
                messages: reader.number()?,
                prompts: reader.number()?,
                prompt_chars: reader.number()?,
                active: reader.number()?,
                ..ActivityBucket::default()
            };
            for _ in 0..reader.number()? {
                quarter.tools.push(ToolUse {
                    name: names.get(reader.number()? as usize)?.clone(),
                    calls: reader.number()?,
                    results: reader.number()?,
                    errors: reader.number()?,
                });
            }
            for _ in 0..reader.number()? {
                quarter.failures.push((reader.number()? as u8, reader.number()?));
            }
            self.quarters.push(quarter);
        }
        last = 0;
        for _ in 0..reader.number()? {
            last += reader.signed()?;
            self.periods.push((last, last + reader.number()? as i64));
        }
        Some(())
    }
}

/// Adds each tool call once, with its result.
fn add_tools(
    facts: &MessageFacts,
    quarters: &mut BTreeMap<i64, ActivityBucket>,
    place: impl Fn(i64) -> i64,
) {
    let failures: Map<u64, u8> = facts.errors.iter().map(|one| (one.id, one.kind)).collect();
    let results: Set<u64> = facts.results.iter().copied().collect();
    let mut seen = Set::default();
    for call in facts.calls.iter().filter(|call| seen.insert(call.id)) {
        let quarter = quarters.entry(place(call.quarter)).or_default();
        let name = facts.tools.get(call.tool as usize).map_or("", String::as_str);
        let known = quarter.tools.iter().position(|tool| *tool.name == *name);
        let at = known.unwrap_or_else(|| {
            quarter.tools.push(ToolUse { name: name.into(), calls: 0, results: 0, errors: 0 });
            quarter.tools.len() - 1
        });
        let tool = &mut quarter.tools[at];
        tool.calls += 1;
        tool.results += u64::from(results.contains(&call.id));
        if let Some(kind) = failures.get(&call.id) {
            tool.errors += 1;
            add_failure(quarter, *kind);
        }
    }
    for number in &facts.agent_failures {
        let quarter = quarters.entry(place(*number)).or_default();
        add_failure(quarter, crate::model::AGENT_FAILURE);
    }
}

fn add_failure(quarter: &mut ActivityBucket, kind: u8) {
    match quarter.failures.iter_mut().find(|(known, _)| *known == kind) {
        Some((_, count)) => *count += 1,
        None => quarter.failures.push((kind, 1)),
    }
}

/// Distributes the active time over the quarter hours.
fn add_active(times: &[i64], quarters: &mut BTreeMap<i64, ActivityBucket>) {
    for pair in times.windows(2) {
        let (mut at, end) = (pair[0], pair[0] + (pair[1] - pair[0]).min(ACTIVE_GAP_MS));
        while at < end {
            let number = at.div_euclid(QUARTER);
            let next = ((number + 1) * QUARTER).min(end);
            quarters.entry(number).or_default().active += (next - at) as u64;
            at = next;
        }
    }
}

fn periods(times: &[i64]) -> Vec<(i64, i64)> {
    let mut periods: Vec<(i64, i64)> = Vec::new();
    for at in times {
        match periods.last_mut() {
            Some((_, end)) if at - *end <= PERIOD_GAP_MS => *end = *at,
            _ => periods.push((*at, *at)),
        }
    }
    periods
}

columns! {
    /// The columns of a counted call.
    UsageBucketColumns {
        at, model, input, output, cache_read, cache_creation, cache_creation_1h, reasoning,
        cost_micros, is_sum, unrecorded,
    }
}

/// Reads a counted call from a row.
pub(super) fn usage_bucket(
    row: &Row<'_>,
    columns: &UsageBucketColumns,
) -> rusqlite::Result<UsageBucket> {
    let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
    let optional = |at: usize| row.get::<_, Option<i64>>(at).map(|it| it.map(|n| n as u64));
    let tokens = Tokens {
        input: number(columns.input)?,
        output: number(columns.output)?,
        cache_read: number(columns.cache_read)?,
        cache_creation: number(columns.cache_creation)?,
        reasoning: optional(columns.reasoning)?,
    };
    let prompt = tokens.input + tokens.cache_read + tokens.cache_creation;
    let is_unrecorded: bool = row.get(columns.unrecorded)?;
    let is_sum = is_unrecorded || row.get(columns.is_sum)?;
    // The prompt sizes behind a sum are not known.
    let size = if is_sum {
        0
    } else {
        PROMPT_TOKEN_LIMITS.iter().filter(|size| prompt > **size).count() as u8
    };
    Ok(UsageBucket {
        quarter: row.get::<_, i64>(columns.at)?.div_euclid(QUARTER),
        model: row.get::<_, Option<String>>(columns.model)?.map(Rc::from),
        size,
        calls: u64::from(!is_sum),
        tokens,
        cache_creation_1h: number(columns.cache_creation_1h)?,
        // Under a subscription some agents record a cost of zero.
        recorded: optional(columns.cost_micros)?.filter(|cost| *cost > 0),
        is_unrecorded,
    })
}

/// The properties that calls priced alike share: quarter, model, prompt size, whether a cost is
/// recorded, and whether the calls are unrecorded.
type PricingKey = (i64, Option<Rc<str>>, u8, bool, bool);

/// Flag in the packed prompt size for calls that no message records.
const UNRECORDED_FLAG: u64 = 1 << 2;

/// Encodes calls, after adding up those that are priced alike.
pub(super) fn pack_usage(calls: Vec<UsageBucket>) -> Vec<u8> {
    let mut alike: BTreeMap<PricingKey, UsageBucket> = BTreeMap::new();
    for call in calls {
        let has_cost = call.recorded.is_some();
        let key = (call.quarter, call.model.clone(), call.size, has_cost, call.is_unrecorded);
        let Some(sum) = alike.get_mut(&key) else {
            alike.insert(key, call);
            continue;
        };
        sum.calls += call.calls;
        sum.tokens += call.tokens;
        sum.cache_creation_1h += call.cache_creation_1h;
        sum.recorded = sum.recorded.zip(call.recorded).map(|(sum, cost)| sum + cost);
    }
    let mut names = Names::default();
    let mut body = Vec::new();
    put(&mut body, alike.len() as u64);
    let mut last = 0;
    for spent in alike.values() {
        put_signed(&mut body, spent.quarter - last);
        last = spent.quarter;
        put(&mut body, spent.model.as_ref().map_or(0, |model| names.place(model) + 1));
        let tokens = &spent.tokens;
        for number in [
            u64::from(spent.size) | if spent.is_unrecorded { UNRECORDED_FLAG } else { 0 },
            spent.calls,
            tokens.input,
            tokens.output,
            tokens.cache_read,
            tokens.cache_creation,
            spent.cache_creation_1h,
            tokens.reasoning.map_or(0, |reasoning| reasoning + 1),
            spent.recorded.map_or(0, |cost| cost + 1),
        ] {
            put(&mut body, number);
        }
    }
    names.before(body)
}

/// Decodes calls. Stops at damaged data.
pub(super) fn unpack_usage(bytes: &[u8]) -> Vec<UsageBucket> {
    let mut reader = Reader(bytes);
    let mut all = Vec::new();
    // Calls decoded before the damage are valid.
    let _ = fill_spent(&mut reader, &mut all);
    all
}

fn fill_spent(reader: &mut Reader<'_>, all: &mut Vec<UsageBucket>) -> Option<()> {
    let names = reader.names()?;
    let mut quarter = 0;
    for _ in 0..reader.number()? {
        quarter += reader.signed()?;
        let model = match reader.number()? {
            0 => None,
            place => Some(names.get(place as usize - 1)?.clone()),
        };
        let marked_size = reader.number()?;
        let (size, is_unrecorded) =
            ((marked_size & !UNRECORDED_FLAG) as u8, marked_size & UNRECORDED_FLAG > 0);
        let calls = reader.number()?;
        let mut tokens = Tokens {
            input: reader.number()?,
            output: reader.number()?,
            cache_read: reader.number()?,
            cache_creation: reader.number()?,
            reasoning: None,
        };
        let cache_creation_1h = reader.number()?;
        tokens.reasoning = reader.number()?.checked_sub(1);
        let recorded = reader.number()?.checked_sub(1);
        all.push(UsageBucket {
            quarter,
            model,
            size,
            calls,
            tokens,
            cache_creation_1h,
            recorded,
            is_unrecorded,
        });
    }
    Some(())
}

/// Encodes the files that a session changed. Relative paths are resolved against `cwd`.
pub(super) fn pack_files(files: &BTreeMap<String, u64>, cwd: Option<&str>) -> Vec<u8> {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    for (file, count) in files {
        *all.entry(full_path(file, cwd)).or_default() += count;
    }
    let mut body = Vec::new();
    put(&mut body, all.len() as u64);
    for (path, count) in all {
        put(&mut body, path.len() as u64);
        body.extend_from_slice(path.as_bytes());
        put(&mut body, count);
    }
    body
}

/// Number of tool calls on a file. All are zero if only the agent's format lists the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Touches {
    /// Calls that read the file.
    pub viewed: u64,
    /// Calls that changed a part of the file.
    pub edited: u64,
    /// Calls that wrote the whole file.
    pub created: u64,
}

impl Touches {
    /// Returns the number of calls that changed the file in any way.
    pub fn changes(self) -> u64 {
        self.edited + self.created
    }

    /// Returns the sum of both counts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            viewed: self.viewed + other.viewed,
            edited: self.edited + other.edited,
            created: self.created + other.created,
        }
    }
}

/// Encodes the files that a session touched. Relative paths are resolved against `cwd`. `listed`
/// are the files that the agent's format lists.
pub(super) fn pack_touched(facts: &MessageFacts, listed: &[String], cwd: Option<&str>) -> Vec<u8> {
    let mut all: BTreeMap<String, Touches> = BTreeMap::new();
    for file in listed {
        all.entry(full_path(file, cwd)).or_default();
    }
    for (file, count) in &facts.viewed_files {
        all.entry(full_path(file, cwd)).or_default().viewed += count;
    }
    for (file, count) in &facts.files {
        let created = facts.created_files.get(file).copied().unwrap_or(0).min(*count);
        let touches = all.entry(full_path(file, cwd)).or_default();
        touches.created += created;
        touches.edited += count - created;
    }
    let mut body = Vec::new();
    put(&mut body, all.len() as u64);
    for (path, touches) in all {
        put(&mut body, path.len() as u64);
        body.extend_from_slice(path.as_bytes());
        for count in [touches.viewed, touches.edited, touches.created] {
            put(&mut body, count);
        }
    }
    body
}

/// Decodes touched files and calls `found` with each path and its counts.
pub(super) fn each_touched(bytes: &[u8], found: &mut dyn FnMut(&str, Touches)) -> Option<()> {
    let mut reader = Reader(bytes);
    for _ in 0..reader.number()? {
        let path = reader.text()?;
        let (viewed, edited, created) = (reader.number()?, reader.number()?, reader.number()?);
        found(path, Touches { viewed, edited, created });
    }
    Some(())
}

fn full_path(file: &str, cwd: Option<&str>) -> String {
    let is_absolute = file.starts_with(['/', '\\', '~']) || file.get(1..2) == Some(":");
    match cwd {
        Some(cwd) if !is_absolute => format!("{}/{file}", cwd.trim_end_matches('/')),
        _ => file.to_owned(),
    }
}

/// Decodes changed files and calls `found` with each path and its number of calls.
pub(super) fn each_file(bytes: &[u8], found: &mut dyn FnMut(&str, u64)) -> Option<()> {
    let mut reader = Reader(bytes);
    for _ in 0..reader.number()? {
        let path = reader.text()?;
        found(path, reader.number()?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FailureFact, ToolCallFact};

    fn facts() -> MessageFacts {
        let minute = 60_000;
        MessageFacts {
            messages: 4,
            // Crosses the end of a quarter hour, followed by a pause of one hour.
            times: vec![QUARTER - 2 * minute, QUARTER + minute, QUARTER + 61 * minute],
            prompt_quarters: BTreeMap::from([(0, (1, 30))]),
            tools: vec!["bash".into(), "grep".into()],
            calls: [(1, 0), (1, 0), (2, 1), (3, 0)]
                .map(|(id, tool)| ToolCallFact { id, tool, quarter: 1 })
                .to_vec(),
            results: vec![1, 2],
            errors: vec![FailureFact { id: 2, kind: 0 }],
            ..MessageFacts::default()
        }
    }

    #[test]
    fn quarters_add_up_to_the_session() {
        let facts = facts();
        let done = ActivityLog::of(&facts, Some(2 * QUARTER));
        let sum = |part: fn(&ActivityBucket) -> u64| done.quarters.iter().map(part).sum::<u64>();
        assert_eq!(sum(|it| it.active) / 1000, facts.active_seconds());
        assert_eq!((sum(|it| it.messages), sum(|it| it.prompts)), (4, 1));
        // Events without a time are placed at the start of the session.
        let home = done.quarters.iter().find(|it| it.number == 2).unwrap();
        assert_eq!((home.prompts, home.prompt_chars), (1, 30));
        let tools = &done.quarters.iter().find(|it| it.number == 1).unwrap().tools;
        let counts: Vec<_> =
            tools.iter().map(|it| (&*it.name, it.calls, it.results, it.errors)).collect();
        assert_eq!(counts, [("bash", 2, 1, 0), ("grep", 1, 1, 1)]);
        assert_eq!(done.periods.len(), 2);
    }

    #[test]
    fn what_was_packed_comes_back_and_damage_costs_only_the_rest() {
        let done = ActivityLog::of(&facts(), None);
        let bytes = done.pack();
        assert_eq!(ActivityLog::unpack(&bytes), done);
        for end in 0..bytes.len() {
            assert!(ActivityLog::unpack(&bytes[..end]).quarters.len() <= done.quarters.len());
        }
    }

    #[test]
    fn calls_that_cost_alike_are_kept_together() {
        let tokens = Tokens { input: 5, output: 2, ..Tokens::default() };
        let call = |quarter: i64, recorded: Option<u64>| UsageBucket {
            quarter,
            model: Some("m".into()),
            calls: 1,
            tokens,
            recorded,
            ..UsageBucket::default()
        };
        let packed =
            pack_usage(vec![call(7, None), call(7, None), call(7, Some(9)), call(8, None)]);
        let found: Vec<_> = unpack_usage(&packed)
            .into_iter()
            .map(|it| (it.quarter, it.calls, it.tokens.input, it.recorded))
            .collect();
        assert_eq!(found, [(7, 2, 10, None), (7, 1, 5, Some(9)), (8, 1, 5, None)]);
    }
}
