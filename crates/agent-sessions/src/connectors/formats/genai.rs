//! Content of Google's generative AI API: text, or parts with text, thoughts, function calls and
//! function responses. Several agents record it as sent over the network.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{self, BorrowedText, lenient, lossless};
use crate::model::{Block, Image, Json, Tokens};

lossless! {
    /// One part of a content.
    struct GenAiPart<'a> {
        "text" text: Option<BorrowedText<'a>>,
        "thought" thought: Option<&'a RawValue>,
        "functionCall" call: Option<FunctionCall<'a>>,
        "functionResponse" response: Option<Response<'a>>,
        "inlineData" inline: Option<InlineBlob<'a>>,
        "fileData" file: Option<InlineBlob<'a>>,
    }
}

lenient! {
    struct FunctionCall<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "args" args: Option<&'a RawValue>,
    }
}

lenient! {
    struct Response<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "response" outcome: Option<&'a RawValue>,
        "parts" parts: Option<&'a RawValue>,
    }
}

lenient! {
    struct InlineBlob<'a> {
        "mimeType" mime_type: Option<BorrowedText<'a>>,
        "data" data: Option<BorrowedText<'a>>,
        "fileUri" file_uri: Option<BorrowedText<'a>>,
    }
}

/// Appends the blocks of a content, which is a string, one part, or a list of both.
pub fn append_content_blocks(content: &RawValue, blocks: &mut Vec<Block>) {
    if let Ok(text) = serde_json::from_str::<BorrowedText<'_>>(content.get()) {
        push_genai_text(text, blocks);
    } else if let Ok(parts) = serde_json::from_str::<Vec<&RawValue>>(content.get()) {
        for part in parts {
            push_genai_part(part, blocks);
        }
    } else if content.get() != "null" {
        push_genai_part(content, blocks);
    }
}

fn push_genai_part(raw: &RawValue, blocks: &mut Vec<Block>) {
    if let Ok(text) = serde_json::from_str::<BorrowedText<'_>>(raw.get()) {
        return push_genai_text(text, blocks);
    }
    let Some(part) = json::parse_json::<GenAiPart<'_>>(raw.get()) else {
        return blocks.push(Block::Other(Json::from(raw)));
    };
    let is_thought = part.thought.is_some_and(|thought| thought.get() == "true");
    match part {
        GenAiPart { call: Some(call), .. } => blocks.push(call.into_call_block()),
        GenAiPart { response: Some(response), .. } => response.push_function_response(blocks),
        GenAiPart { inline: Some(blob), .. } | GenAiPart { file: Some(blob), .. } => {
            blocks.push(Block::Image(blob.into_inline_image()));
        }
        GenAiPart { text: Some(text), .. } if is_thought => {
            if !text.as_borrowed_str().is_empty() {
                blocks.push(Block::Thinking(text.into_owned()));
            }
        }
        GenAiPart { text: Some(text), .. } => push_genai_text(text, blocks),
        // The remainder of opaque reasoning: a signature without text.
        GenAiPart { rest, .. } if rest.iter().all(|(key, _)| key == "thoughtSignature") => {}
        _ => blocks.push(Block::Other(Json::from(raw))),
    }
}

fn push_genai_text(text: BorrowedText<'_>, blocks: &mut Vec<Block>) {
    if !text.as_borrowed_str().is_empty() {
        blocks.push(Block::Text(text.into_owned()));
    }
}

impl FunctionCall<'_> {
    fn into_call_block(self) -> Block {
        let name = self.name.map(BorrowedText::into_owned).unwrap_or_default();
        Block::ToolCall {
            // Older records have no ids; calls and responses are matched by name.
            id: self.id.map_or_else(|| name.clone(), BorrowedText::into_owned),
            name,
            input: self.args.map_or_else(|| Json::from_value(&()), Json::from),
        }
    }
}

impl Response<'_> {
    fn push_function_response(self, all: &mut Vec<Block>) {
        let (output, is_error) = self.outcome.map(parse_function_response).unwrap_or_default();
        let call_id = self.id.or(self.name).map(BorrowedText::into_owned).unwrap_or_default();
        all.push(Block::ToolResult { call_id, output, is_error });
        if let Some(parts) = self.parts {
            append_content_blocks(parts, all);
        }
    }
}

impl InlineBlob<'_> {
    fn into_inline_image(self) -> Image {
        let media_type = self.mime_type.map(BorrowedText::into_owned);
        match self.data {
            Some(data) => Image::from_base64(media_type, data.as_borrowed_str()),
            None => Image {
                media_type,
                location: self.file_uri.map(BorrowedText::into_owned),
                ..Image::default()
            },
        }
    }
}

