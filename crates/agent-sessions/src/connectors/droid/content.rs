//! The content of a message: a text, or a list of blocks in the shape of the Anthropic API.

use serde_json::value::RawValue;

use super::line::{DroidBlock, DroidMedia, owned_if_present};
use crate::connectors::formats::json::{self, BorrowedText};
use crate::model::{Block, Image, Json};

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

/// Returns whether blocks consist of the results of tools.
pub(super) fn are_tool_results(blocks: &[Block]) -> bool {
    blocks.iter().any(|block| matches!(block, Block::ToolResult { .. }))
        && !blocks.iter().any(|block| matches!(block, Block::Text(_)))
}

fn push_block(raw: &RawValue, blocks: &mut Vec<Block>) {
    if let Ok(text) = serde_json::from_str::<BorrowedText<'_>>(raw.get()) {
        return blocks.extend(owned_if_present(Some(text)).map(Block::Text));
    }
    let Some(block) = json::parse_json::<DroidBlock<'_>>(raw.get()) else {
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
        "redacted_thinking" => {}
        "tool_use" => blocks.push(Block::ToolCall {
            id: block.id.map(BorrowedText::into_owned).unwrap_or_default(),
            name: block.name.map(BorrowedText::into_owned).unwrap_or_default(),
            input: json::parse_call_arguments(block.input),
        }),
        "tool_result" => push_tool_result(block, blocks),
        "image" | "document" => match block.source.and_then(|media| media_block(kind, media)) {
            Some(media) => blocks.push(media),
            None => blocks.push(Block::Other(Json::from(raw))),
        },
        _ => blocks.push(Block::Other(Json::from(raw))),
    }
}

fn push_tool_result(block: DroidBlock<'_>, blocks: &mut Vec<Block>) {
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    for part in block.content.map(content_blocks).unwrap_or_default() {
        match part {
            Block::Text(text) => texts.push(text),
            other => others.push(other),
        }
    }
    blocks.push(Block::ToolResult {
        call_id: block.tool_use_id.map(BorrowedText::into_owned).unwrap_or_default(),
        output: texts.join("\n"),
        is_error: block.is_error,
    });
    blocks.append(&mut others);
}

/// Converts an image or the text of a document.
fn media_block(kind: &str, media: DroidMedia<'_>) -> Option<Block> {
    if kind == "image" {
        let data = owned_if_present(media.data)?;
        return Some(Block::Image(Image::from_base64(owned_if_present(media.media_type), &data)));
    }
    let is_text = media.kind.is_some_and(|kind| kind.as_borrowed_str() == "text");
    let text = owned_if_present(media.parsed);
    text.or_else(|| owned_if_present(media.data).filter(|_| is_text)).map(Block::Text)
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
        check(r#"[{"type":"redacted_thinking","data":"x"},"a"]"#, &[text("a")]);
        let document =
            r#"[{"type":"document","source":{"type":"base64","data":"","parsed_data":"p"}}]"#;
        check(document, &[text("p")]);
        let result =
            Block::ToolResult { call_id: "c".into(), output: "a\nb".into(), is_error: None };
        let raw = r#"[{"type":"tool_result","tool_use_id":"c","content":["a",{"type":"text","text":"b"}]}]"#;
        check(raw, std::slice::from_ref(&result));
        assert!(
            are_tool_results(std::slice::from_ref(&result))
                && !are_tool_results(&[result, text("x")])
        );
    }
}
