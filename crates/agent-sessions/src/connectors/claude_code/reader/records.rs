//! Converts each kind of record: prompts, answers, notices, attachments, the queue.

use std::collections::HashMap;

use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::super::content::ClaudeContent;
use super::super::line::{ApiMessage, ClaudeLine};
use super::super::{prompt, rest};
use super::{ClaudeReader, OpenApiMessage, WARMUP, WaitingPrompt};
use crate::connectors::Record;
use crate::connectors::formats::json::{self, BorrowedText, Lenient, lenient};
use crate::error::Result;
use crate::model::{Block, Extensions, Json, Message, Origin, Role, SessionKind, Timestamp};

/// Attachments that repeat the beginning of every request: the instructions and the descriptions of
/// the tools, up to 60 kB each time.
const PASSED_ATTACHMENTS: &[&str] = &["prompt_snapshot"];

/// Size limit in bytes of the kept values of `toolUseResult`. Longer ones repeat the call or its
/// result.
const MAX_TWIN: usize = 512;

impl ClaudeReader<'_> {
    pub(super) fn read_user_record(
        &mut self,
        mut line: ClaudeLine<'_>,
        at: Option<Timestamp>,
    ) -> Result<()> {
        let mut body = line.message.take().unwrap_or_default();
        let Some(content) = body.content.take() else {
            return self.queue_behind_open_message(message_from_envelope(
                line,
                body,
                at,
                Role::User,
            ));
        };
        let is_result = content.has_tool_result();
        let mut blocks = Vec::new();
        let mut words = Vec::new();
        let mut unknown = Extensions::new();
        for mut part in content.into_blocks() {
            part.keep_unmodeled_fields(&mut unknown);
            let is_typed_text = is_result && part.has_kind("text");
            part.push_block(
                &self.place.tool_results,
                if is_typed_text { &mut words } else { &mut blocks },
            );
        }
        let source =
            line.prompt_source.take().and_then(|source| source.0).map(BorrowedText::into_owned);
        let from = line.origin.take().and_then(|from| from.0).and_then(|from| from.kind);
        let from = from.map(BorrowedText::into_owned);
        let flags = UserRecordFlags {
            is_meta: line.is_meta == Some(true),
            is_summary: line.is_compact_summary == Some(true),
            is_hidden: line.is_transcript_only == Some(true),
            is_system: source.as_deref() == Some("system")
                || from.as_deref().is_some_and(|kind| kind != "human"),
        };
        let twin = line.tool_use_result.take();
        let mut message =
            message_from_envelope(line, body, at, if is_result { Role::Tool } else { Role::User });
        message.blocks = blocks;
        message.extensions.extend(unknown);
        for (name, value) in [("promptSource", source), ("origin", from)] {
            if let Some(value) = value {
                message.extensions.insert(name.into(), Json::from_value(&value));
            }
        }
        if let Some(twin) = twin {
            keep_twin(twin, &mut message.extensions);
        }
        if !is_result {
            message.origin = flags.strip_to_origin(&mut message);
            self.warm_up(&message)?;
            return self.queue_behind_open_message(message);
        }
        message.origin = Origin::Tool;
        let prompt = prompt_with_result(&message, words.clone(), &flags);
        if prompt.is_none() {
            message.blocks.append(&mut words);
        }
        self.queue_behind_open_message(message)?;
        prompt.map_or(Ok(()), |prompt| self.queue_behind_open_message(prompt))
    }

    /// Marks a sub-agent that was started only to warm up as a working copy.
    fn warm_up(&mut self, message: &Message) -> Result<()> {
        let is_first = self.emitted == 0 && self.open.is_none();
        if self.place.kind == SessionKind::Agent
            && is_first
            && message.joined_text().trim() == WARMUP
        {
            self.session.kind = SessionKind::Copy;
            return self.emit_session_metadata();
        }
        Ok(())
    }

    pub(super) fn read_assistant_record(
        &mut self,
        mut line: ClaudeLine<'_>,
        at: Option<Timestamp>,
    ) -> Result<()> {
        let mut usage = line.recorded_usage();
        let failed = line.is_api_error == Some(true);
        let top_model = line.model.take();
        let mut body = line.message.take().unwrap_or_default();
        let counts = body.usage.take();
        let model = body.model.take().or(top_model).map(BorrowedText::into_owned);
        let synthetic = model.as_deref() == Some("<synthetic>");
        if synthetic {
            usage = None;
        }
        let content = body.content.take();
        let stop_reason = body.stop_reason.take().or(body.stop_reason_camel.take());
        let api_id = body.id.take().map(BorrowedText::into_owned).filter(|id| !id.is_empty());
        let mut message = message_from_envelope(line, body, at, Role::Assistant);
        message.origin = if synthetic { Origin::System } else { Origin::Assistant };
        message.failed = failed;
        message.model = model.filter(|_| !synthetic);
        message.api_id = api_id;
        message.stop_reason = stop_reason.map(BorrowedText::into_owned);
        message.usage = usage;
        rest::keep_remaining_fields(
            "usage",
            counts.unwrap_or_default().rest,
            &mut message.extensions,
        );
        for mut part in content.map(ClaudeContent::into_blocks).unwrap_or_default() {
            part.keep_unmodeled_fields(&mut message.extensions);
            part.push_block(&self.place.tool_results, &mut message.blocks);
        }
        if let Some(open) = &mut self.open
            && open.message.api_id.is_some()
            && open.message.api_id == message.api_id
            && open.message.request_id == message.request_id
        {
            merge_message_line(&mut open.message, message);
            return Ok(());
        }
        self.close_open_message()?;
        self.open = Some(OpenApiMessage { message: Box::new(message), trailing: Vec::new() });
        Ok(())
    }

    pub(super) fn read_system_record(
        &mut self,
        mut line: ClaudeLine<'_>,
        at: Option<Timestamp>,
        offset: u64,
    ) -> Result<()> {
        let subtype = line.subtype.take().map(BorrowedText::into_owned).unwrap_or_default();
        let content = content_text(line.content.take());
        let failed = subtype == "api_error";
        if content.is_empty() && !failed {
            let what = if subtype.is_empty() { "system" } else { &*subtype };
            self.pass_over(&line);
            return self.sink.accept_record(Record::passed_over_record(offset, what.to_owned()));
        }
        line.parent = line.parent.take().or(line.logical_parent.take());
        let mut message = message_from_envelope(line, ApiMessage::default(), at, Role::System);
        message.failed = failed;
        message.origin = match prompt::user_text_origin(&content) {
            Origin::Command => Origin::Command,
            _ => Origin::System,
        };
        message.extensions.insert("subtype".into(), Json::from_value(&subtype));
        let text =
            prompt::format_typed_command(&content).filter(|_| message.origin == Origin::Command);
        let text = text.unwrap_or(content);
        message.blocks.push(Block::Text(if text.is_empty() { subtype } else { text }));
        self.queue_behind_open_message(message)
    }

    /// Reads context that Claude Code attached. This includes prompts typed while the agent worked.
    pub(super) fn read_attachment(
        &mut self,
        mut line: ClaudeLine<'_>,
        at: Option<Timestamp>,
        offset: u64,
    ) -> Result<()> {
        lenient! {
            struct AttachedContext<'a> {
                "type" kind: Option<BorrowedText<'a>>,
                "prompt" prompt: Option<ClaudeContent<'a>>,
            }
        }
        let Some(raw) = line.attachment.take() else {
            return self.queue_behind_open_message(message_from_envelope(
                line,
                ApiMessage::default(),
                at,
                Role::User,
            ));
        };
        let attachment: Option<AttachedContext<'_>> = json::parse_json(raw.get());
        let kind = attachment.as_ref().and_then(|one| one.kind.as_ref());
        let kind = kind.map(|kind| kind.as_borrowed_str().to_owned()).unwrap_or_default();
        if PASSED_ATTACHMENTS.contains(&kind.as_str()) {
            self.pass_over(&line);
            return self
                .sink
                .accept_record(Record::passed_over_record(offset, format!("attachment {kind}")));
        }
        let rendered = take_rendered(&mut line.rest);
        let queued = attachment.filter(|_| kind == "queued_command");
        let mut message = message_from_envelope(line, ApiMessage::default(), at, Role::User);
        message.origin = Origin::Injected;
        if let Some(prompt) = queued.and_then(|queued| queued.prompt) {
            for part in prompt.into_blocks() {
                part.push_block(&self.place.tool_results, &mut message.blocks);
            }
            let text = message.joined_text();
            if !prompt::is_machine_text(&text) {
                if !is_first_occurrence(&text, &mut self.state.removed, &mut self.state.attached) {
                    if let Some(uuid) = &message.uuid {
                        self.passed.add_passed_record(uuid, message.parent.as_deref());
                    }
                    return Ok(());
                }
                message.origin = prompt::queued_origin(&text);
            }
        } else if let Some(rendered) = rendered {
            message.blocks.push(Block::Text(rendered));
            message.extensions.insert("attachment".into(), Json::from_value(&kind));
        } else {
            message.blocks.push(Block::Other(Json::from(raw)));
        }
        self.queue_behind_open_message(message)
    }

    /// Reads an operation on the queue of prompts typed while the agent works. A prompt taken out
    /// by `dequeue` follows as a user record; one taken out by `remove` went into the running turn
    /// and is recorded nowhere else.
    pub(super) fn read_queue_operation(
        &mut self,
        line: ClaudeLine<'_>,
        at: Option<Timestamp>,
        offset: u64,
    ) -> Result<()> {
        let operation = line.operation.as_ref().map_or("", BorrowedText::as_borrowed_str);
        let content = content_text(line.content);
        match operation {
            "enqueue" => self.state.queue.push(WaitingPrompt { text: content, at }),
            "dequeue" => drop(self.leave_queue(&content)),
            "popAll" => self.state.queue.clear(),
            "remove" => {
                let text = self.leave_queue(&content).unwrap_or(content);
                if let Some(message) = queued_prompt_message(text.clone(), at)
                    && is_first_occurrence(&text, &mut self.state.attached, &mut self.state.removed)
                {
                    return self.queue_behind_open_message(message);
                }
            }
            _ => {}
        }
        self.sink.accept_record(Record::passed_over_record(offset, "queue-operation"))
    }

    /// Removes the named prompt from the queue, or else the oldest.
    fn leave_queue(&mut self, content: &str) -> Option<String> {
        let queue = &mut self.state.queue;
        let named = queue.iter().position(|one| !content.is_empty() && one.text == content);
        (!queue.is_empty()).then(|| queue.remove(named.unwrap_or(0)).text)
    }

    /// Emits a record of unknown type as it is.
    pub(super) fn keep_unknown_record(
        &mut self,
        mut message: Message,
        raw: &RawValue,
    ) -> Result<()> {
        message.blocks.push(Block::Other(Json::from(raw)));
        self.queue_behind_open_message(message)
    }
}

