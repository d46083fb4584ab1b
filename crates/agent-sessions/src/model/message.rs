//! One message of a session.

use serde::{Deserialize, Serialize};

use super::{Block, Extensions, Json, Timestamp, Usage};

/// One message: one step of a session, with everything recorded about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Message {
    /// Id of the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Ids of further records merged into this message (one API message, several lines).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub part_uuids: Vec<String>,
    /// Id of the message this one follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The side of the conversation.
    pub role: Role,
    /// The actual author.
    pub origin: Origin,
    /// Time of the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The model that wrote the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The API's id of this answer; several messages may hold parts of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_id: Option<String>,
    /// Id of the request that produced the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Reason why the model stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Tokens and cost of the model call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Content of the message.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::bound::deserialize_blocks"
    )]
    pub blocks: Vec<Block>,
    /// Working directory at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Git branch at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Version of the agent at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// Whether the message is part of a side conversation inside this session's file.
    #[serde(skip_serializing_if = "is_false")]
    pub sidechain: bool,
    /// Whether the agent marks it as a failure of its own (an API error, an abort).
    #[serde(skip_serializing_if = "is_false")]
    pub failed: bool,
    /// Whether the message comes from an imported file although its session is one of a local
    /// agent.
    #[serde(skip_serializing_if = "is_false")]
    pub imported: bool,
    /// Further fields of the format.
    #[serde(skip_serializing_if = "Extensions::is_empty")]
    pub extensions: Extensions,
}

/// The side of the conversation that a message belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person's side.
    User,
    /// The model's side.
    Assistant,
    /// Notices of the agent program.
    #[default]
    System,
    /// Results of tools.
    Tool,
}

/// The actual author of a message, independent of its role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Typed by a person (or, in a sub-agent, asked by the parent).
    Human,
    /// Typed by a person while the agent worked; recorded only in the agent's queue.
    Queued,
    /// A command of the agent that a person ran, such as `/model`.
    Command,
    /// Written by the model.
    Assistant,
    /// Returned by a tool.
    Tool,
    /// Put into the conversation by the agent program: reminders, files, hooks.
    Injected,
    /// The agent program's summary of the conversation so far.
    Summary,
    /// A notice of the agent program.
    #[default]
    System,
}

impl Origin {
    /// Returns whether a person typed the message.
    pub fn is_human_prompt(self) -> bool {
        matches!(self, Self::Human | Self::Queued)
    }
}

impl Role {
    /// Returns the role's name, as used in every output.
    pub fn role_name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::System => "system",
            Self::Tool => "tool",
        }
    }
}

impl Message {
    /// Returns whether the message is a record kept as it is, because nothing of it was understood.
    pub fn is_raw(&self) -> bool {
        self.origin == Origin::System
            && self.usage.is_none()
            && !self.blocks.is_empty()
            && self.blocks.iter().all(|block| matches!(block, Block::Other(_)))
    }

    /// Joins the text blocks.
    pub fn joined_text(&self) -> String {
        let texts: Vec<&str> = self
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n\n")
    }

    /// Returns the files attached to a prompt, by path or else by name.
    pub fn attached_files(&self) -> Vec<String> {
        self.extensions.get(ATTACHMENTS).map(attachment_names).unwrap_or_default()
    }
}

/// Extension under which connectors keep the attachments of a prompt.
pub const ATTACHMENTS: &str = "attachments";

/// Parses the paths, or else the names, of recorded attachments.
pub fn attachment_names(recorded: &Json) -> Vec<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct MessageAttachment {
        path: Option<String>,
        file_path: Option<String>,
        display_name: Option<String>,
        name: Option<String>,
    }
    let all = recorded.parse_as::<Vec<Json>>().unwrap_or_default().into_iter();
    all.filter_map(|one| one.parse_as::<MessageAttachment>())
        .filter_map(|one| one.path.or(one.file_path).or(one.display_name).or(one.name))
        .collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(flag: &bool) -> bool {
    !flag
}
