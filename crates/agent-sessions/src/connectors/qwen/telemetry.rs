//! Telemetry in a transcript. Events of the session itself repeat the transcript; events of a
//! sub-agent may be its only record.

use serde_json::value::RawValue;

use crate::connectors::formats::json::{BorrowedText, lenient};
use crate::model::{Block, Json, Message, Origin, Role, Tokens, Usage};

lenient! {
    struct TelemetryPayload<'a> {
        "uiEvent" event: Option<TelemetryEvent<'a>>,
    }
}

lenient! {
    /// One event: a model call, a tool call or an error.
    struct TelemetryEvent<'a> {
        "event.name" name: Option<BorrowedText<'a>>,
        "prompt_id" prompt_id: Option<BorrowedText<'a>>,
        "response_id" response_id: Option<BorrowedText<'a>>,
        "model" model: Option<BorrowedText<'a>>,
        "input_token_count" input_token_count: Option<u64>,
        "output_token_count" output_token_count: Option<u64>,
        "cached_content_token_count" cached_content_token_count: Option<u64>,
        "thoughts_token_count" thoughts_token_count: Option<u64>,
        "function_name" function_name: Option<BorrowedText<'a>>,
        "function_args" function_args: Option<&'a RawValue>,
        "success" success: Option<bool>,
        "error" error: Option<BorrowedText<'a>>,
        "error_message" error_message: Option<BorrowedText<'a>>,
    }
}

impl TelemetryEvent<'_> {
    /// Returns the session and the sub-agent of an event, from `<session>#<agent>#<turn>`. The
    /// session's own events have an empty middle part.
    pub(super) fn session_and_agent(&self) -> Option<(&str, &str)> {
        let (before, _) = self.prompt_id.as_ref()?.as_borrowed_str().rsplit_once('#')?;
        before.rsplit_once('#').filter(|(_, agent)| !agent.is_empty())
    }

    /// Converts an event into messages, in place of the unrecorded ones.
    pub(super) fn into_telemetry_messages(self, envelope: Message) -> Vec<Message> {
        let kind = self
            .name
            .as_ref()
            .map_or("", BorrowedText::as_borrowed_str)
            .rsplit('.')
            .next()
            .unwrap_or_default();
        let mut message = Message {
            role: Role::Assistant,
            origin: Origin::Assistant,
            api_id: owned_if_present(self.response_id.as_ref()),
            model: owned_if_present(self.model.as_ref()),
            ..envelope
        };
        match kind {
            "api_response" => {
                let identity = message.api_id.clone().or_else(|| message.uuid.clone());
                let input = self.input_token_count.unwrap_or(0);
                let cached = self.cached_content_token_count.unwrap_or(0);
                let tokens = Tokens {
                    input: input.saturating_sub(cached),
                    output: self.output_token_count.unwrap_or(0),
                    cache_read: cached.min(input),
                    cache_creation: 0,
                    reasoning: Some(self.thoughts_token_count.unwrap_or(0)),
                };
                // The sub-agent's transcript may exist in another folder.
                let since = message.at;
                message.usage = Some(Usage { identity, tokens, since, ..Usage::default() });
                vec![message]
            }
            "tool_call" => self.into_tool_call_messages(message),
            _ => {
                message.role = Role::System;
                message.origin = Origin::System;
                message.failed = true;
                message
                    .blocks
                    .extend(owned_if_present(self.error_message.as_ref()).map(Block::Text));
                vec![message]
            }
        }
    }

    /// Converts a tool call into a call message and a result message with its error, if any.
    fn into_tool_call_messages(self, mut message: Message) -> Vec<Message> {
        let id = message.uuid.clone().unwrap_or_default();
        let result = Message {
            role: Role::Tool,
            origin: Origin::Tool,
            at: message.at,
            parent: message.uuid.clone(),
            blocks: vec![Block::ToolResult {
                call_id: id.clone(),
                output: owned_if_present(self.error.as_ref()).unwrap_or_default(),
                is_error: self.success.map(|success| !success),
            }],
            ..Message::default()
        };
        message.blocks.push(Block::ToolCall {
            id,
            name: owned_if_present(self.function_name.as_ref()).unwrap_or_default(),
            input: self.function_args.map_or_else(|| Json::from_value(&()), Json::from),
        });
        vec![message, result]
    }
}

fn owned_if_present(text: Option<&BorrowedText<'_>>) -> Option<String> {
    text.map(|text| text.as_borrowed_str().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_prompt_ids_with_a_name_in_the_middle_belong_to_a_sub_agent() {
        let check = |prompt: &str, expected: Option<(&str, &str)>| {
            let event = format!(r#"{{"event.name":"x.tool_call","prompt_id":"{prompt}"}}"#);
            let event: TelemetryEvent<'_> = serde_json::from_str(&event).unwrap();
            assert_eq!(event.session_and_agent(), expected, "{prompt}");
        };
        check("1a2b########0", None);
        check("1a2b#Explore-x1y2z3#12", Some(("1a2b", "Explore-x1y2z3")));
        check("prompt_suggestion", None);
        check("1a2b#0", None);
    }
}