/// Builds a message from a queued prompt; `None` when Claude Code wrote it.
pub(super) fn queued_prompt_message(text: String, at: Option<Timestamp>) -> Option<Message> {
    (!prompt::is_machine_text(&text)).then(|| Message {
        role: Role::User,
        origin: prompt::queued_origin(&text),
        at,
        blocks: vec![Block::Text(text)],
        ..Message::default()
    })
}

/// Builds a prompt from the text that a person typed with a tool result; `None` when there is
/// none, or when Claude Code wrote it.
fn prompt_with_result(
    result: &Message,
    words: Vec<Block>,
    flags: &UserRecordFlags,
) -> Option<Message> {
    if words.is_empty() {
        return None;
    }
    let mut prompt = Message {
        parent: result.uuid.clone(),
        role: Role::User,
        at: result.at,
        cwd: result.cwd.clone(),
        branch: result.branch.clone(),
        agent_version: result.agent_version.clone(),
        sidechain: result.sidechain,
        blocks: words,
        ..Message::default()
    };
    prompt.origin = flags.strip_to_origin(&mut prompt);
    (prompt.origin == Origin::Human).then_some(prompt)
}

/// Removes and returns the text that the model received for an attachment, where the record has it.
fn take_rendered(rest: &mut json::UnnamedFields<'_>) -> Option<String> {
    lenient! {
        struct RenderedContext<'a> {
            "content" content: Option<ClaudeContent<'a>>,
        }
    }
    let (_, raw) = rest.iter().find(|(key, _)| key == "rendered")?;
    let parts = json::array_elements(raw)?;
    let parts =
        parts.into_iter().filter_map(|raw| json::parse_json::<RenderedContext<'_>>(raw.get()));
    let texts: Vec<String> =
        parts.filter_map(|part| part.content).map(ClaudeContent::into_text).collect();
    let text = texts.join("\n");
    if text.trim().is_empty() {
        return None;
    }
    rest.retain(|(key, _)| key != "rendered" && key != "renderedRole");
    Some(text)
}

