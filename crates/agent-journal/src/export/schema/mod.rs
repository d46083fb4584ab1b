//! The unified document: one format for the sessions of all agents. These types define the format,
//! and `docs/schema/session.schema.json` is generated from them.

mod block;
mod notes;

#[cfg(test)]
mod instant;

pub use block::DocumentBlock;
pub use notes::{MessageNotes, SessionNotes, TaskNotes};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{ATTACHMENTS, Json, Origin, Timestamp, attachment_names};

#[cfg(test)]
use instant::{InstantOrNull, SchemaInstant};

/// The key of the journal's own data among the extensions.
pub const OWN: &str = "agent-journal";

/// One session as one document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Document"))]
pub struct UnifiedDocument {
    /// The version of this schema: `1.0`, or `1.1` if there are blocks that 1.0 does not define.
    pub schema_version: String,
    /// The time of the export.
    #[cfg_attr(test, schemars(with = "SchemaInstant"))]
    pub export_timestamp: Timestamp,
    /// The canonical id of the agent.
    pub agent: String,
    /// The metadata of the session.
    pub session: DocumentSession,
    /// The messages in the order they were recorded.
    pub messages: Vec<DocumentMessage>,
    /// The order and the branches of the messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Graph>,
}

/// The part of a document before the messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The version of the schema.
    pub schema_version: String,
    /// The time of the export.
    pub export_timestamp: Timestamp,
    /// The canonical id of the agent.
    pub agent: String,
    /// The metadata of the session.
    pub session: DocumentSession,
}

/// The metadata of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Session"))]
pub struct DocumentSession {
    /// The agent's own id of the session.
    pub id: String,
    /// The working directory; empty if it is not recorded.
    pub workspace: String,
    /// The working directory encoded as a file name.
    pub workspace_encoded: String,
    /// The first recorded instant; null if none is recorded.
    #[cfg_attr(test, schemars(with = "InstantOrNull"))]
    pub started_at: Option<Timestamp>,
    /// The last recorded instant; null if none is recorded.
    #[cfg_attr(test, schemars(with = "InstantOrNull"))]
    pub ended_at: Option<Timestamp>,
    /// The source of the session.
    pub source: DocumentSource,
    /// Whether the session is a sub-agent of another session.
    pub is_agent_session: bool,
    /// The id of the session that started this one.
    pub parent_session_id: Option<String>,
    /// The id of the sub-agent.
    pub agent_id: Option<String>,
    /// Data without a field in this schema, by agent. The key `agent-journal` contains the
    /// journal's own data. Its `calls` are the model calls of the session that are in none of its
    /// messages, or not completely.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, BTreeMap<String, serde_json::Value>>"))]
    pub extensions: BTreeMap<String, Json>,
}

/// The source of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Source"))]
pub struct DocumentSource {
    /// The kind of machine: `local`, `wsl`, `windows` or `remote`.
    #[serde(rename = "type")]
    pub kind: SourceKind,
    /// The other machine or the WSL distribution.
    pub host: Option<String>,
    /// The path of the file.
    pub path: String,
}

/// The kind of machine a session was read on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// This machine.
    #[default]
    Local,
    /// A Linux distribution inside Windows (WSL).
    Wsl,
    /// The Windows system around this WSL distribution.
    Windows,
    /// Another machine.
    Remote,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Message"))]
pub struct DocumentMessage {
    /// The number of the message, counted from 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub index: u64,
    /// The id of the message.
    #[serde(default)]
    pub uuid: Option<String>,
    /// The id of the message that this one follows.
    #[serde(default)]
    pub parent_uuid: Option<String>,
    /// The side of the conversation that the message belongs to.
    pub role: DocumentRole,
    /// The time at which the message was recorded.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<SchemaInstant>"))]
    pub timestamp: Option<Timestamp>,
    /// The blocks of the message, in order.
    pub content: Vec<DocumentBlock>,
    /// The metadata of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<DocumentMetadata>,
    /// Data without a field in this schema, by agent. The key `agent-journal` contains the
    /// journal's own data.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, BTreeMap<String, serde_json::Value>>"))]
    pub extensions: BTreeMap<String, Json>,
}

