//! One entry of a session, and the message inside it: typed fields that are used, the others as
//! written.

use serde_json::value::RawValue;

use crate::connectors::formats::json::{self, BorrowedText, lenient, lossless};
use crate::model::{Extensions, Timestamp, Tokens, Usage};

/// Fields that repeat others, or that only the provider can read.
const OMITTED: &[&str] = &[
    "api",
    "idempotencyKey",
    "openclawDelivery",
    "preserveData",
    "providerPayload",
    "systemMessage",
    "timestamp",
    "version",
];

lossless! {
    /// One entry of a session: its header, a message, or a change of its state.
    struct PiEntry<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "parentId" parent: Option<BorrowedText<'a>>,
        "timestamp" timestamp: Option<BorrowedText<'a>>,
        "message" message: Option<&'a RawValue>,
        "cwd" cwd: Option<BorrowedText<'a>>,
        "parentSession" parent_session: Option<BorrowedText<'a>>,
        "branchedFrom" branched_from: Option<BorrowedText<'a>>,
        "modelId" model_id: Option<BorrowedText<'a>>,
        "model" model: Option<BorrowedText<'a>>,
        "usage" usage: Option<PiUsage>,
        "summary" summary: Option<BorrowedText<'a>>,
        "fromHook" from_hook: Option<bool>,
        "content" content: Option<&'a RawValue>,
        "details" details: Option<&'a RawValue>,
        "label" label: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "title" title: Option<BorrowedText<'a>>,
        "titleSource" title_source: Option<BorrowedText<'a>>,
        "source" source: Option<BorrowedText<'a>>,
        "rlmDepth" depth: Option<u64>,
    }
}

lossless! {
    /// The message in an entry.
    struct PiMessage<'a> {
        "role" role: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "model" model: Option<BorrowedText<'a>>,
        "usage" usage: Option<PiUsage>,
        "stopReason" stop_reason: Option<BorrowedText<'a>>,
        "errorMessage" error_message: Option<BorrowedText<'a>>,
        "responseId" response_id: Option<BorrowedText<'a>>,
        "toolCallId" tool_call_id: Option<BorrowedText<'a>>,
        "toolName" tool_name: Option<BorrowedText<'a>>,
        "isError" is_error: Option<bool>,
        "details" details: Option<&'a RawValue>,
        "provenance" provenance: Option<&'a RawValue>,
        "nestedCalls" nested_calls: Option<&'a RawValue>,
        "command" command: Option<BorrowedText<'a>>,
        "output" output: Option<BorrowedText<'a>>,
        "excludeFromContext" is_excluded: Option<bool>,
        "summary" summary: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// Tokens and cost of a model call. The classes do not overlap, except that `output` includes
    /// `reasoning` (`reasoningTokens` in oh-my-pi and OpenClaw) and `cacheWrite` includes
    /// `cacheWrite1h`.
    struct PiUsage {
        "input" input: Option<u64>,
        "output" output: Option<u64>,
        "cacheRead" cache_read: Option<u64>,
        "cacheWrite" cache_write: Option<u64>,
        "cacheWrite1h" cache_write_1h: Option<u64>,
        "reasoning" reasoning: Option<u64>,
        "reasoningTokens" reasoning_tokens: Option<u64>,
        "cost" cost: Option<PiCost>,
    }
}

lenient! {
    /// Cost of a model call in dollars.
    struct PiCost {
        "total" total: Option<f64>,
    }
}

impl PiEntry<'_> {
    /// Returns the time at which the entry was written.
    pub(super) fn entry_time(&self) -> Option<Timestamp> {
        Timestamp::parse_iso_time(self.timestamp.as_ref()?.as_borrowed_str())
    }

    /// Returns the identity of the model call that the entry records. A fork copies entries with
    /// their ids and times.
    pub(super) fn call_identity(&self) -> Option<String> {
        let named = [self.id.as_ref(), self.timestamp.as_ref()].into_iter().flatten();
        let parts: Vec<&str> = named.map(BorrowedText::as_borrowed_str).collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }
}

impl PiUsage {
    /// Converts the tokens of a call. A call without tokens failed before the model answered.
    pub(super) fn into_usage(self, identity: Option<String>) -> Option<Usage> {
        let tokens = Tokens {
            input: self.input.unwrap_or(0),
            output: self.output.unwrap_or(0),
            cache_read: self.cache_read.unwrap_or(0),
            cache_creation: self.cache_write.unwrap_or(0),
            // Some programs write 0 for a model that does not count its reasoning.
            reasoning: self.reasoning.or(self.reasoning_tokens.filter(|count| *count > 0)),
        };
        // A cost of zero is that of a model without known prices.
        let cost = self.cost.and_then(|cost| cost.total).filter(|dollars| *dollars > 0.0);
        let cost_micros = cost.map(|dollars| (dollars * 1e6).round() as u64);
        tokens.is_known().then(|| Usage {
            identity,
            tokens,
            cache_creation_1h: self.cache_write_1h.unwrap_or(0),
            cost_micros,
            ..Usage::default()
        })
    }
}

/// Keeps the fields that have no field in the model.
pub(super) fn keep_unmodeled_fields(
    mut rest: json::UnnamedFields<'_>,
    extensions: &mut Extensions,
) {
    rest.retain(|(key, _)| !OMITTED.contains(&&**key));
    json::keep_non_empty_fields(rest, extensions);
}

/// Returns a text; an empty one counts as absent.
pub(super) fn owned_if_present(text: Option<BorrowedText<'_>>) -> Option<String> {
    text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
}
