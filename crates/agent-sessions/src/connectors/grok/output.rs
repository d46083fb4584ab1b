//! The content of chunks, and the outputs of tools.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::line::{GrokContent, owned_if_present};
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Block, Image, Json};

/// Fields in which tools keep the text that the model gets.
const PROMPT_TEXTS: &[&str] = &["output_for_prompt", "tool_output_for_prompt"];

lenient! {
    /// The facts about a result that all tools record in the same way.
    struct GrokToolOutput {
        "exit_code" exit_code: Option<f64>,
        "timed_out" is_timed_out: Option<bool>,
    }
}

/// Converts a content into a block. `None` when it is empty.
pub(super) fn content_block(raw: &RawValue) -> Option<Block> {
    if let Ok(text) = serde_json::from_str::<BorrowedText<'_>>(raw.get()) {
        return owned_if_present(Some(text)).map(Block::Text);
    }
    let Some(content) = json::parse_json::<GrokContent<'_>>(raw.get()) else {
        return Some(Block::Other(Json::from(raw)));
    };
    let kind = content.kind.as_ref().map_or("", BorrowedText::as_borrowed_str);
    match kind {
        _ if kind != "image" && content.text.is_some() => {
            owned_if_present(content.text).map(Block::Text)
        }
        "image" if content.data.is_some() => {
            let data = content.data.map(BorrowedText::into_owned).unwrap_or_default();
            Some(Block::Image(Image::from_base64(owned_if_present(content.mime_type), &data)))
        }
        "image" if content.uri.is_some() => {
            let location = owned_if_present(content.uri);
            Some(Block::Image(Image { location, ..Image::default() }))
        }
        _ => Some(Block::Other(Json::from(raw))),
    }
}

/// Returns the shell command that a person typed, if a content is one.
pub(super) fn typed_shell_command(raw: &RawValue) -> Option<String> {
    let content = json::parse_json::<GrokContent<'_>>(raw.get())?;
    owned_if_present(content.meta?.bash_command)
}

/// Converts the result of a call into blocks. A command fails by its exit code, too.
pub(super) fn result_blocks(
    call_id: String,
    is_failed: bool,
    content: Option<&RawValue>,
    output: Option<&RawValue>,
) -> Vec<Block> {
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    for raw in content.and_then(json::array_elements).unwrap_or_default() {
        let part = json::parse_json::<GrokContent<'_>>(raw.get()).unwrap_or_default();
        match part.content.and_then(content_block) {
            Some(Block::Text(text)) => texts.push(text),
            Some(other) => others.push(other),
            // A terminal or a difference: the call and the output have it.
            None => {}
        }
    }
    if texts.is_empty() {
        texts.extend(output.and_then(prompt_text));
    }
    let facts = output.and_then(|raw| json::parse_json::<GrokToolOutput>(raw.get()));
    let facts = facts.unwrap_or_default();
    let is_error = is_failed
        || facts.exit_code.is_some_and(|code| code != 0.0)
        || facts.is_timed_out == Some(true);
    let output = texts.join("\n");
    let mut blocks = vec![Block::ToolResult { call_id, output, is_error: Some(is_error) }];
    blocks.append(&mut others);
    blocks
}

/// Returns the text that the model gets of an output: a field of it, or of its variant.
fn prompt_text(output: &RawValue) -> Option<String> {
    let fields = json::object_fields(output)?;
    let text = |fields: &json::UnnamedFields<'_>| {
        let known = fields.iter().find(|(key, _)| PROMPT_TEXTS.contains(&&**key));
        known.and_then(|(_, raw)| String::deserialize(*raw).ok())
    };
    let inner = || fields.iter().find_map(|(_, raw)| text(&json::object_fields(raw)?));
    text(&fields).or_else(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_its_content_or_the_text_for_the_model() {
        let check = |content: &str, output: &str, expected: (&str, bool)| {
            let content: &RawValue = serde_json::from_str(content).unwrap();
            let output: &RawValue = serde_json::from_str(output).unwrap();
            let blocks = result_blocks("c".to_owned(), false, Some(content), Some(output));
            let Some(Block::ToolResult { output, is_error, .. }) = blocks.first() else {
                panic!("{blocks:?}")
            };
            assert_eq!((&**output, *is_error), (expected.0, Some(expected.1)));
        };
        let text = r#"[{"type":"content","content":{"type":"text","text":"912\n"}}]"#;
        check(text, r#"{"output":[57],"output_for_prompt":"x","exit_code":0}"#, ("912\n", false));
        check(text, r#"{"exit_code":2}"#, ("912\n", true));
        let diff = r#"[{"type":"diff","path":"a","oldText":"","newText":"b"}]"#;
        let edits = r#"{"type":"Edit","EditsApplied":{"tool_output_for_prompt":"Created."}}"#;
        check(diff, edits, ("Created.", false));
        check("[]", r#"{"type":"Bash","timed_out":true}"#, ("", true));
    }
}
