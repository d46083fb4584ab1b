//! Scores texts about a whole session (checkpoints, plans, summaries) independently of their
//! length.
//!
//! BM25 gives a match in a long text a lower score. Checkpoints are long and hold the outcome of a
//! session, so a reply of five words would come before them. A document that has all words is
//! therefore scored as if it were short.

use tantivy::fieldnorm::FieldNormReader;
use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::Field;
use tantivy::{DocId, Score, SegmentReader};

use super::statistics::Statistics;

/// The constants `k1` and `b` of BM25, with the values that tantivy uses.
const SATURATION: Score = 1.2;
const LENGTH_SHARE: Score = 0.75;

/// The length, relative to the average, as which a longer document counts. At 0.5, a document that
/// names each word once comes before any reply that does, also after meanings were added up.
const COUNTED_SHARE: Score = 0.5;

/// Length weights of documents.
#[derive(Clone)]
pub(super) struct DocumentLengths {
    field: Field,
    /// The weight for each length, indexed by tantivy's fieldnorm id.
    weights: Box<[Score; 256]>,
}

/// The length weights of one segment.
pub(super) struct PartLengths<'l> {
    norms: FieldNormReader,
    weights: &'l [Score; 256],
}

impl DocumentLengths {
    /// Computes the weights from the average length of the indexed passages.
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

    /// Opens the lengths of one segment.
    pub(super) fn in_part(&self, segment: &SegmentReader) -> tantivy::Result<PartLengths<'_>> {
        Ok(PartLengths {
            norms: segment.get_fieldnorms_reader(self.field)?,
            weights: &self.weights,
        })
    }
}

impl PartLengths<'_> {
    /// Returns the factor that compensates for the length of a document.
    pub(super) fn weight(&self, document: DocId) -> Score {
        self.weights[usize::from(self.norms.fieldnorm_id(document))]
    }
}

/// Returns the factor by which the score of a word in a text of this length is lower than in a
/// short one.
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
