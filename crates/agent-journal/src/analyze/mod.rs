//! What happened over many sessions? Tokens and money, time and tools, and how well it goes. All
//! of it is sums over what was worked out when the sessions were recorded.

mod activity;
mod blame;
mod brief;
mod cost;
mod groups;
mod repositories;
mod score;
mod spread;
mod stats;
mod tally;
mod tools;
mod usage;

pub use activity::Streak;
pub use blame::{Confidence, FileLine};
pub use brief::{Brief, ChangedFile, Cited, FailedCall, Noted, Todo};
pub use cost::{Basis, Cost, Long, Rate};
pub use score::{Category, Score, ScoreReport};
pub use spread::Class;
pub use stats::{By, Explained, Extent, Group, Period, Spending, Stats, StatsQuery};
pub use tools::{Counted, ToolFigures};
pub use usage::{Figures, NotInTranscript, SessionFigures};

pub(crate) use blame::{Dated, attribute};
pub(crate) use brief::BriefMaker;
pub(crate) use cost::Prices;
pub(crate) use score::{Known, score};
pub(crate) use stats::{spent_since, stats};
pub(crate) use usage::{costs_with_subagents, session_figures};
