//! The JSON API under `/api/v1/`, described by `crates/aj/web/openapi.json`, and the endpoints of
//! earlier dashboards.

mod before;
mod complete;

use std::collections::HashSet;
use std::sync::Arc;

use agent_journal::analyze::{Extent, StatsQuery};
use agent_journal::search::{Filter, Found, Mode, Query as Wanted, SearchOptions};
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
use super::reply::RequestFailure;
use super::state::App;
use crate::documents::stats::{model_documents, stats_document};
use crate::output::json::{
    MessageJson, documents_json, session_json as as_listed, touched_files_json,
};
use crate::output::search::session_of_hit;
use crate::session_filter::{query_error, why_no_meaning};

/// Most messages of an answer.
const MESSAGES: u64 = 200;

/// The result of an endpoint.
pub(super) type ApiResult = Result<JsonResponse, Wrong>;

/// A response with a JSON document.
pub(super) struct JsonResponse(pub(super) Value);

/// An error that is sent as a JSON document.
pub(super) struct Wrong(RequestFailure);

impl IntoResponse for JsonResponse {
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
        (self.0.status, JsonResponse(document)).into_response()
    }
}

impl<E: Into<RequestFailure>> From<E> for Wrong {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

/// Returns the routes of the API.
pub(super) fn api_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/openapi.json", get(serve_openapi))
        .route("/api/v1/sessions", get(list_sessions_endpoint))
        .route("/api/v1/sessions/{id}", get(session_endpoint))
        .route("/api/v1/sessions/{id}/messages", get(messages_endpoint))
        .route("/api/v1/search", get(search_endpoint))
        .route("/api/v1/complete", get(complete::complete_word))
        .route("/api/v1/stats", get(stats_endpoint))
        .route("/api/v1/usage", get(usage_endpoint))
        .route("/api/v1/score", get(score_endpoint))
        .route("/api/v1/sources", get(sources_endpoint))
        .merge(before::legacy_routes())
        .route("/api/{*rest}", get(unknown_endpoint))
}

async fn serve_openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], include_str!("../../../web/openapi.json"))
}

async fn unknown_endpoint() -> Wrong {
    let message = "unknown endpoint: /api/v1/openapi.json lists all endpoints".to_owned();
    Wrong(RequestFailure::not_found(message))
}

fn with_schema(name: &str, mut document: Value) -> JsonResponse {
    document["schema"] = format!("aj.{name}/1").into();
    JsonResponse(document)
}

async fn list_sessions_endpoint(
    State(app): State<Arc<App>>,
    Query(params): Query<Params>,
) -> ApiResult {
    let document = app.run_query(move |journal, now| {
        params.check_list(now)?;
        let browse = params.browse_query(now, 100)?;
        let listing = journal.browse_sessions(&browse)?;
        let figures = journal.figures_of_entries(&listing.entries)?;
        let all = listing.entries.iter().zip(&figures);
        let all = all.map(|(entry, figures)| as_listed(entry, figures));
        let all = all.collect::<Result<Vec<_>>>()?;
        Ok(json!({
            "total": listing.total, "offset": browse.offset, "limit": browse.limit,
            "truncated": browse.offset as u64 + (all.len() as u64) < listing.total,
            "facets": listing.facets, "sessions": all,
        }))
    });
    Ok(with_schema("list", document.await?))
}

async fn session_endpoint(State(app): State<Arc<App>>, Path(id): Path<String>) -> ApiResult {
    let document = app.run_query(move |journal, _| {
        let entry = journal.find_session(&id)?;
        let figures = journal.figures_of_entries(std::slice::from_ref(&entry))?.remove(0);
        let mut document = as_listed(&entry, &figures)?;
        let account = journal.session_metadata(&entry)?.unwrap_or_default();
        document["documents"] = documents_json(&account.documents);
        document["files"] = touched_files_json(&journal.touched_files_of(&entry)?);
        document["changed_files"] = journal
            .changed_files_of(&entry)?
            .into_iter()
            .map(|(path, calls)| json!({ "path": path, "calls": calls }))
            .collect();
        Ok(json!({ "session": document }))
    });
    Ok(with_schema("session", document.await?))
}

async fn messages_endpoint(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(params): Query<Params>,
) -> ApiResult {
    let document = app.run_query(move |journal, _| {
        params.check_numbers()?;
        let entry = journal.find_session(&id)?;
        let from = params.number_param("from").unwrap_or(1).clamp(1, u64::from(u32::MAX));
        let count = params.number_param("count").unwrap_or(50).clamp(1, MESSAGES);
        let messages = journal.read_messages(&entry, from - 1..from - 1 + count)?;
        let shown: Vec<MessageJson<'_>> = messages
            .iter()
            .map(|(position, message)| MessageJson::from_message(*position, message))
            .collect();
        let next = (from + count <= entry.transcript_length()).then_some(from + count);
        Ok(json!({
            "session": entry.id, "total": entry.transcript_length(), "from": from, "next": next,
            "messages": shown,
        }))
    });
    Ok(with_schema("messages", document.await?))
}

