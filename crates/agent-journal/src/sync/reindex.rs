//! Makes what the store holds findable again: after a crash, after a change of the index's
//! version, or because somebody deleted it.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, Result};
use crate::index::{Calls, Passage, Targets, TextKind};
use crate::model::{Kind, Message};
use crate::store::{Store, Whole};

/// Indexes every telling that changed after a generation.
pub(super) fn tellings(
    path: &Path,
    store: &Store,
    index: Targets<'_>,
    generation: i64,
) -> Result<()> {
    let changed = store.changed_tellings(generation)?;
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).min(8);
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            let store = Store::open(path)?.ok_or(Error::Stopped)?;
            while let Some(telling) = changed.get(next.fetch_add(1, Ordering::Relaxed)) {
                telling_again(&store, index, *telling)?;
            }
            index.rest();
            Ok(())
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    wholes(&store.changed_wholes(generation)?, index, &HashSet::new())
}

fn telling_again(store: &Store, index: Targets<'_>, telling: u64) -> Result<()> {
    index.remove(telling)?;
    if store.account(telling)?.is_none_or(|account| account.kind == Kind::Copy) {
        return Ok(());
    }
    let mut calls = Calls::default();
    store.each_message(telling, |position, message: Message| {
        index.message((telling, position), &message, &mut calls)
    })
}

/// Indexes titles and documents of sessions. What is `fresh` was never indexed before.
pub(super) fn wholes(changed: &[Whole], index: Targets<'_>, fresh: &HashSet<u64>) -> Result<()> {
    for Whole { telling, at, title, documents } in changed {
        if !fresh.contains(telling) {
            index.remove_whole(*telling)?;
        }
        let documents = documents.iter().map(|(_, text)| (TextKind::Document, text));
        for (kind, text) in [(TextKind::Title, title)].into_iter().chain(documents) {
            index.whole(*telling, *at, Passage::whole(kind, text))?;
        }
    }
    index.rest();
    Ok(())
}
