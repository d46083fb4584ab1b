//! Says clauses to the engine of the index.

use tantivy::Term;
use tantivy::query::{
    AllQuery, Bm25StatisticsProvider, BooleanQuery, Occur, PhraseQuery, Query, TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};

use super::any_word::{AnyWord, Known};
use super::query::{Clause, Pattern};
use super::regex::Need;
use super::statistics::Statistics;
use crate::index::words;
use crate::interrupt::StopFlag;
use crate::maps::Map;

/// A prefix stands for at most this many words, the most frequent ones.
const EXPANSIONS: usize = 200;

/// Of this many words it is counted how many passages have them, without deleted ones.
const COUNTED: usize = 2 * EXPANSIONS;

/// A piece of an expression may be in this many words; in more it says nothing.
const LARGEST_PART: usize = 2000;

/// When some of the words suffice, words are left out that are in more passages than this in all.
const SOME_BUDGET: u64 = 60_000;

/// Words that decide nothing beside others.
const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "been", "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have",
    "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "no", "not", "of", "on", "or",
    "our", "out", "so", "that", "the", "their", "them", "then", "there", "these", "they", "this",
    "those", "to", "us", "was", "we", "were", "what", "when", "where", "which", "who", "why",
    "will", "with", "would", "you", "your",
];

type Parts = Vec<(Occur, Box<dyn Query>)>;

/// Says clauses to the engine.
pub(super) struct Engine<'s> {
    pub(super) field: Field,
    pub(super) statistics: &'s Statistics<'s>,
    /// Set when nobody waits for the answer any more: what is returned then may be incomplete.
    pub(super) stop: &'s StopFlag,
}