/// Returns whether a queued prompt is emitted for the first time. A prompt can have two records:
/// the first one is remembered in `waiting`, the second one is found in `emitted` and removed from
/// it.
fn is_first_occurrence(text: &str, emitted: &mut Vec<u64>, waiting: &mut Vec<u64>) -> bool {
    let hash = xxh3_64(text.trim().as_bytes());
    match emitted.iter().position(|known| *known == hash) {
        Some(at) => {
            emitted.remove(at);
            false
        }
        None => {
            waiting.push(hash);
            true
        }
    }
}

fn content_text(content: Option<Lenient<ClaudeContent<'_>>>) -> String {
    content.and_then(|content| content.0).map(ClaudeContent::into_text).unwrap_or_default()
}

/// The flags of a user record.
#[expect(clippy::struct_excessive_bools, reason = "they are the format's own flags")]
struct UserRecordFlags {
    is_meta: bool,
    is_summary: bool,
    is_hidden: bool,
    is_system: bool,
}

impl UserRecordFlags {
    /// Determines the origin of a user record without tool results, and removes everything but the
    /// author's text from it.
    fn strip_to_origin(&self, message: &mut Message) -> Origin {
        if self.is_summary {
            return Origin::Summary;
        }
        if self.is_meta || self.is_hidden {
            return Origin::Injected;
        }
        let envelope = take_envelopes(&mut message.blocks);
        if !envelope.is_empty() {
            message.extensions.insert("envelope".into(), Json::from_value(&envelope));
        }
        let text = message.joined_text();
        if text.trim().is_empty() {
            let has_image = message.blocks.iter().any(|block| matches!(block, Block::Image(_)));
            return if has_image { Origin::Human } else { Origin::Injected };
        }
        match prompt::user_text_origin(&text) {
            Origin::Human if self.is_system => Origin::Injected,
            Origin::Command => {
                if let Some(command) = prompt::format_typed_command(&text) {
                    message.blocks = vec![Block::Text(command)];
                }
                Origin::Command
            }
            origin => origin,
        }
    }
}

