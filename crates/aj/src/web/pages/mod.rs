//! The pages, one file each: a `show` that asks the journal, and the markup of the answer.

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
use super::choice::Choice;
use super::params::Params;
use super::reply::{Failure, Kept};
use super::state::App;

/// What draws a page of sums.
type Draw = fn(&Journal, &Zoned, &Choice) -> anyhow::Result<Markup>;

/// A page of sums, and how long they hold.
async fn sums(
    app: &Arc<App>,
    (path, lasting): (&'static str, Duration),
    choice: Choice,
    draw: Draw,
) -> Kept {
    let address = choice.link(path, &[("token", "")]);
    kept(app, (address, lasting), move |journal, now| draw(journal, now, &choice)).await
}

/// A page of sessions: the same for a moment.
async fn moment<W>(app: &Arc<App>, path: &'static str, params: Params, write: W) -> Kept
where
    W: FnOnce(&Journal, &Params, &Zoned) -> anyhow::Result<Markup> + Send + 'static,
{
    let address = params.with(path, &[("token", "")]);
    kept(app, (address, MOMENT), move |journal, now| write(journal, &params, now)).await
}

/// A page as it was made last if nothing changed since and its time is not over, or made anew.
async fn kept<M>(app: &Arc<App>, (address, lasting): (String, Duration), make: M) -> Kept
where
    M: FnOnce(&Journal, &Zoned) -> anyhow::Result<Markup> + Send + 'static,
{
    let shared = Arc::clone(app);
    let page = app.ask(move |journal, now| {
        shared.pages.page((&address, lasting), (journal, now), || make(journal, now))
    });
    Ok(page.await?)
}

/// The answer to an address that leads nowhere.
pub(super) async fn missing() -> Failure {
    Failure::missing("This address leads nowhere.")
}
