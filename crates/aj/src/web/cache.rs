//! Caches rendered pages in compressed form. A page is valid until the journal changes or its
//! lifetime ends; a request for a page that is being rendered waits for it.

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

use super::reply::CompressedPage;
use super::state::App;

/// Most pages that are cached.
const KEPT: usize = 48;

/// Lifetime of pages with relative times, running sessions, or facts from files other than the
/// agents'.
pub(super) const MOMENT: Duration = Duration::from_secs(30);

/// Lifetime of statistics, which are exact to the quarter hour.
pub(super) const QUARTER: Duration = Duration::from_mins(15);

/// Rendered pages, the oldest first.
#[derive(Default)]
pub(super) struct Cache(Mutex<VecDeque<(PageCacheKey, PageSlot)>>);

/// A page, or the slot of one that is being rendered.
type PageSlot = Arc<Mutex<Option<CompressedPage>>>;

/// The facts that a page depends on.
#[derive(Clone, PartialEq, Eq)]
struct PageCacheKey {
    address: String,
    change: i64,
    /// The lifetime, and the number of lifetimes since 1970.
    span: (Duration, i64),
}

impl Cache {
    /// Returns the page of an address, and renders it if it is not cached.
    pub(super) fn cached_page(
        &self,
        address: &str,
        lasting: Duration,
        journal: &Journal,
        now: &Zoned,
        make: impl FnOnce() -> Result<Markup>,
    ) -> Result<CompressedPage> {
        let span = now.timestamp().as_second().div_euclid(lasting.as_secs() as i64);
        let address = address.to_owned();
        let slot = self.page_slot(PageCacheKey {
            address,
            change: journal.change_generation()?,
            span: (lasting, span),
        });
        let mut page = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*page {
            return Ok(known.clone());
        }
        let packed = CompressedPage::new(&make()?.0)?;
        *page = Some(packed.clone());
        Ok(packed)
    }

    /// Removes every page.
    fn clear_pages(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn page_slot(&self, key: PageCacheKey) -> PageSlot {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slot)) = pages.iter().find(|(known, _)| *known == key) {
            return Arc::clone(slot);
        }
        let is_over =
            |known: &PageCacheKey| known.span.0 == key.span.0 && known.span.1 != key.span.1;
        pages.retain(|(known, _)| known.change == key.change && !is_over(known));
        if pages.len() >= KEPT {
            pages.pop_front();
        }
        let slot = PageSlot::default();
        pages.push_back((key, Arc::clone(&slot)));
        slot
    }
}

/// Clears the cache when a browser reloads a page with `no-cache`.
pub(super) async fn clear_on_reload(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    let wanted = request.headers().get(CACHE_CONTROL);
    if wanted.is_some_and(|wanted| wanted == "no-cache") {
        app.pages.clear_pages();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(address: &str, change: i64, span: i64) -> PageCacheKey {
        PageCacheKey { address: address.to_owned(), change, span: (MOMENT, span) }
    }

    fn fill(slot: &PageSlot) {
        *slot.lock().unwrap() = Some(CompressedPage::new("page").unwrap());
    }

    fn is_known(cache: &Cache, key: PageCacheKey) -> bool {
        cache.page_slot(key).lock().unwrap().is_some()
    }

    #[test]
    fn a_page_is_kept_until_the_journal_changes_or_its_time_is_over() {
        let cache = Cache::default();
        fill(&cache.page_slot(key("/", 1, 1)));
        assert!(is_known(&cache, key("/", 1, 1)));
        assert!(!is_known(&cache, key("/search", 1, 1)));
        assert!(!is_known(&cache, key("/", 2, 1)));
        fill(&cache.page_slot(key("/", 2, 1)));
        assert!(!is_known(&cache, key("/", 2, 2)));
    }

    #[test]
    fn the_oldest_page_makes_room() {
        let cache = Cache::default();
        fill(&cache.page_slot(key("first", 1, 1)));
        (0..KEPT).for_each(|number| fill(&cache.page_slot(key(&number.to_string(), 1, 1))));
        assert!(is_known(&cache, key("47", 1, 1)));
        assert!(!is_known(&cache, key("first", 1, 1)));
    }
}
