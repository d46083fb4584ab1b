//! One message of a transcript, a conversation file or a terminal chat: a role with a text or with
//! parts.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::prompt;
use super::tool::json_string_or_raw;
use super::value::{self, Moment};
use crate::connectors::formats::json::{self, BorrowedText, lossless};
use crate::model::{Block, Extensions, Image, Json, Message, Origin, Role, Timestamp};

lossless! {
    /// A message as the agent writes it.
    struct CursorEntry<'a> {
        "role" role: Option<BorrowedText<'a>>,
        "type" kind: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "message" message: Option<TranscriptBody<'a>>,
        "content" content: Option<&'a RawValue>,
        "text" text: Option<BorrowedText<'a>>,
        "toolCalls" calls: Option<Vec<CursorMessagePart<'a>>>,
        "toolResult" result: Option<CursorMessagePart<'a>>,
        "timestamp" timestamp: Option<Moment>,
        "createdAt" created_at: Option<Moment>,
        "model" model: Option<BorrowedText<'a>>,
        "status" status: Option<BorrowedText<'a>>,
        "providerOptions" provider_options: Option<&'a RawValue>,
    }
}

lossless! {
    /// The message inside a line of a transcript.
    struct TranscriptBody<'a> {
        "role" role: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "model" model: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// A part of a message. Each of Cursor's programs spells the same fields differently.
    struct CursorMessagePart<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "thinking" thinking: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "toolName" tool_name: Option<BorrowedText<'a>>,
        "input" input: Option<&'a RawValue>,
        "args" args: Option<&'a RawValue>,
        "id" id: Option<BorrowedText<'a>>,
        "toolCallId" call_id: Option<BorrowedText<'a>>,
        "tool_use_id" use_id: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "result" result: Option<&'a RawValue>,
        "output" output: Option<&'a RawValue>,
        "is_error" is_error: Option<bool>,
        "isError" is_error_camel: Option<bool>,
        "mimeType" media_type: Option<BorrowedText<'a>>,
        "path" path: Option<BorrowedText<'a>>,
    }
}

/// Tool calls without a result so far. Transcripts give neither calls nor results an id: results
/// come in the order of the calls.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct OpenToolCalls {
    asked: u64,
    open: Vec<(String, String)>,
}

impl OpenToolCalls {
    /// Adds a call and returns its id.
    pub(super) fn add_tool_call(&mut self, name: &str, recorded: Option<String>) -> String {
        self.asked += 1;
        let id = recorded.unwrap_or_else(|| format!("call-{}", self.asked));
        self.open.push((name.to_owned(), id.clone()));
        id
    }

    /// Removes the call that a result belongs to and returns its id.
    pub(super) fn take_tool_call_id(&mut self, name: &str, recorded: Option<String>) -> String {
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

    /// Removes all calls. A call without a result before the next prompt never gets one.
    pub(super) fn forget_open_calls(&mut self) {
        self.open.clear();
    }
}

impl CursorEntry<'_> {
    /// Returns the time the message was recorded.
    pub(super) fn recorded_time(&self) -> Option<Timestamp> {
        self.timestamp.or(self.created_at).and_then(|moment| moment.0)
    }

    /// Converts the entry into a message. Returns `None` when it has no content.
    pub(super) fn into_message(mut self, calls: &mut OpenToolCalls) -> Option<Message> {
        let body = self.message.take().unwrap_or_default();
        let role = self.role.take().or(body.role).or(self.kind.take());
        let role = match role.as_ref().map_or("", BorrowedText::as_borrowed_str) {
            "user" | "human" => Role::User,
            "assistant" | "ai" | "agent" => Role::Assistant,
            "tool" => Role::Tool,
            _ => Role::System,
        };
        let mut blocks = Vec::new();
        if let Some(text) = &self.text {
            push_text_block(text.as_borrowed_str(), role, &mut blocks);
        }
        for content in [body.content, self.content.take()].into_iter().flatten() {
            push_content(content, role, calls, &mut blocks);
        }
        for call in self.calls.take().unwrap_or_default() {
            call.push_call(calls, &mut blocks);
        }
        if let Some(result) = self.result.take() {
            result.push_part_result(calls, &mut blocks);
        }
        if blocks.is_empty() {
            return None;
        }
        let mut extensions = Extensions::new();
        let at = self.recorded_time();
        value::keep_informative_values(self.rest, &[], &mut extensions);
        value::keep_informative_values(body.rest, &[], &mut extensions);
        let some = |text: Option<BorrowedText<'_>>| {
            text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
        };
        let mut message = Message {
            // Some builds use running numbers as ids, or `1` for every message.
            uuid: some(self.id).filter(|id| id.len() >= 8),
            role,
            at,
            model: some(self.model.or(body.model)),
            blocks,
            extensions,
            ..Message::default()
        };
        set_role_by_content(&mut message, calls);
        Some(message)
    }
}

/// Sets the role and origin of a message by its content.
fn set_role_by_content(message: &mut Message, calls: &mut OpenToolCalls) {
    let has = |wanted: fn(&Block) -> bool| message.blocks.iter().any(wanted);
    let has_result = has(|block| matches!(block, Block::ToolResult { .. }));
    let has_text = has(|block| matches!(block, Block::Text(_) | Block::Image(_)));
    if has_result && !has_text && message.role == Role::User {
        message.role = Role::Tool;
    }
    message.origin = match message.role {
        Role::User => prompt::unwrap_user_message(message),
        Role::Assistant => Origin::Assistant,
        Role::Tool => Origin::Tool,
        Role::System => Origin::Injected,
    };
    if message.origin == Origin::Human {
        calls.forget_open_calls();
    }
}

