//! Tells a session document: the session, and for each request the prompt and its answer.

use std::path::Path;

use serde_json::value::RawValue;

use super::AGENT;
use super::answer::{Answer, Calls};
use super::document::Node;
use super::shape::{
    Bytes, Metadata, Outcome, Request, Variable, count, instant, is_true, list, place, read, text,
    word,
};
use super::tools::Rounds;
use crate::connectors::formats::json;
use crate::connectors::formats::jsonl;
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{
    Block, Extensions, Image, Json, Message, Origin, Role, Session, Timestamp, TitleRank, Tokens,
    Usage,
};

/// What the interface remembers between two prompts, and pictures of people.
const INTERFACE: &[&str] = &[
    "inputState",
    "inputText",
    "attachments",
    "selections",
    "selectedModel",
    "mode",
    "contrib",
    "requesterAvatarIconUri",
    "responderAvatarIconUri",
    "requesterUsername",
    "responderUsername",
    "version",
    "creationDate",
];

/// Where a document was found.
#[derive(Default)]
pub(super) struct Place<'a> {
    /// The session's id, where the place tells it.
    pub(super) native: Option<String>,
    /// The folder its workspace belongs to.
    pub(super) folder: Option<String>,
    /// The workspace storage it lies in.
    pub(super) storage: Option<&'a Path>,
}

/// Tells everything in a document.
pub(super) fn tell(mut document: Node, place: Place<'_>, sink: &mut dyn Sink) -> Result<()> {
    let requests = document.take("requests");
    let is_chat = requests.is_some();
    let requests = requests.map(Node::elements).unwrap_or_default();
    let session = about(document, &place, requests.first()).filter(|_| is_chat);
    let Some(mut session) = session else {
        return sink.accept(Record::bad(0, "not a chat session"));
    };
    sink.accept(Record::Session(Box::new(session.clone())))?;
    if requests.is_empty() {
        return Ok(());
    }
    let mut calls = Calls::new();
    let resources =
        place.storage.map(|storage| storage.join(super::EXTENSION).join("chat-session-resources"));
    let resources = resources.as_deref().unwrap_or(Path::new(""));
    for (at, request) in requests.into_iter().enumerate() {
        let Some(raw) = request.into_raw().filter(|raw| raw.get() != "null") else { continue };
        let mended;
        let request = match read::<Request<'_>>(Some(&raw)) {
            Some(request) => Some(request),
            None => {
                mended = jsonl::mend(raw.get().as_bytes());
                serde_json::from_slice(&mended).ok()
            }
        };
        match request {
            Some(request) => {
                let turn = Turn::of(request, &session.id.native);
                let rounds = Rounds::of(&turn.metadata);
                let answer = Answer::new(rounds, resources, &mut calls);
                for message in turn.tell(answer, &mut session) {
                    sink.accept(Record::Message(Box::new(message)))?;
                }
            }
            None => sink.accept(Record::bad(at as u64, "not a request"))?,
        }
    }
    sink.accept(Record::Session(Box::new(session)))
}

/// Reads what the document says about the session as a whole.
fn about(mut document: Node, place: &Place<'_>, first: Option<&Node>) -> Option<Session> {
    let mut take = |key: &str| document.take(key).and_then(Node::into_raw);
    let native = word(take("sessionId").as_deref()).or_else(|| place.native.clone());
    let mut session = Session::new(AGENT.id, native.or_else(|| request_id(first?))?);
    let created = instant(take("creationDate").as_deref());
    if first.is_none() {
        session.seen(created);
    }
    session.seen(instant(take("lastMessageDate").as_deref()).filter(|_| first.is_some()));
    // Version 3 calls the title custom that version 2 called computed.
    let computed = word(take("computedTitle").as_deref());
    let custom = word(take("customTitle").as_deref()).or(computed);
    session.title(TitleRank::Generated, custom.unwrap_or_default());
    let directory = super::shape::place(take("workingDirectory").as_deref());
    session.cwd = place.folder.clone().or(directory);
    repository(take("repoData").as_deref(), &mut session);
    for key in INTERFACE {
        take(key);
    }
    keep(document, &mut session.extensions);
    Some(session)
}

/// An exported chat has no id: the one of its first request is as good.
fn request_id(first: &Node) -> Option<String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct First {
        request_id: String,
    }
    let raw = serde_json::to_string(first).ok()?;
    let First { request_id } = serde_json::from_str(&raw).ok()?;
    Some(request_id.strip_prefix("request_").unwrap_or(&request_id).to_owned())
}

fn repository(raw: Option<&RawValue>, session: &mut Session) {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
    struct Repository<'a> {
        remote_url: Option<&'a RawValue>,
        local_branch: Option<&'a RawValue>,
        local_head_commit: Option<&'a RawValue>,
    }
    let Some(found) = read::<Repository<'_>>(raw) else { return };
    session.repository = word(found.remote_url);
    session.branch = word(found.local_branch);
    if let Some(commit) = word(found.local_head_commit) {
        session.extensions.insert("localHeadCommit".into(), Json::from_value(&commit));
    }
}

