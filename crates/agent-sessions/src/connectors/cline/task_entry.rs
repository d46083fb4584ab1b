//! One entry of a task's panel, and the JSON texts inside it.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::connectors::formats::images::image_from_url;
use crate::connectors::formats::json::{self, BorrowedText, lenient, lossless};
use crate::model::{Extensions, Image, Json, Timestamp, Tokens, Usage};

/// Fields that hold state of the panel: positions in other files, snapshots of the directory, and
/// the progress of what is shown.
const OMITTED: &[&str] = &[
    "checkpoint",
    "commandCompleted",
    "conversationHistoryDeletedRange",
    "conversationHistoryIndex",
    "isAnswered",
    "isCheckpointCheckedOut",
    "isOperationOutsideWorkspace",
    "isProtected",
    "lastCheckpointHash",
    "progressStatus",
];

lossless! {
    /// One entry of the panel: a statement (`say`) or a question to the person (`ask`).
    struct TaskEntry<'a> {
        "ts" millis: Option<u64>,
        "type" kind: Option<BorrowedText<'a>>,
        "say" say: Option<BorrowedText<'a>>,
        "ask" ask: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "reasoning" reasoning: Option<BorrowedText<'a>>,
        "images" images: Option<Vec<BorrowedText<'a>>>,
        "files" files: Option<Vec<BorrowedText<'a>>>,
        "partial" is_partial: Option<bool>,
        "modelInfo" model: Option<TaskModel<'a>>,
        "contextCondense" condensed: Option<CondensedContext<'a>>,
    }
}

lenient! {
    /// The model that a request was sent to.
    struct TaskModel<'a> {
        "providerId" provider: Option<BorrowedText<'a>>,
        "modelId" model: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// The summary that replaced the conversation so far.
    struct CondensedContext<'a> {
        "summary" summary: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// A request to the model. Its tokens are added when it ends.
    struct TaskRequest<'a> {
        "request" text: Option<BorrowedText<'a>>,
        "apiProtocol" protocol: Option<BorrowedText<'a>>,
        "tokensIn" tokens_in: Option<u64>,
        "tokensOut" tokens_out: Option<u64>,
        "cacheWrites" cache_writes: Option<u64>,
        "cacheReads" cache_reads: Option<u64>,
        "cost" cost: Option<f64>,
        "cancelReason" cancel_reason: Option<BorrowedText<'a>>,
        "streamingFailedMessage" failure: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The use of a tool of an MCP server.
    struct ServerToolUse<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "serverName" server: Option<BorrowedText<'a>>,
        "toolName" tool: Option<BorrowedText<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
        "uri" uri: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// A text of the model with suggested answers.
    struct PlannedReply<'a> {
        "response" response: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The outcome of an action in the browser.
    struct BrowserOutcome<'a> {
        "screenshot" screenshot: Option<BorrowedText<'a>>,
        "logs" logs: Option<BorrowedText<'a>>,
        "currentUrl" url: Option<BorrowedText<'a>>,
    }
}

/// Providers whose count of input tokens includes those read from a cache.
const INCLUSIVE_PROVIDERS: &[&str] = &["openai", "litellm"];

impl TaskEntry<'_> {
    /// Returns the time of the entry.
    pub(super) fn entry_time(&self) -> Option<Timestamp> {
        Timestamp::from_millis(i64::try_from(self.millis?).ok()?)
    }

    /// Returns the kind of the entry: `say` or `ask`, and the subject.
    pub(super) fn subject(&self) -> (&str, &str) {
        let kind = self.kind.as_ref().map_or("", BorrowedText::as_borrowed_str);
        let say = self.say.as_ref().map_or("", BorrowedText::as_borrowed_str);
        let ask = self.ask.as_ref().map_or("", BorrowedText::as_borrowed_str);
        if kind == "ask" { (kind, ask) } else { (kind, say) }
    }

    /// Returns the text of the entry; empty if there is none.
    pub(super) fn entry_text(&self) -> &str {
        self.text.as_ref().map_or("", BorrowedText::as_borrowed_str)
    }

    /// Returns the images of the entry, which are data URLs or locations.
    pub(super) fn take_images(&mut self) -> Vec<Image> {
        let images = self.images.take().unwrap_or_default().into_iter();
        images.map(|image| image_from_url(image.as_borrowed_str())).collect()
    }

    /// Keeps the fields that have no field in the model.
    pub(super) fn keep_unmodeled_fields(&mut self, extensions: &mut Extensions) {
        let mut rest = std::mem::take(&mut self.rest);
        rest.retain(|(key, _)| !OMITTED.contains(&&**key));
        json::keep_non_empty_fields(rest, extensions);
    }
}

