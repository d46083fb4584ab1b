//! Replaces words that are not in the index by the nearest ones that are.

use super::engine::{QueryCompiler, deciding, parts_of};
use super::query::{Clause, Pattern};

/// The minimum length of a word to correct: a shorter one is similar to too many others.
const SHORTEST: usize = 4;

/// The minimum length of a word for which two edits are allowed.
const LONG: usize = 8;

/// The maximum number of replacements for a mistyped word.
const READINGS: usize = 3;

/// Clauses with replacements for words that are not in the index, and the list of mistyped words. A
/// word that occurs in another form is not mistyped.
pub(super) type Corrected = (Vec<Clause>, Vec<(String, String)>);

impl QueryCompiler<'_> {
    /// Replaces words that are not in the index by other forms, or by the nearest words.
    pub(super) fn corrected(&self, clauses: &[Clause]) -> tantivy::Result<Corrected> {
        let mut clauses = deciding(clauses);
        let mut corrections = Vec::new();
        for clause in &mut clauses {
            let Pattern::Word(typed) = &clause.pattern else { continue };
            let parts = parts_of(typed);
            let [word] = parts.as_slice() else { continue };
            if clause.negated || !may_be_mistyped(word) || self.frequency(word)? > 0 {
                continue;
            }
            let typed = typed.clone();
            let mut readings = self.other_forms(word)?;
            if readings.is_empty() {
                readings = self.nearest(word)?;
                if readings.is_empty() {
                    continue;
                }
                corrections.push((typed.clone(), readings.join(" or ")));
            }
            clause.pattern = Pattern::OneOf { typed, readings };
        }
        Ok((clauses, corrections))
    }

    /// Returns the nearest words, and of those the most frequent.
    fn nearest(&self, word: &str) -> tantivy::Result<Vec<String>> {
        let most = if word.chars().count() >= LONG { 2 } else { 1 };
        let length = word.len();
        let distance = |other: &str| strsim::damerau_levenshtein(word, other);
        let fits = |other: &str| other.len().abs_diff(length) <= most && distance(other) <= most;
        let mut found = Vec::new();
        // The first letter is rarely wrong; the first two may be swapped.
        let mut beginnings: Vec<String> = word.chars().take(2).map(String::from).collect();
        beginnings.dedup();
        for beginning in &beginnings {
            let known = self.words_that(Some(beginning), &fits)?;
            found.extend(known.into_iter().map(|word| word.text));
        }
        // A stable sort: equally near words stay in the order of frequency.
        found.sort_by_key(|other| distance(other));
        let nearest = found.first().map_or(0, |other| distance(other));
        found.retain(|other| distance(other) == nearest);
        found.truncate(READINGS);
        Ok(found)
    }
}

/// Returns whether a word can be mistyped. Codes and hashes are taken literally.
fn may_be_mistyped(word: &str) -> bool {
    word.chars().count() >= SHORTEST && word.chars().all(char::is_alphabetic)
}
