//! Converts messages in the shape of OpenAI's chat API, which several agents store as they send
//! them: contents of typed parts, and tool calls whose arguments are JSON in a string.

use serde_json::value::RawValue;

use super::json::{self, BorrowedText, lenient};
use crate::model::{Block, Image, Json};

lenient! {
    /// One part of a content.
    struct OpenAiPart<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "image_url" image: Option<&'a RawValue>,
    }
}

lenient! {
    struct OpenAiImage<'a> {
        "url" url: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct OpenAiToolCall<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "function" function: Option<OpenAiFunction<'a>>,
    }
}

lenient! {
    struct OpenAiFunction<'a> {
        "name" name: Option<BorrowedText<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
    }
}

/// Converts a content, a text or a list of parts, into blocks.
pub fn chat_content_blocks(content: &RawValue) -> Vec<Block> {
    match json::array_elements(content) {
        Some(parts) => parts.into_iter().filter_map(chat_part_block).collect(),
        None if content.get() == "null" => Vec::new(),
        None => chat_part_block(content).into_iter().collect(),
    }
}

/// Converts a list of tool calls into blocks.
pub fn chat_tool_call_blocks(calls: &RawValue) -> Vec<Block> {
    match json::array_elements(calls) {
        Some(calls) => calls.into_iter().map(chat_tool_call_block).collect(),
        None if calls.get() == "null" => Vec::new(),
        None => vec![Block::Other(Json::from(calls))],
    }
}

/// Converts one part of a content. An empty text is no block.
fn chat_part_block(raw: &RawValue) -> Option<Block> {
    let text_block = |text: String| (!text.is_empty()).then_some(Block::Text(text));
    if let Ok(text) = serde_json::from_str::<BorrowedText<'_>>(raw.get()) {
        return text_block(text.into_owned());
    }
    let other = || Some(Block::Other(Json::from(raw)));
    let Some(part) = json::parse_json::<OpenAiPart<'_>>(raw.get()) else { return other() };
    match part.kind.as_ref().map_or("", BorrowedText::as_borrowed_str) {
        "text" | "input_text" | "output_text" if part.text.is_some() => {
            text_block(part.text.map(BorrowedText::into_owned).unwrap_or_default())
        }
        "image_url" | "input_image" => match part.image.and_then(image_url) {
            Some(url) => Some(Block::Image(image_of_url(url))),
            None => other(),
        },
        _ => other(),
    }
}

/// Returns the address of an image, which stands alone or in an object.
fn image_url(raw: &RawValue) -> Option<String> {
    if let Ok(url) = serde_json::from_str::<String>(raw.get()) {
        return Some(url);
    }
    Some(json::parse_json::<OpenAiImage<'_>>(raw.get())?.url?.into_owned())
}

/// Describes an image by its address, which may contain the image itself.
fn image_of_url(url: String) -> Image {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match data {
        Some((media_type, data)) => Image::from_base64(Some(media_type.to_owned()), data),
        None => Image { location: Some(url), ..Image::default() },
    }
}

fn chat_tool_call_block(raw: &RawValue) -> Block {
    let Some(call) = json::parse_json::<OpenAiToolCall<'_>>(raw.get()) else {
        return Block::Other(Json::from(raw));
    };
    let Some(function) = call.function else { return Block::Other(Json::from(raw)) };
    Block::ToolCall {
        id: call.id.map(BorrowedText::into_owned).unwrap_or_default(),
        name: function.name.map(BorrowedText::into_owned).unwrap_or_default(),
        input: function.arguments.map_or_else(|| Json::from_value(&()), chat_arguments),
    }
}

/// Returns the arguments of a call: the JSON in a string, or the value as recorded.
fn chat_arguments(raw: &RawValue) -> Json {
    let text = serde_json::from_str::<String>(raw.get()).ok();
    let inner = text.as_deref().and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
    Json::from(inner.unwrap_or(raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_and_calls_of_every_shape_are_read() {
        let raw = |text: &'static str| serde_json::from_str::<&RawValue>(text).unwrap();
        let text = |text: &str| Block::Text(text.to_owned());
        assert_eq!(chat_content_blocks(raw("\"plain\"")), [text("plain")]);
        assert_eq!(chat_content_blocks(raw("\"\"")), []);
        assert_eq!(chat_content_blocks(raw("null")), []);
        let parts =
            r#"[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x.png"}}]"#;
        let image = Image { location: Some("x.png".to_owned()), ..Image::default() };
        assert_eq!(chat_content_blocks(raw(parts)), [text("a"), Block::Image(image)]);
        let call = |arguments: &str| Block::ToolCall {
            id: "c".to_owned(),
            name: "read".to_owned(),
            input: Json::from_text(arguments.to_owned()).unwrap(),
        };
        let calls = r#"[{"id":"c","function":{"name":"read","arguments":"{\"path\": \"a\"}"}}]"#;
        assert_eq!(chat_tool_call_blocks(raw(calls)), [call("{\"path\": \"a\"}")]);
        let calls = r#"[{"id":"c","function":{"name":"read","arguments":"half {"}}]"#;
        assert_eq!(chat_tool_call_blocks(raw(calls)), [call("\"half {\"")]);
    }
}
