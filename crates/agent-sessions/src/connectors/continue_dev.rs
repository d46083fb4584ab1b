//! Continue: `~/.continue/sessions/<id>.json`, written by its extensions and by `cn`.
//!
//! Observed versions: extensions of 2024-10 to 2026-03, the terminal program 1.5.47. Peculiarities:
//! messages have no times, and the only time of a session is in `sessions.json`; the terminal
//! program records tokens, the extensions do not; the result of a tool is recorded with its call,
//! and the extensions repeat it as a message. `docs/formats/continue.md` has the evidence.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::formats::documents::{ListDocument, read_list_document};
use super::formats::images::image_from_url;
use super::formats::json::{self, BorrowedText, lenient, lossless};
use super::formats::{files, vscode};
use super::{Agent, Checkpoint, Connector, Machine, Record, Resume, Sink, Source};
use crate::error::Result;
use crate::model::{
    ATTACHMENTS, Block, Extensions, Json, Message, Origin, Role, Session, Timestamp, TitleRank,
    Tokens, Usage,
};

/// The Continue connector.
pub(super) struct ContinueConnector;

const AGENT: Agent = Agent {
    id: "continue",
    name: "Continue",
    badge: "continue",
    aliases: &["continuedev", "cn"],
    color: (30, 64, 175),
    key: "continue",
    variable: "AJ_CONTINUE_PATH",
    shell_variables: &[],
    mcp: None,
};

/// Directory of the sessions.
const SESSIONS: &str = "sessions";

/// The list of all sessions, in their directory.
const SESSION_LIST: &str = "sessions.json";

/// Size limit of the list. A larger file has another format.
const MAX_LIST_BYTES: u64 = 64 << 20;

/// Titles of sessions that have none.
const NO_TITLES: &[&str] = &["New Session", "Untitled Session"];

/// Fields that repeat others, or hold state of the editor.
const OMITTED: &[&str] = &[
    "appliedRules",
    "editorState",
    "isGatheringContext",
    "reasoning_details",
    "redactedThinking",
    "signature",
];

/// The reason reported for an item that cannot be parsed.
const NO_OBJECT: &str = "not a JSON object";

lenient! {
    /// The entry of a session in the list of all sessions.
    struct SessionListItem<'a> {
        "sessionId" id: Option<BorrowedText<'a>>,
        "session_id" old_id: Option<BorrowedText<'a>>,
        "dateCreated" created: Option<BorrowedText<'a>>,
        "date_created" old_created: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// One item of a session: a message, with what the program added to it.
    struct ChatItem<'a> {
        "message" message: Option<&'a RawValue>,
        "contextItems" context: Option<Vec<ContextItem<'a>>>,
        "promptLogs" logs: Option<Vec<&'a RawValue>>,
        "toolCallStates" states: Option<Vec<ToolCallState<'a>>>,
        "reasoning" reasoning: Option<ItemReasoning<'a>>,
        "conversationSummary" summary: Option<BorrowedText<'a>>,
    }
}

lossless! {
    /// A message of a session.
    struct ChatMessage<'a> {
        "role" role: Option<BorrowedText<'a>>,
        "content" content: Option<&'a RawValue>,
        "id" id: Option<BorrowedText<'a>>,
        "toolCalls" calls: Option<Vec<RequestedCall<'a>>>,
        "toolCallId" call_id: Option<BorrowedText<'a>>,
        "usage" usage: Option<ChatUsage<'a>>,
    }
}

lenient! {
    /// A call that a message requests.
    struct RequestedCall<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "function" function: Option<RequestedFunction<'a>>,
    }
}

lenient! {
    struct RequestedFunction<'a> {
        "name" name: Option<BorrowedText<'a>>,
        "arguments" arguments: Option<&'a RawValue>,
    }
}

lenient! {
    /// The state of a call: whether it ran, and its output.
    struct ToolCallState<'a> {
        "toolCallId" id: Option<BorrowedText<'a>>,
        "status" status: Option<BorrowedText<'a>>,
        "output" output: Option<Vec<ContextItem<'a>>>,
    }
}

lenient! {
    /// A text that was given to the model: an attachment, or the output of a tool.
    struct ContextItem<'a> {
        "name" name: Option<BorrowedText<'a>>,
        "description" description: Option<BorrowedText<'a>>,
        "content" content: Option<BorrowedText<'a>>,
        "status" status: Option<BorrowedText<'a>>,
        "uri" uri: Option<ContextLocation<'a>>,
    }
}

