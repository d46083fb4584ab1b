//! The search: the same language as `aj search`, with facets at the side.

use std::sync::Arc;
use std::time::Instant;

use agent_journal::connectors::Agent;
use agent_journal::search::{
    Answer, Counts, Facet, Filter, Found, Grouping, Hit, Mode, Options, Query as Wanted, Snippet,
    Sort, Tier,
};
use agent_journal::{Entry, Journal, TextKind};
use anyhow::Result;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use jiff::Zoned;
use maud::{Markup, html};

use crate::commands::search::why_no_meaning;
use crate::output::{self, ago, count, thousands};
use crate::web::layout::{self, Nav};
use crate::web::pages::sessions::short_model;
use crate::web::params::{self, Params, encode};
use crate::web::reply::{Packed, Reply};
use crate::web::state::App;

/// Sessions of an answer.
const SESSIONS: usize = 20;

/// Values of a facet.
const VALUES: usize = 8;

/// Spans of time that an answer can be narrowed to.
const TIMES: [(&str, &str); 3] = [("7d", "7 days"), ("30d", "30 days"), ("365d", "A year")];

/// What can be typed, with what it finds.
const EXAMPLES: [(&str, &str); 7] = [
    ("flaky login test", "all of the words, ranked; some of them when not all are there"),
    ("\"connection refused\"", "words next to each other"),
    ("tokeniz*", "a beginning of a word"),
    ("retry -draft", "without a word"),
    ("since:7d timeout", "of the last week"),
    ("project:web role:user migration", "in one project, in what you said"),
    ("tool:bash is:failed since:7d", "fields alone: every command that failed in a week"),
];

/// An answer, or why there is none.
enum Told {
    Nothing,
    Wrong(String),
    Answer { answer: Box<Answer>, now: Box<Zoned>, took: u128 },
}

/// Shows the search.
pub(in crate::web) async fn show(
    State(app): State<Arc<App>>,
    Query(params): Query<Params>,
) -> Reply<(StatusCode, Packed)> {
    let mode = app.mode;
    // What is shown below the field while somebody types is no mistake yet.
    let is_page = params.get("rows").is_none();
    let status = match Wanted::parse(params.get("q").unwrap_or_default(), &Zoned::now()) {
        Err(_) if is_page => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    let write = move |journal: &Journal, params: &Params, now: &Zoned| {
        Ok(write(&ask(journal, params, (now, mode))?, params))
    };
    Ok((status, super::moment(&app, "/search", params, write).await?))
}

fn write(told: &Told, params: &Params) -> Markup {
    if params.get("rows").is_some() {
        return results(told, params);
    }
    let text = params.get("q").unwrap_or_default();
    let title = if text.is_empty() { "Search".to_owned() } else { format!("{text} · Search") };
    layout::page(&title, Nav::Search, body(told, params))
}

fn ask(journal: &Journal, params: &Params, (now, mode): (&Zoned, Mode)) -> Result<Told> {
    let started = Instant::now();
    let parsed = Wanted::parse(params.get("q").unwrap_or_default(), now);
    let chosen = params.filter(now);
    let (mut query, chosen) = match (parsed, chosen) {
        (Ok(query), Ok(chosen)) => (query, chosen),
        (Err(error), _) => return Ok(Told::Wrong(error.to_string())),
        (_, Err(error)) => return Ok(Told::Wrong(error.to_string())),
    };
    query.filter.join(chosen);
    let is_blank = query.is_fields_only() && query.filter == Filter::default();
    if is_blank || !query.looks_for_something() && !query.is_fields_only() {
        return Ok(Told::Nothing);
    }
    if let Some(reason) = why_no_meaning(journal, mode) {
        return Ok(Told::Wrong(reason));
    }
    let options = Options {
        mode,
        sort: if params.get("sort") == Some("time") { Sort::Time } else { Sort::Relevance },
        limit: SESSIONS,
        offset: params.number("offset").unwrap_or(0) as usize,
        facets: vec![Facet::Agent, Facet::Project, Facet::Model, Facet::Month],
        zone: now.time_zone().clone(),
        ..Options::default()
    };
    let answer = Box::new(journal.find(&query, &options)?);
    let took = started.elapsed().as_millis();
    Ok(Told::Answer { answer, now: Box::new(now.clone()), took })
}

fn body(told: &Told, params: &Params) -> Markup {
    html! {
        h1.sr { "Search" }
        form.search action="/search" method="get" role="search" data-search {
            input type="search" id="q" name="q" value=(params.get("q").unwrap_or_default())
                placeholder="Search everything your agents said and did"
                aria-label="Search" autocomplete="off" autocapitalize="off" spellcheck="false"
                role="combobox" aria-expanded="false" aria-controls="suggestions" aria-autocomplete="list";
            select name="agent" aria-label="Source" data-agent {
                option value="" { "Every source" }
                @for one in Journal::agents() {
                    option value=(one.id) selected[is_chosen(params, one)] { (one.name) }
                }
            }
            button.primary type="submit" { "Search" }
            ul.suggestions id="suggestions" role="listbox" aria-label="Completions" hidden {}
        }
        div id="results" aria-live="polite" data-live="results" { (results(told, params)) }
    }
}

/// Whether an address chooses an agent, by any of its names.
fn is_chosen(params: &Params, agent: &Agent) -> bool {
    params.get("agent").is_some_and(|name| agent.id == name || agent.aliases.contains(&name))
}

fn results(told: &Told, params: &Params) -> Markup {
    match told {
        Told::Nothing => help(),
        Told::Wrong(message) => html! { p.notice.bad role="alert" { (message) } },
        Told::Answer { answer, .. } if answer.sessions.is_empty() => nothing(params),
        Told::Answer { answer, now, took } => html! {
            p.muted.summary {
                (thousands(answer.total)) " " (noun(answer))
                " · " (took) " ms · "
                @if answer.tier == Tier::Listed { "latest first" } @else {
                    span class={ "tier " (tier(answer.tier)) } { (tier(answer.tier)) }
                    (orders(params))
                }
            }
            div.found {
                ol.hits { @for found in &answer.sessions { (session(found, now)) } }
                (facets(answer, params))
            }
            (further(answer, params))
        },
    }
}

/// What the results of an answer are called.
fn noun(answer: &Answer) -> &'static str {
    match (answer.group, answer.total) {
        (Grouping::Session, 1) => "session",
        (Grouping::Session, _) => "sessions",
        (Grouping::Message, 1) => "message",
        (Grouping::Message, _) => "messages",
    }
}

