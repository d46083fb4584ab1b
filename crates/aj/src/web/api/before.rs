//! Endpoints as earlier dashboards for coding agents had them: `/api/sessions`,
//! `/api/sessions/{id}`, `/api/sessions/{id}/export`, `/api/search`, `/api/analytics`,
//! `/api/token-usage`, `/api/insights`, `/api/insights/repos`, `/api/insights/score`, with their
//! names for sources and fields, so that what was built on them goes on working. Durations are
//! milliseconds there.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use agent_journal::analyze::{Score, ScoreReport, SessionFigures, Spending};
use agent_journal::export::{Options, Together, Whole, format};
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

use super::{Answer, Json, Wrong, answered, asked};
use crate::commands::export::file_name;
use crate::commands::stats::models;
use crate::web::params::Params;
use crate::web::reply::Failure;
use crate::web::state::App;

/// Sessions of an answer, at most.
const MOST_SESSIONS: usize = 10_000;

/// Events of an answer: when nobody says how many, and at most.
const EVENTS: u64 = 5_000;
const MOST_EVENTS: u64 = 100_000;

/// Messages read at a time.
const STEP: u64 = 256;

/// Characters of one text, at most.
const LONGEST: usize = 10_000;

/// Says how many there are in all, where an answer is a list.
const TOTAL: HeaderName = HeaderName::from_static("x-total-count");

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/sessions", get(sessions))
        .route("/api/sessions/{id}", get(session))
        .route("/api/sessions/{id}/export", get(export))
        .route("/api/search", get(search))
        .route("/api/analytics", get(analytics))
        .route("/api/token-usage", get(token_usage))
        .route("/api/insights", get(insights))
        .route("/api/insights/repos", get(repositories))
        .route("/api/insights/score", get(score))
}

/// The name a source had there.
fn source(agent: &str) -> &str {
    let known = Journal::agents().find(|known| known.id == agent);
    let short = known
        .and_then(|known| known.aliases.iter().find(|alias| matches!(**alias, "cli" | "vscode")));
    short.copied().unwrap_or(agent)
}

