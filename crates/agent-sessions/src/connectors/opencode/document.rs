//! The recorded fields of sessions and messages, and their conversion to facts of the model.

use serde_json::value::RawValue;

use crate::connectors::formats::json::{BorrowedText, lenient, lossless, owned_if_present};
use crate::model::{Timestamp, Tokens, Usage};

/// The release that began to record output without reasoning, 1.3.17, in milliseconds since 1970.
const OUTPUT_WITHOUT_REASONING_MS: i64 = 1_775_461_158_000;

lossless! {
    /// A message: a prompt or the reply of one model call. Its parts are elsewhere, except in the
    /// first versions.
    struct OpenCodeMessage<'a> {
        "role" role: Option<BorrowedText<'a>>,
        "parentID" parent: Option<BorrowedText<'a>>,
        "time" time: Option<OpenCodeTime>,
        "modelID" model_id: Option<BorrowedText<'a>>,
        "providerID" provider: Option<BorrowedText<'a>>,
        "path" path: Option<OpenCodePath<'a>>,
        "cost" cost: Option<f64>,
        "tokens" tokens: Option<OpenCodeTokens>,
        "finish" finish: Option<BorrowedText<'a>>,
        "error" error: Option<OpenCodeError<'a>>,
        "summary" summary: Option<&'a RawValue>,
        "parts" parts: Option<Vec<&'a RawValue>>,
        "metadata" metadata: Option<OpenCodeFirstMetadata<'a>>,
    }
}

lenient! {
    /// Metadata of a message in the first versions.
    struct OpenCodeFirstMetadata<'a> {
        "time" time: Option<OpenCodeTime>,
        "error" error: Option<OpenCodeError<'a>>,
        "assistant" assistant: Option<OpenCodeFirstReply<'a>>,
        "tool" tools: Option<&'a RawValue>,
    }
}

lenient! {
    /// Metadata of a reply in the first versions.
    struct OpenCodeFirstReply<'a> {
        "modelID" model_id: Option<BorrowedText<'a>>,
        "providerID" provider: Option<BorrowedText<'a>>,
        "path" path: Option<OpenCodePath<'a>>,
        "cost" cost: Option<f64>,
        "tokens" tokens: Option<OpenCodeTokens>,
        "summary" is_summary: Option<bool>,
    }
}

lenient! {
    /// Times in milliseconds since 1970.
    struct OpenCodeTime {
        "created" created: Option<u64>,
        "updated" updated: Option<u64>,
        "completed" completed: Option<u64>,
        "start" start: Option<u64>,
        "end" end: Option<u64>,
    }
}

lenient! {
    /// The directories of a message.
    struct OpenCodePath<'a> {
        "cwd" cwd: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// An error of a model call.
    struct OpenCodeError<'a> {
        "name" name: Option<BorrowedText<'a>>,
        "type" kind: Option<BorrowedText<'a>>,
        "message" message: Option<BorrowedText<'a>>,
        "data" data: Option<OpenCodeErrorData<'a>>,
    }
}

lenient! {
    /// Details of an error.
    struct OpenCodeErrorData<'a> {
        "message" message: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// Tokens of a model call. `input` excludes the cache.
    struct OpenCodeTokens {
        "total" total: Option<u64>,
        "input" input: Option<u64>,
        "output" output: Option<u64>,
        "reasoning" reasoning: Option<u64>,
        "cache" cache: Option<OpenCodeCache>,
    }
}

lenient! {
    /// Tokens read from and written to a cache.
    struct OpenCodeCache {
        "read" read: Option<u64>,
        "write" write: Option<u64>,
    }
}

lenient! {
    /// The name of a model.
    struct OpenCodeModel<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "providerID" provider: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The place from which the conversation was taken back.
    struct OpenCodeRevert<'a> {
        "messageID" message: Option<BorrowedText<'a>>,
        "partID" part: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// The document of a session.
    struct OpenCodeSession<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "projectID" project: Option<BorrowedText<'a>>,
        "parentID" parent: Option<BorrowedText<'a>>,
        "directory" directory: Option<BorrowedText<'a>>,
        "title" title: Option<BorrowedText<'a>>,
        "slug" slug: Option<BorrowedText<'a>>,
        "version" version: Option<BorrowedText<'a>>,
        "time" time: Option<OpenCodeTime>,
        "revert" revert: Option<OpenCodeRevert<'a>>,
    }
}

/// Facts about a model call from which its usage follows.
pub(super) struct CallFacts<'a> {
    /// Start of the call in milliseconds since 1970.
    pub(super) created_ms: Option<i64>,
    /// Name of the provider.
    pub(super) provider: &'a str,
    /// Cost in dollars.
    pub(super) cost: Option<f64>,
}

