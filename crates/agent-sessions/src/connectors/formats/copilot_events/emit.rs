//! Dispatches events by type: each updates the session metadata or becomes a message.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::EventLogReader;
use super::event::{
    AssistantMessageData, BinaryAsset, CopilotEvent, NoticeData, ToolCompletion, ToolRequest,
    TurnBoundary, UserMessageData,
};
use super::order::Ancestors;
use super::tools;
use crate::connectors::Record;
use crate::connectors::formats::json::{self, BorrowedText, FromOddValue};
use crate::error::{Error, Result};
use crate::model::{Block, Extensions, Image, Json, Message, Origin, Role, Timestamp};

/// Events that only describe the program's state, or that repeat other events.
const STATE: &[&str] = &[
    "assistant.reasoning",
    "hook.start",
    "hook.end",
    "model.message",
    "model.messages_snapshot",
    "model.model_call_started",
    "model.response",
    "model.turn_ended",
    "model.turn_started",
    "permission.requested",
    "permission.completed",
    "session.autopilot_objective_changed",
    "session.compaction_start",
    "session.mode_changed",
    "session.permissions_changed",
    "session.plan_changed",
    "session.remote_steerable_changed",
    "session.schedule_cancelled",
    "session.schedule_created",
    "session.schedule_rearmed",
    "session.session_limits_changed",
    "session.workspace_file_changed",
    "system.message",
    "tool_search.activated",
    "external_tool.requested",
];

/// Events with a text from the program, with role and origin of the message.
const NOTICES: &[(&str, Role, Origin)] = &[
    ("abort", Role::System, Origin::System),
    ("session.compaction_complete", Role::System, Origin::Summary),
    ("session.context_cleared", Role::System, Origin::System),
    ("session.error", Role::System, Origin::System),
    ("session.handoff", Role::System, Origin::Summary),
    ("session.info", Role::System, Origin::System),
    ("session.task_complete", Role::System, Origin::System),
    ("session.warning", Role::System, Origin::System),
    ("skill.invoked", Role::User, Origin::Injected),
    ("system.notification", Role::User, Origin::Injected),
];

/// The envelope of an event: the fields that all events have.
pub(super) struct Envelope {
    pub(super) kind: String,
    pub(super) id: Option<String>,
    pub(super) at: Option<Timestamp>,
    agent: Option<String>,
    /// The messages before this event.
    above: Ancestors,
    /// Whether the event belongs to a side conversation. Set while the event is read.
    is_side: Cell<bool>,
}

/// The outcome of reading an event.
pub(super) enum EventOutcome {
    /// The event became one or more messages.
    Yes,
    /// The event was understood, but is not a message.
    Nothing,
    /// The event is of an unknown form.
    Unknown,
}

impl Envelope {
    /// Creates the message of this event.
    pub(super) fn new_message(&self, role: Role) -> Message {
        let mut message =
            Message { uuid: self.id.clone(), role, at: self.at, ..Message::default() };
        message.parent.clone_from(&self.above.main);
        if let Some(agent) = &self.agent {
            self.mark_side_conversation(&mut message);
            message.extensions.insert("agentId".into(), Json::from_value(agent));
        }
        message
    }

    /// Marks a message as part of a side conversation.
    fn mark_side_conversation(&self, message: &mut Message) {
        self.is_side.set(true);
        message.sidechain = true;
        message.parent.clone_from(&self.above.nearest);
    }

    /// Returns the messages before an event that directly follows this one.
    fn following_ancestors(&self, outcome: &EventOutcome) -> Ancestors {
        let mut ancestors = self.above.clone();
        if !matches!(outcome, EventOutcome::Nothing) {
            ancestors.nearest.clone_from(&self.id);
            if !self.is_side.get() {
                ancestors.main.clone_from(&self.id);
            }
        }
        ancestors
    }

    /// Creates the message of an event that may come from a sub-agent. Returns the message and its
    /// thread: the tool call that started the sub-agent, else its agent id, or "" for the main
    /// agent.
    pub(super) fn new_message_in_thread(
        &self,
        role: Role,
        parent_call: Option<BorrowedText<'_>>,
    ) -> (Message, String) {
        let mut message = self.new_message(role);
        let call = non_empty_owned(parent_call);
        if let Some(call) = &call {
            self.mark_side_conversation(&mut message);
            message.extensions.insert("parentToolCallId".into(), Json::from_value(call));
        }
        (message, call.or(self.agent.clone()).unwrap_or_default())
    }
}

