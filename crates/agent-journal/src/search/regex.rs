//! Regular expressions over messages. The index holds words, not letters: the words that a matching
//! message must contain are derived from the expression, and only such messages are read.

use std::fmt;

use regex_syntax::hir::{Hir, HirKind, Look};

/// The minimum length of a fragment in bytes: a shorter one occurs in too many words to be useful.
const SHORTEST: usize = 3;

/// The maximum number of alternatives: more of them do not narrow the search enough.
const ALTERNATIVES: usize = 32;

/// The maximum nesting depth of groups: the required words are derived recursively.
const MAX_NESTING: u32 = 64;

/// A regular expression in a query.
#[derive(Clone, Debug)]
pub struct Regex {
    source: String,
    flags: String,
    compiled: regex::Regex,
    pub(super) need: Need,
}

/// The words that a text must contain to match an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// No requirement could be derived.
    Nothing,
    /// A text between two word boundaries: its words, in order.
    Words(String),
    /// A word that contains this text.
    Part(String),
    /// All of these.
    All(Vec<Need>),
    /// Any of these.
    Any(Vec<Need>),
}

impl Regex {
    /// Compiles an expression. The error is a single line.
    pub(super) fn new(source: &str, flags: &str) -> Result<Self, String> {
        let pattern =
            if flags.is_empty() { source.to_owned() } else { format!("(?{flags}){source}") };
        let compiled = regex::RegexBuilder::new(&pattern)
            .multi_line(true)
            .size_limit(4 << 20)
            .nest_limit(MAX_NESTING)
            .build()
            .map_err(|error| in_one_line(&error.to_string()))?;
        let hir = regex_syntax::ParserBuilder::new()
            .multi_line(true)
            .nest_limit(MAX_NESTING)
            .build()
            .parse(&pattern);
        let need = hir.map_or(Need::Nothing, |hir| need(&hir));
        Ok(Self { source: source.to_owned(), flags: flags.to_owned(), compiled, need })
    }

    /// Returns whether a text matches.
    pub(super) fn fits(&self, text: &str) -> bool {
        self.compiled.is_match(text)
    }

    /// Returns the byte ranges of all non-empty matches in a text.
    pub(super) fn places<'t>(
        &'t self,
        text: &'t str,
    ) -> impl Iterator<Item = std::ops::Range<usize>> + 't {
        self.compiled.find_iter(text).map(|found| found.range()).filter(|range| !range.is_empty())
    }
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.flags == other.flags
    }
}

impl Eq for Regex {}

impl fmt::Display for Regex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "/{}/{}", self.source, self.flags)
    }
}

impl fmt::Display for Need {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |all: &[Need]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        match self {
            Self::Nothing => formatter.write_str("anything"),
            Self::Words(text) => write!(formatter, "\"{text}\""),
            Self::Part(text) => write!(formatter, "*{text}*"),
            Self::All(all) => formatter.write_str(&list(all).join(" ")),
            Self::Any(all) => write!(formatter, "({})", list(all).join(" OR ")),
        }
    }
}

/// Returns the last line of a compiler error, which holds the reason.
fn in_one_line(account: &str) -> String {
    let last = account.lines().rfind(|line| !line.trim().is_empty()).unwrap_or(account);
    last.trim().trim_start_matches("error: ").to_owned()
}

/// A piece of an expression, in order.
enum Piece {
    /// This text, exactly (in any case).
    Text(String),
    /// A character that is not part of a word, or a word boundary.
    Edge,
    /// Any text.
    Gap,
    /// Any text with known required words.
    Known(Need),
}

fn need(hir: &Hir) -> Need {
    let mut pieces = Vec::new();
    walk(hir, &mut pieces);
    let mut all: Vec<Need> = Vec::new();
    let mut at = 0;
    while at < pieces.len() {
        match &mut pieces[at] {
            Piece::Text(_) => {
                let open_before = at > 0 && !matches!(pieces[at - 1], Piece::Edge);
                let starts_free = at == 0 || open_before;
                let mut text = String::new();
                while let Some(Piece::Text(more)) = pieces.get(at) {
                    text.push_str(more);
                    at += 1;
                }
                let ends_free = !matches!(pieces.get(at), Some(Piece::Edge));
                words_of(&text, starts_free, ends_free, &mut all);
                continue;
            }
            Piece::Known(need) => all.push(std::mem::replace(need, Need::Nothing)),
            Piece::Edge | Piece::Gap => {}
        }
        at += 1;
    }
    all.retain(|need| *need != Need::Nothing);
    match all.len() {
        0 => Need::Nothing,
        1 => all.remove(0),
        _ => Need::All(all),
    }
}

