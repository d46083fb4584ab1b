//! The JSON API under `/api/v1/`, described by `crates/aj/web/openapi.json`, and the endpoints of
//! the dashboards that came before.

mod before;
mod complete;

use std::collections::HashSet;
use std::sync::Arc;

use agent_journal::analyze::{Extent, StatsQuery};
use agent_journal::search::{Filter, Found, Mode, Options, Query as Wanted};
use agent_journal::{Entry, Journal};
use anyhow::Result;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::Zoned;
use serde_json::{Value, json};

use super::params::Params;
use super::reply::Failure;
use super::state::App;
use crate::commands::search::why_no_meaning;
use crate::commands::stats::{document, models};
use crate::output::json::{View, documents, session as as_listed, touched_files};
use crate::output::search::place;

/// Messages of an answer, at most.
const MESSAGES: u64 = 200;

/// What an endpoint answers.
pub(super) type Answer = Result<Json, Wrong>;

/// A document.
pub(super) struct Json(pub(super) Value);

/// An error as a document.
pub(super) struct Wrong(Failure);

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.0.to_string()).into_response()
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        let mut document = json!({ "error": self.0.message, "status": self.0.status.as_u16() });
        if !self.0.candidates.is_empty() {
            let candidates = self.0.candidates.iter();
            let candidates = candidates.map(|(id, title)| json!({ "id": id, "title": title }));
            document["candidates"] = candidates.collect();
        }
        (self.0.status, Json(document)).into_response()
    }
}

impl<E: Into<Failure>> From<E> for Wrong {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

/// Its addresses.
pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/openapi.json", get(openapi))
        .route("/api/v1/sessions", get(sessions))
        .route("/api/v1/sessions/{id}", get(session))
        .route("/api/v1/sessions/{id}/messages", get(messages))
        .route("/api/v1/search", get(search))
        .route("/api/v1/complete", get(complete::complete))
        .route("/api/v1/stats", get(stats))
        .route("/api/v1/usage", get(usage))
        .route("/api/v1/score", get(score))
        .route("/api/v1/sources", get(sources))
        .merge(before::routes())
        .route("/api/{*rest}", get(missing))
}

async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], include_str!("../../../web/openapi.json"))
}

async fn missing() -> Wrong {
    let message = "no such endpoint: /api/v1/openapi.json lists them".to_owned();
    Wrong(Failure::missing(message))
}

fn versioned(name: &str, mut document: Value) -> Json {
    document["schema"] = format!("aj.{name}/1").into();
    Json(document)
}

async fn sessions(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    let document = app.ask(move |journal, now| {
        params.check_list(now)?;
        let browse = params.browse(now, 100)?;
        let listing = journal.browse(&browse)?;
        let figures = journal.session_figures(&listing.entries)?;
        let all = listing.entries.iter().zip(&figures);
        let all = all.map(|(entry, figures)| as_listed(entry, figures));
        let all = all.collect::<Result<Vec<_>>>()?;
        Ok(json!({
            "total": listing.total, "offset": browse.offset, "limit": browse.limit,
            "truncated": browse.offset as u64 + (all.len() as u64) < listing.total,
            "facets": listing.facets, "sessions": all,
        }))
    });
    Ok(versioned("list", document.await?))
}

async fn session(State(app): State<Arc<App>>, Path(id): Path<String>) -> Answer {
    let document = app.ask(move |journal, _| {
        let entry = journal.session(&id)?;
        let figures = journal.session_figures(std::slice::from_ref(&entry))?.remove(0);
        let mut document = as_listed(&entry, &figures)?;
        let account = journal.account(&entry)?.unwrap_or_default();
        document["documents"] = documents(&account.documents);
        document["files"] = touched_files(&journal.touched_files(&entry)?);
        document["changed_files"] = journal
            .changed_files(&entry)?
            .into_iter()
            .map(|(path, calls)| json!({ "path": path, "calls": calls }))
            .collect();
        Ok(json!({ "session": document }))
    });
    Ok(versioned("session", document.await?))
}

async fn messages(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(params): Query<Params>,
) -> Answer {
    let document = app.ask(move |journal, _| {
        params.check_numbers()?;
        let entry = journal.session(&id)?;
        let from = params.number("from").unwrap_or(1).clamp(1, u64::from(u32::MAX));
        let count = params.number("count").unwrap_or(50).clamp(1, MESSAGES);
        let messages = journal.messages(&entry, from - 1..from - 1 + count)?;
        let shown: Vec<View<'_>> =
            messages.iter().map(|(position, message)| View::of(*position, message)).collect();
        let next = (from + count <= entry.transcript_length()).then_some(from + count);
        Ok(json!({
            "session": entry.id, "total": entry.transcript_length(), "from": from, "next": next,
            "messages": shown,
        }))
    });
    Ok(versioned("messages", document.await?))
}

