//! Gathers what a query finds, part by part of the index, so that threads can share the work.

use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};

use tantivy::Searcher;
use tantivy::query::{EnableScoring, Query, Weight};

use super::gather::{Gather, Group};
use super::statistics::Statistics;
use crate::helper::{Helper, Joint, Pieces};
use crate::index::guarded;

/// Gathers what a query finds.
pub(super) fn gather(
    query: &dyn Query,
    statistics: &Statistics<'_>,
    gather: &Arc<Gather>,
    helper: &Helper,
) -> tantivy::Result<Vec<Group>> {
    let searcher = statistics.searcher();
    let scoring = EnableScoring::enabled_from_statistics_provider(statistics, searcher);
    let weight = query.weight(scoring)?;
    let parts = Arc::new(Parts {
        searcher: searcher.clone(),
        weight,
        gather: Arc::clone(gather),
        pieces: Pieces::new(searcher.segment_readers().len()),
        found: Mutex::default(),
    });
    helper.share(&parts);
    Ok(gather.merge(parts.found()?))
}

/// The parts of the index, and what was found in them.
struct Parts {
    searcher: Searcher,
    weight: Box<dyn Weight>,
    gather: Arc<Gather>,
    pieces: Pieces,
    found: Mutex<Vec<(usize, Found)>>,
}

/// What was found in a part; `None` when reading it panicked.
type Found = Option<tantivy::Result<Vec<Group>>>;

impl Parts {
    /// Everything that was found, in the order of the parts; waits for everybody who takes part.
    fn found(&self) -> tantivy::Result<Vec<Vec<Group>>> {
        self.pieces.wait();
        let mut found = take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner));
        found.sort_by_key(|(at, _)| *at);
        let found = found.into_iter().map(|(_, found)| found.expect("the index can be read"));
        found.collect()
    }
}

impl Joint for Parts {
    fn step(&self) -> bool {
        self.pieces.take(|at| {
            if self.gather.stop.is_set() {
                return;
            }
            let segment = self.searcher.segment_reader(at as u32);
            let collect = || self.gather.collect(self.weight.as_ref(), (at as u16, segment));
            // Whoever asked is told of a panic, whoever helps goes on.
            let found = guarded(collect);
            self.found.lock().unwrap_or_else(PoisonError::into_inner).push((at, found));
        })
    }

    fn is_done(&self) -> bool {
        self.pieces.are_done()
    }
}
