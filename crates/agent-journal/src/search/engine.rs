//! Compiles clauses into tantivy queries.

use tantivy::Term;
use tantivy::query::{
    AllQuery, Bm25StatisticsProvider, BooleanQuery, BoostQuery, Occur, PhraseQuery, Query,
    TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};

use super::any_word::{AnyWord, IndexedWord};
use super::query::{Clause, Pattern};
use super::regex::Need;
use super::session_score::ScoredWord;
use super::statistics::Statistics;
use crate::index::words;
use crate::interrupt::StopFlag;
use crate::maps::Map;

/// The maximum number of words that a prefix stands for; the most frequent ones are used.
const EXPANSIONS: usize = 200;

/// The maximum number of words whose passages are counted without deleted ones.
const COUNTED: usize = 2 * EXPANSIONS;

/// The maximum number of words that contain a fragment of a regular expression; with more, the
/// fragment is ignored.
const LARGEST_PART: usize = 2000;

/// The maximum sum of word frequencies when some of the words suffice; the most frequent words
/// beyond it are dropped.
const SOME_BUDGET: u64 = 60_000;

/// Words that are ignored beside other words.
const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "been", "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have",
    "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "no", "not", "of", "on", "or",
    "our", "out", "so", "that", "the", "their", "them", "then", "there", "these", "they", "this",
    "those", "to", "us", "was", "we", "were", "what", "when", "where", "which", "who", "why",
    "will", "with", "would", "you", "your",
];

/// The weight of the words that replace a mistyped one, in a query for some of the words: the word
/// may have been typed correctly and occur nowhere.
const CORRECTED: f32 = 0.5;

/// The weight of a word in any of its forms, against the word as it was typed.
const FORMS: f32 = 0.5;

/// The weight of words that are adjacent as typed, beside the words themselves.
const TOGETHER: f32 = 0.3;

/// A query for some of the words, and the words for scoring whole sessions.
pub(super) struct SomeWords {
    pub(super) query: Box<dyn Query>,
    pub(super) words: Vec<ScoredWord>,
}

/// A word that may be missing.
struct OptionalWord {
    /// The number of passages that contain it.
    frequency: u64,
    query: Box<dyn Query>,
    scored: Option<ScoredWord>,
}

type QueryParts = Vec<(Occur, Box<dyn Query>)>;

/// A compiler from clauses to tantivy queries.
pub(super) struct QueryCompiler<'s> {
    pub(super) field: Field,
    /// The field with the recording of each passage.
    pub(super) recording: Field,
    pub(super) statistics: &'s Statistics<'s>,
    /// Set when the search is cancelled: a query returned after that may be incomplete.
    pub(super) stop: &'s StopFlag,
}

