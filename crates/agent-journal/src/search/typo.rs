//! Reads words that occur nowhere as the nearest that do.

use super::engine::{Engine, deciding, parts_of};
use super::query::{Clause, Pattern};

/// A shorter word is near to too many others.
const SHORTEST: usize = 4;

/// A longer word may have two mistakes in it.
const LONG: usize = 8;

/// Words that a mistyped one may be read as.
const READINGS: usize = 3;

/// Clauses in which words that occur nowhere are read as others, and which of them were mistyped:
/// none that occurs in another form.
pub(super) type Corrected = (Vec<Clause>, Vec<(String, String)>);

impl Engine<'_> {
    /// Reads words that occur nowhere as the nearest that do.
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

    /// The nearest words, and of those the most frequent.
    fn nearest(&self, word: &str) -> tantivy::Result<Vec<String>> {
        let most = if word.chars().count() >= LONG { 2 } else { 1 };
        let length = word.len();
        let distance = |other: &str| strsim::damerau_levenshtein(word, other);
        let fits = |other: &str| other.len().abs_diff(length) <= most && distance(other) <= most;
        let mut found = Vec::new();
        // The first letter is rarely wrong; the first two may have changed places.
        let mut beginnings: Vec<String> = word.chars().take(2).map(String::from).collect();
        beginnings.dedup();
        for beginning in &beginnings {
            let known = self.words_that(Some(beginning), &fits)?;
            found.extend(known.into_iter().map(|word| word.text));
        }
        // The order of frequency stays among those that are equally near.
        found.sort_by_key(|other| distance(other));
        let nearest = found.first().map_or(0, |other| distance(other));
        found.retain(|other| distance(other) == nearest);
        found.truncate(READINGS);
        Ok(found)
    }
}

/// Codes and hashes are meant as they stand.
fn may_be_mistyped(word: &str) -> bool {
    word.chars().count() >= SHORTEST && word.chars().all(char::is_alphabetic)
}
