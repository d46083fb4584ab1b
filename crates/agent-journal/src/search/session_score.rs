//! Scores whole sessions: the words of a question may be spread over many short messages, of which
//! none has more than one or two.

use tantivy::postings::Postings;
use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Score, SegmentReader, TERMINATED, Term};

use super::engine::QueryCompiler;
use super::places::MatchPlaces;
use crate::filter::TextKind;
use crate::index::{PassageColumns, RankKey};
use crate::maps::Map;

/// The constants `k1` and `b` of BM25.
const SATURATION: Score = 1.2;
const LENGTH_SHARE: Score = 0.75;

/// A word of a question, with all its forms in the index.
#[derive(Clone, Debug)]
pub(super) struct ScoredWord {
    pub(super) forms: Vec<String>,
    /// How rare the word is, in any form.
    pub(super) rarity: Score,
}

/// The counts of one session.
#[derive(Clone, Default)]
struct SessionCounts {
    /// How often each word occurs.
    words: Vec<Score>,
    length: Score,
}

/// Computes the score of each recording by BM25 over all its texts.
pub(super) fn score_sessions(
    compiler: &QueryCompiler<'_>,
    places: &MatchPlaces,
    words: &[ScoredWord],
    recordings: &[u64],
) -> tantivy::Result<Map<u64, Score>> {
    let mut counts =
        vec![SessionCounts { words: vec![0.0; words.len()], length: 0.0 }; recordings.len()];
    let searcher = compiler.statistics.searcher();
    for (part, segment) in searcher.segment_readers().iter().enumerate() {
        let columns = places.part(part as u16);
        count_in_segment(compiler, segment, columns, words, recordings, &mut counts)?;
    }
    let total: Score = counts.iter().map(|one| one.length).sum();
    let average = (total / recordings.len().max(1) as Score).max(1.0);
    let score = |one: &SessionCounts| {
        let damping = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * one.length / average);
        let worth = |(word, count): (&ScoredWord, &Score)| {
            word.rarity * count * (SATURATION + 1.0) / (count + damping)
        };
        words.iter().zip(&one.words).map(worth).sum::<Score>()
    };
    Ok(recordings.iter().copied().zip(counts.iter().map(score)).collect())
}

fn count_in_segment(
    compiler: &QueryCompiler<'_>,
    segment: &SegmentReader,
    columns: &PassageColumns,
    words: &[ScoredWord],
    recordings: &[u64],
    counts: &mut [SessionCounts],
) -> tantivy::Result<()> {
    let lengths = segment.get_fieldnorms_reader(compiler.field)?;
    let by_recording = segment.inverted_index(compiler.recording)?;
    let mut passages: Vec<(DocId, usize, Score)> = Vec::new();
    for (at, recording) in recordings.iter().enumerate() {
        let term = Term::from_field_u64(compiler.recording, *recording);
        let Some(mut found) = by_recording.read_postings(&term, IndexRecordOption::Basic)? else {
            continue;
        };
        while found.doc() != TERMINATED {
            let passage = found.doc();
            found.advance();
            if segment.is_deleted(passage) {
                continue;
            }
            let weight = weight_of(RankKey::unpack(columns.traits.get_val(passage)));
            counts[at].length += weight * lengths.fieldnorm(passage) as Score;
            passages.push((passage, at, weight));
        }
    }
    passages.sort_unstable_by_key(|(passage, ..)| *passage);
    let inverted = segment.inverted_index(compiler.field)?;
    for (number, word) in words.iter().enumerate() {
        for form in &word.forms {
            let term = Term::from_field_text(compiler.field, form);
            let option = IndexRecordOption::WithFreqs;
            let Some(mut found) = inverted.read_postings(&term, option)? else { continue };
            for (passage, at, weight) in &passages {
                if found.doc() < *passage {
                    found.seek(*passage);
                }
                if found.doc() == *passage {
                    counts[*at].words[number] += weight * found.term_freq() as Score;
                }
            }
        }
    }
    Ok(())
}

/// Returns how much a text counts for its session: what tools print is long and says little about
/// it.
fn weight_of(key: RankKey) -> Score {
    match key.kind() {
        TextKind::ToolInput => 0.6,
        TextKind::ToolOutput => 0.4,
        _ => 1.0,
    }
}

impl QueryCompiler<'_> {
    /// Returns how rare a word is that this many passages contain, as BM25 counts it.
    pub(super) fn rarity(&self, frequency: u64) -> tantivy::Result<Score> {
        let passages = self.statistics.total_num_docs()?;
        let without = passages.saturating_sub(frequency) as Score + 0.5;
        Ok((without / (frequency as Score + 0.5)).ln_1p())
    }
}
