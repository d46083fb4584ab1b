//! How an answer to a search looks: for people, and for programs.

mod json;
mod text;

pub(crate) use json::document;
pub(crate) use text::{closing, empty, text};

use agent_journal::Entry;
use agent_journal::analyze::SessionFigures;
use agent_journal::search::{Answer, Found, Hit, Options, Query};
use jiff::Zoned;

use crate::context::Freshness;
use crate::output::shell::Shell;

/// An answer with everything that is told about it.
pub(crate) struct Report<'a> {
    pub(crate) query: &'a Query,
    pub(crate) answer: &'a Answer,
    /// What the sessions of the answer did and spent; only for programs.
    pub(crate) figures: &'a [SessionFigures],
    pub(crate) options: &'a Options,
    /// The words the program was called with, but for the offset.
    pub(crate) call: Vec<String>,
    /// Milliseconds.
    pub(crate) took: u64,
    pub(crate) freshness: Freshness,
    /// Whether to tell how it came about.
    pub(crate) explain: bool,
    /// The most that may be written.
    pub(crate) max_bytes: Option<usize>,
    pub(crate) width: usize,
    pub(crate) now: &'a Zoned,
}

impl Report<'_> {
    /// What a result is called.
    fn noun(&self) -> &'static str {
        match self.answer.group {
            agent_journal::search::Grouping::Session => "session",
            agent_journal::search::Grouping::Message => "message",
        }
    }

    /// What to type to see the results after the first `shown`.
    fn next(&self, shown: usize) -> String {
        let mut words: Vec<String> = self.call.iter().map(|word| Shell::Sh.quote(word)).collect();
        // What stands behind it is no flag.
        let end = self.call.iter().position(|word| word == "--").unwrap_or(words.len());
        let offset = (self.options.offset + shown).to_string();
        words.splice(end..end, ["--offset".to_owned(), offset]);
        format!("aj {}", words.join(" "))
    }

    /// How many results come after the first `shown`.
    fn rest(&self, shown: usize) -> u64 {
        self.answer.total.saturating_sub((self.options.offset + shown) as u64)
    }
}

/// The session a hit is in.
pub(crate) fn place<'a>(found: &'a Found, hit: &'a Hit) -> &'a Entry {
    hit.within.as_deref().unwrap_or(&found.entry)
}
