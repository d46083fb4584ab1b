//! A call of a tool in the editor: the call and its result stand in one bubble.

use serde_json::value::RawValue;

use super::value;
use crate::connectors::formats::json::{Text, lossless};
use crate::model::{Block, Json, Message, Origin, Role};

lossless! {
    /// A call of a tool and what came of it.
    struct Tool<'a> {
        "name" name: Option<Text<'a>>,
        "tool" number: Option<&'a RawValue>,
        "toolIndex" index: Option<&'a RawValue>,
        "toolCallId" id: Option<Text<'a>>,
        "status" status: Option<Text<'a>>,
        "rawArgs" raw_args: Option<Text<'a>>,
        "params" params: Option<&'a RawValue>,
        "result" result: Option<&'a RawValue>,
        "error" error: Option<&'a RawValue>,
    }
}

impl Tool<'_> {
    /// Adds the call to its message and makes the result. A record without a name is the rest
    /// of a call that never came to be.
    pub(super) fn push(self, message: &mut Message) -> Option<Message> {
        let name = match self.name {
            Some(name) => name.into_owned(),
            // One of another type is kept as it is written.
            None if self.rest.iter().any(|(key, _)| key == "name") => String::new(),
            None => return None,
        };
        let id = self.id.map(Text::into_owned).filter(|id| !id.is_empty());
        let id = id.or_else(|| message.uuid.clone()).unwrap_or_default();
        let input = match (&self.raw_args, self.params) {
            (Some(args), _) if !args.as_str().trim().is_empty() => parsed(args.as_str()),
            (_, Some(params)) => unquoted(params),
            _ => Json::from_value(&()),
        };
        message.blocks.push(Block::ToolCall { id: id.clone(), name, input });
        value::keep(self.rest, &[], &mut message.extensions);
        let status = self.status.map(Text::into_owned).unwrap_or_default();
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
        let output = output.map(plain).unwrap_or_default();
        Some(Message {
            role: Role::Tool,
            origin: Origin::Tool,
            at: message.at,
            blocks: vec![Block::ToolResult { call_id: id, output, is_error }],
            ..Message::default()
        })
    }
}

/// Text that should be JSON; half-written arguments stay text.
fn parsed(text: &str) -> Json {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => Json::from(raw),
        Err(_) => Json::from_value(&text),
    }
}

/// JSON that may stand inside a string of JSON.
fn unquoted(raw: &RawValue) -> Json {
    match serde_json::from_str::<Text<'_>>(raw.get()) {
        Ok(text) => parsed(text.as_str()),
        Err(_) => Json::from(raw),
    }
}

/// A string's content, or any other JSON as it stands.
pub(super) fn plain(raw: &RawValue) -> String {
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
            let (message, result) = bubble.answer();
            assert_eq!((message.blocks.len(), result.iter().count()), (calls, results), "{tool}");
        };
        check(r#"{"additionalData":{"status":"error"}}"#, 0, 0);
        check(r#"{"name":"read_file","status":"loading"}"#, 1, 0);
        check(r#"{"name":"read_file","status":"error"}"#, 1, 1);
        check(r#"{"name":"read_file","status":"completed","result":"{}"}"#, 1, 1);
    }
}
