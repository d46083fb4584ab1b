//! A conversation of the database: one JSON document with a history of requests and replies.

use serde_json::value::RawValue;

use super::lines::tool_output_of_json;
use crate::connectors::formats::json::{self, BorrowedText, lenient};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Block, Json, Message, Origin, Role, Session, Timestamp, Tokens, Usage};

lenient! {
    struct ClassicConversation<'a> {
        "conversation_id" id: Option<BorrowedText<'a>>,
        "history" history: Option<Vec<&'a RawValue>>,
        "next_message" next: Option<&'a RawValue>,
        "transcript" transcript: Option<Vec<BorrowedText<'a>>>,
        "latest_summary" summary: Option<&'a RawValue>,
        "model" model: Option<BorrowedText<'a>>,
        "model_info" model_info: Option<ClassicModel<'a>>,
    }
}

lenient! {
    struct ClassicModel<'a> {
        "model_id" id: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// A request and the reply to it.
    struct ClassicEntry<'a> {
        "user" user: Option<&'a RawValue>,
        "assistant" assistant: Option<&'a RawValue>,
        "request_metadata" request: Option<ClassicRequest<'a>>,
    }
}

lenient! {
    struct ClassicRequest<'a> {
        "request_id" request_id: Option<BorrowedText<'a>>,
        "message_id" message_id: Option<BorrowedText<'a>>,
        "request_start_timestamp_ms" started_ms: Option<u64>,
        "stream_end_timestamp_ms" ended_ms: Option<u64>,
        "model_id" model: Option<BorrowedText<'a>>,
        "uncached_input_tokens" input: Option<u64>,
        "output_tokens" output: Option<u64>,
        "cache_read_input_tokens" cache_read: Option<u64>,
        "cache_write_input_tokens" cache_write: Option<u64>,
    }
}

lenient! {
    struct ClassicUser<'a> {
        "content" content: Option<&'a RawValue>,
        "timestamp" time: Option<BorrowedText<'a>>,
        "additional_context" context: Option<BorrowedText<'a>>,
        "env_context" environment: Option<ClassicEnvironment<'a>>,
    }
}

lenient! {
    struct ClassicEnvironment<'a> {
        "env_state" state: Option<ClassicEnvironmentState<'a>>,
    }
}

lenient! {
    struct ClassicEnvironmentState<'a> {
        "current_working_directory" cwd: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The content of a request: a prompt, results of tools, or both.
    struct ClassicContent<'a> {
        "prompt" prompt: Option<BorrowedText<'a>>,
        "tool_use_results" results: Option<Vec<&'a RawValue>>,
    }
}

lenient! {
    struct ClassicResult<'a> {
        "tool_use_id" id: Option<BorrowedText<'a>>,
        "content" content: Option<Vec<&'a RawValue>>,
        "status" status: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct ClassicReply<'a> {
        "message_id" id: Option<BorrowedText<'a>>,
        "content" content: Option<BorrowedText<'a>>,
        "tool_uses" calls: Option<Vec<ClassicCall<'a>>>,
    }
}

lenient! {
    struct ClassicCall<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "args" arguments: Option<&'a RawValue>,
    }
}

/// Kinds of requests and of replies.
const REQUESTS: &[&str] = &["Prompt", "ToolUseResults", "CancelledToolUses"];
const REPLIES: &[&str] = &["Response", "ToolUse"];

/// Parses the document of a conversation.
pub(super) fn parse_conversation(text: &str) -> Option<ClassicConversation<'_>> {
    json::parse_json(text)
}

