//! Keeps the sessions of coding agents in one local journal and searches them.
//!
//! [`Journal`] is the interface to everything. It reads what the agents wrote ([`Journal::sync`]),
//! merges the recordings of a session, counts each model call once, and answers:
//!
//! ```
//! use agent_journal::connectors::Machine;
//! use agent_journal::search::{Query, SearchOptions};
//! use agent_journal::{Config, Journal, SyncOptions};
//!
//! # let directory = tempfile::tempdir()?;
//! # let journal_dir = directory.path().join("journal");
//! let machine = Machine::current()?;
//! # let machine = Machine::of_home("../agent-sessions/tests/fixtures/claude-code/whole-session/home");
//! let mut journal = Journal::open(Config::new(journal_dir), machine)?;
//! journal.sync(SyncOptions::default(), &mut |_| {})?;
//! let query = Query::parse("flaky login", &jiff::Zoned::now())?;
//! for found in journal.search(&query, &SearchOptions::default())?.sessions {
//!     println!("{}  {}", found.entry.agent, found.entry.title);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | read new sessions | [`Journal::sync`]; [`Journal::start_watch`] to stay current |
//! | search | [`Journal::search`] with a [`search::Query`] |
//! | list sessions | [`Journal::list_entries`] with a [`search::Filter`]; [`Journal::browse_sessions`] for pages of a list |
//! | read a session | [`Journal::find_session`], [`Journal::read_messages`], [`Journal::render_window`] |
//! | count tokens, cost and time | [`Journal::stats`] |
//! | export, import | [`Journal::start_export`] with one of [`export::FORMATS`]; [`Journal::import_file`] |
//! | find the session behind a line | [`Journal::blame_file`] |
//!
//! [`model`] and [`connectors`] are those of the crate `agent-sessions`, which reads sessions
//! without a journal. [`search`] runs queries, [`analyze`] computes statistics over many sessions,
//! [`export`] writes sessions in other formats.
//!
//! The library never prints. Except for [`Machine::current`](connectors::Machine::current), it never
//! reads the environment: callers pass a [`Config`] and a [`Machine`](connectors::Machine).

pub mod analyze;
pub mod export;
pub mod present;
pub mod search;

mod archive;
mod blame;
mod config;
mod error;
mod escape;
mod filter;
mod health;
mod home_kind;
mod import;
mod index;
mod interrupt;
mod journal;
mod leftovers;
mod maps;
mod presence;
mod private;
mod rate;
mod recall_check;
mod restore;
mod resume;
mod session_export;
mod store;
mod sync;
mod transcript_page;
mod understanding;
mod uri;
mod watch;
mod work_share;

pub use agent_sessions::connectors::{
    AgentDeclaration, LearnedAgent, LearnedShare, UnreadAgent, UnreadReason, learn_agent,
};
pub use agent_sessions::{connectors, model};

pub use blame::{Author, Blame, BlamedFile, Touch, TouchedFile};
pub use config::{ArchiveSettings, Config, Fallback, Home, Meaning, Precision, ViewRedaction};
pub use error::{Error, Result};
pub use escape::without_escapes;
pub use filter::TextKind;
pub use health::{Health, IndexState};
pub use home_kind::HomeKind;
pub use import::{ImportReport, ImportSource};
pub use index::Coverage;
pub use interrupt::Interrupter;
pub use journal::{AgentReport, ImportedAgentReport, Journal, RootReport};
pub use presence::{Presence, ScannedDirectory};
pub use rate::{LongPromptRate, Rate};
pub use recall_check::{Missed, RecallQuery, RecallReport, RecallRow};
pub use restore::{RestorableFile, RestoreObstacle, RestorePlace};
pub use resume::{Guess, Obstacle, Resumption};
pub use session_export::{Export, Secret};
pub use store::{
    AgentTotals, ArchiveTotals, Browse, Entry, Facets, Listing, Order, Origin, Touches,
};
pub use store::{KnownSession, KnownSource, ListingState, SourceState};
pub use sync::{Changes, Progress, StopWatch, SyncOptions, SyncReport, Watch, WatchOptions};
pub use transcript_page::{Contents, Occurrence, PromptLandmark, RenderedWindow, TranscriptWindow};
pub use understanding::UnderstandingDrop;

// For the program `aj` and for tests: work sharing, and the guards around the index. Not part of the
// interface.
#[doc(hidden)]
pub use self::{
    index::{embed_by, fatal_damage, is_guarded},
    sync::{ChangeCheck, PendingChanges},
    work_share::WorkShare,
};