impl EventLogReader<'_> {
    /// Reads one event, records it as a possible parent, and emits or passes it over.
    pub(super) fn read_and_emit_event(
        &mut self,
        event: CopilotEvent<'_>,
        bytes: &[u8],
        offset: u64,
    ) -> Result<()> {
        let parent = non_empty_owned(event.parent);
        let envelope = Envelope {
            kind: non_empty_owned(event.kind).unwrap_or_default(),
            id: non_empty_owned(event.id),
            at: event.timestamp.and_then(|text| Timestamp::parse_iso_time(text.as_borrowed_str())),
            agent: non_empty_owned(event.agent),
            above: self.state.recent.ancestors_of(parent.as_deref()),
            is_side: Cell::new(false),
        };
        let outcome = if event.ephemeral == Some(true) {
            EventOutcome::Nothing
        } else {
            self.session.extend_time_span(envelope.at);
            if let Some(at) = envelope.at {
                self.session.note_activity(at);
            }
            self.dispatch_event(&envelope, event.data.unwrap_or(RawValue::NULL))?
        };
        if let Some(id) = &envelope.id {
            let below = envelope.following_ancestors(&outcome);
            let is_late = self.state.recent.record_event(id, parent.as_deref(), below);
            // The order of messages that were emitted before may have changed.
            if is_late && self.is_continued {
                return Err(Error::StartOver);
            }
        }
        match outcome {
            EventOutcome::Yes => Ok(()),
            EventOutcome::Nothing => self.pass_over_event(offset, envelope.kind),
            EventOutcome::Unknown => match serde_json::from_slice(bytes) {
                Ok(raw) => self.keep_unknown_event(envelope.new_message(Role::System), raw),
                Err(_) => {
                    self.sink.accept_record(Record::unreadable_record(offset, "not a JSON object"))
                }
            },
        }
    }

    fn dispatch_event(&mut self, envelope: &Envelope, data: &RawValue) -> Result<EventOutcome> {
        match envelope.kind.as_str() {
            "session.start" => Ok(self.begin_session(envelope, data)),
            "session.resume" => Ok(self.resume_session(envelope, data)),
            "session.context_changed" => Ok(self.read_directory_change(data)),
            "session.model_change" | "session.auto_mode_resolved" => Ok(self.change_model(data)),
            "session.truncation" => self.read_truncation(envelope, data),
            "session.usage_checkpoint" => Ok(self.read_usage_checkpoint(data)),
            "session.usage_record" => self.usage_record(envelope, data),
            "model.model_call_success" => self.read_hidden_call(envelope, data),
            "session.shutdown" => self.read_shutdown(envelope, data),
            "session.binary_asset" => self.read_binary_asset(envelope, data),
            "user.message" => self.read_user_message(envelope, data),
            "assistant.message" => self.read_assistant_message(envelope, data),
            "assistant.turn_start" => Ok(self.begin_turn(envelope, data)),
            "assistant.turn_end" => Ok(self.end_turn(envelope, data)),
            "tool.user_requested" => self.read_tool_start(envelope, data, Origin::Command),
            "tool.execution_start" => self.read_tool_start(envelope, data, Origin::Assistant),
            "tool.execution_complete" | "tool.execution_end" => {
                self.read_tool_completion(envelope, data)
            }
            kind if STATE.contains(&kind) => Ok(EventOutcome::Nothing),
            kind if kind.starts_with("subagent.") || kind.starts_with("custom_agent.") => {
                self.read_notice(envelope, data, Role::System, Origin::System)
            }
            kind => match NOTICES.iter().find(|(known, ..)| *known == kind) {
                Some((_, role, origin)) => self.read_notice(envelope, data, *role, *origin),
                None => Ok(EventOutcome::Unknown),
            },
        }
    }

    fn read_binary_asset(&mut self, envelope: &Envelope, data: &RawValue) -> Result<EventOutcome> {
        let Some(asset) = parse_event_data::<BinaryAsset<'_>>(data) else {
            return Ok(EventOutcome::Unknown);
        };
        let media_type = non_empty_owned(asset.media_type);
        let image = match asset.data {
            Some(data) => Image::from_base64(media_type, data.as_borrowed_str()),
            None => Image { media_type, bytes: asset.bytes.unwrap_or(0), ..Image::default() },
        };
        let mut message = envelope.new_message(Role::User);
        message.origin = Origin::Injected;
        message.blocks.push(Block::Image(image));
        json::keep_non_empty_fields(asset.rest, &mut message.extensions);
        self.emit_after_held_reply(message)?;
        Ok(EventOutcome::Yes)
    }

    fn read_user_message(&mut self, envelope: &Envelope, data: &RawValue) -> Result<EventOutcome> {
        let Some(mut prompt) = parse_event_data::<UserMessageData<'_>>(data) else {
            return Ok(EventOutcome::Unknown);
        };
        let odd = json::take_field(&mut prompt.rest, "content");
        self.emit_unclaimed()?;
        let content = prompt.content.as_ref().map_or("", BorrowedText::as_borrowed_str);
        let text = tools::typed_part_of_prompt(content);
        let (mut message, thread) = envelope.new_message_in_thread(Role::User, prompt.parent_call);
        self.state.turns.remove(&thread);
        let mode = prompt.mode.as_ref().map_or("", BorrowedText::as_borrowed_str);
        if !text.is_empty() {
            message.blocks.push(Block::Text(text.to_owned()));
        }
        message.blocks.extend(odd.map(|raw| Block::Other(Json::from(raw))));
        let mut extensions = std::mem::take(&mut message.extensions);
        tools::attach_files(
            prompt.attachments.unwrap_or_default(),
            &mut message.blocks,
            &mut extensions,
        );
        let is_machine = prompt.source.is_some() || prompt.is_continuation == Some(true);
        message.origin = if is_machine || tools::is_terminal_notice(text) {
            Origin::Injected
        } else if message.blocks.is_empty() {
            // Autopilot asks the model to continue. Older versions do not mark such prompts.
            Origin::Injected
        } else if mode == "shell" {
            Origin::Command
        } else {
            Origin::Human
        };
        if message.origin == Origin::Human && !message.sidechain {
            self.state.first_prompt.get_or_insert_with(|| tools::prompt_beginning(text));
        }
        keep_text_extension(&mut extensions, "source", prompt.source);
        keep_text_extension(&mut extensions, "agentMode", prompt.mode);
        json::keep_non_empty_fields(prompt.rest, &mut extensions);
        message.extensions = extensions;
        self.emit_after_held_reply(message)?;
        Ok(EventOutcome::Yes)
    }

    fn read_assistant_message(
        &mut self,
        envelope: &Envelope,
        data: &RawValue,
    ) -> Result<EventOutcome> {
        let Some(mut answer) = parse_event_data::<AssistantMessageData<'_>>(data) else {
            return Ok(EventOutcome::Unknown);
        };
        let (mut message, thread) =
            envelope.new_message_in_thread(Role::Assistant, answer.parent_call.take());
        message.origin = Origin::Assistant;
        let model = non_empty_owned(answer.model.take());
        message.model = self.model_of_thread(&thread, model);
        message.api_id = non_empty_owned(answer.api_id.take());
        message.request_id = non_empty_owned(answer.request_id.take());
        self.add_usage(answer.output, &mut message);
        message.blocks.extend(non_empty_owned(answer.content.take()).map(Block::Text));
        let odd = json::take_field(&mut answer.rest, "content");
        message.blocks.extend(odd.map(|raw| Block::Other(Json::from(raw))));
        self.add_requested_calls(answer.requests.take().unwrap_or_default(), &mut message);
        json::keep_non_empty_fields(answer.rest, &mut message.extensions);
        self.add_turn(&thread, &mut message);
        if message.blocks.iter().any(|block| matches!(block, Block::ToolCall { .. })) {
            self.close_held_reply()?;
            self.state.open = Some(Box::new(message));
        } else {
            self.emit_after_held_reply(message)?;
        }
        Ok(EventOutcome::Yes)
    }

    /// Records the turn that begins in a thread. The messages of the thread belong to it.
    fn begin_turn(&mut self, envelope: &Envelope, data: &RawValue) -> EventOutcome {
        let Some(turn) = parse_event_data::<TurnBoundary<'_>>(data) else {
            return EventOutcome::Unknown;
        };
        let thread = envelope.new_message_in_thread(Role::System, turn.parent_call).1;
        if let Some(id) = non_empty_owned(turn.id) {
            self.state.turns.insert(thread, id);
        }
        EventOutcome::Nothing
    }

    fn end_turn(&mut self, envelope: &Envelope, data: &RawValue) -> EventOutcome {
        let Some(turn) = parse_event_data::<TurnBoundary<'_>>(data) else {
            return EventOutcome::Unknown;
        };
        self.state.turns.remove(&envelope.new_message_in_thread(Role::System, turn.parent_call).1);
        EventOutcome::Nothing
    }

    /// Adds the id of the current turn to a message, unless the event has one.
    fn add_turn(&self, thread: &str, message: &mut Message) {
        if let Some(turn) = self.state.turns.get(thread) {
            let kept = message.extensions.entry("turnId".to_owned());
            kept.or_insert_with(|| Json::from_value(turn));
        }
    }

    /// Adds the tool calls of a reply to its message.
    fn add_requested_calls(&mut self, requests: Vec<ToolRequest<'_>>, message: &mut Message) {
        let mut details = Extensions::new();
        for mut request in requests {
            let id = non_empty_owned(request.id.take()).unwrap_or_default();
            let name = request.take_name();
            if name == tools::INTENT {
                tools::keep_intent(request.arguments, &mut message.extensions);
                self.state.ignored.push(id);
                continue;
            }
            let (name, mut said) = match request.take_server(&name) {
                Some(of_server) => of_server,
                None => (name, Extensions::new()),
            };
            json::keep_non_empty_fields(request.rest, &mut said);
            if !said.is_empty() {
                details.insert(id.clone(), Json::from_value(&said));
            }
            let input = tools::parse_tool_arguments(request.arguments);
            self.state.pending.push(id.clone());
            message.blocks.push(Block::ToolCall { id, name, input });
        }
        if !details.is_empty() {
            message.extensions.insert("tools".into(), Json::from_value(&details));
        }
    }

    /// Reads the start of a tool call. Most tool calls were requested by a reply and are already
    /// emitted.
    fn read_tool_start(
        &mut self,
        envelope: &Envelope,
        data: &RawValue,
        origin: Origin,
    ) -> Result<EventOutcome> {
        let Some(mut request) = parse_event_data::<ToolRequest<'_>>(data) else {
            return Ok(EventOutcome::Unknown);
        };
        let id = non_empty_owned(request.id.take()).unwrap_or_default();
        let name = request.take_name();
        if let Some(path) = tools::touched_path(&name, request.arguments) {
            self.add_touched_file(&path);
        }
        if self.state.pending.contains(&id) || self.state.ignored.contains(&id) {
            if let Some((called, said)) = request.take_server(&name) {
                self.apply_mcp_tool_name(id, called, said);
            }
            return Ok(EventOutcome::Nothing);
        }
        if name == tools::INTENT {
            self.state.ignored.push(id);
            return Ok(EventOutcome::Nothing);
        }
        let role = if origin == Origin::Command { Role::User } else { Role::Assistant };
        let (mut message, thread) =
            envelope.new_message_in_thread(role, request.parent_call.take());
        message.origin = origin;
        let (name, said) = match request.take_server(&name) {
            Some(of_server) => of_server,
            None => (name, Extensions::new()),
        };
        message.extensions.extend(said);
        json::keep_non_empty_fields(request.rest, &mut message.extensions);
        let input = tools::parse_tool_arguments(request.arguments);
        self.state.pending.push(id.clone());
        message.blocks.push(Block::ToolCall { id, name, input });
        if origin != Origin::Command {
            self.add_turn(&thread, &mut message);
        }
        self.emit_after_held_reply(message)?;
        Ok(EventOutcome::Yes)
    }

    /// Applies the MCP server and tool name of a call: to the reply that requested the call, or, if
    /// that is already emitted, to the tool result.
    fn apply_mcp_tool_name(&mut self, id: String, called: String, said: Extensions) {
        let calls = self.state.open.iter_mut().flat_map(|message| &mut message.blocks);
        let name = calls.into_iter().find_map(|block| match block {
            Block::ToolCall { id: known, name, .. } if *known == id => Some(name),
            _ => None,
        });
        let Some(name) = name else {
            self.state.late.insert(id, said);
            return;
        };
        *name = called;
        let Some(message) = &mut self.state.open else { return };
        let tools = message.extensions.get("tools");
        let mut tools: BTreeMap<String, Extensions> =
            tools.and_then(Json::parse_as).unwrap_or_default();
        tools.entry(id).or_default().extend(said);
        message.extensions.insert("tools".into(), Json::from_value(&tools));
    }

    fn read_tool_completion(
        &mut self,
        envelope: &Envelope,
        data: &RawValue,
    ) -> Result<EventOutcome> {
        let Some(mut completion) = parse_event_data::<ToolCompletion<'_>>(data) else {
            return Ok(EventOutcome::Unknown);
        };
        let id = non_empty_owned(completion.id.take()).unwrap_or_default();
        let (mut message, thread) =
            envelope.new_message_in_thread(Role::Tool, completion.parent_call.take());
        let model = non_empty_owned(completion.model.take());
        self.model_of_thread(&thread, model);
        if let Some(at) = self.state.ignored.iter().position(|known| *known == id) {
            self.state.ignored.remove(at);
            return Ok(EventOutcome::Nothing);
        }
        self.state.pending.retain(|known| *known != id);
        message.origin = Origin::Tool;
        message.extensions.extend(self.state.late.remove(&id).unwrap_or_default());
        tools::add_tool_answer(id, completion, &mut message);
        self.add_turn(&thread, &mut message);
        self.emit_after_held_reply(message)?;
        Ok(EventOutcome::Yes)
    }

    fn read_notice(
        &mut self,
        envelope: &Envelope,
        data: &RawValue,
        role: Role,
        origin: Origin,
    ) -> Result<EventOutcome> {
        let Some(mut notice) = parse_event_data::<NoticeData<'_>>(data) else {
            return Ok(EventOutcome::Unknown);
        };
        let text = notice.take_text();
        if let Some(folder) = tools::trusted_folder(&text) {
            self.state.trusted.get_or_insert_with(|| folder.to_owned());
        }
        let mut message = envelope.new_message(role);
        message.origin = origin;
        message.failed = matches!(envelope.kind.as_str(), "session.error" | "abort");
        if !text.is_empty() {
            message.blocks.push(Block::Text(text));
        }
        message.extensions.insert("type".into(), Json::from_value(&envelope.kind));
        json::keep_non_empty_fields(notice.rest, &mut message.extensions);
        self.emit_after_held_reply(message)?;
        Ok(EventOutcome::Yes)
    }

    /// Returns the model of a thread: the one named by the event, else the last one of the thread.
    pub(super) fn model_of_thread(
        &mut self,
        thread: &str,
        named: Option<String>,
    ) -> Option<String> {
        match named {
            Some(model) => {
                if self.state.models.get(thread) != Some(&model) {
                    self.state.models.insert(thread.to_owned(), model.clone());
                }
                Some(model)
            }
            None => self.state.models.get(thread).cloned(),
        }
    }

    pub(super) fn add_touched_file(&mut self, path: &str) {
        if self.files.insert(path.to_owned()) {
            self.session.files.push(path.to_owned());
        }
    }
}

/// Parses the data of an event. `None` when it is of another form.
pub(super) fn parse_event_data<'a, T>(data: &'a RawValue) -> Option<T>
where
    T: serde::Deserialize<'a> + FromOddValue<'a>,
{
    json::parse_json(data.get())
}

/// Returns the text as a `String`. `None` when it is absent or empty.
pub(super) fn non_empty_owned(text: Option<BorrowedText<'_>>) -> Option<String> {
    text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
}

/// Keeps a text that was used but has no field in the model.
pub(super) fn keep_text_extension(
    extensions: &mut Extensions,
    key: &str,
    text: Option<BorrowedText<'_>>,
) {
    if let Some(text) = non_empty_owned(text) {
        extensions.insert(key.to_owned(), Json::from_value(&text));
    }
}
