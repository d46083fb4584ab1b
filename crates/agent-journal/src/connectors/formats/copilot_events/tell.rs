//! Turns events into what they say about the session, and into messages.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::Reader;
use super::event::{Answer, Asset, Completion, Event, Notice, Prompt, Request};
use super::tools;
use crate::connectors::Record;
use crate::connectors::formats::json::{self, FromOddValue, Text};
use crate::error::Result;
use crate::model::{
    Block, Extensions, Image, Json, Message, Origin, Role, Timestamp, Tokens, Usage,
};

/// Events that are state of the program, or that repeat what other events say.
const STATE: &[&str] = &[
    "assistant.turn_start",
    "assistant.turn_end",
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
        if let Some(agent) = &self.agent {
            message.sidechain = true;
            message.extensions.insert("agentId".into(), Json::from_value(agent));
        }
        message
    }

    /// Begins a message that a sub-agent may have made: then it names the call that started it.
    fn inside(&self, role: Role, parent_call: Option<Text<'_>>) -> (Message, String) {
        let mut message = self.message(role);
        let call = owned(parent_call);
        if let Some(call) = &call {
            message.sidechain = true;
            message.extensions.insert("parentToolCallId".into(), Json::from_value(call));
        }
        (message, call.or(self.agent.clone()).unwrap_or_default())
    }
}

impl Reader<'_> {
    pub(super) fn record(&mut self, event: Event<'_>, bytes: &[u8], offset: u64) -> Result<()> {
        let envelope = Envelope {
            kind: owned(event.kind).unwrap_or_default(),
            id: owned(event.id),
            at: event.timestamp.and_then(|text| Timestamp::parse(text.as_str())),
            agent: owned(event.agent),
        };
        if event.ephemeral == Some(true) {
            return self.pass(offset, envelope.kind);
        }
        self.session.seen(envelope.at);
        let data = event.data.unwrap_or(RawValue::NULL);
        match self.dispatch(&envelope, data)? {
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
            "session.shutdown" => self.shutdown(envelope, data),
            "session.binary_asset" => self.asset(envelope, data),
            "user.message" => self.prompt(envelope, data),
            "assistant.message" => self.answer(envelope, data),
            "tool.user_requested" => self.request(envelope, data, Origin::Command),
            "tool.execution_start" => self.request(envelope, data, Origin::System),
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
        let content = prompt.content.as_ref().map_or("", Text::as_str);
        let text = tools::typed(content);
        let (mut message, _) = envelope.inside(Role::User, prompt.parent_call);
        let mode = prompt.mode.as_ref().map_or("", Text::as_str);
        if !text.is_empty() {
            message.blocks.push(Block::Text(text.to_owned()));
        }
        message.blocks.extend(odd.map(|raw| Block::Other(Json::from(raw))));
        let mut extensions = std::mem::take(&mut message.extensions);
        tools::attach(prompt.attachments.unwrap_or_default(), &mut message.blocks, &mut extensions);
        message.origin = if prompt.source.is_some() || prompt.is_continuation == Some(true) {
            Origin::Injected
        } else if message.blocks.is_empty() {
            // Autopilot asks the model to go on; older versions do not mark it.
            Origin::Injected
        } else if mode == "shell" {
            Origin::Command
        } else {
            Origin::Human
        };
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
        message.usage = answer.output.map(|output| self.call(output, message.api_id.as_deref()));
        message.blocks.extend(owned(answer.content.take()).map(Block::Text));
        let odd = json::take(&mut answer.rest, "content");
        message.blocks.extend(odd.map(|raw| Block::Other(Json::from(raw))));
        self.ask(answer.requests.take().unwrap_or_default(), &mut message);
        json::keep(answer.rest, &mut message.extensions);
        if message.blocks.iter().any(|block| matches!(block, Block::ToolCall { .. })) {
            self.close()?;
            self.state.open = Some(Box::new(message));
        } else {
            self.tell(message)?;
        }
        Ok(Told::Yes)
    }

    /// The tokens an answer carries.
    fn call(&mut self, output: u64, api_id: Option<&str>) -> Usage {
        self.state.is_counted = true;
        let identity = match (&self.state.call, api_id) {
            // One answer in several pieces.
            (Some((known, identity)), Some(id)) if known == id => identity.clone(),
            _ => {
                let count = self.state.outputs.entry(output).or_default();
                *count += 1;
                super::call_identity(&self.state.native, output, *count)
            }
        };
        self.state.call = api_id.map(|id| (id.to_owned(), identity.clone()));
        let tokens = Tokens { output, ..Tokens::default() };
        Usage { identity: Some(identity), tokens, ..Usage::default() }
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
        let (mut message, _) = envelope.inside(role, request.parent_call.take());
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
    fn model(&mut self, thread: &str, named: Option<String>) -> Option<String> {
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
