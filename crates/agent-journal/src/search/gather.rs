//! Gathers matches by session while the engine finds them: the best few messages of each.

use std::sync::Arc;

use tantivy::query::Weight;
use tantivy::{DocId, Score, SegmentReader};

use super::answer::Tier;
use super::document_length::{DocumentLengths, PartLengths};
use super::places::{Place, Places};
use crate::index::{Columns, Likeness, SORTS, Sort, TextKind, Traits, day};
use crate::interrupt::StopFlag;
use crate::maps::{Map, Set};

/// Matches kept of one session.
pub(super) const BEST: usize = 6;

/// Documents whose columns are read at a time.
const BLOCK: usize = 64;

/// Days for which it is known beforehand what recency counts.
const RECENT: usize = 512;

/// What may be gathered.
#[derive(Clone)]
pub(super) struct Gather {
    /// Only these tellings, if any are named.
    pub(super) only: Option<Arc<Set<u64>>>,
    /// Never these.
    pub(super) hidden: Arc<Set<u64>>,
    /// Recordings whose first messages are found in another one, with their number.
    pub(super) shared: Arc<Map<u64, u64>>,
    /// Only these kinds of text.
    pub(super) kinds: Vec<TextKind>,
    /// Only what these tools were given or returned, if any are named, and never these.
    pub(super) tools: (Vec<u16>, Vec<u16>),
    /// Only what is part of a side conversation, or only what is not.
    pub(super) is_side: Option<bool>,
    /// Only what says that something failed, or only what does not.
    pub(super) is_failed: Option<bool>,
    /// Only what was recorded in this span, in milliseconds.
    pub(super) span: (i64, i64),
    /// The present, from which age is counted.
    pub(super) now: i64,
    /// Matches to keep of each session.
    pub(super) keep: usize,
    pub(super) places: Places,
    /// How much documents about a session gain by what they are, whatever their length; nothing
    /// when only some of the words are looked for.
    pub(super) document_lengths: Option<DocumentLengths>,
    /// Set when nobody waits for the answer any more.
    pub(super) stop: StopFlag,
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
}

/// One match.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Match {
    pub(super) score: Score,
    pub(super) place: Place,
}

impl Group {
    pub(super) fn new(telling: u64, tier: Tier) -> Self {
        Self { telling, tier, count: 0, best: Vec::new(), worth: None }
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
    pub(super) fn at(&self, places: &Places) -> i64 {
        self.best.iter().map(|one| places.text(one).at).max().unwrap_or(0)
    }

    /// Adds the matches of another group. Of a long list none is compared with the others: it
    /// may have a text twice that is in two parts of the index.
    pub(super) fn join(&mut self, other: Self, keep: usize, places: &Places) {
        self.count += other.count;
        let compared = if keep > BEST { 0 } else { self.best.len() };
        for one in other.best {
            let mut known = self.best[..compared].iter_mut();
            match known.find(|known| places.are_same(known, &one)) {
                Some(known) => {
                    known.score = known.score.max(one.score);
                    self.count -= 1;
                }
                None => self.best.push(one),
            }
        }
        self.sort(places);
        self.best.truncate(keep);
    }

    /// Adds a match by meaning, or its worth to the same match by words; one that is not near
    /// enough is nothing by itself.
    pub(super) fn add_near(&mut self, new: Match, is_enough: bool, places: &Places) {
        if let Some(known) = self.best.iter_mut().find(|one| places.are_same(one, &new)) {
            known.score += new.score;
        } else if is_enough {
            self.count += 1;
            self.best.push(new);
        }
        self.sort(places);
    }

    pub(super) fn sort(&mut self, places: &Places) {
        self.best.sort_by(|one, other| places.compare(one, other));
    }
}

impl Gather {
    /// Whether a telling may be gathered.
    pub(super) fn allows(&self, telling: u64) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&telling))
            && !self.hidden.contains(&telling)
    }

    /// Whether a message is found in the session it belongs to, and not in this copy of it.
    pub(super) fn is_copy(&self, telling: u64, position: Option<u64>) -> bool {
        let shared = self.shared.get(&telling).copied().unwrap_or(0);
        position.is_some_and(|position| position < shared)
    }

    /// What a match counts in passages of each sort; nothing in those that are not wanted.
    pub(super) fn weights(&self) -> [Score; SORTS] {
        std::array::from_fn(|number| {
            let sort = Sort::of(number);
            let is_wanted = self.kinds.contains(&sort.kind)
                && self.is_side.is_none_or(|is_side| is_side == sort.is_side);
            if is_wanted { sort.kind.boost() * sort.worth } else { 0.0 }
        })
    }

    /// Whether a passage was recorded in time, is of a wanted tool and failed if it should.
    pub(super) fn wants(&self, columns: &Columns, document: DocId) -> bool {
        let (tools, without) = &self.tools;
        let at = columns.at.get_val(document);
        let Likeness { tool, is_failed, .. } = Likeness::unpack(columns.likeness.get_val(document));
        at >= self.span.0
            && at <= self.span.1
            && (tools.is_empty() || tools.contains(&tool))
            && !without.contains(&tool)
            && self.is_failed.is_none_or(|wanted| wanted == is_failed)
    }
}

