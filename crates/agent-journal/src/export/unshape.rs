//! From the document back to the model: the way of `shape`, in the other direction.

use std::collections::BTreeMap;

use super::schema::{Block, Head, Message, MessageNotes, Metadata, OWN, Role, SourceKind};
use crate::model::{self, Extensions, Image, Json, Kind, Provenance, SessionId, Tokens, Usage};

/// What a document tells of its session as a whole.
pub(crate) fn session(head: Head) -> model::Session {
    let notes = head.session.notes();
    let mut session = head.session;
    let mut extensions = own(&mut session.extensions, &head.agent);
    if let Some(id) = session.agent_id.filter(|id| !session.is_agent_session || *id != session.id) {
        extensions.insert("agentId".to_owned(), Json::from_value(&id));
    }
    let kind = if session.is_agent_session { Kind::Agent } else { Kind::Root };
    let mut told = model::Session {
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
        // What the agent's bill lists beyond the messages comes as calls, worked out.
        bills: Vec::new(),
        extensions,
        provenance: Some(Box::new(Provenance {
            kind: name(session.source.kind).to_owned(),
            host: session.source.host,
            path: session.source.path,
            project_path: notes.project_path,
            children: notes.children,
        })),
    };
    for title in notes.titles {
        told.title(title.rank, title.text);
    }
    told
}

/// What a document tells as one message.
pub(crate) fn message(agent: &str, message: Message) -> model::Message {
    let notes = message.notes();
    let origin = message.origin();
    let mut extensions = message.extensions;
    let mut extensions = own(&mut extensions, agent);
    let metadata = message.metadata.unwrap_or_default();
    let is_result = metadata.is_tool_result == Some(true);
    let role = match message.role {
        Role::User if is_result => model::Role::Tool,
        Role::User => model::Role::User,
        Role::Assistant => model::Role::Assistant,
        Role::System => model::Role::System,
    };
    circumstances(&metadata, origin, &mut extensions);
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
        blocks: message.content.into_iter().map(block).collect(),
        cwd: metadata.cwd,
        branch: metadata.git_branch,
        agent_version: metadata.agent_version,
        sidechain,
        failed,
        imported: false,
        extensions,
    }
}

/// Puts what has a place of its own in the document back among the extensions.
fn circumstances(metadata: &Metadata, origin: model::Origin, extensions: &mut Extensions) {
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

/// What a document tells as one block.
pub(super) fn block(block: Block) -> model::Block {
    match block {
        Block::Text { text } => model::Block::Text(text),
        Block::Thinking { thinking } => model::Block::Thinking(thinking),
        Block::ToolUse { tool_id, tool_name, input } => {
            model::Block::ToolCall { id: tool_id, name: tool_name, input }
        }
        Block::ToolResult { tool_id, output, is_error, .. } => {
            model::Block::ToolResult { call_id: tool_id, output, is_error: Some(is_error) }
        }
        Block::Image { media_type, bytes, location, hash, data } => {
            // What a picture is called follows from its bytes: a document cannot pass one off as
            // another.
            let image = data.map(|text| Image::from_base64(media_type.clone(), &text));
            let described = Image { media_type, bytes, hash, ..Image::default() };
            model::Block::Image(Image { location, ..image.unwrap_or(described) })
        }
        Block::Other { raw } => model::Block::Other(raw),
    }
}

/// The agent's own extensions. Those of anybody else are kept under their names.
fn own(extensions: &mut BTreeMap<String, Json>, agent: &str) -> Extensions {
    extensions.remove(OWN);
    let own = extensions.remove(agent);
    let mut all: Extensions = own.and_then(|own| own.parse()).unwrap_or_default();
    for (name, value) in std::mem::take(extensions) {
        all.entry(name).or_insert(value);
    }
    all
}

fn name(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::Local => "local",
        SourceKind::Wsl => "wsl",
        SourceKind::Windows => "windows",
        SourceKind::Remote => "remote",
    }
}