impl Engine<'_> {
    /// Everything that is asked for, in one passage. Words that stand together as they were typed
    /// count more; stop words count only then.
    pub(super) fn all(&self, clauses: &[Clause]) -> tantivy::Result<Option<Box<dyn Query>>> {
        let mut parts = self.join(&deciding(clauses))?;
        if parts.is_empty() {
            return Ok(None);
        }
        if let Some(phrase) = as_typed(clauses).and_then(|words| self.sequence(words)) {
            parts.push((Occur::Should, phrase));
        }
        Ok(Some(put_together(parts)))
    }

    /// Some of the words, the rarer ones if they are many; what is more than a word stays asked
    /// for. `None` when nothing can be left out.
    pub(super) fn some(&self, clauses: &[Clause]) -> tantivy::Result<Option<Box<dyn Query>>> {
        let clauses = deciding(clauses);
        let (loose, firm): (Vec<Clause>, Vec<Clause>) =
            clauses.into_iter().partition(|clause| is_word(clause) && !clause.negated);
        let mut words: Vec<(u64, Box<dyn Query>)> = Vec::new();
        for clause in &loose {
            let text = match &clause.pattern {
                Pattern::Word(text) => text,
                Pattern::OneOf { readings, .. } => {
                    words.push((self.sum_of_frequencies(readings)?, self.one_of(readings)));
                    continue;
                }
                _ => continue,
            };
            let parts = parts_of(text);
            if parts.len() > 1 {
                for part in parts.iter().filter(|part| !is_stop_word(part)) {
                    words.push((self.frequency(part)?, self.term(part)));
                }
                words.extend(self.sequence(parts).map(|whole| (0, whole)));
            } else if let Some(word) = parts.first() {
                words.push((self.frequency(word)?, self.term(word)));
            }
        }
        if words.len() < 2 {
            return Ok(None);
        }
        words.sort_by_key(|(frequency, _)| *frequency);
        let mut sum = 0;
        let mut any: Parts = Vec::new();
        for (at, (frequency, query)) in words.into_iter().enumerate() {
            sum += frequency;
            if at < 2 || sum <= SOME_BUDGET {
                any.push((Occur::Should, query));
            }
        }
        let mut parts = self.join(&firm)?;
        parts.push((Occur::Must, Box::new(BooleanQuery::new(any))));
        Ok(Some(put_together(parts)))
    }

    /// In how many passages a word is.
    pub(super) fn frequency(&self, word: &str) -> tantivy::Result<u64> {
        self.statistics.doc_freq(&Term::from_field_text(self.field, word))
    }

    fn sum_of_frequencies(&self, words: &[String]) -> tantivy::Result<u64> {
        words.iter().map(|word| self.frequency(word)).sum()
    }

    /// Any of some words as they stand in the index.
    fn one_of(&self, words: &[String]) -> Box<dyn Query> {
        let any: Parts = words
            .iter()
            .filter_map(|word| self.sequence(parts_of(word)))
            .map(|one| (Occur::Should, one))
            .collect();
        Box::new(BooleanQuery::new(any))
    }

    fn join(&self, clauses: &[Clause]) -> tantivy::Result<Parts> {
        let mut parts: Parts = Vec::new();
        for clause in clauses {
            // An expression that must not fit can only be tried on the message itself.
            if clause.negated && clause.has_regex() {
                continue;
            }
            let Some(query) = self.pattern(&clause.pattern)? else { continue };
            parts.push((if clause.negated { Occur::MustNot } else { Occur::Must }, query));
        }
        if !parts.is_empty() && parts.iter().all(|(occur, _)| *occur == Occur::MustNot) {
            parts.push((Occur::Must, Box::new(AllQuery)));
        }
        Ok(parts)
    }

    /// `None` when there is nothing in it that could be looked for.
    fn pattern(&self, pattern: &Pattern) -> tantivy::Result<Option<Box<dyn Query>>> {
        match pattern {
            Pattern::Word(text) | Pattern::Phrase(text) => Ok(self.sequence(parts_of(text))),
            Pattern::Prefix(text) => {
                let mut parts = parts_of(text);
                let Some(beginning) = parts.pop() else { return Ok(None) };
                self.prefix(&parts, &beginning).map(Some)
            }
            Pattern::Regex(regex) => self.need(&regex.need).map(Some),
            Pattern::OneOf { readings, .. } => Ok(Some(self.one_of(readings))),
            Pattern::Any(alternatives) => {
                let mut any: Parts = Vec::new();
                for clauses in alternatives {
                    let parts = self.join(clauses)?;
                    if !parts.is_empty() {
                        any.push((Occur::Should, put_together(parts)));
                    }
                }
                Ok((!any.is_empty())
                    .then(|| -> Box<dyn Query> { Box::new(BooleanQuery::new(any)) }))
            }
        }
    }

    /// Words next to each other.
    fn sequence(&self, mut parts: Vec<String>) -> Option<Box<dyn Query>> {
        match parts.len() {
            0 => None,
            1 => Some(self.term(&parts.remove(0))),
            _ => {
                let terms = parts.iter().map(|part| Term::from_field_text(self.field, part));
                Some(Box::new(PhraseQuery::new(terms.collect())))
            }
        }
    }

    fn term(&self, word: &str) -> Box<dyn Query> {
        let term = Term::from_field_text(self.field, word);
        Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs))
    }

    /// Words next to each other, of which the last only begins like this.
    fn prefix(&self, before: &[String], beginning: &str) -> tantivy::Result<Box<dyn Query>> {
        let fits = |word: &str| word.starts_with(beginning);
        let mut known = self.words_that(Some(beginning), &fits)?;
        known.truncate(EXPANSIONS);
        if before.is_empty() || known.is_empty() {
            return Ok(Box::new(AnyWord::new(self.field, known)));
        }
        let alternatives = known.into_iter().filter_map(|word| {
            let parts = before.iter().cloned().chain([word.text]);
            self.sequence(parts.collect()).map(|query| (Occur::Should, query))
        });
        Ok(Box::new(BooleanQuery::new(alternatives.collect())))
    }

    fn need(&self, need: &Need) -> tantivy::Result<Box<dyn Query>> {
        Ok(match need {
            Need::Nothing => Box::new(AllQuery),
            Need::Words(text) => self.sequence(parts_of(text)).unwrap_or(Box::new(AllQuery)),
            Need::Part(part) => {
                let known = self.words_that(None, &|word| word.contains(part.as_str()))?;
                if known.len() > LARGEST_PART {
                    return Ok(Box::new(AllQuery));
                }
                Box::new(AnyWord::new(self.field, known))
            }
            Need::All(all) => self.needs(all, Occur::Must)?,
            Need::Any(all) => self.needs(all, Occur::Should)?,
        })
    }

    fn needs(&self, all: &[Need], occur: Occur) -> tantivy::Result<Box<dyn Query>> {
        let parts = all.iter().map(|need| Ok((occur, self.need(need)?)));
        Ok(Box::new(BooleanQuery::new(parts.collect::<tantivy::Result<Parts>>()?)))
    }

    /// The words of the index that fit, the most frequent first; only those that begin with
    /// something are looked at, if that is named.
    pub(super) fn words_that(
        &self,
        beginning: Option<&str>,
        fits: &dyn Fn(&str) -> bool,
    ) -> tantivy::Result<Vec<Known>> {
        let mut known: Vec<Known> = Vec::new();
        let mut places: Map<String, usize> = Map::default();
        for segment in self.statistics.searcher().segment_readers() {
            let inverted = segment.inverted_index(self.field)?;
            let mut range = inverted.terms().range();
            if let Some(beginning) = beginning {
                range = range.ge(beginning).lt(format!("{beginning}\u{10ffff}"));
            }
            let mut terms = range.into_stream()?;
            while !self.stop.is_set() && terms.advance() {
                let Ok(text) = std::str::from_utf8(terms.key()) else { continue };
                if !fits(text) {
                    continue;
                }
                let place = places.get(text).copied().unwrap_or_else(|| {
                    places.insert(text.to_owned(), known.len());
                    known.push(Known::new(text));
                    known.len() - 1
                });
                known[place].add(segment.segment_id(), terms.value().clone());
            }
        }
        sort_by_frequency(&mut known);
        // Of those that may be used, deleted passages do not count. To look at all of them would
        // take longer than to look for them.
        let mut rest = known.split_off(known.len().min(COUNTED));
        for word in &mut known {
            word.count(self.statistics)?;
        }
        known.retain(|word| word.frequency > 0);
        sort_by_frequency(&mut known);
        known.append(&mut rest);
        Ok(known)
    }
}

