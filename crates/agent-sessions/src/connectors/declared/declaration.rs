//! Declarations of agents: the places of the facts in an agent's files, as a user writes them in the
//! configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Deserialize;

use super::field_path::FieldPaths;
use crate::model::Role;

/// The declaration of an agent whose files are read without a connector of their own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentDeclaration {
    /// Permanent id of the agent: lower-case letters, digits and hyphens.
    pub(super) id: String,
    /// Display name; the id if absent.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// The files with sessions: a path or pattern, or several.
    pub(super) files: DeclaredFiles,
    /// The format of the files. Without it, the file name's extension decides.
    #[serde(default)]
    pub(super) format: Option<DeclaredFormat>,
    /// Facts of a session.
    #[serde(default)]
    pub(super) session: DeclaredSession,
    /// Facts of a message.
    pub(super) message: DeclaredMessage,
    /// Tool calls in a message.
    #[serde(default)]
    pub(super) call: Option<DeclaredCall>,
    /// Results of tool calls in a message.
    #[serde(default)]
    pub(super) result: Option<DeclaredResult>,
    /// Tokens of the model call that produced a message.
    #[serde(default)]
    pub(super) tokens: DeclaredTokens,
    /// Program and arguments that continue a session. `{id}` stands for the session's id.
    #[serde(default)]
    pub(super) resume: Vec<String>,
}

/// One or several paths or patterns.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum DeclaredFiles {
    /// One path.
    One(String),
    /// Several paths.
    Many(Vec<String>),
}

/// The format of declared files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DeclaredFormat {
    /// One JSON value per line.
    Jsonl,
    /// One JSON document.
    Json,
    /// A SQLite database.
    Sqlite,
}

/// The places of the facts of a session. In a document, the paths begin at the document; in a
/// database, at a row of `table`; in lines, at every line.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DeclaredSession {
    /// Path of the sessions in a document that holds several.
    pub(super) each: FieldPaths,
    /// Table of the sessions in a database.
    pub(super) table: Option<String>,
    /// Id. Without it, the name of the file.
    pub(super) id: FieldPaths,
    /// Title.
    pub(super) title: FieldPaths,
    /// Working directory.
    pub(super) cwd: FieldPaths,
    /// Git branch.
    pub(super) branch: FieldPaths,
    /// Model.
    pub(super) model: FieldPaths,
    /// Time of the beginning.
    pub(super) time: FieldPaths,
    /// The session that started this one.
    pub(super) parent: FieldPaths,
    /// Version of the agent.
    pub(super) version: FieldPaths,
}

/// The places of the facts of a message.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DeclaredMessage {
    /// Path of the messages in a document, such as `/messages/*`.
    pub(super) each: FieldPaths,
    /// Table of the messages in a database.
    pub(super) table: Option<String>,
    /// Column by which the messages are sorted. Without it, the order of their insertion.
    pub(super) order: Option<String>,
    /// Id of the session that the message belongs to. In a database, the first step is a column.
    pub(super) session: FieldPaths,
    /// Role. `roles` translates its values.
    pub(super) role: FieldPaths,
    /// Values of the role with another meaning than the usual one.
    pub(super) roles: BTreeMap<String, DeclaredRole>,
    /// Text: a text, a list of texts, or a list of blocks with a field `text`.
    pub(super) text: FieldPaths,
    /// Readable reasoning of the model.
    pub(super) reasoning: FieldPaths,
    /// Time: ISO 8601, or a number since 1970 in seconds, milliseconds, microseconds or nanoseconds.
    pub(super) time: FieldPaths,
    /// Id.
    pub(super) id: FieldPaths,
    /// Id of the message that this one follows.
    pub(super) parent: FieldPaths,
    /// Model that wrote the message.
    pub(super) model: FieldPaths,
}

/// The meaning of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DeclaredRole {
    /// A prompt of a person.
    User,
    /// A reply of the model.
    Assistant,
    /// A notice of the program, or a text that it gives to the model.
    System,
    /// The result of a tool.
    Tool,
    /// Not a part of the conversation.
    Ignore,
}

impl DeclaredRole {
    /// Returns the usual meaning of a recorded role.
    pub(super) fn usual_meaning(recorded: &str) -> Option<Self> {
        match recorded.to_ascii_lowercase().as_str() {
            "user" | "human" | "prompt" => Some(Self::User),
            "assistant" | "ai" | "model" | "agent" | "bot" | "gemini" => Some(Self::Assistant),
            "system" | "developer" | "info" | "notice" => Some(Self::System),
            "tool" | "function" | "toolresult" | "tool_result" | "observation" => Some(Self::Tool),
            _ => None,
        }
    }