fn meta(entry: &Entry, id: &str, figures: &SessionFigures) -> Value {
    json!({
        "id": id, "source": source(&entry.agent), "title": entry.title,
        "cwd": entry.cwd, "gitRoot": entry.project_path, "branch": entry.branch,
        "createdAt": entry.started_at, "updatedAt": entry.ended_at, "status": entry.status,
        "duration": entry.active_s * 1000, "model": entry.models.first(),
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

async fn sessions(
    State(app): State<Arc<App>>,
    Query(params): Query<Params>,
) -> Result<Response, Wrong> {
    let all = app.ask(move |journal, now| {
        params.check_list(now)?;
        let wanted = params.number("limit").map_or(MOST_SESSIONS, |limit| limit as usize);
        let limit = wanted.clamp(1, MOST_SESSIONS);
        let listing = journal.browse(&Browse { limit, ..params.browse(now, limit)? })?;
        let figures = journal.session_figures(&listing.entries)?;
        let mut ids: HashMap<&str, u64> = HashMap::new();
        for entry in &listing.entries {
            *ids.entry(&entry.native_id).or_default() += 1;
        }
        let all = listing.entries.iter().zip(&figures).map(|(entry, figures)| {
            // An id that two agents use is told with its agent.
            let is_own = ids[entry.native_id.as_str()] == 1;
            meta(entry, if is_own { &entry.native_id } else { &entry.id }, figures)
        });
        Ok((listing.total, all.collect::<Vec<_>>()))
    });
    let (total, all) = all.await?;
    Ok(([(TOTAL, total.to_string())], Json(Value::from(all))).into_response())
}

async fn session(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(params): Query<Params>,
) -> Answer {
    let document = app.ask(move |journal, _| {
        params.check_numbers()?;
        let entry = journal.session(&id)?;
        let figures = journal.session_figures(std::slice::from_ref(&entry))?.remove(0);
        let account = journal.account(&entry)?.unwrap_or_default();
        let plan = account.documents.iter().find(|(name, _)| name.contains("plan"));
        let offset = params.number("offset").unwrap_or(0);
        let limit = params.number("limit").unwrap_or(EVENTS).clamp(1, MOST_EVENTS);
        let mut timeline =
            Timeline { wanted: offset..offset.saturating_add(limit), ..<_>::default() };
        for from in (0..entry.transcript_length()).step_by(STEP as usize) {
            for (_, message) in journal.messages(&entry, from..from + STEP)? {
                timeline.add(&message);
            }
        }
        let own = if id.contains(':') { &entry.id } else { &entry.native_id };
        let mut document = meta(&entry, own, &figures);
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
    Ok(Json(document.await?))
}

/// The events of a session: all counted, a window of them told.
#[derive(Default)]
struct Timeline {
    wanted: Range<u64>,
    events: Vec<Value>,
    counts: BTreeMap<String, u64>,
    total: u64,
}

impl Timeline {
    fn add(&mut self, message: &Message) {
        for event in events(message) {
            let kind = event["type"].as_str().unwrap_or_default();
            *self.counts.entry(kind.to_owned()).or_default() += 1;
            if self.wanted.contains(&self.total) {
                self.events.push(event);
            }
            self.total += 1;
        }
    }
}

/// Writes a session down: `format` is markdown, html or json.
async fn export(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(params): Query<Params>,
) -> Result<Response, Wrong> {
    let name = match params.get("format") {
        None | Some("md") => "markdown",
        Some(name) => name,
    };
    let known = format(name).filter(|known| known.together() != Together::Tables);
    let Some(format) = known else {
        let known = "known are markdown, html, json, ndjson";
        return Err(Failure::bad(format!("unknown format `{name}` — {known}")).into());
    };
    let usual = app.export.clone();
    let written = app.ask(move |journal, _| {
        let entry = journal.session(&id)?;
        let redactor = format.is_shared().then(|| journal.redactor());
        let options = Options { redactor, ..usual };
        let mut export = journal.export(format, options);
        let name = file_name(&export.title(&entry)?, &entry);
        let mut out = Whole(Vec::new());
        export.write(&entry, &mut out)?;
        Ok((name, out.0))
    });
    let (name, text) = written.await?;
    let kind = match format.name() {
        "html" => "text/html; charset=utf-8",
        "markdown" => "text/markdown; charset=utf-8",
        _ => "application/json",
    };
    // A name in a header has plain letters only.
    let name: String = name.chars().filter(char::is_ascii).collect();
    let name = format!("attachment; filename=\"{name}.{}\"", format.suffix());
    let head = [(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((head, text).into_response())
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
                (format!("{role}.message"), cut("content", text))
            }
            Block::ToolCall { id, name, input } => (
                "tool.execution_start".to_owned(),
                json!({ "toolCallId": id, "toolName": name, "arguments": input }),
            ),
            Block::ToolResult { call_id, output, is_error } => {
                let mut data = cut("result", output);
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

/// Returns a text under its name; one that is too long is cut, and says so.
fn cut(name: &str, text: &str) -> Value {
    match text.char_indices().nth(LONGEST) {
        None => json!({ name: text }),
        Some((end, _)) => {
            json!({ name: &text[..end], "truncated": true, "length": text.chars().count() })
        }
    }
}

async fn search(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    let mut document = answered(&app, params).await?;
    let mut hits = document["hits"].take();
    for hit in hits.as_array_mut().into_iter().flatten() {
        let name = source(hit["source"].as_str().unwrap_or_default()).to_owned();
        hit["source"] = name.into();
    }
    document["results"] = hits;
    if let Some(document) = document.as_object_mut() {
        document.remove("hits");
    }
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
        "totalDuration": totals.active_s * 1000, "sessionsPerDay": per_day, "hourOfDay": hours,
        "toolUsage": stats.tools, "modelUsage": models(&stats)?, "topDirectories": stats.projects,
        "errorTypes": stats.errors, "totalCostUSD": totals.cost.dollars(),
        "costPerDay": cost_per_day, "tokenUsage": tokens(&totals.tokens),
    })))
}

/// Tokens by model, day, week and month. What was read from a cache is part of the prompt there.
async fn token_usage(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    let stats = app.ask(move |journal, now| Ok(journal.stats(&asked(&params, now)?)?)).await?;
    let totals = &stats.totals;
    let mut document = classes(&totals.tokens);
    let (total, prompt) = (document["total_tokens"].as_u64(), document["prompt_tokens"].as_u64());
    let (total, prompt) = (total.unwrap_or(0), prompt.unwrap_or(0));
    let days = stats.days.iter().filter(|(_, figures)| figures.tokens.total() > 0).count() as u64;
    document["calls"] = totals.model_calls.into();
    document["active_days"] = days.into();
    document["avg_per_day"] = total.checked_div(days).unwrap_or(0).into();
    let rate = if prompt == 0 { 0.0 } else { totals.tokens.cache_read as f64 / prompt as f64 };
    document["cache_hit_rate"] = rate.into();
    document["top_model"] = json!(stats.models.first().map(|model| &model.key));
    let by_model = stats.models.iter().map(|model| {
        let mut document = classes(&model.figures.tokens);
        document["calls"] = model.figures.model_calls.into();
        (model.key.clone(), document)
    });
    let by_model: Map<String, Value> = by_model.collect();
    let week = |date: Date| {
        let week = date.iso_week_date();
        format!("{}-W{:02}", week.year(), week.week())
    };
    Ok(Json(json!({
        "totals": document, "byModel": by_model,
        "daily": periods(&stats.spending, |date| date.to_string()),
        "weekly": periods(&stats.spending, week),
        "monthly": periods(&stats.spending, |date| date.strftime("%Y-%m").to_string()),
    })))
}

/// Returns what was spent in each period, by model too.
fn periods(spending: &[Spending], name: impl Fn(Date) -> String) -> Vec<Value> {
    let mut all: BTreeMap<String, BTreeMap<&str, Tokens>> = BTreeMap::new();
    for one in spending {
        *all.entry(name(one.date)).or_default().entry(&one.model).or_default() += one.tokens;
    }
    let period = |(name, models): (String, BTreeMap<&str, Tokens>)| {
        let mut sum = Tokens::default();
        for tokens in models.values() {
            sum += *tokens;
        }
        let top = models.iter().max_by_key(|(_, tokens)| tokens.total()).map(|(model, _)| *model);
        let mut document = classes(&sum);
        document["period"] = name.into();
        document["top_model"] = top.unwrap_or_default().into();
        document["models"] = models.iter().map(|(name, one)| (*name, classes(one))).collect();
        document
    };
    all.into_iter().map(period).collect()
}

fn classes(tokens: &Tokens) -> Value {
    let prompt = tokens.input + tokens.cache_read + tokens.cache_creation;
    json!({
        "prompt_tokens": prompt, "cached_tokens": tokens.cache_read,
        "completion_tokens": tokens.output, "total_tokens": prompt + tokens.output,
    })
}

async fn insights(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    let wanted = params.get("repo").map(str::to_owned);
    let report = report(&app, params).await?;
    match wanted {
        None => Ok(Json(json!({ "repositories": report.repositories, "agents": report.agents }))),
        Some(wanted) => Ok(Json(json!(find(&report, &wanted)?))),
    }
}

/// Lists the scores of repositories and agents that have one, the best first.
async fn repositories(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    let report = report(&app, params).await?;
    let all = report.repositories.iter().chain(&report.agents);
    let mut all: Vec<&Score> = all.filter(|score| score.total.is_some()).collect();
    all.sort_by_key(|score| std::cmp::Reverse(score.total));
    Ok(Json(all.into_iter().map(scored).collect()))
}

/// Tells the score of one repository or agent.
async fn score(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    let Some(wanted) = params.get("repo").map(str::to_owned) else {
        return Err(Failure::bad("repo is missing: a repository's directory, or an agent").into());
    };
    let report = report(&app, params).await?;
    Ok(Json(scored(find(&report, &wanted)?)))
}

async fn report(app: &Arc<App>, params: Params) -> Result<ScoreReport> {
    app.ask(move |journal, now| Ok(journal.score(&asked(&params, now)?)?)).await
}

/// Finds a score by the name or directory of a repository, or by any name of an agent.
fn find<'r>(report: &'r ScoreReport, wanted: &str) -> Result<&'r Score, Failure> {
    let agent = Journal::agents().find(|agent| {
        let named = agent.name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(' '));
        named || agent.name == wanted || agent.id == wanted || agent.aliases.contains(&wanted)
    });
    let name = agent.map_or(wanted, |agent| agent.name);
    let fits = |score: &&Score| {
        let whole = score.name.strip_suffix(" (all sessions)");
        [Some(&*score.name), whole].contains(&Some(name)) || score.path.as_deref() == Some(wanted)
    };
    let all = report.agents.iter().chain(&report.repositories);
    let missing = || Failure::missing(format!("no sessions in a repository `{wanted}`"));
    all.into_iter().find(fits).ok_or_else(missing)
}

/// The name of a category there: `promptQuality`, `toolUtilization`.
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

/// A score with the names it had there.
fn scored(score: &Score) -> Value {
    let categories = score.categories.iter().map(|category| {
        let told = json!({ "score": category.points, "maxScore": 20, "detail": category.measured });
        (category_name(category.name), told)
    });
    let categories: Map<String, Value> = categories.collect();
    json!({
        "repo": score.path.as_ref().unwrap_or(&score.name), "name": score.name,
        "totalScore": score.total, "sessionCount": score.sessions, "categories": categories,
        "tips": score.tips,
    })
}
