//! Messages of the versions before 0.3: segments of text and reasoning, tool calls and results.

use serde_json::value::RawValue;

use super::content::{push_tool_result, text_value, tool_input};
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Block, Json, Message, Origin, Role};

lenient! {
    /// A message. The first versions have `text`, later ones `segments`.
    struct ZedLegacyMessage<'a> {
        "id" id: Option<u64>,
        "role" role: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "segments" segments: Option<Vec<&'a RawValue>>,
        "tool_uses" calls: Option<Vec<ZedLegacyCall<'a>>>,
        "tool_results" results: Option<Vec<&'a RawValue>>,
        "context" context: Option<BorrowedText<'a>>,
        "is_hidden" is_hidden: Option<bool>,
    }
}

lenient! {
    struct ZedLegacySegment<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct ZedLegacyCall<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "input" input: Option<&'a RawValue>,
    }
}

/// Returns the text of a summary: `{"Generated":{"text":"…"}}`.
pub(super) fn summary_text(state: &RawValue) -> Option<String> {
    let (_, generated) = super::content::tagged_value(state)?;
    let fields = json::object_fields(generated)?;
    fields.into_iter().find(|(key, _)| key == "text").and_then(|(_, text)| text_value(text))
}

/// Converts a message: attached context, the message itself, and the results of its tools.
pub(super) fn convert_message(raw: &RawValue) -> Option<Vec<Message>> {
    let parsed = json::parse_json::<ZedLegacyMessage<'_>>(raw.get())?;
    let (role, origin) = match parsed.role.as_ref()?.as_borrowed_str() {
        // The first versions sent results with a text of the program.
        "user"
            if parsed.is_hidden == Some(true)
                || parsed.results.as_ref().is_some_and(|results| !results.is_empty()) =>
        {
            (Role::User, Origin::Injected)
        }
        "user" => (Role::User, Origin::Human),
        "assistant" => (Role::Assistant, Origin::Assistant),
        "system" => (Role::System, Origin::System),
        _ => return None,
    };
    let owned = |text: Option<BorrowedText<'_>>| {
        text.map(BorrowedText::into_owned).filter(|text| !text.is_empty()).map(Block::Text)
    };
    let mut context = Message { role: Role::User, origin: Origin::Injected, ..Message::default() };
    context.blocks.extend(owned(parsed.context));
    let mut message = Message { role, origin, ..Message::default() };
    message.uuid = parsed.id.map(|id| id.to_string());
    message.blocks.extend(owned(parsed.text));
    message.blocks.extend(parsed.segments.into_iter().flatten().filter_map(segment_block));
    message.blocks.extend(parsed.calls.into_iter().flatten().map(|call| Block::ToolCall {
        id: call.id.map(BorrowedText::into_owned).unwrap_or_default(),
        name: call.name.map(BorrowedText::into_owned).unwrap_or_default(),
        input: tool_input(call.input),
    }));
    let mut results = Message { role: Role::Tool, origin: Origin::Tool, ..Message::default() };
    for result in parsed.results.into_iter().flatten() {
        push_tool_result(result, None, &mut results.blocks);
    }
    let all = if role == Role::Assistant {
        [message, results, context]
    } else {
        [results, context, message]
    };
    Some(all.into_iter().filter(|message| !message.blocks.is_empty()).collect())
}

fn segment_block(raw: &RawValue) -> Option<Block> {
    let segment = json::parse_json::<ZedLegacySegment<'_>>(raw.get());
    let segment = segment.unwrap_or_default();
    let kind = segment.kind.as_ref().map_or("", BorrowedText::as_borrowed_str);
    let block = match (kind, segment.text) {
        // Encrypted reasoning is never kept.
        ("RedactedThinking", _) => return None,
        ("thinking", Some(text)) => Block::Thinking(text.into_owned()),
        ("text", Some(text)) => Block::Text(text.into_owned()),
        _ => Block::Other(Json::from(raw)),
    };
    let is_empty = matches!(&block, Block::Text(text) | Block::Thinking(text) if text.is_empty());
    (!is_empty).then_some(block)
}