impl OpenCodeTokens {
    /// Converts the tokens of a call. A call without tokens has no usage: it failed, or it still
    /// runs.
    pub(super) fn to_usage(&self, call: &CallFacts<'_>) -> Option<Usage> {
        let number = |number: Option<u64>| number.unwrap_or(0);
        let cache = self.cache.as_ref();
        let mut tokens = Tokens {
            input: number(self.input),
            output: number(self.output),
            cache_read: number(cache.and_then(|cache| cache.read)),
            cache_creation: number(cache.and_then(|cache| cache.write)),
            reasoning: self.reasoning,
        };
        let recorded = [tokens.input, tokens.output, tokens.cache_read, tokens.cache_creation];
        let reasoning = number(self.reasoning);
        if !self.output_includes_reasoning(recorded.into_iter().sum(), call) {
            tokens.output = tokens.output.saturating_add(reasoning);
        }
        // A fork copies messages under other ids, with their times and figures.
        let figures = recorded.into_iter().chain([reasoning]);
        let figures: Vec<String> = figures.map(|figure| figure.to_string()).collect();
        let identity = call.created_ms.map(|created| format!("{created} {}", figures.join(" ")));
        // A cost of zero is that of a model without known prices.
        let cost = call.cost.filter(|dollars| dollars.is_finite() && *dollars > 0.0);
        let cost_micros = cost.map(|dollars| (dollars * 1e6).round() as u64);
        tokens.is_known().then(|| Usage { identity, tokens, cost_micros, ..Usage::default() })
    }

    /// Returns whether the recorded output includes the reasoning. Versions before 1.3.17 include
    /// it, unless the provider counts both apart; the total, recorded since 1.1.57, shows which it
    /// is.
    fn output_includes_reasoning(&self, without_reasoning: u64, call: &CallFacts<'_>) -> bool {
        let reasoning = self.reasoning.unwrap_or(0);
        match self.total {
            Some(total) if total == without_reasoning => true,
            Some(total) if total == without_reasoning.saturating_add(reasoning) => false,
            _ => {
                let is_older =
                    call.created_ms.is_some_and(|created| created < OUTPUT_WITHOUT_REASONING_MS);
                is_older && !call.provider.starts_with("google")
            }
        }
    }
}

impl OpenCodeError<'_> {
    /// Returns the message of the error, or else its name.
    pub(super) fn error_text(self) -> Option<String> {
        let message = self.data.and_then(|data| data.message).or(self.message);
        owned_if_present(message).or_else(|| owned_if_present(self.name.or(self.kind)))
    }
}

/// Converts recorded milliseconds since 1970.
pub(super) fn millis_to_time(millis: u64) -> Option<Timestamp> {
    i64::try_from(millis).ok().and_then(Timestamp::from_millis)
}

/// Returns the title of a session, unless it is the one that every new session gets.
pub(super) fn given_title(title: &str) -> Option<&str> {
    let is_default = ["New session - ", "Child session - "].iter().any(|beginning| {
        title.strip_prefix(beginning).is_some_and(|rest| Timestamp::parse_iso_time(rest).is_some())
    });
    Some(title).filter(|title| !is_default && !title.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connectors::formats::json;

    fn output(tokens: &str, created_ms: i64, provider: &str) -> u64 {
        let tokens: OpenCodeTokens = json::parse_json(tokens).unwrap();
        let call = CallFacts { created_ms: Some(created_ms), provider, cost: None };
        tokens.to_usage(&call).unwrap().tokens.output
    }

    #[test]
    fn reasoning_is_added_to_the_output_that_excludes_it() {
        let (old, new) = (1_760_000_000_000, 1_790_000_000_000);
        let plain = r#"{"input":5,"output":40,"reasoning":30,"cache":{"read":7,"write":2}}"#;
        assert_eq!(output(plain, old, "openai"), 40);
        assert_eq!(output(plain, old, "google-vertex"), 70);
        assert_eq!(output(plain, new, "openai"), 70);
        let excluding = plain.replace("{\"input\"", "{\"total\":84,\"input\"");
        assert_eq!(output(&excluding, old, "openai"), 70);
        let including = plain.replace("{\"input\"", "{\"total\":54,\"input\"");
        assert_eq!(output(&including, new, "openai"), 40);
    }

    #[test]
    fn the_title_of_every_new_session_is_none() {
        assert_eq!(given_title("New session - 2026-10-01T08:00:00.000Z"), None);
        assert_eq!(given_title("New session - a plan"), Some("New session - a plan"));
        assert_eq!(given_title(" "), None);
    }
}
