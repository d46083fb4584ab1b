//! The state of a conversation: its agent, its directory, and the figures of all model calls.

use std::collections::HashMap;

use serde_json::value::RawValue;

use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Message, Session, Tokens, Usage};

lenient! {
    struct OpenHandsState<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "agent" agent: Option<OpenHandsAgent<'a>>,
        "workspace" workspace: Option<OpenHandsWorkspace<'a>>,
        "stats" stats: Option<OpenHandsStats<'a>>,
    }
}

lenient! {
    struct OpenHandsAgent<'a> {
        "llm" llm: Option<OpenHandsLlm<'a>>,
    }
}

lenient! {
    struct OpenHandsLlm<'a> {
        "model" model: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct OpenHandsWorkspace<'a> {
        "working_dir" directory: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct OpenHandsStats<'a> {
        "usage_to_metrics" metrics: Option<&'a RawValue>,
    }
}

lenient! {
    /// The figures of one use of a model, such as that of the agent or of summaries.
    struct OpenHandsMetrics<'a> {
        "costs" costs: Option<Vec<OpenHandsCost>>,
        "token_usages" calls: Option<Vec<OpenHandsUsage<'a>>>,
    }
}

lenient! {
    struct OpenHandsCost {
        "cost" dollars: Option<f64>,
    }
}

lenient! {
    /// One model call. The prompt includes what was read from and written to a cache.
    struct OpenHandsUsage<'a> {
        "model" model: Option<BorrowedText<'a>>,
        "prompt_tokens" prompt: Option<u64>,
        "completion_tokens" completion: Option<u64>,
        "cache_read_tokens" cache_read: Option<u64>,
        "cache_write_tokens" cache_write: Option<u64>,
        "reasoning_tokens" reasoning: Option<u64>,
        "response_id" response_id: Option<BorrowedText<'a>>,
    }
}

/// A model call of a conversation.
pub(super) struct StateCall {
    pub(super) model: Option<String>,
    pub(super) usage: Usage,
}

/// The model calls of a conversation.
#[derive(Default)]
pub(super) struct StateCalls {
    /// Calls by the id of their response.
    by_response: HashMap<String, StateCall>,
    /// Ids in the order of the calls.
    order: Vec<String>,
}

/// Reads a state: moves its metadata into the session, and returns the model calls.
pub(super) fn read_state(text: &str, session: &mut Session) -> Option<StateCalls> {
    let state = json::parse_json::<OpenHandsState<'_>>(text)?;
    let owned = |text: Option<BorrowedText<'_>>| {
        text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
    };
    session.model = owned(state.agent.and_then(|agent| agent.llm).and_then(|llm| llm.model));
    session.cwd = owned(state.workspace.and_then(|workspace| workspace.directory));
    // A copy of a conversation in another directory has the same calls.
    let recorded_id = owned(state.id).map(|id| id.replace('-', ""));
    let conversation = recorded_id.unwrap_or_else(|| session.id.native.clone());
    let mut calls = StateCalls::default();
    let uses = state.stats.and_then(|stats| stats.metrics).and_then(json::object_fields);
    for (name, raw) in uses.into_iter().flatten() {
        if let Some(metrics) = json::parse_json::<OpenHandsMetrics<'_>>(raw.get()) {
            calls.add_metrics(&conversation, &name, metrics);
        }
    }
    Some(calls)
}

impl StateCalls {
    fn add_metrics(&mut self, conversation: &str, name: &str, metrics: OpenHandsMetrics<'_>) {
        let usages = metrics.calls.unwrap_or_default();
        // A call without a known price has no cost: only lists of one length belong together.
        let costs = metrics.costs.filter(|costs| costs.len() == usages.len()).unwrap_or_default();
        let mut costs = costs.into_iter();
        for (at, usage) in usages.into_iter().enumerate() {
            let cost = costs.next().unwrap_or_default();
            let id = usage.response_id.as_ref().map(BorrowedText::as_borrowed_str);
            let id = id.filter(|id| !id.is_empty()).map(str::to_owned);
            let key = id.unwrap_or_else(|| format!("{conversation} {name} {at}"));
            let Some(call) = StateCall::from_usage(usage, &cost, &key) else { continue };
            if self.by_response.insert(key.clone(), call).is_none() {
                self.order.push(key);
            }
        }
    }

    /// Removes and returns the call with a response.
    pub(super) fn take_call(&mut self, response_id: &str) -> Option<StateCall> {
        self.by_response.remove(response_id)
    }

    /// Returns the calls that no event names, such as titles, as messages without content. Their
    /// times are in UTC, unlike those of events, and are left out.
    pub(super) fn into_unnamed_calls(mut self) -> Vec<Message> {
        let calls = self.order.iter().filter_map(|key| self.by_response.remove(key));
        let calls = calls.map(|call| Message {
            model: call.model,
            usage: Some(call.usage),
            ..Message::default()
        });
        calls.collect()
    }
}

impl StateCall {
    fn from_usage(usage: OpenHandsUsage<'_>, cost: &OpenHandsCost, key: &str) -> Option<Self> {
        let prompt = usage.prompt.unwrap_or(0);
        let cache_read = usage.cache_read.unwrap_or(0);
        let cache_creation = usage.cache_write.unwrap_or(0);
        // Agents that it runs report both apart.
        let cached = cache_read.saturating_add(cache_creation);
        let output = usage.completion.unwrap_or(0);
        let tokens = Tokens {
            input: if cached <= prompt { prompt - cached } else { prompt },
            output,
            cache_read,
            cache_creation,
            // Nothing tells an answer without reasoning from a provider that does not report it.
            reasoning: usage.reasoning.filter(|reasoning| (1..=output).contains(reasoning)),
        };
        let dollars = cost.dollars.filter(|dollars| *dollars > 0.0);
        let usage_of_call = Usage {
            identity: Some(key.to_owned()),
            tokens,
            cost_micros: dollars.map(|dollars| (dollars * 1e6).round() as u64),
            ..Usage::default()
        };
        tokens.is_known().then(|| Self {
            model: usage.model.map(BorrowedText::into_owned).filter(|model| !model.is_empty()),
            usage: usage_of_call.within_reason(),
        })
    }
}
