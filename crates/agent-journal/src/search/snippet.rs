//! The part of a text that shows why it was found.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde::Serialize;

use super::Regex;
use super::engine::parts_of;
use super::query::{Clause, Pattern};
use crate::escape;
use crate::index::each_token;

/// Length of a snippet in bytes.
pub(super) const SNIPPET: usize = 200;

/// Of longer texts only so much is cut into words.
const LOOK: usize = 256 << 10;

/// Places beyond that which are looked at.
const FARTHER_PLACES: usize = 64;

/// Places where an expression fits that are looked at.
const MOST_PLACES: usize = 500;

/// A piece of text with the words that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Snippet {
    /// The piece, in one line.
    pub text: String,
    /// Where the found words stand in it, in bytes.
    pub highlights: Vec<Range<usize>>,
}

/// What to mark: words, beginnings of words, words next to each other, expressions. Each stands for
/// a number of what was asked for: several forms of one word have the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks<'q> {
    words: HashMap<String, usize>,
    prefixes: Vec<(String, usize)>,
    phrases: Vec<(Vec<String>, usize)>,
    regexes: Vec<&'q Regex>,
    /// How many things were asked for.
    count: usize,
}

/// A marked piece of a text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    from: usize,
    to: usize,
    /// What it stands for.
    number: usize,
}

impl<'q> Marks<'q> {
    /// Collects what clauses ask for.
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

    /// Adds words that each stand for themselves.
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

    /// How many things a piece of text could show at most.
    fn most(&self) -> usize {
        let words = self.words.values().chain(self.phrases.iter().map(|(_, number)| number));
        let numbers = words.chain(self.prefixes.iter().map(|(_, number)| number));
        numbers.collect::<HashSet<_>>().len() + self.regexes.len()
    }

    /// Whether everything stands in the last piece of a text.
    fn are_all_in(&self, found: &[Mark], end: usize, length: usize) -> bool {
        let last = found.iter().rev().take_while(|mark| mark.from + length * 3 / 4 >= end);
        self.regexes.is_empty()
            && self.prefixes.is_empty()
            && last.map(|mark| mark.number).collect::<HashSet<_>>().len() == self.most()
    }

    /// What is marked in a text, in order; as far as there may be a better piece of a length. A
    /// phrase that stands nowhere in it is marked word by word.
    fn in_text(&self, text: &str, length: usize) -> Vec<Mark> {
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

    fn scan(&self, text: &str, length: usize) -> Vec<Mark> {
        let mut found: Vec<Mark> = Vec::new();
        let mut enough = usize::MAX;
        // Phrases that have begun: which, where, and how many of their words stand there.
        let mut begun: Vec<(usize, usize, usize)> = Vec::new();
        each_token(text, &mut |word, is_whole| {
            let known = found.len();
            if let Some(number) = self.number_of(&word.text) {
                put(&mut found, Mark { from: word.from, to: word.to, number });
            }
            if !is_whole && !self.phrases.is_empty() {
                begun.extend((0..self.phrases.len()).map(|phrase| (phrase, word.from, 0)));
                begun.retain_mut(|(phrase, from, matched)| {
                    let (words, number) = &self.phrases[*phrase];
                    let fits = words[*matched] == word.text;
                    *matched += 1;
                    if fits && *matched == words.len() {
                        put(&mut found, Mark { from: *from, to: word.to, number: *number });
                        return false;
                    }
                    fits
                });
            }
            // Where everything stands together there is no better piece to come.
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
                found.push(Mark { from: range.start, to: range.end, number });
            }
        }
        if !self.regexes.is_empty() {
            found.sort_by_key(|mark| mark.from);
        }
        found
    }

    /// Finds the best piece beyond the beginning of a long text: around the places of the longest
    /// word, which are found without cutting everything into words.
    fn farther(&self, text: &str, from: usize, length: usize) -> Vec<Mark> {
        let from = text.floor_char_boundary(from.saturating_sub(length));
        let mut best: Vec<Mark> = Vec::new();
        for place in self.places_of_longest(&text[from..]) {
            let start = text.floor_char_boundary((from + place).saturating_sub(length));
            let end = text.ceil_char_boundary((from + place + 2 * length).min(text.len()));
            let found = self.in_text(&text[start..end], length);
            let window = best_window(&found, length);
            if different(window) > different(&best) {
                let shift =
                    |mark: &Mark| Mark { from: mark.from + start, to: mark.to + start, ..*mark };
                best = window.iter().map(shift).collect();
            }
            if different(&best) == self.most() {
                break;
            }
        }
        best
    }

    /// Some of the places where the longest word to mark may stand, whatever its case; those of an
    /// expression, if there is one.
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

/// Adds a mark; a whole name stands for its parts, whichever comes first.
fn put(found: &mut Vec<Mark>, mark: Mark) {
    let is_part = |last: &Mark| mark.to <= last.to && mark.from >= last.from;
    if found.last().is_some_and(is_part) {
        return;
    }
    while found.last().is_some_and(|last| last.from >= mark.from) {
        found.pop();
    }
    found.push(mark);
}

/// Counts the different things that marks stand for.
fn different(marks: &[Mark]) -> usize {
    marks.iter().map(|mark| mark.number).collect::<HashSet<_>>().len()
}

/// Cuts the piece of at most `length` bytes in which most different marks stand.
pub(super) fn snippet(text: &str, marks: &Marks<'_>, length: usize) -> Snippet {
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
    snippet(text, &Marks::default(), SNIPPET)
}

/// The run of marks that fits the length and has most different ones, the earliest of those.
fn best_window(found: &[Mark], length: usize) -> &[Mark] {
    let mut best: &[Mark] = &[];
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

/// Writes a piece in one line: white space becomes single spaces, cuts become `…`, what steers a
/// terminal is left out.
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
        escaped = escaped.max(at + escape::length(&text.as_bytes()[at..piece.end]));
        if at < escaped {
            // It is not seen, and may still end what was found.
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
        let found = snippet(text, &Marks::of(&query.clauses), length);
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
        // Where it does not stand, its words are marked.
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