/// The orders of an answer.
fn orders(params: &Params) -> Markup {
    let chosen = params.get("sort").unwrap_or_default();
    html! {
        span.orders role="group" aria-label="Order" {
            @for (name, label) in [("", "Best first"), ("time", "Latest first")] {
                a href=(params.with("/search", &[("sort", name), ("offset", ""), ("rows", "")]))
                    aria-current=[(chosen == name).then_some("true")] { (label) }
            }
        }
    }
}

fn further(answer: &Answer, params: &Params) -> Markup {
    let offset = params.number("offset").unwrap_or(0);
    let end = offset + answer.sessions.len() as u64;
    let step = |to: u64| {
        let to = if to == 0 { String::new() } else { to.to_string() };
        params.with("/search", &[("offset", &to), ("rows", "")])
    };
    html! {
        nav.pager aria-label="Results" {
            @if offset > 0 { a.button href=(step(offset.saturating_sub(SESSIONS as u64))) { "Better results" } }
            @if end < answer.total { a.button href=(step(end)) { "More results" } }
        }
    }
}

/// How closely an answer fits, in the words of the API.
fn tier(tier: Tier) -> String {
    let name = serde_json::to_value(tier).unwrap_or_default();
    name.as_str().unwrap_or_default().replace('_', " ")
}

fn session(found: &Found, now: &Zoned) -> Markup {
    let entry = &found.entry;
    let first = found.hits.iter().find_map(|hit| Some((hit, hit.position?)));
    let href = first.map_or_else(
        || params::session(&entry.id),
        |(hit, at)| params::message(&output::search::place(found, hit).id, at + 1),
    );
    let shown = found.hits.len() as u64;
    html! {
        li.hit {
            div.heading {
                (layout::badge(&entry.agent))
                a.name href=(href) { (entry.title) }
                span.muted.where { (place(entry)) " · " (ago(entry.ended_at, now)) " · " (count(entry.counts.user_prompts, "prompt")) }
            }
            ol { @for hit in &found.hits { (line(found, hit)) } }
            @if found.matches > shown {
                p.muted.rest { (thousands(found.matches - shown)) " more in this session" }
            }
        }
    }
}

fn place(entry: &Entry) -> String {
    let project = entry.project.as_deref().unwrap_or("no project");
    entry
        .branch
        .as_ref()
        .map_or_else(|| project.to_owned(), |branch| format!("{project} · {branch}"))
}

