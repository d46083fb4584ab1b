//! The unified document: one shape for the sessions of every agent. These types are the format;
//! `docs/schema/session.schema.json` is made of them.

mod block;
mod notes;

#[cfg(test)]
mod instant;

pub use block::Block;
pub use notes::{MessageNotes, SessionNotes, TaskNotes};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{ATTACHMENTS, Json, Origin, Timestamp, attachment_names};

#[cfg(test)]
use instant::{Instant, InstantOrNull};

/// Under this name the journal's own facts stand among the extensions.
pub const OWN: &str = "agent-journal";

/// One session as one document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document {
    /// Version of this schema: `1.0`, or `1.1` when there are blocks that 1.0 does not know.
    pub schema_version: String,
    /// When the document was made.
    #[cfg_attr(test, schemars(with = "Instant"))]
    pub export_timestamp: Timestamp,
    /// The canonical id of the agent.
    pub agent: String,
    /// What is known of the session as a whole.
    pub session: Session,
    /// The messages in the order they were recorded.
    pub messages: Vec<Message>,
    /// How the messages follow each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Graph>,
}

/// What comes before the messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Version of the schema.
    pub schema_version: String,
    /// When the document was made.
    pub export_timestamp: Timestamp,
    /// The agent's id.
    pub agent: String,
    /// What is known of the session as a whole.
    pub session: Session,
}

/// What is known of a session as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Session {
    /// The agent's own id of the session.
    pub id: String,
    /// The working directory; empty when it is not recorded.
    pub workspace: String,
    /// The working directory as one file name.
    pub workspace_encoded: String,
    /// The first recorded instant; null when none is recorded.
    #[cfg_attr(test, schemars(with = "InstantOrNull"))]
    pub started_at: Option<Timestamp>,
    /// The last recorded instant; null when none is recorded.
    #[cfg_attr(test, schemars(with = "InstantOrNull"))]
    pub ended_at: Option<Timestamp>,
    /// Where the session was read.
    pub source: Source,
    /// Whether another session's agent ran it.
    pub is_agent_session: bool,
    /// The session that started this one.
    pub parent_session_id: Option<String>,
    /// The sub-agent's id.
    pub agent_id: Option<String>,
    /// What does not map, by agent; under `agent-journal` what the journal itself knows, with
    /// `calls`: those that count for the session and stand in none of its messages, or not in full.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, BTreeMap<String, serde_json::Value>>"))]
    pub extensions: BTreeMap<String, Json>,
}

/// Where a session was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Source {
    /// `local`, `wsl`, `windows` or `remote`.
    #[serde(rename = "type")]
    pub kind: SourceKind,
    /// The other machine or the WSL distribution.
    pub host: Option<String>,
    /// The file.
    pub path: String,
}

/// The kind of machine a session was read on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// This one.
    #[default]
    Local,
    /// A Linux inside Windows.
    Wsl,
    /// A Windows around this Linux.
    Windows,
    /// Another one.
    Remote,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Message {
    /// Its number, from 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub index: u64,
    /// Its id.
    #[serde(default)]
    pub uuid: Option<String>,
    /// The message it follows.
    #[serde(default)]
    pub parent_uuid: Option<String>,
    /// Whose turn it is.
    pub role: Role,
    /// When it was recorded.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Option<Instant>"))]
    pub timestamp: Option<Timestamp>,
    /// What it says, in order.
    pub content: Vec<Block>,
    /// The circumstances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// What does not map, by agent; under `agent-journal` what the journal itself knows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, BTreeMap<String, serde_json::Value>>"))]
    pub extensions: BTreeMap<String, Json>,
}

/// Whose turn a message is. Results of tools are the user's side, as the APIs have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person's side.
    User,
    /// The model's side.
    Assistant,
    /// Notices of the program.
    System,
}

/// The circumstances of a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Metadata {
    /// The working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The git branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_branch: Option<String>,
    /// The agent's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The kind of user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_type: Option<String>,
    /// Whether the program, and neither side of the conversation, put the message there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_meta: Option<bool>,
    /// Whether the message only carries the results of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_tool_result: Option<bool>,
    /// The model; on assistant messages only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// The tokens of the call; on assistant messages only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_usage: Option<TokenUsage>,
    /// The request at the model's provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// The model that wrote a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Model {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Why it stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The sequence it stopped at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_sequence: Option<String>,
}

/// Tokens of one call, in classes that do not overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct TokenUsage {
    /// Fresh input.
    pub input_tokens: u64,
    /// Everything the model wrote.
    pub output_tokens: u64,
    /// Input written to a cache.
    pub cache_creation_tokens: u64,
    /// Input read from a cache.
    pub cache_read_tokens: u64,
}

/// How the messages follow each other. With every message's `parent_uuid` it gives the whole tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Graph {
    /// Whether nobody ever went back.
    pub is_linear: bool,
    /// Where somebody went back and began another branch.
    pub fork_points: Vec<Fork>,
    /// Ids of the messages from the first to the latest, on the branch that was kept.
    pub active_path: Vec<String>,
}

/// A message that more than one branch follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fork {
    /// Its id.
    pub uuid: String,
    /// Its number.
    pub index: u64,
    /// The first message of each branch.
    pub branches: Vec<Branch>,
}

/// The first message of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Branch {
    /// Its id.
    pub uuid: String,
    /// Its number.
    pub index: u64,
}

impl Session {
    /// Reads the journal's own facts; a document of another program has none.
    pub fn notes(&self) -> SessionNotes {
        self.extensions.get(OWN).and_then(Json::parse).unwrap_or_default()
    }

    /// The title, or what stands in for one.
    pub fn title(&self) -> String {
        let title = self.notes().title;
        if title.trim().is_empty() { self.id.clone() } else { title }
    }
}

impl Message {
    /// Reads the journal's own facts; a document of another program has none.
    pub fn notes(&self) -> MessageNotes {
        self.extensions.get(OWN).and_then(Json::parse).unwrap_or_default()
    }

    /// Returns the files that were attached to the message, by path or else by name.
    pub fn attachments(&self) -> Vec<String> {
        let recorded = self.extensions.iter().filter(|(name, _)| *name != OWN);
        let recorded = recorded.filter_map(|(_, facts)| facts.parse::<BTreeMap<String, Json>>());
        let attached = recorded.filter_map(|mut facts| facts.remove(ATTACHMENTS));
        attached.flat_map(|attached| attachment_names(&attached)).collect()
    }

    /// Who really made the message, as recorded or as its content lets one think.
    pub fn origin(&self) -> Origin {
        let says = |block: &Block| !matches!(block, Block::ToolResult { .. });
        let is_meta = self.metadata.as_ref().is_some_and(|metadata| metadata.is_meta == Some(true));
        self.notes().origin.unwrap_or(match self.role {
            Role::Assistant => Origin::Assistant,
            Role::System => Origin::System,
            Role::User if is_meta => Origin::Injected,
            Role::User if self.content.iter().any(says) => Origin::Human,
            Role::User => Origin::Tool,
        })
    }
}

impl Document {
    /// The part before the messages.
    pub fn head(&self) -> Head {
        Head {
            schema_version: self.schema_version.clone(),
            export_timestamp: self.export_timestamp,
            agent: self.agent.clone(),
            session: self.session.clone(),
        }
    }
}
