//! Counts of passages and words for ranking. They exclude deleted passages: tantivy's own counts
//! include them, and so the same sessions would rank differently in a journal in which some were
//! rewritten.

use std::cell::OnceCell;

use tantivy::postings::TermInfo;
use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, Searcher, SegmentReader, TERMINATED, Term};

/// Counts for one field of an index.
pub(super) struct Statistics<'s> {
    searcher: &'s Searcher,
    field: Field,
    /// The deleted passages of each segment, in order.
    deleted: Vec<OnceCell<Vec<DocId>>>,
    words: OnceCell<u64>,
}

impl<'s> Statistics<'s> {
    pub(super) fn new(searcher: &'s Searcher, field: Field) -> Self {
        let deleted = searcher.segment_readers().iter().map(|_| OnceCell::new()).collect();
        Self { searcher, field, deleted, words: OnceCell::new() }
    }

    pub(super) fn searcher(&self) -> &'s Searcher {
        self.searcher
    }

    /// Returns the number of passages.
    fn passages(&self) -> u64 {
        self.searcher.segment_readers().iter().map(|part| u64::from(part.num_docs())).sum()
    }

    /// Returns the number of passages of a segment that contain a word, given its postings list.
    pub(super) fn frequency_in(&self, part: usize, list: &TermInfo) -> tantivy::Result<u64> {
        let reader = &self.searcher.segment_readers()[part];
        if !reader.has_deletes() {
            return Ok(u64::from(list.doc_freq));
        }
        let deleted = self.deleted[part].get_or_init(|| deleted_passages(reader));
        let inverted = reader.inverted_index(self.field)?;
        let mut found = inverted.read_postings_from_terminfo(list, IndexRecordOption::Basic)?;
        let mut count = u64::from(list.doc_freq);
        // The shorter of the two lists is scanned.
        if (list.doc_freq as usize) < deleted.len() {
            while found.doc() != TERMINATED {
                count -= u64::from(reader.is_deleted(found.doc()));
                found.advance();
            }
            return Ok(count);
        }
        for passage in deleted {
            if found.doc() < *passage {
                found.seek(*passage);
            }
            count -= u64::from(found.doc() == *passage);
        }
        Ok(count)
    }

    /// Sums the lengths of all passages, as precisely as they are stored. Tantivy's own sum is
    /// exact at first and estimated after a merge.
    fn count_words(&self) -> tantivy::Result<u64> {
        let mut words = 0;
        for part in self.searcher.segment_readers() {
            let lengths = part.get_fieldnorms_reader(self.field)?;
            let length = |passage: DocId| u64::from(lengths.fieldnorm(passage));
            words += match part.alive_bitset() {
                None => (0..part.max_doc()).map(length).sum::<u64>(),
                Some(alive) => alive.iter_alive().map(length).sum::<u64>(),
            };
        }
        Ok(words)
    }
}

fn deleted_passages(part: &SegmentReader) -> Vec<DocId> {
    (0..part.max_doc()).filter(|passage| part.is_deleted(*passage)).collect()
}

impl Bm25StatisticsProvider for Statistics<'_> {
    fn total_num_tokens(&self, _: Field) -> tantivy::Result<u64> {
        if let Some(words) = self.words.get() {
            return Ok(*words);
        }
        let words = self.count_words()?;
        Ok(*self.words.get_or_init(|| words))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.passages())
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let mut count = 0;
        for (part, reader) in self.searcher.segment_readers().iter().enumerate() {
            if let Some(list) = reader.inverted_index(self.field)?.get_term_info(term)? {
                count += self.frequency_in(part, &list)?;
            }
        }
        Ok(count)
    }
}
