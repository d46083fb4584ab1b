//! Reads the oldest form, before logs: one JSON document with two copies of the conversation.
//! `chatMessages` holds the messages sent to the model; `timeline` holds the screen's entries, with
//! times and with prompts as they were typed. The messages come from the first, completed from the
//! second.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use serde_json::value::RawValue;

use super::AGENT;
use crate::connectors::formats::copilot_events::typed_part_of_prompt;
use crate::connectors::formats::files;
use crate::connectors::formats::json::{self, BorrowedText, lossless};
use crate::connectors::{Record, Sink};
use crate::error::{Error, Result};
use crate::model::{Block, Extensions, Json, Message, Origin, Role, Session, Timestamp};

/// Size limit of a document. A larger one is not a session.
const MAX_DOCUMENT: u64 = 256 << 20;

lossless! {
    struct LegacyDocument<'a> {
        "sessionId" id: Option<BorrowedText<'a>>,
        "startTime" start: Option<BorrowedText<'a>>,
        "selectedModel" model: Option<BorrowedText<'a>>,
        "chatMessages" chat: Option<Vec<ChatApiMessage<'a>>>,
        "timeline" timeline: Option<Vec<TimelineEntry<'a>>>,
    }
}

lossless! {
    /// A message of the chat API.
    struct ChatApiMessage<'a> {
        "role" role: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "tool_calls" calls: Option<Vec<LegacyToolCall<'a>>>,
        "tool_call_id" call: Option<BorrowedText<'a>>,
    }
}

lossless! {
    struct LegacyToolCall<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "function" function: Option<Function<'a>>,
    }
}

lossless! {
    struct Function<'a> {
        "name" name: Option<BorrowedText<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
    }
}

lossless! {
    /// One entry of the timeline, as the screen showed it.
    struct TimelineEntry<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "id" id: Option<BorrowedText<'a>>,
        "timestamp" timestamp: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "expandedText" expanded: Option<&'a RawValue>,
        "callId" call: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
        "result" result: Option<LegacyToolResult<'a>>,
    }
}

lossless! {
    struct LegacyToolResult<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "log" log: Option<BorrowedText<'a>>,
    }
}

/// Reads a document and emits its session and messages.
pub(super) fn read_legacy_document(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let wrong = |what: &str| Error::Format { path: path.to_owned(), what: what.to_owned() };
    let text = files::small_text(path, MAX_DOCUMENT).ok_or_else(|| wrong("not a text file"))?;
    let document: LegacyDocument<'_> =
        json::parse_json(&text).ok_or_else(|| wrong("not a session document"))?;
    let timeline = document.timeline.unwrap_or_default();
    let chat = document.chat.unwrap_or_default();
    let native = document.id.map_or_else(|| id_from_file_name(path), BorrowedText::into_owned);
    let mut session = Session::new(AGENT.id, native);
    session.model = document.model.map(BorrowedText::into_owned);
    for entry in &timeline {
        session.extend_time_span(entry.entry_time());
    }
    if session.started_at.is_none() {
        session.extend_time_span(
            document.start.and_then(|text| Timestamp::parse_iso_time(text.as_borrowed_str())),
        );
    }
    json::keep_non_empty_fields(document.rest, &mut session.extensions);
    sink.accept_record(Record::Session(Box::new(session)))?;
    let typed_in = |is: &str, role: Option<&BorrowedText<'_>>| {
        role.is_some_and(|role| role.as_borrowed_str() == is)
    };
    let shown = timeline.iter().filter(|entry| typed_in("user", entry.kind.as_ref())).count();
    let sent = chat.iter().filter(|chat| typed_in("user", chat.role.as_ref())).count();
    // A chat truncated to fit the model lacks prompts that the timeline still has.
    let messages = if sent < shown {
        from_timeline(timeline)
    } else {
        Both::new(timeline).merge_with_chat(chat)
    };
    messages
        .into_iter()
        .try_for_each(|message| sink.accept_record(Record::Message(Box::new(message))))
}

/// Returns the session id in a file name `session_<id>_<milliseconds>.json`.
fn id_from_file_name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = stem.strip_prefix("session_").unwrap_or(&stem);
    name.rsplit_once('_').map_or(name, |(id, _)| id).to_owned()
}

