//! Pages that were made already, kept as they are sent. A page stays true until the journal
//! changes or the time it is good for is over; who asks for one that is being made waits for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent_journal::Journal;
use anyhow::Result;
use axum::extract::{Request, State};
use axum::http::header::CACHE_CONTROL;
use axum::middleware::Next;
use axum::response::Response;
use jiff::Zoned;
use maud::Markup;

use super::reply::Packed;
use super::state::App;

/// How many pages are kept.
const KEPT: usize = 48;

/// How long pages stay true that say how long ago something was, what is running, or what other
/// files than the agents' say.
pub(super) const MOMENT: Duration = Duration::from_secs(30);

/// How long sums stay true: they hold to the quarter hour.
pub(super) const QUARTER: Duration = Duration::from_mins(15);

/// Pages that were made already, the oldest first.
#[derive(Default)]
pub(super) struct Cache(Mutex<VecDeque<(Key, Slot)>>);

/// A page, or the place for one that is being made.
type Slot = Arc<Mutex<Option<Packed>>>;

/// What a page depends on.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    address: String,
    change: i64,
    /// How long it is true, and since when.
    span: (Duration, i64),
}

impl Cache {
    /// The page of an address, made if it is not there.
    pub(super) fn page(
        &self,
        (address, lasting): (&str, Duration),
        (journal, now): (&Journal, &Zoned),
        make: impl FnOnce() -> Result<Markup>,
    ) -> Result<Packed> {
        let span = now.timestamp().as_second().div_euclid(lasting.as_secs() as i64);
        let address = address.to_owned();
        let slot = self.slot(Key { address, change: journal.generation()?, span: (lasting, span) });
        let mut page = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*page {
            return Ok(known.clone());
        }
        let packed = Packed::new(&make()?.0)?;
        *page = Some(packed.clone());
        Ok(packed)
    }

    /// Forgets every page.
    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn slot(&self, key: Key) -> Slot {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slot)) = pages.iter().find(|(known, _)| *known == key) {
            return Arc::clone(slot);
        }
        let is_over = |known: &Key| known.span.0 == key.span.0 && known.span.1 != key.span.1;
        pages.retain(|(known, _)| known.change == key.change && !is_over(known));
        if pages.len() >= KEPT {
            pages.pop_front();
        }
        let slot = Slot::default();
        pages.push_back((key, Arc::clone(&slot)));
        slot
    }
}

/// Makes pages anew for a browser that was told to load them without a cache.
pub(super) async fn heed(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let wanted = request.headers().get(CACHE_CONTROL);
    if wanted.is_some_and(|wanted| wanted == "no-cache") {
        app.pages.clear();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(address: &str, change: i64, span: i64) -> Key {
        Key { address: address.to_owned(), change, span: (MOMENT, span) }
    }

    fn fill(slot: &Slot) {
        *slot.lock().unwrap() = Some(Packed::new("page").unwrap());
    }

    fn is_known(cache: &Cache, key: Key) -> bool {
        cache.slot(key).lock().unwrap().is_some()
    }

    #[test]
    fn a_page_is_kept_until_the_journal_changes_or_its_time_is_over() {
        let cache = Cache::default();
        fill(&cache.slot(key("/", 1, 1)));
        assert!(is_known(&cache, key("/", 1, 1)));
        assert!(!is_known(&cache, key("/search", 1, 1)));
        assert!(!is_known(&cache, key("/", 2, 1)));
        fill(&cache.slot(key("/", 2, 1)));
        assert!(!is_known(&cache, key("/", 2, 2)));
    }

    #[test]
    fn the_oldest_page_makes_room() {
        let cache = Cache::default();
        fill(&cache.slot(key("first", 1, 1)));
        (0..KEPT).for_each(|number| fill(&cache.slot(key(&number.to_string(), 1, 1))));
        assert!(is_known(&cache, key("47", 1, 1)));
        assert!(!is_known(&cache, key("first", 1, 1)));
    }
}
