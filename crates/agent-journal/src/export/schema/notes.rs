//! What the journal itself knows: the extensions under its own name.

use serde::{Deserialize, Serialize};

use crate::model::{
    Continuation, Counts, Json, Kind, ModelCall, Origin, Ref, Summary, Timestamp, Title, Tokens,
    Usage,
};

/// What the journal knows of a session beyond the schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionNotes {
    /// The title.
    pub title: String,
    /// Where the title comes from.
    pub title_source: String,
    /// Whether a person, an agent or the machine started it.
    pub kind: Kind,
    /// The session that this one continues, where the format names it, and how much of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continuation>,
    /// Whether the file shows that its first messages were copied from another session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub begins_with_copy: bool,
    /// The project's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The project's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_path: Option<String>,
    /// The repository, where the agent names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The root directory of the repository, where the agent records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The latest branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The latest version of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The model the agent names for the session as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The models, the most used first.
    pub models: Vec<String>,
    /// Seconds of activity: gaps count up to five minutes.
    pub active_s: u64,
    /// When the files record something that became no message, at most once a minute.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub activity: Vec<Timestamp>,
    /// What is counted.
    pub counts: Counts,
    /// Tokens of the calls that count for the session, without its sub-agents; null when none
    /// are recorded.
    pub tokens: Option<Tokens>,
    /// What these calls cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Json>,
    /// Of these tokens, those of calls that no message records: the agent's own bill lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_in_transcript: Option<Tokens>,
    /// The same together with the sub-agents of the session, when there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_subagents: Option<TaskNotes>,
    /// Calls that count for the session and stand in none of its messages, or not in full there:
    /// other files of the session record them, or a working copy that is not shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ModelCall>,
    /// Sessions that this one started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
    /// Every title on record.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub titles: Vec<Title>,
    /// Summaries that name the message they end at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub summaries: Vec<Summary>,
    /// Summaries about the session that are not its title, wherever they stand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_summaries: Vec<String>,
    /// Longer texts about the session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<(String, String)>,
    /// Commits, pull requests and issues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<Ref>,
    /// Files the agent lists as touched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

impl SessionNotes {
    /// Returns the longer texts about the session, each with its name: plans, checkpoints, and the
    /// summaries that are not its title.
    pub fn all_documents(&self) -> Vec<(String, String)> {
        let summaries = self.other_summaries.iter();
        let summaries = summaries.map(|text| ("summary".to_owned(), text.clone()));
        self.documents.iter().cloned().chain(summaries).collect()
    }
}

/// What a session and its sub-agents did and spent together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskNotes {
    /// How many sub-agents there are, at any depth.
    pub subagents: u64,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Of these, how many failed.
    pub tool_errors: u64,
    /// Tokens; null when none are recorded.
    pub tokens: Option<Tokens>,
    /// What they cost.
    pub cost: Option<Json>,
}

/// What the journal knows of a message beyond the schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageNotes {
    /// Who really made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The model's own id for the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_id: Option<String>,
    /// The parent as the agent recorded it, where no message of the document has that id as its
    /// own: it was folded into another message, or is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_parent: Option<String>,
    /// Ids of further records folded into this message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub part_uuids: Vec<String>,
    /// Part of a side conversation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sidechain: bool,
    /// A failure of the agent's own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// `imported`, on a message that an imported file adds to a session of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// The model, on a message that is not the assistant's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Why the model stopped, on a message that is not the assistant's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The call's usage with everything that `token_usage` has no word for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}