/// Parses the response of a function: `output`, `error`, or an object of the tool's own.
fn parse_function_response(response: &RawValue) -> (String, Option<bool>) {
    lossless! {
        struct FunctionOutcome<'a> {
            "output" output: Option<&'a RawValue>,
            "error" error: Option<&'a RawValue>,
        }
    }
    match serde_json::from_str::<FunctionOutcome<'_>>(response.get()) {
        Ok(FunctionOutcome { output: Some(output), error: None, .. }) => {
            (text_or_raw_json(output), None)
        }
        Ok(FunctionOutcome { output: None, error: Some(error), .. }) => {
            (text_or_raw_json(error), Some(true))
        }
        Ok(FunctionOutcome { output: Some(output), error: Some(error), .. }) => {
            (format!("{}\n{}", text_or_raw_json(output), text_or_raw_json(error)), None)
        }
        Ok(FunctionOutcome { rest, .. }) if rest.is_empty() => (String::new(), None),
        _ => (text_or_raw_json(response), None),
    }
}

/// Returns the text of a JSON string, and any other JSON as written.
pub fn text_or_raw_json(raw: &RawValue) -> String {
    serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

/// Token counts of one call, as the API reports them.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct UsageMetadata {
    #[serde(deserialize_with = "json::deserialize_count", rename = "promptTokenCount")]
    prompt: u64,
    #[serde(deserialize_with = "json::deserialize_count", rename = "candidatesTokenCount")]
    candidates: u64,
    #[serde(deserialize_with = "json::deserialize_count", rename = "thoughtsTokenCount")]
    thoughts: u64,
    #[serde(deserialize_with = "json::deserialize_count", rename = "cachedContentTokenCount")]
    cached_content: u64,
    #[serde(deserialize_with = "json::deserialize_count")]
    tool_use_prompt: u64,
    #[serde(deserialize_with = "json::deserialize_count", rename = "totalTokenCount")]
    total: u64,
}

impl UsageMetadata {
    /// Splits the counts into disjoint classes. Prompt tokens include cached ones. Whether
    /// candidates include thoughts depends on the service behind the API, and is derived from the
    /// total.
    pub fn disjoint_tokens(&self) -> Tokens {
        let thoughts = self.thoughts;
        let without =
            self.prompt.saturating_add(self.candidates).saturating_add(self.tool_use_prompt);
        let apart = if self.total == without.saturating_add(thoughts) { thoughts } else { 0 };
        Tokens {
            input: self
                .prompt
                .saturating_sub(self.cached_content)
                .saturating_add(self.tool_use_prompt),
            output: self.candidates.saturating_add(apart),
            cache_read: self.cached_content.min(self.prompt),
            cache_creation: 0,
            reasoning: Some(thoughts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: &str, expected: &str) {
        let mut all = Vec::new();
        append_content_blocks(serde_json::from_str(content).unwrap(), &mut all);
        assert_eq!(serde_json::to_string(&all).unwrap(), expected, "{content}");
    }

    #[test]
    fn content_is_text_or_a_part_or_a_list_of_both() {
        check(r#""hello""#, r#"[{"text":"hello"}]"#);
        check("null", "[]");
        check(r#"{"text":"hello"}"#, r#"[{"text":"hello"}]"#);
        check(r#"["a",{"text":"b"},{"text":""}]"#, r#"[{"text":"a"},{"text":"b"}]"#);
    }

    #[test]
    fn thoughts_are_kept_and_their_signatures_are_not() {
        check(r#"[{"text":"so","thought":true}]"#, r#"[{"thinking":"so"}]"#);
        check(r#"[{"thoughtSignature":"Zm9v"}]"#, "[]");
        check(
            r#"[{"executableCode":{"code":"1"}}]"#,
            r#"[{"other":{"executableCode":{"code":"1"}}}]"#,
        );
    }

    #[test]
    fn a_response_gives_its_output_or_its_error_or_itself() {
        let result = |response: &str, output: &str, rest: &str| {
            check(
                &format!(
                    r#"[{{"functionResponse":{{"id":"c","name":"f","response":{response}}}}}]"#
                ),
                &format!(r#"[{{"tool_result":{{"call_id":"c","output":{output}{rest}}}}}]"#),
            );
        };
        result(r#"{"output":"ok"}"#, r#""ok""#, "");
        result(r#"{"output":{"n":1}}"#, r#""{\"n\":1}""#, "");
        result(r#"{"error":"no"}"#, r#""no""#, r#","is_error":true"#);
        result(r#"{"output":"some","error":"no"}"#, r#""some\nno""#, "");
        result("{}", r#""""#, "");
        result(r#"{"rows":2}"#, r#""{\"rows\":2}""#, "");
    }

    #[test]
    fn the_total_tells_whether_candidates_include_thoughts() {
        let check = |total: u64, output: u64| {
            let usage = UsageMetadata {
                prompt: 100,
                cached_content: 60,
                candidates: 20,
                thoughts: 5,
                total,
                ..UsageMetadata::default()
            };
            let tokens = usage.disjoint_tokens();
            assert_eq!((tokens.input, tokens.cache_read), (40, 60));
            assert_eq!((tokens.output, tokens.reasoning), (output, Some(5)));
        };
        check(120, 20);
        check(125, 25);
    }
}
