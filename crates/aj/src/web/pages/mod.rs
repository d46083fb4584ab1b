//! The pages, one file each: a `show_…` handler that queries the journal, and the markup of the
//! answer.

pub(super) mod analytics;
pub(super) mod insights;
pub(super) mod search;
pub(super) mod sessions;
pub(super) mod sources;
pub(super) mod transcript;

use std::sync::Arc;
use std::time::Duration;

use agent_journal::Journal;
use jiff::Zoned;
use maud::Markup;

use super::cache::MOMENT;
use super::choice::StatsSelection;
use super::params::Params;
use super::reply::{CachedPageResult, RequestFailure};
use super::state::App;

/// A function that renders a page of statistics.
type DrawStatsPage = fn(&Journal, &Zoned, &StatsSelection) -> anyhow::Result<Markup>;

/// Returns a page of statistics, from the cache within its lifetime.
async fn stats_page(
    app: &Arc<App>,
    path: &'static str,
    lasting: Duration,
    choice: StatsSelection,
    draw: DrawStatsPage,
) -> CachedPageResult {
    let address = choice.url_with_changes(path, &[("token", "")]);
    cached_or_rendered(app, address, lasting, move |journal, now| draw(journal, now, &choice)).await
}

/// Returns a page that lists sessions, from the cache for a short time.
async fn listing_page<W>(
    app: &Arc<App>,
    path: &'static str,
    params: Params,
    write: W,
) -> CachedPageResult
where
    W: FnOnce(&Journal, &Params, &Zoned) -> anyhow::Result<Markup> + Send + 'static,
{
    let address = params.url_with(path, &[("token", "")]);
    cached_or_rendered(app, address, MOMENT, move |journal, now| write(journal, &params, now)).await
}

/// Returns a page from the cache, or renders it if the journal changed or its lifetime ended.
async fn cached_or_rendered<M>(
    app: &Arc<App>,
    address: String,
    lasting: Duration,
    make: M,
) -> CachedPageResult
where
    M: FnOnce(&Journal, &Zoned) -> anyhow::Result<Markup> + Send + 'static,
{
    let shared = Arc::clone(app);
    let page = app.run_query(move |journal, now| {
        shared.pages.cached_page(&address, lasting, journal, now, || make(journal, now))
    });
    Ok(page.await?)
}

/// Answers a request for an unknown address.
pub(super) async fn page_not_found() -> RequestFailure {
    RequestFailure::not_found("No page has this address.")
}
