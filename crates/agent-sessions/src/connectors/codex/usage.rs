//! Token counts: running totals that repeat, restart, and are copied into forks.

use serde::{Deserialize, Serialize};

use crate::connectors::formats::json::{self, FromOddValue, lenient};
use crate::model::{Tokens, Usage};

lenient! {
    /// The content of a `token_count`. Some versions wrote the total without its envelope.
    struct Info {
        "total_token_usage" total_token_usage: Option<Totals>,
        "last_token_usage" last_token_usage: Option<Totals>,
    }
}

/// Tokens as Codex counts them: `input` includes the tokens read from and written to the cache,
/// `output` includes reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Totals {
    #[serde(
        deserialize_with = "json::deserialize_count",
        rename = "input_tokens",
        alias = "total_input_tokens"
    )]
    input: u64,
    #[serde(
        deserialize_with = "json::deserialize_count",
        rename = "cached_input_tokens",
        alias = "total_cached_input_tokens"
    )]
    cached: u64,
    #[serde(deserialize_with = "json::deserialize_count", rename = "cache_write_input_tokens")]
    written: u64,
    #[serde(
        deserialize_with = "json::deserialize_count",
        rename = "output_tokens",
        alias = "total_output_tokens"
    )]
    output: u64,
    #[serde(
        deserialize_with = "json::deserialize_count",
        rename = "reasoning_output_tokens",
        alias = "total_reasoning_output_tokens"
    )]
    reasoning: u64,
    #[serde(deserialize_with = "json::deserialize_count", rename = "total_tokens")]
    total: u64,
}

/// The threads of a file: its own first, then those whose history it replays.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Threads {
    known: Vec<Thread>,
    /// Index of the thread that the current records belong to.
    current: usize,
    /// Whether a turn recorded its start: without that, the end of a replay is unknown.
    #[serde(default)]
    is_timed: bool,
    /// Whether a turn has begun.
    #[serde(default)]
    has_turn: bool,
}

#[derive(Clone, Serialize, Deserialize)]
struct Thread {
    id: String,
    /// Start of the thread, in milliseconds since 1970.
    since: Option<i64>,
}

impl Info {
    /// Wraps a total that was recorded without its envelope.
    pub(super) fn from_bare_total(total: Totals) -> Option<Self> {
        let is_count = total != Totals::default();
        is_count.then_some(Self { total_token_usage: Some(total), last_token_usage: None })
    }

    /// Advances the running total and returns the tokens of the latest call; `None` when nothing
    /// was used, as in the many counts that repeat the total before them.
    pub(super) fn advance_running_total(&self, known: &mut Option<Totals>) -> Option<Totals> {
        let last = self.last_token_usage;
        let total = match self.total_token_usage {
            Some(total) => total,
            None => known.unwrap_or_default().saturating_sum(last?),
        };
        let used = match *known {
            Some(before) => match total.checked_difference(before) {
                Some(used) => used,
                // The total restarted: only the count of the last call is usable.
                None => last.unwrap_or_default(),
            },
            None => last.unwrap_or(total),
        };
        *known = Some(total);
        (used.input > 0 || used.output > 0).then_some(used)
    }
}

impl FromOddValue<'_> for Totals {}

impl Totals {
    fn saturating_sum(self, other: Self) -> Self {
        self.combine_with(other, |a, b| Some(a.saturating_add(b))).unwrap_or(self)
    }

    /// Subtracts; `None` when any part shrank.
    fn checked_difference(self, before: Self) -> Option<Self> {
        self.combine_with(before, u64::checked_sub)
    }

    fn combine_with(self, other: Self, each: impl Fn(u64, u64) -> Option<u64>) -> Option<Self> {
        Some(Self {
            input: each(self.input, other.input)?,
            cached: each(self.cached, other.cached)?,
            written: each(self.written, other.written)?,
            output: each(self.output, other.output)?,
            reasoning: each(self.reasoning, other.reasoning)?,
            total: each(self.total, other.total)?,
        })
    }

    /// Converts the tokens of a call to its usage. The thread and the total after the call identify
    /// it, because they are the same wherever the call is replayed.
    pub(super) fn call_usage(self, thread: &str, after: Totals) -> Usage {
        let Self { input, cached, output, reasoning, total, .. } = after;
        let tokens = Tokens {
            input: self.input.saturating_sub(self.cached).saturating_sub(self.written),
            output: self.output,
            cache_read: self.cached,
            cache_creation: self.written,
            reasoning: Some(self.reasoning),
        };
        let identity = format!("{thread} {input}/{cached}/{output}/{reasoning}/{total}");
        Usage { identity: Some(identity), tokens, ..Usage::default() }
    }
}

impl Threads {
    /// Adds a thread that a `session_meta` describes. The following records belong to it until a
    /// turn starts. Returns `false` when the thread was known.
    pub(super) fn add_thread(&mut self, id: &str, millis: Option<i64>) -> bool {
        if self.known.iter().any(|thread| thread.id == id) {
            return false;
        }
        self.known.push(Thread { id: id.to_owned(), since: millis });
        self.current = self.known.len() - 1;
        true
    }

