//! Gathers matches by session while the engine finds them: the best few messages of each.

use std::cmp::Reverse;
use std::mem;
use std::sync::Arc;

use tantivy::collector::{Collector, SegmentCollector};
use tantivy::{Score, SegmentReader};

use super::answer::Tier;
use crate::index::{Columns, TextKind, Traits};
use crate::maps::{Map, Set};

/// Matches kept of one session.
pub(super) const BEST: usize = 6;

/// Documents whose columns are read at a time.
const BLOCK: usize = 64;

/// What may be gathered.
pub(super) struct Gather {
    /// Only these tellings, if any are named.
    pub(super) only: Option<Arc<Set<u64>>>,
    /// Never these.
    pub(super) hidden: Arc<Set<u64>>,
    /// Only these kinds of text.
    pub(super) kinds: Vec<TextKind>,
    /// Only what these tools were given or returned, if any are named, and never these.
    pub(super) tools: (Vec<u16>, Vec<u16>),
    /// Only what is part of a side conversation, or only what is not.
    pub(super) is_side: Option<bool>,
    /// Only what was recorded in this span, in milliseconds.
    pub(super) span: (i64, i64),
    /// The present, from which age is counted.
    pub(super) now: i64,
    /// Matches to keep of each session.
    pub(super) keep: usize,
}

/// The matches of one session.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) telling: u64,
    pub(super) tier: Tier,
    pub(super) count: u64,
    /// The best matches.
    pub(super) best: Vec<Match>,
    /// What the session is worth when more than its matches by words has a say.
    pub(super) worth: Option<Score>,
    /// The mark of the text the last match was in.
    last: u64,
    /// What is worth no more is not among the best.
    floor: Score,
}

/// One match.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Match {
    pub(super) score: Score,
    /// Where it is: in the session of the group, or in one that belongs to it.
    pub(super) telling: u64,
    pub(super) position: Option<u64>,
    pub(super) kind: TextKind,
    /// The same for messages that are nearly the same; 0 for short ones.
    pub(super) print: u32,
    /// When it was recorded, in milliseconds.
    pub(super) at: i64,
    /// The piece of text that is near in meaning, when that is how it was found.
    pub(super) window: Option<u64>,
}

impl Match {
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.position == other.position && self.kind == other.kind && self.telling == other.telling
    }
}

impl Group {
    pub(super) fn new(telling: u64, tier: Tier) -> Self {
        let (best, floor) = (Vec::new(), Score::NEG_INFINITY);
        Self { telling, tier, count: 0, best, worth: None, last: u64::MAX, floor }
    }

    /// What the session as a whole is worth: its best match, and a little for the next ones.
    pub(super) fn score(&self) -> Score {
        if let Some(worth) = self.worth {
            return worth;
        }
        let [first, rest @ ..] = self.best.as_slice() else { return 0.0 };
        first.score + 0.1 * rest.iter().take(2).map(|one| one.score).sum::<Score>()
    }

    /// One group for each match.
    pub(super) fn apart(self) -> impl Iterator<Item = Self> {
        let Self { telling, tier, best, .. } = self;
        best.into_iter().map(move |one| Self {
            count: 1,
            best: vec![one],
            ..Self::new(telling, tier)
        })
    }

    /// When the latest of the best matches was recorded.
    pub(super) fn at(&self) -> i64 {
        self.best.iter().map(|one| one.at).max().unwrap_or(0)
    }

    /// Adds a match; windows of one text are one match. The best are not in order afterwards.
    pub(super) fn add(&mut self, new: Match, keep: usize) {
        self.offer((new.score, mark(new.position, new.kind)), keep, || new);
    }

    /// Adds a match that need not be made unless it is one of the best so far.
    #[inline]
    fn offer(&mut self, (score, mark): (Score, u64), keep: usize, make: impl FnOnce() -> Match) {
        // Windows of one text follow each other.
        let is_window = mem::replace(&mut self.last, mark) == mark;
        if score > self.floor {
            self.add_high(make(), is_window, keep);
        } else {
            self.count += u64::from(!is_window);
        }
    }

    /// Adds a match that is one of the best so far.
    fn add_high(&mut self, new: Match, is_window: bool, keep: usize) {
        if keep > BEST {
            // The whole list need not be looked through.
            match self.best.last_mut().filter(|last| last.is_same(&new)) {
                Some(known) => known.score = known.score.max(new.score),
                None => {
                    self.count += 1;
                    self.best.push(new);
                }
            }
            return;
        }
        if let Some(known) = self.best.iter_mut().find(|one| one.is_same(&new)) {
            known.score = known.score.max(new.score);
        } else {
            self.count += u64::from(!is_window);
            match self.worst().filter(|_| self.best.len() >= keep) {
                Some(worst) if self.best[worst].score < new.score => self.best[worst] = new,
                Some(_) => {}
                None => {
                    self.best.reserve_exact(keep - self.best.len());
                    self.best.push(new);
                }
            }
        }
        if self.best.len() >= keep {
            self.floor = self.worst().map_or(self.floor, |worst| self.best[worst].score);
        }
    }