impl TaskRequest<'_> {
    /// Returns whether the tokens of the request are known.
    pub(super) fn has_tokens(&self) -> bool {
        self.tokens_in.is_some() || self.tokens_out.is_some()
    }

    /// Converts the tokens of the request. `provider` is the one that the request was sent to.
    pub(super) fn usage(&self, identity: String, provider: Option<&str>) -> Option<Usage> {
        let count = |count: Option<u64>| count.unwrap_or(0);
        let cached = count(self.cache_reads).saturating_add(count(self.cache_writes));
        let input = count(self.tokens_in);
        let input = if self.is_input_inclusive(cached, provider) {
            input.saturating_sub(cached)
        } else {
            input
        };
        let tokens = Tokens {
            input,
            output: count(self.tokens_out),
            cache_read: count(self.cache_reads),
            cache_creation: count(self.cache_writes),
            reasoning: None,
        };
        // A cost of zero is that of a model without known prices.
        let cost = self.cost.filter(|dollars| *dollars > 0.0);
        let cost_micros = cost.map(|dollars| (dollars * 1e6).round() as u64);
        tokens.is_known().then(|| {
            Usage { identity: Some(identity), tokens, cost_micros, ..Usage::default() }
                .within_reason()
        })
    }

    /// Returns whether the input tokens include those read from and written to a cache. Roo Code
    /// records the protocol of the request: with `openai` they always do; with `anthropic` they do
    /// since 2025-09, and are then never fewer than the cached ones. Cline leaves the cached ones
    /// out, except for two providers.
    fn is_input_inclusive(&self, cached: u64, provider: Option<&str>) -> bool {
        match self.protocol.as_ref().map(BorrowedText::as_borrowed_str) {
            Some("openai") => true,
            Some(_) => self.tokens_in.unwrap_or(0) >= cached,
            None => provider.is_some_and(|provider| INCLUSIVE_PROVIDERS.contains(&provider)),
        }
    }
}

/// Writes fields as an object.
pub(super) fn object_from_fields(fields: &[(Cow<'_, str>, &RawValue)]) -> Json {
    let fields = fields.iter().map(|(key, value)| {
        let key = serde_json::to_string(key).unwrap_or_default();
        format!("{key}:{}", value.get())
    });
    let text = format!("{{{}}}", fields.collect::<Vec<_>>().join(","));
    Json::from_text(text).unwrap_or_else(|| Json::from_value(&()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_are_taken_out_where_they_are_included() {
        let check = |request: &str, provider: Option<&str>, expected: u64| {
            let request: TaskRequest<'_> = serde_json::from_str(request).unwrap();
            let usage = request.usage(String::new(), provider).unwrap();
            assert_eq!(usage.tokens.input, expected, "{provider:?}");
        };
        let plain = r#"{"tokensIn":1000,"tokensOut":5,"cacheReads":400,"cacheWrites":100}"#;
        check(plain, None, 1000);
        check(plain, Some("anthropic"), 1000);
        check(plain, Some("openai"), 500);
        let with =
            |protocol: &str| plain.replace('{', &format!("{{\"apiProtocol\":\"{protocol}\","));
        check(&with("openai"), None, 500);
        check(&with("anthropic"), None, 500);
        let apart = r#"{"apiProtocol":"anthropic","tokensIn":7,"tokensOut":5,"cacheReads":400}"#;
        check(apart, None, 7);
    }
}
