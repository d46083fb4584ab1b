//! A query, understood: what to look for, and where.

use std::fmt;

use jiff::Zoned;

use super::parse::Parser;
use super::{Filter, Regex};
use crate::error::Result;

/// The longest query, in bytes: an address of the dashboard holds no more.
pub const MAX_QUERY_BYTES: usize = 8 * 1024;

/// How deep parentheses of a query may be nested. Everything that walks a query recurses as deep.
pub const MAX_QUERY_DEPTH: usize = 32;

/// How many words and fields a query may have; an identifier counts as the words it is made of.
pub const MAX_QUERY_WORDS: usize = 256;

/// How many of them may be beginnings (`begin*`) and regular expressions: each of these looks
/// through the words of the index and stands for many.
pub const MAX_QUERY_PATTERNS: usize = 32;

/// A query, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// As it was typed.
    pub text: String,
    /// What to look for: all of it.
    pub clauses: Vec<Clause>,
    /// Where to look.
    pub filter: Filter,
}

/// One thing to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// What.
    pub pattern: Pattern,
    /// Whether it must not be there.
    pub negated: bool,
}

/// What a clause looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pattern {
    /// A word, or an identifier with its parts in order.
    Word(String),
    /// Words next to each other.
    Phrase(String),
    /// A word that begins like this.
    Prefix(String),
    /// A text that fits a regular expression.
    Regex(Regex),
    /// A typed word that stands for any of several words: its other forms, or the nearest ones
    /// that occur.
    OneOf {
        /// As it was typed.
        typed: String,
        /// The words it stands for.
        readings: Vec<String>,
    },
    /// One of several things, each of which may be several clauses.
    Any(Vec<Vec<Clause>>),
}

impl Query {
    /// Understands what was typed; relative dates count from `now`. A query beyond the limits
    /// (`MAX_QUERY_…`) is an [`Error::Query`](crate::Error::Query).
    pub fn parse(text: &str, now: &Zoned) -> Result<Self> {
        let (clauses, filter) = Parser::new(text, now).query()?;
        Ok(Self { text: text.trim().to_owned(), clauses, filter })
    }

    /// Whether there is anything that must be there.
    pub fn looks_for_something(&self) -> bool {
        self.clauses.iter().any(|clause| !clause.negated)
    }

    /// Whether there is nothing to look for: fields alone choose what is listed.
    pub fn is_fields_only(&self) -> bool {
        self.clauses.is_empty()
    }

    /// Whether messages themselves must be read to know whether they fit.
    pub(super) fn has_regex(&self) -> bool {
        self.clauses.iter().any(Clause::has_regex)
    }
}

impl Clause {
    pub(super) fn new(pattern: Pattern) -> Self {
        Self { pattern, negated: false }
    }

    /// Calls `found` with every pattern that must be there, or may be.
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

/// Writes clauses one after the other.
pub(super) fn join(clauses: &[Clause]) -> String {
    let all: Vec<String> = clauses.iter().map(ToString::to_string).collect();
    all.join(" ")
}
