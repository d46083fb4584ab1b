//! The oldest form, before logs: one JSON document with two accounts of the same conversation.
//! `chatMessages` is what the model was sent; `timeline` is what the screen showed, with times
//! and with prompts as they were typed. The first is told, completed from the second.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use serde_json::value::RawValue;

use super::AGENT;
use crate::connectors::formats::copilot_events::typed;
use crate::connectors::formats::files;
use crate::connectors::formats::json::{self, Text, lossless};
use crate::connectors::{Record, Sink};
use crate::error::{Error, Result};
use crate::model::{Block, Extensions, Json, Message, Origin, Role, Session, Timestamp};

/// A larger document is no session.
const MAX_DOCUMENT: u64 = 256 << 20;

lossless! {
    struct Document<'a> {
        "sessionId" id: Option<Text<'a>>,
        "startTime" start: Option<Text<'a>>,
        "selectedModel" model: Option<Text<'a>>,
        "chatMessages" chat: Option<Vec<Chat<'a>>>,
        "timeline" timeline: Option<Vec<Entry<'a>>>,
    }
}

lossless! {
    /// A message of the chat API.
    struct Chat<'a> {
        "role" role: Option<Text<'a>>,
        "content" content: Option<&'a RawValue>,
        "tool_calls" calls: Option<Vec<Call<'a>>>,
        "tool_call_id" call: Option<Text<'a>>,
    }
}

lossless! {
    struct Call<'a> {
        "id" id: Option<Text<'a>>,
        "function" function: Option<Function<'a>>,
    }
}

lossless! {
    struct Function<'a> {
        "name" name: Option<Text<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
    }
}

lossless! {
    /// Something the screen showed.
    struct Entry<'a> {
        "type" kind: Option<Text<'a>>,
        "id" id: Option<Text<'a>>,
        "timestamp" timestamp: Option<Text<'a>>,
        "text" text: Option<Text<'a>>,
        "expandedText" expanded: Option<&'a RawValue>,
        "callId" call: Option<Text<'a>>,
        "name" name: Option<Text<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
        "result" result: Option<Outcome<'a>>,
    }
}

lossless! {
    struct Outcome<'a> {
        "type" kind: Option<Text<'a>>,
        "log" log: Option<Text<'a>>,
    }
}

/// Reads a document.
pub(super) fn read(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let wrong = |what: &str| Error::Format { path: path.to_owned(), what: what.to_owned() };
    let text = files::small_text(path, MAX_DOCUMENT).ok_or_else(|| wrong("not a text file"))?;
    let document: Document<'_> =
        json::parse(&text).ok_or_else(|| wrong("not a session document"))?;
    let timeline = document.timeline.unwrap_or_default();
    let chat = document.chat.unwrap_or_default();
    let native = document.id.map_or_else(|| named(path), Text::into_owned);
    let mut session = Session::new(AGENT.id, native);
    session.model = document.model.map(Text::into_owned);
    for entry in &timeline {
        session.seen(entry.at());
    }
    if session.started_at.is_none() {
        session.seen(document.start.and_then(|text| Timestamp::parse(text.as_str())));
    }
    json::keep(document.rest, &mut session.extensions);
    sink.accept(Record::Session(Box::new(session)))?;
    let typed_in = |is: &str, role: Option<&Text<'_>>| role.is_some_and(|role| role.as_str() == is);
    let shown = timeline.iter().filter(|entry| typed_in("user", entry.kind.as_ref())).count();
    let sent = chat.iter().filter(|chat| typed_in("user", chat.role.as_ref())).count();
    // A chat that was cut to fit the model has lost prompts that the screen remembers.
    let messages =
        if sent < shown { from_timeline(timeline) } else { Both::new(timeline).merge(chat) };
    messages.into_iter().try_for_each(|message| sink.accept(Record::Message(Box::new(message))))
}

/// The id in `session_<id>_<milliseconds>.json`.
fn named(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = stem.strip_prefix("session_").unwrap_or(&stem);
    name.rsplit_once('_').map_or(name, |(id, _)| id).to_owned()
}

/// Tells the timeline alone.
fn from_timeline(timeline: Vec<Entry<'_>>) -> Vec<Message> {
    let mut messages = Vec::new();
    for mut entry in timeline {
        match entry.kind() {
            "user" => messages.push(entry.message(Role::User, Origin::Human)),
            "copilot" => messages.push(entry.message(Role::Assistant, Origin::Assistant)),
            "tool_call_completed" => {
                let id = owned(entry.call.take());
                let name = owned(entry.name.take());
                let input = json_in(entry.arguments.take());
                let mut result = entry.message(Role::Tool, Origin::Tool);
                let call = Block::ToolCall { id: id.clone(), name, input };
                messages.push(Message {
                    role: Role::Assistant,
                    origin: Origin::Assistant,
                    at: result.at,
                    blocks: vec![call],
                    ..Message::default()
                });
                let is_error = entry.is_error();
                let output = owned(entry.result.and_then(|result| result.log));
                result.blocks.push(Block::ToolResult { call_id: id, output, is_error });
                messages.push(result);
            }
            _ => messages.push(entry.notice()),
        }
    }
    messages
}

/// The timeline by what the chat can ask of it.
struct Both<'a> {
    prompts: VecDeque<Entry<'a>>,
    answers: VecDeque<Entry<'a>>,
    calls: HashMap<String, Entry<'a>>,
    notices: VecDeque<Entry<'a>>,
    messages: Vec<Message>,
}