/// The side of the conversation that a message belongs to. Tool results belong to the user's side,
/// as in the APIs of the providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Role"))]
#[serde(rename_all = "lowercase")]
pub enum DocumentRole {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The program, with a notice.
    System,
}

/// The metadata of a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Metadata"))]
#[serde(default)]
pub struct DocumentMetadata {
    /// The working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The git branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_branch: Option<String>,
    /// The version of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The kind of user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_type: Option<String>,
    /// Whether the program inserted the message, and neither the person nor the model wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_meta: Option<bool>,
    /// Whether the message only contains tool results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_tool_result: Option<bool>,
    /// The model; on assistant messages only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<DocumentModel>,
    /// The tokens of the model call; on assistant messages only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_usage: Option<TokenUsage>,
    /// The id of the request at the provider of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The model that wrote a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Model"))]
#[serde(default)]
pub struct DocumentModel {
    /// The name of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The reason why the model stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The sequence that the model stopped at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_sequence: Option<String>,
}

/// The tokens of one model call, in classes that do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TokenUsage {
    /// Input that was not cached.
    pub input_tokens: u64,
    /// Everything the model wrote.
    pub output_tokens: u64,
    /// Input written to a cache.
    pub cache_creation_tokens: u64,
    /// Input read from a cache.
    pub cache_read_tokens: u64,
}

/// The branches of a session. Together with the `parent_uuid` of every message it gives the
/// complete tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Graph {
    /// Whether there is only one branch.
    pub is_linear: bool,
    /// The messages at which another branch begins.
    pub fork_points: Vec<Fork>,
    /// The ids of the messages on the branch that was kept, from the first to the latest.
    pub active_path: Vec<String>,
}

/// A message that more than one branch follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fork {
    /// The id of the message.
    pub uuid: String,
    /// The number of the message.
    pub index: u64,
    /// The first message of each branch.
    pub branches: Vec<GraphBranch>,
}

/// The first message of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Branch"))]
pub struct GraphBranch {
    /// The id of the message.
    pub uuid: String,
    /// The number of the message.
    pub index: u64,
}

impl DocumentSession {
    /// Parses the journal's own data. A document of another program has none.
    pub fn parse_notes(&self) -> SessionNotes {
        self.extensions.get(OWN).and_then(Json::parse_as).unwrap_or_default()
    }

    /// Returns the title, or the id of the session if it has none.
    pub fn title_or_id(&self) -> String {
        let title = self.parse_notes().title;
        if title.trim().is_empty() { self.id.clone() } else { title }
    }
}

impl DocumentMessage {
    /// Parses the journal's own data. A document of another program has none.
    pub fn parse_message_notes(&self) -> MessageNotes {
        self.extensions.get(OWN).and_then(Json::parse_as).unwrap_or_default()
    }

    /// Returns the paths of the attached files, or their names if no path is recorded.
    pub fn attachment_names(&self) -> Vec<String> {
        let recorded = self.extensions.iter().filter(|(name, _)| *name != OWN);
        let recorded = recorded.filter_map(|(_, facts)| facts.parse_as::<BTreeMap<String, Json>>());
        let attached = recorded.filter_map(|mut facts| facts.remove(ATTACHMENTS));
        attached.flat_map(|attached| attachment_names(&attached)).collect()
    }

    /// Returns the recorded author of the message, or the one that its role and content suggest.
    pub fn recorded_origin(&self) -> Origin {
        let says = |block: &DocumentBlock| !matches!(block, DocumentBlock::ToolResult { .. });
        let is_meta = self.metadata.as_ref().is_some_and(|metadata| metadata.is_meta == Some(true));
        self.parse_message_notes().origin.unwrap_or(match self.role {
            DocumentRole::Assistant => Origin::Assistant,
            DocumentRole::System => Origin::System,
            DocumentRole::User if is_meta => Origin::Injected,
            DocumentRole::User if self.content.iter().any(says) => Origin::Human,
            DocumentRole::User => Origin::Tool,
        })
    }
}

impl UnifiedDocument {
    /// Returns the part of the document before the messages.
    pub fn document_head(&self) -> Head {
        Head {
            schema_version: self.schema_version.clone(),
            export_timestamp: self.export_timestamp,
            agent: self.agent.clone(),
            session: self.session.clone(),
        }
    }
}
