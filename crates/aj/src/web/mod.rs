//! The dashboard: pages and a JSON API over the journal, for one person on one machine.
//!
//! Every page is rendered here; the scripts in `crates/aj/web` only make it quicker to use. `guard`
//! checks a request, a page or the API answers it from a journal of the `state`, and `reply`
//! compresses the answer. The async runtime lives here and nowhere else.

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
use crate::context::CommandContext;

/// Options of `aj serve`.
pub(crate) struct ServeOptions {
    /// The address to listen on.
    pub(crate) bind: IpAddr,
    /// The port; 0 selects a free one.
    pub(crate) port: u16,
    /// Whether to open a browser.
    pub(crate) open: bool,
}

/// Serves the dashboard until it is interrupted.
pub(crate) fn serve_dashboard(options: &ServeOptions, context: &CommandContext) -> Result<()> {
    // The server mostly waits: one thread serves the sockets, a few threads query the journal.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(state::reader_count() + 1)
        .build()
        .context("could not start the server")?;
    runtime.block_on(run_server(options, context))
}

async fn run_server(options: &ServeOptions, context: &CommandContext) -> Result<()> {
    let listener = listen::bind_address(SocketAddr::new(options.bind, options.port)).await?;
    let guard = Guard::new(listener.local_addr()?)?;
    let (url, has_secret) = (guard.server_url(), guard.has_secret());
    let app = App::start_app(context)?;
    panics::keep_reports();
    listen::announce_url(&url)?;
    let _redirect = options.open.then(|| listen::open_dashboard(&url, has_secret));
    let served = connections::serve_connections(
        listener,
        Connections::new(Limits::default()),
        build_router(app, guard),
    );
    // Event streams never end by themselves, so an interrupt does not wait for them.
    tokio::select! {
        () = served => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted.context("could not wait for ctrl-c"),
    }
}

fn build_router(app: Arc<App>, guard: Guard) -> Router {
    Router::new()
        .route("/", get(pages::sessions::sessions_page))
        .route("/analytics", get(pages::analytics::analytics_page))
        .route("/insights", get(pages::insights::insights_page))
        .route("/search", get(pages::search::search_page))
        // Only for the pages above, which are cached: browsers always request event streams with
        // `no-cache`, and a reload sends it with every request that the page makes.
        .layer(from_fn_with_state(Arc::clone(&app), cache::clear_on_reload))
        .route("/session/{id}", get(pages::transcript::session_page))
        .route("/session/{id}/part", get(pages::transcript::transcript_part))
        .route("/session/{id}/outline", get(pages::transcript::session_outline))
        .route("/session/{id}/find", get(pages::transcript::find_in_session))
        .route("/session/{id}/message/{index}", get(pages::transcript::single_message_page))
        .route("/session/{id}/image/{hash}", get(pages::transcript::serve_picture))
        .route("/sources", get(pages::sources::sources_page))
        .route("/events", get(events::stream_events))
        .merge(api::api_routes())
        .route("/assets/{name}", get(assets::serve_asset))
        .fallback(pages::page_not_found)
        .layer(from_fn(reply::compress_response))
        .layer(from_fn_with_state(Arc::new(guard), guard::check_request))
        .with_state(app)
}
