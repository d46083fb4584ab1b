//! Claude Code's own bill: `cost-state` records with running sums since the bill was started.

use std::collections::BTreeMap;

use crate::connectors::formats::json::{self, lenient};
use crate::model::{Bill, BilledModel, Timestamp};

lenient! {
    struct CostState {
        "startTime" start_time: Option<u64>,
        "modelUsage" model_usage: Option<BTreeMap<String, ModelUsage>>,
        "hasUnknownModelCost" has_unknown_cost: Option<bool>,
    }
}

lenient! {
    struct ModelUsage {
        "inputTokens" input: Option<u64>,
        "outputTokens" output: Option<u64>,
        "thinkingTokens" reasoning: Option<u64>,
        "cacheReadInputTokens" cache_read: Option<u64>,
        "cacheCreationInputTokens" cache_creation: Option<u64>,
        "cacheCreationEphemeral1hInputTokens" cache_creation_1h: Option<u64>,
        "costUSD" cost_usd: Option<f64>,
    }
}

/// Parses one state of the bill; `None` where it lists no model.
pub(super) fn parse_bill_state(bytes: &[u8], at: Option<Timestamp>) -> Option<Bill> {
    let state: CostState = json::parse_json(std::str::from_utf8(bytes).ok()?)?;
    // Claude Code invents a price for models it does not know.
    let is_priced = state.has_unknown_cost != Some(true);
    let listed = state.model_usage.unwrap_or_default();
    let models: Vec<BilledModel> =
        listed.into_iter().map(|(name, usage)| usage.into_billed_model(name, is_priced)).collect();
    let since = state.start_time.and_then(|millis| Timestamp::from_millis(millis as i64));
    (!models.is_empty()).then_some(Bill { at, since, models })
}

impl ModelUsage {
    fn into_billed_model(self, name: String, is_priced: bool) -> BilledModel {
        let cost = self.cost_usd.filter(|cost| is_priced && *cost > 0.0);
        BilledModel {
            name,
            input: self.input,
            output: self.output,
            cache_read: self.cache_read,
            cache_creation: self.cache_creation,
            cache_creation_1h: self.cache_creation_1h,
            reasoning: self.reasoning,
            cost_micros: cost.map(|cost| (cost * 1e6).round() as u64),
        }
    }
}