    /// The match that would be missed least: of several the last.
    fn worst(&self) -> Option<usize> {
        let worse =
            |a: usize, b: usize| if self.best[b].score <= self.best[a].score { b } else { a };
        (0..self.best.len()).reduce(worse)
    }

    /// Adds a match by meaning, or its worth to the same match by words; one that is not near
    /// enough is nothing by itself.
    pub(super) fn add_near(&mut self, new: Match, is_enough: bool) {
        if let Some(known) = self.best.iter_mut().find(|one| one.is_same(&new)) {
            known.score += new.score;
        } else if is_enough {
            self.count += 1;
            self.best.push(new);
        }
        self.sort();
    }

    /// Everything is gathered: what the matches are worth may be weighed anew.
    fn finish(&mut self) {
        self.sort();
        self.floor = Score::NEG_INFINITY;
    }

    pub(super) fn sort(&mut self) {
        self.best.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.position.cmp(&b.position)));
    }
}

impl Gather {
    /// Whether a telling may be gathered.
    pub(super) fn allows(&self, telling: u64) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&telling))
            && !self.hidden.contains(&telling)
    }
}

impl Collector for Gather {
    type Fruit = Vec<Group>;
    type Child = SegmentGather;

    fn for_segment(&self, _: u32, segment: &SegmentReader) -> tantivy::Result<SegmentGather> {
        let mut boosts = [0.0; TextKind::ALL.len()];
        for kind in &self.kinds {
            boosts[*kind as usize] = kind.boost();
        }
        Ok(SegmentGather {
            columns: Columns::of(segment)?,
            only: self.only.clone(),
            hidden: self.hidden.clone(),
            boosts,
            tools: self.tools.clone(),
            is_side: self.is_side,
            is_choosy: self.is_side.is_some() || self.tools != <_>::default(),
            span: self.span,
            now: self.now,
            keep: self.keep,
            block: Block::default(),
            groups: Vec::new(),
            by_telling: Map::default(),
            last: None,
        })
    }

    fn requires_scoring(&self) -> bool {
        true
    }

    fn merge_fruits(&self, fruits: Vec<Vec<Group>>) -> tantivy::Result<Vec<Group>> {
        let mut groups: Vec<Group> = Vec::new();
        let mut places: Map<u64, usize> = Map::default();
        for group in fruits.into_iter().flatten() {
            match places.get(&group.telling).map(|place| &mut groups[*place]) {
                Some(known) => {
                    let more = group.count - group.best.len() as u64;
                    group.best.into_iter().for_each(|one| known.add(one, self.keep));
                    known.count += more;
                }
                None => {
                    places.insert(group.telling, groups.len());
                    groups.push(group);
                }
            }
        }
        groups.iter_mut().for_each(Group::finish);
        groups.sort_by_cached_key(|group| (Reverse(rank(group.score())), group.telling));
        Ok(groups)
    }
}

/// Documents whose columns are yet to be read.
#[derive(Default)]
struct Block {
    documents: Vec<u32>,
    scores: Vec<Score>,
}

/// Gathers in one segment.
pub(super) struct SegmentGather {
    columns: Columns,
    only: Option<Arc<Set<u64>>>,
    hidden: Arc<Set<u64>>,
    boosts: [Score; TextKind::ALL.len()],
    tools: (Vec<u16>, Vec<u16>),
    is_side: Option<bool>,
    /// Whether more than kind and time decides what is wanted.
    is_choosy: bool,
    span: (i64, i64),
    now: i64,
    keep: usize,
    block: Block,
    groups: Vec<Group>,
    by_telling: Map<u64, Option<usize>>,
    /// Matches of one session mostly follow each other.
    last: Option<(u64, Option<usize>)>,
}

impl SegmentGather {
    /// The group of a telling; `None` when it may not be gathered.
    fn group(&mut self, telling: u64) -> Option<usize> {
        if let Some((known, at)) = self.last
            && known == telling
        {
            return at;
        }
        let at = *self.by_telling.entry(telling).or_insert_with(|| {
            let wanted = self.only.as_ref().is_none_or(|only| only.contains(&telling))
                && !self.hidden.contains(&telling);
            wanted.then(|| {
                self.groups.push(Group::new(telling, Tier::AllWords));
                self.groups.len() - 1
            })
        });
        self.last = Some((telling, at));
        at
    }

    fn wants(&self, traits: Traits) -> bool {
        let (tools, without) = &self.tools;
        (tools.is_empty() || tools.contains(&traits.tool))
            && !without.contains(&traits.tool)
            && self.is_side.is_none_or(|is_side| is_side == traits.is_side)
    }

