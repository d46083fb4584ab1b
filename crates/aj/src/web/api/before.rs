//! Endpoints of earlier dashboards for coding agents: `/api/sessions`, `/api/sessions/{id}`,
//! `/api/sessions/{id}/export`, `/api/search`, `/api/analytics`, `/api/token-usage`,
//! `/api/insights`, `/api/insights/repos`, `/api/insights/score`, with their names for sources and
//! fields, so that programs built on them keep working. Durations are in milliseconds.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use agent_journal::analyze::{DailySpending, Score, ScoreReport, SessionFigures};
use agent_journal::export::{ExportOptions, SingleFileOutput, Together, find_format};
use agent_journal::model::{Block, Message, Tokens};
use agent_journal::{Browse, Entry, Journal};
use anyhow::Result;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::HeaderName;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use jiff::civil::Date;
use serde_json::{Map, Value, json};

use super::{ApiResult, JsonResponse, Wrong, answer_search, stats_query_from_params};
use crate::documents::stats::model_documents;
use crate::output::file::session_file_name;
use crate::web::params::Params;
use crate::web::reply::RequestFailure;
use crate::web::state::App;

/// Most sessions of an answer.
const MOST_SESSIONS: usize = 10_000;

/// Events of an answer by default, and at most.
const EVENTS: u64 = 5_000;
const MOST_EVENTS: u64 = 100_000;

/// Messages read from the journal at a time.
const STEP: u64 = 256;

/// Most characters of one text.
const LONGEST: usize = 10_000;

/// Header with the total number of items, where an answer is a list.
const TOTAL: HeaderName = HeaderName::from_static("x-total-count");

pub(super) fn legacy_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/sessions", get(legacy_sessions))
        .route("/api/sessions/{id}", get(legacy_session))
        .route("/api/sessions/{id}/export", get(export_session))
        .route("/api/search", get(legacy_search))
        .route("/api/analytics", get(legacy_analytics))
        .route("/api/token-usage", get(token_usage))
        .route("/api/insights", get(legacy_insights))
        .route("/api/insights/repos", get(legacy_repositories))
        .route("/api/insights/score", get(legacy_score))
}

/// Returns the name that earlier dashboards used for an agent.
fn legacy_source_name(agent: &str) -> &str {
    let known = Journal::supported_agents().find(|known| known.id == agent);
    let short = known
        .and_then(|known| known.aliases.iter().find(|alias| matches!(**alias, "cli" | "vscode")));
    short.copied().unwrap_or(agent)
}

fn legacy_metadata(entry: &Entry, id: &str, figures: &SessionFigures) -> Value {
    json!({
        "id": id, "source": legacy_source_name(&entry.agent), "title": entry.title,
        "cwd": entry.cwd, "gitRoot": entry.project_path, "branch": entry.branch,
        "createdAt": entry.started_at, "updatedAt": entry.ended_at, "status": entry.status,
        "duration": entry.active_s * 1000, "model": entry.models.first(),
        "costUSD": figures.own.cost.known_dollars(), "tokenUsage": legacy_tokens(&figures.own.tokens),
        "withSubagents": {
            "costUSD": figures.with_subagents.cost.known_dollars(),
            "tokenUsage": legacy_tokens(&figures.with_subagents.tokens),
        },
    })
}

fn legacy_tokens(tokens: &agent_journal::model::Tokens) -> Value {
    // Unrecorded tokens are `null`, not 0.
    let known = |number: u64| tokens.is_known().then_some(number);
    json!({
        "totalInput": known(tokens.input), "totalOutput": known(tokens.output),
        "totalCacheRead": known(tokens.cache_read),
        "totalCacheCreation": known(tokens.cache_creation),
    })
}

async fn legacy_sessions(
    State(app): State<Arc<App>>,
    Query(params): Query<Params>,
) -> Result<Response, Wrong> {
    let all = app.run_query(move |journal, now| {
        params.check_list(now)?;
        let wanted = params.number_param("limit").map_or(MOST_SESSIONS, |limit| limit as usize);
        let limit = wanted.clamp(1, MOST_SESSIONS);
        let listing =
            journal.browse_sessions(&Browse { limit, ..params.browse_query(now, limit)? })?;
        let figures = journal.figures_of_entries(&listing.entries)?;
        let mut ids: HashMap<&str, u64> = HashMap::new();
        for entry in &listing.entries {
            *ids.entry(&entry.native_id).or_default() += 1;
        }
        let all = listing.entries.iter().zip(&figures).map(|(entry, figures)| {
            // An id that two agents use is given with its agent.
            let is_own = ids[entry.native_id.as_str()] == 1;
            legacy_metadata(entry, if is_own { &entry.native_id } else { &entry.id }, figures)
        });
        Ok((listing.total, all.collect::<Vec<_>>()))
    });
    let (total, all) = all.await?;
    Ok(([(TOTAL, total.to_string())], JsonResponse(Value::from(all))).into_response())
}