/// Removes Claude Code's envelopes from the first texts of a prompt and returns them.
fn take_envelopes(blocks: &mut Vec<Block>) -> String {
    let mut envelopes = Vec::new();
    let mut at = 0;
    while let Some(block) = blocks.get_mut(at) {
        let Block::Text(text) = block else {
            at += 1;
            continue;
        };
        let (envelope, rest) = prompt::split_envelopes(text);
        if !envelope.is_empty() {
            envelopes.push(envelope.to_owned());
        }
        if !rest.is_empty() {
            if rest.len() != text.len() {
                *text = rest.to_owned();
            }
            break;
        }
        blocks.remove(at);
    }
    envelopes.join("\n")
}

/// Builds a message from a record's fields; those that the model does not have become extensions.
fn message_from_envelope(
    line: ClaudeLine<'_>,
    body: ApiMessage<'_>,
    at: Option<Timestamp>,
    role: Role,
) -> Message {
    let some = |text: Option<BorrowedText<'_>>| {
        text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
    };
    let mut extensions = Extensions::new();
    if line.is_meta == Some(true) {
        extensions.insert("isMeta".into(), Json::from_value(&true));
    }
    if let Some(agent) = line.agent_id {
        extensions.insert("agentId".into(), Json::from_value(&agent.as_borrowed_str()));
    }
    json::keep_non_empty_fields(line.rest, &mut extensions);
    json::keep_non_empty_fields(body.rest, &mut extensions);
    Message {
        uuid: some(line.uuid),
        parent: some(line.parent),
        role,
        at,
        request_id: some(line.request_id),
        cwd: some(line.cwd),
        branch: some(line.branch),
        agent_version: some(line.version),
        sidechain: line.is_sidechain == Some(true),
        extensions,
        ..Message::default()
    }
}

/// Merges a further line of the same API message into it.
fn merge_message_line(message: &mut Message, line: Message) {
    message.part_uuids.extend(line.uuid);
    message.blocks.extend(line.blocks);
    message.failed |= line.failed;
    message.stop_reason = line.stop_reason.or(message.stop_reason.take());
    message.extensions.extend(line.extensions);
    // Input is the same on every line; output grows, and the largest is the final count.
    let grown = match (&message.usage, &line.usage) {
        (Some(known), Some(new)) => new.tokens.output >= known.tokens.output,
        (known, _) => known.is_none(),
    };
    if grown {
        let cost = message.usage.as_ref().and_then(|usage| usage.cost_micros);
        message.usage = line.usage;
        if let Some(usage) = &mut message.usage {
            usage.cost_micros = usage.cost_micros.max(cost);
        }
    }
}

/// Keeps the small fields of `toolUseResult`. Its long values repeat the call's input or the
/// result's text, or hold the whole file before an edit.
fn keep_twin(twin: &RawValue, extensions: &mut Extensions) {
    let Ok(fields) = serde_json::from_str::<HashMap<BorrowedText<'_>, &RawValue>>(twin.get())
    else {
        return;
    };
    let small: std::collections::BTreeMap<&str, &RawValue> = fields
        .iter()
        .filter(|(key, value)| {
            value.get().len() <= MAX_TWIN || key.as_borrowed_str() == "structuredPatch"
        })
        .map(|(key, value)| (key.as_borrowed_str(), *value))
        .collect();
    if !small.is_empty() {
        extensions.insert("toolUseResult".into(), Json::from_value(&small));
    }
}
