//! A thread: the document in a row of the database.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::content::{image_block, push_tool_result, tagged_value, text_value, tool_input};
use super::legacy;
use crate::connectors::formats::json::{self, BorrowedText, lenient, lossless};
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Block, Json, Message, Origin, Role, Session, SessionKind, Tokens, Usage};

/// Fields that repeat others, or that are the state of windows and permissions.
const OMITTED: &[&str] = &[
    "version",
    "sandbox_grants",
    "sandboxed_terminal_temp_dir",
    "ui_scroll_position",
    "updated_at",
];

lossless! {
    /// The document of a thread.
    struct ZedThread<'a> {
        "title" title: Option<BorrowedText<'a>>,
        "summary" summary: Option<BorrowedText<'a>>,
        "messages" messages: Option<Vec<&'a RawValue>>,
        "detailed_summary" detailed_summary: Option<BorrowedText<'a>>,
        "detailed_summary_state" summary_state: Option<&'a RawValue>,
        "model" model: Option<ZedModel<'a>>,
        "request_token_usage" request_usage: Option<&'a RawValue>,
        "cumulative_token_usage" cumulative_usage: Option<ZedUsage>,
        "initial_project_snapshot" snapshot: Option<ZedProjectSnapshot<'a>>,
        "subagent_context" subagent: Option<ZedSubagent<'a>>,
    }
}

lenient! {
    struct ZedModel<'a> {
        "provider" provider: Option<BorrowedText<'a>>,
        "model" model: Option<BorrowedText<'a>>,
    }
}

lenient! {
    /// Tokens in classes that do not overlap. A class that is 0 is not written.
    struct ZedUsage {
        "input_tokens" input: Option<u64>,
        "output_tokens" output: Option<u64>,
        "cache_creation_input_tokens" cache_creation: Option<u64>,
        "cache_read_input_tokens" cache_read: Option<u64>,
    }
}

lenient! {
    struct ZedProjectSnapshot<'a> {
        "worktree_snapshots" worktrees: Option<Vec<ZedWorktree<'a>>>,
    }
}

lenient! {
    struct ZedWorktree<'a> {
        "worktree_path" path: Option<BorrowedText<'a>>,
        "git_state" git: Option<ZedGitState<'a>>,
    }
}

lenient! {
    struct ZedGitState<'a> {
        "current_branch" branch: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct ZedSubagent<'a> {
        "parent_thread_id" parent: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct ZedUserMessage<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "content" content: Option<Vec<&'a RawValue>>,
    }
}

lenient! {
    struct ZedAgentMessage<'a> {
        "content" content: Option<Vec<&'a RawValue>>,
        "tool_results" results: Option<&'a RawValue>,
    }
}

lenient! {
    struct ZedThinking<'a> {
        "text" text: Option<BorrowedText<'a>>,
    }
}

lenient! {
    struct ZedToolUse<'a> {
        "id" id: Option<BorrowedText<'a>>,
        "name" name: Option<BorrowedText<'a>>,
        "raw_input" raw_input: Option<BorrowedText<'a>>,
        "input" input: Option<&'a RawValue>,
    }
}

impl ZedUsage {
    pub(super) fn into_tokens(self) -> Tokens {
        Tokens {
            input: self.input.unwrap_or(0),
            output: self.output.unwrap_or(0),
            cache_read: self.cache_read.unwrap_or(0),
            cache_creation: self.cache_creation.unwrap_or(0),
            reasoning: None,
        }
    }
}

/// Parses the document of a thread.
pub(super) fn parse_thread(text: &str) -> Option<ZedThread<'_>> {
    json::parse_json(text)
}