lenient! {
    struct ContextLocation<'a> {
        "value" value: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The reasoning before a reply.
    struct ItemReasoning<'a> {
        "text" text: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// A request to the model.
    struct PromptLog<'a> {
        "modelTitle" model: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// One part of a content.
    struct ContentPart<'a> {
        "type" kind: Option<BorrowedText<'a>>,
        "text" text: Option<BorrowedText<'a>>,
        "imageUrl" image: Option<PartImage<'a>>,
    }
}

lenient! {
    struct PartImage<'a> {
        "url" url: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// Tokens of a model call, under the names of the API or of the program.
    struct ChatUsage<'a> {
        "prompt_tokens" prompt: Option<u64>,
        "promptTokens" prompt_named: Option<u64>,
        "completion_tokens" completion: Option<u64>,
        "completionTokens" completion_named: Option<u64>,
        "prompt_tokens_details" prompt_details: Option<PromptDetails>,
        "promptTokensDetails" prompt_details_named: Option<PromptDetails>,
        "completion_tokens_details" completion_details: Option<CompletionDetails>,
        "completionTokensDetails" completion_details_named: Option<CompletionDetails>,
        "model" model: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// The cached part of the input.
    struct PromptDetails {
        "cached_tokens" cached: Option<u64>,
        "cachedTokens" cached_named: Option<u64>,
        "cache_read_tokens" cache_read: Option<u64>,
        "cache_write_tokens" cache_write: Option<u64>,
        "cacheWriteTokens" cache_write_named: Option<u64>,
    }
}

lenient! {
    /// The part of the output that was reasoning.
    struct CompletionDetails {
        "reasoning_tokens" reasoning: Option<u64>,
        "reasoningTokens" reasoning_named: Option<u64>,
    }
}

impl Connector for ContinueConnector {
    fn agent(&self) -> &'static Agent {
        &AGENT
    }

    fn roots(&self, machine: &Machine) -> Vec<PathBuf> {
        let home = machine.env_path("CONTINUE_GLOBAL_DIR");
        vec![home.unwrap_or_else(|| machine.home.join(".continue")).join(SESSIONS)]
    }

    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>> {
        let inner = root.join(SESSIONS);
        let folder = if files::is_dir(&inner) { inner } else { root.to_owned() };
        let entries = files::directory_entries(&folder).map_err(crate::Error::read(&folder))?;
        Ok(entries.into_iter().filter_map(session_source).collect())
    }

    fn affected_sources(&self, _root: &Path, changed: &Path) -> Option<Vec<Source>> {
        let is_here = changed.parent().and_then(Path::file_name) == Some(OsStr::new(SESSIONS));
        Some(Vec::from_iter(is_here.then(|| session_source(changed.to_owned())).flatten()))
    }

    fn read_source(
        &self,
        source: &Source,
        _: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint> {
        read_chat_session(&source.path, sink)?;
        Ok(Checkpoint::default())
    }

    /// Returns the command that goes on from a copy of the session, the only one that takes an id.
    fn resume_command(&self, session: &Session, _: &Path) -> Option<Resume> {
        Some(Resume::new("cn", ["--fork", &session.id.native]))
    }
}

/// Returns a session's file as a source.
fn session_source(path: PathBuf) -> Option<Source> {
    let name = path.file_name()?;
    let is_session = name != OsStr::new(SESSION_LIST)
        && path.extension().is_some_and(|extension| extension == "json");
    is_session.then(|| files::source_from_file(path)).flatten()
}

/// Reads a session and sends it to `sink`.
fn read_chat_session(path: &Path, sink: &mut dyn Sink) -> Result<()> {
    let document = read_list_document(path, "history")?;
    let mut chat = ChatReader::default();
    for (at, raw) in (0..).zip(&document.items) {
        match json::parse_json::<ChatItem<'_>>(raw) {
            Some(item) => chat.read_item(item, raw, at),
            None => chat.skipped.push(Record::unreadable_record(at, NO_OBJECT)),
        }
    }
    chat.finish_thoughts();
    let session = describe_session(path, &document, &chat.messages);
    sink.accept_record(Record::Session(Box::new(session)))?;
    chat.skipped.into_iter().try_for_each(|skipped| sink.accept_record(skipped))?;
    for message in chat.messages {
        sink.accept_record(Record::Message(Box::new(message)))?;
    }
    document.break_record().map_or(Ok(()), |record| sink.accept_record(record))
}

