//! Statistics over many sessions: tokens and cost, time and tools, and an effectiveness score. All
//! of them are sums over figures that were derived when the sessions were recorded.

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
pub use cost::{Basis, Cost};
pub use score::{Category, Score, ScoreReport};
pub use spread::SizeClass;
pub use stats::{DailySpending, Explained, Extent, GroupBy, Period, Stats, StatsGroup, StatsQuery};
pub use tools::{CountedName, ToolFigures};
pub use usage::{Figures, NotInTranscript, SessionFigures};

pub(crate) use blame::{Dated, attribute_lines};
pub(crate) use brief::BriefMaker;
pub(crate) use cost::Prices;
pub(crate) use score::{ScoreContext, score_sessions};
pub(crate) use stats::{compute_stats, sum_spending_since};
pub(crate) use usage::{costs_with_subagents, figures_of_sessions};
