//! The dashboard: pages and a JSON API over the journal, for one person on one machine.
//!
//! Everything is rendered here; the scripts in `crates/aj/web` only make it quicker to use.
//! A request is checked by `guard`, answered by a page or the API from a journal of the `state`,
//! and packed by `reply`. The runtime lives here and nowhere else.

mod api;
mod assets;
mod cache;
mod charts;
mod choice;
mod connections;
mod events;
mod guard;
mod layout;
mod listen;
mod pages;
mod panics;
mod params;
mod reply;
mod state;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;

use self::connections::{Connections, Limits};
use self::guard::Guard;
use self::state::App;
use crate::context::Context;

/// How the dashboard is served.
pub(crate) struct Options {
    /// The address to listen on.
    pub(crate) bind: IpAddr,
    /// The port; 0 for any.
    pub(crate) port: u16,
    /// Whether to open a browser.
    pub(crate) open: bool,
}

/// Serves until it is interrupted.
pub(crate) fn serve(options: &Options, context: &Context) -> Result<()> {
    // Waiting is nearly all it does: one thread for the sockets, a few for the journal.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(state::readers() + 1)
        .build()
        .context("could not start the server")?;
    runtime.block_on(run(options, context))
}

async fn run(options: &Options, context: &Context) -> Result<()> {
    let listener = listen::bind(SocketAddr::new(options.bind, options.port)).await?;
    let guard = Guard::new(listener.local_addr()?)?;
    let (url, has_secret) = (guard.url(), guard.has_secret());
    let app = App::start(context)?;
    panics::keep_reports();
    listen::announce(&url)?;
    let _redirect = options.open.then(|| listen::open(&url, has_secret));
    let served =
        connections::serve(listener, Connections::new(Limits::default()), router(app, guard));
    // Pages that follow the news never end by themselves, so nobody waits for them.
    tokio::select! {
        () = served => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted.context("could not wait for ctrl-c"),
    }
}

fn router(app: Arc<App>, guard: Guard) -> Router {
    Router::new()
        .route("/", get(pages::sessions::show))
        .route("/analytics", get(pages::analytics::show))
        .route("/insights", get(pages::insights::show))
        .route("/search", get(pages::search::show))
        // Only for the pages above, which are kept: whoever listens for news always asks for them
        // without a cache, and a page that is loaded anew asks so for all it needs.
        .layer(from_fn_with_state(Arc::clone(&app), cache::heed))
        .route("/session/{id}", get(pages::transcript::show))
        .route("/session/{id}/part", get(pages::transcript::part))
        .route("/session/{id}/outline", get(pages::transcript::outline))
        .route("/session/{id}/find", get(pages::transcript::find))
        .route("/session/{id}/message/{index}", get(pages::transcript::message))
        .route("/session/{id}/image/{hash}", get(pages::transcript::picture))
        .route("/sources", get(pages::sources::show))
        .route("/events", get(events::follow))
        .merge(api::routes())
        .route("/assets/{name}", get(assets::serve))
        .fallback(pages::missing)
        .layer(from_fn(reply::pack))
        .layer(from_fn_with_state(Arc::new(guard), guard::check))
        .with_state(app)
}
