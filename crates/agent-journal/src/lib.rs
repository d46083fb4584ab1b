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

mod arrive;
mod config;
mod error;
mod escape;
mod follow;
mod health;
mod helper;
mod index;
mod interrupt;
mod journal;
mod leave;
mod maps;
mod presence;
mod reach;
mod resume;
mod store;
mod sync;
mod trace;
mod understanding;
mod uri;
mod view;

pub use arrive::{Arrival, Arriving};
pub use config::{Config, Fallback, Home, HomeKind, Meaning, Precision, ViewRedaction};
pub use error::{Error, Result};
pub use escape::without_escapes;
pub use health::{Health, IndexState};
pub use helper::Helper;
#[doc(hidden)]
pub use index::embed_by;
pub use index::{Coverage, TextKind, fatal_damage, is_guarded};
pub use interrupt::Interrupter;
pub use journal::{AgentReport, Journal, RootReport};
pub use leave::{Export, Secret};
pub use presence::{Presence, ScannedDirectory};
pub use reach::{Missed, Reach, ReachQuery, ReachRow};
pub use resume::{Guess, Obstacle, Resumption};
pub use store::{AgentTotals, Browse, Entry, Facets, Listing, Order, Origin, Touches};
pub use store::{KnownSession, KnownSource, ListingState, SourceState};
pub use sync::{
    Changes, Look, News, Progress, StopWatch, SyncOptions, SyncReport, Watch, WatchOptions,
};
pub use trace::{Author, Blame, BlamedFile, Touch, TouchedFile};
pub use understanding::UnderstandingDrop;
pub use view::{Contents, Landmark, Occurrence, Shown, Window};