    /// Begins a turn, which belongs to the youngest thread that had started by then. Replayed
    /// records get new time stamps, but their turns keep their start times.
    pub(super) fn begin_turn(&mut self, started_at: Option<f64>, turn_id: Option<&str>) {
        self.has_turn = true;
        // A whole second extends to its end: a turn may begin in the same second as its thread.
        let started =
            started_at.map(|seconds| (seconds as i64).saturating_mul(1000).saturating_add(999));
        let Some(at) = turn_id.and_then(uuid_millis).or(started) else { return };
        self.is_timed = true;
        let begun = |thread: &Thread| thread.since.filter(|since| *since <= at);
        let owner = (0..self.known.len())
            .filter_map(|place| begun(&self.known[place]).map(|since| (since, place)))
            .max_by_key(|(since, place)| (*since, std::cmp::Reverse(*place)));
        if let Some((_, place)) = owner {
            self.current = place;
        }
    }

    /// Returns whether no thread is known yet.
    pub(super) fn has_no_thread(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns whether the current records are the file's own.
    pub(super) fn is_own_record(&self) -> bool {
        self.current == 0
    }

    /// Returns whether the current records repeat another thread's.
    pub(super) fn is_replay(&self) -> bool {
        self.is_timed && !self.is_own_record()
    }

    /// Returns whether no turn has begun.
    pub(super) fn is_before_turns(&self) -> bool {
        !self.has_turn
    }

    /// Ends a referenced history: the following records are the file's own, and none of its turns
    /// has begun.
    pub(super) fn return_to_own(&mut self) {
        (self.current, self.is_timed, self.has_turn) = (0, false, false);
    }

    /// Returns the thread that the current records belong to.
    pub(super) fn current_thread(&self) -> Option<&str> {
        self.known.get(self.current).map(|thread| &*thread.id)
    }
}

/// Parses the time in a UUID of version 7, in milliseconds since 1970.
pub(super) fn uuid_millis(uuid: &str) -> Option<i64> {
    let (high, rest) = uuid.split_once('-')?;
    let (low, rest) = rest.split_once('-')?;
    if high.len() != 8 || low.len() != 4 || !rest.starts_with('7') {
        return None;
    }
    i64::from_str_radix(&format!("{high}{low}"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(input: u64, cached: u64, output: u64) -> Totals {
        Totals { input, cached, output, total: input + output, ..Totals::default() }
    }

    fn count(total: Totals, last: Totals) -> Info {
        Info { total_token_usage: Some(total), last_token_usage: Some(last) }
    }

    #[test]
    fn repeated_totals_are_no_calls_and_totals_that_shrink_begin_again() {
        let mut known = None;
        let mut check = |total: Totals, last: Totals, expected: Option<Totals>| {
            assert_eq!(count(total, last).advance_running_total(&mut known), expected);
        };
        // A file that continues another one does not begin at zero.
        check(totals(100, 50, 10), totals(40, 20, 4), Some(totals(40, 20, 4)));
        check(totals(100, 50, 10), totals(40, 20, 4), None);
        check(totals(160, 90, 15), totals(60, 40, 5), Some(totals(60, 40, 5)));
        let window = Totals { total: 258_400, ..Totals::default() };
        check(window, Totals::default(), None);
        check(totals(30, 0, 3), totals(30, 0, 3), Some(totals(30, 0, 3)));
    }

    #[test]
    fn classes_do_not_overlap() {
        let used = Totals { written: 10, reasoning: 3, ..totals(100, 60, 8) };
        let tokens = used.call_usage("t", used).tokens;
        assert_eq!((tokens.input, tokens.cache_read, tokens.cache_creation), (30, 60, 10));
        assert_eq!((tokens.output, tokens.reasoning), (8, Some(3)));
    }

    #[test]
    fn a_turn_belongs_to_the_youngest_thread_that_had_begun() {
        let mut threads = Threads::default();
        assert!(threads.add_thread("fork", Some(30_700)));
        assert!(threads.add_thread("parent", Some(20_000)));
        assert!(!threads.add_thread("fork", None));
        assert_eq!(threads.current_thread(), Some("parent"));
        let mut check = |started_at: Option<f64>, turn_id: Option<&str>, owner: &str| {
            threads.begin_turn(started_at, turn_id);
            assert_eq!(threads.current_thread(), Some(owner));
        };
        check(Some(25.0), None, "parent");
        check(None, Some("not a time"), "parent");
        check(Some(30.0), None, "fork");
        check(Some(30.0), Some("00000000-7724-7000-8000-000000000000"), "parent");
        check(None, Some("00000000-61a8-7000-8000-000000000000"), "parent");
        check(None, Some("019d924b-6b70-7b9b-9a34-836830164ae3"), "fork");
    }
}
