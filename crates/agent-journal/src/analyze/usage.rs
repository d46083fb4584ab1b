//! The figures of any selection of sessions and times.

use serde::Serialize;

use super::cost::{Cost, Prices};
use crate::error::Result;
use crate::maps::Map;
use crate::model::Tokens;
use crate::store::{ActivityBucket, FamilyMember, Store, UsageBucket};

/// The activity and usage of sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// The number of active sessions that a person started.
    pub sessions: u64,
    /// The number of those that began in the period.
    pub sessions_started: u64,
    /// The number of prompts of a person.
    pub prompts: u64,
    /// The number of messages of any kind, including those of sub-agents.
    pub messages: u64,
    /// Active seconds: gaps between a session's messages count up to five minutes.
    pub active_s: u64,
    /// Seconds of work: periods without a pause of half an hour, overlaps counted once.
    pub work_s: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The number of tool calls with a result.
    pub tool_results: u64,
    /// The number of results that report a failure.
    pub tool_errors: u64,
    /// The number of model calls.
    pub model_calls: u64,
    /// The tokens of all model calls.
    #[serde(serialize_with = "Tokens::serialize_known")]
    pub tokens: Tokens,
    /// The cost of the tokens.
    pub cost: Cost,
    /// The part of tokens and cost that is in no message and only in the agent's own bill.
    #[serde(skip_serializing_if = "NotInTranscript::has_no_tokens")]
    pub not_in_transcript: NotInTranscript,
    /// Active time in milliseconds, from which `active_s` is computed at the end.
    #[serde(skip)]
    pub(super) active_ms: u64,
    /// The session counted last: a session counts once.
    #[serde(skip)]
    pub(super) last: Option<u64>,
}

/// Usage in an agent's own bill beyond the calls that messages record: titles, compactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct NotInTranscript {
    /// The tokens that are only in the bill.
    pub tokens: Tokens,
    /// The cost of the tokens.
    pub cost: Cost,
}

impl NotInTranscript {
    /// Returns whether there are no tokens.
    pub fn has_no_tokens(&self) -> bool {
        self.tokens.total_tokens() == 0
    }
}

impl Figures {
    /// Counts a session, unless it was the last one counted.
    pub(super) fn count_session_once(&mut self, session: u64) {
        if self.last != Some(session) {
            self.last = Some(session);
            self.sessions += 1;
        }
    }

    /// Adds the activity of a quarter hour.
    pub(super) fn add_quarter_activity(&mut self, quarter: &ActivityBucket, is_root: bool) {
        self.messages += quarter.messages;
        for tool in &quarter.tools {
            self.tool_calls += tool.calls;
            self.tool_results += tool.results;
            self.tool_errors += tool.errors;
        }
        // Prompts of a sub-agent are not a person's, and it works while its parent waits.
        if is_root {
            self.prompts += quarter.prompts;
            self.active_ms += quarter.active;
        }
    }

    /// Adds a usage bucket with its cost.
    pub(super) fn add_usage_with_cost(&mut self, spent: &UsageBucket, cost: Cost) {
        self.model_calls += spent.calls;
        self.tokens += spent.tokens;
        self.cost += cost;
        if spent.is_unrecorded {
            self.not_in_transcript.tokens += spent.tokens;
            self.not_in_transcript.cost += cost;
        }
    }

    /// Adds everything but sessions, which are counted separately.
    pub(super) fn add_figures(&mut self, other: &Self) {
        self.prompts += other.prompts;
        self.messages += other.messages;
        self.active_ms += other.active_ms;
        self.tool_calls += other.tool_calls;
        self.tool_results += other.tool_results;
        self.tool_errors += other.tool_errors;
        self.model_calls += other.model_calls;
        self.tokens += other.tokens;
        self.cost += other.cost;
        self.not_in_transcript.tokens += other.not_in_transcript.tokens;
        self.not_in_transcript.cost += other.not_in_transcript.cost;
    }

    pub(super) fn finish_sums(&mut self) {
        self.active_s = self.active_ms / 1000;
    }

    /// Returns the share of input that was read from a cache.
    pub fn cache_hit_ratio(&self) -> Option<f64> {
        let tokens = &self.tokens;
        let input = tokens.input + tokens.cache_read + tokens.cache_creation;
        (input > 0).then(|| tokens.cache_read as f64 / input as f64)
    }

    /// Returns the share of completed tool calls that failed.
    pub fn call_error_rate(&self) -> Option<f64> {
        (self.tool_results > 0).then(|| self.tool_errors as f64 / self.tool_results as f64)
    }

    /// Returns the average number of prompts per session.
    pub fn turns_per_session(&self) -> Option<f64> {
        (self.sessions > 0).then(|| self.prompts as f64 / self.sessions as f64)
    }
}

/// The figures of a session, alone and with its sub-agents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionFigures {
    /// The figures of the session alone.
    pub own: Figures,
    /// The figures of the session and all its sub-agents, as `aj stats` counts them.
    pub with_subagents: Figures,
    /// The number of sub-agents, at any depth.
    pub subagents: u64,
}

/// Computes the figures of sessions, in the order of their keys.
pub(crate) fn figures_of_sessions(
    store: &Store,
    keys: &[u64],
    prices: &Prices,
) -> Result<Vec<SessionFigures>> {
    let mut all: Map<u64, SessionFigures> = Map::default();
    for FamilyMember { family, is_own, activity } in store.families(keys)? {
        let figures = all.entry(family).or_default();
        figures.subagents += u64::from(activity.key != family && activity.is_shown);
        let mut sum = Figures::default();
        for quarter in &activity.done().quarters {
            // A session's own prompts and time count, even if it is a sub-agent itself.
            sum.add_quarter_activity(quarter, activity.key == family);
        }
        for spent in &activity.spent() {
            sum.add_usage_with_cost(spent, prices.cost_of_usage(spent));
        }
        if is_own {
            figures.own.add_figures(&sum);
        }
        figures.with_subagents.add_figures(&sum);
    }
    let finished = keys.iter().map(|key| {
        let mut figures = all.remove(key).unwrap_or_default();
        figures.own.finish_sums();
        figures.with_subagents.finish_sums();
        figures
    });
    Ok(finished.collect())
}

/// Computes the cost of sessions together with their sub-agents, and nothing else.
pub(crate) fn costs_with_subagents(
    store: &Store,
    keys: &[u64],
    prices: &Prices,
) -> Result<Vec<Cost>> {
    let mut all: Map<u64, Cost> = Map::default();
    for FamilyMember { family, activity, .. } in store.families(keys)? {
        *all.entry(family).or_default() += cost_of(&activity.spent(), prices);
    }
    Ok(keys.iter().map(|key| all.get(key).copied().unwrap_or_default()).collect())
}

/// Sums up the cost of calls.
fn cost_of(calls: &[UsageBucket], prices: &Prices) -> Cost {
    let mut sum = Cost::default();
    for call in calls {
        sum += prices.cost_of_usage(call);
    }
    sum
}
