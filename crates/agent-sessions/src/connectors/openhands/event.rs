//! One event of a conversation.

use serde_json::value::RawValue;

use super::state::StateCalls;
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::model::{Block, Image, Json, Message, Origin, Role, Timestamp};

lenient! {
    /// An event. Its kind decides which fields it has.
    struct OpenHandsEvent<'a> {
        "kind" kind: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "parent_id" parent: Option<BorrowedText<'a>>,
        "timestamp" time: Option<BorrowedText<'a>>,
        "source" source: Option<BorrowedText<'a>>,
        "llm_response_id" response_id: Option<BorrowedText<'a>>,
        "llm_message" message: Option<OpenHandsMessage<'a>>,
        "extended_content" added: Option<Vec<&'a RawValue>>,
        "thought" thought: Option<Vec<&'a RawValue>>,
        "reasoning_content" reasoning: Option<BorrowedText<'a>>,
        "thinking_blocks" thinking: Option<Vec<OpenHandsThinking<'a>>>,
        "tool_name" tool: Option<BorrowedText<'a>>,
        "tool_call_id" call_id: Option<BorrowedText<'a>>,
        "tool_call" call: Option<OpenHandsCall<'a>>,
        "observation" observation: Option<OpenHandsObservation<'a>>,
        "rejection_reason" rejection: Option<BorrowedText<'a>>,
        "error" error: Option<BorrowedText<'a>>,
        "summary" summary: Option<BorrowedText<'a>>,
        "code" code: Option<BorrowedText<'a>>,
        "detail" detail: Option<BorrowedText<'a>>,
        "title" title: Option<BorrowedText<'a>>,
        "status" status: Option<BorrowedText<'a>>,
        "raw_input" raw_input: Option<&'a RawValue>,
        "raw_output" raw_output: Option<&'a RawValue>,
        "is_error" is_error: Option<bool>,
    }
}

lenient! {
    struct OpenHandsMessage<'a> {
        "content" content: Option<Vec<&'a RawValue>>,
        "reasoning_content" reasoning: Option<BorrowedText<'a>>,
        "thinking_blocks" thinking: Option<Vec<OpenHandsThinking<'a>>>,
    }
}

lenient! {
    struct OpenHandsThinking<'a> {
        "thinking" thinking: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct OpenHandsCall<'a> {
        "name" name: Option<BorrowedText<'a>>,
        "arguments" arguments: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The output of a tool. That of the terminal has an exit code.
    struct OpenHandsObservation<'a> {
        "content" content: Option<Vec<&'a RawValue>>,
        "is_error" is_error: Option<bool>,
        "exit_code" exit_code: Option<f64>,
        "metadata" metadata: Option<OpenHandsTerminal>,
    }
}

lenient! {
    struct OpenHandsTerminal {
        "exit_code" exit_code: Option<f64>,
    }
}

lenient! {
    /// A part of a content: a text, or images.
    struct OpenHandsPart<'a> {
        "text" text: Option<BorrowedText<'a>>,
        "image_urls" images: Option<Vec<BorrowedText<'a>>>,
    }
}

/// Events that hold state of the program, not conversation.
const STATE: &[&str] = &[
    "CondensationRequest",
    "ConversationStateUpdateEvent",
    "LLMCompletionLogEvent",
    "PauseEvent",
    "StreamingDeltaEvent",
    "SystemPromptEvent",
    "TokenEvent",
];

/// The exit code of a command that is still running.
const STILL_RUNNING: f64 = -1.0;

/// The parent of an event without one.
const ROOT: &str = "__root__";

/// The outcome of converting an event.
pub(super) enum ConvertedEvent {
    Messages(Vec<Message>),
    /// An event without content for the journal.
    PassedOver(PassedEvent),
    /// An event of an unknown kind.
    Unknown(Box<Message>),
}

/// An event without content for the journal. Events that follow it follow its parent.
pub(super) struct PassedEvent {
    pub(super) id: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) reason: String,
}

impl ConvertedEvent {
    fn passed_over(message: Message, reason: String) -> Self {
        Self::PassedOver(PassedEvent { id: message.uuid, parent: message.parent, reason })
    }
}

