//! Collects matches by session while tantivy finds them, keeping the best few messages of each.

use std::sync::Arc;

use tantivy::query::Weight;
use tantivy::{DocId, Score, SegmentReader};

use super::answer::Tier;
use super::document_length::{DocumentLengths, PartLengths};
use super::places::{MatchPlace, MatchPlaces};
use crate::filter::TextKind;
use crate::index::{
    PASSAGE_CLASSES, PassageClass, PassageColumns, PassageFingerprint, RankKey, day,
};
use crate::interrupt::StopFlag;
use crate::maps::{Map, Set};

/// The maximum number of matches kept per session.
pub(super) const BEST: usize = 6;

/// The number of documents whose columns are read at a time.
const BLOCK: usize = 64;

/// The number of days for which the recency weight is precomputed.
const RECENT: usize = 512;

/// The conditions on matches, and the parameters of scoring.
#[derive(Clone)]
pub(super) struct SessionCollector {
    /// The only recordings to collect, if the search is restricted.
    pub(super) only: Option<Arc<Set<u64>>>,
    /// Recordings that are never collected.
    pub(super) hidden: Arc<Set<u64>>,
    /// Recordings that begin with messages of another one, with the number of those messages.
    pub(super) shared: Arc<Map<u64, u64>>,
    /// The kinds of text to collect.
    pub(super) kinds: Vec<TextKind>,
    /// The tools whose input and output are wanted (all if empty), and the excluded tools.
    pub(super) tools: (Vec<u16>, Vec<u16>),
    /// Whether passages must belong to a side conversation, or must not.
    pub(super) is_side: Option<bool>,
    /// Whether passages must report a failure, or must not.
    pub(super) is_failed: Option<bool>,
    /// The inclusive range of recording times, in milliseconds.
    pub(super) span: (i64, i64),
    /// The current time in milliseconds, from which age is counted.
    pub(super) now: i64,
    /// The maximum number of matches to keep per session.
    pub(super) keep: usize,
    pub(super) places: MatchPlaces,
    /// The length weights of documents about whole sessions; `None` when only some of the words are
    /// required.
    pub(super) document_lengths: Option<DocumentLengths>,
    /// Set when the search is cancelled.
    pub(super) stop: StopFlag,
}

/// The matches of one session.
#[derive(Clone, Debug)]
pub(super) struct MatchGroup {
    pub(super) recording: u64,
    pub(super) tier: Tier,
    pub(super) count: u64,
    /// The best matches.
    pub(super) best: Vec<PassageMatch>,
    /// The score of the session if matches by meaning contribute to it.
    pub(super) worth: Option<Score>,
}

/// A match with its score and location.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PassageMatch {
    pub(super) score: Score,
    pub(super) place: MatchPlace,
}

impl MatchGroup {
    pub(super) fn new(recording: u64, tier: Tier) -> Self {
        Self { recording, tier, count: 0, best: Vec::new(), worth: None }
    }

    /// Returns the score of the session: its best match, and a little for the next ones.
    pub(super) fn score(&self) -> Score {
        if let Some(worth) = self.worth {
            return worth;
        }
        let [first, rest @ ..] = self.best.as_slice() else { return 0.0 };
        first.score + 0.1 * rest.iter().take(2).map(|one| one.score).sum::<Score>()
    }

    /// Returns one group for each match.
    pub(super) fn apart(self) -> impl Iterator<Item = Self> {
        let Self { recording, tier, best, .. } = self;
        best.into_iter().map(move |one| Self {
            count: 1,
            best: vec![one],
            ..Self::new(recording, tier)
        })
    }

    /// Returns the time of the latest kept match.
    pub(super) fn at(&self, places: &MatchPlaces) -> i64 {
        self.best.iter().map(|one| places.text(one).at).max().unwrap_or(0)
    }

