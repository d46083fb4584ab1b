//! What a session did and spent, by the quarter hour: packed in a few bytes, so that the sums of
//! years of work are read in milliseconds.

use std::collections::BTreeMap;
use std::rc::Rc;

use rusqlite::Row;
use serde::Serialize;

use super::pack::{Names, Reader, put, put_signed};
use crate::maps::{Map, Set};
use crate::model::{Facts, QUARTER, Tokens};

/// A pause longer than this ends a period of work, in milliseconds.
const PERIOD_GAP: i64 = 30 * 60 * 1000;

/// A gap counts as active up to this long, in milliseconds.
const ACTIVE_GAP: i64 = 5 * 60 * 1000;

/// Sizes of a call's prompt, in tokens, above which some models cost more.
pub(crate) const SIZES: [u64; 3] = [100_000, 200_000, 272_000];

/// What a session did.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Done {
    /// Quarter hours, in order; the one numbered 0 holds what has no time.
    pub(crate) quarters: Vec<Quarter>,
    /// Periods of work without a pause of half an hour: first and last millisecond.
    pub(crate) periods: Vec<(i64, i64)>,
}

/// What was done in a quarter hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Quarter {
    /// Its number since 1970.
    pub(crate) number: i64,
    pub(crate) messages: u64,
    pub(crate) prompts: u64,
    pub(crate) prompt_chars: u64,
    /// Active time in milliseconds.
    pub(crate) active: u64,
    pub(crate) tools: Vec<ToolUse>,
    /// Failures by kind.
    pub(crate) failures: Vec<(u8, u64)>,
}

/// Calls of one tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolUse {
    pub(crate) name: Rc<str>,
    pub(crate) calls: u64,
    pub(crate) results: u64,
    pub(crate) errors: u64,
}

/// Calls of one model in one quarter hour that cost alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    pub(crate) quarter: i64,
    /// The name they are priced under.
    pub(crate) model: Option<Rc<str>>,
    /// How many of `SIZES` the prompts exceed.
    pub(crate) size: u8,
    pub(crate) calls: u64,
    pub(crate) tokens: Tokens,
    pub(crate) cache_creation_1h: u64,
    /// What the agent recorded as cost, in millionths of a dollar.
    pub(crate) recorded: Option<u64>,
    /// Whether no message records the calls: the agent's own bill lists them.
    pub(crate) is_unrecorded: bool,
}

