//! Cuts the part of a text that shows why it was found.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde::Serialize;

use super::Regex;
use super::engine::parts_of;
use super::query::{Clause, Pattern};
use crate::escape;
use crate::index::each_token;

/// The length of a snippet in bytes.
pub(super) const SNIPPET: usize = 200;

/// The number of bytes at the start of a text that are split into words.
const LOOK: usize = 256 << 10;

/// The maximum number of occurrences to check beyond that.
const FARTHER_PLACES: usize = 64;

/// The maximum number of matches of an expression to check.
const MOST_PLACES: usize = 500;

/// An excerpt of a text with the positions of the found words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Snippet {
    /// The excerpt, in one line.
    pub text: String,
    /// The byte ranges of the found words.
    pub highlights: Vec<Range<usize>>,
}

/// The terms to highlight: words, prefixes, phrases and expressions. Each has the number of its
/// pattern: several forms of one word share a number.
#[derive(Clone, Debug, Default)]
pub(super) struct QueryMarks<'q> {
    words: HashMap<String, usize>,
    prefixes: Vec<(String, usize)>,
    phrases: Vec<(Vec<String>, usize)>,
    regexes: Vec<&'q Regex>,
    /// The number of terms.
    count: usize,
}

/// A highlighted byte range of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TextMark {
    from: usize,
    to: usize,
    /// The number of the term that it matches.
    number: usize,
}

impl<'q> QueryMarks<'q> {
    /// Collects the terms of clauses.
    pub(super) fn of(clauses: &'q [Clause]) -> Self {
        let mut marks = Self::default();
        for clause in clauses {
            clause.each(&mut |pattern| marks.add(pattern));
        }
        marks
    }

    fn add(&mut self, pattern: &'q Pattern) {
        let number = self.count;
        self.count += 1;
        match pattern {
            Pattern::Word(text) | Pattern::Phrase(text) => self.add_words(parts_of(text), number),
            Pattern::OneOf { readings, .. } => {
                for reading in readings {
                    self.add_words(parts_of(reading), number);
                }
            }
            Pattern::Prefix(text) => {
                let mut parts = parts_of(text);
                self.prefixes.extend(parts.pop().map(|beginning| (beginning, number)));
                self.add_each(parts);
            }
            Pattern::Regex(regex) => self.regexes.push(regex),
            Pattern::Any(_) => {}
        }
    }

    fn add_words(&mut self, mut parts: Vec<String>, number: usize) {
        match parts.len() {
            0 => {}
            1 => drop(self.words.insert(parts.remove(0), number)),
            _ => self.phrases.push((parts, number)),
        }
    }

    /// Adds words, each as a term of its own.
    fn add_each(&mut self, words: Vec<String>) {
        for word in words {
            self.words.entry(word).or_insert(self.count);
            self.count += 1;
        }
    }

    fn number_of(&self, word: &str) -> Option<usize> {
        let prefix = || self.prefixes.iter().find(|(prefix, _)| word.starts_with(prefix));
        self.words.get(word).copied().or_else(|| prefix().map(|(_, number)| *number))
    }

    /// Returns the number of distinct terms that an excerpt can show at most.
    fn most(&self) -> usize {
        let words = self.words.values().chain(self.phrases.iter().map(|(_, number)| number));
        let numbers = words.chain(self.prefixes.iter().map(|(_, number)| number));
        numbers.collect::<HashSet<_>>().len() + self.regexes.len()
    }

    /// Returns whether the last excerpt-sized part of the text contains all terms.
    fn are_all_in(&self, found: &[TextMark], end: usize, length: usize) -> bool {
        let last = found.iter().rev().take_while(|mark| mark.from + length * 3 / 4 >= end);
        self.regexes.is_empty()
            && self.prefixes.is_empty()
            && last.map(|mark| mark.number).collect::<HashSet<_>>().len() == self.most()
    }

    /// Returns the highlights of a text, in order, up to the point after which no better excerpt of
    /// this length can follow. A phrase that does not occur is highlighted word by word.
    fn in_text(&self, text: &str, length: usize) -> Vec<TextMark> {
        let found = self.scan(text, length);
        let is_missing =
            |(_, number): &&(Vec<String>, usize)| found.iter().all(|mark| mark.number != *number);
        let missing: Vec<_> = self.phrases.iter().filter(is_missing).cloned().collect();
        if missing.is_empty() {
            return found;
        }
        let mut apart = self.clone();
        apart.phrases.retain(|phrase| !missing.contains(phrase));
        for (words, _) in missing {
            apart.add_each(words);
        }
        apart.scan(text, length)
    }

