//! Connectors: each one locates the files that one agent writes and converts them to the model. A
//! connector only reads and infers nothing: later layers derive everything that follows from the
//! records.
//!
//! To add an agent, add one file (or folder) here, one fixture directory, and two lines below.

// For `agent-journal` and for tests, not part of the interface.
#[doc(hidden)]
pub mod formats;
#[doc(hidden)]
pub mod mcp_config;

mod machine;
mod mcp_client;

mod aider;
mod antigravity;
mod claude_code;
mod cline;
mod codex;
mod continue_dev;
mod copilot_cli;
mod crush;
mod cursor;
mod declared;
mod droid;
mod gemini;
mod goose;
mod grok;
mod hermes;
mod kimi;
mod kiro;
mod opencode;
mod openhands;
mod pi;
mod qwen;
mod unread;
mod vscode_copilot;
mod web_chats;
mod zed;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::declared::{
    AgentDeclaration, DeclarationError, DeclaredConnector, LearnedAgent, LearnedShare,
    all_connectors, declare_agents, learn_agent,
};
pub use self::formats::project_search::{FoundProjects, SearchLimits};
pub use self::machine::{Machine, Os};
pub use self::mcp_client::McpClient;
#[doc(hidden)]
pub use self::unread::unread_agent_names;
pub use self::unread::{UnreadAgent, UnreadReason, find_unread_agents};
pub use self::web_chats::{WEB_CHATS, WebChat, read_web_chat};
pub use crate::model::{Checkpoint, Source, Stamp};

use crate::error::Result;
use crate::model::{Message, Session, SessionId};

use self::mcp_client::McpConfigFormat;

/// The connectors of this crate, in the order in which their agents are listed.
/// [`all_connectors`] adds those that a user declared.
pub const ALL: &[&dyn Connector] = &[
    &claude_code::ClaudeCode,
    &copilot_cli::CopilotCli,
    &vscode_copilot::VscodeCopilot,
    &codex::Codex,
    &gemini::Gemini,
    &qwen::Qwen,
    &cursor::CursorConnector,
    &aider::Aider,
    &pi::PI,
    &pi::OMP,
    &pi::PRIME,
    &pi::OpenClaw,
    &hermes::Hermes,
    &kimi::Kimi,
    &antigravity::Antigravity,
    &zed::Zed,
    &opencode::OPENCODE,
    &opencode::KILO,
    &opencode::MIMO,
    &crush::CRUSH,
    &crush::OPENCODE_GO,
    &cline::CLINE,
    &cline::ROO_CODE,
    &cline::KILO_CODE,
    &continue_dev::ContinueConnector,
    &kiro::KIRO,
    &kiro::AMAZON_Q,
    &grok::Grok,
    &droid::Droid,
    &openhands::OpenHands,
    &goose::Goose,
];

/// A reader of one agent's files.
pub trait Connector: Sync {
    /// Returns the static description of the agent.
    fn agent(&self) -> &'static Agent;

    /// Lists the locations where the agent would keep sessions on this machine, existing or not.
    fn roots(&self, machine: &Machine) -> Vec<PathBuf>;

    /// Lists the sources under one root. A root is an existing path, or, for agents whose files can
    /// be anywhere, a glob pattern whose [`base`](formats::glob::pattern_base) exists.
    fn discover_sources(&self, root: &Path) -> Result<Vec<Source>>;

    /// Reads a source from a checkpoint on, and returns the checkpoint from which to continue. A
    /// read from the default checkpoint emits everything. A later one emits only what follows the
    /// checkpoint's messages, or fails with `Error::StartOver` when the source must be read from
    /// its beginning. Any other error concerns the source as a whole; a record that cannot be
    /// understood becomes `Skipped` and does not affect its neighbours.
    fn read_source(
        &self,
        source: &Source,
        start: Checkpoint,
        sink: &mut dyn Sink,
    ) -> Result<Checkpoint>;

    /// Lists the sources that a change of one file below a root affects, as `discover` would list
    /// them: the file itself, or the sources it accompanies. Returns `None` when only a scan of the
    /// root can find them.
    fn affected_sources(&self, _root: &Path, _changed: &Path) -> Option<Vec<Source>> {
        None
    }

    /// Returns whether a scan includes everything below a root, or only the root's direct entries.
    fn scans_below(&self) -> bool {
        true
    }

    /// Returns whether the agent records local times without a time zone in a source. The connector
    /// emits them as if they were UTC; a later layer that has the zone corrects them.
    fn has_local_times(&self, _source: &Path) -> bool {
        false
    }