    /// Reads the columns of a block at once: one call per document and column would cost more
    /// than all the rest.
    fn flush(&mut self) {
        let Block { documents, scores } = std::mem::take(&mut self.block);
        let mut traits = [0; BLOCK];
        let mut tellings = [0; BLOCK];
        let mut times = [0; BLOCK];
        let mut positions = [0; BLOCK];
        let count = documents.len();
        self.columns.traits.get_vals(&documents, &mut traits[..count]);
        self.columns.telling.get_vals(&documents, &mut tellings[..count]);
        self.columns.at.get_vals(&documents, &mut times[..count]);
        self.columns.position.get_vals(&documents, &mut positions[..count]);
        for place in 0..count {
            let (traits, at) = (Traits::unpack(traits[place]), times[place]);
            let boost = self.boosts[traits.kind as usize];
            let is_out = boost == 0.0 || at < self.span.0 || at > self.span.1;
            if is_out || self.is_choosy && !self.wants(traits) {
                continue;
            }
            let telling = tellings[place];
            let Some(group) = self.group(telling) else { continue };
            let score = scores[place] * boost * traits.worth() * recency(self.now - at);
            let position = Columns::place(positions[place]);
            let Traits { kind, print, .. } = traits;
            self.groups[group].offer((score, mark(position, kind)), self.keep, || Match {
                score,
                telling,
                position,
                kind,
                print,
                at,
                window: None,
            });
        }
        self.block = Block { documents, scores };
        self.block.documents.clear();
        self.block.scores.clear();
    }
}

impl SegmentCollector for SegmentGather {
    type Fruit = Vec<Group>;

    fn collect(&mut self, document: u32, score: Score) {
        self.block.documents.push(document);
        self.block.scores.push(score);
        if self.block.documents.len() == BLOCK {
            self.flush();
        }
    }

    fn harvest(mut self) -> Vec<Group> {
        self.flush();
        self.groups.retain(|group| group.count > 0);
        self.groups
    }
}

/// A number that tells a text from the others of its session.
fn mark(position: Option<u64>, kind: TextKind) -> u64 {
    position.map_or(0, |position| position + 1) << 3 | kind as u64
}

/// A number that is higher for a higher score, and quicker to compare.
pub(super) fn rank(score: Score) -> i32 {
    let bits = score.to_bits().cast_signed();
    // Of two numbers below zero the one with the lower bits is higher.
    bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()
}

/// A mild preference for what is recent: a fifth more today, half of that after a month.
fn recency(age: i64) -> Score {
    let days = age.max(0) as f32 / 86_400_000.0;
    1.0 + 0.2 * 30.0 / (30.0 + days)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(keep: usize) -> Group {
        let mut group = Group::new(1, Tier::AllWords);
        for (score, position) in [(1.0, 1), (4.0, 2), (2.0, 3), (3.0, 4), (5.0, 2)] {
            let (kind, position) = (TextKind::Prompt, Some(position));
            let (telling, print, at) = (1, 0, 0);
            let new = Match { score, telling, position, kind, print, at, window: None };
            group.add(new, keep);
        }
        group.sort();
        group
    }

    #[test]
    fn a_group_keeps_its_best_matches_and_counts_the_others() {
        let best: Vec<(f32, Option<u64>)> =
            group(3).best.iter().map(|one| (one.score, one.position)).collect();
        assert_eq!(best, [(5.0, Some(2)), (3.0, Some(4)), (2.0, Some(3))]);
        assert_eq!(group(3).count, 4);
    }

    #[test]
    fn a_match_is_compared_with_what_the_others_are_worth_now() {
        let mut group = group(3);
        group.finish();
        group.best.iter_mut().for_each(|one| one.score /= 10.0);
        group.add(Match { score: 0.4, telling: 2, ..group.best[0] }, 3);
        group.sort();
        let tellings: Vec<u64> = group.best.iter().map(|one| one.telling).collect();
        assert_eq!(tellings, [1, 2, 1]);
    }

    #[test]
    fn ranks_are_in_the_order_of_scores() {
        let scores = [Score::NEG_INFINITY, -2.0, -0.5, -0.0, 0.0, 0.25, 7.5, Score::INFINITY];
        assert!(scores.map(rank).is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn windows_of_a_text_that_fell_out_of_the_best_are_still_one_match() {
        let mut group = group(3);
        for score in [0.1, 0.2] {
            let (position, at) = (Some(9), 0);
            let kind = TextKind::Reply;
            group.add(Match { score, telling: 1, position, kind, print: 0, at, window: None }, 3);
        }
        assert_eq!(group.count, 5);
    }

    #[test]
    fn every_match_is_kept_when_all_are_wanted() {
        assert_eq!(group(usize::MAX).best.len(), 5);
    }
}
