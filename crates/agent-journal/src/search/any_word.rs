//! A query for any of many words. One scorer per word, for some hundred words of which most occur
//! in a handful of passages, costs more than reading all their matches at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tantivy::index::SegmentId;
use tantivy::postings::{BlockSegmentPostings, TermInfo};
use tantivy::query::{Bm25Weight, EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, Score, SegmentReader, TERMINATED};

use super::statistics::Statistics;

/// A word of the index.
#[derive(Clone, Debug)]
pub(super) struct IndexedWord {
    pub(super) text: String,
    /// The number of passages that contain it.
    pub(super) frequency: u64,
    /// Its postings list in each segment.
    lists: Vec<(SegmentId, TermInfo)>,
}

impl IndexedWord {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), frequency: 0, lists: Vec::new() }
    }

    /// Adds a segment that contains the word.
    pub(super) fn add(&mut self, part: SegmentId, list: TermInfo) {
        self.frequency += u64::from(list.doc_freq);
        self.lists.push((part, list));
    }

    /// Counts the passages again, without deleted ones.
    pub(super) fn count(&mut self, statistics: &Statistics<'_>) -> tantivy::Result<()> {
        self.frequency = 0;
        for (part, reader) in statistics.searcher().segment_readers().iter().enumerate() {
            let in_part = |list: &&(SegmentId, TermInfo)| list.0 == reader.segment_id();
            if let Some((_, list)) = self.lists.iter().find(in_part) {
                self.frequency += statistics.frequency_in(part, list)?;
            }
        }
        Ok(())
    }
}

/// A query for any of several words. A passage with several of them scores the sum of their scores.
#[derive(Clone, Debug)]
pub(super) struct AnyWord {
    field: Field,
    words: Arc<Vec<IndexedWord>>,
}

impl AnyWord {
    pub(super) fn new(field: Field, words: Vec<IndexedWord>) -> Self {
        Self { field, words: Arc::new(words) }
    }
}

impl Query for AnyWord {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        let size = match scoring {
            EnableScoring::Enabled { statistics_provider, .. } => Size {
                passages: statistics_provider.total_num_docs()?,
                words: statistics_provider.total_num_tokens(self.field)?,
            },
            // Scores are not used.
            EnableScoring::Disabled { .. } => {
                Size { passages: u64::MAX >> 1, words: u64::MAX >> 1 }
            }
        };
        let mut lists: HashMap<SegmentId, Vec<(TermInfo, Score)>> = HashMap::new();
        for word in &*self.words {
            let worth = size.worth(word.frequency) / size.worth(1);
            for (part, list) in &word.lists {
                lists.entry(*part).or_default().push((list.clone(), worth));
            }
        }
        let once = size.weight(1);
        Ok(Box::new(AnyWeight { field: self.field, lists, once, rooms: Arc::default() }))
    }
}

/// The size of the whole index.
struct Size {
    passages: u64,
    words: u64,
}

impl Size {
    /// Returns the inverse frequency of a word, without a factor common to all words.
    fn worth(&self, frequency: u64) -> Score {
        let without = self.passages.saturating_sub(frequency) as Score + 0.5;
        (without / (frequency as Score + 0.5)).ln_1p()
    }

    fn weight(&self, frequency: u64) -> Bm25Weight {
        let passages = self.passages.max(frequency);
        let average = self.words as Score / passages as Score;
        Bm25Weight::for_one_term_without_explain(frequency, passages, average)
    }
}

struct AnyWeight {
    field: Field,
    /// The postings of each segment, with the weight of a match relative to `single_weight`.
    lists: HashMap<SegmentId, Vec<(TermInfo, Score)>>,
    /// The weight of a word that occurs in one passage only.
    once: Bm25Weight,
    rooms: Arc<ScoreBuffers>,
}

/// Score buffers of finished segments, which later segments reuse: allocating new memory costs more
/// than writing the scores.
type ScoreBuffers = Mutex<Vec<ScoreBuffer>>;

/// The scores of the passages of one segment.
#[derive(Default)]
struct ScoreBuffer {
    scores: Vec<Score>,
    /// One bit for each passage with one of the words: faster to iterate than the scores.
    found: Vec<u64>,
}