impl QueryCompiler<'_> {
    /// Compiles a query for passages that match all clauses. Words that are adjacent as typed score
    /// higher; stop words count only there.
    pub(super) fn all(&self, clauses: &[Clause]) -> tantivy::Result<Option<Box<dyn Query>>> {
        let mut parts = self.join(&deciding(clauses))?;
        if parts.is_empty() {
            return Ok(None);
        }
        if let Some(phrase) = as_typed(clauses).and_then(|words| self.sequence(words)) {
            parts.push((Occur::Should, together(phrase)));
        }
        Ok(Some(put_together(parts)))
    }

    /// Compiles a query for passages that contain the words exactly as they were typed, one after
    /// the other. Returns `None` for a single word.
    pub(super) fn verbatim(&self, clauses: &[Clause]) -> Option<Box<dyn Query>> {
        let words: Vec<String> = clauses
            .iter()
            .filter_map(|clause| match &clause.pattern {
                Pattern::Word(text) if !clause.negated => Some(parts_of(text)),
                _ => None,
            })
            .flatten()
            .collect();
        if words.len() < 2 { None } else { self.sequence(words) }
    }

    /// Compiles a query for passages with some of the words, the rarer ones if there are many; all
    /// clauses that are not words stay required. Returns `None` if nothing can be dropped.
    pub(super) fn some(&self, clauses: &[Clause]) -> tantivy::Result<Option<SomeWords>> {
        let all = clauses;
        let clauses = deciding(clauses);
        let (loose, firm): (Vec<Clause>, Vec<Clause>) =
            clauses.into_iter().partition(|clause| is_word(clause) && !clause.negated);
        let mut words: Vec<OptionalWord> = Vec::new();
        for clause in &loose {
            let text = match &clause.pattern {
                Pattern::Word(text) => text,
                Pattern::OneOf { readings, .. } => {
                    let frequency = self.sum_of_frequencies(readings)?;
                    let scored =
                        ScoredWord { forms: readings.clone(), rarity: self.rarity(frequency)? };
                    let query = weighed(self.one_of(readings), CORRECTED);
                    words.push(OptionalWord { frequency, query, scored: Some(scored) });
                    continue;
                }
                _ => continue,
            };
            let parts = parts_of(text);
            if parts.len() > 1 {
                for part in parts.iter().filter(|part| !is_stop_word(part)) {
                    words.push(self.optional_word(part, &[])?);
                }
                let whole = self.sequence(parts);
                words.extend(whole.map(|query| OptionalWord { frequency: 0, query, scored: None }));
            } else if let Some(word) = parts.first() {
                let forms = self.other_forms(word)?;
                words.push(self.optional_word(word, &forms)?);
            }
        }
        if words.len() < 2 {
            return Ok(None);
        }
        words.sort_by_key(|word| word.frequency);
        let mut sum = 0;
        let mut any: QueryParts = Vec::new();
        let mut scored = Vec::new();
        for (at, word) in words.into_iter().enumerate() {
            sum += word.frequency;
            if at < 2 || sum <= SOME_BUDGET {
                any.push((Occur::Should, word.query));
                scored.extend(word.scored);
            }
        }
        if let Some(phrase) = as_typed(all).and_then(|words| self.sequence(words)) {
            any.push((Occur::Should, together(phrase)));
        }
        let mut parts = self.join(&firm)?;
        parts.push((Occur::Must, Box::new(BooleanQuery::new(any))));
        Ok(Some(SomeWords { query: put_together(parts), words: scored }))
    }

    /// Returns a query for a word and its other forms. A passage with the word as it was typed
    /// scores higher; all forms are as rare as the word in any form.
    fn optional_word(&self, word: &str, other_forms: &[String]) -> tantivy::Result<OptionalWord> {
        let own = self.frequency(word)?;
        let mut frequency = own;
        let mut known = Vec::new();
        for form in other_forms {
            let count = self.frequency(form)?;
            frequency += count;
            known.push((form, count));
        }
        let rarity = self.rarity(frequency)?;
        let mut forms = vec![word.to_owned()];
        if known.is_empty() {
            let scored = Some(ScoredWord { forms, rarity });
            return Ok(OptionalWord { frequency, query: self.term(word), scored });
        }
        let own_weight = 1.0 - FORMS + FORMS * rarity / self.rarity(own)?;
        let mut any: QueryParts = vec![(Occur::Should, weighed(self.term(word), own_weight))];
        for (form, count) in known {
            let weight = FORMS * rarity / self.rarity(count)?;
            any.push((Occur::Should, weighed(self.term(form), weight)));
            forms.push(form.clone());
        }
        let query = Box::new(BooleanQuery::new(any));
        Ok(OptionalWord { frequency, query, scored: Some(ScoredWord { forms, rarity }) })
    }

    /// Returns the number of passages that contain a word.
    pub(super) fn frequency(&self, word: &str) -> tantivy::Result<u64> {
        self.statistics.doc_freq(&Term::from_field_text(self.field, word))
    }

    fn sum_of_frequencies(&self, words: &[String]) -> tantivy::Result<u64> {
        words.iter().map(|word| self.frequency(word)).sum()
    }

    /// Returns a query for any of several words.
    fn one_of(&self, words: &[String]) -> Box<dyn Query> {
        let any: QueryParts = words
            .iter()
            .filter_map(|word| self.sequence(parts_of(word)))
            .map(|one| (Occur::Should, one))
            .collect();
        Box::new(BooleanQuery::new(any))
    }

    fn join(&self, clauses: &[Clause]) -> tantivy::Result<QueryParts> {
        let mut parts: QueryParts = Vec::new();
        for clause in clauses {
            // A negated expression can only be checked on the message itself.
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

    /// Compiles one pattern. Returns `None` if it contains nothing that can be searched.
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
                let mut any: QueryParts = Vec::new();
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

    /// Returns a query for adjacent words.
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

    /// Returns a query for adjacent words, the last of which begins with `beginning`.
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
        Ok(Box::new(BooleanQuery::new(parts.collect::<tantivy::Result<QueryParts>>()?)))
    }

    /// Returns the indexed words that fit, the most frequent first. With `beginning`, only words
    /// with that prefix are checked.
    pub(super) fn words_that(
        &self,
        beginning: Option<&str>,
        fits: &dyn Fn(&str) -> bool,
    ) -> tantivy::Result<Vec<IndexedWord>> {
        let mut known: Vec<IndexedWord> = Vec::new();
        let mut places: Map<String, usize> = Map::default();
        for segment in self.statistics.searcher().segment_readers() {
            let inverted = segment.inverted_index(self.field)?;
            let mut range = inverted.terms().range();
            if let Some(beginning) = beginning {
                range = range.ge(beginning).lt(format!("{beginning}\u{10ffff}"));
            }
            let mut terms = range.into_stream()?;
            while !self.stop.is_interrupted() && terms.advance() {
                let Ok(text) = std::str::from_utf8(terms.key()) else { continue };
                if !fits(text) {
                    continue;
                }
                let place = places.get(text).copied().unwrap_or_else(|| {
                    places.insert(text.to_owned(), known.len());
                    known.push(IndexedWord::new(text));
                    known.len() - 1
                });
                known[place].add(segment.segment_id(), terms.value().clone());
            }
        }
        sort_by_frequency(&mut known);
        // Deleted passages are excluded from the counts of the words that may be used. Doing this
        // for all words would take longer than the search itself.
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

fn sort_by_frequency(known: &mut [IndexedWord]) {
    known.sort_by(|a, b| b.frequency.cmp(&a.frequency).then_with(|| a.text.cmp(&b.text)));
}

fn weighed(query: Box<dyn Query>, weight: f32) -> Box<dyn Query> {
    Box::new(BoostQuery::new(query, weight))
}

fn together(phrase: Box<dyn Query>) -> Box<dyn Query> {
    weighed(phrase, TOGETHER)
}

/// Combines parts into one query. A single part is returned as it is, because tantivy runs it
/// faster.
fn put_together(mut parts: QueryParts) -> Box<dyn Query> {
    match parts.pop() {
        Some((Occur::Must, query)) if parts.is_empty() => query,
        last => {
            parts.extend(last);
            Box::new(BooleanQuery::new(parts))
        }
    }
}

/// Splits a text into words.
pub(super) fn parts_of(text: &str) -> Vec<String> {
    words(text).into_iter().map(|word| word.text).collect()
}

/// Removes stop words, unless nothing would be left.
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

/// Returns the words in typed order if the query consists of several plain words.
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
