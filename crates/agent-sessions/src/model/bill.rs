//! The bill that an agent itself keeps of a session.

use serde::{Deserialize, Serialize};

use super::Timestamp;

/// Maximum number of bill states kept for one session. Agents write one at the end of each run;
/// beyond the limit the newest replaces the last.
const MAX_STATES: usize = 4096;

/// One state of the bill that an agent keeps of a session: the sums of all calls since the bill was
/// started, including those of sub-agents and those that no message records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Bill {
    /// The latest recorded time before the state was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Start of the bill, where the format records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Sums by model.
    pub models: Vec<BilledModel>,
}

/// The sums of a bill for one model. A token class that the format does not list is unknown, not 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct BilledModel {
    /// Name of the model as the agent writes it.
    pub name: String,
    /// Input tokens neither read from nor written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// All tokens that the model wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Input tokens read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Input tokens written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_creation: Option<u64>,
    /// The part of `cache_creation` with a lifetime of one hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_creation_1h: Option<u64>,
    /// The part of `output` that was reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// Cost of the calls according to the agent, in millionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

/// Adds a state of a bill to the known ones, unless it contains nothing new.
pub(super) fn add_state(known: &mut Vec<Bill>, state: Bill) {
    let is_repeated = known.contains(&state)
        || known
            .last()
            .is_some_and(|last| last.models == state.models && last.since == state.since);
    if is_repeated {
        return;
    }
    if known.len() == MAX_STATES {
        known.pop();
    }
    known.push(state);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(minute: i64, output: u64) -> Bill {
        let at = Timestamp::from_millis(minute * 60_000);
        let model = BilledModel { output: Some(output), ..BilledModel::default() };
        Bill { at, since: None, models: vec![model] }
    }

    #[test]
    fn a_state_that_says_nothing_new_is_not_kept() {
        let mut known = Vec::new();
        for one in [state(1, 10), state(2, 10), state(3, 20), state(1, 10)] {
            add_state(&mut known, one);
        }
        assert_eq!(known, [state(1, 10), state(3, 20)]);
    }

    #[test]
    fn the_newest_state_is_kept_however_many_there_are() {
        let mut known = Vec::new();
        let last = MAX_STATES as i64 + 5;
        (0..=last).for_each(|minute| add_state(&mut known, state(minute, minute as u64)));
        assert_eq!(known.len(), MAX_STATES);
        assert_eq!(known.last(), Some(&state(last, last as u64)));
    }
}
