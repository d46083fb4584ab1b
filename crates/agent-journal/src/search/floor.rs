//! Decides whether the best results are close enough to the query to be shown at all. A page of
//! sessions that share some words with a question is no answer, least of all for a program that
//! reads it.

use std::collections::HashSet;

use super::answer::Tier;
use super::collector::MatchGroup;
use super::engine::{QueryCompiler, deciding, parts_of};
use super::places::LocatedText;
use super::query::{Clause, Pattern};
use super::run::{Search, SearchProgress};
use super::session_score::ScoredWord;
use crate::error::Result;
use crate::index::{text_of, whole_words, words};

/// The similarity of the nearest text from which the results are close.
const CLOSE_SIMILARITY: f32 = 0.32;

/// The share of the words, weighed by their rarity, from which a text with them is close.
const CLOSE_SHARE: f32 = 0.45;

/// The number of results of which one must be close enough.
const COMPARED: usize = 5;

impl Search<'_> {
    /// Returns whether one of the first results is close enough to be shown. The groups must be in
    /// the order of the results.
    pub(super) fn is_close(
        &self,
        compiler: &QueryCompiler<'_>,
        groups: &[MatchGroup],
        progress: &SearchProgress,
    ) -> Result<bool> {
        // Where nothing was compared by meaning, the words alone say too little.
        if progress.nearest.is_none_or(|nearest| nearest >= CLOSE_SIMILARITY) {
            return Ok(true);
        }
        let is_weak = |group: &MatchGroup| matches!(group.tier, Tier::SomeWords | Tier::Meaning);
        if groups.is_empty() || !groups.iter().all(is_weak) {
            return Ok(true);
        }
        let wanted = compiler.wanted_words(&progress.clauses).map_err(self.error())?;
        if wanted.len() < 2 {
            return Ok(true);
        }
        let total: f32 = wanted.iter().map(|word| word.rarity).sum();
        for group in groups.iter().take(COMPARED) {
            let Some(best) = group.best.first() else { continue };
            let LocatedText { recording, position, kind, .. } = progress.places.text(best);
            let text = match position {
                Some(position) => {
                    let message = self.store.message(recording, position)?;
                    message.map(|message| text_of(&message, kind)).unwrap_or_default()
                }
                None => self.whole_texts(recording, kind)?.join("\n"),
            };
            let mut known: HashSet<String> = words(&text).into_iter().map(|it| it.text).collect();
            known.extend(whole_words(&text));
            let has = |word: &&ScoredWord| word.forms.iter().any(|form| known.contains(form));
            let share = wanted.iter().filter(has).map(|word| word.rarity).sum::<f32>() / total;
            if share >= CLOSE_SHARE {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl QueryCompiler<'_> {
    /// Returns the words that a query asks for, each with its forms and its rarity.
    fn wanted_words(&self, clauses: &[Clause]) -> tantivy::Result<Vec<ScoredWord>> {
        let mut wanted = Vec::new();
        for clause in deciding(clauses).iter().filter(|clause| !clause.negated) {
            let words: Vec<Vec<String>> = match &clause.pattern {
                Pattern::Word(text) => {
                    let with_forms = |word: String| {
                        let mut forms = self.other_forms(&word)?;
                        forms.insert(0, word);
                        Ok(forms)
                    };
                    parts_of(text).into_iter().map(with_forms).collect::<tantivy::Result<_>>()?
                }
                // A corrected word counts as present where one of its corrections is.
                Pattern::OneOf { readings, .. } => vec![readings.clone()],
                _ => continue,
            };
            for forms in words {
                let mut frequency = 0;
                for form in &forms {
                    frequency += self.frequency(form)?;
                }
                wanted.push(ScoredWord { rarity: self.rarity(frequency)?, forms });
            }
        }
        Ok(wanted)
    }
}