fn sort_by_frequency(known: &mut [Known]) {
    known.sort_by(|a, b| b.frequency.cmp(&a.frequency).then_with(|| a.text.cmp(&b.text)));
}

/// One part alone is asked for as it is: the engine is quicker with it.
fn put_together(mut parts: Parts) -> Box<dyn Query> {
    match parts.pop() {
        Some((Occur::Must, query)) if parts.is_empty() => query,
        last => {
            parts.extend(last);
            Box::new(BooleanQuery::new(parts))
        }
    }
}

/// The words of a text.
pub(super) fn parts_of(text: &str) -> Vec<String> {
    words(text).into_iter().map(|word| word.text).collect()
}

/// Leaves out what decides nothing, unless nothing would be left.
pub(super) fn deciding(clauses: &[Clause]) -> Vec<Clause> {
    let decides = |clause: &&Clause| match &clause.pattern {
        Pattern::Word(text) if !clause.negated => match parts_of(text).as_slice() {
            [] => false,
            [word] => !is_stop_word(word),
            _ => true,
        },
        _ => true,
    };
    let kept: Vec<Clause> = clauses.iter().filter(decides).cloned().collect();
    if kept.iter().any(|clause| !clause.negated) { kept } else { clauses.to_vec() }
}

/// The words in the order they were typed, when there is nothing but several words.
pub(super) fn as_typed(clauses: &[Clause]) -> Option<Vec<String>> {
    let wanted: Vec<&Clause> = clauses.iter().filter(|clause| !clause.negated).collect();
    if wanted.len() < 2 {
        return None;
    }
    let mut all = Vec::new();
    for clause in wanted {
        match &clause.pattern {
            Pattern::Word(text) => all.extend(parts_of(text)),
            _ => return None,
        }
    }
    (all.len() > 1).then_some(all)
}

fn is_word(clause: &Clause) -> bool {
    matches!(clause.pattern, Pattern::Word(_) | Pattern::OneOf { .. })
}

pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(&word)
}
