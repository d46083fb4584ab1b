//! The lines of a file: records of Kimi Code, events of Kimi CLI, and messages as the model gets
//! them.

use serde_json::value::RawValue;

use crate::connectors::formats::json::{self, BorrowedText, lenient, lossless};
use crate::model::{Timestamp, Tokens, Usage};

lenient! {
    /// One line. Kimi Code writes the fields of a record beside its `type`, Kimi CLI an event as
    /// `message`; a line with a `role` is itself a message.
    struct KimiLine<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "role" role: Option<BorrowedText<'a>>,
        "time" millis: Option<u64>,
        "timestamp" seconds: Option<f64>,
        "created_at" created_millis: Option<u64>,
        "message" message: Option<&'a RawValue>,
        "event" event: Option<&'a RawValue>,
        "model" model: Option<BorrowedText<'a>>,
        "modelAlias" model_alias: Option<BorrowedText<'a>>,
        "usage" usage: Option<KimiTokens>,
        "summary" summary: Option<&'a RawValue>,
        "contextSummary" context_summary: Option<BorrowedText<'a>>,
        "error" error: Option<KimiError<'a>>,
    }
}

lenient! {
    /// The reason for which a turn failed.
    struct KimiError<'a> {
        "message" message: Option<BorrowedText<'a>>,
        "code" code: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// An event of Kimi CLI.
    struct KimiEvent<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "payload" payload: Option<&'a RawValue>,
    }
}

lenient! {
    /// The fields of all events of Kimi CLI that are used.
    struct KimiEventPayload<'a> {
        "user_input" user_input: Option<&'a RawValue>,
        "arguments_part" arguments_part: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "function" function: Option<KimiFunction<'a>>,
        "tool_call_id" tool_call_id: Option<BorrowedText<'a>>,
        "return_value" return_value: Option<KimiReturnValue<'a>>,
        "token_usage" usage: Option<KimiTokens>,
        "message_id" message_id: Option<BorrowedText<'a>>,
        "parent_tool_call_id" parent_call: Option<BorrowedText<'a>>,
        "task_tool_call_id" task_call: Option<BorrowedText<'a>>,
        "agent_id" agent: Option<BorrowedText<'a>>,
        "event" event: Option<&'a RawValue>,
        "question" question: Option<BorrowedText<'a>>,
        "response" response: Option<BorrowedText<'a>>,
        "error" error: Option<BorrowedText<'a>>,
        "title" title: Option<BorrowedText<'a>>,
        "body" body: Option<BorrowedText<'a>>,
        "content" content: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The name and the arguments of a call.
    struct KimiFunction<'a> {
        "name" name: Option<BorrowedText<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
    }
}

lenient! {
    /// The result of a tool in Kimi CLI.
    struct KimiReturnValue<'a> {
        "is_error" is_error: Option<bool>,
        "output" output: Option<&'a RawValue>,
        "message" message: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// A part of a step in Kimi Code.
    struct KimiLoopEvent<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "uuid" uuid: Option<BorrowedText<'a>>,
        "stepUuid" step: Option<BorrowedText<'a>>,
        "part" part: Option<&'a RawValue>,
        "toolCallId" tool_call_id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "args" arguments: Option<&'a RawValue>,
        "result" result: Option<KimiToolResult<'a>>,
        "usage" usage: Option<KimiTokens>,
        "finishReason" finish_reason: Option<BorrowedText<'a>>,
        "messageId" message_id: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The result of a tool in Kimi Code.
    struct KimiToolResult<'a> {
        "output" output: Option<&'a RawValue>,
        "isError" is_error: Option<bool>,
        "note" note: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// A message as the model gets it.
    struct KimiMessage<'a> {
        "role" role: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "toolCalls" tool_calls: Option<Vec<KimiCall<'a>>>,
        "tool_calls" cli_tool_calls: Option<Vec<KimiCall<'a>>>,
        "toolCallId" tool_call_id: Option<BorrowedText<'a>>,
        "tool_call_id" cli_tool_call_id: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "origin" origin: Option<KimiOrigin<'a>>,
        "isError" is_error: Option<bool>,
    }
}

lenient! {
    /// A call in a message. Its name and arguments are fields of the call or of `function`.
    struct KimiCall<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
        "function" function: Option<KimiFunction<'a>>,
    }
}

lenient! {
    /// The author of a message with the role of the user.
    struct KimiOrigin<'a> {
        "kind" kind: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "variant" variant: Option<BorrowedText<'a>>,
        "phase" phase: Option<BorrowedText<'a>>,
        "trigger" trigger: Option<BorrowedText<'a>>,
        "skillName" skill_name: Option<BorrowedText<'a>>,
        "skillArgs" skill_arguments: Option<BorrowedText<'a>>,
        "skillActivations" skills: Option<Vec<&'a RawValue>>,
        "pluginId" plugin: Option<BorrowedText<'a>>,
        "commandName" command_name: Option<BorrowedText<'a>>,
        "commandArgs" command_arguments: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// Tokens of a model call, under the names of both programs. The classes do not overlap.
    struct KimiTokens {
        "inputOther" input: Option<u64>,
        "output" output: Option<u64>,
        "inputCacheRead" cache_read: Option<u64>,
        "inputCacheCreation" cache_creation: Option<u64>,
        "input_other" cli_input: Option<u64>,
        "input_cache_read" cli_cache_read: Option<u64>,
        "input_cache_creation" cli_cache_creation: Option<u64>,
    }
}

impl KimiLine<'_> {
    /// Returns the time at which the line was written.
    pub(super) fn line_time(&self) -> Option<Timestamp> {
        let seconds = self.seconds.map(|seconds| (seconds * 1e3).floor() as i64);
        let millis = self.millis.or(self.created_millis).and_then(|time| i64::try_from(time).ok());
        Timestamp::from_millis(millis.or(seconds)?)
    }
}

impl KimiTokens {
    /// Converts the tokens of a call. A call without tokens failed before the model answered.
    pub(super) fn into_usage(self, identity: Option<String>) -> Option<Usage> {
        let tokens = Tokens {
            input: self.input.or(self.cli_input).unwrap_or(0),
            output: self.output.unwrap_or(0),
            cache_read: self.cache_read.or(self.cli_cache_read).unwrap_or(0),
            cache_creation: self.cache_creation.or(self.cli_cache_creation).unwrap_or(0),
            reasoning: None,
        };
        tokens.is_known().then(|| Usage { identity, tokens, ..Usage::default() })
    }
}

/// Returns a text; an empty one counts as absent.
pub(super) fn owned_if_present(text: Option<BorrowedText<'_>>) -> Option<String> {
    text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
}

/// Returns a text slice; an absent text is empty.
pub(super) fn text_or_empty<'t>(text: Option<&'t BorrowedText<'_>>) -> &'t str {
    text.map_or("", BorrowedText::as_borrowed_str)
}

/// Parses a line of either program.
pub(super) fn parse_line(bytes: &[u8]) -> Option<KimiLine<'_>> {
    serde_json::from_slice(bytes).ok().or_else(|| json::parse_odd(bytes))
}
