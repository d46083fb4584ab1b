//! The options and the results of a search.

use std::time::Duration;

use jiff::tz::TimeZone;
use serde::Serialize;

use super::Snippet;
use super::fuse::{MEANING_WEIGHT, MIN_SIMILARITY};
use crate::filter::TextKind;
use crate::model::Message;
use crate::store::Entry;

/// The options of a search.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// The maximum number of results.
    pub limit: usize,
    /// The number of results to skip.
    pub offset: usize,
    /// The way in which text is compared.
    pub mode: Mode,
    /// The order of the results.
    pub sort: Sort,
    /// The unit of a result.
    pub grouping: Grouping,
    /// The number of messages to read before and after each hit.
    pub context: u64,
    /// The facets by which results are counted.
    pub facets: Vec<Facet>,
    /// The time zone that decides to which month a result belongs.
    pub zone: TimeZone,
    /// The weight of the meaning against the words in [`Mode::Hybrid`], from zero to one.
    pub meaning_weight: f32,
    /// The minimum similarity of a result without the words, from zero to one.
    pub min_similarity: f32,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            limit: 20,
            offset: 0,
            mode: Mode::default(),
            sort: Sort::default(),
            grouping: Grouping::default(),
            context: 0,
            facets: Vec::new(),
            zone: TimeZone::UTC,
            meaning_weight: MEANING_WEIGHT,
            min_similarity: MIN_SIMILARITY,
        }
    }
}

/// The way in which text is compared with a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// By words.
    Lexical,
    /// By meaning.
    Semantic,
    /// By words and by meaning.
    #[default]
    Hybrid,
}

impl Mode {
    /// The names of all modes.
    pub const NAMES: [&'static str; 3] = ["lexical", "semantic", "hybrid"];

    /// Returns the mode with a name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "lexical" => Self::Lexical,
            "semantic" => Self::Semantic,
            "hybrid" => Self::Hybrid,
            _ => return None,
        })
    }
}

/// The order of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The best match first.
    #[default]
    Relevance,
    /// The latest first.
    Time,
}

/// The unit of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// A task: a session with its sub-agents.
    #[default]
    Session,
    /// A single message.
    Message,
}

/// A property by which results are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Facet {
    /// The agent of the session.
    Agent,
    /// The project of the session.
    Project,
    /// The most used model.
    Model,
    /// The month of the last message.
    Month,
}

/// The values of a facet, each with its number of results.
pub type Counts = Vec<(String, u64)>;

/// The kind of a match, the closest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// The words occur exactly as typed.
    ExactPhrase,
    /// All words occur in one message.
    #[default]
    AllWords,
    /// All words occur, some in another form: a plural, `-ed`, `-ing`.
    WordForms,
    /// All words occur if words missing from the index are replaced by the nearest indexed words.
    Typo,
    /// Some of the words occur.
    SomeWords,
    /// The text has a similar meaning.
    Meaning,
    /// No text was compared: fields alone selected the result.
    Listed,
}

impl Tier {
    /// Returns the rank class. A lower class comes first regardless of the score: a copied line as
    /// it stands precedes a match of all words, and that a match of some words or by meaning.
    pub(super) fn step(self) -> u8 {
        match self {
            Self::ExactPhrase => 0,
            Self::AllWords | Self::Listed => 1,
            Self::WordForms => 2,
            Self::Typo => 3,
            Self::SomeWords | Self::Meaning => 4,
        }
    }
}

/// The results of a search.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The way in which text was compared.
    pub mode: Mode,
    /// The tier of the best result.
    pub tier: Tier,
    /// The unit of a result.
    pub grouping: Grouping,
    /// The total number of results.
    pub total: u64,
    /// The number of results that share some words with the query and are not shown, because none
    /// is close enough. Zero if something is shown.
    pub distant: u64,
    /// The requested page of results.
    pub sessions: Vec<Found>,
    /// The number of results per agent, project and so on, for each requested facet.
    pub facets: Vec<(Facet, Counts)>,
    /// Typed words that are not in the index, with the words used instead.
    pub corrected: Vec<(String, String)>,
    /// The number of sessions that cannot be found by meaning yet.
    pub uncovered: u64,
    /// The number of messages on which a regular expression was not tried, because there are too
    /// many.
    pub untried: u64,
    /// The steps of the search.
    pub stages: Vec<Stage>,
}

/// A step of a search.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Stage {
    /// The name of the step.
    pub name: String,
    /// The query of the step.
    pub query: String,
    /// The number of sessions found.
    pub found: u64,
    /// The duration; microseconds in JSON.
    #[serde(serialize_with = "micros")]
    pub took: Duration,
}

fn micros<S: serde::Serializer>(took: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(took.as_micros() as u64)
}

/// A session that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The session as the store lists it.
    pub entry: Entry,
    /// The tier of its best hit.
    pub tier: Tier,
    /// The score of the session.
    pub score: f32,
    /// Its best hits, in session order.
    pub hits: Vec<Hit>,
    /// The total number of matching passages.
    pub matches: u64,
}

/// A message or title that was found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Hit {
    /// The sub-agent session that contains the hit, if it is not the found session itself.
    pub within: Option<Box<Entry>>,
    /// The position of the message; `None` for a text about the whole session.
    pub position: Option<u64>,
    /// The message with the match; `None` for a text about the whole session.
    pub message: Option<Message>,
    /// The kind of the matching text.
    pub kind: TextKind,
    /// The tier of the match.
    pub tier: Tier,
    /// The score of the match.
    pub score: f32,
    /// The excerpt that shows the match.
    pub snippet: Snippet,
    /// The messages around it, each with its position.
    pub context: Vec<(u64, Message)>,
}
