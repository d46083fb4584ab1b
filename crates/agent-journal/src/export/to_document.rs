//! Converts the model to the document. Data without a field in the document becomes an extension.

use std::collections::{BTreeMap, HashMap};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::graph::Outline;
use super::schema::{
    DocumentBlock, DocumentMessage, DocumentMetadata, DocumentModel, DocumentRole, DocumentSession,
    MessageNotes, OWN, SessionNotes, TokenUsage,
};
use crate::model::{self, Extensions, Json, Origin, TitleRank};

/// Loads the bytes of a picture by their hash.
pub(crate) type PictureLoader<'p> = dyn Fn(&str) -> Option<Vec<u8>> + 'p;

/// Converts messages, and remembers the names of tools for the results that follow.
pub(crate) struct Shaper<'p> {
    agent: String,
    tools: HashMap<String, String>,
    pictures: Option<&'p PictureLoader<'p>>,
    /// The outline with the messages that may be named as parents. Without it parents stay as
    /// recorded.
    pub(super) outline: Option<&'p Outline>,
}

impl<'p> Shaper<'p> {
    /// Begins a session. Without `pictures`, pictures are only described.
    pub(crate) fn new(agent: &str, pictures: Option<&'p PictureLoader<'p>>) -> Self {
        Self { agent: agent.to_owned(), tools: HashMap::new(), pictures, outline: None }
    }

    /// Converts one message. `position` is its index in the session, counted from 0.
    pub(crate) fn convert_message(
        &mut self,
        position: u64,
        mut message: model::Message,
    ) -> DocumentMessage {
        let role = match message.role {
            model::Role::User | model::Role::Tool => DocumentRole::User,
            model::Role::Assistant => DocumentRole::Assistant,
            model::Role::System => DocumentRole::System,
        };
        let metadata = message_metadata(role, &mut message);
        let content = std::mem::take(&mut message.blocks);
        let content = content.into_iter().map(|block| self.convert_block(block)).collect();
        let parent_uuid = self.parent_of(&message);
        let recorded_parent = message.parent.take().filter(|id| parent_uuid.as_ref() != Some(id));
        let notes = MessageNotes { recorded_parent, ..message_notes(role, &mut message) };
        let mut extensions = BTreeMap::from([(OWN.to_owned(), Json::from_value(&notes))]);
        if !message.extensions.is_empty() {
            extensions.insert(self.agent.clone(), Json::from_value(&message.extensions));
        }
        DocumentMessage {
            index: position + 1,
            uuid: message.uuid,
            parent_uuid,
            role,
            timestamp: message.at,
            content,
            metadata: (metadata != DocumentMetadata::default()).then_some(metadata),
            extensions,
        }
    }

    /// Returns the id of the document's message that a message follows.
    fn parent_of(&self, message: &model::Message) -> Option<String> {
        let recorded = message.parent.as_deref()?;
        let parent = match self.outline {
            Some(outline) => outline.message_for_parent(recorded)?,
            None => recorded,
        };
        (message.uuid.as_deref() != Some(parent)).then(|| parent.to_owned())
    }

    fn convert_block(&mut self, block: model::Block) -> DocumentBlock {
        match block {
            model::Block::Text(text) => DocumentBlock::Text { text },
            model::Block::Thinking(thinking) => DocumentBlock::Thinking { thinking },
            model::Block::ToolCall { id, name, input } => {
                self.tools.insert(id.clone(), name.clone());
                DocumentBlock::ToolUse { tool_id: id, tool_name: name, input }
            }
            model::Block::ToolResult { call_id, output, is_error } => DocumentBlock::ToolResult {
                tool_name: self.tools.get(&call_id).cloned().unwrap_or_default(),
                tool_id: call_id,
                output,
                // A format that does not record failures reports none.
                is_error: is_error.unwrap_or(false),
            },
            model::Block::Image(image) => self.to_image_block(image),
            model::Block::Other(raw) => DocumentBlock::Other { raw },
        }
    }

    fn to_image_block(&self, image: model::Image) -> DocumentBlock {
        let fetch = || self.pictures.zip(image.hash.as_deref()).and_then(|(get, hash)| get(hash));
        let data = fetch().map(|bytes| STANDARD.encode(bytes));
        let model::Image { media_type, bytes, location, hash, .. } = image;
        DocumentBlock::Image { media_type, bytes, location, hash, data }
    }
}

