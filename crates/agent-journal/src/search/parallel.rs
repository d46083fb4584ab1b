//! Collects the matches of a query segment by segment, so that threads can share the work.

use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};

use tantivy::Searcher;
use tantivy::query::{EnableScoring, Query, Weight};

use super::collector::{MatchGroup, SessionCollector};
use super::statistics::Statistics;
use crate::index::guarded;
use crate::work_share::{Pieces, SharedJob, WorkShare};

/// Collects all matches of a query, shared with a worker thread.
pub(super) fn collect_matches(
    query: &dyn Query,
    statistics: &Statistics<'_>,
    collector: &Arc<SessionCollector>,
    helper: &WorkShare,
) -> tantivy::Result<Vec<MatchGroup>> {
    let searcher = statistics.searcher();
    let scoring = EnableScoring::enabled_from_statistics_provider(statistics, searcher);
    let weight = query.weight(scoring)?;
    let parts = Arc::new(SegmentSearch {
        searcher: searcher.clone(),
        weight,
        collector: Arc::clone(collector),
        pieces: Pieces::new(searcher.segment_readers().len()),
        found: Mutex::default(),
    });
    helper.share(&parts);
    Ok(collector.merge(parts.take_matches()?))
}

/// The segments to search, and their results.
struct SegmentSearch {
    searcher: Searcher,
    weight: Box<dyn Weight>,
    collector: Arc<SessionCollector>,
    pieces: Pieces,
    found: Mutex<Vec<(usize, SegmentMatches)>>,
}

/// The matches of a segment; `None` when reading it panicked.
type SegmentMatches = Option<tantivy::Result<Vec<MatchGroup>>>;

impl SegmentSearch {
    /// Waits for all workers and returns the matches in the order of the segments.
    fn take_matches(&self) -> tantivy::Result<Vec<Vec<MatchGroup>>> {
        self.pieces.wait();
        let mut found = take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner));
        found.sort_by_key(|(at, _)| *at);
        let found = found.into_iter().map(|(_, found)| found.expect("the index can be read"));
        found.collect()
    }
}

impl SharedJob for SegmentSearch {
    fn step(&self) -> bool {
        self.pieces.take(|at| {
            if self.collector.stop.is_interrupted() {
                return;
            }
            let segment = self.searcher.segment_reader(at as u32);
            let collect = || self.collector.collect(self.weight.as_ref(), at as u16, segment);
            // The caller reports a panic; the worker thread continues.
            let found = guarded(collect);
            self.found.lock().unwrap_or_else(PoisonError::into_inner).push((at, found));
        })
    }

    fn is_done(&self) -> bool {
        self.pieces.are_done()
    }
}