impl Gather {
    /// Gathers in one part of the index.
    pub(super) fn collect(
        &self,
        weight: &dyn Weight,
        (part, segment): (u16, &SegmentReader),
    ) -> tantivy::Result<Vec<Group>> {
        let lengths = self.document_lengths.as_ref().map(|it| it.in_part(segment)).transpose()?;
        let mut gathering = Gathering::new(self, part, lengths);
        match segment.alive_bitset() {
            None => weight.for_each(segment, &mut |document, score| {
                gathering.take(document, score);
            })?,
            Some(alive) => weight.for_each(segment, &mut |document, score| {
                if alive.is_alive(document) {
                    gathering.take(document, score);
                }
            })?,
        }
        Ok(gathering.finish())
    }

    /// Puts together what was gathered in all parts.
    pub(super) fn merge(&self, found: Vec<Vec<Group>>) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::with_capacity(found.iter().map(Vec::len).sum());
        let mut known: Map<u64, usize> = Map::default();
        known.reserve(groups.capacity());
        for group in found.into_iter().flatten() {
            match known.get(&group.telling) {
                Some(at) => groups[*at].join(group, self.keep, &self.places),
                None => {
                    known.insert(group.telling, groups.len());
                    groups.push(group);
                }
            }
        }
        groups
    }
}

/// Documents whose columns are yet to be read.
#[derive(Clone, Copy)]
struct Block {
    documents: [DocId; BLOCK],
    scores: [Score; BLOCK],
    count: usize,
}

/// What was gathered so far in one part of the index.
struct Gathering<'g> {
    gather: &'g Gather,
    columns: &'g Columns,
    part: u16,
    /// What a match counts in passages of each sort.
    weights: [Score; SORTS],
    document_lengths: Option<PartLengths<'g>>,
    today: u16,
    /// What a match counts at each age: dividing at every match would take longer.
    recency: [Score; RECENT],
    /// Whether more than sort and session decides what is wanted.
    is_choosy: bool,
    /// Whether some recordings begin with messages that are found elsewhere.
    has_shared: bool,
    block: Block,
    groups: Vec<Group>,
    /// What is needed of each group whenever a match is added.
    tops: Vec<Top>,
    by_telling: Map<u64, Option<usize>>,
    /// Matches of one session mostly follow each other; two were read at a time.
    last: [Option<(u64, Option<usize>)>; 2],
}

/// What is known of a group while matches are added to it.
struct Top {
    /// What is worth less is not among the best.
    floor: Score,
    /// The mark of the last match, if there was one, and its passage.
    mark: u32,
    document: DocId,
    count: u32,
}

