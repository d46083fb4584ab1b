//! Conversations of chatgpt.com: `conversations.json`, a list of conversations, each with a tree of
//! messages. `docs/formats/chatgpt.md` describes the format.

use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;

use super::{WebChat, keep_attachments, non_empty, order_branches, raw_message};
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Block, Image, Json, Message, Origin, Role, Session, Timestamp, TitleRank};

const AGENT: &str = "chatgpt";

lenient! {
    struct ChatGptConversation<'a> {
        "conversation_id" conversation_id: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "title" title: Option<BorrowedText<'a>>,
        "create_time" created_at: Option<f64>,
        "update_time" updated_at: Option<f64>,
        "current_node" current_node: Option<BorrowedText<'a>>,
        "gizmo_id" custom_gpt: Option<BorrowedText<'a>>,
        "mapping" mapping: Option<BTreeMap<String, &'a RawValue>>,
    }
}

lenient! {
    struct ChatGptNode<'a> {
        "parent" parent: Option<BorrowedText<'a>>,
        "message" message: Option<&'a RawValue>,
    }
}

lenient! {
    struct ChatGptMessage<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "author" author: Option<ChatGptAuthor<'a>>,
        "create_time" created_at: Option<f64>,
        "recipient" recipient: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "metadata" metadata: Option<ChatGptMetadata<'a>>,
    }
}

lenient! {
    struct ChatGptAuthor<'a> {
        "role" role: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct ChatGptMetadata<'a> {
        "model_slug" model: Option<BorrowedText<'a>>,
        "request_id" request_id: Option<BorrowedText<'a>>,
        "finish_details" finish: Option<ChatGptFinish<'a>>,
        "aggregate_result" run: Option<ChatGptRun<'a>>,
        "attachments" attachments: Option<Vec<&'a RawValue>>,
        "is_visually_hidden_from_conversation" is_hidden: Option<bool>,
        "is_user_system_message" is_instruction: Option<bool>,
    }
}

lenient! {
    struct ChatGptFinish<'a> {
        "type" reason: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// A run of the code interpreter.
    struct ChatGptRun<'a> {
        "status" status: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The content of a message. Each type of content uses some of the fields.
    struct ChatGptContent<'a> {
        "content_type" kind: Option<BorrowedText<'a>>,
        "parts" parts: Option<Vec<&'a RawValue>>,
        "text" text: Option<BorrowedText<'a>>,
        "result" result: Option<BorrowedText<'a>>,
        "content" content: Option<BorrowedText<'a>>,
        "thoughts" thoughts: Option<Vec<ChatGptThought<'a>>>,
        "title" title: Option<BorrowedText<'a>>,
        "url" url: Option<BorrowedText<'a>>,
        "user_profile" profile: Option<BorrowedText<'a>>,
        "user_instructions" instructions: Option<BorrowedText<'a>>,
        "model_set_context" context: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct ChatGptThought<'a> {
        "summary" summary: Option<BorrowedText<'a>>,
        "content" content: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// A part of a content with several types: an image, or the transcript of speech.
    struct ChatGptPart<'a> {
        "content_type" kind: Option<BorrowedText<'a>>,
        "asset_pointer" location: Option<BorrowedText<'a>>,
        "size_bytes" bytes: Option<u64>,
        "text" text: Option<BorrowedText<'a>>,
    }
}

/// Converts a conversation. Returns `None` if it has no id.
pub(super) fn read_conversation(text: &str) -> Option<WebChat> {
    let conversation = json::parse_json::<ChatGptConversation<'_>>(text)?;
    let id = non_empty(conversation.conversation_id).or_else(|| non_empty(conversation.id))?;
    let mut session = Session::new(AGENT, id);
    if let Some(title) = conversation.title {
        session.add_title(TitleRank::Generated, title.into_owned());
    }
    session.extend_time_span(conversation.created_at.and_then(time_of_seconds));
    session.extend_time_span(conversation.updated_at.and_then(time_of_seconds));
    if let Some(custom_gpt) = non_empty(conversation.custom_gpt) {
        session.extensions.insert("gizmo_id".to_owned(), Json::from_value(&custom_gpt));
    }
    let mapping = conversation.mapping.unwrap_or_default();
    let leaf = conversation.current_node.as_ref().map(BorrowedText::as_borrowed_str);
    Some(WebChat { session, messages: read_tree(&mapping, leaf) })
}

/// A node of the tree.
struct TreeNode<'a> {
    id: &'a str,
    parent: Option<BorrowedText<'a>>,
    message: Option<ChatGptMessage<'a>>,
    /// The node, if its message was not understood.
    unread: Option<&'a RawValue>,
}