impl ZedThread<'_> {
    /// Returns the sum of all model calls and the name of the current model.
    pub(super) fn take_cumulative_usage(&mut self) -> Option<(String, Tokens)> {
        let tokens = self.cumulative_usage.take()?.into_tokens();
        tokens.is_known().then(|| (self.model_name().unwrap_or_default(), tokens))
    }

    fn model_name(&self) -> Option<String> {
        let model = self.model.as_ref()?.model.as_ref()?.as_borrowed_str();
        (!model.is_empty()).then(|| model.to_owned())
    }

    /// Moves the metadata of the thread into its session.
    pub(super) fn add_metadata(&mut self, session: &mut Session) {
        session.model = self.model_name();
        let provider = self.model.take().and_then(|model| model.provider);
        let provider = provider.map(BorrowedText::into_owned);
        let provider =
            provider.map(|provider| ("provider".to_owned(), Json::from_value(&provider)));
        session.extensions.extend(provider);
        let worktrees = self.snapshot.take().and_then(|snapshot| snapshot.worktrees);
        if let Some(worktree) = worktrees.into_iter().flatten().next() {
            let path = worktree.path.map(BorrowedText::into_owned);
            session.cwd = session.cwd.take().or(path.filter(|path| !path.is_empty()));
            let branch = worktree.git.and_then(|git| git.branch);
            session.branch = branch.map(BorrowedText::into_owned);
        }
        let parent = self.subagent.take().and_then(|subagent| subagent.parent);
        session.parent = session.parent.take().or(parent.map(BorrowedText::into_owned));
        if session.parent.is_some() {
            session.kind = SessionKind::Agent;
        }
        let summary = self.detailed_summary.take().map(BorrowedText::into_owned);
        let summary = summary.or_else(|| self.summary_state.take().and_then(legacy::summary_text));
        if let Some(summary) = summary.filter(|summary| !summary.is_empty()) {
            session.documents.push(("summary".to_owned(), summary));
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.retain(|(key, _)| !OMITTED.contains(&&**key));
        json::keep_non_empty_fields(rest, &mut session.extensions);
    }

    /// Emits the messages of the thread.
    pub(super) fn emit_messages(self, session: &Session, sink: &mut dyn Sink) -> Result<()> {
        let native = &session.id.native;
        let mut messages = Vec::new();
        let mut usage = RequestUsage::parse(self.request_usage, session);
        for (at, raw) in self.messages.into_iter().flatten().enumerate() {
            if raw.get() == "\"Resume\"" {
                let reason = "a request to go on";
                sink.accept_record(Record::passed_over_record(at as u64, reason))?;
                continue;
            }
            let converted = match tagged_value(raw) {
                Some((tag, value)) => convert_message(&tag, value),
                None => legacy::convert_message(raw),
            };
            let converted =
                converted.unwrap_or_else(|| vec![system_message(Block::Other(Json::from(raw)))]);
            usage.add_to_messages(native, at, &converted, &mut messages);
            messages.extend(converted);
        }
        usage.finish_turn(native, &mut messages);
        let emit = |message| sink.accept_record(Record::Message(Box::new(message)));
        messages.into_iter().filter(|message| !message.blocks.is_empty()).try_for_each(emit)
    }
}

fn system_message(block: Block) -> Message {
    Message { blocks: vec![block], ..Message::default() }
}

/// Converts a message of version 0.3: a reply and its tool results become two messages.
fn convert_message(tag: &str, raw: &RawValue) -> Option<Vec<Message>> {
    match tag {
        "user" => {
            let parsed = json::parse_json::<ZedUserMessage<'_>>(raw.get())?;
            let content = parsed.content.unwrap_or_default();
            Some(vec![Message {
                uuid: parsed.id.map(BorrowedText::into_owned),
                role: Role::User,
                origin: Origin::Human,
                blocks: content.into_iter().filter_map(prompt_block).collect(),
                ..Message::default()
            }])
        }
        "agent" => {
            let parsed = json::parse_json::<ZedAgentMessage<'_>>(raw.get())?;
            let content = parsed.content.unwrap_or_default();
            let reply = Message {
                role: Role::Assistant,
                origin: Origin::Assistant,
                blocks: content.into_iter().filter_map(reply_block).collect(),
                ..Message::default()
            };
            let mut results =
                Message { role: Role::Tool, origin: Origin::Tool, ..Message::default() };
            let fields = parsed.results.and_then(json::object_fields);
            for (id, result) in fields.into_iter().flatten() {
                push_tool_result(result, Some(&id), &mut results.blocks);
            }
            Some(vec![reply, results])
        }
        "compaction" => {
            // What only the provider can read is not kept.
            let summary = tagged_value(raw).filter(|(kind, _)| kind == "summary");
            let summary = summary.and_then(|(_, text)| text_value(text));
            let block = summary.map_or_else(
                || Block::Other(Json::from_value(&"compaction by the provider")),
                Block::Text,
            );
            let origin = Origin::Summary;
            Some(vec![Message { role: Role::User, origin, ..system_message(block) }])
        }
        _ => None,
    }
}