fn line(of: &Found, hit: &Hit) -> Markup {
    let entry = output::search::place(of, hit);
    let who = match hit.kind {
        TextKind::Prompt if entry.is_agent_session => "parent agent",
        TextKind::Prompt => "you",
        TextKind::Reply => "agent",
        TextKind::ToolInput | TextKind::ToolOutput => "tool",
        TextKind::Thinking => "thought",
        TextKind::Title => "title",
        TextKind::Document => "summary",
    };
    let index = hit.position.map(|position| position + 1);
    let href = index
        .map_or_else(|| params::session(&entry.id), |index| found(&entry.id, index, &hit.snippet));
    html! {
        li {
            a href=(href) {
                span.number { @if let Some(index) = index { "#" (index) } }
                span class={ "kind " (who) } { (who) }
                span.text {
                    @if let Some(within) = &hit.within { span.muted { "in " (within.title) " · " } }
                    (marked(&hit.snippet))
                }
            }
            @if let Some(index) = index {
                details.context data-load=(format!("{}/part?from={}&until={}", params::session(&entry.id),
                    index.saturating_sub(3).max(1), index + 4)) {
                    summary { "context" }
                    div.transcript { a href=(href) { "Open the session here" } }
                }
            }
        }
    }
}

/// The address of a message in which something was found: what is folded around it is opened.
pub(in crate::web) fn found(id: &str, index: u64, snippet: &Snippet) -> String {
    let place = params::message(id, index);
    let text = snippet.highlights.first().and_then(|range| snippet.text.get(range.clone()));
    match text {
        Some(text) => place.replacen('#', &format!("&find={}#", encode(text)), 1),
        None => place,
    }
}

/// A snippet with the found words marked.
pub(in crate::web) fn marked(snippet: &Snippet) -> Markup {
    let mut at = 0;
    let mut parts = Vec::new();
    for range in &snippet.highlights {
        let (Some(before), Some(found)) =
            (snippet.text.get(at..range.start), snippet.text.get(range.clone()))
        else {
            continue;
        };
        parts.push((before, found));
        at = range.end;
    }
    html! {
        @for (before, found) in parts { (before) mark { (found) } }
        (snippet.text.get(at..).unwrap_or_default())
    }
}

/// What the answer could be narrowed by, with the number of sessions in the whole answer.
fn facets(answer: &Answer, params: &Params) -> Markup {
    html! {
        aside.facets aria-label="Narrow the search" {
            @for (facet, counts) in &answer.facets { (facet_of(*facet, counts, params)) }
            h2 { "Said by" }
            ul { @for role in ["user", "assistant", "tool"] { li { (narrow(&format!("role:{role}"), role, params)) } } }
            h2 { "Time" }
            ul { @for (time, name) in TIMES { li { (narrow(&format!("since:{time}"), name, params)) } } }
        }
    }
}

fn facet_of(facet: Facet, counts: &Counts, params: &Params) -> Markup {
    let (title, field) = match facet {
        Facet::Agent => ("Agent", "agent"),
        Facet::Project => ("Project", "project"),
        Facet::Model => ("Model", "model"),
        Facet::Month => ("Month", "since"),
    };
    let words = |value: &str| match facet {
        Facet::Month => format!("since:{value} until:{value}"),
        Facet::Agent => format!("{field}:{value}"),
        // The whole name: a part of it would find more than was counted.
        _ if value.contains(char::is_whitespace) => format!("{field}:\"={value}\""),
        _ => format!("{field}:={value}"),
    };
    let name = |value: &str| match facet {
        Facet::Agent => layout::agent_name(value),
        Facet::Model => short_model(value).to_owned(),
        _ => value.to_owned(),
    };
    // What has no value cannot be asked for.
    let known: Vec<_> = counts.iter().filter(|(value, _)| value != "–").take(VALUES).collect();
    html! {
        @if !known.is_empty() {
            h2 { (title) }
            ul { @for (value, number) in known {
                li { (narrow(&words(value), &name(value), params)) " " span.muted { (thousands(*number)) } }
            } }
        }
    }
}

/// A link that adds words to the query, or takes them out again.
fn narrow(words: &str, name: &str, params: &Params) -> Markup {
    let text = params.get("q").unwrap_or_default();
    let (spaced, part) = (format!(" {text} "), format!(" {words} "));
    let is_on = spaced.contains(&part);
    let query = if is_on { spaced.replacen(&part, " ", 1) } else { format!("{text} {words}") };
    let href = params.with("/search", &[("q", query.trim()), ("offset", ""), ("rows", "")]);
    html! { a href=(href) aria-pressed=[is_on.then_some("true")] class=[is_on.then_some("on")] title=(words) { (name) } }
}

fn help() -> Markup {
    html! {
        div.help {
            h2 { "What can be asked" }
            dl {
                @for (query, finds) in EXAMPLES {
                    dt { a href=(format!("/search?q={}", params::encode(query))) { code { (query) } } }
                    dd { (finds) }
                }
            }
        }
    }
}

fn nothing(params: &Params) -> Markup {
    html! {
        div.empty {
            h2 { "Nothing found" }
            p { "No session has " code { (params.get("q").unwrap_or_default()) } "." }
            p { "Fewer words or a beginning like " code { "tokeniz*" } " find more; so does taking a field such as " code { "since:" } " away." }
        }
    }
}
