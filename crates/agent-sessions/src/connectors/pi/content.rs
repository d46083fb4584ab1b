//! The content of a message: a text, or a list of blocks.

use serde_json::value::RawValue;

use super::line::owned_if_present;
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Block, Image, Json};

/// Beginning of the name of an image that was moved out of the session.
const STORED_IMAGE: &str = "blob:";

lenient! {
    /// One block of a message.
    struct PiBlock<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "thinking" thinking: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
        "data" data: Option<BorrowedText<'a>>,
        "mimeType" mime_type: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The calls that a tool made while it ran.
    struct NestedCalls<'a> {
        "calls" calls: Option<Vec<NestedCall<'a>>>,
    }
}

lenient! {
    struct NestedCall<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
        "status" status: Option<BorrowedText<'a>>,
        "error" error: Option<BorrowedText<'a>>,
    }
}

/// Converts a content into blocks.
pub(super) fn content_blocks(content: &RawValue) -> Vec<Block> {
    let mut blocks = Vec::new();
    match json::array_elements(content) {
        Some(parts) => parts.into_iter().for_each(|part| push_block(part, &mut blocks)),
        None if content.get() == "null" => {}
        None => push_block(content, &mut blocks),
    }
    blocks
}

/// Converts the content of a tool's result: its texts, joined by newlines, and the other blocks.
pub(super) fn result_text_and_blocks(content: &RawValue) -> (String, Vec<Block>) {
    let mut texts = Vec::new();
    let mut others = Vec::new();
    for block in content_blocks(content) {
        match block {
            Block::Text(text) => texts.push(text),
            other => others.push(other),
        }
    }
    (texts.join("\n"), others)
}

/// Appends the calls that a tool made while it ran, with their outcomes.
pub(super) fn push_nested_calls(raw: &RawValue, blocks: &mut Vec<Block>) {
    let Some(calls) = json::parse_json::<NestedCalls<'_>>(raw.get()).and_then(|all| all.calls)
    else {
        return blocks.push(Block::Other(Json::from(raw)));
    };
    for call in calls {
        let id = call.id.map(BorrowedText::into_owned).unwrap_or_default();
        let status = call.status.map(BorrowedText::into_owned).unwrap_or_default();
        blocks.push(Block::ToolCall {
            id: id.clone(),
            name: call.name.map(BorrowedText::into_owned).unwrap_or_default(),
            input: json_or_null(call.arguments),
        });
        let is_error = match status.as_str() {
            "ok" => Some(false),
            "error" => Some(true),
            // Unfinished.
            _ => None,
        };
        let output = call.error.map(BorrowedText::into_owned).unwrap_or_default();
        if is_error.is_some() || !output.is_empty() {
            blocks.push(Block::ToolResult { call_id: id, output, is_error });
        }
    }
}

fn push_block(raw: &RawValue, blocks: &mut Vec<Block>) {
    if let Ok(text) = serde_json::from_str::<BorrowedText<'_>>(raw.get()) {
        blocks.extend(owned_if_present(Some(text)).map(Block::Text));
        return;
    }
    let Some(block) = json::parse_json::<PiBlock<'_>>(raw.get()) else {
        return blocks.push(Block::Other(Json::from(raw)));
    };
    let kind = block.kind.as_ref().map_or("", BorrowedText::as_borrowed_str);
    match kind {
        "text" if block.text.is_some() => {
            blocks.extend(owned_if_present(block.text).map(Block::Text));
        }
        "thinking" if block.thinking.is_some() => {
            blocks.extend(owned_if_present(block.thinking).map(Block::Thinking));
        }
        // Encrypted reasoning is never kept.
        "redactedThinking" => {}
        "toolCall" => blocks.push(Block::ToolCall {
            id: block.id.map(BorrowedText::into_owned).unwrap_or_default(),
            name: block.name.map(BorrowedText::into_owned).unwrap_or_default(),
            input: json_or_null(block.arguments),
        }),
        "image" if block.data.is_some() => {
            let data = block.data.map(BorrowedText::into_owned).unwrap_or_default();
            let media_type = owned_if_present(block.mime_type);
            blocks.push(Block::Image(if data.starts_with(STORED_IMAGE) {
                Image { media_type, location: Some(data), ..Image::default() }
            } else {
                Image::from_base64(media_type, &data)
            }));
        }
        _ => blocks.push(Block::Other(Json::from(raw))),
    }
}

fn json_or_null(raw: Option<&RawValue>) -> Json {
    raw.map_or_else(|| Json::from_value(&()), Json::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_a_text_or_a_list_of_blocks() {
        let check = |content: &str, expected: &[Block]| {
            let raw: &RawValue = serde_json::from_str(content).unwrap();
            assert_eq!(content_blocks(raw), expected, "{content}");
        };
        let text = |text: &str| Block::Text(text.to_owned());
        check(r#""plain""#, &[text("plain")]);
        check(r#""""#, &[]);
        check("null", &[]);
        check(r#"["a",{"type":"text","text":"b"}]"#, &[text("a"), text("b")]);
        check(r#"[{"type":"redactedThinking","data":"x"}]"#, &[]);
        let stored = Image { location: Some("blob:sha256:00".into()), ..Image::default() };
        check(r#"[{"type":"image","data":"blob:sha256:00"}]"#, &[Block::Image(stored)]);
    }

    #[test]
    fn calls_of_a_tool_have_their_outcome_where_it_is_known() {
        let raw = r#"{"calls":[{"id":"c/1","name":"read","arguments":{"path":"a"},"status":"ok"},
            {"id":"c/2","name":"edit","status":"error","error":"no match"},
            {"id":"c/3","name":"bash","status":"unfinished"}],"complete":true}"#;
        let mut blocks = Vec::new();
        push_nested_calls(serde_json::from_str(raw).unwrap(), &mut blocks);
        let results: Vec<_> = blocks
            .iter()
            .filter_map(|block| match block {
                Block::ToolResult { call_id, is_error, .. } => Some((call_id.as_str(), *is_error)),
                _ => None,
            })
            .collect();
        assert_eq!(results, [("c/1", Some(false)), ("c/2", Some(true))]);
        assert_eq!(blocks.len(), 5);
    }
}