fn keep(document: Node, extensions: &mut Extensions) {
    let Node::Object(members) = document else { return };
    let raw: Vec<(String, Box<RawValue>)> =
        members.into_iter().filter_map(|(key, value)| Some((key, value.into_raw()?))).collect();
    json::keep(raw.iter().map(|(key, value)| (key.into(), &**value)).collect(), extensions);
}

/// One request, with what several of its messages need.
struct Turn<'a> {
    request: Request<'a>,
    outcome: Outcome<'a>,
    metadata: Metadata<'a>,
    id: Option<String>,
    at: Option<Timestamp>,
    ended: Option<Timestamp>,
    version: Option<String>,
    identity: String,
}

impl<'a> Turn<'a> {
    fn of(request: Request<'a>, session: &str) -> Self {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        struct By<'a> {
            extension_version: Option<&'a RawValue>,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        struct State<'a> {
            completed_at: Option<&'a RawValue>,
        }
        let mut outcome: Outcome<'_> = read(request.result).unwrap_or_default();
        let id = word(request.id);
        let at = instant(request.timestamp);
        let place = || format!("{session} {}", at.map_or(0, Timestamp::as_millis));
        Self {
            metadata: outcome.metadata.take().unwrap_or_default(),
            outcome,
            at,
            ended: read::<State<'_>>(request.state).and_then(|state| instant(state.completed_at)),
            version: read::<By<'_>>(request.agent).and_then(|by| word(by.extension_version)),
            identity: id.clone().unwrap_or_else(place),
            id,
            request,
        }
    }

    fn tell(mut self, mut answer: Answer<'_>, session: &mut Session) -> Vec<Message> {
        session.seen(self.at);
        session.seen(self.ended);
        session.agent_version = self.version.clone().or(session.agent_version.take());
        let mut replies = answer.read(self.request.response);
        for file in answer.files {
            if !session.files.contains(&file) {
                session.files.push(file);
            }
        }
        let mut messages = self.injected();
        let mut prompt = self.prompt();
        self.sign(&mut replies);
        // What is said about an answer stands with the answer, where there is one.
        let last = replies.iter_mut().rev().find(|reply| reply.origin == Origin::Assistant);
        self.close(last.unwrap_or(&mut prompt));
        messages.push(prompt);
        messages.append(&mut replies);
        messages.extend(self.failure());
        for message in &mut messages {
            message.agent_version.clone_from(&self.version);
        }
        messages
    }

    /// Texts that came with the prompt and that nobody typed: instructions, skills, the workspace.
    fn injected(&self) -> Vec<Message> {
        let variables = self.variables();
        let texts = variables.iter().filter_map(|(_, variable)| {
            let injected = word(variable.value).filter(|_| !variable.is_image())?;
            let mut extensions = Extensions::new();
            extensions.extend(variable.name.map(|name| ("name".to_owned(), Json::from(name))));
            Some((injected, extensions))
        });
        texts
            .map(|(injected, extensions)| Message {
                role: Role::User,
                origin: Origin::Injected,
                at: self.at,
                blocks: vec![Block::Text(injected)],
                extensions,
                ..Message::default()
            })
            .collect()
    }

    fn prompt(&mut self) -> Message {
        let mut message = Message {
            uuid: self.id.clone(),
            role: Role::User,
            origin: Origin::Human,
            at: self.at,
            ..Message::default()
        };
        if is_true(self.request.is_system) {
            message.origin = Origin::Injected;
        }
        message.blocks.extend(text(self.request.message).map(Block::Text));
        let mut attached: Vec<&RawValue> = Vec::new();
        for (raw, variable) in self.variables() {
            if variable.is_image() {
                message.blocks.push(Block::Image(variable.image()));
            } else if word(variable.value).is_none() {
                attached.push(raw);
            }
        }
        if !attached.is_empty() {
            message.extensions.insert("variables".into(), Json::from_value(&attached));
        }
        self.by(&mut message.extensions);
        json::keep(std::mem::take(&mut self.request.rest), &mut message.extensions);
        message
    }

    /// Which participant was asked; the rest of its record describes the extension.
    fn by(&self, extensions: &mut Extensions) {
        #[derive(serde::Deserialize)]
        #[serde(bound(deserialize = "'de: 'a"))]
        struct By<'a> {
            id: Option<&'a RawValue>,
        }
        if let Some(id) = read::<By<'_>>(self.request.agent).and_then(|by| by.id) {
            extensions.insert("agent".into(), Json::from(id));
        }
    }

    fn variables(&self) -> Vec<(&'a RawValue, Variable<'a>)> {
        #[derive(serde::Deserialize)]
        #[serde(bound(deserialize = "'de: 'a"))]
        struct Attached<'a> {
            variables: Option<&'a RawValue>,
        }
        let variables = read::<Attached<'a>>(self.request.variables).and_then(|all| all.variables);
        list(variables).into_iter().filter_map(|raw| Some((raw, read(Some(raw))?))).collect()
    }

    /// Says which model wrote the answer, and when.
    fn sign(&self, replies: &mut [Message]) {
        let asked = word(self.request.model);
        let resolved = word(self.metadata.model);
        // `auto` leaves the choice to the service, which says what it chose.
        let is_auto = asked.as_ref().is_none_or(|model| model.ends_with("/auto"));
        let model = if is_auto { resolved.or(asked) } else { asked };
        let api_id = word(self.request.response_id).or_else(|| self.id.clone());
        let stop = self.stop();
        let mut is_first = true;
        for reply in replies.iter_mut().filter(|reply| reply.origin == Origin::Assistant) {
            reply.model.clone_from(&model);
            reply.api_id.clone_from(&api_id);
            reply.request_id.clone_from(&self.id);
            if std::mem::take(&mut is_first) {
                reply.uuid = word(self.request.response_id);
            }
        }
        let last = replies.iter_mut().rev().find(|reply| reply.origin == Origin::Assistant);
        if let Some(last) = last {
            last.at = self.ended.or(last.at);
            last.stop_reason = stop;
        }
    }

    fn stop(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct State {
            value: u64,
        }
        let name = match read::<State>(self.request.state).map(|state| state.value) {
            Some(0) => "pending",
            Some(2) => "cancelled",
            Some(3) => "failed",
            Some(4) => "needs input",
            None if is_true(self.request.is_canceled) => "cancelled",
            _ => return None,
        };
        Some(name.to_owned())
    }

    /// Adds what is recorded about the answer as a whole.
    fn close(&mut self, message: &mut Message) {
        message.usage = self.usage(&mut message.extensions);
        for (key, model) in
            [("modelId", self.request.model), ("resolvedModel", self.metadata.model)]
        {
            if let Some(model) = model.filter(|model| word(Some(model)) != message.model) {
                message.extensions.insert(key.into(), Json::from(model));
            }
        }
        json::keep(std::mem::take(&mut self.outcome.rest), &mut message.extensions);
        json::keep(std::mem::take(&mut self.metadata.rest), &mut message.extensions);
    }

    /// The tokens of the last call of the request: earlier calls are not recorded. The prompt's
    /// are the size of its whole context, with no word on what a cache held, so they are kept
    /// beside the usage and not in it.
    fn usage(&self, extensions: &mut Extensions) -> Option<Usage> {
        #[derive(Default, serde::Deserialize)]
        #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        struct Counts<'a> {
            prompt_tokens: Option<&'a RawValue>,
            completion_tokens: Option<&'a RawValue>,
        }
        let counts: Counts<'_> = read(self.outcome.usage).unwrap_or_default();
        let (request, metadata) = (&self.request, &self.metadata);
        let (prompt, output) = [
            (request.prompt_tokens, request.completion_tokens),
            (counts.prompt_tokens, counts.completion_tokens),
            (metadata.prompt_tokens, metadata.output_tokens),
        ]
        .into_iter()
        .find(|(_, output)| count(*output).is_some())?;
        extensions.extend(prompt.map(|prompt| ("promptTokens".to_owned(), Json::from(prompt))));
        let tokens = Tokens { output: count(output)?, ..Tokens::default() };
        Some(Usage { identity: Some(self.identity.clone()), tokens, ..Usage::default() })
    }

    fn failure(&self) -> Option<Message> {
        #[derive(serde::Deserialize)]
        #[serde(bound(deserialize = "'de: 'a"))]
        struct Failure<'a> {
            message: Option<&'a RawValue>,
        }
        let raw = self.outcome.error?;
        let said = read::<Failure<'_>>(Some(raw)).and_then(|failure| text(failure.message));
        let mut extensions = Extensions::new();
        extensions.insert("errorDetails".into(), Json::from(raw));
        Some(Message {
            at: self.ended,
            request_id: self.id.clone(),
            failed: true,
            blocks: said.map(Block::Text).into_iter().collect(),
            extensions,
            ..Message::default()
        })
    }
}

impl Variable<'_> {
    fn is_image(&self) -> bool {
        word(self.kind).is_some_and(|kind| kind == "image")
    }

    fn image(&self) -> Image {
        let media_type = word(self.mime_type);
        match read::<Bytes>(self.value) {
            Some(Bytes(data)) => Image::from_bytes(media_type, data),
            None => Image { media_type, location: place(self.value), ..Image::default() },
        }
    }
}
