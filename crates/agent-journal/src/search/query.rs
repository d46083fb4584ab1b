//! A parsed query: its clauses and its filter.

use std::fmt;

use super::{Filter, Regex};

/// The maximum length of a query in bytes: the address of a dashboard page holds no more.
pub const MAX_QUERY_BYTES: usize = 8 * 1024;

/// The maximum nesting depth of parentheses. Every function that walks a query recurses as deep.
pub const MAX_QUERY_DEPTH: usize = 32;

/// The maximum number of words and fields in a query. An identifier counts as the words it consists
/// of.
pub const MAX_QUERY_WORDS: usize = 256;

/// The maximum number of prefixes (`begin*`) and regular expressions in a query: each of them scans
/// the words of the index and stands for many words.
pub const MAX_QUERY_PATTERNS: usize = 32;

/// A parsed query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// The query as it was typed, without surrounding white space.
    pub text: String,
    /// The conditions on text. All of them must hold.
    pub clauses: Vec<Clause>,
    /// The conditions on sessions and messages.
    pub filter: Filter,
    /// Whether the text looks like a copied line: it is first searched as it stands.
    pub is_verbatim: bool,
    /// The reason why the text was read as words although it looks like more, for the user.
    pub reading_note: Option<String>,
}

/// One condition on text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// The pattern to find.
    pub pattern: Pattern,
    /// Whether the pattern must be absent.
    pub negated: bool,
}

/// A pattern that a clause finds in text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pattern {
    /// A word, or an identifier with its parts in order.
    Word(String),
    /// Adjacent words.
    Phrase(String),
    /// A word with this prefix.
    Prefix(String),
    /// A text that matches a regular expression.
    Regex(Regex),
    /// A typed word that stands for any of several words: its other forms, or the nearest words of
    /// the index.
    OneOf {
        /// The word as it was typed.
        typed: String,
        /// The words it stands for.
        readings: Vec<String>,
    },
    /// Any of several alternatives, each of which may consist of several clauses.
    Any(Vec<Vec<Clause>>),
}

impl Query {
    /// Returns whether at least one clause must be present.
    pub fn looks_for_something(&self) -> bool {
        self.clauses.iter().any(|clause| !clause.negated)
    }

    /// Returns whether the query has no clauses: its fields alone select the results.
    pub fn is_fields_only(&self) -> bool {
        self.clauses.is_empty()
    }

    /// Returns whether messages must be read to decide whether they match.
    pub(super) fn has_regex(&self) -> bool {
        self.clauses.iter().any(Clause::has_regex)
    }
}

impl Clause {
    pub(super) fn new(pattern: Pattern) -> Self {
        Self { pattern, negated: false }
    }

    /// Calls `found` with every pattern that is required or is an alternative, and with no negated
    /// one.
    pub(super) fn each<'c>(&'c self, found: &mut dyn FnMut(&'c Pattern)) {
        match &self.pattern {
            _ if self.negated => {}
            Pattern::Any(alternatives) => {
                alternatives.iter().flatten().for_each(|clause| clause.each(found));
            }
            pattern => found(pattern),
        }
    }

    pub(super) fn has_regex(&self) -> bool {
        match &self.pattern {
            Pattern::Regex(_) => true,
            Pattern::Any(all) => all.iter().flatten().any(Clause::has_regex),
            _ => false,
        }
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negated {
            formatter.write_str("-")?;
        }
        self.pattern.fmt(formatter)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(text) => formatter.write_str(text),
            Self::Phrase(text) => write!(formatter, "\"{text}\""),
            Self::Prefix(text) => write!(formatter, "{text}*"),
            Self::Regex(regex) => regex.fmt(formatter),
            Self::OneOf { readings, .. } => write!(formatter, "({})", readings.join(" OR ")),
            Self::Any(alternatives) => {
                let all: Vec<String> = alternatives.iter().map(|one| join(one)).collect();
                write!(formatter, "({})", all.join(" OR "))
            }
        }
    }
}

/// Formats clauses in query syntax, separated by spaces.
pub(super) fn join(clauses: &[Clause]) -> String {
    let all: Vec<String> = clauses.iter().map(ToString::to_string).collect();
    all.join(" ")
}
