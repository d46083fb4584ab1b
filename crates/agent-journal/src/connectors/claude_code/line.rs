//! The shape of one record, with the fields that are used and the rest as written.

use serde_json::value::RawValue;

use super::content::Content;
use crate::connectors::formats::json::{FromOddValue, Lenient, Text, lenient, lossless};
use crate::model::{Tokens, Usage};

lossless! {
    /// One line of a transcript.
    struct Line<'a> {
        "type" kind: Option<Text<'a>>,
        "subtype" subtype: Option<Text<'a>>,
        "uuid" uuid: Option<Text<'a>>,
        "parentUuid" parent: Option<Text<'a>>,
        "logicalParentUuid" logical_parent: Option<Text<'a>>,
        "sessionId" session_id: Option<Text<'a>>,
        "timestamp" timestamp: Option<Lenient<Text<'a>>>,
        "cwd" cwd: Option<Text<'a>>,
        "version" version: Option<Text<'a>>,
        "gitBranch" branch: Option<Text<'a>>,
        "slug" slug: Option<Text<'a>>,
        "model" model: Option<Text<'a>>,
        "requestId" request_id: Option<Text<'a>>,
        "message" message: Option<Body<'a>>,
        "isSidechain" is_sidechain: Option<bool>,
        "isMeta" is_meta: Option<bool>,
        "isCompactSummary" is_compact_summary: Option<bool>,
        "isVisibleInTranscriptOnly" is_transcript_only: Option<bool>,
        "isApiErrorMessage" is_api_error: Option<bool>,
        "costUSD" cost_usd: Option<Lenient<f64>>,
        "toolUseResult" tool_use_result: Option<&'a RawValue>,
        "promptSource" prompt_source: Option<Lenient<Text<'a>>>,
        "origin" origin: Option<Lenient<From<'a>>>,
        "content" content: Option<Lenient<Content<'a>>>,
        "operation" operation: Option<Text<'a>>,
        "attachment" attachment: Option<&'a RawValue>,
        "snapshot" snapshot: Option<&'a RawValue>,
        "summary" summary: Option<Text<'a>>,
        "leafUuid" leaf: Option<Text<'a>>,
        "customTitle" custom_title: Option<Text<'a>>,
        "aiTitle" ai_title: Option<Text<'a>>,
        "agentName" agent_name: Option<Text<'a>>,
        "agentId" agent_id: Option<Text<'a>>,
        "prUrl" pr_url: Option<Text<'a>>,
        "inputTokens" input_tokens: Option<u64>,
        "outputTokens" output_tokens: Option<u64>,
        "cacheCreationInputTokens" cache_creation_tokens: Option<u64>,
        "cacheReadInputTokens" cache_read_tokens: Option<u64>,
    }
}

lossless! {
    /// The API's message inside a record.
    struct Body<'a> {
        "id" id: Option<Text<'a>>,
        "role" role: Option<Text<'a>>,
        "type" kind: Option<Text<'a>>,
        "model" model: Option<Text<'a>>,
        "content" content: Option<Content<'a>>,
        "stop_reason" stop_reason: Option<Text<'a>>,
        "stopReason" stop_reason_camel: Option<Text<'a>>,
        "usage" usage: Option<Counts<'a>>,
    }
}

impl<'a> Body<'a> {
    /// Makes a message of a value that is not one: what was said is in it.
    pub(super) fn of(odd: &'a RawValue) -> Option<Self> {
        let content = Content::from_odd_value(odd, &mut true)?;
        Some(Self { content: Some(content), ..Self::default() })
    }
}

lossless! {
    /// The API's usage.
    struct Counts<'a> {
        "input_tokens" input: Option<u64>,
        "output_tokens" output: Option<u64>,
        "cache_read_input_tokens" cache_read: Option<u64>,
        "cache_creation_input_tokens" cache_creation: Option<u64>,
        "cache_creation" by_life: Option<Lenient<Lives>>,
        "output_tokens_details" details: Option<Lenient<Details>>,
        "speed" speed: Option<Lenient<Text<'a>>>,
    }
}

lenient! {
    struct Lives {
        "ephemeral_1h_input_tokens" ephemeral_1h_input_tokens: Option<u64>,
    }
}

lenient! {
    struct Details {
        "thinking_tokens" thinking_tokens: Option<u64>,
    }
}

lenient! {
    /// Who put a prompt there, in versions that say.
    struct From<'a> {
        "kind" kind: Option<Text<'a>>,
    }
}

impl Line<'_> {
    /// Reads the tokens of an assistant record, from the API's usage or from the older fields.
    pub(super) fn usage(&self) -> Option<Usage> {
        let body = self.message.as_ref();
        let mut usage = match body.and_then(|body| body.usage.as_ref()) {
            Some(counts) => counts.usage(),
            None => self.old_usage()?,
        };
        let cost = self.cost_usd.as_ref().and_then(|cost| cost.0).filter(|cost| *cost >= 0.0);
        usage.cost_micros = cost.map(|cost| (cost * 1e6).round() as u64);
        let id = body.and_then(|body| said(body.id.as_ref()));
        usage.identity = match (id, said(self.request_id.as_ref())) {
            (Some(id), Some(request)) => Some(format!("{id} {request}")),
            (Some(id), None) => Some(id.to_owned()),
            (None, _) => said(self.uuid.as_ref()).map(str::to_owned),
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

/// A text that is there and says something.
pub(super) fn said<'t>(text: Option<&'t Text<'_>>) -> Option<&'t str> {
    text.map(Text::as_str).filter(|text| !text.is_empty())
}

impl Counts<'_> {
    fn usage(&self) -> Usage {
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
        let speed = said(self.speed.as_ref().and_then(|speed| speed.0.as_ref()));
        let speed = speed.filter(|speed| *speed != "standard").map(str::to_owned);
        Usage { tokens, cache_creation_1h, speed, ..Usage::default() }
    }
}
