//! Reads the sessions that coding agents leave on disk, as typed records.
//!
//! Claude Code, Copilot, Codex, Gemini, Cursor and others each keep their sessions in a format of
//! their own. This crate finds those files and converts them to one model. It never writes to them,
//! never locks them and never opens a network connection.
//!
//! ```
//! use agent_sessions::{Machine, read_sessions};
//!
//! let machine = Machine::current()?;
//! # let machine = Machine::of_home("tests/fixtures/claude-code/whole-session/home");
//! for recording in read_sessions(&machine) {
//!     match recording {
//!         Ok(one) => println!("{}: {} ({})", one.agent.name, one.title(), one.messages.len()),
//!         Err(error) => eprintln!("{error}"),
//!     }
//! }
//! # Ok::<(), agent_sessions::Error>(())
//! ```
//!
//! # Terms
//!
//! - An **agent** is a program that works on code with a language model.
//! - A **source** is one file or database that an agent writes. [`find_sources`] lists them.
//! - A **session** is one conversation with an agent: [`model::Session`] is its metadata,
//!   [`model::Message`] one step of it, [`model::Block`] one part of a message (text, reasoning, a
//!   tool call, a tool result, an image).
//! - A **recording** is one source's copy of a session. Agents may keep several, such as a log and
//!   a database; [`Recording`] is one of them. This crate does not merge them: `agent-journal` does.
//! - A **connector** reads the files of one agent. [`connectors::ALL`] lists them.
//!
//! # Reading
//!
//! | to | use |
//! |---|---|
//! | read everything | [`read_sessions`] |
//! | list the files, and read some of them | [`find_sources`], [`AgentSource::read_sessions`] |
//! | read one record at a time, in bounded memory | [`AgentSource::read`] with a [`Sink`] |
//! | read what follows an earlier read | [`Connector::read_source`] with a [`Checkpoint`] |
//!
//! [`Sink`]: connectors::Sink
//! [`Connector::read_source`]: connectors::Connector::read_source
//! [`Checkpoint`]: connectors::Checkpoint
//!
//! [`Machine::current`] describes the machine and the user that run the program;
//! [`Machine::of_home`] describes another home directory, such as a backup. Nothing else reads the
//! environment. Some agents write beside the code they work on: list the directories of such
//! projects in [`Machine::projects`].
//!
//! # Errors
//!
//! An [`Error`] concerns one source as a whole. A record that cannot be understood is reported as
//! [`Record::Skipped`](connectors::Record::Skipped) and does not affect its neighbours. Fields and
//! content that the model does not have are kept as recorded, in [`model::Extensions`] and
//! [`Block::Other`](model::Block::Other).
//!
//! A connector only transcribes. Titles, counts and sums that follow from the messages are left to
//! the caller; [`model::MessageFacts`] derives the usual ones. Some agents record local times without a
//! time zone; [`Connector::has_local_times`](connectors::Connector::has_local_times) says which.

pub mod connectors;
pub mod model;

mod error;
mod sessions;

pub use connectors::{Machine, Os};
pub use error::{Cause, Error, Result};
pub use sessions::{
    AgentSource, Recording, Recordings, SourceContent, find_sources, read_sessions,
};
