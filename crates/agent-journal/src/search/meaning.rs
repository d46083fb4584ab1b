//! Finds by meaning, and puts that together with what was found by words.

use std::time::Instant;

use super::answer::{Mode, Options, Sort, Stage, Tier};
use super::fuse::{Blend, Fusion};
use super::gather::{Gather, Group, Match};
use super::places::{Located, Places};
use super::query::{Clause, Pattern, Query};
use super::run::{Progress, Search};
use super::verify::Text;
use crate::error::Result;
use crate::index::{Near, SemanticReader, text_of, window_of};
use crate::maps::{Map, Set};
use crate::model::Timestamp;

/// Texts that are looked at, the nearest first.
const NEAREST: usize = 200;

/// Of those, how many are read when their messages have a say.
const READ: usize = 60;

/// Fewer words that may be missing say too little of what is meant.
const FEWEST_WORDS: usize = 2;

/// A message that is near, and when it was recorded.
struct Nearby {
    near: Near,
    at: i64,
}

impl Query {
    /// Whether anything is to be found by its meaning.
    pub(crate) fn has_meaning(&self, mode: Mode) -> bool {
        match mode {
            Mode::Lexical => false,
            Mode::Semantic => !wording(&self.clauses, mode).is_empty(),
            // Among what has the word or the phrase, the order is no better by it.
            Mode::Hybrid => loose_words(&self.clauses) >= FEWEST_WORDS,
        }
    }
}

impl Search<'_> {
    /// Adds what is about the same as the query, and orders everything by both.
    pub(super) fn by_meaning(
        &self,
        query: &Query,
        options: &Options,
        gather: &Gather,
        progress: &mut Progress,
    ) -> Result<()> {
        let Some(semantic) = &self.semantic else { return Ok(()) };
        let started = Instant::now();
        let text = wording(&query.clauses, options.mode);
        let nearby = self.nearby((semantic, &text), query, (options, gather), &progress.groups)?;
        let found = nearby.iter().filter(|one| one.near.score >= options.blend.floor).count();
        let blend = match options.mode {
            Mode::Semantic => Blend { fusion: Fusion::Convex(1.0), ..options.blend },
            _ => options.blend,
        };
        join((&mut progress.groups, &mut progress.places), &nearby, blend);
        progress.answer.stages.push(Stage {
            name: "meaning".to_owned(),
            query: text,
            found: found as u64,
            took: started.elapsed(),
        });
        Ok(())
    }

    /// The texts that are near and may be shown.
    fn nearby(
        &self,
        (semantic, text): (&SemanticReader, &str),
        query: &Query,
        (options, gather): (&Options, &Gather),
        by_words: &[Group],
    ) -> Result<Vec<Nearby>> {
        // What tools said and side conversations have no vectors.
        let has_none = gather.is_side == Some(true) || gather.is_failed == Some(true);
        if !gather.tools.0.is_empty() || has_none {
            return Ok(Vec::new());
        }
        let (loose, firm): (Vec<Clause>, Vec<Clause>) =
            query.clauses.iter().cloned().partition(is_loose);
        // Where nothing may be missing, whatever fits was found by words.
        let found: Option<Set<u64>> = (loose.is_empty() && options.mode != Mode::Semantic)
            .then(|| by_words.iter().map(|group| group.telling).collect());
        let allowed = |telling: u64| {
            gather.allows(telling) && found.as_ref().is_none_or(|found| found.contains(&telling))
        };
        let mut near = semantic.near(text, &allowed, NEAREST);
        near.retain(|one| {
            gather.kinds.contains(&one.place.kind)
                && !gather.is_copy(one.place.telling, one.place.position)
        });
        let is_timeless = gather.span == (i64::MIN, i64::MAX) && options.sort == Sort::Relevance;
        if firm.is_empty() && is_timeless {
            return Ok(near.into_iter().map(|near| Nearby { near, at: 0 }).collect());
        }
        let mut nearby = Vec::new();
        for near in near.into_iter().take(READ) {
            let Some((at, text)) = self.read(&near)? else { continue };
            let in_span = at >= gather.span.0 && at <= gather.span.1;
            if in_span && (firm.is_empty() || Text::new(&text).fits(&firm)) {
                nearby.push(Nearby { near, at });
            }
        }
        Ok(nearby)
    }

    /// When a near text was recorded, and the text; `None` when it is gone.
    fn read(&self, near: &Near) -> Result<Option<(i64, String)>> {
        let place = &near.place;
        let Some(position) = place.position else {
            let mut entries = self.store.sessions_by_telling(&[place.telling], self.now)?;
            let ended = entries.remove(&place.telling).and_then(|entry| entry.ended_at);
            let mut texts = self.whole_texts(place.telling, place.kind)?;
            if let Some(at) = texts.iter().position(|it| window_of(it, near.content).is_some()) {
                texts = vec![texts.swap_remove(at)];
            }
            let ended = ended.map_or(0, Timestamp::as_millis);
            return Ok((!texts.is_empty()).then(|| (ended, texts.join("\n"))));
        };
        let message = self.store.message(place.telling, position)?;
        Ok(message.map(|message| {
            (message.at.map_or(0, Timestamp::as_millis), text_of(&message, place.kind))
        }))
    }
}

/// Whether a clause may be missing from what is found by meaning.
fn is_loose(clause: &Clause) -> bool {
    match &clause.pattern {
        Pattern::Word(_) | Pattern::OneOf { .. } => !clause.negated,
        Pattern::Any(all) => !clause.negated && all.iter().flatten().all(is_loose),
        _ => false,
    }
}

/// Counts the words that may be missing.
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

/// What is asked for, in words. The beginning of a word means little: it counts only where nothing
/// else would.
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

/// Puts what is near into the groups of what was found by words. A session without any of the
/// words is added when it is near enough.
fn join((groups, places): (&mut Vec<Group>, &mut Places), nearby: &[Nearby], blend: Blend) {
    let by_words = ranked(groups.iter().map(|group| (group.telling, group.score())));
    let by_telling: Map<u64, usize> =
        groups.iter().enumerate().map(|(at, group)| (group.telling, at)).collect();
    let mut added: Map<u64, usize> = Map::default();
    let mut by_meaning: Map<u64, f32> = Map::default();
    let best = by_words.first().map_or(0.0, |first| first.1);
    for group in groups.iter_mut() {
        for one in &mut group.best {
            one.score = blend.of_words(one.score, best);
        }
    }
    for Nearby { near, at } in nearby {
        let telling = near.place.telling;
        let group = match by_telling.get(&telling).or(added.get(&telling)) {
            Some(group) => *group,
            None if near.score >= blend.floor => {
                groups.push(Group::new(telling, Tier::Meaning));
                added.insert(telling, groups.len() - 1);
                groups.len() - 1
            }
            None => continue,
        };
        let worth = blend.of_meaning(near.score);
        let best = by_meaning.entry(telling).or_default();
        *best = best.max(near.score);
        let place = places.add(Located {
            telling,
            position: near.place.position,
            kind: near.place.kind,
            print: 0,
            at: *at,
            window: Some(near.content),
        });
        let new = Match { score: worth, place };
        groups[group].add_near(new, near.score >= blend.floor, places);
    }
    let by_meaning = ranked(by_meaning.into_iter());
    let joined = blend.fusion.join(&by_words, &by_meaning);
    for group in groups.iter_mut() {
        group.worth = joined.get(&group.telling).copied();
    }
}

/// The best first.
fn ranked(scores: impl Iterator<Item = (u64, f32)>) -> Vec<(u64, f32)> {
    let mut all: Vec<(u64, f32)> = scores.collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    all
}