impl<'a> Both<'a> {
    fn new(timeline: Vec<Entry<'a>>) -> Self {
        let mut both = Self {
            prompts: VecDeque::new(),
            answers: VecDeque::new(),
            calls: HashMap::new(),
            notices: VecDeque::new(),
            messages: Vec::new(),
        };
        for mut entry in timeline {
            match entry.kind() {
                "user" => both.prompts.push_back(entry),
                "copilot" => both.answers.push_back(entry),
                "tool_call_completed" => {
                    both.calls.insert(owned(entry.call.take()), entry);
                }
                _ => both.notices.push_back(entry),
            }
        }
        both
    }

    fn merge(mut self, chat: Vec<Chat<'_>>) -> Vec<Message> {
        for mut chat in chat {
            let role = owned(chat.role.take());
            let content = chat.content.take().map(plain).unwrap_or_default();
            let message = match role.as_str() {
                "user" => self.prompt(&content),
                "assistant" => self.answer(content, chat.calls.take().unwrap_or_default()),
                "tool" => self.result(owned(chat.call.take()), content),
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
            self.messages.push(entry.notice());
        }
        self.messages
    }

    /// Tells the notices the screen showed before an instant.
    fn show_notices(&mut self, before: Option<Timestamp>) {
        let is_due = |entry: &Entry<'_>| before.is_some() && entry.at() <= before;
        while self.notices.front().is_some_and(is_due) {
            self.messages.extend(self.notices.pop_front().map(Entry::notice));
        }
    }

    fn prompt(&mut self, content: &str) -> Message {
        let words = typed(content).to_owned();
        let Some(mut entry) = self.prompts.pop_front() else {
            let blocks = vec![Block::Text(words)];
            let (role, origin) = (Role::User, Origin::Human);
            return Message { role, origin, blocks, ..Message::default() };
        };
        if entry.text.is_none() {
            entry.text = Some(Text(words.into()));
        }
        entry.message(Role::User, Origin::Human)
    }

    fn answer(&mut self, content: String, calls: Vec<Call<'_>>) -> Message {
        let matches =
            |entry: &Entry<'_>| entry.text.as_ref().is_some_and(|text| *text.0 == content);
        let known = self.answers.iter().position(matches);
        let shown = known.and_then(|at| self.answers.drain(..=at).next_back());
        let mut message = if let Some(mut entry) = shown {
            entry.message(Role::Assistant, Origin::Assistant)
        } else {
            let blocks = Some(content).filter(|text| !text.is_empty()).map(Block::Text);
            let (role, origin) = (Role::Assistant, Origin::Assistant);
            Message { role, origin, blocks: blocks.into_iter().collect(), ..Message::default() }
        };
        for call in calls {
            let function = call.function.unwrap_or_default();
            message.blocks.push(Block::ToolCall {
                id: owned(call.id),
                name: owned(function.name),
                input: json_in(function.arguments),
            });
        }
        message
    }

    fn result(&mut self, call_id: String, output: String) -> Message {
        let entry = self.calls.remove(&call_id);
        let is_error = entry.as_ref().and_then(Entry::is_error);
        let mut message = match entry {
            Some(mut entry) => {
                entry.result = None;
                entry.message(Role::Tool, Origin::Tool)
            }
            None => Message { role: Role::Tool, origin: Origin::Tool, ..Message::default() },
        };
        message.blocks.push(Block::ToolResult { call_id, output, is_error });
        message
    }
}

impl Entry<'_> {
    fn kind(&self) -> &str {
        self.kind.as_ref().map_or("", Text::as_str)
    }

    fn at(&self) -> Option<Timestamp> {
        self.timestamp.as_ref().and_then(|text| Timestamp::parse(text.as_str()))
    }

    fn is_error(&self) -> Option<bool> {
        let kind = self.result.as_ref()?.kind.as_ref()?;
        Some(kind.as_str() != "success")
    }

    /// Makes a message of the entry; what it says beyond the model is kept.
    fn message(&mut self, role: Role, origin: Origin) -> Message {
        let mut extensions = Extensions::new();
        json::keep(std::mem::take(&mut self.rest), &mut extensions);
        let text = self.text.take().map(Text::into_owned).filter(|text| !text.is_empty());
        Message {
            uuid: self.id.take().map(Text::into_owned),
            role,
            origin,
            at: self.at(),
            blocks: text.map(Block::Text).into_iter().collect(),
            extensions,
            ..Message::default()
        }
    }

    fn notice(mut self) -> Message {
        let kind = self.kind().to_owned();
        let mut message = self.message(Role::System, Origin::System);
        message.failed = kind == "error";
        message.extensions.insert("type".into(), Json::from_value(&kind));
        message
    }
}

fn owned(text: Option<Text<'_>>) -> String {
    text.map(Text::into_owned).unwrap_or_default()
}

/// A JSON string as text, anything else as it is written.
fn plain(raw: &RawValue) -> String {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

/// Arguments, which the chat API writes as a string.
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
        let check = |name: &str, id: &str| assert_eq!(named(Path::new(name)), id);
        check("a/session_cef3-0a2d_1761492781060.json", "cef3-0a2d");
        check("session_user_1_17.json", "user_1");
        check("other.json", "other");
    }
}
