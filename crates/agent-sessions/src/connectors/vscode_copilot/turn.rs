//! Converts one request into messages: the prompt, its attachments and the response.

use std::path::Path;

use serde_json::value::RawValue;

use super::answer::{EmittedCalls, ResponseReader};
use super::shape::{
    Bytes, ChatRequest, RequestMetadata, RequestResult, Variable, elements_or_single, is_true,
    parse_count_value, parse_epoch_millis, parse_non_empty_string, parse_raw, parse_reference_path,
    parse_text_value,
};
use super::tools::Rounds;
use crate::connectors::formats::json;
use crate::model::{
    Block, Extensions, Image, Json, Message, Origin, Role, Session, Timestamp, Tokens, Usage,
};

/// One request, with parsed values that several of its messages need.
pub(super) struct RequestTurn<'a> {
    request: ChatRequest<'a>,
    outcome: RequestResult<'a>,
    metadata: RequestMetadata<'a>,
    id: Option<String>,
    at: Option<Timestamp>,
    ended: Option<Timestamp>,
    version: Option<String>,
    identity: String,
}

impl<'a> RequestTurn<'a> {
    pub(super) fn from_request(request: ChatRequest<'a>, session: &str) -> Self {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        struct ParticipantRecord<'a> {
            extension_version: Option<&'a RawValue>,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        struct ResponseEndState<'a> {
            completed_at: Option<&'a RawValue>,
        }
        let mut outcome: RequestResult<'_> = parse_raw(request.result).unwrap_or_default();
        let id = parse_non_empty_string(request.id);
        let at = parse_epoch_millis(request.timestamp);
        let place = || format!("{session} {}", at.map_or(0, Timestamp::as_millis));
        Self {
            metadata: outcome.metadata.take().unwrap_or_default(),
            outcome,
            at,
            ended: parse_raw::<ResponseEndState<'_>>(request.state)
                .and_then(|state| parse_epoch_millis(state.completed_at)),
            version: parse_raw::<ParticipantRecord<'_>>(request.agent)
                .and_then(|by| parse_non_empty_string(by.extension_version)),
            identity: id.clone().unwrap_or_else(place),
            id,
            request,
        }
    }

    /// Creates the reader of the response.
    pub(super) fn response_reader<'b>(
        &self,
        resources: &'b Path,
        calls: &'b mut EmittedCalls,
    ) -> ResponseReader<'b>
    where
        'a: 'b,
    {
        ResponseReader::new(Rounds::from_request_metadata(&self.metadata), resources, calls)
    }

    /// Converts the request into messages, and adds its metadata to the session.
    pub(super) fn into_turn_messages(
        mut self,
        mut answer: ResponseReader<'_>,
        session: &mut Session,
    ) -> Vec<Message> {
        session.extend_time_span(self.at);
        session.extend_time_span(self.ended);
        session.agent_version = self.version.clone().or(session.agent_version.take());
        let mut replies = answer.read_response(self.request.response);
        for file in answer.files {
            if !session.files.contains(&file) {
                session.files.push(file);
            }
        }
        let mut messages = self.injected_messages();
        let mut prompt = self.prompt_of_turn();
        self.set_reply_metadata(&mut replies);
        // Metadata of the response belongs to its last reply; without one, to the prompt.
        let last = replies.iter_mut().rev().find(|reply| reply.origin == Origin::Assistant);
        self.add_response_totals(last.unwrap_or(&mut prompt));
        messages.push(prompt);
        messages.append(&mut replies);
        messages.extend(self.failure_message());
        for message in &mut messages {
            message.agent_version.clone_from(&self.version);
        }
        messages
    }

