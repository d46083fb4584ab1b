//! The histories of coding agents, in one local journal.
//!
//! In reading order: [`model`] says what a session is, [`connectors`] how each agent writes one
//! down, `sync` how files become entries, `store` where entries are kept, `index` how text is
//! found again, [`search`] what a query means, [`analyze`] what many sessions come to, [`export`]
//! how an entry leaves, and [`Journal`] is the door to all of it.
//!
//! The library never prints and never reads the environment: callers pass a [`Config`] and a
//! [`Machine`](connectors::Machine).

pub mod analyze;
pub mod connectors;
pub mod export;
pub mod model;
pub mod search;

mod config;
mod error;
mod index;
mod journal;
mod leave;
mod resume;
mod store;
mod sync;

pub use config::{Config, Fallback, Home, HomeKind, Meaning, Precision};
pub use error::{Error, Result};
pub use index::{Coverage, TextKind};
pub use journal::{AgentReport, Journal, RootReport};
pub use leave::{Export, Secret};
pub use resume::{Guess, Obstacle, Resumption};
pub use store::{AgentTotals, Entry, Origin};
pub use sync::{Progress, SyncOptions, SyncReport};
