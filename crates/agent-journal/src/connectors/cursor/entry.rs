//! One message of a transcript, a conversation file or a chat in the terminal: a role with a
//! text or with parts.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::prompt;
use super::tool::plain;
use super::value::{self, Moment};
use crate::connectors::formats::json::{self, Text, lossless};
use crate::model::{Block, Extensions, Image, Json, Message, Origin, Role, Timestamp};

lossless! {
    /// A message.
    struct Entry<'a> {
        "role" role: Option<Text<'a>>,
        "type" kind: Option<Text<'a>>,
        "id" id: Option<Text<'a>>,
        "message" message: Option<Body<'a>>,
        "content" content: Option<&'a RawValue>,
        "text" text: Option<Text<'a>>,
        "toolCalls" calls: Option<Vec<Part<'a>>>,
        "toolResult" result: Option<Part<'a>>,
        "timestamp" timestamp: Option<Moment>,
        "createdAt" created_at: Option<Moment>,
        "model" model: Option<Text<'a>>,
        "status" status: Option<Text<'a>>,
        "providerOptions" provider_options: Option<&'a RawValue>,
    }
}

lossless! {
    /// The message inside a line of a transcript.
    struct Body<'a> {
        "role" role: Option<Text<'a>>,
        "content" content: Option<&'a RawValue>,
        "model" model: Option<Text<'a>>,
    }
}

lossless! {
    /// A part of a message. Each writer has its own spelling for the same fields.
    struct Part<'a> {
        "type" kind: Option<Text<'a>>,
        "text" text: Option<Text<'a>>,
        "thinking" thinking: Option<Text<'a>>,
        "name" name: Option<Text<'a>>,
        "toolName" tool_name: Option<Text<'a>>,
        "input" input: Option<&'a RawValue>,
        "args" args: Option<&'a RawValue>,
        "id" id: Option<Text<'a>>,
        "toolCallId" call_id: Option<Text<'a>>,
        "tool_use_id" use_id: Option<Text<'a>>,
        "content" content: Option<&'a RawValue>,
        "result" result: Option<&'a RawValue>,
        "output" output: Option<&'a RawValue>,
        "is_error" is_error: Option<bool>,
        "isError" is_error_camel: Option<bool>,
        "mimeType" media_type: Option<Text<'a>>,
        "path" path: Option<Text<'a>>,
    }
}

/// Calls that no result has answered yet. Transcripts name neither calls nor what a result
/// answers: results come in the order of the calls.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Calls {
    asked: u64,
    open: Vec<(String, String)>,
}

impl Calls {
    /// Takes note of a call and returns its id.
    pub(super) fn ask(&mut self, name: &str, recorded: Option<String>) -> String {
        self.asked += 1;
        let id = recorded.unwrap_or_else(|| format!("call-{}", self.asked));
        self.open.push((name.to_owned(), id.clone()));
        id
    }

    /// Finds the call that a result answers.
    pub(super) fn answer(&mut self, name: &str, recorded: Option<String>) -> String {
        if let Some(id) = recorded {
            self.open.retain(|(_, open)| *open != id);
            return id;
        }
        let fits = self.open.iter().position(|(open, _)| open == name);
        if let Some(at) = fits.or((!self.open.is_empty() && name.is_empty()).then_some(0)) {
            return self.open.remove(at).1;
        }
        self.asked += 1;
        format!("result-{}", self.asked)
    }

    /// What was not answered before the next prompt never is.
    pub(super) fn forget(&mut self) {
        self.open.clear();
    }
}

impl Entry<'_> {
    /// When it was written.
    pub(super) fn at(&self) -> Option<Timestamp> {
        self.timestamp.or(self.created_at).and_then(|moment| moment.0)
    }

    /// Makes a message of it; `None` when it says nothing.
    pub(super) fn message(mut self, calls: &mut Calls) -> Option<Message> {
        let body = self.message.take().unwrap_or_default();
        let role = self.role.take().or(body.role).or(self.kind.take());
        let role = match role.as_ref().map_or("", Text::as_str) {
            "user" | "human" => Role::User,
            "assistant" | "ai" | "agent" => Role::Assistant,
            "tool" => Role::Tool,
            _ => Role::System,
        };
        let mut blocks = Vec::new();
        if let Some(text) = &self.text {
            push_text(text.as_str(), role, &mut blocks);
        }
        for content in [body.content, self.content.take()].into_iter().flatten() {
            push_content(content, role, calls, &mut blocks);
        }
        for call in self.calls.take().unwrap_or_default() {
            call.push_call(calls, &mut blocks);
        }
        if let Some(result) = self.result.take() {
            result.push_result(calls, &mut blocks);
        }
        if blocks.is_empty() {
            return None;
        }
        let mut extensions = Extensions::new();
        let at = self.at();
        value::keep(self.rest, &[], &mut extensions);
        value::keep(body.rest, &[], &mut extensions);
        let some =
            |text: Option<Text<'_>>| text.map(Text::into_owned).filter(|text| !text.is_empty());
        let mut message = Message {
            // Some builds number their messages, or call all of them `1`.
            uuid: some(self.id).filter(|id| id.len() >= 8),
            role,
            at,
            model: some(self.model.or(body.model)),
            blocks,
            extensions,
            ..Message::default()
        };
        settle(&mut message, calls);
        Some(message)
    }
}

