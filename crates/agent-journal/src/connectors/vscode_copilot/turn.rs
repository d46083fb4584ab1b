//! One request: what was asked, with what came along, and how it was answered.

use std::path::Path;

use serde_json::value::RawValue;

use super::answer::{Answer, Calls};
use super::shape::{
    Bytes, Metadata, Outcome, Request, Variable, count, instant, is_true, list, place, read, text,
    word,
};
use super::tools::Rounds;
use crate::connectors::formats::json;
use crate::model::{
    Block, Extensions, Image, Json, Message, Origin, Role, Session, Timestamp, Tokens, Usage,
};

/// One request, with what several of its messages need.
pub(super) struct Turn<'a> {
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
    pub(super) fn of(request: Request<'a>, session: &str) -> Self {
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

    /// Begins the account of the answer.
    pub(super) fn answer<'b>(&self, resources: &'b Path, calls: &'b mut Calls) -> Answer<'b>
    where
        'a: 'b,
    {
        Answer::new(Rounds::of(&self.metadata), resources, calls)
    }

    /// Tells the prompt and its answer, and adds what they say about the session.
    pub(super) fn tell(mut self, mut answer: Answer<'_>, session: &mut Session) -> Vec<Message> {
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
        } else if let Some(button) = word(self.request.confirmation) {
            // A click, which VS Code writes down as if it had been typed.
            message.origin = Origin::Command;
            message.extensions.insert("confirmation".into(), Json::from_value(&button));
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