impl Done {
    /// Works out the quarters of a session. What has no time is put at `start`.
    pub(super) fn of(facts: &Facts, start: Option<i64>) -> Self {
        let mut quarters: BTreeMap<i64, Quarter> = BTreeMap::new();
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

    /// Unpacks; a damaged rest is left out.
    pub(super) fn unpack(bytes: &[u8]) -> Self {
        let mut reader = Reader(bytes);
        let mut done = Self::default();
        // Whatever was read before the damage still holds.
        let _ = done.fill(&mut reader);
        done
    }

    fn fill(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let names = reader.names()?;
        let mut last = 0;
        for _ in 0..reader.number()? {
            last += reader.signed()?;
            let mut quarter = Quarter {
                number: last,
                messages: reader.number()?,
                prompts: reader.number()?,
                prompt_chars: reader.number()?,
                active: reader.number()?,
                ..Quarter::default()
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

/// Adds the calls of tools, each once, with what became of them.
fn add_tools(facts: &Facts, quarters: &mut BTreeMap<i64, Quarter>, place: impl Fn(i64) -> i64) {
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

fn add_failure(quarter: &mut Quarter, kind: u8) {
    match quarter.failures.iter_mut().find(|(known, _)| *known == kind) {
        Some((_, count)) => *count += 1,
        None => quarter.failures.push((kind, 1)),
    }
}

/// Lays the active time, gap by gap, over the quarters it falls into.
fn add_active(times: &[i64], quarters: &mut BTreeMap<i64, Quarter>) {
    for pair in times.windows(2) {
        let (mut at, end) = (pair[0], pair[0] + (pair[1] - pair[0]).min(ACTIVE_GAP));
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
            Some((_, end)) if at - *end <= PERIOD_GAP => *end = *at,
            _ => periods.push((*at, *at)),
        }
    }
    periods
}

/// Reads a counted call.
pub(super) fn spent(row: &Row<'_>) -> rusqlite::Result<Spent> {
    let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
    let optional = |at: usize| row.get::<_, Option<i64>>(at).map(|it| it.map(|n| n as u64));
    let tokens = Tokens {
        input: number(2)?,
        output: number(3)?,
        cache_read: number(4)?,
        cache_creation: number(5)?,
        reasoning: optional(7)?,
    };
    let prompt = tokens.input + tokens.cache_read + tokens.cache_creation;
    let is_unrecorded: bool = row.get(10)?;
    let is_sum = is_unrecorded || row.get(9)?;
    // How large the prompts behind a sum were is not known.
    let size = if is_sum { 0 } else { SIZES.iter().filter(|size| prompt > **size).count() as u8 };
    Ok(Spent {
        quarter: row.get::<_, i64>(0)?.div_euclid(QUARTER),
        model: row.get::<_, Option<String>>(1)?.map(Rc::from),
        size,
        calls: u64::from(!is_sum),
        tokens,
        cache_creation_1h: number(6)?,
        // Under a subscription some agents write down that a call was free.
        recorded: optional(8)?.filter(|cost| *cost > 0),
        is_unrecorded,
    })
}

/// What calls that cost alike have in common: quarter, model, size, whether cost is recorded and
/// whether the calls are.
type Alike = (i64, Option<Rc<str>>, u8, bool, bool);

/// Added to the size of prompts in packed calls that no message records.
const UNRECORDED: u64 = 1 << 2;

/// Packs calls, those alike together.
pub(super) fn pack_spent(calls: Vec<Spent>) -> Vec<u8> {
    let mut alike: BTreeMap<Alike, Spent> = BTreeMap::new();
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
            u64::from(spent.size) | if spent.is_unrecorded { UNRECORDED } else { 0 },
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

/// Unpacks calls; a damaged rest is left out.
pub(super) fn unpack_spent(bytes: &[u8]) -> Vec<Spent> {
    let mut reader = Reader(bytes);
    let mut all = Vec::new();
    // Whatever was read before the damage still holds.
    let _ = fill_spent(&mut reader, &mut all);
    all
}

fn fill_spent(reader: &mut Reader<'_>, all: &mut Vec<Spent>) -> Option<()> {
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
            ((marked_size & !UNRECORDED) as u8, marked_size & UNRECORDED > 0);
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
        all.push(Spent {
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

/// Packs the files a session changed, relative ones from its directory on.
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

/// How often a session touched a file; not at all where only its format lists the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Touches {
    /// Calls that looked at it.
    pub viewed: u64,
    /// Calls that changed a part of it.
    pub edited: u64,
    /// Calls that wrote it as a whole.
    pub created: u64,
}

impl Touches {
    /// Returns the number of calls that changed it in any way.
    pub fn changes(self) -> u64 {
        self.edited + self.created
    }

    /// Returns the sums of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            viewed: self.viewed + other.viewed,
            edited: self.edited + other.edited,
            created: self.created + other.created,
        }
    }
}

/// Packs the files a session touched, relative ones from its directory on. `listed` are those
/// that its format names.
pub(super) fn pack_touched(facts: &Facts, listed: &[String], cwd: Option<&str>) -> Vec<u8> {
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

/// Calls `found` with every file and how it was touched.
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

/// Calls `found` with every file and how often it was changed.
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
    use crate::model::{Call, Failure};

    fn facts() -> Facts {
        let minute = 60_000;
        Facts {
            messages: 4,
            // Across a quarter's end, then a pause of an hour.
            times: vec![QUARTER - 2 * minute, QUARTER + minute, QUARTER + 61 * minute],
            prompt_quarters: BTreeMap::from([(0, (1, 30))]),
            tools: vec!["bash".into(), "grep".into()],
            calls: [(1, 0), (1, 0), (2, 1), (3, 0)]
                .map(|(id, tool)| Call { id, tool, quarter: 1 })
                .to_vec(),
            results: vec![1, 2],
            errors: vec![Failure { id: 2, kind: 0 }],
            ..Facts::default()
        }
    }

    #[test]
    fn quarters_add_up_to_the_session() {
        let facts = facts();
        let done = Done::of(&facts, Some(2 * QUARTER));
        let sum = |part: fn(&Quarter) -> u64| done.quarters.iter().map(part).sum::<u64>();
        assert_eq!(sum(|it| it.active) / 1000, facts.active_seconds());
        assert_eq!((sum(|it| it.messages), sum(|it| it.prompts)), (4, 1));
        // What has no time stands where the session began.
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
        let done = Done::of(&facts(), None);
        let bytes = done.pack();
        assert_eq!(Done::unpack(&bytes), done);
        for end in 0..bytes.len() {
            assert!(Done::unpack(&bytes[..end]).quarters.len() <= done.quarters.len());
        }
    }

    #[test]
    fn calls_that_cost_alike_are_kept_together() {
        let tokens = Tokens { input: 5, output: 2, ..Tokens::default() };
        let call = |quarter: i64, recorded: Option<u64>| Spent {
            quarter,
            model: Some("m".into()),
            calls: 1,
            tokens,
            recorded,
            ..Spent::default()
        };
        let packed =
            pack_spent(vec![call(7, None), call(7, None), call(7, Some(9)), call(8, None)]);
        let found: Vec<_> = unpack_spent(&packed)
            .into_iter()
            .map(|it| (it.quarter, it.calls, it.tokens.input, it.recorded))
            .collect();
        assert_eq!(found, [(7, 2, 10, None), (7, 1, 5, Some(9)), (8, 1, 5, None)]);
    }
}
