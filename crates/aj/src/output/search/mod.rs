//! Output of search results: as text and as JSON.

mod json;
mod text;

pub(crate) use json::search_json;
pub(crate) use text::{nothing_found_line, print_closing_line, write_results};

use agent_journal::Entry;
use agent_journal::analyze::SessionFigures;
use agent_journal::search::{Answer, Found, Hit, Query, SearchOptions};
use jiff::Zoned;

use crate::context::Freshness;
use crate::output::shell::ShellKind;

/// Search results with everything that is printed about them.
pub(crate) struct Report<'a> {
    pub(crate) query: &'a Query,
    pub(crate) answer: &'a Answer,
    /// Activity and spending of the sessions in the results; only for JSON output.
    pub(crate) figures: &'a [SessionFigures],
    pub(crate) options: &'a SearchOptions,
    /// The words the program was called with, except the offset.
    pub(crate) call: Vec<String>,
    /// Duration of the search in milliseconds.
    pub(crate) took: u64,
    pub(crate) freshness: Freshness,
    /// Whether to explain how the results were found.
    pub(crate) explain: bool,
    /// Most bytes of the output.
    pub(crate) max_bytes: Option<usize>,
    pub(crate) width: usize,
    pub(crate) now: &'a Zoned,
}

impl Report<'_> {
    /// Returns the noun for one result.
    fn noun_for_result(&self) -> &'static str {
        match self.answer.grouping {
            agent_journal::search::Grouping::Session => "session",
            agent_journal::search::Grouping::Message => "message",
        }
    }

    /// Returns the command that shows the results after the first `shown`.
    fn next_command(&self, shown: usize) -> String {
        let mut words: Vec<String> =
            self.call.iter().map(|word| ShellKind::Sh.quote_word(word)).collect();
        // Words after `--` are no flags.
        let end = self.call.iter().position(|word| word == "--").unwrap_or(words.len());
        let offset = (self.options.offset + shown).to_string();
        words.splice(end..end, ["--offset".to_owned(), offset]);
        format!("aj {}", words.join(" "))
    }

    /// Returns the number of results after the first `shown`.
    fn remaining_results(&self, shown: usize) -> u64 {
        self.answer.total.saturating_sub((self.options.offset + shown) as u64)
    }
}

/// Returns the session that contains a hit.
pub(crate) fn session_of_hit<'a>(found: &'a Found, hit: &'a Hit) -> &'a Entry {
    hit.within.as_deref().unwrap_or(&found.entry)
}
