//! What is meant by a query, and what fits it?

mod answer;
mod any_word;
mod date;
mod document_length;
mod engine;
mod facets;
mod field;
mod filter;
mod fold;
mod fuse;
mod gather;
mod listing;
mod meaning;
mod parse;
mod places;
mod present;
mod query;
mod regex;
mod run;
mod share;
mod snippet;
mod statistics;
mod typo;
mod verify;
mod word_forms;

pub use answer::{Answer, Counts, Facet, Found, Grouping, Hit, Mode, Options, Sort, Stage, Tier};
pub use date::{Edge, date};
pub(crate) use field::unknown_agent;
pub use field::{Field, agent, agent_name, field_called, fields, nearest, role};
pub use filter::{ChosenSessions, Feature, Filter, Hours, Measure, Scope, Size, State};
pub use fuse::{Blend, Fusion};
pub use query::{
    Clause, MAX_QUERY_BYTES, MAX_QUERY_DEPTH, MAX_QUERY_PATTERNS, MAX_QUERY_WORDS, Pattern, Query,
};
pub use regex::Regex;
pub use snippet::Snippet;

pub(crate) use filter::Packed;
pub(crate) use listing::list_sessions;
pub(crate) use run::Search;
