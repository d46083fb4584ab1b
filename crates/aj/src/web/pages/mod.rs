//! The pages, one file each: a `show` that asks the journal, and the markup of the answer.

pub(super) mod analytics;
pub(super) mod insights;
pub(super) mod search;
pub(super) mod sessions;
pub(super) mod sources;
pub(super) mod transcript;

use std::sync::Arc;

use agent_journal::Journal;
use axum::http::StatusCode;
use jiff::Zoned;
use maud::Markup;

use super::cache::{MOMENT, QUARTER};
use super::choice::Choice;
use super::params::Params;
use super::reply::{Failure, Kept};
use super::state::App;

/// What draws a page of sums.
type Draw = fn(&Journal, &Zoned, &Choice) -> anyhow::Result<Markup>;

/// A page of sums: drawn from the journal, or as it was drawn last if nothing changed since.
async fn sums(app: &Arc<App>, address: &'static str, choice: Choice, draw: Draw) -> Kept {
    // An address that cannot be understood is the reader's to mend.
    choice.filter(&Zoned::now()).map_err(|error| Failure::bad(format!("{error:#}")))?;
    let shared = Arc::clone(app);
    let page = app.ask(move |journal, now| {
        let address = choice.link(address, &[("token", "")]);
        let page = (address.as_str(), QUARTER);
        shared.pages.page(page, (journal, now), || draw(journal, now, &choice))
    });
    Ok(page.await?)
}

/// A page of sessions: the same for a moment if nothing changes.
async fn moment<W>(app: &Arc<App>, path: &'static str, params: Params, write: W) -> Kept
where
    W: FnOnce(&Journal, &Params, &Zoned) -> anyhow::Result<Markup> + Send + 'static,
{
    let shared = Arc::clone(app);
    let page = app.ask(move |journal, now| {
        let address = params.with(path, &[("token", "")]);
        let page = (address.as_str(), MOMENT);
        shared.pages.page(page, (journal, now), || write(journal, &params, now))
    });
    Ok(page.await?)
}

/// The answer to an address that leads nowhere.
pub(super) async fn missing() -> Failure {
    Failure { status: StatusCode::NOT_FOUND, message: "This address leads nowhere.".to_owned() }
}
