//! Parts of messages that all versions of threads share.

use serde_json::value::RawValue;

use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Block, Image, Json};

/// The tool that runs commands.
const TERMINAL: &str = "terminal";

lenient! {
    /// The result of a tool call.
    struct ZedToolResult<'a> {
        "tool_use_id" call_id: Option<BorrowedText<'a>>,
        "tool_name" tool: Option<BorrowedText<'a>>,
        "is_error" is_error: Option<bool>,
        "content" content: Option<&'a RawValue>,
    }
}

lenient! {
    struct ZedImage<'a> {
        "source" source: Option<BorrowedText<'a>>,
    }
}

/// Returns the only field of an object that names the kind of its value.
pub(super) fn tagged_value(raw: &RawValue) -> Option<(String, &RawValue)> {
    let fields = json::object_fields(raw)?;
    let [(tag, value)] = fields.as_slice() else { return None };
    Some((tag.to_lowercase(), value))
}

/// Returns a value that is a text.
pub(super) fn text_value(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

/// Converts an image.
pub(super) fn image_block(raw: &RawValue) -> Option<Block> {
    let source = json::parse_json::<ZedImage<'_>>(raw.get())?.source?;
    Some(Block::Image(Image::from_base64(Some("image/png".to_owned()), source.as_borrowed_str())))
}

/// Returns the arguments of a call. Newer versions enclose them with their kind.
pub(super) fn tool_input(raw: Option<&RawValue>) -> Json {
    lenient! {
        struct EnclosedInput<'a> {
            "type" kind: Option<BorrowedText<'a>>,
            "value" value: Option<&'a RawValue>,
        }
    }
    let Some(raw) = raw else { return Json::from_value(&()) };
    let is_enclosed = json::object_fields(raw).is_some_and(|fields| fields.len() == 2);
    let enclosed = json::parse_json::<EnclosedInput<'_>>(raw.get()).filter(|_| is_enclosed);
    match enclosed {
        Some(EnclosedInput { kind: Some(kind), value: Some(value) })
            if matches!(kind.as_borrowed_str(), "json" | "text") =>
        {
            Json::from(value)
        }
        _ => Json::from(raw),
    }
}

/// Converts a result. `key` names its call where the result itself does not.
pub(super) fn push_tool_result(raw: &RawValue, key: Option<&str>, blocks: &mut Vec<Block>) {
    let Some(result) = json::parse_json::<ZedToolResult<'_>>(raw.get()) else {
        return blocks.push(Block::Other(Json::from(raw)));
    };
    let named = result.call_id.map(BorrowedText::into_owned).or_else(|| key.map(str::to_owned));
    let mut texts = Vec::new();
    let mut others = Vec::new();
    if let Some(content) = result.content {
        let parts = json::array_elements(content).unwrap_or_else(|| vec![content]);
        for part in parts {
            match result_part(part) {
                Block::Text(text) => texts.push(text),
                other => others.push(other),
            }
        }
    }
    let output = texts.join("\n");
    let is_command = result.tool.is_some_and(|tool| tool.as_borrowed_str() == TERMINAL);
    let is_error = result.is_error.map(|is_error| is_error || is_command && has_failed(&output));
    blocks.push(Block::ToolResult { call_id: named.unwrap_or_default(), output, is_error });
    blocks.append(&mut others);
}

/// Converts a part of a result: a text, an image, or either with its kind as the key.
fn result_part(raw: &RawValue) -> Block {
    lenient! {
        struct TypedText<'a> {
            "type" kind: Option<BorrowedText<'a>>,
            "text" text: Option<BorrowedText<'a>>,
        }
    }
    if let Some(text) = text_value(raw) {
        return Block::Text(text);
    }
    let known = match tagged_value(raw) {
        Some((tag, value)) if tag == "text" => text_value(value).map(Block::Text),
        Some((tag, value)) if tag == "image" => image_block(value),
        _ => match json::parse_json::<TypedText<'_>>(raw.get()) {
            Some(TypedText { kind: Some(_), text: Some(text) }) => {
                Some(Block::Text(text.into_owned()))
            }
            _ => image_block(raw),
        },
    };
    known.unwrap_or_else(|| Block::Other(Json::from(raw)))
}

/// Returns whether the output of a command says that the command failed. Such an output is no
/// error of the tool.
fn has_failed(output: &str) -> bool {
    let says = |what: &str| output.starts_with("Command \"") && output.contains(what);
    says("\" failed with exit code ")
        || says("\" timed out.")
        || output.starts_with("The user stopped this command")
        || output.starts_with("Command terminated unexpectedly")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn a_result_has_a_text_or_a_list_of_parts() {
        let check = |result: &str, output: &str, is_error: Option<bool>, count: usize| {
            let mut blocks = Vec::new();
            push_tool_result(&raw(result), Some("key"), &mut blocks);
            assert_eq!(blocks.len(), count, "{result}");
            let Block::ToolResult { output: found, is_error: failed, .. } = &blocks[0] else {
                panic!("{blocks:?}")
            };
            assert_eq!((found.as_str(), *failed), (output, is_error), "{result}");
        };
        check(r#"{"is_error":false,"content":"a"}"#, "a", Some(false), 1);
        check(r#"{"is_error":true,"content":{"Text":"a"}}"#, "a", Some(true), 1);
        check(r#"{"content":[{"type":"text","text":"a"},{"Text":"b"}]}"#, "a\nb", None, 1);
        check(r#"{"is_error":false,"content":[{"Image":{"source":"AA=="}}]}"#, "", Some(false), 2);
        let failed = r#"{"tool_name":"terminal","is_error":false,"content":"Command \"x\" failed with exit code 2."}"#;
        check(failed, "Command \"x\" failed with exit code 2.", Some(true), 1);
        check(
            &failed.replace("terminal", "fetch"),
            "Command \"x\" failed with exit code 2.",
            Some(false),
            1,
        );
    }

    #[test]
    fn arguments_may_be_enclosed() {
        let check = |input: &str, expected: &str| {
            assert_eq!(tool_input(Some(&raw(input))).as_json_str(), expected, "{input}");
        };
        check(r#"{"type":"json","value":{"a":1}}"#, r#"{"a":1}"#);
        check(r#"{"type":"text","value":"a"}"#, r#""a""#);
        check(r#"{"type":"file","value":"a"}"#, r#"{"type":"file","value":"a"}"#);
        check(r#"{"path":"a"}"#, r#"{"path":"a"}"#);
    }
}
