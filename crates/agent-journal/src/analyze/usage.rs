//! The figures of any choice of sessions and times.

use serde::Serialize;

use super::cost::{Cost, Prices};
use crate::error::Result;
use crate::maps::Map;
use crate::model::Tokens;
use crate::store::{FamilyMember, Quarter, Spent, Store};

/// What was done and spent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Sessions of a person that were active.
    pub sessions: u64,
    /// Of those, how many began.
    pub sessions_started: u64,
    /// Prompts of a person.
    pub prompts: u64,
    /// Messages of any kind, those of sub-agents too.
    pub messages: u64,
    /// Active seconds: gaps between a session's messages count up to five minutes.
    pub active_s: u64,
    /// Seconds of work: periods without a pause of half an hour, overlaps counted once.
    pub work_s: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Calls that were answered.
    pub tool_results: u64,
    /// Answers that report a failure.
    pub tool_errors: u64,
    /// Calls of models.
    pub model_calls: u64,
    /// The tokens.
    #[serde(serialize_with = "Tokens::serialize_known")]
    pub tokens: Tokens,
    /// What they cost.
    pub cost: Cost,
    /// The part of tokens and cost that no message records: the agent's own bill lists it.
    #[serde(skip_serializing_if = "NotInTranscript::is_empty")]
    pub not_in_transcript: NotInTranscript,
    /// Active time in milliseconds, of which `active_s` is made at the end.
    #[serde(skip)]
    pub(super) active_ms: u64,
    /// The session counted last: a session counts once.
    #[serde(skip)]
    pub(super) last: Option<u64>,
}

/// What an agent's own bill lists beyond the calls that messages record: titles, compactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct NotInTranscript {
    /// The tokens.
    pub tokens: Tokens,
    /// What they cost.
    pub cost: Cost,
}

impl NotInTranscript {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.tokens.total() == 0
    }
}

impl Figures {
    /// Counts a session, unless it was the last one counted.
    pub(super) fn count(&mut self, session: u64) {
        if self.last != Some(session) {
            self.last = Some(session);
            self.sessions += 1;
        }
    }

    /// Adds what was done in a quarter hour.
    pub(super) fn add_done(&mut self, quarter: &Quarter, is_root: bool) {
        self.messages += quarter.messages;
        for tool in &quarter.tools {
            self.tool_calls += tool.calls;
            self.tool_results += tool.results;
            self.tool_errors += tool.errors;
        }
        // A sub-agent's prompts are no person's, and it works while its parent waits.
        if is_root {
            self.prompts += quarter.prompts;
            self.active_ms += quarter.active;
        }
    }

    /// Adds what was spent.
    pub(super) fn add_spent(&mut self, spent: &Spent, cost: Cost) {
        self.model_calls += spent.calls;
        self.tokens += spent.tokens;
        self.cost += cost;
        if spent.is_unrecorded {
            self.not_in_transcript.tokens += spent.tokens;
            self.not_in_transcript.cost += cost;
        }
    }

    /// Adds everything but sessions, which count once wherever they were.
    pub(super) fn add(&mut self, other: &Self) {
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

    pub(super) fn finish(&mut self) {
        self.active_s = self.active_ms / 1000;
    }

    /// The share of input that was read from a cache.
    pub fn cache_hit_ratio(&self) -> Option<f64> {
        let tokens = &self.tokens;
        let input = tokens.input + tokens.cache_read + tokens.cache_creation;
        (input > 0).then(|| tokens.cache_read as f64 / input as f64)
    }

    /// The share of answered calls that failed.
    pub fn error_rate(&self) -> Option<f64> {
        (self.tool_results > 0).then(|| self.tool_errors as f64 / self.tool_results as f64)
    }

    /// Prompts of a person in each session.
    pub fn turns_per_session(&self) -> Option<f64> {
        (self.sessions > 0).then(|| self.prompts as f64 / self.sessions as f64)
    }
}

/// What a session did and spent, by itself and together with its sub-agents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionFigures {
    /// The session alone.
    pub own: Figures,
    /// The session and every sub-agent that worked for it: what `aj stats` counts for it.
    pub with_subagents: Figures,
    /// How many sub-agents there are, at any depth.
    pub subagents: u64,
}

/// Works out the figures of sessions, in the order of their keys.
pub(crate) fn session_figures(
    store: &Store,
    keys: &[u64],
    prices: &Prices,
) -> Result<Vec<SessionFigures>> {
    let mut all: Map<u64, SessionFigures> = Map::default();
    for FamilyMember { family, is_own, doings } in store.families(keys)? {
        let figures = all.entry(family).or_default();
        figures.subagents += u64::from(doings.key != family && doings.is_shown);
        let mut sum = Figures::default();
        for quarter in &doings.done().quarters {
            // Whoever started a session, its own prompts and time are those of the session.
            sum.add_done(quarter, doings.key == family);
        }
        for spent in &doings.spent() {
            sum.add_spent(spent, prices.cost(spent));
        }
        if is_own {
            figures.own.add(&sum);
        }
        figures.with_subagents.add(&sum);
    }
    let finished = keys.iter().map(|key| {
        let mut figures = all.remove(key).unwrap_or_default();
        figures.own.finish();
        figures.with_subagents.finish();
        figures
    });
    Ok(finished.collect())
}

/// Works out what sessions cost together with their sub-agents, and nothing else.
pub(crate) fn costs_with_subagents(
    store: &Store,
    keys: &[u64],
    prices: &Prices,
) -> Result<Vec<Cost>> {
    let mut all: Map<u64, Cost> = Map::default();
    for FamilyMember { family, doings, .. } in store.families(keys)? {
        *all.entry(family).or_default() += cost_of(&doings.spent(), prices);
    }
    Ok(keys.iter().map(|key| all.get(key).copied().unwrap_or_default()).collect())
}

/// What calls cost and how many tokens they used.
fn cost_of(calls: &[Spent], prices: &Prices) -> Cost {
    let mut sum = Cost::default();
    for call in calls {
        sum += prices.cost(call);
    }
    sum
}