/// Says whose message it really is.
fn settle(message: &mut Message, calls: &mut Calls) {
    let has = |wanted: fn(&Block) -> bool| message.blocks.iter().any(wanted);
    let has_result = has(|block| matches!(block, Block::ToolResult { .. }));
    let has_text = has(|block| matches!(block, Block::Text(_) | Block::Image(_)));
    if has_result && !has_text && message.role == Role::User {
        message.role = Role::Tool;
    }
    message.origin = match message.role {
        Role::User => prompt::unwrap(message),
        Role::Assistant => Origin::Assistant,
        Role::Tool => Origin::Tool,
        Role::System => Origin::Injected,
    };
    if message.origin == Origin::Human {
        calls.forget();
    }
}

fn push_text(text: &str, role: Role, blocks: &mut Vec<Block>) {
    match role {
        Role::Assistant => prompt::answer(text, blocks),
        _ if text.trim().is_empty() => {}
        _ => blocks.push(Block::Text(text.to_owned())),
    }
}

fn push_content(content: &RawValue, role: Role, calls: &mut Calls, blocks: &mut Vec<Block>) {
    if let Ok(text) = serde_json::from_str::<Text<'_>>(content.get()) {
        return push_text(text.as_str(), role, blocks);
    }
    let Ok(parts) = serde_json::from_str::<Vec<&RawValue>>(content.get()) else {
        return blocks.push(Block::Other(Json::from(content)));
    };
    for raw in parts {
        match json::parse::<Part<'_>>(raw.get()) {
            Some(part) => part.push(raw, role, calls, blocks),
            None => match serde_json::from_str::<Text<'_>>(raw.get()) {
                Ok(text) => push_text(text.as_str(), role, blocks),
                Err(_) => blocks.push(Block::Other(Json::from(raw))),
            },
        }
    }
}

impl Part<'_> {
    fn push(self, raw: &RawValue, role: Role, calls: &mut Calls, blocks: &mut Vec<Block>) {
        let kind = self.kind.as_ref().map(|kind| kind.as_str().replace('-', "_"));
        match kind.as_deref().unwrap_or_default() {
            "text" | "input_text" | "output_text" => {
                push_text(self.text.as_ref().map_or("", Text::as_str), role, blocks);
            }
            "thinking" | "reasoning" => {
                let text = self.thinking.or(self.text).map(Text::into_owned).unwrap_or_default();
                if !text.trim().is_empty() && text != "[REDACTED]" {
                    blocks.push(Block::Thinking(text));
                }
            }
            // What is in there cannot be read by anybody but the model's maker.
            "redacted_reasoning" | "redacted_thinking" => {}
            "tool_use" | "tool_call" => self.push_call(calls, blocks),
            "tool_result" => self.push_result(calls, blocks),
            "image" => blocks.push(Block::Image(Image {
                media_type: self.media_type.map(Text::into_owned),
                location: self.path.map(Text::into_owned),
                ..Image::default()
            })),
            _ => blocks.push(Block::Other(Json::from(raw))),
        }
    }

    fn push_call(self, calls: &mut Calls, blocks: &mut Vec<Block>) {
        let name = self.name.or(self.tool_name).map(Text::into_owned).unwrap_or_default();
        let id = self.call_id.or(self.id).map(Text::into_owned).filter(|id| !id.is_empty());
        let input = self.input.or(self.args).map_or_else(|| Json::from_value(&()), Json::from);
        let id = calls.ask(&name, id);
        blocks.push(Block::ToolCall { id, name, input });
    }

    fn push_result(self, calls: &mut Calls, blocks: &mut Vec<Block>) {
        let name = self.name.or(self.tool_name).map(Text::into_owned).unwrap_or_default();
        let id = self.use_id.or(self.call_id).or(self.id).map(Text::into_owned);
        let call_id = calls.answer(&name, id.filter(|id| !id.is_empty()));
        let output = match self.result.or(self.output).or(self.content) {
            Some(raw) => output(raw),
            None => self.text.map(Text::into_owned).unwrap_or_default(),
        };
        let is_error = self.is_error.or(self.is_error_camel);
        blocks.push(Block::ToolResult { call_id, output, is_error });
    }
}

/// A result as text: a string, the texts of its parts, or any other JSON as it stands.
fn output(raw: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Piece {
        text: String,
    }
    match serde_json::from_str::<Vec<Piece>>(raw.get()) {
        Ok(pieces) if !pieces.is_empty() => {
            pieces.into_iter().map(|piece| piece.text).collect::<Vec<_>>().join("\n")
        }
        _ => plain(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_answer_calls_of_their_name_in_order() {
        let mut calls = Calls::default();
        let ids: Vec<String> =
            ["Read", "Shell", "Read"].iter().map(|name| calls.ask(name, None)).collect();
        assert_eq!(calls.answer("Shell", None), ids[1]);
        assert_eq!(calls.answer("Read", None), ids[0]);
        assert_eq!(calls.answer("", None), ids[2]);
        assert_eq!(calls.answer("Read", None), "result-4");
        calls.ask("Read", Some("own".into()));
        assert_eq!(calls.answer("Read", Some("own".into())), "own");
    }
}