impl ScoreBuffer {
    /// Clears the buffer and resizes it for this many passages.
    fn clear(&mut self, passages: usize) {
        self.scores.clear();
        self.scores.resize(passages, 0.0);
        self.found.clear();
        self.found.resize(passages.div_ceil(64), 0);
    }

    fn add(&mut self, passage: DocId, score: Score) {
        self.scores[passage as usize] += score;
        self.found[passage as usize / 64] |= 1 << (passage % 64);
    }

    /// Returns the first found passage at or after `from`.
    fn next(&self, from: DocId) -> Option<DocId> {
        let mut at = from as usize / 64;
        let mut bits = self.found.get(at)? & (u64::MAX << (from % 64));
        while bits == 0 {
            at += 1;
            bits = *self.found.get(at)?;
        }
        Some(at as DocId * 64 + bits.trailing_zeros())
    }
}

impl AnyWeight {
    /// Adds up the scores of every passage of a segment.
    fn add_up(&self, part: &SegmentReader, room: &mut ScoreBuffer) -> tantivy::Result<()> {
        let Some(lists) = self.lists.get(&part.segment_id()) else { return Ok(()) };
        let inverted = part.inverted_index(self.field)?;
        let lengths = part.get_fieldnorms_reader(self.field)?;
        let mut postings: Option<BlockSegmentPostings> = None;
        for (list, worth) in lists {
            let postings = match &mut postings {
                Some(open) => {
                    inverted.reset_block_postings_from_terminfo(list, open)?;
                    open
                }
                None => postings.insert(
                    inverted
                        .read_block_postings_from_terminfo(list, IndexRecordOption::WithFreqs)?,
                ),
            };
            while !postings.docs().is_empty() {
                for (passage, count) in postings.docs().iter().zip(postings.freqs()) {
                    let score = self.once.score(lengths.fieldnorm_id(*passage), *count);
                    room.add(*passage, score * worth);
                }
                postings.advance();
            }
        }
        Ok(())
    }
}

impl AnyWeight {
    /// Returns a scorer with all matches of a segment, not yet positioned on one.
    fn open(&self, part: &SegmentReader, boost: Score) -> tantivy::Result<AnyScorer> {
        let free = self.rooms.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut room = free.unwrap_or_default();
        room.clear(part.max_doc() as usize);
        self.add_up(part, &mut room)?;
        let lists = self.lists.get(&part.segment_id());
        let found = lists.into_iter().flatten().map(|(list, _)| list.doc_freq);
        let most = found.fold(0, u32::saturating_add).min(part.max_doc());
        let rooms = Arc::clone(&self.rooms);
        Ok(AnyScorer { room, boost, rooms, most, passage: TERMINATED })
    }
}

impl Weight for AnyWeight {
    fn scorer(&self, part: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let mut scorer = self.open(part, boost)?;
        scorer.go_to(0);
        Ok(Box::new(scorer))
    }

    fn for_each(
        &self,
        part: &SegmentReader,
        take: &mut dyn FnMut(DocId, Score),
    ) -> tantivy::Result<()> {
        let all = self.open(part, 1.0)?;
        for (found, at) in all.room.found.iter().zip((0..).step_by(64)) {
            let mut bits = *found;
            while bits != 0 {
                let passage: DocId = at + bits.trailing_zeros();
                take(passage, all.room.scores[passage as usize]);
                bits &= bits - 1;
            }
        }
        Ok(())
    }

    fn explain(&self, part: &SegmentReader, passage: DocId) -> tantivy::Result<Explanation> {
        let mut scorer = self.scorer(part, 1.0)?;
        scorer.seek(passage);
        Ok(Explanation::new("any of the words", scorer.score()))
    }
}

/// A scorer over the passages that contain one of the words.
struct AnyScorer {
    room: ScoreBuffer,
    boost: Score,
    passage: DocId,
    /// The maximum number of matches.
    most: u32,
    rooms: Arc<ScoreBuffers>,
}

impl AnyScorer {
    /// Moves to the first match at or after `from`.
    fn go_to(&mut self, from: DocId) -> DocId {
        self.passage = self.room.next(from).unwrap_or(TERMINATED);
        self.passage
    }
}

impl DocSet for AnyScorer {
    fn advance(&mut self) -> DocId {
        self.go_to(self.passage.saturating_add(1))
    }

    fn seek(&mut self, target: DocId) -> DocId {
        self.go_to(target)
    }

