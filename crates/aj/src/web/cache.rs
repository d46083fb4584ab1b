//! Pages that were made already. Sums hold to the quarter hour, so that a page of sums stays true
//! until the journal changes or a quarter is over.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use agent_journal::Journal;
use anyhow::Result;
use jiff::Zoned;
use maud::{Markup, PreEscaped};

/// How many pages are kept.
const KEPT: usize = 24;

/// Seconds after which sums may differ.
const QUARTER: i64 = 15 * 60;

/// Pages that were made already, the oldest first.
#[derive(Default)]
pub(super) struct Cache(Mutex<VecDeque<(Key, String)>>);

/// What a page depends on.
#[derive(PartialEq, Eq)]
struct Key {
    address: String,
    change: i64,
    quarter: i64,
}

impl Cache {
    /// The page of an address, made if it is not there.
    pub(super) fn page(
        &self,
        address: &str,
        (journal, now): (&Journal, &Zoned),
        make: impl FnOnce() -> Result<Markup>,
    ) -> Result<Markup> {
        let quarter = now.timestamp().as_second().div_euclid(QUARTER);
        let key = Key { address: address.to_owned(), change: journal.generation()?, quarter };
        if let Some(known) = self.find(&key) {
            return Ok(PreEscaped(known));
        }
        let page = make()?;
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|(other, _)| other.change == key.change && other.quarter == key.quarter);
        if pages.len() >= KEPT {
            pages.pop_front();
        }
        pages.push_back((key, page.0.clone()));
        Ok(page)
    }

    fn find(&self, key: &Key) -> Option<String> {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.iter().find(|(known, _)| known == key).map(|(_, page)| page.clone())
    }
}
