//! Rebuilds the index from the store: after a crash, after a change of the index format, or if the
//! index was deleted.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::filter::TextKind;
use crate::index::{IndexTargets, KnownCalls, Passage};
use crate::model::{Message, SessionKind};
use crate::store::{SessionTexts, Store};

/// Indexes all recordings that changed after a generation.
pub(super) fn index_changed_recordings(
    path: &Path,
    store: &Store,
    index: IndexTargets<'_>,
    generation: i64,
) -> Result<()> {
    let changed = store.changed_recordings(generation)?;
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).min(8);
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            let store = Store::open(path)?.ok_or(Error::Stopped)?;
            while let Some(recording) = changed.get(next.fetch_add(1, Ordering::Relaxed)) {
                reindex_recording(&store, index, *recording)?;
            }
            index.rest();
            Ok(())
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    index_session_texts(&store.changed_session_texts(generation)?, index, &HashSet::new())
}

fn reindex_recording(store: &Store, index: IndexTargets<'_>, recording: u64) -> Result<()> {
    index.remove(recording)?;
    if store.metadata(recording)?.is_none_or(|metadata| metadata.kind == SessionKind::Copy) {
        return Ok(());
    }
    let mut calls = KnownCalls::default();
    store.each_message(recording, |position, message: Message| {
        index.message(recording, position, &message, &mut calls)
    })
}

/// Indexes the titles and documents of sessions. Recordings in `fresh` were never indexed before.
pub(super) fn index_session_texts(
    changed: &[SessionTexts],
    index: IndexTargets<'_>,
    fresh: &HashSet<u64>,
) -> Result<()> {
    for SessionTexts { recording, at, title, documents } in changed {
        if !fresh.contains(recording) {
            index.remove_whole(*recording)?;
        }
        let documents = documents.iter().map(|(_, text)| (TextKind::Document, text));
        for (kind, text) in [(TextKind::Title, title)].into_iter().chain(documents) {
            index.whole(*recording, *at, Passage::whole(kind, text))?;
        }
    }
    index.rest();
    Ok(())
}