    fn doc(&self) -> DocId {
        self.passage
    }

    fn size_hint(&self) -> u32 {
        self.most
    }
}

impl Scorer for AnyScorer {
    fn score(&mut self) -> Score {
        self.room.scores.get(self.passage as usize).map_or(0.0, |score| score * self.boost)
    }
}

impl Drop for AnyScorer {
    fn drop(&mut self) {
        let room = std::mem::take(&mut self.room);
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner).push(room);
    }
}

#[cfg(test)]
mod tests {
    use tantivy::collector::{Count, TopDocs};
    use tantivy::query::{BooleanQuery, Occur, TermQuery};
    use tantivy::schema::{Schema, TEXT};
    use tantivy::{Index, Searcher, Term, doc};

    use super::super::engine::QueryCompiler;
    use super::*;
    use crate::interrupt::StopFlag;

    const TEXTS: [&str; 7] = [
        "token tokens tokenizer",
        "nothing of the kind",
        "tokenizer tokenizer and more words in a longer text",
        "tokens",
        "to",
        "a token at the end of the text",
        "toked",
    ];

    /// Returns the matches with their scores, the best first.
    fn found(searcher: &Searcher, query: &dyn Query) -> Vec<(tantivy::DocAddress, Score)> {
        let best = || TopDocs::with_limit(2000).order_by_score();
        let one_by_one = searcher.search(query, &best()).unwrap();
        // Together with another collector, all matches are returned at once.
        let (best, count) = searcher.search(query, &(best(), Count)).unwrap();
        assert_eq!((&best, count), (&one_by_one, best.len()));
        best.into_iter().map(|(score, place)| (place, score)).collect()
    }

    #[test]
    fn any_of_the_words_finds_what_a_search_for_each_finds_and_is_worth_as_much() {
        let mut schema = Schema::builder();
        let body = schema.add_text_field("body", TEXT);
        let index = Index::create_in_ram(schema.build());
        let mut writer = index.writer_with_num_threads(1, 15 << 20).unwrap();
        writer.set_merge_policy(Box::new(tantivy::indexer::NoMergePolicy));
        // Several segments, and more passages than one block of postings holds.
        for part in 0..3 {
            for number in 0..400 {
                let text = TEXTS[(number * 5 + part) % TEXTS.len()];
                writer.add_document(doc!(body => format!("{text} n{number}"))).unwrap();
            }
            writer.commit().unwrap();
        }
        let searcher = index.reader().unwrap().searcher();
        assert_eq!(searcher.segment_readers().len(), 3);
        let statistics = Statistics::new(&searcher, body);
        let stop = StopFlag::default();
        let statistics = &statistics;
        let engine = QueryCompiler { field: body, recording: body, statistics, stop: &stop };
        let known = engine.words_that(Some("token"), &|word| word.starts_with("token")).unwrap();
        let mut words: Vec<&str> = known.iter().map(|word| word.text.as_str()).collect();
        words.sort_unstable();
        assert_eq!(words, ["token", "tokenizer", "tokens"]);
        let apart = words.iter().map(|word| {
            let term = Term::from_field_text(body, word);
            let query = TermQuery::new(term, IndexRecordOption::WithFreqs);
            (Occur::Should, Box::new(query) as Box<dyn Query>)
        });
        let apart = found(&searcher, &BooleanQuery::new(apart.collect()));
        let together = found(&searcher, &AnyWord::new(body, known.clone()));
        assert_eq!(together.len(), apart.len());
        for (one, other) in together.iter().zip(&apart) {
            assert!((one.1 - other.1).abs() < 1e-4, "{one:?} {other:?}");
        }
        // Combined with another word it gives the same result.
        let another = Term::from_field_text(body, "n7");
        let both = BooleanQuery::new(vec![
            (Occur::Must, Box::new(AnyWord::new(body, known)) as Box<dyn Query>),
            (Occur::Must, Box::new(TermQuery::new(another, IndexRecordOption::WithFreqs))),
        ]);
        let expected = apart.iter().filter(|(place, _)| place.doc_id == 7).count();
        assert!(expected > 0);
        assert_eq!(found(&searcher, &both).len(), expected);
        assert!(found(&searcher, &AnyWord::new(body, Vec::new())).is_empty());
    }
}
