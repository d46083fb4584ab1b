//! Searches by meaning and combines the matches with those found by words.

use std::time::Instant;

use super::answer::{Mode, SearchOptions, Sort, Stage, Tier};
use super::collector::{MatchGroup, PassageMatch, SessionCollector};
use super::fuse::{fuse_scores, scale_word_score};
use super::places::LocatedText;
use super::query::{Clause, Pattern, Query};
use super::run::{Search, SearchProgress};
use super::verify::CheckedText;
use crate::error::Result;
use crate::index::{NearVector, SemanticReader, text_of, window_of};
use crate::maps::{Map, Set};
use crate::model::Timestamp;

/// The maximum number of texts to consider, the nearest first.
const NEAREST: usize = 200;

/// The rank of the session whose similarity counts as zero.
const SCALED_SESSIONS: usize = 100;

/// The maximum number of those texts to read when their messages must be checked.
const READ: usize = 60;

/// The minimum number of optional words: fewer words express too little meaning.
const FEWEST_WORDS: usize = 2;

/// A text that is near in meaning, and the time of its message.
struct NearText {
    near: NearVector,
    at: i64,
}

impl Query {
    /// Returns whether the query should be searched by meaning.
    pub(crate) fn has_meaning(&self, mode: Mode) -> bool {
        match mode {
            Mode::Lexical => false,
            Mode::Semantic => !wording(&self.clauses, mode).is_empty(),
            // The meaning does not improve the order among matches of a single word or phrase.
            Mode::Hybrid => loose_words(&self.clauses) >= FEWEST_WORDS,
        }
    }
}

impl Search<'_> {
    /// Adds texts with a meaning similar to the query, and combines the scores.
    pub(super) fn by_meaning(
        &self,
        query: &Query,
        options: &SearchOptions,
        collector: &SessionCollector,
        progress: &mut SearchProgress,
    ) -> Result<()> {
        let Some(semantic) = &self.semantic else { return Ok(()) };
        let started = Instant::now();
        let text = wording(&query.clauses, options.mode);
        let nearby = self.nearby(semantic, &text, query, options, collector, &progress.groups)?;
        let is_near = |one: &&NearText| one.near.score >= options.min_similarity;
        let found = nearby.iter().filter(is_near).count();
        progress.nearest = Some(nearby.first().map_or(0.0, |one| one.near.score));
        progress.add_nearby(&nearby, options);
        progress.answer.stages.push(Stage {
            name: "meaning".to_owned(),
            query: text,
            found: found as u64,
            took: started.elapsed(),
        });
        Ok(())
    }

    /// Returns the near texts that may be shown.
    fn nearby(
        &self,
        semantic: &SemanticReader,
        text: &str,
        query: &Query,
        options: &SearchOptions,
        collector: &SessionCollector,
        by_words: &[MatchGroup],
    ) -> Result<Vec<NearText>> {
        // Tool output and side conversations have no vectors.
        let has_none = collector.is_side == Some(true) || collector.is_failed == Some(true);
        if !collector.tools.0.is_empty() || has_none {
            return Ok(Vec::new());
        }
        let (loose, firm): (Vec<Clause>, Vec<Clause>) =
            query.clauses.iter().cloned().partition(is_loose);
        // If no word is optional, the search by words has found every match.
        let found: Option<Set<u64>> = (loose.is_empty() && options.mode != Mode::Semantic)
            .then(|| by_words.iter().map(|group| group.recording).collect());
        let allowed = |recording: u64| {
            collector.allows(recording)
                && found.as_ref().is_none_or(|found| found.contains(&recording))
        };
        let mut near = semantic.near(text, &allowed, NEAREST);
        near.retain(|one| {
            collector.kinds.contains(&one.place.kind)
                && !collector.is_copy(one.place.recording, one.place.position)
        });
        let is_timeless = collector.span == (i64::MIN, i64::MAX) && options.sort == Sort::Relevance;
        if firm.is_empty() && is_timeless {
            return Ok(near.into_iter().map(|near| NearText { near, at: 0 }).collect());
        }
        let mut nearby = Vec::new();
        for near in near.into_iter().take(READ) {
            let Some((at, text)) = self.read(&near)? else { continue };
            let in_span = at >= collector.span.0 && at <= collector.span.1;
            if in_span && (firm.is_empty() || CheckedText::new(&text).fits(&firm)) {
                nearby.push(NearText { near, at });
            }
        }
        Ok(nearby)
    }

    /// Reads a near text and its time in milliseconds; returns `None` when it is gone.
    fn read(&self, near: &NearVector) -> Result<Option<(i64, String)>> {
        let place = &near.place;
        let Some(position) = place.position else {
            let mut entries = self.store.sessions_by_recording(&[place.recording], self.now)?;
            let ended = entries.remove(&place.recording).and_then(|entry| entry.ended_at);
            let mut texts = self.whole_texts(place.recording, place.kind)?;
            if let Some(at) = texts.iter().position(|it| window_of(it, near.content).is_some()) {
                texts = vec![texts.swap_remove(at)];
            }
            let ended = ended.map_or(0, Timestamp::as_millis);
            return Ok((!texts.is_empty()).then(|| (ended, texts.join("\n"))));
        };
        let message = self.store.message(place.recording, position)?;
        Ok(message.map(|message| {
            (message.at.map_or(0, Timestamp::as_millis), text_of(&message, place.kind))
        }))
    }
}

