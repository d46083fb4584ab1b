//! One line of a session: an update, and the time and model call it belongs to.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::connectors::formats::json::{BorrowedText, lenient};
use crate::model::Timestamp;

lenient! {
    /// One line.
    struct GrokLine<'a> {
        "timestamp" seconds: Option<u64>,
        "params" params: Option<GrokParams<'a>>,
    }
}

lenient! {
    struct GrokParams<'a> {
        "update" update: Option<&'a RawValue>,
        "_meta" meta: Option<GrokLineMeta>,
    }
}

lenient! {
    /// The time of an update, and that at which its model call began.
    struct GrokLineMeta {
        "agentTimestampMs" millis: Option<u64>,
        "streamStartMs" stream: Option<u64>,
    }
}

lenient! {
    /// The fields of all updates that are used.
    struct GrokUpdate<'a> {
        "sessionUpdate" kind: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "toolCallId" tool_call_id: Option<BorrowedText<'a>>,
        "title" title: Option<BorrowedText<'a>>,
        "status" status: Option<BorrowedText<'a>>,
        "rawInput" input: Option<&'a RawValue>,
        "rawOutput" output: Option<&'a RawValue>,
        "_meta" meta: Option<GrokUpdateMeta<'a>>,
        "prompt_id" prompt_id: Option<BorrowedText<'a>>,
        "usage" usage: Option<GrokTurnUsage>,
        "model_id" model: Option<BorrowedText<'a>>,
        "new_model_id" new_model: Option<BorrowedText<'a>>,
        "error" error: Option<BorrowedText<'a>>,
        "message" message: Option<BorrowedText<'a>>,
        "event_text" event_text: Option<BorrowedText<'a>>,
        "summary_preview" summary: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct GrokUpdateMeta<'a> {
        "modelId" model: Option<BorrowedText<'a>>,
        "promptIndex" prompt_index: Option<u64>,
        "hostTurn" is_host_turn: Option<bool>,
        "x.ai/tool" tool: Option<GrokTool<'a>>,
    }
}

lenient! {
    struct GrokTool<'a> {
        "name" name: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The tokens of a turn, with those of its sub-agents.
    struct GrokTurnUsage {
        "modelUsage" models: Option<BTreeMap<String, GrokModelUsage>>,
        "usageIsIncomplete" is_incomplete: Option<bool>,
    }
}

lenient! {
    /// The tokens of one model. `inputTokens` includes both kinds of cache.
    struct GrokModelUsage {
        "inputTokens" input: Option<u64>,
        "outputTokens" output: Option<u64>,
        "cachedReadTokens" cache_read: Option<u64>,
        "cacheCreationTokens" cache_creation: Option<u64>,
        "reasoningTokens" reasoning: Option<u64>,
        "costUsdTicks" cost_ticks: Option<u64>,
    }
}

lenient! {
    /// A part of a content.
    struct GrokContent<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "data" data: Option<BorrowedText<'a>>,
        "mimeType" mime_type: Option<BorrowedText<'a>>,
        "uri" uri: Option<BorrowedText<'a>>,
        "_meta" meta: Option<GrokContentMeta<'a>>,
    }
}

lenient! {
    struct GrokContentMeta<'a> {
        "bash_command" bash_command: Option<BorrowedText<'a>>,
    }
}

impl GrokLine<'_> {
    /// Returns the time at which the update happened.
    pub(super) fn line_time(&self) -> Option<Timestamp> {
        let meta = self.params.as_ref().and_then(|params| params.meta.as_ref());
        let millis = meta.and_then(|meta| meta.millis);
        let millis = millis.or_else(|| self.seconds.map(|seconds| seconds.saturating_mul(1000)));
        Timestamp::from_millis(i64::try_from(millis?).ok()?)
    }
}

/// Returns a text; an empty one counts as absent.
pub(super) fn owned_if_present(text: Option<BorrowedText<'_>>) -> Option<String> {
    text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
}
