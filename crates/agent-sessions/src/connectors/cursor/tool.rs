//! A tool call in the editor: one bubble holds both the call and its result.

use serde_json::value::RawValue;

use super::value;
use crate::connectors::formats::json::{BorrowedText, lossless};
use crate::model::{Block, Json, Message, Origin, Role};

lossless! {
    /// A tool call and its result.
    struct Tool<'a> {
        "name" name: Option<BorrowedText<'a>>,
        "tool" number: Option<&'a RawValue>,
        "toolIndex" index: Option<&'a RawValue>,
        "toolCallId" id: Option<BorrowedText<'a>>,
        "status" status: Option<BorrowedText<'a>>,
        "rawArgs" raw_args: Option<BorrowedText<'a>>,
        "params" params: Option<&'a RawValue>,
        "result" result: Option<&'a RawValue>,
        "error" error: Option<&'a RawValue>,
    }
}

impl Tool<'_> {
    /// Adds the call to its message and returns the message with the result. A record without a
    /// name is the remnant of a call that was never made and is dropped.
    pub(super) fn push_call_and_result(self, message: &mut Message) -> Option<Message> {
        let name = match self.name {
            Some(name) => name.into_owned(),
            // A name that is not a string is kept in the extensions.
            None if self.rest.iter().any(|(key, _)| key == "name") => String::new(),
            None => return None,
        };
        let id = self.id.map(BorrowedText::into_owned).filter(|id| !id.is_empty());
        let id = id.or_else(|| message.uuid.clone()).unwrap_or_default();
        let input = match (&self.raw_args, self.params) {
            (Some(args), _) if !args.as_borrowed_str().trim().is_empty() => {
                parse_json_or_text(args.as_borrowed_str())
            }
            (_, Some(params)) => parse_quoted_json(params),
            _ => Json::from_value(&()),
        };
        message.blocks.push(Block::ToolCall { id: id.clone(), name, input });
        value::keep_informative_values(self.rest, &[], &mut message.extensions);
        let status = self.status.map(BorrowedText::into_owned).unwrap_or_default();
        let is_error = match &*status {
            "completed" => Some(false),
            "error" => Some(true),
            _ => None,
        };
        if !status.is_empty() {
            message.extensions.insert("status".into(), Json::from_value(&status));
        }
        let said = |raw: &RawValue| !matches!(raw.get(), "null" | "\"\"");
        let output = self.result.filter(|raw| said(raw)).or(self.error.filter(|raw| said(raw)));
        if output.is_none() && is_error.is_none() {
            return None;
        }
        let output = output.map(json_string_or_raw).unwrap_or_default();
        Some(Message {
            role: Role::Tool,
            origin: Origin::Tool,
            at: message.at,
            blocks: vec![Block::ToolResult { call_id: id, output, is_error }],
            ..Message::default()
        })
    }
}

/// Parses a text as JSON. Incomplete arguments stay text.
fn parse_json_or_text(text: &str) -> Json {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => Json::from(raw),
        Err(_) => Json::from_value(&text),
    }
}

/// Returns JSON that may be wrapped in a JSON string.
fn parse_quoted_json(raw: &RawValue) -> Json {
    match serde_json::from_str::<BorrowedText<'_>>(raw.get()) {
        Ok(text) => parse_json_or_text(text.as_borrowed_str()),
        Err(_) => Json::from(raw),
    }
}

/// Returns the content of a JSON string, or any other JSON as written.
pub(super) fn json_string_or_raw(raw: &RawValue) -> String {
    serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::bubble::Bubble;

    #[test]
    fn a_tool_without_a_name_is_no_call() {
        let check = |tool: &str, calls: usize, results: usize| {
            let json = format!(r#"{{"type":2,"bubbleId":"b","toolFormerData":{tool}}}"#);
            let bubble: Bubble<'_> = serde_json::from_str(&json).unwrap();
            let (message, result) = bubble.into_answer();
            assert_eq!((message.blocks.len(), result.iter().count()), (calls, results), "{tool}");
        };
        check(r#"{"additionalData":{"status":"error"}}"#, 0, 0);
        check(r#"{"name":"read_file","status":"loading"}"#, 1, 0);
        check(r#"{"name":"read_file","status":"error"}"#, 1, 1);
        check(r#"{"name":"read_file","status":"completed","result":"{}"}"#, 1, 1);
    }
}