impl ClassicConversation<'_> {
    /// Returns the id of the conversation.
    pub(super) fn take_id(&mut self) -> Option<String> {
        owned_if_present(self.id.take())
    }

    /// Returns whether nothing was said in the conversation.
    pub(super) fn is_empty(&self) -> bool {
        self.history.as_ref().is_none_or(Vec::is_empty)
            && self.next.is_none_or(|next| next.get() == "null")
            && self.summary.is_none_or(|summary| summary.get() == "null")
    }

    /// Moves the metadata of the conversation into its session.
    pub(super) fn add_metadata(&mut self, session: &mut Session) {
        let info = self.model_info.take().and_then(|info| info.id);
        session.model = owned_if_present(info.or(self.model.take()));
        let summary = self.summary.take().and_then(summary_text);
        // After a summary the transcript alone has what was said before.
        if let Some(summary) = summary {
            session.documents.push(("summary".to_owned(), summary));
            let lines = self.transcript.take().unwrap_or_default();
            let lines: Vec<&str> = lines.iter().map(BorrowedText::as_borrowed_str).collect();
            if !lines.is_empty() {
                session.documents.push(("transcript".to_owned(), lines.join("\n\n")));
            }
        }
    }

    /// Emits the history, and extends the time span of the session.
    pub(super) fn emit_history(self, session: &mut Session, sink: &mut dyn Sink) -> Result<()> {
        let mut emit = |message: Message| {
            if message.blocks.is_empty() && message.usage.is_none() {
                return Ok(());
            }
            session.extend_time_span(message.at);
            sink.accept_record(Record::Message(Box::new(message)))
        };
        for raw in self.history.into_iter().flatten() {
            match convert_entry(raw) {
                Some(messages) => messages.into_iter().try_for_each(&mut emit)?,
                None => emit(system_message(raw))?,
            }
        }
        let next = self.next.filter(|raw| raw.get() != "null");
        next.into_iter().flat_map(|raw| convert_user(raw, None)).try_for_each(emit)
    }
}

fn owned_if_present(text: Option<BorrowedText<'_>>) -> Option<String> {
    text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
}

fn system_message(raw: &RawValue) -> Message {
    Message { blocks: vec![Block::Other(Json::from(raw))], ..Message::default() }
}

/// Returns the text of the latest summary: a text, or a list that begins with it.
fn summary_text(raw: &RawValue) -> Option<String> {
    let first = json::array_elements(raw).and_then(|parts| parts.first().copied());
    let text: Option<String> = serde_json::from_str(first.unwrap_or(raw).get()).ok();
    text.filter(|text| !text.is_empty())
}

/// Converts an entry of the history. The first versions have a list of request and reply.
fn convert_entry(raw: &RawValue) -> Option<Vec<Message>> {
    let entry = match json::array_elements(raw) {
        Some(parts) => {
            let [user, assistant] = parts.as_slice() else { return None };
            ClassicEntry { user: Some(*user), assistant: Some(*assistant), request: None }
        }
        None => json::parse_json::<ClassicEntry<'_>>(raw.get())?,
    };
    if entry.user.is_none() && entry.assistant.is_none() {
        return None;
    }
    let request = entry.request.as_ref();
    let mut messages = entry.user.map(|user| convert_user(user, request)).unwrap_or_default();
    messages.extend(entry.assistant.map(|assistant| convert_reply(assistant, request)));
    Some(messages)
}

/// Returns the variant of a value and its content.
fn variant_of_value(raw: &RawValue) -> Option<(String, &RawValue)> {
    let fields = json::object_fields(raw)?;
    let [(name, value)] = fields.as_slice() else { return None };
    Some((name.to_string(), value))
}

/// Converts a request: results of tools, context of the program, and the prompt.
fn convert_user(raw: &RawValue, request: Option<&ClassicRequest<'_>>) -> Vec<Message> {
    let Some(user) = json::parse_json::<ClassicUser<'_>>(raw.get()) else {
        return vec![system_message(raw)];
    };
    let time = user.time.and_then(|time| Timestamp::parse_iso_time(time.as_borrowed_str()));
    let started = request.and_then(|request| request.started_ms);
    let state = user.environment.and_then(|environment| environment.state);
    let envelope = Message {
        at: time.or_else(|| started.and_then(time_from_millis)),
        cwd: owned_if_present(state.and_then(|state| state.cwd)),
        ..Message::default()
    };
    let content = user.content.and_then(|content| {
        let (_, inside) =
            variant_of_value(content).filter(|(kind, _)| REQUESTS.contains(&kind.as_str()))?;
        json::parse_json::<ClassicContent<'_>>(inside.get())
    });
    let mut messages = Vec::new();
    let unknown = user.content.filter(|_| content.is_none());
    let content = content.unwrap_or_default();
    let mut results = Message { role: Role::Tool, origin: Origin::Tool, ..envelope.clone() };
    for result in content.results.into_iter().flatten() {
        push_result(result, &mut results.blocks);
    }
    let text = |role: Role, origin: Origin, text: Option<BorrowedText<'_>>| Message {
        role,
        origin,
        blocks: owned_if_present(text).map(Block::Text).into_iter().collect(),
        ..envelope.clone()
    };
    messages.push(results);
    messages.push(text(Role::User, Origin::Injected, user.context));
    messages.push(text(Role::User, Origin::Human, content.prompt));
    let blocks = unknown.map(|raw| Block::Other(Json::from(raw))).into_iter().collect();
    messages.push(Message { blocks, ..envelope.clone() });
    messages.retain(|message| !message.blocks.is_empty());
    messages
}