async fn search(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    Ok(versioned("search", answered(&app, params).await?))
}

/// Answers a search, compared as the address says or as usual.
async fn answered(app: &Arc<App>, params: Params) -> Result<Value, Failure> {
    let mode = match params.get("mode") {
        None => app.mode,
        Some("lexical") => Mode::Lexical,
        Some("semantic") => Mode::Semantic,
        Some("hybrid") => Mode::Hybrid,
        Some(other) => {
            let known = "known are lexical, semantic, hybrid";
            return Err(Failure::bad(format!("unknown mode `{other}` — {known}")));
        }
    };
    let limit = params.number("limit").unwrap_or(app.max_results).clamp(1, 100) as usize;
    Ok(app.ask(move |journal, now| found(journal, &params, (now, mode), limit)).await?)
}

/// Answers a search, by the query language and by what else the address says.
fn found(
    journal: &Journal,
    params: &Params,
    (now, mode): (&Zoned, Mode),
    limit: usize,
) -> Result<Value> {
    params.check_numbers()?;
    let mut query = Wanted::parse(params.get("q").unwrap_or_default(), now)?;
    query.filter.join(params.filter(now)?);
    let is_blank = query.is_fields_only() && query.filter == Filter::default();
    if is_blank || !query.looks_for_something() && !query.is_fields_only() {
        return Ok(json!({ "query": query.text, "total": 0, "sessions": [], "hits": [] }));
    }
    if let Some(reason) = why_no_meaning(journal, mode) {
        return Err(agent_journal::Error::Query { message: reason }.into());
    }
    let offset = params.number("offset").unwrap_or(0) as usize;
    let answer = journal.find(&query, &Options { limit, offset, mode, ..Options::default() })?;
    let hits: Vec<Value> = answer.sessions.iter().flat_map(hits).collect();
    // Where one result is a message, a session may be there several times.
    let mut sessions: Vec<&Entry> = answer.sessions.iter().map(|found| &found.entry).collect();
    let mut known = HashSet::new();
    sessions.retain(|entry| known.insert(&entry.id));
    Ok(json!({
        "query": query.text, "mode": answer.mode, "tier": answer.tier, "group": answer.group,
        "total": answer.total, "offset": offset,
        "sessions": sessions,
        "hits": hits,
    }))
}

fn hits(found: &Found) -> impl Iterator<Item = Value> {
    found.hits.iter().map(|hit| {
        let entry = place(found, hit);
        let mut document = json!({
            "session": entry.id, "source": entry.agent,
            "message": hit.position.map(|position| position + 1),
            "kind": hit.kind, "tier": hit.tier, "score": hit.score, "snippet": hit.snippet,
        });
        if hit.within.is_some() {
            document["task"] = found.entry.id.as_str().into();
        }
        document
    })
}

/// What is asked of the statistics by an address.
fn asked(params: &Params, now: &Zoned) -> Result<StatsQuery> {
    let extent = if params.get("own").is_some() { Extent::OwnOnly } else { Extent::Tasks };
    let filter = params.filter(now)?;
    Ok(StatsQuery { filter, by: None, extent, now: now.clone(), explain: false })
}

async fn stats(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    let document =
        app.ask(move |journal, now| document(&journal.stats(&asked(&params, now)?)?, now));
    Ok(versioned("stats", document.await?))
}

async fn usage(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    let stats = app.ask(move |journal, now| Ok(journal.stats(&asked(&params, now)?)?)).await?;
    let days: Vec<Value> = stats
        .days
        .iter()
        .map(|(day, figures)| json!({ "day": day, "tokens": figures.tokens, "cost": figures.cost }))
        .collect();
    let totals = json!({ "tokens": stats.totals.tokens, "cost": stats.totals.cost });
    Ok(versioned("usage", json!({ "totals": totals, "days": days, "models": models(&stats)? })))
}

async fn score(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    let score = app.ask(move |journal, now| Ok(journal.score(&asked(&params, now)?)?)).await?;
    Ok(versioned("score", serde_json::to_value(score).map_err(anyhow::Error::from)?))
}

async fn sources(State(app): State<Arc<App>>) -> Answer {
    let agents = app.ask(|journal, _| Ok(journal.sources()?)).await?;
    Ok(versioned("sources", json!({ "agents": agents })))
}
