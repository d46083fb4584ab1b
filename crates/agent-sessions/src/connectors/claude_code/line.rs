//! The structure of one record: the fields that are used, and the others as written.

use serde_json::value::RawValue;

use super::content::ClaudeContent;
use crate::connectors::formats::json::{BorrowedText, FromOddValue, Lenient, lenient, lossless};
use crate::model::{Tokens, Usage};

lossless! {
    /// One line of a transcript.
    struct ClaudeLine<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "subtype" subtype: Option<BorrowedText<'a>>,
        "uuid" uuid: Option<BorrowedText<'a>>,
        "parentUuid" parent: Option<BorrowedText<'a>>,
        "logicalParentUuid" logical_parent: Option<BorrowedText<'a>>,
        "sessionId" session_id: Option<BorrowedText<'a>>,
        "timestamp" timestamp: Option<Lenient<BorrowedText<'a>>>,
        "cwd" cwd: Option<BorrowedText<'a>>,
        "version" version: Option<BorrowedText<'a>>,
        "gitBranch" branch: Option<BorrowedText<'a>>,
        "slug" slug: Option<BorrowedText<'a>>,
        "model" model: Option<BorrowedText<'a>>,
        "requestId" request_id: Option<BorrowedText<'a>>,
        "message" message: Option<ApiMessage<'a>>,
        "isSidechain" is_sidechain: Option<bool>,
        "isMeta" is_meta: Option<bool>,
        "isCompactSummary" is_compact_summary: Option<bool>,
        "isVisibleInTranscriptOnly" is_transcript_only: Option<bool>,
        "isApiErrorMessage" is_api_error: Option<bool>,
        "costUSD" cost_usd: Option<Lenient<f64>>,
        "toolUseResult" tool_use_result: Option<&'a RawValue>,
        "promptSource" prompt_source: Option<Lenient<BorrowedText<'a>>>,
        "origin" origin: Option<Lenient<From<'a>>>,
        "content" content: Option<Lenient<ClaudeContent<'a>>>,
        "operation" operation: Option<BorrowedText<'a>>,
        "attachment" attachment: Option<&'a RawValue>,
        "snapshot" snapshot: Option<&'a RawValue>,
        "summary" summary: Option<BorrowedText<'a>>,
        "leafUuid" leaf: Option<BorrowedText<'a>>,
        "customTitle" custom_title: Option<BorrowedText<'a>>,
        "aiTitle" ai_title: Option<BorrowedText<'a>>,
        "agentName" agent_name: Option<BorrowedText<'a>>,
        "agentId" agent_id: Option<BorrowedText<'a>>,
        "prUrl" pr_url: Option<BorrowedText<'a>>,
        "inputTokens" input_tokens: Option<u64>,
        "outputTokens" output_tokens: Option<u64>,
        "cacheCreationInputTokens" cache_creation_tokens: Option<u64>,
        "cacheReadInputTokens" cache_read_tokens: Option<u64>,
    }
}

lossless! {
    /// The API message inside a record.
    struct ApiMessage<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "role" role: Option<BorrowedText<'a>>,
        "type" kind: Option<BorrowedText<'a>>,
        "model" model: Option<BorrowedText<'a>>,
        "content" content: Option<ClaudeContent<'a>>,
        "stop_reason" stop_reason: Option<BorrowedText<'a>>,
        "stopReason" stop_reason_camel: Option<BorrowedText<'a>>,
        "usage" usage: Option<ApiTokenCounts<'a>>,
    }
}

impl<'a> ApiMessage<'a> {
    /// Builds a message from a value that is not a message object: the value is its content.
    pub(super) fn from_plain_content(odd: &'a RawValue) -> Option<Self> {
        let content = ClaudeContent::from_odd_value(odd, &mut true)?;
        Some(Self { content: Some(content), ..Self::default() })
    }
}

lossless! {
    /// The API's token counts.
    struct ApiTokenCounts<'a> {
        "input_tokens" input: Option<u64>,
        "output_tokens" output: Option<u64>,
        "cache_read_input_tokens" cache_read: Option<u64>,
        "cache_creation_input_tokens" cache_creation: Option<u64>,
        "cache_creation" by_life: Option<Lenient<Lives>>,
        "output_tokens_details" details: Option<Lenient<UsageDetails>>,
        "speed" speed: Option<Lenient<BorrowedText<'a>>>,
    }
}

lenient! {
    struct Lives {
        "ephemeral_1h_input_tokens" ephemeral_1h_input_tokens: Option<u64>,
    }
}

lenient! {
    struct UsageDetails {
        "thinking_tokens" thinking_tokens: Option<u64>,
    }
}

lenient! {
    /// The origin of a prompt, in versions that record it.
    struct From<'a> {
        "kind" kind: Option<BorrowedText<'a>>,
    }
}

impl ClaudeLine<'_> {
    /// Returns the usage of an assistant record, from the API's counts or from the older fields.
    pub(super) fn recorded_usage(&self) -> Option<Usage> {
        let body = self.message.as_ref();
        let mut usage = match body.and_then(|body| body.usage.as_ref()) {
            Some(counts) => counts.to_usage(),
            None => self.old_usage()?,
        };
        let cost = self.cost_usd.as_ref().and_then(|cost| cost.0).filter(|cost| *cost >= 0.0);
        usage.cost_micros = cost.map(|cost| (cost * 1e6).round() as u64);
        let id = body.and_then(|body| non_empty_text(body.id.as_ref()));
        usage.identity = match (id, non_empty_text(self.request_id.as_ref())) {
            (Some(id), Some(request)) => Some(format!("{id} {request}")),
            (Some(id), None) => Some(id.to_owned()),
            (None, _) => non_empty_text(self.uuid.as_ref()).map(str::to_owned),
        };
        Some(usage)
    }

    fn old_usage(&self) -> Option<Usage> {
        let output = self.output_tokens?;
        let tokens = Tokens {
            input: self.input_tokens.unwrap_or(0),
            output,
            cache_read: self.cache_read_tokens.unwrap_or(0),
            cache_creation: self.cache_creation_tokens.unwrap_or(0),
            reasoning: None,
        };
        Some(Usage { tokens, ..Usage::default() })
    }
}

/// Returns a text if it is present and not empty.
pub(super) fn non_empty_text<'t>(text: Option<&'t BorrowedText<'_>>) -> Option<&'t str> {
    text.map(BorrowedText::as_borrowed_str).filter(|text| !text.is_empty())
}

impl ApiTokenCounts<'_> {
    fn to_usage(&self) -> Usage {
        let details = self.details.as_ref().and_then(|details| details.0.as_ref());
        let lives = self.by_life.as_ref().and_then(|lives| lives.0.as_ref());
        let tokens = Tokens {
            input: self.input.unwrap_or(0),
            output: self.output.unwrap_or(0),
            cache_read: self.cache_read.unwrap_or(0),
            cache_creation: self.cache_creation.unwrap_or(0),
            reasoning: details.and_then(|details| details.thinking_tokens),
        };
        let cache_creation_1h =
            lives.and_then(|lives| lives.ephemeral_1h_input_tokens).unwrap_or(0);
        let speed = non_empty_text(self.speed.as_ref().and_then(|speed| speed.0.as_ref()));
        let speed = speed.filter(|speed| *speed != "standard").map(str::to_owned);
        Usage { tokens, cache_creation_1h, speed, ..Usage::default() }
    }
}
