//! Content as Google's generative API shapes it: text, or parts that hold text, thoughts, calls
//! of functions and their responses. Several agents record it as it went over the wire.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{self, Text, lenient, lossless};
use crate::model::{Block, Image, Json, Tokens};

lossless! {
    /// One part.
    struct Part<'a> {
        "text" text: Option<Text<'a>>,
        "thought" thought: Option<&'a RawValue>,
        "functionCall" call: Option<Call<'a>>,
        "functionResponse" response: Option<Response<'a>>,
        "inlineData" inline: Option<Blob<'a>>,
        "fileData" file: Option<Blob<'a>>,
    }
}

lenient! {
    struct Call<'a> {
        "id" id: Option<Text<'a>>,
        "name" name: Option<Text<'a>>,
        "args" args: Option<&'a RawValue>,
    }
}

lenient! {
    struct Response<'a> {
        "id" id: Option<Text<'a>>,
        "name" name: Option<Text<'a>>,
        "response" outcome: Option<&'a RawValue>,
        "parts" parts: Option<&'a RawValue>,
    }
}

lenient! {
    struct Blob<'a> {
        "mimeType" mime_type: Option<Text<'a>>,
        "data" data: Option<Text<'a>>,
        "fileUri" file_uri: Option<Text<'a>>,
    }
}

/// Appends what a content becomes: a string, one part, or a list of both.
pub fn blocks(content: &RawValue, blocks: &mut Vec<Block>) {
    if let Ok(text) = serde_json::from_str::<Text<'_>>(content.get()) {
        push_text(text, blocks);
    } else if let Ok(parts) = serde_json::from_str::<Vec<&RawValue>>(content.get()) {
        for part in parts {
            push(part, blocks);
        }
    } else if content.get() != "null" {
        push(content, blocks);
    }
}

fn push(raw: &RawValue, blocks: &mut Vec<Block>) {
    if let Ok(text) = serde_json::from_str::<Text<'_>>(raw.get()) {
        return push_text(text, blocks);
    }
    let Some(part) = json::parse::<Part<'_>>(raw.get()) else {
        return blocks.push(Block::Other(Json::from(raw)));
    };
    let is_thought = part.thought.is_some_and(|thought| thought.get() == "true");
    match part {
        Part { call: Some(call), .. } => blocks.push(call.block()),
        Part { response: Some(response), .. } => response.push(blocks),
        Part { inline: Some(blob), .. } | Part { file: Some(blob), .. } => {
            blocks.push(Block::Image(blob.image()));
        }
        Part { text: Some(text), .. } if is_thought => {
            if !text.as_str().is_empty() {
                blocks.push(Block::Thinking(text.into_owned()));
            }
        }
        Part { text: Some(text), .. } => push_text(text, blocks),
        // What is left of opaque reasoning: a signature and nothing to read.
        Part { rest, .. } if rest.iter().all(|(key, _)| key == "thoughtSignature") => {}
        _ => blocks.push(Block::Other(Json::from(raw))),
    }
}

fn push_text(text: Text<'_>, blocks: &mut Vec<Block>) {
    if !text.as_str().is_empty() {
        blocks.push(Block::Text(text.into_owned()));
    }
}

impl Call<'_> {
    fn block(self) -> Block {
        let name = self.name.map(Text::into_owned).unwrap_or_default();
        Block::ToolCall {
            // Before ids were recorded, calls and responses were joined by name.
            id: self.id.map_or_else(|| name.clone(), Text::into_owned),
            name,
            input: self.args.map_or_else(|| Json::from_value(&()), Json::from),
        }
    }
}

impl Response<'_> {
    fn push(self, all: &mut Vec<Block>) {
        let (output, is_error) = self.outcome.map(outcome).unwrap_or_default();
        let call_id = self.id.or(self.name).map(Text::into_owned).unwrap_or_default();
        all.push(Block::ToolResult { call_id, output, is_error });
        if let Some(parts) = self.parts {
            blocks(parts, all);
        }
    }
}

impl Blob<'_> {
    fn image(self) -> Image {
        let media_type = self.mime_type.map(Text::into_owned);
        match self.data {
            Some(data) => Image::from_base64(media_type, data.as_str()),
            None => Image {
                media_type,
                location: self.file_uri.map(Text::into_owned),
                ..Image::default()
            },
        }
    }
}

/// Reads what a function returned: `output`, `error`, or an object of the tool's own.
fn outcome(response: &RawValue) -> (String, Option<bool>) {
    lossless! {
        struct Outcome<'a> {
            "output" output: Option<&'a RawValue>,
            "error" error: Option<&'a RawValue>,
        }
    }
    match serde_json::from_str::<Outcome<'_>>(response.get()) {
        Ok(Outcome { output: Some(output), error: None, .. }) => (plain(output), None),
        Ok(Outcome { output: None, error: Some(error), .. }) => (plain(error), Some(true)),
        Ok(Outcome { output: Some(output), error: Some(error), .. }) => {
            (format!("{}\n{}", plain(output), plain(error)), None)
        }
        Ok(Outcome { rest, .. }) if rest.is_empty() => (String::new(), None),
        _ => (plain(response), None),
    }
}

/// The text of a JSON string, and any other JSON as written.
pub fn plain(raw: &RawValue) -> String {
    serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

/// The API's usage of one call.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct UsageMetadata {
    #[serde(deserialize_with = "json::count", rename = "promptTokenCount")]
    prompt: u64,
    #[serde(deserialize_with = "json::count", rename = "candidatesTokenCount")]
    candidates: u64,
    #[serde(deserialize_with = "json::count", rename = "thoughtsTokenCount")]
    thoughts: u64,
    #[serde(deserialize_with = "json::count", rename = "cachedContentTokenCount")]
    cached_content: u64,
    #[serde(deserialize_with = "json::count")]
    tool_use_prompt: u64,
    #[serde(deserialize_with = "json::count", rename = "totalTokenCount")]
    total: u64,
}

impl UsageMetadata {
    /// Sorts the counts into classes that never overlap. Prompts include what was cached. Whether
    /// candidates include thoughts depends on the service behind the API: the total tells.
    pub fn tokens(&self) -> Tokens {
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
        blocks(serde_json::from_str(content).unwrap(), &mut all);
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
            let tokens = usage.tokens();
            assert_eq!((tokens.input, tokens.cache_read), (40, 60));
            assert_eq!((tokens.output, tokens.reasoning), (output, Some(5)));
        };
        check(120, 20);
        check(125, 25);
    }
}