/// Builds the metadata of a session. The program itself takes the id from the file's name.
fn describe_session(path: &Path, document: &ListDocument, messages: &[Message]) -> Session {
    let native = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut session = Session::new(AGENT.id, &*native);
    let directory = document.text_field("workspaceDirectory");
    session.cwd = directory.map(|uri| vscode::path_from_uri(&uri));
    session.extend_time_span(creation_time(path, &native));
    let title = document.text_field("title").unwrap_or_default();
    if !NO_TITLES.contains(&&*title) {
        let prompts = messages.iter().filter(|message| message.origin == Origin::Human);
        let prompt = prompts.map(Message::joined_text).next().unwrap_or_default();
        let is_of_prompt = prompt.starts_with(title.trim_end_matches("..."));
        let rank = if is_of_prompt { TitleRank::Prompt } else { TitleRank::Generated };
        session.add_title(rank, title);
    }
    let model = document.text_field("chatModelTitle");
    let has_reply = messages.iter().any(|message| message.role == Role::Assistant);
    if has_reply && messages.iter().all(|message| message.model.is_none()) {
        session.model.clone_from(&model);
    }
    for key in ["mode", "usage", "chatModelTitle"] {
        let value = document.fields.get(key).filter(|value| value.as_json_str() != "null");
        session.extensions.extend(value.map(|value| (key.to_owned(), value.clone())));
    }
    session
}