impl TreeNode<'_> {
    /// Returns when the message was recorded, for the order of branches.
    fn seconds(&self) -> f64 {
        self.message.as_ref().and_then(|message| message.created_at).unwrap_or_default()
    }
}

/// Converts the messages of a tree. A message follows the nearest ancestor that is a message.
fn read_tree(mapping: &BTreeMap<String, &RawValue>, leaf: Option<&str>) -> Vec<Message> {
    let mut nodes: Vec<TreeNode<'_>> = mapping.iter().map(|(id, raw)| read_node(id, raw)).collect();
    nodes.sort_by(|one, other| one.seconds().total_cmp(&other.seconds()));
    let places: HashMap<&str, usize> =
        nodes.iter().enumerate().map(|(place, node)| (node.id, place)).collect();
    let place = |id: &str| places.get(id).copied();
    let parents: Vec<Option<usize>> =
        nodes.iter().map(|node| place(node.parent.as_ref()?.as_borrowed_str())).collect();
    let order = order_branches(&parents, leaf.and_then(place));
    // For each node: the message that its children follow, and the tool call that they may answer.
    let mut followed: Vec<Option<String>> = vec![None; nodes.len()];
    let mut open_calls: Vec<Option<String>> = vec![None; nodes.len()];
    let mut messages = Vec::new();
    let mut nodes: Vec<Option<TreeNode<'_>>> = nodes.into_iter().map(Some).collect();
    for place in order {
        let Some(node) = nodes[place].take() else { continue };
        let parent = parents[place].and_then(|parent| followed[parent].clone());
        let open_call = parents[place].and_then(|parent| open_calls[parent].clone());
        let made = match (node.message, node.unread) {
            (Some(message), _) => convert_message(message, node.id, open_call.as_deref()),
            (None, Some(raw)) => {
                Some(Message { uuid: Some(node.id.to_owned()), ..raw_message(raw) })
            }
            (None, None) => None,
        };
        let Some(mut message) = made else {
            (followed[place], open_calls[place]) = (parent, open_call);
            continue;
        };
        let call = message.blocks.iter().find_map(|block| match block {
            Block::ToolCall { id, .. } => Some(id.clone()),
            _ => None,
        });
        open_calls[place] = call.or(open_call.filter(|_| message.role == Role::Tool));
        followed[place].clone_from(&message.uuid);
        message.parent = parent;
        messages.push(message);
    }
    messages
}

fn read_node<'a>(id: &'a str, raw: &'a RawValue) -> TreeNode<'a> {
    let Some(node) = json::parse_json::<ChatGptNode<'_>>(raw.get()) else {
        return TreeNode { id, parent: None, message: None, unread: Some(raw) };
    };
    let parsed = node.message.map(|raw| json::parse_json::<ChatGptMessage<'_>>(raw.get()));
    let unread = node.message.filter(|_| matches!(parsed, Some(None)));
    TreeNode { id, parent: node.parent, message: parsed.flatten(), unread }
}

