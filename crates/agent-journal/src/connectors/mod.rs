//! How does each agent write a session down? A connector knows where one agent keeps its files
//! and how to transcribe them into the model. It reads, never writes, and infers nothing: what
//! can be worked out from the records is worked out once, elsewhere.
//!
//! Adding an agent is one file (or folder) here, one fixture directory, and two lines below.

pub mod formats;

pub(crate) mod mcp_config;

mod mcp_client;

mod aider;
mod claude_code;
mod codex;
mod copilot_cli;
mod cursor;
mod gemini;
mod qwen;
mod vscode_copilot;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::mcp_client::McpClient;
pub use crate::model::{Checkpoint, Source, Stamp};

use crate::error::Result;
use crate::model::{Message, Session, SessionId};

use self::mcp_client::Shape;

/// Every connector, in the order their agents are listed.
pub const ALL: &[&dyn Connector] = &[
    &claude_code::ClaudeCode,
    &copilot_cli::CopilotCli,
    &vscode_copilot::VscodeCopilot,
    &codex::Codex,
    &gemini::Gemini,
    &qwen::Qwen,
    &cursor::Cursor,
    &aider::Aider,
];

/// Reads one agent's files.
pub trait Connector: Sync {
    /// The agent's facts.
    fn agent(&self) -> &'static Agent;

    /// Lists where the agent would keep sessions on this machine, existing or not.
    fn roots(&self, machine: &Machine) -> Vec<PathBuf>;

    /// Lists the sources under one root: a place that exists, or a pattern whose
    /// [`base`](formats::glob::base) does, for agents whose files lie anywhere.
    fn discover(&self, root: &Path) -> Result<Vec<Source>>;

    /// Reads a source from a checkpoint on, and returns the checkpoint to go on from. A read
    /// from the default checkpoint tells everything; a later one tells what follows the
    /// checkpoint's messages, or fails with `Error::StartOver` when it must be read from its
    /// beginning. Any other error means this source as a whole; a record that makes no sense is
    /// `Skipped` and costs its neighbours nothing.
    fn read(&self, source: &Source, start: Checkpoint, sink: &mut dyn Sink) -> Result<Checkpoint>;

    /// Lists the sources that a change of one file below a root concerns, as `discover` would:
    /// the file itself, or those it lies beside. `None` when only a look at the root can tell.
    fn around(&self, _root: &Path, _changed: &Path) -> Option<Vec<Source>> {
        None
    }

    /// Whether everything below a root is looked at, or only what lies in it directly.
    fn scans_below(&self) -> bool {
        true
    }

    /// Whether the agent records times of the user's clock without their zone. They are told as
    /// if they were UTC, and put right by whoever knows the zone.
    fn has_local_times(&self) -> bool {
        false
    }

    /// The command with which the agent goes on with a session that it recorded in `source`;
    /// `None` when it has none for this one.
    fn resume_command(&self, _session: &Session, _source: &Path) -> Option<Resume> {
        None
    }

    /// How long the agent keeps its sessions before it deletes them itself, if it does.
    fn retention(&self, _machine: &Machine) -> Option<Retention> {
        None
    }
}

/// A command that goes on with a session, to be run in the session's directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resume {
    /// The agent's program.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl Resume {
    fn new<const N: usize>(program: &'static str, arguments: [&str; N]) -> Self {
        Self { program, arguments: arguments.map(str::to_owned).into() }
    }
}

/// That an agent deletes its own sessions after some time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Retention {
    /// After how many days.
    pub days: u64,
    /// The setting that changes it.
    pub setting: &'static str,
    /// The file that the setting stands in, or would.
    pub file: String,
}

/// What there is to know about an agent.
#[derive(Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its permanent id: stored, printed and accepted everywhere.
    pub id: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// The short word of its badge.
    pub badge: &'static str,
    /// Other names accepted for the id.
    pub aliases: &'static [&'static str],
    /// The badge's colour.
    pub color: (u8, u8, u8),
    /// Its key in `[storage.sources]` of the configuration.
    pub key: &'static str,
    /// The environment variable that replaces its roots.
    pub variable: &'static str,
    /// Environment variables that it sets for the commands it runs, and for nothing else.
    pub shell_variables: &'static [&'static str],
    /// How it is told of MCP servers, if it can use any.
    pub mcp: Option<McpClient>,
}