    /// Returns the texts injected with the prompt: instructions, skills, the workspace.
    fn injected_messages(&self) -> Vec<Message> {
        let variables = self.prompt_variables();
        let texts = variables.iter().filter_map(|(_, variable)| {
            let injected =
                parse_non_empty_string(variable.value).filter(|_| !variable.is_image())?;
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

    fn prompt_of_turn(&mut self) -> Message {
        let mut message = Message {
            uuid: self.id.clone(),
            role: Role::User,
            origin: Origin::Human,
            at: self.at,
            ..Message::default()
        };
        if is_true(self.request.is_system) {
            message.origin = Origin::Injected;
        } else if let Some(button) = parse_non_empty_string(self.request.confirmation) {
            // A click on a button, which VS Code records like a typed prompt.
            message.origin = Origin::Command;
            message.extensions.insert("confirmation".into(), Json::from_value(&button));
        }
        message.blocks.extend(parse_text_value(self.request.message).map(Block::Text));
        let mut attached: Vec<&RawValue> = Vec::new();
        for (raw, variable) in self.prompt_variables() {
            if variable.is_image() {
                message.blocks.push(Block::Image(variable.variable_image()));
            } else if parse_non_empty_string(variable.value).is_none() {
                attached.push(raw);
            }
        }
        if !attached.is_empty() {
            message.extensions.insert("variables".into(), Json::from_value(&attached));
        }
        self.insert_participant(&mut message.extensions);
        json::keep_non_empty_fields(
            std::mem::take(&mut self.request.rest),
            &mut message.extensions,
        );
        message
    }

    /// Inserts the id of the chat participant. The rest of its record describes the extension.
    fn insert_participant(&self, extensions: &mut Extensions) {
        #[derive(serde::Deserialize)]
        #[serde(bound(deserialize = "'de: 'a"))]
        struct ParticipantRecord<'a> {
            id: Option<&'a RawValue>,
        }
        if let Some(id) =
            parse_raw::<ParticipantRecord<'_>>(self.request.agent).and_then(|by| by.id)
        {
            extensions.insert("agent".into(), Json::from(id));
        }
    }

    fn prompt_variables(&self) -> Vec<(&'a RawValue, Variable<'a>)> {
        #[derive(serde::Deserialize)]
        #[serde(bound(deserialize = "'de: 'a"))]
        struct Attached<'a> {
            variables: Option<&'a RawValue>,
        }
        let variables =
            parse_raw::<Attached<'a>>(self.request.variables).and_then(|all| all.variables);
        elements_or_single(variables)
            .into_iter()
            .filter_map(|raw| Some((raw, parse_raw(Some(raw))?)))
            .collect()
    }

    /// Sets the model, ids, end time and stop reason of the replies.
    fn set_reply_metadata(&self, replies: &mut [Message]) {
        let asked = parse_non_empty_string(self.request.model);
        let resolved = parse_non_empty_string(self.metadata.model);
        // With `auto` the service selects the model and records its choice.
        let is_auto = asked.as_ref().is_none_or(|model| model.ends_with("/auto"));
        let model = if is_auto { resolved.or(asked) } else { asked };
        let api_id = parse_non_empty_string(self.request.response_id).or_else(|| self.id.clone());
        let stop = self.stop_reason();
        let mut is_first = true;
        for reply in replies.iter_mut().filter(|reply| reply.origin == Origin::Assistant) {
            reply.model.clone_from(&model);
            reply.api_id.clone_from(&api_id);
            reply.request_id.clone_from(&self.id);
            if std::mem::take(&mut is_first) {
                reply.uuid = parse_non_empty_string(self.request.response_id);
            }
        }
        let last = replies.iter_mut().rev().find(|reply| reply.origin == Origin::Assistant);
        if let Some(last) = last {
            last.at = self.ended.or(last.at);
            last.stop_reason = stop;
        }
    }

    fn stop_reason(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct ResponseEndState {
            value: u64,
        }
        let name = match parse_raw::<ResponseEndState>(self.request.state).map(|state| state.value)
        {
            Some(0) => "pending",
            Some(2) => "cancelled",
            Some(3) => "failed",
            Some(4) => "needs input",
            None if is_true(self.request.is_canceled) => "cancelled",
            _ => return None,
        };
        Some(name.to_owned())
    }

    /// Adds the usage, models and extensions of the whole response to a message.
    fn add_response_totals(&mut self, message: &mut Message) {
        message.usage = self.last_call_usage(&mut message.extensions);
        for (key, model) in
            [("modelId", self.request.model), ("resolvedModel", self.metadata.model)]
        {
            if let Some(model) =
                model.filter(|model| parse_non_empty_string(Some(model)) != message.model)
            {
                message.extensions.insert(key.into(), Json::from(model));
            }
        }
        json::keep_non_empty_fields(
            std::mem::take(&mut self.outcome.rest),
            &mut message.extensions,
        );
        json::keep_non_empty_fields(
            std::mem::take(&mut self.metadata.rest),
            &mut message.extensions,
        );
    }

    /// Returns the tokens of the request's last model call: earlier calls are not recorded. The
    /// prompt tokens are the size of the whole context, without the share of the cache, so they are
    /// kept in the extensions and not in the usage.
    fn last_call_usage(&self, extensions: &mut Extensions) -> Option<Usage> {
        #[derive(Default, serde::Deserialize)]
        #[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        struct PromptTokenCounts<'a> {
            prompt_tokens: Option<&'a RawValue>,
            completion_tokens: Option<&'a RawValue>,
        }
        let counts: PromptTokenCounts<'_> = parse_raw(self.outcome.usage).unwrap_or_default();
        let (request, metadata) = (&self.request, &self.metadata);
        let (prompt, output) = [
            (request.prompt_tokens, request.completion_tokens),
            (counts.prompt_tokens, counts.completion_tokens),
            (metadata.prompt_tokens, metadata.output_tokens),
        ]
        .into_iter()
        .find(|(_, output)| parse_count_value(*output).is_some())?;
        extensions.extend(prompt.map(|prompt| ("promptTokens".to_owned(), Json::from(prompt))));
        let tokens = Tokens { output: parse_count_value(output)?, ..Tokens::default() };
        Some(Usage { identity: Some(self.identity.clone()), tokens, ..Usage::default() })
    }

    fn failure_message(&self) -> Option<Message> {
        #[derive(serde::Deserialize)]
        #[serde(bound(deserialize = "'de: 'a"))]
        struct ErrorDetails<'a> {
            message: Option<&'a RawValue>,
        }
        let raw = self.outcome.error?;
        let said = parse_raw::<ErrorDetails<'_>>(Some(raw))
            .and_then(|failure| parse_text_value(failure.message));
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
        parse_non_empty_string(self.kind).is_some_and(|kind| kind == "image")
    }

    fn variable_image(&self) -> Image {
        let media_type = parse_non_empty_string(self.mime_type);
        match parse_raw::<Bytes>(self.value) {
            Some(Bytes(data)) => Image::image_from_bytes(media_type, data),
            None => {
                Image { media_type, location: parse_reference_path(self.value), ..Image::default() }
            }
        }
    }
}