    /// Adds the matches of another group. Long lists are not compared for duplicates: they may
    /// contain a text twice if it is in two segments.
    pub(super) fn join(&mut self, other: Self, keep: usize, places: &MatchPlaces) {
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

    /// Adds a match by meaning, or adds its score to the same match by words. A new match is added
    /// only if it is near enough.
    pub(super) fn add_near(&mut self, new: PassageMatch, is_enough: bool, places: &MatchPlaces) {
        if let Some(known) = self.best.iter_mut().find(|one| places.are_same(one, &new)) {
            known.score += new.score;
        } else if is_enough {
            self.count += 1;
            self.best.push(new);
        }
        self.sort(places);
    }

    pub(super) fn sort(&mut self, places: &MatchPlaces) {
        self.best.sort_by(|one, other| places.compare(one, other));
    }
}

impl SessionCollector {
    /// Returns whether a recording may be collected.
    pub(super) fn allows(&self, recording: u64) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&recording))
            && !self.hidden.contains(&recording)
    }

    /// Returns whether a message belongs to another session, of which this recording holds a copy.
    pub(super) fn is_copy(&self, recording: u64, position: Option<u64>) -> bool {
        let shared = self.shared.get(&recording).copied().unwrap_or(0);
        position.is_some_and(|position| position < shared)
    }

    /// Returns the score factor for each passage class; zero for unwanted classes.
    pub(super) fn weights(&self) -> [Score; PASSAGE_CLASSES] {
        std::array::from_fn(|number| {
            let sort = PassageClass::of(number);
            let is_wanted = self.kinds.contains(&sort.kind)
                && self.is_side.is_none_or(|is_side| is_side == sort.is_side);
            if is_wanted { sort.kind.boost() * sort.worth } else { 0.0 }
        })
    }

    /// Returns whether a passage is in the time range, of a wanted tool, and failed if that is
    /// required.
    pub(super) fn wants(&self, columns: &PassageColumns, document: DocId) -> bool {
        let (tools, without) = &self.tools;
        let at = columns.at.get_val(document);
        let PassageFingerprint { tool, is_failed, .. } =
            PassageFingerprint::unpack(columns.likeness.get_val(document));
        at >= self.span.0
            && at <= self.span.1
            && (tools.is_empty() || tools.contains(&tool))
            && !without.contains(&tool)
            && self.is_failed.is_none_or(|wanted| wanted == is_failed)
    }
}

impl SessionCollector {
    /// Collects the matches of one segment.
    pub(super) fn collect(
        &self,
        weight: &dyn Weight,
        part: u16,
        segment: &SegmentReader,
    ) -> tantivy::Result<Vec<MatchGroup>> {
        let lengths = self.document_lengths.as_ref().map(|it| it.in_part(segment)).transpose()?;
        let mut segment_matches = SegmentCollector::new(self, part, lengths);
        match segment.alive_bitset() {
            None => weight.for_each(segment, &mut |document, score| {
                segment_matches.take(document, score);
            })?,
            Some(alive) => weight.for_each(segment, &mut |document, score| {
                if alive.is_alive(document) {
                    segment_matches.take(document, score);
                }
            })?,
        }
        Ok(segment_matches.finish())
    }

    /// Merges the groups of all segments.
    pub(super) fn merge(&self, found: Vec<Vec<MatchGroup>>) -> Vec<MatchGroup> {
        let mut groups: Vec<MatchGroup> = Vec::with_capacity(found.iter().map(Vec::len).sum());
        let mut known: Map<u64, usize> = Map::default();
        known.reserve(groups.capacity());
        for group in found.into_iter().flatten() {
            match known.get(&group.recording) {
                Some(at) => groups[*at].join(group, self.keep, &self.places),
                None => {
                    known.insert(group.recording, groups.len());
                    groups.push(group);
                }
            }
        }
        groups
    }
}

/// Documents whose columns are not read yet.
#[derive(Clone, Copy)]
struct ScoredBlock {
    documents: [DocId; BLOCK],
    scores: [Score; BLOCK],
    count: usize,
}

