//! The journal's own data: the extensions under the key `agent-journal`.

use serde::{Deserialize, Serialize};

use crate::model::{
    Continuation, Json, ModelCall, Origin, Ref, SessionCounts, SessionKind, Summary, Timestamp,
    Title, Tokens, Usage,
};

/// The journal's data about a session that the schema has no fields for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionNotes {
    /// The title of the session.
    pub title: String,
    /// The origin of the title.
    pub title_source: String,
    /// Whether a person, an agent or the machine started the session.
    pub kind: SessionKind,
    /// The session that this one continues, and how much of it is shared, if the format records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continuation>,
    /// Whether the file shows that its first messages were copied from another session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub begins_with_copy: bool,
    /// The name of the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The directory of the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_path: Option<String>,
    /// The repository, if the agent records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The root directory of the repository, if the agent records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The latest branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The latest version of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The model that the agent records for the session itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The models, the most used first.
    pub models: Vec<String>,
    /// The active time in seconds. A gap counts as at most five minutes.
    pub active_s: u64,
    /// The times of recorded events that became no message, at most one per minute.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub activity: Vec<Timestamp>,
    /// The numbers of messages, prompts, tool calls and so on.
    pub counts: SessionCounts,
    /// The tokens of the model calls of the session, without its sub-agents; null if none are
    /// recorded.
    pub tokens: Option<Tokens>,
    /// The cost of these calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Json>,
    /// The part of these tokens whose calls no message records. The agent's own bill lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_in_transcript: Option<Tokens>,
    /// The figures of the session together with its sub-agents, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_subagents: Option<TaskNotes>,
    /// The model calls of the session that are in none of its messages, or not completely. Other
    /// files of the session record them, or a working copy that is not shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ModelCall>,
    /// The ids of the sessions that this one started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
    /// All recorded titles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub titles: Vec<Title>,
    /// The summaries that name the message they end at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub summaries: Vec<Summary>,
    /// The summaries of the session that are not its title, from any source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_summaries: Vec<String>,
    /// The documents of the session: names and texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<(String, String)>,
    /// Commits, pull requests and issues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<Ref>,
    /// The files that the agent lists as touched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

impl SessionNotes {
    /// Returns the names and texts of the documents of the session: plans, checkpoints, and the
    /// summaries that are not its title.
    pub fn all_documents(&self) -> Vec<(String, String)> {
        let summaries = self.other_summaries.iter();
        let summaries = summaries.map(|text| ("summary".to_owned(), text.clone()));
        self.documents.iter().cloned().chain(summaries).collect()
    }
}

/// The figures of a session together with its sub-agents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskNotes {
    /// The number of sub-agents, at any depth.
    pub subagents: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The number of failed tool calls.
    pub tool_errors: u64,
    /// The tokens; null if none are recorded.
    pub tokens: Option<Tokens>,
    /// The cost of the model calls.
    pub cost: Option<Json>,
}

/// The journal's data about a message that the schema has no fields for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageNotes {
    /// The author of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The provider's id of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_id: Option<String>,
    /// The parent id as the agent recorded it, if no message of the document has this id: the
    /// record was merged into another message, or does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_parent: Option<String>,
    /// The ids of further records that were merged into this message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub part_uuids: Vec<String>,
    /// Whether the message is part of a side conversation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sidechain: bool,
    /// Whether the message is a failure of the agent itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// `imported`, on a message that an imported file adds to a session of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// The model, on a message that is not the assistant's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The reason why the model stopped, on a message that is not the assistant's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The usage of the model call, if `token_usage` does not contain all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}