/// Converts the timeline alone into messages.
fn from_timeline(timeline: Vec<TimelineEntry<'_>>) -> Vec<Message> {
    let mut messages = Vec::new();
    for mut entry in timeline {
        match entry.entry_kind() {
            "user" => messages.push(entry.take_entry_message(Role::User, Origin::Human)),
            "copilot" => {
                messages.push(entry.take_entry_message(Role::Assistant, Origin::Assistant));
            }
            "tool_call_completed" => {
                let id = owned_or_empty(entry.call.take());
                let name = owned_or_empty(entry.name.take());
                let input = json_in(entry.arguments.take());
                let mut result = entry.take_entry_message(Role::Tool, Origin::Tool);
                let call = Block::ToolCall { id: id.clone(), name, input };
                messages.push(Message {
                    role: Role::Assistant,
                    origin: Origin::Assistant,
                    at: result.at,
                    blocks: vec![call],
                    ..Message::default()
                });
                let is_error = entry.is_error();
                let output = owned_or_empty(entry.result.and_then(|result| result.log));
                result.blocks.push(Block::ToolResult { call_id: id, output, is_error });
                messages.push(result);
            }
            _ => messages.push(entry.into_notice()),
        }
    }
    messages
}

/// The timeline's entries by kind, for lookup by chat messages, and the messages merged so far.
struct Both<'a> {
    prompts: VecDeque<TimelineEntry<'a>>,
    answers: VecDeque<TimelineEntry<'a>>,
    calls: HashMap<String, TimelineEntry<'a>>,
    notices: VecDeque<TimelineEntry<'a>>,
    messages: Vec<Message>,
}

impl<'a> Both<'a> {
    fn new(timeline: Vec<TimelineEntry<'a>>) -> Self {
        let mut both = Self {
            prompts: VecDeque::new(),
            answers: VecDeque::new(),
            calls: HashMap::new(),
            notices: VecDeque::new(),
            messages: Vec::new(),
        };
        for mut entry in timeline {
            match entry.entry_kind() {
                "user" => both.prompts.push_back(entry),
                "copilot" => both.answers.push_back(entry),
                "tool_call_completed" => {
                    both.calls.insert(owned_or_empty(entry.call.take()), entry);
                }
                _ => both.notices.push_back(entry),
            }
        }
        both
    }

    fn merge_with_chat(mut self, chat: Vec<ChatApiMessage<'_>>) -> Vec<Message> {
        for mut chat in chat {
            let role = owned_or_empty(chat.role.take());
            let content = chat.content.take().map(string_or_raw_json).unwrap_or_default();
            let message = match role.as_str() {
                "user" => self.prompt_message(&content),
                "assistant" => self.answer_message(content, chat.calls.take().unwrap_or_default()),
                "tool" => self.tool_result_message(owned_or_empty(chat.call.take()), content),
                _ => Message {
                    role: Role::System,
                    origin: Origin::Injected,
                    blocks: vec![Block::Text(content)],
                    ..Message::default()
                },
            };
            self.show_notices(message.at);
            self.messages.push(message);
        }
        while let Some(entry) = self.notices.pop_front() {
            self.messages.push(entry.into_notice());
        }
        self.messages
    }

    /// Pushes the notices that the screen showed up to a point in time.
    fn show_notices(&mut self, before: Option<Timestamp>) {
        let is_due = |entry: &TimelineEntry<'_>| before.is_some() && entry.entry_time() <= before;
        while self.notices.front().is_some_and(is_due) {
            self.messages.extend(self.notices.pop_front().map(TimelineEntry::into_notice));
        }
    }

    fn prompt_message(&mut self, content: &str) -> Message {
        let words = typed_part_of_prompt(content).to_owned();
        let Some(mut entry) = self.prompts.pop_front() else {
            let blocks = vec![Block::Text(words)];
            let (role, origin) = (Role::User, Origin::Human);
            return Message { role, origin, blocks, ..Message::default() };
        };
        if entry.text.is_none() {
            entry.text = Some(BorrowedText(words.into()));
        }
        entry.take_entry_message(Role::User, Origin::Human)
    }