/// The groups collected so far in one segment.
struct SegmentCollector<'g> {
    collector: &'g SessionCollector,
    columns: &'g PassageColumns,
    part: u16,
    /// The score factor for each passage class.
    weights: [Score; PASSAGE_CLASSES],
    document_lengths: Option<PartLengths<'g>>,
    today: u16,
    /// The score factor for each age in days: a division per match would take longer.
    recency: [Score; RECENT],
    /// Whether passages must be filtered by time, tool or failure.
    is_choosy: bool,
    /// Whether some recordings begin with messages that belong to another session.
    has_shared: bool,
    block: ScoredBlock,
    groups: Vec<MatchGroup>,
    /// The state of each group that is needed for every match.
    tops: Vec<GroupTop>,
    by_recording: Map<u64, Option<usize>>,
    /// The two groups used last: consecutive matches mostly belong to the same session.
    last: [Option<(u64, Option<usize>)>; 2],
}

/// The state of a group while matches are added to it.
struct GroupTop {
    /// The lowest score among the kept matches.
    floor: Score,
    /// The message tag of the last match, if there was one, and its passage.
    tag: u32,
    document: DocId,
    count: u32,
}

impl<'g> SegmentCollector<'g> {
    fn new(
        collector: &'g SessionCollector,
        part: u16,
        document_lengths: Option<PartLengths<'g>>,
    ) -> Self {
        let is_open = collector.span == (i64::MIN, i64::MAX)
            && collector.tools == <_>::default()
            && collector.is_failed.is_none();
        Self {
            collector,
            columns: collector.places.part(part),
            part,
            weights: collector.weights(),
            document_lengths,
            today: day(collector.now),
            recency: std::array::from_fn(|age| recency_at(age as u16)),
            is_choosy: !is_open,
            has_shared: !collector.shared.is_empty(),
            block: ScoredBlock { documents: [0; BLOCK], scores: [0.0; BLOCK], count: 0 },
            groups: Vec::new(),
            tops: Vec::new(),
            by_recording: Map::default(),
            last: [None; 2],
        }
    }

    #[inline]
    fn take(&mut self, document: DocId, score: Score) {
        let ScoredBlock { documents, scores, count } = &mut self.block;
        (documents[*count], scores[*count]) = (document, score);
        *count += 1;
        if *count == BLOCK {
            self.flush();
        }
    }

    fn finish(mut self) -> Vec<MatchGroup> {
        self.flush();
        for (group, top) in self.groups.iter_mut().zip(&self.tops) {
            group.count = u64::from(top.count);
            group.sort(&self.collector.places);
        }
        self.groups
    }

    /// Returns the group of a recording, or `None` if it may not be collected.
    #[inline]
    fn group(&mut self, recording: u64) -> Option<usize> {
        if let [Some((known, at)), _] = self.last
            && known == recording
        {
            return at;
        }
        self.last.swap(0, 1);
        if let [Some((known, at)), _] = self.last
            && known == recording
        {
            return at;
        }
        let at = *self.by_recording.entry(recording).or_insert_with(|| {
            self.collector.allows(recording).then(|| {
                self.groups.push(MatchGroup::new(recording, Tier::AllWords));
                let floor = Score::NEG_INFINITY;
                self.tops.push(GroupTop { floor, tag: u32::MAX, document: 0, count: 0 });
                self.groups.len() - 1
            })
        });
        self.last[0] = Some((recording, at));
        at
    }