    fn scan(&self, text: &str, length: usize) -> Vec<TextMark> {
        let mut found: Vec<TextMark> = Vec::new();
        let mut enough = usize::MAX;
        // Phrases that have begun: which, where, and how many of their words matched.
        let mut begun: Vec<(usize, usize, usize)> = Vec::new();
        each_token(text, &mut |word, is_whole| {
            let known = found.len();
            if let Some(number) = self.number_of(&word.text) {
                put(&mut found, TextMark { from: word.from, to: word.to, number });
            }
            if !is_whole && !self.phrases.is_empty() {
                begun.extend((0..self.phrases.len()).map(|phrase| (phrase, word.from, 0)));
                begun.retain_mut(|(phrase, from, matched)| {
                    let (words, number) = &self.phrases[*phrase];
                    let fits = words[*matched] == word.text;
                    *matched += 1;
                    if fits && *matched == words.len() {
                        put(&mut found, TextMark { from: *from, to: word.to, number: *number });
                        return false;
                    }
                    fits
                });
            }
            // A part with all terms cannot be improved.
            if found.len() != known && enough == usize::MAX {
                let end = found.last().map_or(0, |mark| mark.to);
                if self.are_all_in(&found, end, length) {
                    enough = word.from + length;
                }
            }
            word.from < enough
        });
        for (at, regex) in self.regexes.iter().enumerate() {
            for range in regex.places(text).take(MOST_PLACES) {
                found.retain(|mark| mark.to <= range.start || mark.from >= range.end);
                let number = self.count + at;
                found.push(TextMark { from: range.start, to: range.end, number });
            }
        }
        if !self.regexes.is_empty() {
            found.sort_by_key(|mark| mark.from);
        }
        found
    }

    /// Finds the best excerpt beyond the beginning of a long text: around occurrences of the
    /// longest word, which are found without splitting everything into words.
    fn farther(&self, text: &str, from: usize, length: usize) -> Vec<TextMark> {
        let from = text.floor_char_boundary(from.saturating_sub(length));
        let mut best: Vec<TextMark> = Vec::new();
        for place in self.places_of_longest(&text[from..]) {
            let start = text.floor_char_boundary((from + place).saturating_sub(length));
            let end = text.ceil_char_boundary((from + place + 2 * length).min(text.len()));
            let found = self.in_text(&text[start..end], length);
            let window = best_window(&found, length);
            if different(window) > different(&best) {
                let shift = |mark: &TextMark| TextMark {
                    from: mark.from + start,
                    to: mark.to + start,
                    ..*mark
                };
                best = window.iter().map(shift).collect();
            }
            if different(&best) == self.most() {
                break;
            }
        }
        best
    }

    /// Returns some offsets of the longest word to highlight, in any case; those of an expression,
    /// if there is one.
    fn places_of_longest(&self, text: &str) -> Vec<usize> {
        if let Some(regex) = self.regexes.first() {
            return regex.places(text).take(FARTHER_PLACES).map(|range| range.start).collect();
        }
        let words = self.words.keys().chain(self.prefixes.iter().map(|(prefix, _)| prefix));
        let words = words.chain(self.phrases.iter().flat_map(|(words, _)| words));
        let Some(longest) = words.max_by_key(|word| word.len()) else { return Vec::new() };
        let mut pattern = regex::bytes::RegexBuilder::new(&regex::escape(longest));
        let Ok(pattern) = pattern.case_insensitive(true).unicode(false).build() else {
            return Vec::new();
        };
        let places = pattern.find_iter(text.as_bytes()).map(|place| place.start());
        places.take(FARTHER_PLACES).collect()
    }
}

/// Adds a highlight. A complete name replaces its parts, whichever comes first.
fn put(found: &mut Vec<TextMark>, mark: TextMark) {
    let is_part = |last: &TextMark| mark.to <= last.to && mark.from >= last.from;
    if found.last().is_some_and(is_part) {
        return;
    }
    while found.last().is_some_and(|last| last.from >= mark.from) {
        found.pop();
    }
    found.push(mark);
}

/// Counts the distinct terms of highlights.
fn different(marks: &[TextMark]) -> usize {
    marks.iter().map(|mark| mark.number).collect::<HashSet<_>>().len()
}

/// Cuts the excerpt of about `length` bytes that shows the most distinct terms.
pub(super) fn snippet(text: &str, marks: &QueryMarks<'_>, length: usize) -> Snippet {
    let near = text.floor_char_boundary(LOOK);
    let found = marks.in_text(&text[..near], length);
    let mut window = best_window(&found, length).to_vec();
    if near < text.len() && different(&window) < marks.most() {
        let farther = marks.farther(text, near, length);
        if different(&farther) > different(&window) {
            window = farther;
        }
    }
    let start = window.first().map_or(0, |mark| mark.from.saturating_sub(length / 4));
    let start = word_start(text, start);
    // A phrase is shown to its end, up to twice the length.
    let least = window.first().map_or(0, |mark| mark.to).min(start + 2 * length);
    let end = word_end(text, (start + length).max(least)).max(least);
    let highlights = window.iter().filter(|mark| mark.from >= start && mark.to <= end);
    one_line(text, start..end, &highlights.map(|mark| mark.from..mark.to).collect::<Vec<_>>())
}