impl<'g> Gathering<'g> {
    fn new(gather: &'g Gather, part: u16, document_lengths: Option<PartLengths<'g>>) -> Self {
        let is_open = gather.span == (i64::MIN, i64::MAX)
            && gather.tools == <_>::default()
            && gather.is_failed.is_none();
        Self {
            gather,
            columns: gather.places.part(part),
            part,
            weights: gather.weights(),
            document_lengths,
            today: day(gather.now),
            recency: std::array::from_fn(|age| recency_at(age as u16)),
            is_choosy: !is_open,
            has_shared: !gather.shared.is_empty(),
            block: Block { documents: [0; BLOCK], scores: [0.0; BLOCK], count: 0 },
            groups: Vec::new(),
            tops: Vec::new(),
            by_telling: Map::default(),
            last: [None; 2],
        }
    }

    #[inline]
    fn take(&mut self, document: DocId, score: Score) {
        let Block { documents, scores, count } = &mut self.block;
        (documents[*count], scores[*count]) = (document, score);
        *count += 1;
        if *count == BLOCK {
            self.flush();
        }
    }

    fn finish(mut self) -> Vec<Group> {
        self.flush();
        for (group, top) in self.groups.iter_mut().zip(&self.tops) {
            group.count = u64::from(top.count);
            group.sort(&self.gather.places);
        }
        self.groups
    }

    /// The group of a telling; `None` when it may not be gathered.
    #[inline]
    fn group(&mut self, telling: u64) -> Option<usize> {
        if let [Some((known, at)), _] = self.last
            && known == telling
        {
            return at;
        }
        self.last.swap(0, 1);
        if let [Some((known, at)), _] = self.last
            && known == telling
        {
            return at;
        }
        let at = *self.by_telling.entry(telling).or_insert_with(|| {
            self.gather.allows(telling).then(|| {
                self.groups.push(Group::new(telling, Tier::AllWords));
                let floor = Score::NEG_INFINITY;
                self.tops.push(Top { floor, mark: u32::MAX, document: 0, count: 0 });
                self.groups.len() - 1
            })
        });
        self.last[0] = Some((telling, at));
        at
    }

    /// Reads the columns of a block at once: one call per document and column would cost more
    /// than all the rest.
    fn flush(&mut self) {
        let Block { documents, scores, count } = self.block;
        self.block.count = 0;
        if self.gather.stop.is_set() {
            return;
        }
        let mut traits = [0; BLOCK];
        let mut tellings = [0; BLOCK];
        self.columns.traits.get_vals(&documents[..count], &mut traits[..count]);
        self.columns.telling.get_vals(&documents[..count], &mut tellings[..count]);
        for at in 0..count {
            let traits = Traits::unpack(traits[at]);
            let weight = self.weights[traits.sort()];
            let document = documents[at];
            let is_wanted = !self.is_choosy || self.gather.wants(self.columns, document);
            if weight == 0.0 || !is_wanted {
                continue;
            }
            // Not even an empty group is made for a copy.
            if self.has_shared && self.is_copy(tellings[at], document) {
                continue;
            }
            let Some(group) = self.group(tellings[at]) else { continue };
            let age = self.today.saturating_sub(traits.day());
            let recency = self.recency.get(usize::from(age)).copied();
            let recency = recency.unwrap_or_else(|| recency_at(age));
            let mut score = without_noise(scores[at]) * weight * recency;
            if traits.kind() == TextKind::Document {
                score *= self.length_weight(document);
            }
            self.add(group, score, (document, traits.mark()));
        }
    }

    /// Makes up for the length of a document about a session as a whole. A summary inside a
    /// conversation repeats it, and is weighed like any other message.
    fn length_weight(&self, document: DocId) -> Score {
        let is_whole = Columns::place(self.columns.position.get_val(document)).is_none();
        self.document_lengths.as_ref().filter(|_| is_whole).map_or(1.0, |it| it.weight(document))
    }

    /// Whether a passage is found in the session it belongs to, and not in this copy of it.
    fn is_copy(&self, telling: u64, document: DocId) -> bool {
        let position = Columns::place(self.columns.position.get_val(document));
        self.gather.is_copy(telling, position)
    }