    /// Reads the columns of a block at once: one call per document and column would cost more than
    /// everything else.
    fn flush(&mut self) {
        let ScoredBlock { documents, scores, count } = self.block;
        self.block.count = 0;
        if self.collector.stop.is_interrupted() {
            return;
        }
        let mut traits = [0; BLOCK];
        let mut recordings = [0; BLOCK];
        self.columns.traits.get_vals(&documents[..count], &mut traits[..count]);
        self.columns.recording.get_vals(&documents[..count], &mut recordings[..count]);
        for at in 0..count {
            let rank_key = RankKey::unpack(traits[at]);
            let weight = self.weights[rank_key.class_index()];
            let document = documents[at];
            let is_wanted = !self.is_choosy || self.collector.wants(self.columns, document);
            if weight == 0.0 || !is_wanted {
                continue;
            }
            // A copied message must not create an empty group.
            if self.has_shared && self.is_copy(recordings[at], document) {
                continue;
            }
            let Some(group) = self.group(recordings[at]) else { continue };
            let age = self.today.saturating_sub(rank_key.day());
            let recency = self.recency.get(usize::from(age)).copied();
            let recency = recency.unwrap_or_else(|| recency_at(age));
            let mut score = without_noise(scores[at]) * weight * recency;
            if rank_key.kind() == TextKind::Document {
                score *= self.length_weight(document);
            }
            self.add(group, score, document, rank_key.message_tag());
        }
    }

    /// Returns the factor that compensates for the length of a document about a whole session. A
    /// summary inside a conversation is scored like any other message, because it repeats the
    /// conversation.
    fn length_weight(&self, document: DocId) -> Score {
        let is_whole = PassageColumns::place(self.columns.position.get_val(document)).is_none();
        self.document_lengths.as_ref().filter(|_| is_whole).map_or(1.0, |it| it.weight(document))
    }

    /// Returns whether a passage belongs to another session, of which this recording holds a copy.
    fn is_copy(&self, recording: u64, document: DocId) -> bool {
        let position = PassageColumns::place(self.columns.position.get_val(document));
        self.collector.is_copy(recording, position)
    }

    /// Adds a match to a group; passages of one text count as one match.
    #[inline]
    fn add(&mut self, group: usize, score: Score, document: DocId, tag: u16) {
        let top = &mut self.tops[group];
        // Passages of one text are adjacent.
        let mut is_known = top.tag == u32::from(tag)
            && self.columns.position.get_val(top.document)
                == self.columns.position.get_val(document);
        (top.tag, top.document) = (u32::from(tag), document);
        if score >= top.floor {
            let group = &mut self.groups[group];
            let place = MatchPlace::Passage { part: self.part, document, tag };
            let new = PassageMatch { score, place };
            is_known |= add_high(&mut group.best, new, self.collector);
            if group.best.len() >= self.collector.keep {
                top.floor = group.best.last().map_or(top.floor, |worst| worst.score);
            }
        }
        top.count += u32::from(!is_known);
    }
}

