//! Endpoints as earlier dashboards for coding agents had them: `/api/sessions`,
//! `/api/sessions/{id}`, `/api/search`, `/api/analytics`, `/api/insights`, with their names for
//! sources and fields, so that what was built on them goes on working.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_journal::analyze::{Score, ScoreReport, SessionFigures};
use agent_journal::model::{Block, Message};
use agent_journal::{Entry, Journal};
use anyhow::Result;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::{Value, json};

use super::{Answer, Json, Wrong, answered, asked};
use crate::commands::stats::models;
use crate::web::params::Params;
use crate::web::reply::Failure;
use crate::web::state::App;

/// Events of an answer, at most.
const EVENTS: u64 = 5_000;

/// Letters of one text, at most.
const LONGEST: usize = 10_000;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/sessions", get(sessions))
        .route("/api/sessions/{id}", get(session))
        .route("/api/search", get(search))
        .route("/api/analytics", get(analytics))
        .route("/api/insights", get(insights))
}

/// The name a source had there.
fn source(agent: &str) -> &str {
    let known = Journal::agents().find(|known| known.id == agent);
    let short = known
        .and_then(|known| known.aliases.iter().find(|alias| matches!(**alias, "cli" | "vscode")));
    short.copied().unwrap_or(agent)
}

fn meta(entry: &Entry, figures: &SessionFigures) -> Value {
    json!({
        "id": entry.native_id, "source": source(&entry.agent), "title": entry.title,
        "cwd": entry.cwd, "gitRoot": entry.project_path, "branch": entry.branch,
        "createdAt": entry.started_at, "updatedAt": entry.ended_at, "status": entry.status,
        "duration": entry.active_s, "model": entry.models.first(),
        "costUSD": figures.own.cost.dollars(), "tokenUsage": tokens(&figures.own.tokens),
        "withSubagents": {
            "costUSD": figures.with_subagents.cost.dollars(),
            "tokenUsage": tokens(&figures.with_subagents.tokens),
        },
    })
}

fn tokens(tokens: &agent_journal::model::Tokens) -> Value {
    // Nothing recorded is not nothing used.
    let known = |number: u64| tokens.is_known().then_some(number);
    json!({
        "totalInput": known(tokens.input), "totalOutput": known(tokens.output),
        "totalCacheRead": known(tokens.cache_read),
        "totalCacheCreation": known(tokens.cache_creation),
    })
}

async fn sessions(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    let all = app.ask(move |journal, now| {
        let entries = journal.browse(&params.browse(now, 500)?)?.entries;
        let figures = journal.session_figures(&entries)?;
        Ok(entries
            .iter()
            .zip(&figures)
            .map(|(entry, figures)| meta(entry, figures))
            .collect::<Vec<_>>())
    });
    Ok(Json(Value::from(all.await?)))
}

async fn session(State(app): State<Arc<App>>, Path(id): Path<String>) -> Answer {
    let document = app.ask(move |journal, _| {
        let entry = journal.session(&id)?;
        let figures = journal.session_figures(std::slice::from_ref(&entry))?.remove(0);
        let account = journal.account(&entry)?.unwrap_or_default();
        let plan = account.documents.iter().find(|(name, _)| name.contains("plan"));
        let messages = journal.messages(&entry, 0..EVENTS)?;
        let events: Vec<Value> = messages.iter().flat_map(|(_, message)| events(message)).collect();
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for event in &events {
            *counts.entry(event["type"].as_str().unwrap_or_default()).or_default() += 1;
        }
        let mut document = meta(&entry, &figures);
        document["eventCounts"] = json!(counts);
        document["copilotVersion"] = json!(entry.agent_version);
        document["hasSnapshots"] = account.extensions.contains_key("rewind_snapshots").into();
        if let Some((_, plan)) = plan {
            document["planContent"] = plan.as_str().into();
        }
        document["events"] = events.into();
        Ok(document)
    });
    Ok(Json(document.await?))
}

/// The events one message comes to. Side conversations and summaries are no part of the timeline.
fn events(message: &Message) -> Vec<Value> {
    if message.sidechain || message.origin == agent_journal::model::Origin::Summary {
        return Vec::new();
    }
    let role = message.role.name();
    let event = |block: &Block| {
        let (kind, data) = match block {
            Block::Text(text) if matches!(role, "user" | "assistant") => {
                (format!("{role}.message"), json!({ "content": cut(text) }))
            }
            Block::ToolCall { id, name, input } => (
                "tool.execution_start".to_owned(),
                json!({ "toolCallId": id, "toolName": name, "arguments": input }),
            ),
            Block::ToolResult { call_id, output, is_error } => (
                "tool.execution_complete".to_owned(),
                json!({ "toolCallId": call_id, "success": *is_error != Some(true), "result": cut(output) }),
            ),
            _ => return None,
        };
        Some(json!({ "type": kind, "timestamp": message.at, "id": message.uuid, "data": data }))
    };
    message.blocks.iter().filter_map(event).collect()
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}

async fn search(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    let mut document = answered(&app, params).await?;
    for hit in document["hits"].as_array_mut().into_iter().flatten() {
        let name = source(hit["source"].as_str().unwrap_or_default()).to_owned();
        hit["source"] = name.into();
    }
    document["results"] = document["hits"].take();
    Ok(Json(document))
}

async fn analytics(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    let stats = app.ask(move |journal, now| Ok(journal.stats(&asked(&params, now)?)?)).await?;
    let totals = &stats.totals;
    let per_day: BTreeMap<String, u64> = stats
        .days
        .iter()
        .map(|(day, figures)| (day.to_string(), figures.sessions_started))
        .collect();
    let cost_per_day: BTreeMap<String, f64> = stats
        .days
        .iter()
        .filter_map(|(day, figures)| Some((day.to_string(), figures.cost.dollars()?)))
        .collect();
    let hours: BTreeMap<String, u64> =
        stats.hours.iter().enumerate().map(|(hour, number)| (hour.to_string(), *number)).collect();
    Ok(Json(json!({
        "totalSessions": totals.sessions, "totalTurns": totals.prompts,
        "totalDuration": totals.active_s, "sessionsPerDay": per_day, "hourOfDay": hours,
        "toolUsage": stats.tools, "modelUsage": models(&stats)?, "topDirectories": stats.projects,
        "errorTypes": stats.errors, "totalCostUSD": totals.cost.dollars(),
        "costPerDay": cost_per_day, "tokenUsage": tokens(&totals.tokens),
    })))
}

async fn insights(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    let wanted = params.get("repo").map(str::to_owned);
    let report: Result<ScoreReport> =
        app.ask(move |journal, now| Ok(journal.score(&asked(&params, now)?)?)).await;
    let report = report?;
    let Some(wanted) = wanted else {
        return Ok(Json(json!({ "repositories": report.repositories, "agents": report.agents })));
    };
    let fits = |score: &&Score| {
        let whole = score.name.strip_suffix(" (all sessions)");
        [Some(&*score.name), whole, score.path.as_deref()].contains(&Some(&*wanted))
    };
    let score = report.agents.iter().chain(&report.repositories).find(fits);
    match score {
        Some(score) => Ok(Json(json!(score))),
        None => {
            let message = format!("no sessions in a repository `{wanted}`");
            Err(Wrong(Failure { status: StatusCode::NOT_FOUND, message }))
        }
    }
}