fn push_text_block(text: &str, role: Role, blocks: &mut Vec<Block>) {
    match role {
        Role::Assistant => prompt::push_answer_blocks(text, blocks),
        _ if text.trim().is_empty() => {}
        _ => blocks.push(Block::Text(text.to_owned())),
    }
}

fn push_content(
    content: &RawValue,
    role: Role,
    calls: &mut OpenToolCalls,
    blocks: &mut Vec<Block>,
) {
    if let Ok(text) = serde_json::from_str::<BorrowedText<'_>>(content.get()) {
        return push_text_block(text.as_borrowed_str(), role, blocks);
    }
    let Ok(parts) = serde_json::from_str::<Vec<&RawValue>>(content.get()) else {
        return blocks.push(Block::Other(Json::from(content)));
    };
    for raw in parts {
        match json::parse_json::<CursorMessagePart<'_>>(raw.get()) {
            Some(part) => part.push_message_part(raw, role, calls, blocks),
            None => match serde_json::from_str::<BorrowedText<'_>>(raw.get()) {
                Ok(text) => push_text_block(text.as_borrowed_str(), role, blocks),
                Err(_) => blocks.push(Block::Other(Json::from(raw))),
            },
        }
    }
}

impl CursorMessagePart<'_> {
    fn push_message_part(
        self,
        raw: &RawValue,
        role: Role,
        calls: &mut OpenToolCalls,
        blocks: &mut Vec<Block>,
    ) {
        let kind = self.kind.as_ref().map(|kind| kind.as_borrowed_str().replace('-', "_"));
        match kind.as_deref().unwrap_or_default() {
            "text" | "input_text" | "output_text" => {
                push_text_block(
                    self.text.as_ref().map_or("", BorrowedText::as_borrowed_str),
                    role,
                    blocks,
                );
            }
            "thinking" | "reasoning" => {
                let text =
                    self.thinking.or(self.text).map(BorrowedText::into_owned).unwrap_or_default();
                if !text.trim().is_empty() && text != "[REDACTED]" {
                    blocks.push(Block::Thinking(text));
                }
            }
            // Only the model's provider can read the content.
            "redacted_reasoning" | "redacted_thinking" => {}
            "tool_use" | "tool_call" => self.push_call(calls, blocks),
            "tool_result" => self.push_part_result(calls, blocks),
            "image" => blocks.push(Block::Image(Image {
                media_type: self.media_type.map(BorrowedText::into_owned),
                location: self.path.map(BorrowedText::into_owned),
                ..Image::default()
            })),
            _ => blocks.push(Block::Other(Json::from(raw))),
        }
    }

    fn push_call(self, calls: &mut OpenToolCalls, blocks: &mut Vec<Block>) {
        let name = self.name.or(self.tool_name).map(BorrowedText::into_owned).unwrap_or_default();
        let id = self.call_id.or(self.id).map(BorrowedText::into_owned).filter(|id| !id.is_empty());
        let input = self.input.or(self.args).map_or_else(|| Json::from_value(&()), Json::from);
        let id = calls.add_tool_call(&name, id);
        blocks.push(Block::ToolCall { id, name, input });
    }

    fn push_part_result(self, calls: &mut OpenToolCalls, blocks: &mut Vec<Block>) {
        let name = self.name.or(self.tool_name).map(BorrowedText::into_owned).unwrap_or_default();
        let id = self.use_id.or(self.call_id).or(self.id).map(BorrowedText::into_owned);
        let call_id = calls.take_tool_call_id(&name, id.filter(|id| !id.is_empty()));
        let output = match self.result.or(self.output).or(self.content) {
            Some(raw) => result_as_text(raw),
            None => self.text.map(BorrowedText::into_owned).unwrap_or_default(),
        };
        let is_error = self.is_error.or(self.is_error_camel);
        blocks.push(Block::ToolResult { call_id, output, is_error });
    }
}

/// Returns a result as text: a string, the texts of its parts, or any other JSON as written.
fn result_as_text(raw: &RawValue) -> String {
    #[derive(Deserialize)]
    struct TextPiece {
        text: String,
    }
    match serde_json::from_str::<Vec<TextPiece>>(raw.get()) {
        Ok(pieces) if !pieces.is_empty() => {
            pieces.into_iter().map(|piece| piece.text).collect::<Vec<_>>().join("\n")
        }
        _ => json_string_or_raw(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_answer_calls_of_their_name_in_order() {
        let mut calls = OpenToolCalls::default();
        let ids: Vec<String> =
            ["Read", "Shell", "Read"].iter().map(|name| calls.add_tool_call(name, None)).collect();
        assert_eq!(calls.take_tool_call_id("Shell", None), ids[1]);
        assert_eq!(calls.take_tool_call_id("Read", None), ids[0]);
        assert_eq!(calls.take_tool_call_id("", None), ids[2]);
        assert_eq!(calls.take_tool_call_id("Read", None), "result-4");
        calls.add_tool_call("Read", Some("own".into()));
        assert_eq!(calls.take_tool_call_id("Read", Some("own".into())), "own");
    }
}
