//! Decides how a typed text is read: as a query, or as a line that was copied from somewhere. No
//! text is refused because of its syntax: a text that is not a query consists of words.

use jiff::Zoned;

use super::engine::parts_of;
use super::field::field_prefix;
use super::parse::{QueryParser, check_length};
use super::query::{Clause, MAX_QUERY_WORDS, Pattern, Query};
use crate::error::Result;
use crate::filter::Filter;

/// The maximum number of fields that are recognised at either end of a text that is not a query.
const MOST_FIELDS: usize = 16;

impl Query {
    /// Reads a text as a query; relative dates count from `now`. A text that is not a valid query
    /// is read as words, and [`reading_note`](Self::reading_note) says why. Returns an
    /// [`Error::Query`](crate::Error::Query) for a text that is too long, and for a misspelt field.
    pub fn parse(text: &str, now: &Zoned) -> Result<Self> {
        check_length(text)?;
        let text = text.trim();
        let mut parser = QueryParser::new(text, now);
        let (clauses, filter) = match parser.query() {
            Ok(parsed) => parsed,
            Err(error) if parser.is_field_mistake && !is_copied(text) => return Err(error),
            Err(error) => return Ok(Self::of_words(text, now, &error.to_string())),
        };
        let is_plain = clauses.iter().all(is_plain_word);
        // An expression has the signs of code.
        let has_regex = clauses.iter().any(Clause::has_regex);
        if !is_plain && !has_regex && filter == Filter::default() && is_code(text) {
            return Ok(Self::of_words(text, now, "it looks like a copied line"));
        }
        let is_verbatim = is_plain && clauses.iter().any(has_signs);
        Ok(Self { text: text.to_owned(), clauses, filter, is_verbatim, reading_note: None })
    }

    /// Parses a query, for commands that take fields only: a text that is not a valid query is an
    /// error.
    pub fn parse_exact(text: &str, now: &Zoned) -> Result<Self> {
        check_length(text)?;
        let (clauses, filter) = QueryParser::new(text, now).query()?;
        Ok(Self { text: text.trim().to_owned(), clauses, filter, ..Self::default() })
    }

    /// Reads a text as words. Fields at its beginning and end keep their meaning.
    fn of_words(text: &str, now: &Zoned, reason: &str) -> Self {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let mut fields: Vec<&str> = Vec::new();
        let is_field = |word: &&str| {
            let parsed = QueryParser::new(word, now).query();
            parsed.is_ok_and(|(clauses, _)| clauses.is_empty()) && word.contains(':')
        };
        while fields.len() < MOST_FIELDS && words.last().is_some_and(is_field) {
            fields.extend(words.pop());
        }
        let first = words.iter().position(|word| !is_field(word)).unwrap_or(words.len());
        fields.extend(words.drain(..first.min(MOST_FIELDS)));
        let filter = QueryParser::new(&fields.join(" "), now).query();
        let filter = filter.map(|(_, filter)| filter).unwrap_or_default();
        let mut left = MAX_QUERY_WORDS;
        let mut clauses = Vec::new();
        for word in words {
            let count = parts_of(word).len();
            if count == 0 {
                continue;
            }
            let Some(rest) = left.checked_sub(count) else { break };
            left = rest;
            clauses.push(Clause::new(Pattern::Word(word.to_owned())));
        }
        if clauses.is_empty() && fields.is_empty() {
            // A text without a word is found nowhere: it must not list everything.
            clauses.push(Clause::new(Pattern::Word(text.to_owned())));
        }
        let reason = reason.split(": ").next().unwrap_or(reason);
        let reason = reason.split(" — ").next().unwrap_or(reason);
        // The reason repeats the text, whose characters must not control a terminal or hide.
        let is_harmless =
            |one: &char| one.is_alphanumeric() || one.is_ascii_graphic() || *one == ' ';
        let reason: String = reason.chars().filter(is_harmless).collect();
        let reading_note = Some(format!("read as words: {reason}"));
        Self { text: text.to_owned(), clauses, filter, is_verbatim: true, reading_note }
    }
}

/// Returns whether a text looks like a line of code or of output: then it is searched as it stands.
pub fn looks_copied(text: &str) -> bool {
    text.split_whitespace().any(has_code_signs)
}

fn is_plain_word(clause: &Clause) -> bool {
    !clause.negated && matches!(clause.pattern, Pattern::Word(_))
}

fn has_signs(clause: &Clause) -> bool {
    matches!(&clause.pattern, Pattern::Word(word) if has_code_signs(word))
}

/// Returns whether a word has signs that prose does not have: brackets, operators, `x.y`, `:12`.
fn has_code_signs(word: &str) -> bool {
    let inner = word.trim_end_matches(['.', ',', '?', '!', ':', ';']);
    let mut before = ' ';
    for (at, sign) in inner.char_indices() {
        let next = inner[at + sign.len_utf8()..].chars().next().unwrap_or(' ');
        let is_inside = before.is_alphanumeric() && next.is_alphanumeric();
        let is_telling = match sign {
            '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | '=' | '|' | '\\' | '`' | '$' | '%'
            | '^' | '~' | '@' | '#' | ';' | '+' | '*' | '"' | '_' => true,
            '.' | '/' => is_inside,
            ':' => next == ':' || next.is_ascii_digit() || is_inside,
            '-' => next == '-' || next == '>',
            '&' => next == '&',
            _ => false,
        };
        if is_telling {
            return true;
        }
        before = sign;
    }
    false
}

/// Returns whether a text looks like a copied line even without what looks like a field.
fn is_copied(text: &str) -> bool {
    let is_field = |word: &&str| field_prefix(word, "").map_or(true, |field| field.is_some());
    let edges = ['"', '(', ')', '-', '*'];
    let mut others = text.split_whitespace().map(|word| word.trim_matches(edges));
    is_code(text) || others.any(|word| !is_field(&word) && has_code_signs(word))
}

/// Returns whether a text has signs that no query has, outside its quotes: operators of programming
/// languages and shells, and quotes inside words.
fn is_code(text: &str) -> bool {
    let mut before = ' ';
    let mut is_quoted = false;
    for (at, sign) in text.char_indices() {
        let next = text[at + sign.len_utf8()..].chars().next().unwrap_or(' ');
        if sign == '"' {
            let is_at_edge = if is_quoted {
                next.is_whitespace() || next == ')'
            } else {
                before.is_whitespace() || "(-:".contains(before)
            };
            if !is_at_edge {
                return true;
            }
            is_quoted = !is_quoted;
        } else if !is_quoted {
            let is_sign = match sign {
                '{' | '}' | '[' | ']' | '`' | '$' | ';' | '<' | '>' => true,
                '=' => before.is_whitespace() || "=!<>+-:".contains(before) || next == '>',
                '|' => before.is_whitespace() || before == '|',
                '&' => before == '&',
                '-' => before == '-' && next.is_alphanumeric(),
                _ => false,
            };
            if is_sign {
                return true;
            }
        }
        before = sign;
    }
    false
}