/// Converts an event.
pub(super) fn convert_event(raw: &RawValue, calls: &mut StateCalls) -> Option<ConvertedEvent> {
    let mut event = json::parse_json::<OpenHandsEvent<'_>>(raw.get())?;
    let kind = owned(event.kind.take()).unwrap_or_default();
    let time = event.time.take();
    let mut message = Message {
        uuid: owned(event.id.take()),
        parent: owned(event.parent.take()).filter(|parent| parent != ROOT),
        at: time.and_then(|time| parse_local_time(time.as_borrowed_str())),
        ..Message::default()
    };
    let mut further = None;
    match kind.as_str() {
        "MessageEvent" => further = fill_message(&mut event, &mut message),
        "ActionEvent" => fill_action(&mut event, &mut message),
        "ObservationEvent" => {
            fill_observation(&mut event, &mut message);
            further = added_text(event.added.take(), &message);
        }
        "UserRejectObservation" => {
            let output = owned(event.rejection.take()).unwrap_or_default();
            fill_result(&mut event, &mut message, output, Some(true));
        }
        "AgentErrorEvent" => {
            let output = owned(event.error.take()).unwrap_or_default();
            fill_result(&mut event, &mut message, output, Some(true));
        }
        "ACPToolCallEvent" => fill_foreign_call(&mut event, &mut message),
        "Condensation" => {
            (message.role, message.origin) = (Role::User, Origin::Summary);
            message.blocks.extend(owned(event.summary.take()).map(Block::Text));
        }
        "ConversationErrorEvent" | "InterruptEvent" => {
            message.failed = true;
            let parts = [owned(event.code.take()), owned(event.detail.take())];
            let text = parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
            let text = if text.is_empty() { kind.clone() } else { text };
            message.blocks.push(Block::Text(text));
        }
        state if STATE.contains(&state) => {
            return Some(ConvertedEvent::passed_over(message, kind));
        }
        _ => {
            message.blocks.push(Block::Other(Json::from(raw)));
            return Some(ConvertedEvent::Unknown(Box::new(message)));
        }
    }
    if let Some(id) = owned(event.response_id.take()) {
        // Of several actions in one response the first one has its figures.
        if let Some(call) = calls.take_call(&id) {
            (message.model, message.usage) = (call.model, Some(call.usage));
        }
        message.api_id = Some(id);
    }
    if message.blocks.is_empty() && message.usage.is_none() && further.is_none() {
        let reason = "an event without content".to_owned();
        return Some(ConvertedEvent::passed_over(message, reason));
    }
    Some(ConvertedEvent::Messages([Some(message), further].into_iter().flatten().collect()))
}

fn owned(text: Option<BorrowedText<'_>>) -> Option<String> {
    text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
}

/// Parses a time, which has no zone in most versions.
fn parse_local_time(text: &str) -> Option<Timestamp> {
    Timestamp::parse_iso_time(text).or_else(|| Timestamp::parse_iso_time(&format!("{text}Z")))
}

/// Fills a prompt or a reply. Returns the text that the program added to a prompt.
fn fill_message(event: &mut OpenHandsEvent<'_>, message: &mut Message) -> Option<Message> {
    let source = owned(event.source.take()).unwrap_or_default();
    (message.role, message.origin) = match source.as_str() {
        "agent" => (Role::Assistant, Origin::Assistant),
        "environment" | "hook" => (Role::User, Origin::Injected),
        _ => (Role::User, Origin::Human),
    };
    if let Some(parsed) = event.message.take() {
        push_reasoning(parsed.reasoning, parsed.thinking, &mut message.blocks);
        push_parts(parsed.content, &mut message.blocks);
    }
    added_text(event.added.take(), message)
}

/// Returns the text that the program added to a message.
fn added_text(added: Option<Vec<&RawValue>>, message: &Message) -> Option<Message> {
    let mut blocks = Vec::new();
    push_parts(added, &mut blocks);
    let (role, origin) = (Role::User, Origin::Injected);
    let added = Message { role, origin, at: message.at, blocks, ..Message::default() };
    (!added.blocks.is_empty()).then_some(added)
}