/// Converts a message. Returns `None` if it has no content.
fn convert_message(
    message: ChatGptMessage<'_>,
    node_id: &str,
    open_call: Option<&str>,
) -> Option<Message> {
    let id = non_empty(message.id).unwrap_or_else(|| node_id.to_owned());
    let author = message.author.and_then(|author| author.role);
    let author = author.as_ref().map_or("", |role| role.as_borrowed_str());
    let metadata = message.metadata.unwrap_or_default();
    let content =
        message.content.map(|raw| (raw, json::parse_json::<ChatGptContent<'_>>(raw.get())));
    let kind = content.as_ref().and_then(|(_, content)| content.as_ref()?.kind.as_ref());
    let kind = kind.map_or(String::new(), |kind| kind.as_borrowed_str().to_owned());
    let blocks = content.map_or_else(Vec::new, |(raw, content)| content_blocks(raw, content));
    let attachments: Vec<Json> =
        metadata.attachments.unwrap_or_default().into_iter().map(Json::from).collect();
    if blocks.is_empty() && attachments.is_empty() {
        return None;
    }
    let is_put_in = metadata.is_hidden == Some(true)
        || metadata.is_instruction == Some(true)
        || kind.ends_with("_editable_context");
    let recipient =
        message.recipient.as_ref().map_or("all", |recipient| recipient.as_borrowed_str());
    let mut made = Message {
        uuid: Some(id.clone()),
        at: message.created_at.and_then(time_of_seconds),
        request_id: non_empty(metadata.request_id),
        ..Message::default()
    };
    (made.role, made.origin, made.blocks) = match author {
        "user" if is_put_in => (Role::User, Origin::Injected, blocks),
        "user" => (Role::User, Origin::Human, blocks),
        "assistant" if recipient != "all" => {
            let call = call_block(id, recipient, &kind, blocks);
            (Role::Assistant, Origin::Assistant, call)
        }
        "assistant" => (Role::Assistant, Origin::Assistant, blocks),
        "tool" => {
            let status = metadata.run.and_then(|run| run.status);
            let status = status.as_ref().map_or("", |status| status.as_borrowed_str());
            let is_error = match (kind.as_str(), status) {
                ("system_error", _) => Some(true),
                (_, "success") => Some(false),
                (_, status) => status.starts_with("failed").then_some(true),
            };
            (Role::Tool, Origin::Tool, result_blocks(open_call.unwrap_or(&id), is_error, blocks))
        }
        _ => (Role::System, Origin::System, blocks),
    };
    if made.role == Role::Assistant {
        made.model = non_empty(metadata.model);
        made.stop_reason = metadata.finish.and_then(|finish| non_empty(finish.reason));
    }
    keep_attachments(&attachments, &mut made.extensions);
    Some(made)
}

/// Converts the content of a message to blocks. Empty texts become none.
fn content_blocks(raw: &RawValue, content: Option<ChatGptContent<'_>>) -> Vec<Block> {
    let Some(content) = content else { return vec![Block::Other(Json::from(raw))] };
    let kind = content.kind.as_ref().map_or("", |kind| kind.as_borrowed_str());
    if kind == "reasoning_recap" {
        return non_empty(content.content).map(Block::Thinking).into_iter().collect();
    }
    if let Some(thoughts) = content.thoughts {
        let texts = thoughts.into_iter().map(|thought| {
            let parts = [non_empty(thought.summary), non_empty(thought.content)];
            parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
        });
        return texts.filter(|text| !text.is_empty()).map(Block::Thinking).collect();
    }
    if let Some(parts) = content.parts {
        return parts.into_iter().filter_map(part_block).collect();
    }
    let is_known = content.text.is_some() || content.result.is_some() || content.context.is_some();
    let is_known = is_known || content.profile.is_some() || content.instructions.is_some();
    let texts = [
        content.title,
        content.url,
        content.text,
        content.result,
        content.profile,
        content.instructions,
        content.context,
    ];
    if !is_known {
        return vec![Block::Other(Json::from(raw))];
    }
    let texts: Vec<String> = texts.into_iter().filter_map(non_empty).collect();
    if texts.is_empty() { Vec::new() } else { vec![Block::Text(texts.join("\n\n"))] }
}

/// Converts a part of a content: a text, an image or a transcript of speech.
fn part_block(raw: &RawValue) -> Option<Block> {
    if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
        return Some(text).filter(|text| !text.trim().is_empty()).map(Block::Text);
    }
    let part = json::parse_json::<ChatGptPart<'_>>(raw.get()).unwrap_or_default();
    let kind = part.kind.as_ref().map_or("", |kind| kind.as_borrowed_str());
    Some(match kind {
        "image_asset_pointer" => {
            let (bytes, location) = (part.bytes.unwrap_or_default(), non_empty(part.location));
            Block::Image(Image { bytes, location, ..Image::default() })
        }
        "audio_transcription" if part.text.is_some() => Block::Text(non_empty(part.text)?),
        _ => Block::Other(Json::from(raw)),
    })
}

/// Converts the text that the model sent to a tool. A JSON object becomes the input as it is.
fn call_block(id: String, tool: &str, kind: &str, blocks: Vec<Block>) -> Vec<Block> {
    let (texts, mut others): (Vec<Block>, Vec<Block>) =
        blocks.into_iter().partition(|block| matches!(block, Block::Text(_)));
    let text = join_texts(texts);
    let object = Some(&text).filter(|text| text.trim_start().starts_with('{'));
    let input = object.and_then(|text| Json::from_text(text.clone())).unwrap_or_else(|| {
        let field = if kind == "code" { "code" } else { "input" };
        Json::from_value(&BTreeMap::from([(field, &text)]))
    });
    others.push(Block::ToolCall { id, name: tool.to_owned(), input });
    others
}

/// Joins the texts of a tool's message to the result of a call; other blocks follow it.
fn result_blocks(call: &str, is_error: Option<bool>, blocks: Vec<Block>) -> Vec<Block> {
    let (texts, others): (Vec<Block>, Vec<Block>) =
        blocks.into_iter().partition(|block| matches!(block, Block::Text(_)));
    let output = join_texts(texts);
    let result = Block::ToolResult { call_id: call.to_owned(), output, is_error };
    std::iter::once(result).chain(others).collect()
}

fn join_texts(blocks: Vec<Block>) -> String {
    let texts = blocks.into_iter().filter_map(|block| match block {
        Block::Text(text) => Some(text),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

fn time_of_seconds(seconds: f64) -> Option<Timestamp> {
    Timestamp::from_millis((seconds * 1000.0).round() as i64)
}
