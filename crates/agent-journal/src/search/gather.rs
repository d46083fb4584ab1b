//! Gathers matches by session while the engine finds them: the best few messages of each.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tantivy::collector::{Collector, SegmentCollector};
use tantivy::{Score, SegmentReader};

use crate::index::{Columns, TextKind};

/// Messages shown of one session.
pub(super) const BEST: usize = 3;

/// What may be gathered.
pub(super) struct Gather {
    /// Only these tellings, if any are named.
    pub(super) only: Option<Arc<HashSet<u64>>>,
    /// Never these.
    pub(super) hidden: Arc<HashSet<u64>>,
    /// Only these kinds of text.
    pub(super) kinds: Vec<TextKind>,
    /// Only what was recorded in this span, in milliseconds.
    pub(super) span: (i64, i64),
    /// The present, from which age is counted.
    pub(super) now: i64,
}

/// The matches of one session.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) telling: u64,
    pub(super) count: u64,
    /// The best matches, best first.
    pub(super) best: Vec<Match>,
}

/// One match.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Match {
    pub(super) score: Score,
    pub(super) position: Option<u64>,
    pub(super) kind: TextKind,
}

impl Group {
    /// What the session as a whole is worth: its best match, and a little for each further one.
    pub(super) fn score(&self) -> Score {
        let [first, rest @ ..] = self.best.as_slice() else { return 0.0 };
        first.score + 0.1 * rest.iter().map(|one| one.score).sum::<Score>()
    }

    fn add(&mut self, new: Match) {
        let same = |one: &&mut Match| one.position == new.position && one.kind == new.kind;
        if let Some(known) = self.best.iter_mut().find(same) {
            known.score = known.score.max(new.score);
        } else {
            self.count += 1;
            if self.best.len() == BEST && self.best[BEST - 1].score >= new.score {
                return;
            }
            self.best.truncate(BEST - 1);
            self.best.push(new);
        }
        self.best.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.position.cmp(&b.position)));
    }
}

impl Collector for Gather {
    type Fruit = Vec<Group>;
    type Child = SegmentGather;

    fn for_segment(&self, _: u32, segment: &SegmentReader) -> tantivy::Result<SegmentGather> {
        let mut boosts = [0.0; TextKind::ALL.len()];
        for kind in TextKind::ALL {
            if self.kinds.is_empty() || self.kinds.contains(&kind) {
                boosts[kind as usize] = kind.boost();
            }
        }
        Ok(SegmentGather {
            columns: Columns::of(segment)?,
            only: self.only.clone(),
            hidden: self.hidden.clone(),
            boosts,
            span: self.span,
            now: self.now,
            groups: Vec::new(),
            by_telling: HashMap::new(),
            last: None,
        })
    }

    fn requires_scoring(&self) -> bool {
        true
    }

    fn merge_fruits(&self, fruits: Vec<Vec<Group>>) -> tantivy::Result<Vec<Group>> {
        let mut all: HashMap<u64, Group> = HashMap::new();
        for group in fruits.into_iter().flatten() {
            match all.get_mut(&group.telling) {
                Some(known) => {
                    let more = group.count - group.best.len() as u64;
                    group.best.into_iter().for_each(|one| known.add(one));
                    known.count += more;
                }
                None => drop(all.insert(group.telling, group)),
            }
        }
        let mut groups: Vec<Group> = all.into_values().collect();
        groups.sort_by(|a, b| b.score().total_cmp(&a.score()).then(a.telling.cmp(&b.telling)));
        Ok(groups)
    }
}

/// Gathers in one segment.
pub(super) struct SegmentGather {
    columns: Columns,
    only: Option<Arc<HashSet<u64>>>,
    hidden: Arc<HashSet<u64>>,
    boosts: [Score; TextKind::ALL.len()],
    span: (i64, i64),
    now: i64,
    groups: Vec<Group>,
    by_telling: HashMap<u64, Option<usize>>,
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
                self.groups.push(Group { telling, count: 0, best: Vec::new() });
                self.groups.len() - 1
            })
        });
        self.last = Some((telling, at));
        at
    }
}

impl SegmentCollector for SegmentGather {
    type Fruit = Vec<Group>;

    fn collect(&mut self, document: u32, score: Score) {
        let (telling, position, kind) = self.columns.place(document);
        let boost = self.boosts[kind as usize];
        if boost == 0.0 {
            return;
        }
        let at = self.columns.at.first(document).unwrap_or(0);
        if at < self.span.0 || at > self.span.1 {
            return;
        }
        let Some(group) = self.group(telling) else { return };
        let score = score * boost * recency(self.now - at);
        self.groups[group].add(Match { score, position, kind });
    }

    fn harvest(mut self) -> Vec<Group> {
        self.groups.retain(|group| group.count > 0);
        self.groups
    }
}

/// A mild preference for what is recent: a fifth more today, half of that after a month.
fn recency(age: i64) -> Score {
    let days = age.max(0) as f32 / 86_400_000.0;
    1.0 + 0.2 * 30.0 / (30.0 + days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_keeps_its_best_matches_and_counts_the_others() {
        let mut group = Group { telling: 1, count: 0, best: Vec::new() };
        for (score, position) in [(1.0, 1), (4.0, 2), (2.0, 3), (3.0, 4), (5.0, 2)] {
            group.add(Match { score, position: Some(position), kind: TextKind::Prompt });
        }
        let best: Vec<(f32, Option<u64>)> =
            group.best.iter().map(|one| (one.score, one.position)).collect();
        assert_eq!(best, [(5.0, Some(2)), (3.0, Some(4)), (2.0, Some(3))]);
        assert_eq!(group.count, 4);
    }
}
