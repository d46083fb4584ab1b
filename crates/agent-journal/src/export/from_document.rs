//! Converts the document back to the model. It is the inverse of `to_document`.

use std::collections::BTreeMap;

use super::schema::{
    DocumentBlock, DocumentMessage, DocumentMetadata, DocumentRole, Head, MessageNotes, OWN,
    SourceKind,
};
use crate::model::{
    self, Extensions, Image, Json, Provenance, SessionId, SessionKind, Tokens, Usage,
};

/// Converts the head of a document to the metadata of a session.
pub(crate) fn session_from_head(head: Head) -> model::Session {
    let notes = head.session.parse_notes();
    let mut session = head.session;
    let mut extensions = agent_extensions(&mut session.extensions, &head.agent);
    if let Some(id) = session.agent_id.filter(|id| !session.is_agent_session || *id != session.id) {
        extensions.insert("agentId".to_owned(), Json::from_value(&id));
    }
    let kind = if session.is_agent_session { SessionKind::Agent } else { SessionKind::Root };
    let mut metadata = model::Session {
        continues: notes.continues,
        begins_with_copy: notes.begins_with_copy,
        activity: notes.activity,
        id: SessionId { agent: head.agent, native: session.id },
        parent: session.parent_session_id,
        kind: notes.kind.max(kind),
        titles: Vec::new(),
        summaries: notes.summaries,
        documents: notes.documents,
        cwd: Some(session.workspace).filter(|path| !path.is_empty()),
        repository: notes.repository,
        root: notes.root,
        branch: notes.branch,
        agent_version: notes.agent_version,
        model: notes.model,
        started_at: session.started_at,
        ended_at: session.ended_at,
        refs: notes.refs,
        files: notes.files,
        // Entries of the agent's bill beyond the messages are already in the document as model
        // calls.
        bills: Vec::new(),
        extensions,
        provenance: Some(Box::new(Provenance {
            kind: source_kind_name(session.source.kind).to_owned(),
            host: session.source.host,
            path: session.source.path,
            project_path: notes.project_path,
            children: notes.children,
        })),
    };
    for title in notes.titles {
        metadata.add_title(title.rank, title.text);
    }
    metadata
}

/// Converts a message of a document.
pub(crate) fn message_from_document(agent: &str, message: DocumentMessage) -> model::Message {
    let notes = message.parse_message_notes();
    let origin = message.recorded_origin();
    let mut extensions = message.extensions;
    let mut extensions = agent_extensions(&mut extensions, agent);
    let metadata = message.metadata.unwrap_or_default();
    let is_result = metadata.is_tool_result == Some(true);
    let role = match message.role {
        DocumentRole::User if is_result => model::Role::Tool,
        DocumentRole::User => model::Role::User,
        DocumentRole::Assistant => model::Role::Assistant,
        DocumentRole::System => model::Role::System,
    };
    restore_extensions(&metadata, origin, &mut extensions);
    let model = metadata.model.unwrap_or_default();
    let usage = notes.usage.or(metadata.token_usage.map(|tokens| Usage {
        tokens: Tokens {
            input: tokens.input_tokens,
            output: tokens.output_tokens,
            cache_read: tokens.cache_read_tokens,
            cache_creation: tokens.cache_creation_tokens,
            reasoning: None,
        },
        ..Usage::default()
    }));
    let MessageNotes { recorded_parent, api_id, part_uuids, sidechain, failed, .. } = notes;
    model::Message {
        uuid: message.uuid,
        part_uuids,
        parent: recorded_parent.or(message.parent_uuid),
        role,
        origin,
        at: message.timestamp,
        model: model.name.or(notes.model),
        api_id,
        request_id: metadata.request_id,
        stop_reason: model.stop_reason.or(notes.stop_reason),
        usage,
        blocks: message.content.into_iter().map(block_from_document).collect(),
        cwd: metadata.cwd,
        branch: metadata.git_branch,
        agent_version: metadata.agent_version,
        sidechain,
        failed,
        imported: false,
        extensions,
    }
}

/// Adds the values that have fields of their own in the document back to the extensions.
fn restore_extensions(
    metadata: &DocumentMetadata,
    origin: model::Origin,
    extensions: &mut Extensions,
) {
    use model::Origin::{Injected, Summary, System};
    let mut put = |name: &str, value: Json| drop(extensions.insert(name.to_owned(), value));
    if metadata.is_meta == Some(true) && !matches!(origin, Injected | Summary | System) {
        put("isMeta", Json::from_value(&true));
    }
    if let Some(kind) = &metadata.user_type {
        put("userType", Json::from_value(kind));
    }
    if let Some(sequence) = metadata.model.as_ref().and_then(|model| model.stop_sequence.as_ref()) {
        put("stop_sequence", Json::from_value(sequence));
    }
}

/// Converts a block of a document.
pub(super) fn block_from_document(block: DocumentBlock) -> model::Block {
    match block {
        DocumentBlock::Text { text } => model::Block::Text(text),
        DocumentBlock::Thinking { thinking } => model::Block::Thinking(thinking),
        DocumentBlock::ToolUse { tool_id, tool_name, input } => {
            model::Block::ToolCall { id: tool_id, name: tool_name, input }
        }
        DocumentBlock::ToolResult { tool_id, output, is_error, .. } => {
            model::Block::ToolResult { call_id: tool_id, output, is_error: Some(is_error) }
        }
        DocumentBlock::Image { media_type, bytes, location, hash, data } => {
            // The hash of a picture is computed from its bytes, so that a document cannot replace
            // one picture by another.
            let image = data.map(|text| Image::from_base64(media_type.clone(), &text));
            let described = Image { media_type, bytes, hash, ..Image::default() };
            model::Block::Image(Image { location, ..image.unwrap_or(described) })
        }
        DocumentBlock::Other { raw } => model::Block::Other(raw),
    }
}

/// Returns the agent's own extensions. Those of other programs are kept under their names.
fn agent_extensions(extensions: &mut BTreeMap<String, Json>, agent: &str) -> Extensions {
    extensions.remove(OWN);
    let own = extensions.remove(agent);
    let mut all: Extensions = own.and_then(|own| own.parse_as()).unwrap_or_default();
    for (name, value) in std::mem::take(extensions) {
        all.entry(name).or_insert(value);
    }
    all
}

fn source_kind_name(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Local => "local",
        SourceKind::Wsl => "wsl",
        SourceKind::Windows => "windows",
        SourceKind::Remote => "remote",
    }
}