/// Cuts the beginning of a text.
pub(super) fn beginning(text: &str) -> Snippet {
    snippet(text, &QueryMarks::default(), SNIPPET)
}

/// Returns the run of highlights that fits the length and has the most distinct terms; the earliest
/// of equal ones.
fn best_window(found: &[TextMark], length: usize) -> &[TextMark] {
    let mut best: &[TextMark] = &[];
    let mut most = 0;
    for (from, first) in found.iter().enumerate().take(2000) {
        let fitting = found[from..].partition_point(|mark| mark.to <= first.from + length * 3 / 4);
        let window = &found[from..from + fitting.max(1)];
        let count = different(window);
        if count > most {
            (best, most) = (window, count);
        }
    }
    best
}

fn word_start(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    if at == 0 {
        return 0;
    }
    text[at..].find(char::is_whitespace).filter(|skip| *skip < 40).map_or(at, |skip| at + skip)
}

fn word_end(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    let at = text.floor_char_boundary(at);
    text[..at].rfind(char::is_whitespace).filter(|end| at - end < 40).unwrap_or(at)
}

/// Writes an excerpt in one line: white space becomes single spaces, cuts become `…`, terminal
/// escape sequences are removed.
fn one_line(text: &str, piece: Range<usize>, found: &[Range<usize>]) -> Snippet {
    let mut snippet = Snippet::default();
    if piece.start > 0 {
        snippet.text.push('…');
    }
    let mut next = found.iter().peekable();
    let mut space = false;
    let mut escaped = 0;
    for (offset, character) in text[piece.clone()].char_indices() {
        let at = piece.start + offset;
        escaped = escaped.max(at + escape::escape_sequence_length(&text.as_bytes()[at..piece.end]));
        if at < escaped {
            // An escape sequence is invisible, and may still end a highlight.
        } else if character.is_whitespace() || character.is_control() {
            space = true;
        } else {
            if space && !snippet.text.is_empty() {
                snippet.text.push(' ');
            }
            space = false;
            if next.peek().is_some_and(|range| range.start == at) {
                let begin = snippet.text.len();
                snippet.highlights.push(begin..begin);
            }
            snippet.text.push(character);
        }
        if next.peek().is_some_and(|range| range.end == at + character.len_utf8()) {
            if let Some(open) = snippet.highlights.last_mut() {
                open.end = snippet.text.len();
            }
            next.next();
        }
    }
    if piece.end < text.len() {
        snippet.text.push('…');
    }
    snippet
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, query: &str, length: usize, expected: &str) {
        let now = "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap();
        let query = super::super::Query::parse(query, &now).unwrap();
        let found = snippet(text, &QueryMarks::of(&query.clauses), length);
        let mut shown = found.text.clone();
        for range in found.highlights.iter().rev() {
            shown.insert(range.end, ']');
            shown.insert(range.start, '[');
        }
        assert_eq!(shown, expected);
    }

    #[test]
    fn found_words_are_marked_in_one_line() {
        check("the Login\n  test is flaky", "login flaky", 100, "the [Login] test is [flaky]");
        check("tokenizer and tokens", "token*", 100, "[tokenizer] and [tokens]");
        check("waitForSession()", "session", 100, "waitFor[Session]()");
        check("waitForSession(session)", "waitforsession", 100, "[waitForSession](session)");
        check("waitForSession()", "wait* session", 100, "[waitForSession]()");
    }

    #[test]
    fn colours_are_left_out_and_what_they_colour_is_marked() {
        check("\x1b[1mthe \x1b[31mquokka\x1b[0m\nruns", "quokka", 100, "the [quokka] runs");
    }

    #[test]
    fn the_piece_with_most_different_words_is_shown() {
        let text = format!("one {} one two {}", "x ".repeat(200), "y ".repeat(200));
        check(&text, "one two", 40, "… x x x x [one] [two] y y y y y y y y y y y…");
    }

    #[test]
    fn a_phrase_is_shown_as_a_whole_and_where_it_stands() {
        let text = format!("error: try {} error: could not compile it", "x ".repeat(200));
        let shown = "… x x x x x [error: could not compile] it";
        check(&text, r#""error: could not compile""#, 48, shown);
        // Without the phrase, its words are highlighted.
        check("an error, could be", r#""error could not""#, 48, "an [error], [could] be");
        check("wait_for_session(1)", "wait_for_session", 48, "[wait_for_session](1)");
        check("one two three four", r#""one two three""#, 8, "[one two three]…");
    }

    #[test]
    fn a_place_far_into_a_long_text_is_shown() {
        let text = format!("first {} the Last quokka line", "filler words\n".repeat(60_000));
        check(&text, "quokka last", 40, "… the [Last] [quokka] line");
        check(&text, "/qu[a-z]+ka/ last", 40, "… the [Last] [quokka] line");
    }

    #[test]
    fn a_text_without_the_words_shows_its_beginning() {
        check("nothing here to see", "absent", 10, "nothing…");
        check("", "absent", 10, "");
    }
}