fn walk(hir: &Hir, pieces: &mut Vec<Piece>) {
    match hir.kind() {
        HirKind::Empty => {}
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(text) => pieces.push(Piece::Text(text.to_owned())),
            Err(_) => pieces.push(Piece::Gap),
        },
        HirKind::Class(class) => pieces.push(match one_letter(class) {
            Some(letter) => Piece::Text(letter.to_string()),
            None if is_between_words(class) => Piece::Edge,
            None => Piece::Gap,
        }),
        HirKind::Look(look) => match look {
            Look::WordStartHalfAscii
            | Look::WordEndHalfAscii
            | Look::WordStartHalfUnicode
            | Look::WordEndHalfUnicode
            | Look::WordAsciiNegate
            | Look::WordUnicodeNegate => {}
            // `_` is a letter to an expression and a separator to the index: a boundary either way.
            _ => pieces.push(Piece::Edge),
        },
        HirKind::Repetition(repetition) => {
            pieces.push(Piece::Gap);
            if repetition.min > 0 {
                pieces.push(Piece::Known(need(&repetition.sub)));
                pieces.push(Piece::Gap);
            }
        }
        HirKind::Capture(capture) => walk(&capture.sub, pieces),
        HirKind::Concat(parts) => parts.iter().for_each(|part| walk(part, pieces)),
        HirKind::Alternation(parts) => {
            let needs: Vec<Need> = parts.iter().map(need).collect();
            pieces.push(Piece::Gap);
            if needs.len() <= ALTERNATIVES && !needs.contains(&Need::Nothing) {
                pieces.push(Piece::Known(Need::Any(needs)));
                pieces.push(Piece::Gap);
            }
        }
    }
}

/// Returns the letter a class stands for if its members differ in case only.
fn one_letter(class: &regex_syntax::hir::Class) -> Option<char> {
    let regex_syntax::hir::Class::Unicode(class) = class else { return None };
    let mut letters = class.iter().flat_map(|range| range.start()..=range.end());
    let members: Vec<char> = letters.by_ref().take(5).collect();
    let plain = |letter: &char| letter.to_lowercase().next().unwrap_or(*letter);
    let ascii = members.iter().find(|letter| letter.is_ascii())?.to_ascii_lowercase();
    // The long s and the Kelvin sign are case variants of ASCII letters, too.
    let same = |letter: &char| plain(letter) == ascii || matches!(letter, 'ſ' | 'K');
    (members.len() <= 4 && members.iter().all(same)).then_some(ascii)
}

/// Returns whether no member of a class is part of a word.
fn is_between_words(class: &regex_syntax::hir::Class) -> bool {
    let regex_syntax::hir::Class::Unicode(class) = class else { return false };
    let total: u32 = class.iter().map(|range| range.end() as u32 - range.start() as u32 + 1).sum();
    total <= 64
        && class
            .iter()
            .flat_map(|range| range.start()..=range.end())
            .all(|one| !one.is_alphanumeric())
}

/// Adds the words that a literal text requires. A word at an open end may continue beyond the text.
fn words_of(text: &str, starts_free: bool, ends_free: bool, all: &mut Vec<Need>) {
    let is_word = |one: char| one.is_alphanumeric();
    let from = if starts_free { text.find(|one| !is_word(one)).unwrap_or(text.len()) } else { 0 };
    let to = if ends_free {
        text.rfind(|one| !is_word(one))
            .map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8))
    } else {
        text.len()
    };
    if from < to {
        let inner = text[from..to].trim_matches(|one| !is_word(one));
        if !inner.is_empty() {
            all.push(Need::Words(inner.to_owned()));
        }
    }
    let (head, tail) = if from < to { (&text[..from], &text[to..]) } else { (text, "") };
    for part in [head, tail] {
        if part.len() >= SHORTEST && part.chars().all(|one| one.is_ascii_alphanumeric()) {
            all.push(Need::Part(part.to_ascii_lowercase()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, flags: &str, expected: &str) {
        assert_eq!(Regex::new(source, flags).unwrap().need.to_string(), expected, "{source}");
    }

    #[test]
    fn the_words_of_an_expression_follow_from_it() {
        check("login", "", "*login*");
        check(r"\blogin\b", "", "\"login\"");
        check(r"login test is", "", "\"test\" *login*");
        check(r"fn wait_for_(\w+)\(", "", "\"wait_for\"");
        check(r"error\[E0\d+\]", "", "*error*");
        check("(foo|barn)d+", "", "(*foo* OR *barn*)");
        check("(foo|b)", "", "anything");
        check("Cargo.lock", "i", "*cargo* *lock*");
        check("x?y*", "", "anything");
        check("(abc)+", "", "*abc*");
        check(r"a\.rs:\d+", "", "\"rs\"");
        check(".*", "", "anything");
    }

    #[test]
    fn a_mistake_is_one_line() {
        for mistake in ["(", "a{2", "[z-a]", r"\p{Nope}", "*"] {
            let reason = Regex::new(mistake, "").unwrap_err();
            assert!(!reason.is_empty() && !reason.contains('\n'), "{mistake}: {reason}");
        }
    }
}
