//! Conversations of claude.ai: `conversations.json`, a list of conversations, each with a list of
//! messages. `docs/formats/claude-web.md` describes the format.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;
use serde_json::value::RawValue;

use super::{WebChat, keep_attachments, non_empty, order_branches, raw_message};
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Block, Json, Message, Origin, Role, Session, Timestamp, TitleRank};

const AGENT: &str = "claude-web";

lenient! {
    struct ClaudeWebConversation<'a> {
        "uuid" uuid: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "summary" summary: Option<BorrowedText<'a>>,
        "model" model: Option<BorrowedText<'a>>,
        "created_at" created_at: Option<BorrowedText<'a>>,
        "updated_at" updated_at: Option<BorrowedText<'a>>,
        "current_leaf_message_uuid" current_leaf: Option<BorrowedText<'a>>,
        "chat_messages" messages: Option<Vec<&'a RawValue>>,
    }
}

lenient! {
    struct ClaudeWebMessage<'a> {
        "uuid" uuid: Option<BorrowedText<'a>>,
        "parent_message_uuid" parent: Option<BorrowedText<'a>>,
        "sender" sender: Option<BorrowedText<'a>>,
        "created_at" created_at: Option<BorrowedText<'a>>,
        "model" model: Option<BorrowedText<'a>>,
        "stop_reason" stop_reason: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "content" content: Option<Vec<&'a RawValue>>,
        "attachments" attachments: Option<Vec<ClaudeWebAttachment<'a>>>,
        "files" files: Option<Vec<ClaudeWebAttachment<'a>>>,
        "files_v2" newer_files: Option<Vec<ClaudeWebAttachment<'a>>>,
    }
}

lenient! {
    struct ClaudeWebBlock<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "thinking" thinking: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "input" input: Option<&'a RawValue>,
        "tool_use_id" tool_use_id: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "is_error" is_error: Option<bool>,
        "start_timestamp" started_at: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct ClaudeWebAttachment<'a> {
        "file_name" name: Option<BorrowedText<'a>>,
        "file_type" kind: Option<BorrowedText<'a>>,
        "file_size" size: Option<u64>,
        "file_uuid" uuid: Option<BorrowedText<'a>>,
        "extracted_content" content: Option<BorrowedText<'a>>,
    }
}

/// An attachment as it is kept.
#[derive(Serialize)]
struct KeptFile {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

/// Converts a conversation. Returns `None` if it has no id.
pub(super) fn read_conversation(text: &str) -> Option<WebChat> {
    let conversation = json::parse_json::<ClaudeWebConversation<'_>>(text)?;
    let mut session = Session::new(AGENT, non_empty(conversation.uuid)?);
    if let Some(name) = conversation.name {
        session.add_title(TitleRank::Generated, name.into_owned());
    }
    if let Some(summary) = non_empty(conversation.summary) {
        session.documents.push(("summary".to_owned(), summary));
    }
    session.model = non_empty(conversation.model);
    session.extend_time_span(parse_time(conversation.created_at.as_ref()));
    session.extend_time_span(parse_time(conversation.updated_at.as_ref()));
    let mut reader = ClaudeWebReader::default();
    for raw in conversation.messages.unwrap_or_default() {
        match json::parse_json::<ClaudeWebMessage<'_>>(raw.get()) {
            Some(message) => reader.read_message(message),
            None => reader.messages.push(raw_message(raw)),
        }
    }
    let leaf = conversation.current_leaf.as_ref().map(BorrowedText::as_borrowed_str);
    let messages = reader.into_ordered_messages(leaf);
    Some(WebChat { session, messages })
}

/// The conversion of the messages of one conversation. A recorded message becomes several if it
/// contains results of tools.
#[derive(Default)]
struct ClaudeWebReader {
    messages: Vec<Message>,
    /// The last message made of each recorded message, by the recorded id.
    last_parts: HashMap<String, String>,
    /// Tool calls without a result so far.
    open_calls: VecDeque<String>,
}

/// A part of a recorded message that becomes a message of its own.
struct MessagePart {
    is_result: bool,
    at: Option<Timestamp>,
    blocks: Vec<Block>,
}

