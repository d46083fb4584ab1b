//! Finds sentences that state a decision and its reason, by typical phrases.

use super::Cited;

/// Phrases that indicate a decision, with their weights.
const SIGNS: &[(&str, u32)] = &[
    ("decided", 3),
    ("decision", 3),
    ("root cause", 3),
    ("instead of", 2),
    ("rather than", 2),
    ("going with", 2),
    ("we go with", 2),
    ("let's go with", 2),
    ("opted for", 2),
    ("chose ", 2),
    ("agreed", 2),
    ("trade-off", 2),
    ("the cause is", 2),
    ("causes: ", 2),
    ("caused by", 2),
    ("the fix is", 2),
    ("turned out", 1),
    ("because", 1),
    ("must not", 1),
    ("we'll use", 1),
    ("we will use", 1),
    ("i'll use", 1),
    ("let's use", 1),
];

/// Beginnings of a user's correction.
const CORRECTIONS: &[&str] =
    &["no,", "no ", "don't ", "do not ", "instead", "actually", "use ", "please use", "never "];

/// The minimum and maximum length of a sentence in characters.
const LENGTH: (usize, usize) = (20, 400);

/// The maximum number of sentences kept.
const MOST: usize = 60;

/// The maximum number of sentences kept per message.
const PER_MESSAGE: usize = 2;

/// The sentences found so far, each with its weight.
#[derive(Default)]
pub(super) struct Decisions(Vec<(u32, Cited)>);

impl Decisions {
    /// Scans a prompt for a correction.
    pub(super) fn scan_prompt(&mut self, number: u64, text: &str) {
        let first = sentences_without_code(text).next();
        let correction = first.filter(|sentence| {
            let sentence = sentence.to_lowercase();
            CORRECTIONS.iter().any(|begin| sentence.starts_with(begin))
        });
        self.keep_best(number, correction.map(|sentence| (2, sentence)).into_iter().collect());
    }

    /// Scans a reply for decisions.
    pub(super) fn scan_reply(&mut self, number: u64, text: &str) {
        let found =
            sentences_without_code(text).map(|sentence| (sentence_weight(sentence), sentence));
        self.keep_best(number, found.filter(|(weight, _)| *weight > 0).collect());
    }

    fn keep_best(&mut self, number: u64, mut found: Vec<(u32, &str)>) {
        found.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        for (weight, sentence) in found.into_iter().take(PER_MESSAGE) {
            self.0.push((weight, Cited { message: number, text: sentence.to_owned() }));
        }
    }

    /// Returns the sentences with the highest weight first; of equal ones the later, which may
    /// correct the earlier.
    pub(super) fn into_cited(mut self) -> Vec<Cited> {
        self.0.sort_by_key(|(weight, cited)| std::cmp::Reverse((*weight, cited.message)));
        self.0.into_iter().take(MOST).map(|(_, cited)| cited).collect()
    }
}

fn sentence_weight(sentence: &str) -> u32 {
    let sentence = sentence.to_lowercase();
    SIGNS.iter().filter(|(sign, _)| sentence.contains(sign)).map(|(_, weight)| weight).sum()
}

/// Returns the sentences of a text without code.
fn sentences_without_code(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    let prose = text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !line.trim_start().starts_with(['|', '#'])
    });
    let pieces = prose.flat_map(|line| line.split_inclusive(". "));
    pieces
        .map(|piece| piece.trim().trim_start_matches(['-', '*', '>', ' ']))
        .filter(|piece| (LENGTH.0..=LENGTH.1).contains(&piece.chars().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_told_by_their_words_the_weightiest_first() {
        let mut decisions = Decisions::default();
        decisions
            .scan_reply(2, "I looked around. It is slow because the index is rebuilt each time.");
        decisions.scan_reply(4, "We decided on SQLite instead of a file per session.\n```\ndecided = 1 instead of 2\n```");
        decisions.scan_prompt(5, "no, use the standard library for that");
        let texts: Vec<String> = decisions
            .into_cited()
            .into_iter()
            .map(|cited| format!("{} {}", cited.message, cited.text))
            .collect();
        assert_eq!(
            texts,
            [
                "4 We decided on SQLite instead of a file per session.",
                "5 no, use the standard library for that",
                "2 It is slow because the index is rebuilt each time.",
            ]
        );
    }
}