fn message_metadata(role: DocumentRole, message: &mut model::Message) -> DocumentMetadata {
    let is_meta = matches!(message.origin, Origin::Injected | Origin::Summary | Origin::System)
        || take_flag(&mut message.extensions, "isMeta");
    let is_answer = role == DocumentRole::Assistant;
    let stop_sequence =
        is_answer.then(|| lift_extension(&mut message.extensions, "stop_sequence")).flatten();
    let model = DocumentModel {
        name: message.model.take_if(|_| is_answer),
        stop_reason: message.stop_reason.take_if(|_| is_answer),
        stop_sequence,
    };
    let usage = message.usage.as_ref().filter(|_| is_answer);
    DocumentMetadata {
        cwd: message.cwd.take(),
        git_branch: message.branch.take(),
        agent_version: message.agent_version.take(),
        user_type: lift_extension(&mut message.extensions, "userType"),
        is_meta: is_meta.then_some(true),
        is_tool_result: (message.role == model::Role::Tool).then_some(true),
        model: (model != DocumentModel::default()).then_some(model),
        token_usage: usage.map(|usage| TokenUsage {
            input_tokens: usage.tokens.input,
            output_tokens: usage.tokens.output,
            cache_creation_tokens: usage.tokens.cache_creation,
            cache_read_tokens: usage.tokens.cache_read,
        }),
        request_id: message.request_id.take(),
    }
}

/// Removes a value with a field of its own from the extensions, and returns it.
fn lift_extension<T: serde::de::DeserializeOwned>(
    extensions: &mut Extensions,
    name: &str,
) -> Option<T> {
    let value = extensions.get(name)?.parse_as()?;
    extensions.remove(name);
    Some(value)
}

/// Removes a flag from the extensions if it is set, and returns whether it was.
fn take_flag(extensions: &mut Extensions, name: &str) -> bool {
    let is_set = extensions.get(name).and_then(Json::parse_as) == Some(true);
    if is_set {
        extensions.remove(name);
    }
    is_set
}

fn message_notes(role: DocumentRole, message: &mut model::Message) -> MessageNotes {
    let usage = message.usage.take();
    // Usage that `token_usage` contains completely is not repeated.
    let plain = |usage: &model::Usage| {
        let bare = model::Usage { tokens: usage.tokens, ..<_>::default() };
        role == DocumentRole::Assistant && *usage == bare && usage.tokens.reasoning.is_none()
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

/// Builds the session of a document from the journal's notes and the recorded metadata.
pub(crate) fn to_document_session(
    mut notes: SessionNotes,
    mut session: DocumentSession,
    mut account: model::Session,
    agent: &str,
) -> DocumentSession {
    // A summary in another session may be the title of this one.
    let summary = TitleRank::Summary;
    if notes.title_source == summary.rank_name()
        && account.titles.iter().all(|one| one.rank != summary)
    {
        account.add_title(summary, notes.title.clone());
    }
    let project_dir = account.project_dir();
    let mut extensions = account.extensions;
    session.agent_id = match lift_extension(&mut extensions, "agentId") {
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
    // Sorted, so that the order does not depend on how often the session was read.
    notes.files = account.files;
    notes.files.sort_unstable();
    session.workspace_encoded =
        project_dir.unwrap_or_else(|| model::encode_path_as_name(&session.workspace));
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
        shaper.convert_message(0, model::Message { blocks: vec![call], ..<_>::default() });
        let message = model::Message {
            role: model::Role::Tool,
            origin: Origin::Tool,
            blocks: vec![result],
            ..<_>::default()
        };
        let message = shaper.convert_message(1, message);
        assert_eq!((message.index, message.role), (2, DocumentRole::User));
        assert_eq!(message.metadata.unwrap().is_tool_result, Some(true));
        let expected = DocumentBlock::ToolResult {
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
        let message = Shaper::new("some-agent", None).convert_message(0, message);
        assert_eq!(message.metadata.unwrap().user_type.as_deref(), Some("external"));
        assert_eq!(message.extensions["some-agent"].as_json_str(), r#"{"promptId":"p1"}"#);
    }
}
