//! One line of a log of events `messages.jsonl`.

use serde_json::value::RawValue;

use super::lines::{ConvertedLine, KiroLinesState, text_and_others};
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Block, Image, Json, Message, Origin, Role, Timestamp};

lenient! {
    struct EventLine<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "timestamp" time: Option<BorrowedText<'a>>,
        "payload" payload: Option<EventPayload<'a>>,
    }
}

lenient! {
    /// An event. Its type decides the meaning of its fields.
    struct EventPayload<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "images" images: Option<Vec<EventImage<'a>>>,
        "operationType" operation: Option<BorrowedText<'a>>,
        "reasoningModelId" reasoning_model: Option<BorrowedText<'a>>,
        "toolCallId" call_id: Option<BorrowedText<'a>>,
        "toolName" tool: Option<BorrowedText<'a>>,
        "args" arguments: Option<&'a RawValue>,
        "success" is_success: Option<bool>,
        "forcedRole" is_system_prompt: Option<bool>,
    }
}

lenient! {
    struct EventImage<'a> {
        "data" data: Option<BorrowedText<'a>>,
    }
}

/// Events that hold state of the program, not conversation.
const STATE: &[&str] = &[
    "interaction_resolved",
    "pending_interaction",
    "session_event",
    "session_metadata",
    "tombstone",
    "turn_end",
    "turn_start",
    "usage_summary",
];

/// The text that stands for encrypted reasoning.
const HIDDEN: &str = "...";

/// Converts a line.
pub(super) fn convert_line(bytes: &[u8], state: &mut KiroLinesState) -> ConvertedLine {
    let parsed = serde_json::from_slice(bytes).ok().or_else(|| json::parse_odd(bytes));
    let Some(EventLine { id, time, payload }) = parsed else { return ConvertedLine::Unreadable };
    let Some(payload) = payload else { return ConvertedLine::Unknown };
    let kind = payload.kind.as_ref().map_or("", BorrowedText::as_borrowed_str).to_owned();
    let mut message = Message {
        uuid: id.map(BorrowedText::into_owned),
        at: time.and_then(|time| Timestamp::parse_iso_time(time.as_borrowed_str())),
        ..Message::default()
    };
    match kind.as_str() {
        // The beginning of a session has the system prompt, or, in other versions, the first
        // prompt.
        "session_start" if payload.is_system_prompt == Some(true) || state.has_prompt => {
            return ConvertedLine::PassedOver("system prompt".to_owned());
        }
        "user" | "session_start" => {
            (message.role, message.origin) = (Role::User, Origin::Human);
            state.has_prompt = true;
            fill_prompt(payload, &mut message.blocks);
        }
        "assistant" => {
            (message.role, message.origin) = (Role::Assistant, Origin::Assistant);
            fill_reply(payload, &mut message);
        }
        "tool_call" => {
            (message.role, message.origin) = (Role::Assistant, Origin::Assistant);
            message.blocks.push(Block::ToolCall {
                id: payload.call_id.map(BorrowedText::into_owned).unwrap_or_default(),
                name: payload.tool.map(BorrowedText::into_owned).unwrap_or_default(),
                input: payload.arguments.map_or_else(|| Json::from_value(&()), Json::from),
            });
        }
        "tool_result" => {
            (message.role, message.origin) = (Role::Tool, Origin::Tool);
            fill_result(payload, &mut message.blocks);
        }
        state if STATE.contains(&state) => return ConvertedLine::PassedOver(kind),
        _ => return ConvertedLine::Unknown,
    }
    if message.blocks.is_empty() {
        return ConvertedLine::PassedOver("a message without content".to_owned());
    }
    ConvertedLine::Message(Box::new(message))
}

fn fill_prompt(payload: EventPayload<'_>, blocks: &mut Vec<Block>) {
    let (text, mut others) = payload.content.map(text_and_others).unwrap_or_default();
    blocks.extend(Some(text).filter(|text| !text.is_empty()).map(Block::Text));
    blocks.append(&mut others);
    for image in payload.images.into_iter().flatten() {
        let Some(data) = image.data.map(BorrowedText::into_owned) else { continue };
        let parts = data.strip_prefix("data:").and_then(|data| data.split_once(";base64,"));
        let (media_type, encoded) = parts.map_or((None, data.as_str()), |(media_type, encoded)| {
            (Some(media_type.to_owned()), encoded)
        });
        blocks.push(Block::Image(Image::from_base64(media_type, encoded)));
    }
}

fn fill_reply(payload: EventPayload<'_>, message: &mut Message) {
    let (text, mut others) = payload.content.map(text_and_others).unwrap_or_default();
    let operation = payload.operation.as_ref().map_or("", BorrowedText::as_borrowed_str);
    let is_reasoning = operation == "Reasoning";
    if is_reasoning {
        message.model = payload.reasoning_model.map(BorrowedText::into_owned);
    }
    let text = Some(text).filter(|text| !text.is_empty());
    if is_reasoning {
        let readable = text.filter(|text| text != HIDDEN);
        message.blocks.extend(readable.map(Block::Thinking));
    } else {
        message.blocks.extend(text.map(Block::Text));
    }
    message.blocks.append(&mut others);
}

fn fill_result(payload: EventPayload<'_>, blocks: &mut Vec<Block>) {
    let output = payload.content.map(|content| match serde_json::from_str(content.get()) {
        Ok(text) => text,
        Err(_) => Json::from(content).as_json_str().to_owned(),
    });
    let output: String = output.unwrap_or_default();
    let has_failed = exit_code_of_output(&output).is_some_and(|code| code != 0);
    blocks.push(Block::ToolResult {
        call_id: payload.call_id.map(BorrowedText::into_owned).unwrap_or_default(),
        output,
        is_error: payload.is_success.map(|is_success| !is_success || has_failed),
    });
}

/// Returns the exit code in the last line of a command's output. Such a call counts as successful.
fn exit_code_of_output(output: &str) -> Option<i64> {
    output.trim_end().lines().last()?.strip_prefix("Exit Code: ")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_in_the_last_line() {
        assert_eq!(exit_code_of_output("Output:\nx\n\nExit Code: 2\n"), Some(2));
        assert_eq!(exit_code_of_output("Exit Code: 2\nmore"), None);
        assert_eq!(exit_code_of_output(""), None);
    }
}
