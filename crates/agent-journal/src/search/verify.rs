//! Matches clauses against the text of a message, for conditions that the index cannot check.

use std::cell::OnceCell;
use std::collections::HashSet;

use super::query::{Clause, Pattern};
use crate::index::{Word, each_word, whole_words, words};

/// A text that is split into words at most once, when they are needed.
pub(super) struct CheckedText<'t> {
    whole: &'t str,
    words: OnceCell<(Vec<Word>, HashSet<String>)>,
}

impl<'t> CheckedText<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { whole: text, words: OnceCell::new() }
    }

    /// Returns whether all clauses hold.
    pub(super) fn fits(&self, clauses: &[Clause]) -> bool {
        let (regexes, others): (Vec<&Clause>, Vec<&Clause>) =
            clauses.iter().partition(|clause| matches!(clause.pattern, Pattern::Regex(_)));
        // An expression needs no words and rules out most texts.
        regexes.into_iter().chain(others).all(|it| self.has(&it.pattern) != it.negated)
    }

    fn has(&self, pattern: &Pattern) -> bool {
        match pattern {
            Pattern::Word(text) | Pattern::Phrase(text) => {
                let parts: Vec<Word> = words(text);
                let parts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
                self.has_sequence(&parts, str::eq)
            }
            Pattern::Prefix(text) => {
                let parts: Vec<Word> = words(text);
                let parts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
                self.has_sequence(&parts, |word, part| word.starts_with(part))
            }
            Pattern::Regex(regex) => regex.fits(self.whole),
            Pattern::OneOf { readings, .. } => {
                readings.iter().any(|word| self.has(&Pattern::Word(word.clone())))
            }
            Pattern::Any(alternatives) => alternatives.iter().any(|clauses| self.fits(clauses)),
        }
    }

    /// Returns whether words are adjacent; `fits` compares the last one.
    fn has_sequence(&self, parts: &[&str], fits: fn(&str, &str) -> bool) -> bool {
        // A pattern without words requires nothing.
        let Some((last, before)) = parts.split_last() else { return true };
        let (words, wholes) =
            self.words.get_or_init(|| (words(self.whole), whole_words(self.whole)));
        if before.is_empty() && wholes.iter().any(|word| fits(word, last)) {
            return true;
        }
        words.windows(parts.len()).any(|run| {
            fits(&run[before.len()].text, last)
                && run.iter().zip(before).all(|(word, part)| word.text == *part)
        })
    }
}

/// Returns whether a text contains adjacent words.
pub(super) fn has_phrase(text: &str, phrase: &[String]) -> bool {
    // The number of matched words for every position at which the phrase may have begun.
    let mut begun: Vec<usize> = Vec::new();
    let mut is_there = false;
    each_word(text, &mut |word| {
        begun.push(0);
        begun.retain_mut(|matched| {
            let fits = phrase.get(*matched).is_some_and(|wanted| *wanted == word.text);
            *matched += 1;
            is_there |= fits && *matched == phrase.len();
            fits
        });
        !is_there
    });
    is_there
}

#[cfg(test)]
mod tests {
    use super::super::Query;
    use super::*;

    #[test]
    fn a_phrase_is_found_wherever_it_begins() {
        let check = |text: &str, phrase: &str, expected: bool| {
            let phrase: Vec<String> = phrase.split(' ').map(str::to_owned).collect();
            assert_eq!(has_phrase(text, &phrase), expected, "{text}: {phrase:?}");
        };
        check("to be or to be not", "to be not", true);
        check("to to be", "to be", true);
        check("waitForSession race", "for session race", true);
        check("to be, not", "be to", false);
        check("to", "to be", false);
    }

    #[test]
    fn a_text_fits_what_is_asked_for() {
        let now = "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap();
        let check = |query: &str, expected: bool| {
            let text = CheckedText::new("The waitForSession race: error[E0382] in parse_query");
            let query = Query::parse(query, &now).unwrap();
            assert_eq!(text.fits(&query.clauses), expected, "{}", query.text);
        };
        check("race", true);
        check("wait_for_session", true);
        check("waitforsession", true);
        check("\"session race\" sess*", true);
        check("\"race session\"", false);
        check(r"/E\d{4}/", true);
        check(r"/e\d{4}/", false);
        check(r"/e\d{4}/i -/E9/", true);
        check("nothing OR race", true);
        check("-(race error)", false);
        check("-(race nothing)", true);
    }
}
