//! From the model to the document: what maps gets its place, what does not becomes an extension.

use std::collections::{BTreeMap, HashMap};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::graph::Outline;
use super::schema::{
    Block, Message, MessageNotes, Metadata, Model, OWN, Role, Session, SessionNotes, TokenUsage,
};
use crate::model::{self, Extensions, Json, Origin, TitleRank};

/// Fetches a picture's bytes by their hash.
pub(crate) type Pictures<'p> = dyn Fn(&str) -> Option<Vec<u8>> + 'p;

/// Gives messages their shape; remembers the names of tools for the results that follow.
pub(crate) struct Shaper<'p> {
    agent: String,
    tools: HashMap<String, String>,
    pictures: Option<&'p Pictures<'p>>,
    /// The messages that may be named as parents; without it parents stay as recorded.
    pub(super) outline: Option<&'p Outline>,
}

impl<'p> Shaper<'p> {
    /// Begins a session; without `pictures` they are described only.
    pub(crate) fn new(agent: &str, pictures: Option<&'p Pictures<'p>>) -> Self {
        Self { agent: agent.to_owned(), tools: HashMap::new(), pictures, outline: None }
    }

    /// Gives one message its shape.
    pub(crate) fn message(&mut self, position: u64, mut message: model::Message) -> Message {
        let role = match message.role {
            model::Role::User | model::Role::Tool => Role::User,
            model::Role::Assistant => Role::Assistant,
            model::Role::System => Role::System,
        };
        let metadata = metadata(role, &mut message);
        let content = std::mem::take(&mut message.blocks);
        let content = content.into_iter().map(|block| self.block(block)).collect();
        let parent_uuid = self.parent_of(&message);
        let recorded_parent = message.parent.take().filter(|id| parent_uuid.as_ref() != Some(id));
        let notes = MessageNotes { recorded_parent, ..notes(role, &mut message) };
        let mut extensions = BTreeMap::from([(OWN.to_owned(), Json::from_value(&notes))]);
        if !message.extensions.is_empty() {
            extensions.insert(self.agent.clone(), Json::from_value(&message.extensions));
        }
        Message {
            index: position + 1,
            uuid: message.uuid,
            parent_uuid,
            role,
            timestamp: message.at,
            content,
            metadata: (metadata != Metadata::default()).then_some(metadata),
            extensions,
        }
    }

    /// Returns the message of the document that a message follows.
    fn parent_of(&self, message: &model::Message) -> Option<String> {
        let recorded = message.parent.as_deref()?;
        let parent = match self.outline {
            Some(outline) => outline.message_of(recorded)?,
            None => recorded,
        };
        (message.uuid.as_deref() != Some(parent)).then(|| parent.to_owned())
    }

    fn block(&mut self, block: model::Block) -> Block {
        match block {
            model::Block::Text(text) => Block::Text { text },
            model::Block::Thinking(thinking) => Block::Thinking { thinking },
            model::Block::ToolCall { id, name, input } => {
                self.called(&id, &name);
                Block::ToolUse { tool_id: id, tool_name: name, input }
            }
            model::Block::ToolResult { call_id, output, is_error } => Block::ToolResult {
                tool_name: self.name_of(&call_id),
                tool_id: call_id,
                output,
                // A format that says nothing reports no failure.
                is_error: is_error.unwrap_or(false),
            },
            model::Block::Image(image) => self.image(image),
            model::Block::Other(raw) => Block::Other { raw },
        }
    }

    /// Remembers the name of a tool for the result of its call.
    pub(super) fn called(&mut self, id: &str, name: &str) {
        self.tools.insert(id.to_owned(), name.to_owned());
    }

    /// The tool of a call.
    pub(super) fn name_of(&self, id: &str) -> String {
        self.tools.get(id).cloned().unwrap_or_default()
    }

    fn image(&self, image: model::Image) -> Block {
        let fetch = || self.pictures.zip(image.hash.as_deref()).and_then(|(get, hash)| get(hash));
        let data = fetch().map(|bytes| STANDARD.encode(bytes));
        let model::Image { media_type, bytes, location, hash, .. } = image;
        Block::Image { media_type, bytes, location, hash, data }
    }
}

fn metadata(role: Role, message: &mut model::Message) -> Metadata {
    let is_meta = matches!(message.origin, Origin::Injected | Origin::Summary | Origin::System)
        || take_flag(&mut message.extensions, "isMeta");
    let is_answer = role == Role::Assistant;
    let stop_sequence = is_answer.then(|| lift(&mut message.extensions, "stop_sequence")).flatten();
    let model = Model {
        name: message.model.take_if(|_| is_answer),
        stop_reason: message.stop_reason.take_if(|_| is_answer),
        stop_sequence,
    };
    let usage = message.usage.as_ref().filter(|_| is_answer);
    Metadata {
        cwd: message.cwd.take(),
        git_branch: message.branch.take(),
        agent_version: message.agent_version.take(),
        user_type: lift(&mut message.extensions, "userType"),
        is_meta: is_meta.then_some(true),
        is_tool_result: (message.role == model::Role::Tool).then_some(true),
        model: (model != Model::default()).then_some(model),
        token_usage: usage.map(|usage| TokenUsage {
            input_tokens: usage.tokens.input,
            output_tokens: usage.tokens.output,
            cache_creation_tokens: usage.tokens.cache_creation,
            cache_read_tokens: usage.tokens.cache_read,
        }),
        request_id: message.request_id.take(),
    }
}

