//! Parses queries and finds the sessions and messages that match them.

mod answer;
mod any_word;
mod collector;
mod date;
mod document_length;
mod engine;
mod facets;
mod field;
mod floor;
mod fuse;
mod group;
mod listing;
mod meaning;
mod parallel;
mod parse;
mod places;
mod present;
mod query;
mod reading;
mod regex;
mod run;
mod session_score;
mod snippet;
mod statistics;
mod typo;
mod verify;
mod word_forms;

pub use answer::{
    Answer, Counts, Facet, Found, Grouping, Hit, Mode, SearchOptions, Sort, Stage, Tier,
};
pub use date::{DayEdge, date};
pub(crate) use field::unknown_agent;
pub use field::{
    FieldTarget, SearchField, agent, agent_name, describe_query_language, message_field, nearest,
    search_field, search_fields,
};
pub use query::{
    Clause, MAX_QUERY_BYTES, MAX_QUERY_DEPTH, MAX_QUERY_PATTERNS, MAX_QUERY_WORDS, Pattern, Query,
};
pub use reading::looks_copied;
pub use regex::Regex;
pub use snippet::Snippet;

pub use crate::filter::{
    ChosenSessions, Filter, HoursOfDay, NumberRange, Scope, SessionFeature, SessionNumber,
    SessionState, SessionText, TextRole,
};

pub(crate) use listing::list_sessions;
pub(crate) use run::Search;