    /// Lists the files, relative to a project's directory, by which projects with sessions of this
    /// agent are recognised. Only agents that write into their projects and keep no list of them
    /// have such files.
    fn project_files(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the version of the code that reads the sources. After an increase every source of the
    /// agent is read again once: from the disk, or from the archive if it no longer exists.
    fn version(&self) -> u32 {
        1
    }

    /// Returns a hash of the settings that decide how sources are read. If it changes, every source
    /// is read again.
    fn settings_hash(&self) -> u64 {
        0
    }

    /// Returns the command that continues a session the agent recorded in `source`; `None` when
    /// there is none for this session.
    fn resume_command(&self, _session: &Session, _source: &Path) -> Option<Resume> {
        None
    }

    /// Returns the time after which the agent deletes its own sessions, if it does.
    fn retention_period(&self, _machine: &Machine) -> Option<Retention> {
        None
    }
}

/// A command that continues a session. It must run in the session's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Resume {
    /// Name of the agent's program.
    pub program: &'static str,
    /// Arguments of the program.
    pub arguments: Vec<String>,
}

impl Resume {
    fn new<const N: usize>(program: &'static str, arguments: [&str; N]) -> Self {
        Self { program, arguments: arguments.map(str::to_owned).into() }
    }
}

/// The rule by which an agent deletes its own sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Retention {
    /// Age in days at which the agent deletes a session.
    pub days: u64,
    /// Name of the setting that changes the age.
    pub setting: &'static str,
    /// The file that holds the setting, or would hold it.
    pub file: String,
}

/// The static description of an agent.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Agent {
    /// Permanent id, stored, printed and accepted everywhere.
    pub id: &'static str,
    /// Display name.
    pub name: &'static str,
    /// Short label on the agent's badge.
    pub badge: &'static str,
    /// Other names accepted in place of the id.
    pub aliases: &'static [&'static str],
    /// Colour of the badge, as red, green and blue.
    pub color: (u8, u8, u8),
    /// Key in `[storage.sources]` of the configuration.
    pub key: &'static str,
    /// Environment variable that replaces the agent's roots.
    pub variable: &'static str,
    /// Environment variables that the agent sets for the commands it runs, and for nothing else.
    pub shell_variables: &'static [&'static str],
    /// The agent's MCP configuration, if it can use MCP servers.
    pub mcp: Option<McpClient>,
}

/// A unit of a connector's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A session, or more metadata of one. The messages that follow belong to it.
    Session(Box<Session>),
    /// A message of the session emitted last.
    Message(Box<Message>),
    /// A record that became neither session nor message.
    Skipped(Skipped),
}

/// A record that became neither session nor message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Skipped {
    /// Position of the record in its source: the offset of a line's first byte, or a row number.
    pub at: u64,
    /// Reason, in words that do not depend on a parser.
    pub reason: Cow<'static, str>,
    /// Whether the record was understood and simply has no content for the journal.
    pub understood: bool,
    /// Whether the source is truncated here. The journal then keeps the later messages it already
    /// has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

/// A receiver of a connector's records.
pub trait Sink {
    /// Accepts one record.
    fn accept_record(&mut self, record: Record) -> Result<()>;

    /// Returns whether the time budget is used up. The connector then stops at the next position
    /// from which it can continue later, and returns the checkpoint of that position. Connectors
    /// call this between lines or sessions; after `true` they emit nothing more.
    fn is_due(&mut self) -> bool {
        false
    }

    /// Returns whether an earlier read emitted the whole session with the same fingerprint. The
    /// connector then need not emit it again.
    fn is_unchanged(&mut self, _session: &SessionId, _fingerprint: u64) -> Result<bool> {
        Ok(false)
    }

    /// Marks the session emitted last as complete, with the fingerprint by which a later read
    /// detects that it did not change.
    fn finish_session(&mut self, _session: &SessionId, _fingerprint: u64) -> Result<()> {
        Ok(())
    }
}

impl Record {
    /// Returns a skipped record that could not be understood.
    pub fn unreadable_record(at: u64, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Skipped(Skipped { at, reason: reason.into(), understood: false, is_cut: false })
    }

    /// Returns a skipped record for the position at which a source is truncated although the agent
    /// had written it completely.
    pub fn truncated_record(at: u64, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Skipped(Skipped { at, reason: reason.into(), understood: false, is_cut: true })
    }

    /// Returns a skipped record that was understood and has no content for the journal.
    pub fn passed_over_record(at: u64, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Skipped(Skipped { at, reason: reason.into(), understood: true, is_cut: false })
    }
}

/// Finds a connector by its agent's id or alias.
pub fn find_connector(name: &str) -> Option<&'static dyn Connector> {
    all_connectors().find(|connector| connector.agent().has_name(name))
}

impl Agent {
    /// Returns whether the agent answers to a name: its id, or another name accepted in its place.
    fn has_name(&self, name: &str) -> bool {
        self.id == name || self.aliases.contains(&name)
    }
}