/// Takes a value that has a place of its own out of the extensions.
fn lift<T: serde::de::DeserializeOwned>(extensions: &mut Extensions, name: &str) -> Option<T> {
    let value = extensions.get(name)?.parse()?;
    extensions.remove(name);
    Some(value)
}

/// Takes a flag that is set out of the extensions; one that is not stays.
fn take_flag(extensions: &mut Extensions, name: &str) -> bool {
    let is_set = extensions.get(name).and_then(Json::parse) == Some(true);
    if is_set {
        extensions.remove(name);
    }
    is_set
}

fn notes(role: Role, message: &mut model::Message) -> MessageNotes {
    let usage = message.usage.take();
    // What `token_usage` says in full need not be said twice.
    let plain = |usage: &model::Usage| {
        let bare = model::Usage { tokens: usage.tokens, ..<_>::default() };
        role == Role::Assistant && *usage == bare && usage.tokens.reasoning.is_none()
    };
    MessageNotes {
        origin: Some(message.origin),
        recorded_parent: None,
        api_id: message.api_id.take(),
        part_uuids: std::mem::take(&mut message.part_uuids),
        sidechain: message.sidechain,
        failed: message.failed,
        recording: message.imported.then(|| "imported".to_owned()),
        model: message.model.take(),
        stop_reason: message.stop_reason.take(),
        usage: usage.filter(|usage| !plain(usage)),
    }
}

/// Gives a session its shape: what the journal lists, and what the agent's files say of it.
pub(crate) fn session(
    mut notes: SessionNotes,
    mut session: Session,
    mut account: model::Session,
    agent: &str,
) -> Session {
    // A summary that stands in another session may have given this one its title.
    let summary = TitleRank::Summary;
    if notes.title_source == summary.name() && account.titles.iter().all(|one| one.rank != summary)
    {
        account.title(summary, notes.title.clone());
    }
    let project_dir = account.project_dir();
    let mut extensions = account.extensions;
    session.agent_id = match lift(&mut extensions, "agentId") {
        Some(id) => Some(id),
        None => session.is_agent_session.then(|| session.id.clone()),
    };
    notes.kind = account.kind;
    notes.continues = account.continues;
    notes.begins_with_copy = account.begins_with_copy;
    notes.activity = account.activity;
    notes.repository = account.repository;
    notes.root = account.root;
    notes.model = account.model;
    notes.titles = account.titles;
    notes.summaries = account.summaries;
    notes.documents = account.documents;
    // In one order, however often the session was read.
    notes.files = account.files;
    notes.files.sort_unstable();
    session.workspace_encoded = project_dir.unwrap_or_else(|| model::encoded(&session.workspace));
    session.extensions.insert(OWN.to_owned(), Json::from_value(&notes));
    if !extensions.is_empty() {
        session.extensions.insert(agent.to_owned(), Json::from_value(&extensions));
    }
    session
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_carry_the_name_of_the_tool_that_was_called() {
        let mut shaper = Shaper::new("x", None);
        let call = model::Block::ToolCall {
            id: "1".into(),
            name: "Bash".into(),
            input: Json::from_value(&1),
        };
        let result =
            model::Block::ToolResult { call_id: "1".into(), output: "done".into(), is_error: None };
        shaper.message(0, model::Message { blocks: vec![call], ..<_>::default() });
        let message = model::Message {
            role: model::Role::Tool,
            origin: Origin::Tool,
            blocks: vec![result],
            ..<_>::default()
        };
        let message = shaper.message(1, message);
        assert_eq!((message.index, message.role), (2, Role::User));
        assert_eq!(message.metadata.unwrap().is_tool_result, Some(true));
        let expected = Block::ToolResult {
            tool_id: "1".into(),
            tool_name: "Bash".into(),
            output: "done".into(),
            is_error: false,
        };
        assert_eq!(message.content, [expected]);
    }

    #[test]
    fn what_has_a_place_leaves_the_extensions_and_the_rest_stays() {
        let extensions = [("userType", "external"), ("promptId", "p1")];
        let extensions = extensions.map(|(key, value)| (key.to_owned(), Json::from_value(&value)));
        let message = model::Message { extensions: extensions.into(), ..<_>::default() };
        let message = Shaper::new("some-agent", None).message(0, message);
        assert_eq!(message.metadata.unwrap().user_type.as_deref(), Some("external"));
        assert_eq!(message.extensions["some-agent"].as_str(), r#"{"promptId":"p1"}"#);
    }
}
