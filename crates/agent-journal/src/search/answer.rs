//! What is asked of a search beside its query, and what comes back.

use std::time::Duration;

use jiff::tz::TimeZone;
use serde::Serialize;

use super::{Blend, Snippet};
use crate::index::TextKind;
use crate::model::Message;
use crate::store::Entry;

/// How an answer is to be given.
#[derive(Clone, Debug)]
pub struct Options {
    /// Results at most.
    pub limit: usize,
    /// Results to pass over.
    pub offset: usize,
    /// How text is compared.
    pub mode: Mode,
    /// How words and meanings are put together.
    pub blend: Blend,
    /// What comes first.
    pub sort: Sort,
    /// What one result is.
    pub group: Grouping,
    /// Messages to read before and after each that was found.
    pub context: u64,
    /// What to count the results by.
    pub facets: Vec<Facet>,
    /// The zone whose months are meant.
    pub zone: TimeZone,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limit: 20,
            offset: 0,
            mode: Mode::default(),
            blend: Blend::default(),
            sort: Sort::default(),
            group: Grouping::default(),
            context: 0,
            facets: Vec::new(),
            zone: TimeZone::UTC,
        }
    }
}

/// How text is compared with a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// By its words.
    #[default]
    Lexical,
    /// By its meaning.
    Semantic,
    /// By both.
    Hybrid,
}

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// What fits best.
    #[default]
    Relevance,
    /// What is latest.
    Time,
}

/// What one result is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// A task: a session with what it started.
    #[default]
    Session,
    /// A message.
    Message,
}

/// What results are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Facet {
    /// The agent.
    Agent,
    /// The project.
    Project,
    /// The most used model.
    Model,
    /// The month of the last message.
    Month,
}

/// Values of a facet, each with the number of results.
pub type Counts = Vec<(String, u64)>;

/// How closely something fits a query, the closest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// It stands there as it was typed.
    ExactPhrase,
    /// Everything that was asked for stands in one message.
    #[default]
    AllWords,
    /// Everything does, some words in another form: a plural, `-ed`, `-ing`.
    WordForms,
    /// Everything does, if words that occur nowhere are read as the nearest that do.
    Typo,
    /// Some of the words do.
    SomeWords,
    /// It is about the same.
    Meaning,
    /// Nothing was compared: fields alone chose it.
    Listed,
}

impl Tier {
    /// What comes before what, whatever its worth: everything that was asked for before a part of
    /// it or something like it.
    pub(super) fn step(self) -> u8 {
        match self {
            Self::ExactPhrase | Self::AllWords | Self::Listed => 0,
            Self::WordForms => 1,
            Self::Typo => 2,
            Self::SomeWords | Self::Meaning => 3,
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// How text was compared.
    pub mode: Mode,
    /// How closely the best of it fits.
    pub tier: Tier,
    /// What one result is.
    pub group: Grouping,
    /// How many results there are.
    pub total: u64,
    /// The best of them.
    pub sessions: Vec<Found>,
    /// How many results there are of each agent, project, …: what was asked for.
    pub facets: Vec<(Facet, Counts)>,
    /// Words that occur nowhere, with those they were read as.
    pub corrected: Vec<(String, String)>,
    /// Sessions that cannot be found by meaning yet.
    pub uncovered: u64,
    /// Messages that a regular expression was not tried on, because they are too many.
    pub untried: u64,
    /// What was done to find it.
    pub stages: Vec<Stage>,
}

/// A step of a search.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    /// What it looked for.
    pub name: String,
    /// How it was said to the index.
    pub query: String,
    /// How many sessions it found.
    pub found: u64,
    /// How long it took.
    #[serde(serialize_with = "micros")]
    pub took: Duration,
}

fn micros<S: serde::Serializer>(took: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(took.as_micros() as u64)
}

/// A session that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The session.
    pub entry: Entry,
    /// How closely the best of it fits.
    pub tier: Tier,
    /// What it is worth.
    pub score: f32,
    /// Its best messages, in their order.
    pub hits: Vec<Hit>,
    /// How many passages fit in all.
    pub matches: u64,
}

/// A message (or title) that was found.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The session it is in, when that is one the found session started.
    pub within: Option<Box<Entry>>,
    /// The message's position; none for what is about the session as a whole.
    pub position: Option<u64>,
    /// The message.
    pub message: Option<Message>,
    /// Which of its texts fits.
    pub kind: TextKind,
    /// How closely.
    pub tier: Tier,
    /// What it is worth.
    pub score: f32,
    /// The piece that shows why.
    pub snippet: Snippet,
    /// The messages around it, each with its position.
    pub context: Vec<(u64, Message)>,
}