/// Returns whether a clause may be missing from a match by meaning.
fn is_loose(clause: &Clause) -> bool {
    match &clause.pattern {
        Pattern::Word(_) | Pattern::OneOf { .. } => !clause.negated,
        Pattern::Any(all) => !clause.negated && all.iter().flatten().all(is_loose),
        _ => false,
    }
}

/// Counts the optional words.
fn loose_words(clauses: &[Clause]) -> usize {
    let words = |text: &str| text.split_whitespace().count();
    let mut count = 0;
    for clause in clauses.iter().filter(|clause| is_loose(clause)) {
        clause.each(&mut |pattern| {
            if let Pattern::Word(text) = pattern {
                count += words(text);
            }
        });
    }
    count
}

/// Returns the text of the query to embed. A prefix carries little meaning: it is used in semantic
/// mode only.
fn wording(clauses: &[Clause], mode: Mode) -> String {
    let mut words: Vec<&str> = Vec::new();
    for clause in clauses {
        clause.each(&mut |pattern| match pattern {
            Pattern::Word(text) | Pattern::Phrase(text) => words.push(text),
            Pattern::OneOf { typed, .. } => words.push(typed),
            Pattern::Prefix(text) if mode == Mode::Semantic => words.push(text),
            Pattern::Prefix(_) | Pattern::Regex(_) | Pattern::Any(_) => {}
        });
    }
    words.join(" ")
}

impl SearchProgress {
    /// Merges near texts into the groups found by words. A session without any of the words is
    /// added if it is near enough.
    fn add_nearby(&mut self, nearby: &[NearText], options: &SearchOptions) {
        let weight = if options.mode == Mode::Semantic { 1.0 } else { options.meaning_weight };
        let is_near = |near: &NearVector| near.score >= options.min_similarity;
        let groups = &mut self.groups;
        let by_words = ranked(groups.iter().map(|group| (group.recording, group.score())));
        let mut by_recording: Map<u64, usize> =
            groups.iter().enumerate().map(|(at, group)| (group.recording, at)).collect();
        let mut by_meaning: Map<u64, f32> = Map::default();
        let scores = groups.iter().flat_map(|group| &group.best).map(|one| one.score);
        let best_hit = scores.fold(0.0, f32::max);
        for one in groups.iter_mut().flat_map(|group| &mut group.best) {
            one.score = scale_word_score(one.score, best_hit, weight);
        }
        let scale = MeaningScale::of(nearby.iter().map(|one| &one.near));
        for NearText { near, at } in nearby {
            let recording = near.place.recording;
            let group = match by_recording.get(&recording) {
                Some(group) => *group,
                None if is_near(near) => {
                    groups.push(MatchGroup::new(recording, Tier::Meaning));
                    by_recording.insert(recording, groups.len() - 1);
                    groups.len() - 1
                }
                None => continue,
            };
            let best = by_meaning.entry(recording).or_default();
            *best = best.max(scale.share(near.score));
            let place = self.places.add(LocatedText {
                recording,
                position: near.place.position,
                kind: near.place.kind,
                fingerprint: 0,
                at: *at,
                window: Some(near.content),
            });
            let new = PassageMatch { score: weight * scale.share(near.score), place };
            groups[group].add_near(new, is_near(near), &self.places);
        }
        let by_meaning = ranked(by_meaning.into_iter());
        let fused = fuse_scores(&by_words, &by_meaning, weight);
        for group in groups.iter_mut() {
            group.worth = fused.get(&group.recording).copied();
        }
    }
}

/// Scales similarities, which differ little, so that they can be added to the scores of words: the
/// best session is 1, the hundredth 0.
struct MeaningScale {
    highest: f32,
    lowest: f32,
}

impl MeaningScale {
    fn of<'n>(nearby: impl Iterator<Item = &'n NearVector>) -> Self {
        let mut by_session: Map<u64, f32> = Map::default();
        for near in nearby {
            let best = by_session.entry(near.place.recording).or_default();
            *best = best.max(near.score);
        }
        let sorted = ranked(by_session.into_iter());
        let highest = sorted.first().map_or(1.0, |first| first.1);
        // A single session would be the best and the worst.
        let last = sorted.get(SCALED_SESSIONS - 1).or(sorted[1.min(sorted.len())..].last());
        Self { highest, lowest: last.map_or(0.0, |last| last.1) }
    }

    /// Returns the scaled similarity of a text, between zero and one.
    fn share(&self, similarity: f32) -> f32 {
        let range = self.highest - self.lowest;
        if range > 0.0 { ((similarity - self.lowest) / range).max(0.0) } else { 1.0 }
    }
}

/// Sorts keys by score, the best first.
fn ranked(scores: impl Iterator<Item = (u64, f32)>) -> Vec<(u64, f32)> {
    let mut all: Vec<(u64, f32)> = scores.collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    all
}
