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

use super::choice::Choice;
use super::reply::{Failure, Page};
use super::state::App;

/// What draws a page of sums.
type Draw = fn(&Journal, &Zoned, &Choice) -> anyhow::Result<Markup>;

/// A page of sums: drawn from the journal, or as it was drawn last if nothing changed since.
async fn sums(app: &Arc<App>, address: &'static str, choice: Choice, draw: Draw) -> Page {
    // An address that cannot be understood is the reader's to mend.
    choice.filter(&Zoned::now()).map_err(|error| Failure::bad(format!("{error:#}")))?;
    let shared = Arc::clone(app);
    let page = app.ask(move |journal, now| {
        let address = choice.link(address, &[("token", "")]);
        shared.pages.page(&address, (journal, now), || draw(journal, now, &choice))
    });
    Ok(page.await?)
}

/// The answer to an address that leads nowhere.
pub(super) async fn missing() -> Failure {
    Failure { status: StatusCode::NOT_FOUND, message: "This address leads nowhere.".to_owned() }
}