    /// Adds a match to a group; passages of one text are one match.
    #[inline]
    fn add(&mut self, group: usize, score: Score, (document, mark): (DocId, u16)) {
        let top = &mut self.tops[group];
        // Passages of one text follow each other.
        let mut is_known = top.mark == u32::from(mark)
            && self.columns.position.get_val(top.document)
                == self.columns.position.get_val(document);
        (top.mark, top.document) = (u32::from(mark), document);
        if score >= top.floor {
            let group = &mut self.groups[group];
            let place = Place::Passage { part: self.part, document, mark };
            let new = Match { score, place };
            is_known |= add_high(&mut group.best, new, self.gather);
            if group.best.len() >= self.gather.keep {
                top.floor = group.best.last().map_or(top.floor, |worst| worst.score);
            }
        }
        top.count += u32::from(!is_known);
    }
}

/// Adds one of the best matches so far; says whether there was one in the same text. They are in
/// order, unless everything is kept.
fn add_high(best: &mut Vec<Match>, new: Match, Gather { keep, places, .. }: &Gather) -> bool {
    if *keep > BEST {
        // All of a list need not be looked through.
        let known = best.last_mut().filter(|last| places.are_same(last, &new));
        return match known {
            Some(known) => {
                known.score = known.score.max(new.score);
                true
            }
            None => {
                best.push(new);
                false
            }
        };
    }
    let known = best.iter().position(|one| places.are_same(one, &new));
    let at = best.partition_point(|one| places.compare(one, &new).is_lt());
    match known {
        Some(known) if best[known].score >= new.score => return true,
        Some(known) => drop(best.remove(known)),
        None if at >= *keep => return false,
        None if best.len() >= *keep => drop(best.pop()),
        None => best.reserve_exact(keep - best.len()),
    }
    best.insert(at, new);
    known.is_some()
}

/// Rounds a score. The engine adds its terms up in an order that differs between parts of the
/// index, and the last bits with it: they must not decide between texts that are the same.
#[inline]
fn without_noise(score: Score) -> Score {
    const NOISE: u32 = 10;
    let half = 1 << (NOISE - 1);
    Score::from_bits(score.to_bits().saturating_add(half) >> NOISE << NOISE)
}

/// A number that is higher for a higher score, and quicker to compare.
pub(super) fn rank(score: Score) -> i32 {
    let bits = score.to_bits().cast_signed();
    // Of two numbers below zero the one with the lower bits is higher.
    bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()
}

/// A mild preference for what is recent: a fifth more today, half of that after a month.
fn recency_at(age: u16) -> Score {
    1.0 + 0.2 * 30.0 / (30.0 + Score::from(age))
}

#[cfg(test)]
mod tests {
    use tantivy::query::{EnableScoring, Query, TermQuery};
    use tantivy::schema::IndexRecordOption;
    use tantivy::{Searcher, Term};

    use super::*;
    use crate::index::{Lexical, LexicalWriter, Passage, Stamped};

    /// What is said in a session, with how often the word is in it.
    type Said = (u64, TextKind, usize);

    /// Gathers the passages of a word in an index, of which each part holds what one session
    /// says at a time.
    fn gather(parts: &[&[Said]], keep: usize) -> (Vec<Group>, Places) {
        let directory = tempfile::tempdir().unwrap();
        let (mut writer, _) = LexicalWriter::open(directory.path(), 1, 15 << 20).unwrap();
        for part in parts {
            for (position, kind, count) in *part {
                let text = "word ".repeat(*count) + &"other ".repeat(50 - count);
                let passage = Passage::whole(*kind, &text);
                let stamped = Stamped { telling: 1, position: Some(*position), at: 0, passage };
                writer.add(&stamped).unwrap();
            }
            writer.prepare().unwrap().commit(1).unwrap();
        }
        let lexical = Lexical::open(directory.path(), 1).unwrap();
        let searcher = lexical.searcher();
        let gather = all(&searcher, keep);
        let term = Term::from_field_text(lexical.body(), "word");
        let query = TermQuery::new(term, IndexRecordOption::WithFreqs);
        let weight = query.weight(EnableScoring::enabled_from_searcher(&searcher)).unwrap();
        let segments = searcher.segment_readers().iter().enumerate();
        let found = segments.map(|(part, it)| gather.collect(&*weight, (part as u16, it)).unwrap());
        (gather.merge(found.collect()), gather.places.clone())
    }