impl ClaudeWebReader {
    fn read_message(&mut self, message: ClaudeWebMessage<'_>) {
        let uuid = non_empty(message.uuid);
        let at = parse_time(message.created_at.as_ref());
        let sender = message.sender.as_ref().map_or("", |sender| sender.as_borrowed_str());
        let (role, origin) = match sender {
            "human" => (Role::User, Origin::Human),
            "assistant" => (Role::Assistant, Origin::Assistant),
            _ => (Role::System, Origin::System),
        };
        let mut parts = self.read_parts(message.content.unwrap_or_default(), uuid.as_deref());
        let is_empty = parts.iter().all(|part| part.blocks.is_empty());
        if let Some(text) = non_empty(message.text).filter(|_| is_empty) {
            parts =
                vec![MessagePart { is_result: false, at: None, blocks: vec![Block::Text(text)] }];
        }
        // The parent of a first message is a placeholder.
        let parent = message.parent.and_then(|id| self.last_parts.get(id.as_borrowed_str()));
        let mut parent = parent.cloned();

        let mut files: Vec<KeptFile> = Vec::new();
        let listed = [message.attachments, message.files, message.newer_files];
        for (place, attachment) in listed.into_iter().flatten().flatten().enumerate() {
            let name = non_empty(attachment.name);
            let content = non_empty(attachment.content);
            let Some(name) = name.or_else(|| non_empty(attachment.uuid)) else {
                // A long text that the person pasted becomes an attachment without a name.
                if let Some(pasted) = content {
                    first_part(&mut parts).blocks.push(Block::Text(pasted));
                }
                continue;
            };
            if let Some(content) = content {
                let uuid = uuid.as_ref().map(|uuid| format!("{uuid}.file-{}", place + 1));
                let follows = parent.take();
                parent.clone_from(&uuid);
                self.messages.push(Message {
                    uuid,
                    parent: follows,
                    role: Role::User,
                    origin: Origin::Injected,
                    at,
                    blocks: vec![Block::Text(format!("{name}\n\n{content}"))],
                    ..Message::default()
                });
            }
            // Two lists may name the same file.
            if files.iter().all(|known| known.name != name) {
                let kind = non_empty(attachment.kind);
                files.push(KeptFile { name, r#type: kind, size: attachment.size });
            }
        }

        let files: Vec<Json> = files.iter().map(Json::from_value).collect();
        first_part(&mut parts);
        let count = parts.len();
        for (place, part) in parts.into_iter().enumerate() {
            let id = uuid.as_ref().map(|uuid| match place {
                0 => uuid.clone(),
                _ => format!("{uuid}.{}", place + 1),
            });
            let (role, origin) =
                if part.is_result { (Role::Tool, Origin::Tool) } else { (role, origin) };
            let mut made = Message {
                uuid: id.clone(),
                parent: parent.take(),
                role,
                origin,
                at: part.at.filter(|_| place > 0).or(at),
                blocks: part.blocks,
                ..Message::default()
            };
            if role == Role::Assistant {
                made.model = message.model.as_ref().map(|model| model.as_borrowed_str().to_owned());
            }
            if place == 0 {
                keep_attachments(&files, &mut made.extensions);
            }
            if place + 1 == count {
                let reason = message.stop_reason.as_ref();
                made.stop_reason = reason.map(|reason| reason.as_borrowed_str().to_owned());
            }
            self.messages.push(made);
            parent = id;
        }
        if let (Some(uuid), Some(last)) = (uuid, parent) {
            self.last_parts.insert(uuid, last);
        }
    }

    /// Converts the blocks of a message. A result of a tool begins a part, and so does a block after
    /// a result.
    fn read_parts(&mut self, content: Vec<&RawValue>, uuid: Option<&str>) -> Vec<MessagePart> {
        let mut parts: Vec<MessagePart> = Vec::new();
        for (place, raw) in content.into_iter().enumerate() {
            let block = json::parse_json::<ClaudeWebBlock<'_>>(raw.get());
            let kind = block.as_ref().and_then(|block| block.kind.as_ref());
            let is_result = kind.is_some_and(|kind| kind.as_borrowed_str() == "tool_result");
            let at = block.as_ref().and_then(|block| parse_time(block.started_at.as_ref()));
            let Some(block) =
                self.read_block(block, raw, &format!("{}-{place}", uuid.unwrap_or("")))
            else {
                continue;
            };
            match parts.last_mut() {
                Some(part) if part.is_result == is_result => part.blocks.push(block),
                _ => parts.push(MessagePart { is_result, at, blocks: vec![block] }),
            }
        }
        parts
    }

    /// Converts a block. Returns `None` if it has no content.
    fn read_block(
        &mut self,
        block: Option<ClaudeWebBlock<'_>>,
        raw: &RawValue,
        own_id: &str,
    ) -> Option<Block> {
        let Some(block) = block else { return Some(Block::Other(Json::from(raw))) };
        let kind = block.kind.as_ref().map_or("", |kind| kind.as_borrowed_str());
        match kind {
            "text" if block.text.is_some() => non_empty(block.text).map(Block::Text),
            "thinking" if block.thinking.is_some() => {
                non_empty(block.thinking).map(Block::Thinking)
            }
            "tool_use" => {
                let id = non_empty(block.id).unwrap_or_else(|| own_id.to_owned());
                self.open_calls.push_back(id.clone());
                let name = non_empty(block.name).unwrap_or_default();
                let empty = || Json::from_value(&serde_json::Map::new());
                Some(Block::ToolCall {
                    id,
                    name,
                    input: block.input.map_or_else(empty, Json::from),
                })
            }
            "tool_result" => {
                let id = non_empty(block.tool_use_id).or_else(|| self.open_calls.front().cloned());
                let call_id = id.unwrap_or_default();
                self.open_calls.retain(|open| *open != call_id);
                let output = block.content.map(result_text).unwrap_or_default();
                Some(Block::ToolResult { call_id, output, is_error: block.is_error })
            }
            // Budgets of the model; never any content.
            "token_budget" => None,
            _ => Some(Block::Other(Json::from(raw))),
        }
    }

    /// Returns the messages, with the branch that ends at a recorded message last: the conversation
    /// continues from there.
    fn into_ordered_messages(self, leaf: Option<&str>) -> Vec<Message> {
        let leaf = leaf.and_then(|leaf| self.last_parts.get(leaf));
        let Some(leaf) = leaf else { return self.messages };
        let ids = self.messages.iter().map(|message| message.uuid.as_deref());
        let places: HashMap<&str, usize> =
            ids.enumerate().filter_map(|(place, id)| Some((id?, place))).collect();
        let place = |id: &str| places.get(id).copied();
        let parents: Vec<Option<usize>> =
            self.messages.iter().map(|message| place(message.parent.as_deref()?)).collect();
        let order = order_branches(&parents, place(leaf));
        let mut messages: Vec<Option<Message>> = self.messages.into_iter().map(Some).collect();
        order.into_iter().filter_map(|place| messages[place].take()).collect()
    }
}

/// Returns the first part of a message, and adds one if there is none.
fn first_part(parts: &mut Vec<MessagePart>) -> &mut MessagePart {
    if parts.is_empty() {
        parts.push(MessagePart { is_result: false, at: None, blocks: Vec::new() });
    }
    &mut parts[0]
}

/// Returns the text of a tool's result: a string, or a list of blocks.
fn result_text(raw: &RawValue) -> String {
    if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
        return text;
    }
    let blocks = json::array_elements(raw).unwrap_or_default();
    let texts = blocks.into_iter().map(|raw| {
        let block = json::parse_json::<ClaudeWebBlock<'_>>(raw.get());
        let text = block.and_then(|block| block.text).map(BorrowedText::into_owned);
        text.unwrap_or_else(|| raw.get().to_owned())
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    if text.is_empty() && raw.get() != "[]" { raw.get().to_owned() } else { text }
}

fn parse_time(text: Option<&BorrowedText<'_>>) -> Option<Timestamp> {
    Timestamp::parse_iso_time(text?.as_borrowed_str())
}