    fn answer_message(&mut self, content: String, calls: Vec<LegacyToolCall<'_>>) -> Message {
        let matches =
            |entry: &TimelineEntry<'_>| entry.text.as_ref().is_some_and(|text| *text.0 == content);
        let known = self.answers.iter().position(matches);
        let shown = known.and_then(|at| self.answers.drain(..=at).next_back());
        let mut message = if let Some(mut entry) = shown {
            entry.take_entry_message(Role::Assistant, Origin::Assistant)
        } else {
            let blocks = Some(content).filter(|text| !text.is_empty()).map(Block::Text);
            let (role, origin) = (Role::Assistant, Origin::Assistant);
            Message { role, origin, blocks: blocks.into_iter().collect(), ..Message::default() }
        };
        for call in calls {
            let function = call.function.unwrap_or_default();
            message.blocks.push(Block::ToolCall {
                id: owned_or_empty(call.id),
                name: owned_or_empty(function.name),
                input: json_in(function.arguments),
            });
        }
        message
    }

    fn tool_result_message(&mut self, call_id: String, output: String) -> Message {
        let entry = self.calls.remove(&call_id);
        let is_error = entry.as_ref().and_then(TimelineEntry::is_error);
        let mut message = match entry {
            Some(mut entry) => {
                entry.result = None;
                entry.take_entry_message(Role::Tool, Origin::Tool)
            }
            None => Message { role: Role::Tool, origin: Origin::Tool, ..Message::default() },
        };
        message.blocks.push(Block::ToolResult { call_id, output, is_error });
        message
    }
}

impl TimelineEntry<'_> {
    fn entry_kind(&self) -> &str {
        self.kind.as_ref().map_or("", BorrowedText::as_borrowed_str)
    }

    fn entry_time(&self) -> Option<Timestamp> {
        self.timestamp.as_ref().and_then(|text| Timestamp::parse_iso_time(text.as_borrowed_str()))
    }

    fn is_error(&self) -> Option<bool> {
        let kind = self.result.as_ref()?.kind.as_ref()?;
        Some(kind.as_borrowed_str() != "success")
    }

    /// Converts the entry into a message. Fields without a counterpart go to its extensions.
    fn take_entry_message(&mut self, role: Role, origin: Origin) -> Message {
        let mut extensions = Extensions::new();
        json::keep_non_empty_fields(std::mem::take(&mut self.rest), &mut extensions);
        let text = self.text.take().map(BorrowedText::into_owned).filter(|text| !text.is_empty());
        Message {
            uuid: self.id.take().map(BorrowedText::into_owned),
            role,
            origin,
            at: self.entry_time(),
            blocks: text.map(Block::Text).into_iter().collect(),
            extensions,
            ..Message::default()
        }
    }

    fn into_notice(mut self) -> Message {
        let kind = self.entry_kind().to_owned();
        let mut message = self.take_entry_message(Role::System, Origin::System);
        message.failed = kind == "error";
        message.extensions.insert("type".into(), Json::from_value(&kind));
        message
    }
}

fn owned_or_empty(text: Option<BorrowedText<'_>>) -> String {
    text.map(BorrowedText::into_owned).unwrap_or_default()
}

/// Returns the content of a JSON string, or any other JSON as written.
fn string_or_raw_json(raw: &RawValue) -> String {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

/// Parses the arguments of a call, which the chat API writes as a string of JSON.
fn json_in(raw: Option<&RawValue>) -> Json {
    let Some(raw) = raw else { return Json::from_value(&()) };
    let inner = serde_json::from_str::<String>(raw.get()).ok();
    let parsed = inner.and_then(|text| serde_json::from_str::<Json>(&text).ok());
    parsed.unwrap_or_else(|| Json::from(raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_in_the_name_when_the_document_has_none() {
        let check = |name: &str, id: &str| assert_eq!(id_from_file_name(Path::new(name)), id);
        check("a/session_cef3-0a2d_1761492781060.json", "cef3-0a2d");
        check("session_user_1_17.json", "user_1");
        check("other.json", "other");
    }
}