fn push_result(raw: &RawValue, blocks: &mut Vec<Block>) {
    let Some(result) = json::parse_json::<ClassicResult<'_>>(raw.get()) else {
        return blocks.push(Block::Other(Json::from(raw)));
    };
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    let mut has_failed = false;
    for part in result.content.into_iter().flatten() {
        match variant_of_value(part) {
            Some((name, value)) if name == "Json" => {
                let output = tool_output_of_json(value);
                has_failed |= output.has_failed;
                texts.push(output.text);
            }
            Some((name, value)) if name == "Text" && value.get().starts_with('"') => {
                texts.extend(serde_json::from_str::<String>(value.get()).ok());
            }
            _ => others.push(Block::Other(Json::from(part))),
        }
    }
    let is_error = match result.status.as_ref().map(BorrowedText::as_borrowed_str) {
        Some("Error") => Some(true),
        Some("Success") => Some(has_failed),
        _ => has_failed.then_some(true),
    };
    let call_id = result.id.map(BorrowedText::into_owned).unwrap_or_default();
    blocks.push(Block::ToolResult { call_id, output: texts.join("\n"), is_error });
    blocks.append(&mut others);
}

fn convert_reply(raw: &RawValue, request: Option<&ClassicRequest<'_>>) -> Message {
    let known = variant_of_value(raw).filter(|(kind, _)| REPLIES.contains(&kind.as_str()));
    let inside = known.map(|(_, inside)| inside);
    let reply = inside.and_then(|inside| json::parse_json::<ClassicReply<'_>>(inside.get()));
    let mut message =
        Message { role: Role::Assistant, origin: Origin::Assistant, ..Message::default() };
    if let Some(request) = request {
        message.at = request.ended_ms.or(request.started_ms).and_then(time_from_millis);
        message.model = owned_if_present(request.model.clone());
        message.request_id = owned_if_present(request.request_id.clone());
        message.usage = request.usage();
    }
    let Some(reply) = reply else {
        message.blocks.push(Block::Other(Json::from(raw)));
        return message;
    };
    message.uuid = owned_if_present(reply.id);
    message.blocks.extend(owned_if_present(reply.content).map(Block::Text));
    message.blocks.extend(reply.calls.into_iter().flatten().map(|call| Block::ToolCall {
        id: call.id.map(BorrowedText::into_owned).unwrap_or_default(),
        name: call.name.map(BorrowedText::into_owned).unwrap_or_default(),
        input: call.arguments.map_or_else(|| Json::from_value(&()), Json::from),
    }));
    message
}

impl ClassicRequest<'_> {
    /// Returns the tokens of the request, where a version records them.
    fn usage(&self) -> Option<Usage> {
        let identity = self.request_id.clone().or_else(|| self.message_id.clone());
        let tokens = Tokens {
            input: self.input.unwrap_or(0),
            output: self.output.unwrap_or(0),
            cache_read: self.cache_read.unwrap_or(0),
            cache_creation: self.cache_write.unwrap_or(0),
            reasoning: None,
        };
        let identity = owned_if_present(identity);
        let usage = Usage { identity, tokens, ..Usage::default() };
        tokens.is_known().then(|| usage.within_reason())
    }
}

fn time_from_millis(millis: u64) -> Option<Timestamp> {
    Timestamp::from_millis(i64::try_from(millis).ok().filter(|millis| *millis > 0)?)
}