    fn all(searcher: &Searcher, keep: usize) -> Gather {
        Gather {
            only: None,
            hidden: Arc::default(),
            shared: Arc::default(),
            kinds: TextKind::ALL.to_vec(),
            tools: (Vec::new(), Vec::new()),
            is_failed: None,
            is_side: None,
            span: (i64::MIN, i64::MAX),
            now: 0,
            keep,
            places: Places::of(searcher).unwrap(),
            document_lengths: None,
            stop: StopFlag::default(),
        }
    }

    fn positions(group: &Group, places: &Places) -> Vec<Option<u64>> {
        group.best.iter().map(|one| places.text(one).position).collect()
    }

    use TextKind::{Prompt, Reply};

    const SAID: &[Said] =
        &[(1, Prompt, 1), (2, Prompt, 4), (2, Prompt, 9), (3, Prompt, 2), (4, Prompt, 3)];

    #[test]
    fn a_group_keeps_its_best_matches_and_counts_the_others() {
        let (groups, places) = gather(&[SAID], 3);
        assert_eq!(groups.len(), 1);
        assert_eq!(positions(&groups[0], &places), [Some(2), Some(4), Some(3)]);
        assert_eq!(groups[0].count, 4);
        assert!(groups[0].best.is_sorted_by(|a, b| a.score > b.score));
    }

    #[test]
    fn every_match_is_kept_when_all_are_wanted() {
        let (groups, places) = gather(&[SAID], usize::MAX);
        assert_eq!(positions(&groups[0], &places), [Some(2), Some(4), Some(3), Some(1)]);
    }

    #[test]
    fn passages_of_a_text_that_is_not_among_the_best_are_one_match() {
        let said = &[SAID, &[(9, Prompt, 1), (9, Prompt, 1), (9, Reply, 1)]].concat();
        assert_eq!(gather(&[said], 3).0[0].count, 6);
    }

    #[test]
    fn texts_with_the_same_mark_are_two_matches() {
        let (groups, places) = gather(&[&[(1, Prompt, 3), (1 + (1 << 13), Prompt, 2)]], 3);
        assert_eq!(positions(&groups[0], &places), [Some(1), Some(1 + (1 << 13))]);
        assert_eq!(groups[0].count, 2);
    }

    #[test]
    fn a_session_in_several_parts_is_one_group() {
        let (groups, places) = gather(&[SAID, &[(2, Prompt, 20), (5, Prompt, 5)]], 3);
        assert_eq!(groups.len(), 1);
        assert_eq!(positions(&groups[0], &places), [Some(2), Some(5), Some(4)]);
        assert_eq!(groups[0].count, 5);
    }

    #[test]
    fn scores_that_differ_in_their_last_bits_only_are_the_same() {
        let check = |one: Score, other: Score, are_same: bool| {
            let bits = |score| without_noise(score).to_bits();
            assert_eq!(bits(one) == bits(other), are_same, "{one} {other}");
        };
        check(0.519_923_27, 0.519_923_3, true);
        check(0.519_923_27, 0.521, false);
        check(0.0, 0.0, true);
        assert!((without_noise(7.123_456) / 7.123_456 - 1.0).abs() < 1e-4);
    }

    #[test]
    fn ranks_are_in_the_order_of_scores() {
        let scores = [Score::NEG_INFINITY, -2.0, -0.5, -0.0, 0.0, 0.25, 7.5, Score::INFINITY];
        assert!(scores.map(rank).is_sorted_by(|a, b| a < b));
    }
}
