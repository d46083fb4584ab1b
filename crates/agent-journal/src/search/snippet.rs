//! The part of a text that shows why it was found.

use std::collections::HashSet;
use std::ops::Range;

use serde::Serialize;

use super::Regex;
use crate::escape;
use crate::index::{Word, each_token};

/// Longer texts are looked through only so far.
const LOOK: usize = 256 << 10;

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

/// What to mark: words, and beginnings of words.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks<'q> {
    pub(super) words: HashSet<String>,
    pub(super) prefixes: Vec<String>,
    pub(super) regexes: Vec<&'q Regex>,
}

impl Marks<'_> {
    fn fits(&self, word: &str) -> bool {
        self.words.contains(word) || self.prefixes.iter().any(|prefix| word.starts_with(prefix))
    }

    /// Whether every word stands in the last piece of a text.
    fn are_all_in(&self, found: &[Word], end: usize, length: usize) -> bool {
        let last = found.iter().rev().take_while(|word| word.from + length * 3 / 4 >= end);
        let different: HashSet<&str> = last.map(|word| word.text.as_str()).collect();
        self.regexes.is_empty() && self.prefixes.is_empty() && different.len() == self.words.len()
    }

    /// What is marked in a text, in order; as far as there may be a better piece of a length.
    fn in_text(&self, text: &str, length: usize) -> Vec<Word> {
        let mut found: Vec<Word> = Vec::new();
        let mut enough = usize::MAX;
        each_token(text, &mut |word, _| {
            // A whole name stands for its parts, whichever is told first.
            let is_part = found.last().is_some_and(|last| word.to <= last.to);
            if self.fits(&word.text) && !is_part {
                while found.last().is_some_and(|last| last.from >= word.from) {
                    found.pop();
                }
                found.push(word.clone());
                // Where all words stand together there is no better piece to come.
                if enough == usize::MAX && self.are_all_in(&found, word.to, length) {
                    enough = word.from + length;
                }
            }
            word.from < enough
        });
        for regex in &self.regexes {
            for range in regex.places(text).take(MOST_PLACES) {
                found.retain(|word| word.to <= range.start || word.from >= range.end);
                let (text, position) = (regex.to_string(), 0);
                found.push(Word { text, from: range.start, to: range.end, position });
            }
        }
        if !self.regexes.is_empty() {
            found.sort_by_key(|word| word.from);
        }
        found
    }
}

/// Cuts the piece of at most `length` bytes in which most different marked words stand.
pub(super) fn snippet(text: &str, marks: &Marks<'_>, length: usize) -> Snippet {
    let text = &text[..text.floor_char_boundary(LOOK)];
    let found = marks.in_text(text, length);
    let window = best_window(&found, length);
    let start = window.first().map_or(0, |word| word.from.saturating_sub(length / 4));
    let start = word_start(text, start);
    let end = word_end(text, start + length);
    let highlights = window.iter().filter(|word| word.from >= start && word.to <= end);
    one_line(text, start..end, &highlights.map(|word| word.from..word.to).collect::<Vec<_>>())
}

/// The run of found words that fits the length and has most different ones, the earliest of those.
fn best_window(found: &[Word], length: usize) -> &[Word] {
    let mut best: &[Word] = &[];
    let mut most = 0;
    for (from, first) in found.iter().enumerate().take(2000) {
        let to =
            from + found[from..].partition_point(|word| word.to <= first.from + length * 3 / 4);
        let different = found[from..to].iter().map(|word| &word.text).collect::<HashSet<_>>().len();
        if different > most {
            (best, most) = (&found[from..to], different);
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

    fn check(text: &str, marked: &str, length: usize, expected: &str) {
        let marks = Marks {
            words: marked
                .split(' ')
                .filter(|word| !word.ends_with('*'))
                .map(str::to_owned)
                .collect(),
            prefixes: marked
                .split(' ')
                .filter_map(|word| word.strip_suffix('*'))
                .map(str::to_owned)
                .collect(),
            regexes: Vec::new(),
        };
        let found = snippet(text, &marks, length);
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
    fn a_text_without_the_words_shows_its_beginning() {
        check("nothing here to see", "absent", 10, "nothing…");
        check("", "absent", 10, "");
    }
}