fn fill_action(event: &mut OpenHandsEvent<'_>, message: &mut Message) {
    (message.role, message.origin) = (Role::Assistant, Origin::Assistant);
    push_reasoning(event.reasoning.take(), event.thinking.take(), &mut message.blocks);
    push_parts(event.thought.take(), &mut message.blocks);
    let call = event.call.take().unwrap_or_default();
    let arguments = owned(call.arguments).unwrap_or_default();
    let parsed = serde_json::from_str::<&RawValue>(&arguments).map(Json::from);
    message.blocks.push(Block::ToolCall {
        id: owned(event.call_id.take()).unwrap_or_default(),
        name: owned(event.tool.take().or(call.name)).unwrap_or_default(),
        input: parsed.unwrap_or_else(|_| Json::from_value(&arguments)),
    });
}

fn fill_observation(event: &mut OpenHandsEvent<'_>, message: &mut Message) {
    let observation = event.observation.take().unwrap_or_default();
    let code = observation.metadata.and_then(|metadata| metadata.exit_code);
    let code = observation.exit_code.or(code).filter(|code| *code != STILL_RUNNING);
    let has_failed = code.is_some_and(|code| code != 0.0);
    let is_error = observation.is_error.map(|is_error| is_error || has_failed);
    let mut blocks = Vec::new();
    push_parts(observation.content, &mut blocks);
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    for block in blocks {
        match block {
            Block::Text(text) => texts.push(text),
            other => others.push(other),
        }
    }
    let is_error = is_error.or(has_failed.then_some(true));
    fill_result(event, message, texts.join("\n"), is_error);
    message.blocks.append(&mut others);
}

fn fill_result(
    event: &mut OpenHandsEvent<'_>,
    message: &mut Message,
    output: String,
    is_error: Option<bool>,
) {
    (message.role, message.origin) = (Role::Tool, Origin::Tool);
    let call_id = owned(event.call_id.take()).unwrap_or_default();
    message.blocks.push(Block::ToolResult { call_id, output, is_error });
}

/// A call that another agent made for this one, with its result.
fn fill_foreign_call(event: &mut OpenHandsEvent<'_>, message: &mut Message) {
    (message.role, message.origin) = (Role::Assistant, Origin::Assistant);
    let id = owned(event.call_id.take()).unwrap_or_default();
    message.blocks.push(Block::ToolCall {
        id: id.clone(),
        name: owned(event.title.take()).unwrap_or_default(),
        input: event.raw_input.map_or_else(|| Json::from_value(&()), Json::from),
    });
    let is_over = event
        .status
        .take()
        .is_some_and(|status| matches!(status.as_borrowed_str(), "completed" | "failed"));
    let output = event.raw_output.map(|raw| {
        let text = serde_json::from_str::<String>(raw.get());
        text.unwrap_or_else(|_| Json::from(raw).as_json_str().to_owned())
    });
    if is_over || output.is_some() {
        let output = output.unwrap_or_default();
        message.blocks.push(Block::ToolResult { call_id: id, output, is_error: event.is_error });
    }
}

/// Appends reasoning, which both fields may have.
fn push_reasoning(
    reasoning: Option<BorrowedText<'_>>,
    thinking: Option<Vec<OpenHandsThinking<'_>>>,
    blocks: &mut Vec<Block>,
) {
    let thinking = thinking.into_iter().flatten().filter_map(|block| owned(block.thinking));
    let mut texts: Vec<String> = thinking.collect();
    let reasoning = owned(reasoning).filter(|text| !texts.contains(text));
    texts.extend(reasoning);
    blocks.extend(texts.into_iter().map(Block::Thinking));
}

fn push_parts(parts: Option<Vec<&RawValue>>, blocks: &mut Vec<Block>) {
    for raw in parts.into_iter().flatten() {
        match json::parse_json::<OpenHandsPart<'_>>(raw.get()) {
            Some(OpenHandsPart { text: Some(text), .. }) => {
                blocks.extend(owned(Some(text)).map(Block::Text));
            }
            Some(OpenHandsPart { images: Some(images), .. }) => {
                blocks.extend(images.into_iter().map(|url| image_of_url(url.as_borrowed_str())));
            }
            _ => blocks.push(Block::Other(Json::from(raw))),
        }
    }
}

fn image_of_url(url: &str) -> Block {
    let data = url.strip_prefix("data:").and_then(|data| data.split_once(";base64,"));
    Block::Image(match data {
        Some((media_type, data)) => Image::from_base64(Some(media_type.to_owned()), data),
        None => Image { location: Some(url.to_owned()), ..Image::default() },
    })
}