async fn search_endpoint(State(app): State<Arc<App>>, Query(params): Query<Params>) -> ApiResult {
    Ok(with_schema("search", answer_search(&app, params).await?))
}

/// Runs the search that the parameters describe, in their mode or the configured one.
async fn answer_search(app: &Arc<App>, params: Params) -> Result<Value, RequestFailure> {
    let mode = match params.get_param("mode") {
        None => app.mode,
        Some(name) => Mode::named(name).ok_or_else(|| {
            let known = Mode::NAMES.join(", ");
            RequestFailure::bad_request(format!("unknown mode `{name}` — expected one of {known}"))
        })?,
    };
    let limit = params.number_param("limit").unwrap_or(app.max_results).clamp(1, 100) as usize;
    Ok(app
        .run_query(move |journal, now| search_document(journal, &params, now, mode, limit))
        .await?)
}

/// Runs a search with the query language and the other parameters, and builds its document.
fn search_document(
    journal: &Journal,
    params: &Params,
    now: &Zoned,
    mode: Mode,
    limit: usize,
) -> Result<Value> {
    params.check_numbers()?;
    let mut query = Wanted::parse(params.get_param("q").unwrap_or_default(), now)?;
    query.filter.join(params.session_filter(now)?);
    let is_blank = query.is_fields_only() && query.filter == Filter::default();
    if is_blank || !query.looks_for_something() && !query.is_fields_only() {
        return Ok(json!({ "query": query.text, "total": 0, "sessions": [], "hits": [] }));
    }
    if let Some(reason) = why_no_meaning(journal, mode) {
        return Err(query_error(reason));
    }
    let offset = params.number_param("offset").unwrap_or(0) as usize;
    let options = SearchOptions { limit, offset, mode, ..SearchOptions::default() };
    let answer = journal.search(&query, &options)?;
    let hits: Vec<Value> = answer.sessions.iter().flat_map(hits_of_result).collect();
    // If results are messages, a session may occur several times.
    let mut sessions: Vec<&Entry> = answer.sessions.iter().map(|found| &found.entry).collect();
    let mut known = HashSet::new();
    sessions.retain(|entry| known.insert(&entry.id));
    let mut document = json!({
        "query": query.text, "mode": answer.mode, "tier": answer.tier, "group": answer.grouping,
        "total": answer.total, "offset": offset,
        "sessions": sessions,
        "hits": hits,
    });
    if let Some(note) = query.reading_note {
        document["note"] = note.into();
    }
    if answer.distant > 0 {
        document["distant"] = answer.distant.into();
    }
    Ok(document)
}

fn hits_of_result(found: &Found) -> impl Iterator<Item = Value> {
    found.hits.iter().map(|hit| {
        let entry = session_of_hit(found, hit);
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

/// Builds the statistics query that the parameters describe.
fn stats_query_from_params(params: &Params, now: &Zoned) -> Result<StatsQuery> {
    let extent = if params.get_param("own").is_some() { Extent::OwnOnly } else { Extent::Tasks };
    let filter = params.session_filter(now)?;
    Ok(StatsQuery { filter, by: None, extent, now: now.clone(), explain: false })
}

async fn stats_endpoint(State(app): State<Arc<App>>, Query(params): Query<Params>) -> ApiResult {
    let document = app.run_query(move |journal, now| {
        stats_document(&journal.stats(&stats_query_from_params(&params, now)?)?, now)
    });
    Ok(with_schema("stats", document.await?))
}

async fn usage_endpoint(State(app): State<Arc<App>>, Query(params): Query<Params>) -> ApiResult {
    let stats = app
        .run_query(move |journal, now| Ok(journal.stats(&stats_query_from_params(&params, now)?)?))
        .await?;
    let days: Vec<Value> = stats
        .days
        .iter()
        .map(|(day, figures)| json!({ "day": day, "tokens": figures.tokens, "cost": figures.cost }))
        .collect();
    let totals = json!({ "tokens": stats.totals.tokens, "cost": stats.totals.cost });
    Ok(with_schema(
        "usage",
        json!({ "totals": totals, "days": days, "models": model_documents(&stats)? }),
    ))
}

async fn score_endpoint(State(app): State<Arc<App>>, Query(params): Query<Params>) -> ApiResult {
    let score = app
        .run_query(move |journal, now| Ok(journal.score(&stats_query_from_params(&params, now)?)?))
        .await?;
    Ok(with_schema("score", serde_json::to_value(score).map_err(anyhow::Error::from)?))
}

async fn sources_endpoint(State(app): State<Arc<App>>) -> ApiResult {
    let (agents, unread) = app
        .run_query(|journal, _| Ok((journal.agent_reports()?, journal.unread_agents()?)))
        .await?;
    Ok(with_schema("sources", json!({ "agents": agents, "unread": unread })))
}
