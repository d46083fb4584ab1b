//! The tokens of a session, which the agent sums up at the end of each turn.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::line::{GrokModelUsage, GrokTurnUsage};
use crate::model::{Bill, BilledModel, Timestamp, Tokens, Usage};

/// Number of ticks in a millionth of a dollar.
const TICKS_PER_MICRO: u64 = 10_000;

/// The sums of a session so far, by model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct RunningBill(BTreeMap<String, ModelSums>);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ModelSums {
    tokens: Tokens,
    /// Absent as soon as the cost of one turn is not known.
    cost_micros: Option<u64>,
}

impl RunningBill {
    /// Adds the tokens of a turn, and returns the state of the bill after it.
    pub(super) fn add_turn(&mut self, turn: GrokTurnUsage, at: Option<Timestamp>) -> Option<Bill> {
        let models = turn.models.filter(|models| !models.is_empty())?;
        for (name, usage) in models {
            let is_new = !self.0.contains_key(&name);
            let sums = self.0.entry(name).or_default();
            let known = if is_new { Some(0) } else { sums.cost_micros };
            sums.cost_micros = known.zip(usage.cost_micros()).map(|(sum, cost)| sum + cost);
            sums.tokens += usage.tokens();
        }
        let models = self.0.iter().map(|(name, sums)| sums.billed_model(name)).collect();
        Some(Bill { at, since: None, models })
    }
}

impl ModelSums {
    fn billed_model(&self, name: &str) -> BilledModel {
        BilledModel {
            name: name.to_owned(),
            input: Some(self.tokens.input),
            output: Some(self.tokens.output),
            cache_read: Some(self.tokens.cache_read),
            cache_creation: Some(self.tokens.cache_creation),
            cache_creation_1h: None,
            reasoning: self.tokens.reasoning,
            cost_micros: self.cost_micros,
        }
    }
}

impl GrokModelUsage {
    fn tokens(&self) -> Tokens {
        let (read, written) = (self.cache_read.unwrap_or(0), self.cache_creation.unwrap_or(0));
        let cached = read.saturating_add(written);
        Tokens {
            input: self.input.unwrap_or(0).saturating_sub(cached),
            output: self.output.unwrap_or(0),
            cache_read: read,
            cache_creation: written,
            reasoning: self.reasoning,
        }
    }

    fn cost_micros(&self) -> Option<u64> {
        self.cost_ticks.map(|ticks| ticks / TICKS_PER_MICRO)
    }
}

/// Returns the sums of a sub-agent's turn, by model. They stand for all calls since the turn began.
pub(super) fn turn_sums(
    turn: GrokTurnUsage,
    prompt: &str,
    since: Option<Timestamp>,
) -> Vec<(String, Usage)> {
    let models = turn.models.unwrap_or_default().into_iter();
    let sums = models.map(|(name, usage)| {
        let identity = Some(format!("{prompt} {name}"));
        let (tokens, cost_micros) = (usage.tokens(), usage.cost_micros());
        (name, Usage { identity, tokens, cost_micros, since, ..Usage::default() })
    });
    sums.filter(|(_, usage)| usage.tokens.is_known()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(input: u64, cost_ticks: Option<u64>) -> GrokTurnUsage {
        let usage = GrokModelUsage {
            input: Some(input),
            output: Some(5),
            cache_read: Some(30),
            cost_ticks,
            ..GrokModelUsage::default()
        };
        GrokTurnUsage {
            models: Some(BTreeMap::from([("terra".to_owned(), usage)])),
            ..GrokTurnUsage::default()
        }
    }

    #[test]
    fn a_bill_grows_with_each_turn_and_its_input_is_without_the_cache() {
        let mut bill = RunningBill::default();
        let first = bill.add_turn(turn(100, Some(20_000)), None).unwrap();
        assert_eq!((first.models[0].input, first.models[0].cost_micros), (Some(70), Some(2)));
        let second = bill.add_turn(turn(130, None), None).unwrap();
        assert_eq!((second.models[0].input, second.models[0].cache_read), (Some(170), Some(60)));
        assert_eq!(second.models[0].cost_micros, None);
        assert!(bill.add_turn(GrokTurnUsage::default(), None).is_none());
    }
}