async fn legacy_session(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(params): Query<Params>,
) -> ApiResult {
    let document = app.run_query(move |journal, _| {
        params.check_numbers()?;
        let entry = journal.find_session(&id)?;
        let figures = journal.figures_of_entries(std::slice::from_ref(&entry))?.remove(0);
        let account = journal.session_metadata(&entry)?.unwrap_or_default();
        let plan = account.documents.iter().find(|(name, _)| name.contains("plan"));
        let offset = params.number_param("offset").unwrap_or(0);
        let limit = params.number_param("limit").unwrap_or(EVENTS).clamp(1, MOST_EVENTS);
        let mut timeline =
            Timeline { wanted: offset..offset.saturating_add(limit), ..<_>::default() };
        for from in (0..entry.transcript_length()).step_by(STEP as usize) {
            for (_, message) in journal.read_messages(&entry, from..from + STEP)? {
                timeline.add_message_events(&message);
            }
        }
        let own = if id.contains(':') { &entry.id } else { &entry.native_id };
        let mut document = legacy_metadata(&entry, own, &figures);
        document["eventCounts"] = json!(timeline.counts);
        document["totalEvents"] = timeline.total.into();
        document["truncated"] = ((timeline.events.len() as u64) < timeline.total).into();
        document["copilotVersion"] = json!(entry.agent_version);
        document["hasSnapshots"] = account.extensions.contains_key("rewind_snapshots").into();
        if let Some((_, plan)) = plan {
            document["planContent"] = plan.as_str().into();
        }
        document["events"] = timeline.events.into();
        Ok(document)
    });
    Ok(JsonResponse(document.await?))
}

/// The events of a session: all are counted, those in a window are returned.
#[derive(Default)]
struct Timeline {
    wanted: Range<u64>,
    events: Vec<Value>,
    counts: BTreeMap<String, u64>,
    total: u64,
}

impl Timeline {
    fn add_message_events(&mut self, message: &Message) {
        for event in message_events(message) {
            let kind = event["type"].as_str().unwrap_or_default();
            *self.counts.entry(kind.to_owned()).or_default() += 1;
            if self.wanted.contains(&self.total) {
                self.events.push(event);
            }
            self.total += 1;
        }
    }
}