    /// Returns the side of the conversation; `None` for records that are no part of it.
    pub(super) fn side(self) -> Option<Role> {
        match self {
            Self::User => Some(Role::User),
            Self::Assistant => Some(Role::Assistant),
            Self::System => Some(Role::System),
            Self::Tool => Some(Role::Tool),
            Self::Ignore => None,
        }
    }
}

/// The places of tool calls.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeclaredCall {
    /// Path of the calls in a message, such as `/content/*`. An element without a name is none.
    #[serde(default)]
    pub(super) each: FieldPaths,
    /// Id, relative to the call.
    #[serde(default)]
    pub(super) id: FieldPaths,
    /// Name of the tool, relative to the call.
    pub(super) name: FieldPaths,
    /// Input, relative to the call.
    #[serde(default)]
    pub(super) input: FieldPaths,
}

/// The places of results of tool calls.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeclaredResult {
    /// Path of the results in a message. Without it, the message itself.
    #[serde(default)]
    pub(super) each: FieldPaths,
    /// Id of the call, relative to the result. An element without it is no result.
    pub(super) call: FieldPaths,
    /// Output, relative to the result.
    #[serde(default)]
    pub(super) output: FieldPaths,
    /// Whether the call failed: `true`, or a text that is neither empty nor a word for success; or
    /// an exit code other than 0.
    #[serde(default)]
    pub(super) failed: FieldPaths,
}

/// The places of tokens and cost.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DeclaredTokens {
    /// Id of the model call, if several records repeat its tokens.
    pub(super) call: FieldPaths,
    /// Input tokens.
    pub(super) input: FieldPaths,
    /// Output tokens.
    pub(super) output: FieldPaths,
    /// Input tokens read from a cache.
    pub(super) cache_read: FieldPaths,
    /// Input tokens written to a cache.
    pub(super) cache_write: FieldPaths,
    /// Output tokens used for reasoning.
    pub(super) reasoning: FieldPaths,
    /// Cost in dollars.
    pub(super) cost: FieldPaths,
    /// Whether `input` includes the tokens read from and written to a cache.
    pub(super) input_includes_cache: bool,
    /// Whether `output` leaves out the tokens used for reasoning.
    pub(super) output_excludes_reasoning: bool,
}

/// The reason why a declaration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclarationError {
    /// Id of the agent.
    pub agent: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for DeclarationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "agent `{}`: {}", self.agent, self.reason)
    }
}

impl std::error::Error for DeclarationError {}

/// Maximum length of an id.
const MAX_ID_CHARS: usize = 32;

impl AgentDeclaration {
    /// Returns the paths and patterns of the files.
    pub(super) fn file_patterns(&self) -> &[String] {
        match &self.files {
            DeclaredFiles::One(file) => std::slice::from_ref(file),
            DeclaredFiles::Many(files) => files,
        }
    }

    /// Returns the format of a file.
    pub(super) fn format_of(&self, path: &Path) -> DeclaredFormat {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        self.format.unwrap_or(match extension.as_str() {
            "json" => DeclaredFormat::Json,
            "db" | "sqlite" | "sqlite3" | "vscdb" => DeclaredFormat::Sqlite,
            _ => DeclaredFormat::Jsonl,
        })
    }

    /// Returns an error if the declaration cannot be used.
    pub(super) fn check(&self) -> Result<(), DeclarationError> {
        let wrong = |reason: String| Err(DeclarationError { agent: self.id.clone(), reason });
        let is_plain = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-';
        if self.id.is_empty() || self.id.len() > MAX_ID_CHARS || !self.id.chars().all(is_plain) {
            return wrong(format!(
                "`id` must have 1 to {MAX_ID_CHARS} lower-case letters, digits or hyphens"
            ));
        }
        let is_place = |file: &String| file.starts_with('~') || Path::new(file).is_absolute();
        if let Some(file) = self.file_patterns().iter().find(|file| !is_place(file)) {
            return wrong(format!("`files` must begin with `~` or be absolute, not `{file}`"));
        }
        if self.file_patterns().is_empty() {
            return wrong("`files` names no file".to_owned());
        }
        if self.message.role.is_empty() {
            return wrong("`message.role` is missing".to_owned());
        }
        let has_content = !self.message.text.is_empty() || self.call.is_some();
        if !has_content {
            return wrong("`message.text` is missing".to_owned());
        }
        let is_database = self.format == Some(DeclaredFormat::Sqlite);
        if is_database && self.message.table.is_none() {
            return wrong("a database needs `message.table`".to_owned());
        }
        Ok(())
    }
}
