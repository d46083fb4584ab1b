//! The sessions, the latest first.

use std::sync::Arc;

use agent_journal::search::Filter;
use axum::extract::State;
use maud::html;

use crate::web::layout::{self, Nav};
use crate::web::reply::Page;
use crate::web::state::App;

/// Shows the list.
pub(in crate::web) async fn show(State(app): State<Arc<App>>) -> Page {
    let entries =
        app.ask(|journal, _| Ok(journal.sessions(&Filter::default(), Some(100))?)).await?;
    let body = html! {
        h1 { "Sessions" }
        ul { @for entry in &entries { li { (layout::badge(&entry.agent)) " " (entry.title) } } }
    };
    Ok(layout::page("Sessions", Nav::Sessions, body))
}