/// Inserts a match among the best ones and returns whether one in the same text was present. The
/// matches are sorted, unless all of them are kept.
fn add_high(
    best: &mut Vec<PassageMatch>,
    new: PassageMatch,
    SessionCollector { keep, places, .. }: &SessionCollector,
) -> bool {
    if *keep > BEST {
        // Only the last entry of a complete list can be in the same text.
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

/// Rounds a score. Tantivy adds terms in an order that differs between segments, which changes the
/// last bits: they must not decide between equal texts.
#[inline]
fn without_noise(score: Score) -> Score {
    const NOISE: u32 = 10;
    let half = 1 << (NOISE - 1);
    Score::from_bits(score.to_bits().saturating_add(half) >> NOISE << NOISE)
}

/// Returns an integer that sorts like the score and is faster to compare.
pub(super) fn rank(score: Score) -> i32 {
    let bits = score.to_bits().cast_signed();
    // Of two negative floats, the one with the lower bits is higher.
    bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()
}

/// Returns the score factor for an age in days: a fifth more today, half of that after a month.
fn recency_at(age: u16) -> Score {
    1.0 + 0.2 * 30.0 / (30.0 + Score::from(age))
}

#[cfg(test)]
mod tests {
    use tantivy::query::{EnableScoring, Query, TermQuery};
    use tantivy::schema::IndexRecordOption;
    use tantivy::{Searcher, Term};

    use super::*;
    use crate::index::{Lexical, LexicalWriter, Passage, StampedPassage};

    /// The texts of a session, each with the number of occurrences of the word.
    type TextWithCount = (u64, TextKind, usize);

    /// Collects the passages of a word in an index, in which each segment holds the texts of one
    /// session at a time.
    fn collect_word(parts: &[&[TextWithCount]], keep: usize) -> (Vec<MatchGroup>, MatchPlaces) {
        let directory = tempfile::tempdir().unwrap();
        let (mut writer, _) = LexicalWriter::open(directory.path(), 1, 15 << 20).unwrap();
        for part in parts {
            for (position, kind, count) in *part {
                let text = "word ".repeat(*count) + &"other ".repeat(50 - count);
                let passage = Passage::whole(*kind, &text);
                let stamped =
                    StampedPassage { recording: 1, position: Some(*position), at: 0, passage };
                writer.add(&stamped).unwrap();
            }
            writer.prepare().unwrap().commit(1).unwrap();
        }
        let lexical = Lexical::open(directory.path(), 1).unwrap();
        let searcher = lexical.searcher();
        let collector = all(&searcher, keep);
        let term = Term::from_field_text(lexical.body(), "word");
        let query = TermQuery::new(term, IndexRecordOption::WithFreqs);
        let weight = query.weight(EnableScoring::enabled_from_searcher(&searcher)).unwrap();
        let segments = searcher.segment_readers().iter().enumerate();
        let found =
            segments.map(|(part, it)| collector.collect(&*weight, part as u16, it).unwrap());
        (collector.merge(found.collect()), collector.places.clone())
    }

    fn all(searcher: &Searcher, keep: usize) -> SessionCollector {
        SessionCollector {
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
            places: MatchPlaces::of(searcher).unwrap(),
            document_lengths: None,
            stop: StopFlag::default(),
        }
    }

    fn positions(group: &MatchGroup, places: &MatchPlaces) -> Vec<Option<u64>> {
        group.best.iter().map(|one| places.text(one).position).collect()
    }

    use TextKind::{Prompt, Reply};

    const SAID: &[TextWithCount] =
        &[(1, Prompt, 1), (2, Prompt, 4), (2, Prompt, 9), (3, Prompt, 2), (4, Prompt, 3)];

    #[test]
    fn a_group_keeps_its_best_matches_and_counts_the_others() {
        let (groups, places) = collect_word(&[SAID], 3);
        assert_eq!(groups.len(), 1);
        assert_eq!(positions(&groups[0], &places), [Some(2), Some(4), Some(3)]);
        assert_eq!(groups[0].count, 4);
        assert!(groups[0].best.is_sorted_by(|a, b| a.score > b.score));
    }

    #[test]
    fn every_match_is_kept_when_all_are_wanted() {
        let (groups, places) = collect_word(&[SAID], usize::MAX);
        assert_eq!(positions(&groups[0], &places), [Some(2), Some(4), Some(3), Some(1)]);
    }

    #[test]
    fn passages_of_a_text_that_is_not_among_the_best_are_one_match() {
        let said = &[SAID, &[(9, Prompt, 1), (9, Prompt, 1), (9, Reply, 1)]].concat();
        assert_eq!(collect_word(&[said], 3).0[0].count, 6);
    }

    #[test]
    fn texts_with_the_same_mark_are_two_matches() {
        let (groups, places) = collect_word(&[&[(1, Prompt, 3), (1 + (1 << 13), Prompt, 2)]], 3);
        assert_eq!(positions(&groups[0], &places), [Some(1), Some(1 + (1 << 13))]);
        assert_eq!(groups[0].count, 2);
    }

    #[test]
    fn a_session_in_several_parts_is_one_group() {
        let (groups, places) = collect_word(&[SAID, &[(2, Prompt, 20), (5, Prompt, 5)]], 3);
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