/// Exports a session; `format` is markdown, html or json.
async fn export_session(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(params): Query<Params>,
) -> Result<Response, Wrong> {
    let name = match params.get_param("format") {
        None | Some("md") => "markdown",
        Some(name) => name,
    };
    let known = find_format(name).filter(|known| known.storage_of_several() != Together::Tables);
    let Some(format) = known else {
        let known = "expected one of markdown, html, json, ndjson";
        return Err(
            RequestFailure::bad_request(format!("unknown format `{name}` — {known}")).into()
        );
    };
    let usual = app.export.clone();
    let written = app.run_query(move |journal, _| {
        let entry = journal.find_session(&id)?;
        let redactor = format.is_shared().then(|| journal.owner_redactor());
        let options = ExportOptions { redactor, ..usual };
        let mut export = journal.start_export(format, options);
        let name = session_file_name(&export.exported_title(&entry)?, &entry);
        let mut out = SingleFileOutput(Vec::new());
        export.write_session(&entry, &mut out)?;
        Ok((name, out.0))
    });
    let (name, text) = written.await?;
    let kind = match format.format_name() {
        "html" => "text/html; charset=utf-8",
        "markdown" => "text/markdown; charset=utf-8",
        _ => "application/json",
    };
    // A file name in a header may have ASCII characters only.
    let name: String = name.chars().filter(char::is_ascii).collect();
    let name = format!("attachment; filename=\"{name}.{}\"", format.file_suffix());
    let head = [(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((head, text).into_response())
}

/// Returns the events of one message. Side conversations and summaries are no part of the timeline.
fn message_events(message: &Message) -> Vec<Value> {
    if message.sidechain || message.origin == agent_journal::model::Origin::Summary {
        return Vec::new();
    }
    let role = message.role.role_name();
    let event = |block: &Block| {
        let (kind, data) = match block {
            Block::Text(text) if matches!(role, "user" | "assistant") => {
                (format!("{role}.message"), truncated_text("content", text))
            }
            Block::ToolCall { id, name, input } => (
                "tool.execution_start".to_owned(),
                json!({ "toolCallId": id, "toolName": name, "arguments": input }),
            ),
            Block::ToolResult { call_id, output, is_error } => {
                let mut data = truncated_text("result", output);
                data["toolCallId"] = call_id.as_str().into();
                data["success"] = (*is_error != Some(true)).into();
                ("tool.execution_complete".to_owned(), data)
            }
            _ => return None,
        };
        Some(json!({ "type": kind, "timestamp": message.at, "id": message.uuid, "data": data }))
    };
    message.blocks.iter().filter_map(event).collect()
}

/// Returns a text under its name; a text that is too long is cut and marked as truncated.
fn truncated_text(name: &str, text: &str) -> Value {
    match text.char_indices().nth(LONGEST) {
        None => json!({ name: text }),
        Some((end, _)) => {
            json!({ name: &text[..end], "truncated": true, "length": text.chars().count() })
        }
    }
}

async fn legacy_search(State(app): State<Arc<App>>, Query(params): Query<Params>) -> ApiResult {
    let mut document = answer_search(&app, params).await?;
    let mut hits = document["hits"].take();
    for hit in hits.as_array_mut().into_iter().flatten() {
        let name = legacy_source_name(hit["source"].as_str().unwrap_or_default()).to_owned();
        hit["source"] = name.into();
    }
    document["results"] = hits;
    if let Some(document) = document.as_object_mut() {
        document.remove("hits");
    }
    Ok(JsonResponse(document))
}

async fn legacy_analytics(State(app): State<Arc<App>>, Query(params): Query<Params>) -> ApiResult {
    let stats = app
        .run_query(move |journal, now| Ok(journal.stats(&stats_query_from_params(&params, now)?)?))
        .await?;
    let totals = &stats.totals;
    let per_day: BTreeMap<String, u64> = stats
        .days
        .iter()
        .map(|(day, figures)| (day.to_string(), figures.sessions_started))
        .collect();
    let cost_per_day: BTreeMap<String, f64> = stats
        .days
        .iter()
        .filter_map(|(day, figures)| Some((day.to_string(), figures.cost.known_dollars()?)))
        .collect();
    let hours: BTreeMap<String, u64> =
        stats.hours.iter().enumerate().map(|(hour, number)| (hour.to_string(), *number)).collect();
    Ok(JsonResponse(json!({
        "totalSessions": totals.sessions, "totalTurns": totals.prompts,
        "totalDuration": totals.active_s * 1000, "sessionsPerDay": per_day, "hourOfDay": hours,
        "toolUsage": stats.tools, "modelUsage": model_documents(&stats)?, "topDirectories": stats.projects,
        "errorTypes": stats.errors, "totalCostUSD": totals.cost.known_dollars(),
        "costPerDay": cost_per_day, "tokenUsage": legacy_tokens(&totals.tokens),
    })))
}

/// Returns tokens by model, day, week and month. Tokens read from a cache count as prompt tokens.
async fn token_usage(State(app): State<Arc<App>>, Query(params): Query<Params>) -> ApiResult {
    let stats = app
        .run_query(move |journal, now| Ok(journal.stats(&stats_query_from_params(&params, now)?)?))
        .await?;
    let totals = &stats.totals;
    let mut document = token_classes(&totals.tokens);
    let (total, prompt) = (document["total_tokens"].as_u64(), document["prompt_tokens"].as_u64());
    let (total, prompt) = (total.unwrap_or(0), prompt.unwrap_or(0));
    let days =
        stats.days.iter().filter(|(_, figures)| figures.tokens.total_tokens() > 0).count() as u64;
    document["calls"] = totals.model_calls.into();
    document["active_days"] = days.into();
    document["avg_per_day"] = total.checked_div(days).unwrap_or(0).into();
    let rate = if prompt == 0 { 0.0 } else { totals.tokens.cache_read as f64 / prompt as f64 };
    document["cache_hit_rate"] = rate.into();
    document["top_model"] = json!(stats.models.first().map(|model| &model.key));
    let by_model = stats.models.iter().map(|model| {
        let mut document = token_classes(&model.figures.tokens);
        document["calls"] = model.figures.model_calls.into();
        (model.key.clone(), document)
    });
    let by_model: Map<String, Value> = by_model.collect();
    let week = |date: Date| {
        let week = date.iso_week_date();
        format!("{}-W{:02}", week.year(), week.week())
    };
    Ok(JsonResponse(json!({
        "totals": document, "byModel": by_model,
        "daily": sum_periods(&stats.spending, |date| date.to_string()),
        "weekly": sum_periods(&stats.spending, week),
        "monthly": sum_periods(&stats.spending, |date| date.strftime("%Y-%m").to_string()),
    })))
}

/// Sums the spending of each period, in all and by model.
fn sum_periods(spending: &[DailySpending], name: impl Fn(Date) -> String) -> Vec<Value> {
    let mut all: BTreeMap<String, BTreeMap<&str, Tokens>> = BTreeMap::new();
    for one in spending {
        *all.entry(name(one.date)).or_default().entry(&one.model).or_default() += one.tokens;
    }
    let period = |(name, models): (String, BTreeMap<&str, Tokens>)| {
        let mut sum = Tokens::default();
        for tokens in models.values() {
            sum += *tokens;
        }
        let top =
            models.iter().max_by_key(|(_, tokens)| tokens.total_tokens()).map(|(model, _)| *model);
        let mut document = token_classes(&sum);
        document["period"] = name.into();
        document["top_model"] = top.unwrap_or_default().into();
        document["models"] = models.iter().map(|(name, one)| (*name, token_classes(one))).collect();
        document
    };
    all.into_iter().map(period).collect()
}

fn token_classes(tokens: &Tokens) -> Value {
    let prompt = tokens.input + tokens.cache_read + tokens.cache_creation;
    json!({
        "prompt_tokens": prompt, "cached_tokens": tokens.cache_read,
        "completion_tokens": tokens.output, "total_tokens": prompt + tokens.output,
    })
}

async fn legacy_insights(State(app): State<Arc<App>>, Query(params): Query<Params>) -> ApiResult {
    let wanted = params.get_param("repo").map(str::to_owned);
    let report = load_score_report(&app, params).await?;
    match wanted {
        None => Ok(JsonResponse(
            json!({ "repositories": report.repositories, "agents": report.agents }),
        )),
        Some(wanted) => Ok(JsonResponse(json!(find_score(&report, &wanted)?))),
    }
}

/// Lists the scores of repositories and agents that have one, the best first.
async fn legacy_repositories(
    State(app): State<Arc<App>>,
    Query(params): Query<Params>,
) -> ApiResult {
    let report = load_score_report(&app, params).await?;
    let all = report.repositories.iter().chain(&report.agents);
    let mut all: Vec<&Score> = all.filter(|score| score.total.is_some()).collect();
    all.sort_by_key(|score| std::cmp::Reverse(score.total));
    Ok(JsonResponse(all.into_iter().map(legacy_score_fields).collect()))
}

/// Returns the score of one repository or agent.
async fn legacy_score(State(app): State<Arc<App>>, Query(params): Query<Params>) -> ApiResult {
    let Some(wanted) = params.get_param("repo").map(str::to_owned) else {
        return Err(RequestFailure::bad_request(
            "`repo` is missing: set it to a repository's directory or an agent",
        )
        .into());
    };
    let report = load_score_report(&app, params).await?;
    Ok(JsonResponse(legacy_score_fields(find_score(&report, &wanted)?)))
}

async fn load_score_report(app: &Arc<App>, params: Params) -> Result<ScoreReport> {
    app.run_query(move |journal, now| Ok(journal.score(&stats_query_from_params(&params, now)?)?))
        .await
}

/// Finds a score by the name or directory of a repository, or by any name of an agent.
fn find_score<'r>(report: &'r ScoreReport, wanted: &str) -> Result<&'r Score, RequestFailure> {
    let agent = Journal::supported_agents().find(|agent| {
        let named = agent.name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(' '));
        named || agent.name == wanted || agent.id == wanted || agent.aliases.contains(&wanted)
    });
    let name = agent.map_or(wanted, |agent| agent.name);
    let fits = |score: &&Score| {
        let whole = score.name.strip_suffix(" (all sessions)");
        [Some(&*score.name), whole].contains(&Some(name)) || score.path.as_deref() == Some(wanted)
    };
    let all = report.agents.iter().chain(&report.repositories);
    let missing = || RequestFailure::not_found(format!("no sessions in repository `{wanted}`"));
    all.into_iter().find(fits).ok_or_else(missing)
}

/// Converts the name of a category to the earlier one: `promptQuality`, `toolUtilization`.
fn category_name(name: &str) -> String {
    let mut words = name.split(' ');
    let first = words.next().unwrap_or_default().to_lowercase();
    let rest = words.map(|word| {
        let (head, tail) = word.split_at(word.len().min(1));
        format!("{}{tail}", head.to_uppercase())
    });
    let rest: String = rest.collect();
    format!("{first}{rest}").replace("Utilisation", "Utilization")
}

/// Converts a score to the earlier field names.
fn legacy_score_fields(score: &Score) -> Value {
    let categories = score.categories.iter().map(|category| {
        let category_json =
            json!({ "score": category.points, "maxScore": 20, "detail": category.measured });
        (category_name(category.name), category_json)
    });
    let categories: Map<String, Value> = categories.collect();
    json!({
        "repo": score.path.as_ref().unwrap_or(&score.name), "name": score.name,
        "totalScore": score.total, "sessionCount": score.sessions, "categories": categories,
        "tips": score.tips,
    })
}
