//! One message of a session.

use serde::{Deserialize, Serialize};

use super::{Block, Extensions, Json, Timestamp, Usage};

/// One message: what one side said at one moment, with everything recorded about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Message {
    /// The record's own id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Ids of further records folded into this message (one API message, several lines).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub part_uuids: Vec<String>,
    /// The message this one follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Whose turn it is.
    pub role: Role,
    /// Who really made it.
    pub origin: Origin,
    /// When it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The model that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model's own id for this answer; several messages may carry parts of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_id: Option<String>,
    /// The request that produced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Why the model stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// What the call used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The content.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "super::bound::blocks")]
    pub blocks: Vec<Block>,
    /// The working directory at that moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The git branch at that moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The agent's version at that moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// Part of a side conversation inside this session's file.
    #[serde(skip_serializing_if = "is_false")]
    pub sidechain: bool,
    /// The agent marks it as a failure of its own (an API error, an abort).
    #[serde(skip_serializing_if = "is_false")]
    pub failed: bool,
    /// It stands in the session of somebody's own agent, and comes from an imported file.
    #[serde(skip_serializing_if = "is_false")]
    pub imported: bool,
    /// What the format records beyond this.
    #[serde(skip_serializing_if = "Extensions::is_empty")]
    pub extensions: Extensions,
}

/// Whose turn a message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person's side.
    User,
    /// The model's side.
    Assistant,
    /// Notices of the program.
    #[default]
    System,
    /// Results of tools.
    Tool,
}

/// Who really made a message, whatever its role says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A person typed it (or, in a sub-agent, the parent asked it).
    Human,
    /// A person typed it while the agent worked; recorded only in the agent's queue.
    Queued,
    /// A person ran a command of the agent, such as `/model`.
    Command,
    /// The model wrote it.
    Assistant,
    /// A tool returned it.
    Tool,
    /// The program put it into the conversation: reminders, files, hooks.
    Injected,
    /// The program summarised the conversation so far.
    Summary,
    /// A notice of the program.
    #[default]
    System,
}

impl Origin {
    /// Whether a person asked this.
    pub fn is_prompt(self) -> bool {
        matches!(self, Self::Human | Self::Queued)
    }
}

impl Role {
    /// The role's name in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::System => "system",
            Self::Tool => "tool",
        }
    }
}

impl Message {
    /// Whether it is a record that was kept as it is, because nothing of it was understood.
    pub fn is_raw(&self) -> bool {
        self.origin == Origin::System
            && !self.blocks.is_empty()
            && self.blocks.iter().all(|block| matches!(block, Block::Other(_)))
    }

    /// Joins the text blocks.
    pub fn text(&self) -> String {
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

    /// Returns the files that a prompt names beside its text, by path or else by name.
    pub fn attachments(&self) -> Vec<String> {
        self.extensions.get(ATTACHMENTS).map(attachment_names).unwrap_or_default()
    }
}

/// Under this name formats keep what was attached to a prompt.
pub(crate) const ATTACHMENTS: &str = "attachments";

/// Reads the paths, or else the names, of recorded attachments.
pub(crate) fn attachment_names(recorded: &Json) -> Vec<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Attachment {
        path: Option<String>,
        file_path: Option<String>,
        display_name: Option<String>,
        name: Option<String>,
    }
    let all = recorded.parse::<Vec<Json>>().unwrap_or_default().into_iter();
    all.filter_map(|one| one.parse::<Attachment>())
        .filter_map(|one| one.path.or(one.file_path).or(one.display_name).or(one.name))
        .collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(flag: &bool) -> bool {
    !flag
}