/// Reads the time at which a session was created from the list of all sessions.
fn creation_time(path: &Path, native: &str) -> Option<Timestamp> {
    let text = files::small_text(&path.with_file_name(SESSION_LIST), MAX_LIST_BYTES)?;
    let raw = serde_json::from_str::<&RawValue>(&text).ok()?;
    let items = json::array_elements(raw)?.into_iter();
    let mut items = items.filter_map(|raw| json::parse_json::<SessionListItem<'_>>(raw.get()));
    let item = items.find(|item| {
        let id = item.id.as_ref().or(item.old_id.as_ref());
        id.is_some_and(|id| id.as_borrowed_str() == native)
    })?;
    let created = item.created.or(item.old_created)?;
    let created = created.as_borrowed_str();
    let millis = created.parse().ok().and_then(Timestamp::from_millis);
    millis.or_else(|| Timestamp::parse_iso_time(created))
}

/// Converts the items of a session.
#[derive(Default)]
struct ChatReader {
    messages: Vec<Message>,
    skipped: Vec<Record>,
    /// Reasoning that was recorded as a message of its own before the reply.
    thoughts: Vec<Block>,
    /// Ids of the calls whose results were recorded with the calls.
    answered: HashSet<String>,
    /// Outcomes of the calls, where they are known.
    outcomes: HashMap<String, Option<bool>>,
}

impl ChatReader {
    fn read_item(&mut self, mut item: ChatItem<'_>, raw: &str, at: u64) {
        let message = item.message.and_then(|raw| json::parse_json::<ChatMessage<'_>>(raw.get()));
        let Some(message) = message else { return self.keep_unknown_item(raw) };
        let identity = item.message.map(call_identity);
        let summary = item.summary.take().map(BorrowedText::into_owned);
        let role = message.role.as_ref().map_or("", BorrowedText::as_borrowed_str).to_owned();
        if role != "thinking" && role != "assistant" {
            self.finish_thoughts();
        }
        match role.as_str() {
            "user" => self.read_prompt(message, item),
            "assistant" => self.read_reply(message, item, identity),
            "thinking" => {
                let blocks = message.content.map(content_blocks).unwrap_or_default().into_iter();
                self.thoughts.extend(blocks.map(|block| match block {
                    Block::Text(text) => Block::Thinking(text),
                    other => other,
                }));
            }
            "tool" => self.read_tool_message(message, at),
            "system" => self.skipped.push(Record::passed_over_record(at, "system prompt")),
            _ => self.keep_unknown_item(raw),
        }
        if let Some(summary) = summary.filter(|summary| !summary.trim().is_empty()) {
            self.messages.push(Message {
                role: Role::User,
                origin: Origin::Summary,
                blocks: vec![Block::Text(summary)],
                ..Message::default()
            });
        }
    }

    fn read_prompt(&mut self, message: ChatMessage<'_>, item: ChatItem<'_>) {
        let mut prompt = empty_message(&message, Role::User, Origin::Human);
        prompt.blocks = message.content.map(content_blocks).unwrap_or_default();
        let attached = item.context.unwrap_or_default().into_iter().map(attachment);
        let attached: Vec<_> = attached.collect();
        if !attached.is_empty() {
            prompt.extensions.insert(ATTACHMENTS.to_owned(), Json::from_value(&attached));
        }
        keep_unmodeled_fields(message.rest, item.rest, &mut prompt.extensions);
        self.messages.push(prompt);
    }

    fn read_reply(
        &mut self,
        message: ChatMessage<'_>,
        item: ChatItem<'_>,
        identity: Option<String>,
    ) {
        let mut reply = empty_message(&message, Role::Assistant, Origin::Assistant);
        reply.blocks.append(&mut self.thoughts);
        let owned = |text: Option<BorrowedText<'_>>| {
            text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
        };
        let reasoning = item.reasoning.and_then(|reasoning| owned(reasoning.text));
        reply.blocks.extend(reasoning.map(Block::Thinking));
        reply.blocks.extend(message.content.map(content_blocks).unwrap_or_default());
        for call in message.calls.unwrap_or_default() {
            let function = call.function.unwrap_or_default();
            reply.blocks.push(Block::ToolCall {
                id: owned(call.id).unwrap_or_default(),
                name: owned(function.name).unwrap_or_default(),
                input: function.arguments.map_or_else(|| Json::from_value(&()), quoted_json),
            });
        }
        let logs = item.logs.unwrap_or_default().into_iter();
        let mut logs = logs.filter_map(|raw| json::parse_json::<PromptLog<'_>>(raw.get()));
        let logged = logs.find_map(|log| owned(log.model));
        let mut usage = message.usage;
        let model = usage.as_mut().and_then(|usage| owned(usage.model.take()));
        reply.model = model.or(logged);
        reply.usage = usage.and_then(|usage| usage.into_usage(identity));
        keep_unmodeled_fields(message.rest, item.rest, &mut reply.extensions);
        if !reply.blocks.is_empty() || reply.usage.is_some() {
            self.messages.push(reply);
        }
        self.read_results(item.states.unwrap_or_default());
    }

    /// Reads the outputs recorded with the calls of a reply.
    fn read_results(&mut self, calls: Vec<ToolCallState<'_>>) {
        let mut result = Message { role: Role::Tool, origin: Origin::Tool, ..Message::default() };
        for state in calls {
            let id = state.id.map(BorrowedText::into_owned).unwrap_or_default();
            let outputs = state.output.unwrap_or_default();
            let has_failed = outputs.iter().any(|output| {
                let status = output.status.as_ref().map_or("", BorrowedText::as_borrowed_str);
                status.starts_with("Command failed") || status == "Command timed out"
            });
            let is_error = match state.status.as_ref().map_or("", BorrowedText::as_borrowed_str) {
                "done" => Some(has_failed),
                "errored" => Some(true),
                // Canceled, or never finished.
                _ => None,
            };
            let texts = outputs.into_iter().filter_map(|output| output.content);
            let texts: Vec<String> = texts.map(BorrowedText::into_owned).collect();
            let output = texts.join("\n\n");
            self.outcomes.insert(id.clone(), is_error);
            if !output.is_empty() {
                self.answered.insert(id.clone());
                result.blocks.push(Block::ToolResult { call_id: id, output, is_error });
            }
        }
        if !result.blocks.is_empty() {
            self.messages.push(result);
        }
    }

    /// Reads a result that is a message of its own, unless it repeats one recorded with its call.
    fn read_tool_message(&mut self, message: ChatMessage<'_>, at: u64) {
        let id = message.call_id.as_ref().map_or("", BorrowedText::as_borrowed_str).to_owned();
        if self.answered.contains(&id) {
            return self.skipped.push(Record::passed_over_record(at, "repeated result"));
        }
        let mut result = empty_message(&message, Role::Tool, Origin::Tool);
        let mut texts = Vec::new();
        for block in message.content.map(content_blocks).unwrap_or_default() {
            match block {
                Block::Text(text) => texts.push(text),
                other => result.blocks.push(other),
            }
        }
        let is_error = self.outcomes.get(&id).copied().flatten();
        let answer = Block::ToolResult { call_id: id, output: texts.join("\n"), is_error };
        result.blocks.insert(0, answer);
        keep_unmodeled_fields(message.rest, Vec::new(), &mut result.extensions);
        self.messages.push(result);
    }

    /// Emits reasoning that no reply follows.
    fn finish_thoughts(&mut self) {
        if self.thoughts.is_empty() {
            return;
        }
        self.messages.push(Message {
            role: Role::Assistant,
            origin: Origin::Assistant,
            blocks: std::mem::take(&mut self.thoughts),
            ..Message::default()
        });
    }

    fn keep_unknown_item(&mut self, raw: &str) {
        let mut message = Message::default();
        message.blocks.extend(serde_json::from_str(raw).ok().map(Block::Other));
        self.messages.push(message);
    }
}

impl ChatUsage<'_> {
    /// Converts the tokens of a call. The input includes cached tokens, except where the program
    /// also names those written to a cache: then it is Anthropic's count, which leaves both out.
    fn into_usage(self, identity: Option<String>) -> Option<Usage> {
        let details = self.prompt_details.or(self.prompt_details_named).unwrap_or_default();
        let written = details.cache_write.or(details.cache_write_named);
        let cache_read =
            details.cached.or(details.cached_named).or(details.cache_read).unwrap_or(0);
        let prompt = self.prompt.or(self.prompt_named).unwrap_or(0);
        let input = if written.is_some() { prompt } else { prompt.saturating_sub(cache_read) };
        let details = self.completion_details.or(self.completion_details_named);
        let tokens = Tokens {
            input,
            output: self.completion.or(self.completion_named).unwrap_or(0),
            cache_read,
            cache_creation: written.unwrap_or(0),
            reasoning: details.and_then(|details| details.reasoning.or(details.reasoning_named)),
        };
        tokens.is_known().then(|| Usage { identity, tokens, ..Usage::default() }.within_reason())
    }
}

/// Returns the identity of a model call. The terminal program gives messages no ids, and a fork
/// copies them as they are, so the identity is a hash of the message.
fn call_identity(message: &RawValue) -> String {
    format!("{:016x}", xxh3_64(json::compact_json(message.get()).as_bytes()))
}

fn empty_message(message: &ChatMessage<'_>, role: Role, origin: Origin) -> Message {
    let id = message.id.as_ref().map(|id| id.as_borrowed_str().to_owned());
    Message { uuid: id.filter(|id| !id.is_empty()), role, origin, ..Message::default() }
}

/// Returns the name, the description and the path of an attachment.
fn attachment(item: ContextItem<'_>) -> serde_json::Value {
    let owned = |text: Option<BorrowedText<'_>>| text.map(BorrowedText::into_owned);
    let path = item.uri.and_then(|uri| owned(uri.value)).map(|uri| vscode::path_from_uri(&uri));
    let mut fields = serde_json::Map::new();
    let texts =
        [("name", owned(item.name)), ("description", owned(item.description)), ("path", path)];
    for (key, text) in texts {
        fields.extend(text.map(|text| (key.to_owned(), text.into())));
    }
    fields.into()
}

fn keep_unmodeled_fields(
    message: json::UnnamedFields<'_>,
    item: json::UnnamedFields<'_>,
    extensions: &mut Extensions,
) {
    let mut rest = item;
    rest.extend(message);
    rest.retain(|(key, _)| !OMITTED.contains(&&**key));
    json::keep_non_empty_fields(rest, extensions);
}

/// Converts a content, which is a text or a list of parts.
fn content_blocks(content: &RawValue) -> Vec<Block> {
    if let Ok(text) = serde_json::from_str::<BorrowedText<'_>>(content.get()) {
        let text = Some(text.into_owned()).filter(|text| !text.is_empty());
        return text.map(Block::Text).into_iter().collect();
    }
    let Some(parts) = json::array_elements(content) else {
        let is_absent = content.get() == "null";
        return if is_absent { Vec::new() } else { vec![Block::Other(Json::from(content))] };
    };
    let blocks = parts.into_iter().filter_map(|raw| {
        if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
            return Some(Block::Text(text));
        }
        let part = json::parse_json::<ContentPart<'_>>(raw.get())?;
        let url = part.image.and_then(|image| image.url);
        match (part.kind.as_ref().map_or("", BorrowedText::as_borrowed_str), part.text, url) {
            ("text", Some(text), _) => {
                Some(text.into_owned()).filter(|text| !text.is_empty()).map(Block::Text)
            }
            ("imageUrl", _, Some(url)) => Some(Block::Image(image_from_url(url.as_borrowed_str()))),
            _ => Some(Block::Other(Json::from(raw))),
        }
    });
    blocks.collect()
}

/// Returns JSON that is written in a string. Incomplete JSON stays a text.
fn quoted_json(raw: &RawValue) -> Json {
    let Ok(text) = serde_json::from_str::<String>(raw.get()) else { return Json::from(raw) };
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(inner) => Json::from(inner),
        Err(_) => Json::from_value(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_are_taken_out_of_the_input_unless_anthropic_counted_them() {
        let check = |usage: &str, input: u64, reasoning: Option<u64>| {
            let usage: ChatUsage<'_> = serde_json::from_str(usage).unwrap();
            let tokens = usage.into_usage(None).unwrap().tokens;
            assert_eq!((tokens.input, tokens.reasoning), (input, reasoning));
        };
        check(
            r#"{"prompt_tokens":100,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":3}}"#,
            60,
            Some(3),
        );
        check(
            r#"{"promptTokens":100,"completionTokens":9,"promptTokensDetails":{"cachedTokens":40,"cacheWriteTokens":5}}"#,
            100,
            None,
        );
    }
}