/// The machine whose homes are read. Everything a connector may know of its surroundings is
/// here, so that no test can touch the real home.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// The home directory.
    pub home: PathBuf,
    /// The operating system that wrote that home.
    pub os: Os,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// Project directories the journal already knows, for agents that write beside the code.
    pub projects: Vec<PathBuf>,
}

/// An operating system, as far as paths differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Os {
    /// Linux and other Unixes.
    #[default]
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

/// What a connector tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A session, or more about it. The messages that follow belong to it.
    Session(Box<Session>),
    /// A message of the session told last.
    Message(Box<Message>),
    /// A record that became neither.
    Skipped(Skipped),
}

/// A record that became neither session nor message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Where it stands: a line's first byte, a row.
    pub at: u64,
    /// Why, in words that do not depend on a parser.
    pub reason: Cow<'static, str>,
    /// Whether the record was understood and simply holds nothing for the journal.
    pub understood: bool,
    /// Whether the source breaks off here: what the journal has beyond, it keeps.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

/// Takes what a connector tells.
pub trait Sink {
    /// Takes one record.
    fn accept(&mut self, record: Record) -> Result<()>;

    /// Returns whether there is no more time: then the connector stops at the next place from
    /// which it can go on later, and returns the checkpoint of that place. Asked between lines or
    /// sessions; after the answer `true` nothing more is told.
    fn is_due(&mut self) -> bool {
        false
    }

    /// Returns whether a session was told to its end by an earlier read, with the same
    /// fingerprint: then it need not be told again.
    fn is_unchanged(&mut self, _session: &SessionId, _fingerprint: u64) -> Result<bool> {
        Ok(false)
    }

    /// Notes that the session told last was told to its end, with the fingerprint by which a later
    /// read knows that it did not change.
    fn finish_session(&mut self, _session: &SessionId, _fingerprint: u64) -> Result<()> {
        Ok(())
    }
}

impl Record {
    /// A record that could not be understood.
    pub fn bad(at: u64, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Skipped(Skipped { at, reason: reason.into(), understood: false, is_cut: false })
    }

    /// The place where a source breaks off that an agent had written to its end.
    pub fn cut(at: u64, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Skipped(Skipped { at, reason: reason.into(), understood: false, is_cut: true })
    }

    /// A record that was understood and holds nothing for the journal.
    pub fn passed(at: u64, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Skipped(Skipped { at, reason: reason.into(), understood: true, is_cut: false })
    }
}

impl Machine {
    /// Reads a variable; an empty one counts as absent.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Reads a variable that holds a path, `~` expanded.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.var(name).map(|text| self.expand(text))
    }

    /// The variables without which an agent's files would be looked for elsewhere, with their
    /// values.
    pub fn decisive(&self) -> impl Iterator<Item = (&str, &str)> {
        let roots = |machine: &Self| {
            ALL.iter().map(|connector| connector.roots(machine)).collect::<Vec<_>>()
        };
        let decides = move |name: &str| {
            let mut without = self.clone();
            without.env.remove(name);
            roots(&without) != roots(self)
        };
        let all = self.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        all.filter(move |(name, _)| decides(name))
    }

    /// Expands a leading `~`.
    pub fn expand(&self, text: &str) -> PathBuf {
        match text.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with(['/', '\\']) => self.home.join(&rest[1..]),
            _ => PathBuf::from(text),
        }
    }
}

/// Finds a connector by its agent's id or alias.
pub fn find(name: &str) -> Option<&'static dyn Connector> {
    let fits = |agent: &Agent| agent.id == name || agent.aliases.contains(&name);
    ALL.iter().copied().find(|connector| fits(connector.agent()))
}