fn prompt_block(raw: &RawValue) -> Option<Block> {
    let known = tagged_value(raw).and_then(|(tag, value)| match tag.as_str() {
        "text" => text_value(value).map(Block::Text),
        "image" => image_block(value),
        _ => None,
    });
    // A mention is kept with the text that it stands for.
    let block = known.unwrap_or_else(|| Block::Other(Json::from(raw)));
    Some(block).filter(|block| *block != Block::Text(String::new()))
}

fn reply_block(raw: &RawValue) -> Option<Block> {
    let other = || Block::Other(Json::from(raw));
    let Some((tag, value)) = tagged_value(raw) else { return Some(other()) };
    let known = match tag.as_str() {
        "text" => text_value(value).map(Block::Text),
        "thinking" => {
            let text = json::parse_json::<ZedThinking<'_>>(value.get())?.text;
            text.map(|text| Block::Thinking(text.into_owned()))
        }
        // Encrypted reasoning is never kept.
        "redactedthinking" => return None,
        "tooluse" => json::parse_json::<ZedToolUse<'_>>(value.get()).map(tool_call),
        _ => None,
    };
    let block = known.unwrap_or_else(other);
    let is_empty = matches!(&block, Block::Text(text) | Block::Thinking(text) if text.is_empty());
    (!is_empty).then_some(block)
}

fn tool_call(call: ZedToolUse<'_>) -> Block {
    let input = match (call.input, call.raw_input) {
        (None, Some(raw)) => Json::from_value(&raw.as_borrowed_str()),
        (input, _) => tool_input(input),
    };
    Block::ToolCall {
        id: call.id.map(BorrowedText::into_owned).unwrap_or_default(),
        name: call.name.map(BorrowedText::into_owned).unwrap_or_default(),
        input,
    }
}

/// The usage of the last model call of each turn.
struct RequestUsage {
    /// By the id of the prompt, or by the position of the reply.
    by_key: HashMap<String, ZedUsage>,
    model: Option<String>,
    /// Key of the current turn's usage.
    turn: Option<String>,
}

impl RequestUsage {
    fn parse(raw: Option<&RawValue>, session: &Session) -> Self {
        let mut by_key = HashMap::new();
        let usage = |raw: &RawValue| json::parse_json::<ZedUsage>(raw.get());
        if let Some(fields) = raw.and_then(json::object_fields) {
            let known = fields.into_iter().map(|(key, value)| (key.into_owned(), usage(value)));
            by_key.extend(known.filter_map(|(key, usage)| Some((key, usage?))));
        }
        let list = raw.and_then(json::array_elements).unwrap_or_default();
        for (at, value) in list.into_iter().enumerate() {
            by_key.extend(usage(value).map(|usage| (at.to_string(), usage)));
        }
        Self { by_key, model: session.model.clone(), turn: None }
    }

    /// Adds the usage of the turn that ends before a message.
    fn add_to_messages(
        &mut self,
        native: &str,
        at: usize,
        next: &[Message],
        messages: &mut [Message],
    ) {
        let Some(first) = next.first() else { return };
        if first.role == Role::User && first.origin == Origin::Human {
            self.finish_turn(native, messages);
            self.turn.clone_from(&first.uuid);
        } else if first.role == Role::Assistant && self.by_key.contains_key(&at.to_string()) {
            self.finish_turn(native, messages);
            self.turn = Some(at.to_string());
        }
    }

    /// Adds the usage of the current turn to its last reply.
    fn finish_turn(&mut self, native: &str, messages: &mut [Message]) {
        let Some(key) = self.turn.take() else { return };
        let Some(usage) = self.by_key.remove(&key) else { return };
        let tokens = usage.into_tokens();
        let replies = messages.iter_mut().rev();
        let reply = replies.take_while(|message| message.usage.is_none());
        // After a request that was too large, the size of the context stands here.
        let reply = reply.into_iter().find(|message| message.role == Role::Assistant);
        if let Some(reply) = reply.filter(|_| tokens.output > 0) {
            reply.model.clone_from(&self.model);
            let identity = Some(format!("{native} {key}"));
            let usage = Usage { identity, tokens, ..Usage::default() };
            reply.usage = Some(usage.within_reason());
        }
    }
}
