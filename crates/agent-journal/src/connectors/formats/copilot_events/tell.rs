//! Turns events into what they say about the session, and into messages.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::Reader;
use super::event::{Answer, Asset, Completion, Event, Notice, Prompt, Request, Turn};
use super::order::Ancestors;
use super::tools;
use crate::connectors::Record;
use crate::connectors::formats::json::{self, FromOddValue, Text};
use crate::error::{Error, Result};
use crate::model::{Block, Extensions, Image, Json, Message, Origin, Role, Timestamp};

/// Events that are state of the program, or that repeat what other events say.
const STATE: &[&str] = &[
    "assistant.reasoning",
    "hook.start",
    "hook.end",
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

/// Events that are words of the program: whose turn they are, and who made them.
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

/// What the envelope says of every event.
pub(super) struct Envelope {
    pub(super) kind: String,
    pub(super) id: Option<String>,
    pub(super) at: Option<Timestamp>,
    agent: Option<String>,
    /// The messages that it follows.
    above: Ancestors,
    /// Whether it belongs to a side conversation.
    is_side: Cell<bool>,
}

/// What became of an event.
pub(super) enum Told {
    /// A message, or several.
    Yes,
    /// It was understood; what it says is not a message.
    Nothing,
    /// It is not of a shape we know.
    Unknown,
}

impl Envelope {
    /// Begins the message of this event.
    pub(super) fn message(&self, role: Role) -> Message {
        let mut message =
            Message { uuid: self.id.clone(), role, at: self.at, ..Message::default() };
        message.parent.clone_from(&self.above.main);
        if let Some(agent) = &self.agent {
            self.put_aside(&mut message);
            message.extensions.insert("agentId".into(), Json::from_value(agent));
        }
        message
    }

    /// Puts a message into a side conversation.
    fn put_aside(&self, message: &mut Message) {
        self.is_side.set(true);
        message.sidechain = true;
        message.parent.clone_from(&self.above.nearest);
    }

    /// Returns the messages that an event right after this one follows.
    fn below(&self, told: &Told) -> Ancestors {
        let mut ancestors = self.above.clone();
        if !matches!(told, Told::Nothing) {
            ancestors.nearest.clone_from(&self.id);
            if !self.is_side.get() {
                ancestors.main.clone_from(&self.id);
            }
        }
        ancestors
    }

    /// Begins a message that a sub-agent may have made: then it names the call that started it.
    pub(super) fn inside(&self, role: Role, parent_call: Option<Text<'_>>) -> (Message, String) {
        let mut message = self.message(role);
        let call = owned(parent_call);
        if let Some(call) = &call {
            self.put_aside(&mut message);
            message.extensions.insert("parentToolCallId".into(), Json::from_value(call));
        }
        (message, call.or(self.agent.clone()).unwrap_or_default())
    }
}

impl Reader<'_> {
    pub(super) fn record(&mut self, event: Event<'_>, bytes: &[u8], offset: u64) -> Result<()> {
        let parent = owned(event.parent);
        let envelope = Envelope {
            kind: owned(event.kind).unwrap_or_default(),
            id: owned(event.id),
            at: event.timestamp.and_then(|text| Timestamp::parse(text.as_str())),
            agent: owned(event.agent),
            above: self.state.recent.above(parent.as_deref()),
            is_side: Cell::new(false),
        };
        let told = if event.ephemeral == Some(true) {
            Told::Nothing
        } else {
            self.session.seen(envelope.at);
            if let Some(at) = envelope.at {
                self.session.note_activity(at);
            }
            self.dispatch(&envelope, event.data.unwrap_or(RawValue::NULL))?
        };
        if let Some(id) = &envelope.id {
            let below = envelope.below(&told);
            let is_late = self.state.recent.note(id, parent.as_deref(), below);
            // What was told before may have another order now.
            if is_late && self.is_continued {
                return Err(Error::StartOver);
            }
        }
        match told {
            Told::Yes => Ok(()),
            Told::Nothing => self.pass(offset, envelope.kind),
            Told::Unknown => match serde_json::from_slice(bytes) {
                Ok(raw) => self.keep(envelope.message(Role::System), raw),
                Err(_) => self.sink.accept(Record::bad(offset, "not a JSON object")),
            },
        }
    }

    fn dispatch(&mut self, envelope: &Envelope, data: &RawValue) -> Result<Told> {
        match envelope.kind.as_str() {
            "session.start" => Ok(self.begin(envelope, data)),
            "session.resume" => Ok(self.resume(envelope, data)),
            "session.context_changed" => Ok(self.move_to(data)),
            "session.model_change" | "session.auto_mode_resolved" => Ok(self.change_model(data)),
            "session.truncation" => self.truncation(envelope, data),
            "session.usage_checkpoint" => Ok(self.checkpoint(data)),
            "session.usage_record" => self.usage_record(envelope, data),
            "session.shutdown" => self.shutdown(envelope, data),
            "session.binary_asset" => self.asset(envelope, data),
            "user.message" => self.prompt(envelope, data),
            "assistant.message" => self.answer(envelope, data),
            "assistant.turn_start" => Ok(self.begin_turn(envelope, data)),
            "assistant.turn_end" => Ok(self.end_turn(envelope, data)),
            "tool.user_requested" => self.request(envelope, data, Origin::Command),
            "tool.execution_start" => self.request(envelope, data, Origin::Assistant),
            "tool.execution_complete" | "tool.execution_end" => self.completion(envelope, data),
            kind if STATE.contains(&kind) => Ok(Told::Nothing),
            kind if kind.starts_with("subagent.") || kind.starts_with("custom_agent.") => {
                self.notice(envelope, data, (Role::System, Origin::System))
            }
            kind => match NOTICES.iter().find(|(known, ..)| *known == kind) {
                Some((_, role, origin)) => self.notice(envelope, data, (*role, *origin)),
                None => Ok(Told::Unknown),
            },
        }
    }

    fn asset(&mut self, envelope: &Envelope, data: &RawValue) -> Result<Told> {
        let Some(asset) = parse::<Asset<'_>>(data) else { return Ok(Told::Unknown) };
        let media_type = owned(asset.media_type);
        let image = match asset.data {
            Some(data) => Image::from_base64(media_type, data.as_str()),
            None => Image { media_type, bytes: asset.bytes.unwrap_or(0), ..Image::default() },
        };
        let mut message = envelope.message(Role::User);
        message.origin = Origin::Injected;
        message.blocks.push(Block::Image(image));
        json::keep(asset.rest, &mut message.extensions);
        self.tell(message)?;
        Ok(Told::Yes)
    }

    fn prompt(&mut self, envelope: &Envelope, data: &RawValue) -> Result<Told> {
        let Some(mut prompt) = parse::<Prompt<'_>>(data) else { return Ok(Told::Unknown) };
        let odd = json::take(&mut prompt.rest, "content");
        self.tell_unclaimed()?;
        let content = prompt.content.as_ref().map_or("", Text::as_str);
        let text = tools::typed(content);
        let (mut message, thread) = envelope.inside(Role::User, prompt.parent_call);
        self.state.turns.remove(&thread);
        let mode = prompt.mode.as_ref().map_or("", Text::as_str);
        if !text.is_empty() {
            message.blocks.push(Block::Text(text.to_owned()));
        }
        message.blocks.extend(odd.map(|raw| Block::Other(Json::from(raw))));
        let mut extensions = std::mem::take(&mut message.extensions);
        tools::attach(prompt.attachments.unwrap_or_default(), &mut message.blocks, &mut extensions);
        let is_machine = prompt.source.is_some() || prompt.is_continuation == Some(true);
        message.origin = if is_machine || tools::is_terminal_notice(text) {
            Origin::Injected
        } else if message.blocks.is_empty() {
            // Autopilot asks the model to go on; older versions do not mark it.
            Origin::Injected
        } else if mode == "shell" {
            Origin::Command
        } else {
            Origin::Human
        };
        if message.origin == Origin::Human && !message.sidechain {
            self.state.first_prompt.get_or_insert_with(|| tools::beginning(text));
        }
        put(&mut extensions, "source", prompt.source);
        put(&mut extensions, "agentMode", prompt.mode);
        json::keep(prompt.rest, &mut extensions);
        message.extensions = extensions;
        self.tell(message)?;
        Ok(Told::Yes)
    }

    fn answer(&mut self, envelope: &Envelope, data: &RawValue) -> Result<Told> {
        let Some(mut answer) = parse::<Answer<'_>>(data) else { return Ok(Told::Unknown) };
        let (mut message, thread) = envelope.inside(Role::Assistant, answer.parent_call.take());
        message.origin = Origin::Assistant;
        let model = owned(answer.model.take());
        message.model = self.model(&thread, model);
        message.api_id = owned(answer.api_id.take());
        message.request_id = owned(answer.request_id.take());
        self.add_usage(answer.output, &mut message);
        message.blocks.extend(owned(answer.content.take()).map(Block::Text));
        let odd = json::take(&mut answer.rest, "content");
        message.blocks.extend(odd.map(|raw| Block::Other(Json::from(raw))));
        self.ask(answer.requests.take().unwrap_or_default(), &mut message);
        json::keep(answer.rest, &mut message.extensions);
        self.add_turn(&thread, &mut message);
        if message.blocks.iter().any(|block| matches!(block, Block::ToolCall { .. })) {
            self.close()?;
            self.state.open = Some(Box::new(message));
        } else {
            self.tell(message)?;
        }
        Ok(Told::Yes)
    }

    /// Notes the turn that a thread begins, which its messages belong to.
    fn begin_turn(&mut self, envelope: &Envelope, data: &RawValue) -> Told {
        let Some(turn) = parse::<Turn<'_>>(data) else { return Told::Unknown };
        let thread = envelope.inside(Role::System, turn.parent_call).1;
        if let Some(id) = owned(turn.id) {
            self.state.turns.insert(thread, id);
        }
        Told::Nothing
    }

    fn end_turn(&mut self, envelope: &Envelope, data: &RawValue) -> Told {
        let Some(turn) = parse::<Turn<'_>>(data) else { return Told::Unknown };
        self.state.turns.remove(&envelope.inside(Role::System, turn.parent_call).1);
        Told::Nothing
    }

    /// Notes with a message which turn it belongs to, where the event does not say.
    fn add_turn(&self, thread: &str, message: &mut Message) {
        if let Some(turn) = self.state.turns.get(thread) {
            let kept = message.extensions.entry("turnId".to_owned());
            kept.or_insert_with(|| Json::from_value(turn));
        }
    }

    /// Adds the calls of an answer to its message.
    fn ask(&mut self, requests: Vec<Request<'_>>, message: &mut Message) {
        let mut details = Extensions::new();
        for mut request in requests {
            let id = owned(request.id.take()).unwrap_or_default();
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
            json::keep(request.rest, &mut said);
            if !said.is_empty() {
                details.insert(id.clone(), Json::from_value(&said));
            }
            let input = tools::arguments(request.arguments);
            self.state.pending.push(id.clone());
            message.blocks.push(Block::ToolCall { id, name, input });
        }
        if !details.is_empty() {
            message.extensions.insert("tools".into(), Json::from_value(&details));
        }
    }

    /// The start of a call. Most were asked for by an answer and are told already.
    fn request(&mut self, envelope: &Envelope, data: &RawValue, origin: Origin) -> Result<Told> {
        let Some(mut request) = parse::<Request<'_>>(data) else { return Ok(Told::Unknown) };
        let id = owned(request.id.take()).unwrap_or_default();
        let name = request.take_name();
        if let Some(path) = tools::path(&name, request.arguments) {
            self.touch(&path);
        }
        if self.state.pending.contains(&id) || self.state.ignored.contains(&id) {
            if let Some(of_server) = request.take_server(&name) {
                self.learn(id, of_server);
            }
            return Ok(Told::Nothing);
        }
        if name == tools::INTENT {
            self.state.ignored.push(id);
            return Ok(Told::Nothing);
        }
        let role = if origin == Origin::Command { Role::User } else { Role::Assistant };
        let (mut message, thread) = envelope.inside(role, request.parent_call.take());
        message.origin = origin;
        let (name, said) = match request.take_server(&name) {
            Some(of_server) => of_server,
            None => (name, Extensions::new()),
        };
        message.extensions.extend(said);
        json::keep(request.rest, &mut message.extensions);
        let input = tools::arguments(request.arguments);
        self.state.pending.push(id.clone());
        message.blocks.push(Block::ToolCall { id, name, input });
        if origin != Origin::Command {
            self.add_turn(&thread, &mut message);
        }
        self.tell(message)?;
        Ok(Told::Yes)
    }

    /// Takes in whose tool a call is for: into the answer that asked for it, or else, when that
    /// is told, into what the tool returns.
    fn learn(&mut self, id: String, (called, said): (String, Extensions)) {
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
            tools.and_then(Json::parse).unwrap_or_default();
        tools.entry(id).or_default().extend(said);
        message.extensions.insert("tools".into(), Json::from_value(&tools));
    }

    fn completion(&mut self, envelope: &Envelope, data: &RawValue) -> Result<Told> {
        let Some(mut completion) = parse::<Completion<'_>>(data) else { return Ok(Told::Unknown) };
        let id = owned(completion.id.take()).unwrap_or_default();
        let (mut message, thread) = envelope.inside(Role::Tool, completion.parent_call.take());
        let model = owned(completion.model.take());
        self.model(&thread, model);
        if let Some(at) = self.state.ignored.iter().position(|known| *known == id) {
            self.state.ignored.remove(at);
            return Ok(Told::Nothing);
        }
        self.state.pending.retain(|known| *known != id);
        message.origin = Origin::Tool;
        message.extensions.extend(self.state.late.remove(&id).unwrap_or_default());
        tools::answer(id, completion, &mut message);
        self.add_turn(&thread, &mut message);
        self.tell(message)?;
        Ok(Told::Yes)
    }

    fn notice(
        &mut self,
        envelope: &Envelope,
        data: &RawValue,
        (role, origin): (Role, Origin),
    ) -> Result<Told> {
        let Some(mut notice) = parse::<Notice<'_>>(data) else { return Ok(Told::Unknown) };
        let text = notice.take_text();
        if let Some(folder) = tools::trusted_folder(&text) {
            self.state.trusted.get_or_insert_with(|| folder.to_owned());
        }
        let mut message = envelope.message(role);
        message.origin = origin;
        message.failed = matches!(envelope.kind.as_str(), "session.error" | "abort");
        if !text.is_empty() {
            message.blocks.push(Block::Text(text));
        }
        message.extensions.insert("type".into(), Json::from_value(&envelope.kind));
        json::keep(notice.rest, &mut message.extensions);
        self.tell(message)?;
        Ok(Told::Yes)
    }

    /// The model of a thread: what the event says, else what the thread used last.
    pub(super) fn model(&mut self, thread: &str, named: Option<String>) -> Option<String> {
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

    pub(super) fn touch(&mut self, path: &str) {
        if self.files.insert(path.to_owned()) {
            self.session.files.push(path.to_owned());
        }
    }
}

/// Reads an event's data; `None` when it is of another shape.
pub(super) fn parse<'a, T>(data: &'a RawValue) -> Option<T>
where
    T: serde::Deserialize<'a> + FromOddValue<'a>,
{
    json::parse(data.get())
}

/// An owned text, when there is one.
pub(super) fn owned(text: Option<Text<'_>>) -> Option<String> {
    text.map(Text::into_owned).filter(|text| !text.is_empty())
}

/// Keeps a field that was used and is not in the model.
pub(super) fn put(extensions: &mut Extensions, key: &str, text: Option<Text<'_>>) {
    if let Some(text) = owned(text) {
        extensions.insert(key.to_owned(), Json::from_value(&text));
    }
}
