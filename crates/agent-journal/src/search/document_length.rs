//! Weighs texts about a session as a whole (checkpoints, plans, summaries) regardless of length.
//!
//! BM25 counts a match in a long text for less. Checkpoints are long and say what a session came
//! to, so a reply of five words would come before them. A document that has all words is therefore
//! weighed as if it were short.

use tantivy::fieldnorm::FieldNormReader;
use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::Field;
use tantivy::{DocId, Score, SegmentReader};

use super::statistics::Statistics;

/// The constants of BM25 as the engine has them: `k1` and `b`.
const SATURATION: Score = 1.2;
const LENGTH_SHARE: Score = 0.75;

/// A longer document counts as one with this share of the average length. With a half, one that
/// names each word once comes before any reply that does, also after meanings were added up.
const COUNTED_SHARE: Score = 0.5;

/// Weights of documents by their length.
#[derive(Clone)]
pub(super) struct DocumentLengths {
    field: Field,
    /// The weight for each length, by the engine's number for lengths.
    weights: Box<[Score; 256]>,
}

/// The same in one part of the index.
pub(super) struct PartLengths<'l> {
    norms: FieldNormReader,
    weights: &'l [Score; 256],
}

impl DocumentLengths {
    /// Reads how long the passages of an index are on average.
    pub(super) fn of(statistics: &Statistics<'_>, field: Field) -> tantivy::Result<Self> {
        let tokens = statistics.total_num_tokens(field)? as Score;
        let passages = statistics.total_num_docs()?.max(1) as Score;
        let average = (tokens / passages).max(1.0);
        let weights = std::array::from_fn(|id| {
            let length = FieldNormReader::id_to_fieldnorm(id as u8) as Score;
            weight(length, average)
        });
        Ok(Self { field, weights: Box::new(weights) })
    }

    /// Opens the lengths of one part of the index.
    pub(super) fn in_part(&self, segment: &SegmentReader) -> tantivy::Result<PartLengths<'_>> {
        Ok(PartLengths {
            norms: segment.get_fieldnorms_reader(self.field)?,
            weights: &self.weights,
        })
    }
}

impl PartLengths<'_> {
    /// Returns the factor that makes up for the length of a document.
    pub(super) fn weight(&self, document: DocId) -> Score {
        self.weights[usize::from(self.norms.fieldnorm_id(document))]
    }
}

/// Returns how much less a word counts in a text of this length than in a short one.
fn weight(length: Score, average: Score) -> Score {
    let damping =
        |length: Score| 1.0 + SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * length / average);
    damping(length) / damping(length.min(COUNTED_SHARE * average))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_document_is_made_up_for_and_a_short_one_stays_as_it_is() {
        assert!((weight(20.0, 100.0) - 1.0).abs() < 1e-6);
        assert!((weight(50.0, 100.0) - 1.0).abs() < 1e-6);
        assert!(weight(100.0, 100.0) > 1.2);
        assert!(weight(1_000.0, 100.0) > weight(500.0, 100.0));
    }
}
