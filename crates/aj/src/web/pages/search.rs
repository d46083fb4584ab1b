//! The search page: the query language of `aj search`, with facets at the side.

use std::sync::Arc;
use std::time::Instant;

use agent_journal::connectors::Agent;
use agent_journal::present::{nothing_close_line, tier_label, tier_note};
use agent_journal::search::{
    Answer, Counts, Facet, Filter, Found, Grouping, Hit, Mode, Query as Wanted, SearchOptions,
    Snippet, Sort, Tier,
};
use agent_journal::{Entry, Journal};
use anyhow::Result;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use jiff::Zoned;
use maud::{Markup, html};

use crate::output::{self, count, relative_time, text_author, thousands};
use crate::session_filter::why_no_meaning;
use crate::web::layout::{self, Nav};
use crate::web::pages::sessions::short_model;
use crate::web::params::{self, Params, percent_encode};
use crate::web::reply::{CompressedPage, HandlerResult};
use crate::web::state::App;

/// Sessions of a page of results.
const SESSIONS: usize = 20;

/// Most values of a facet.
const VALUES: usize = 8;

/// The periods that results can be narrowed to.
const TIMES: [(&str, &str); 3] = [("7d", "7 days"), ("30d", "30 days"), ("365d", "A year")];

/// Example queries, with the results they find.
const EXAMPLES: [(&str, &str); 7] = [
    ("flaky login test", "all words, best match first; some of them if no message has all"),
    ("\"connection refused\"", "words next to each other"),
    ("tokeniz*", "words that begin like this"),
    ("retry -draft", "without this word"),
    ("since:7d timeout", "in the last week"),
    ("project:web role:user migration", "in your prompts in one project"),
    ("tool:bash is:failed since:7d", "fields alone: every failed command of the last week"),
];

/// The outcome of a search.
enum SearchOutcome {
    Nothing,
    Wrong(String),
    Answer { answer: Box<Answer>, note: Option<String>, now: Box<Zoned>, took: u128 },
}

/// Shows the search page.
pub(in crate::web) async fn search_page(
    State(app): State<Arc<App>>,
    Query(params): Query<Params>,
) -> HandlerResult<(StatusCode, CompressedPage)> {
    let mode = app.mode;
    // A query that is still being typed is no error yet.
    let is_page = params.get_param("rows").is_none();
    let status = match Wanted::parse(params.get_param("q").unwrap_or_default(), &Zoned::now()) {
        Err(_) if is_page => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    let write = move |journal: &Journal, params: &Params, now: &Zoned| {
        Ok(write_search_page(&run_search(journal, params, now, mode)?, params))
    };
    Ok((status, super::listing_page(&app, "/search", params, write).await?))
}

fn write_search_page(outcome: &SearchOutcome, params: &Params) -> Markup {
    if params.get_param("rows").is_some() {
        return search_results(outcome, params);
    }
    let text = params.get_param("q").unwrap_or_default();
    let title = if text.is_empty() { "Search".to_owned() } else { format!("{text} · Search") };
    layout::page_layout(&title, Nav::Search, search_body(outcome, params))
}

fn run_search(
    journal: &Journal,
    params: &Params,
    now: &Zoned,
    mode: Mode,
) -> Result<SearchOutcome> {
    let started = Instant::now();
    let parsed = Wanted::parse(params.get_param("q").unwrap_or_default(), now);
    let chosen = params.session_filter(now);
    let (mut query, chosen) = match (parsed, chosen) {
        (Ok(query), Ok(chosen)) => (query, chosen),
        (Err(error), _) => return Ok(SearchOutcome::Wrong(error.to_string())),
        (_, Err(error)) => return Ok(SearchOutcome::Wrong(error.to_string())),
    };
    query.filter.join(chosen);
    let is_blank = query.is_fields_only() && query.filter == Filter::default();
    if is_blank || !query.looks_for_something() && !query.is_fields_only() {
        return Ok(SearchOutcome::Nothing);
    }
    if let Some(reason) = why_no_meaning(journal, mode) {
        return Ok(SearchOutcome::Wrong(reason));
    }
    let options = SearchOptions {
        mode,
        sort: if params.get_param("sort") == Some("time") { Sort::Time } else { Sort::Relevance },
        limit: SESSIONS,
        offset: params.number_param("offset").unwrap_or(0) as usize,
        facets: vec![Facet::Agent, Facet::Project, Facet::Model, Facet::Month],
        zone: now.time_zone().clone(),
        ..SearchOptions::default()
    };
    let answer = Box::new(journal.search(&query, &options)?);
    let took = started.elapsed().as_millis();
    Ok(SearchOutcome::Answer { answer, note: query.reading_note, now: Box::new(now.clone()), took })
}

fn search_body(outcome: &SearchOutcome, params: &Params) -> Markup {
    html! {
        h1.sr { "Search" }
        form.search action="/search" method="get" role="search" data-search {
            input type="search" id="q" name="q" value=(params.get_param("q").unwrap_or_default())
                placeholder="Search all sessions"
                aria-label="Search" autocomplete="off" autocapitalize="off" spellcheck="false"
                role="combobox" aria-expanded="false" aria-controls="suggestions" aria-autocomplete="list";
            select name="agent" aria-label="Agent" data-agent {
                option value="" { "All agents" }
                @for one in Journal::supported_agents() {
                    option value=(one.id) selected[is_agent_selected(params, one)] { (one.name) }
                }
            }
            button.primary type="submit" { "Search" }
            ul.suggestions id="suggestions" role="listbox" aria-label="Completions" hidden {}
        }
        div id="results" aria-live="polite" data-live="results" { (search_results(outcome, params)) }
    }
}

/// Returns whether the parameters select an agent, by any of its names.
fn is_agent_selected(params: &Params, agent: &Agent) -> bool {
    params.get_param("agent").is_some_and(|name| agent.id == name || agent.aliases.contains(&name))
}

fn search_results(outcome: &SearchOutcome, params: &Params) -> Markup {
    match outcome {
        SearchOutcome::Nothing => query_help(),
        SearchOutcome::Wrong(message) => html! { p.notice.bad role="alert" { (message) } },
        SearchOutcome::Answer { answer, note, .. } if answer.sessions.is_empty() => html! {
            (reading_note(note.as_deref()))
            @if answer.distant > 0 {
                p.notice { (nothing_close_line(answer.distant)) }
            } @else { (nothing_found_hint(params)) }
        },
        SearchOutcome::Answer { answer, note, now, took } => html! {
            (reading_note(note.as_deref()))
            p.muted.summary {
                (thousands(answer.total)) " " (result_noun(answer))
                " · " (took) " ms · "
                @if answer.tier == Tier::Listed { "latest first" } @else {
                    @let is_complete = tier_note(answer.tier).is_none();
                    span.tier.partial[!is_complete] { (tier_label(answer.tier)) }
                    (sort_links(params))
                }
            }
            div.found {
                ol.hits { @for found in &answer.sessions { (found_session(found, now)) } }
                (facet_links(answer, params))
            }
            (next_page_link(answer, params))
        },
    }
}

/// Renders how the query was read, if that is not obvious.
fn reading_note(note: Option<&str>) -> Markup {
    html! { @if let Some(note) = note { p.muted { (note) } } }
}

/// Returns the noun for the results.
fn result_noun(answer: &Answer) -> &'static str {
    match (answer.grouping, answer.total) {
        (Grouping::Session, 1) => "session",
        (Grouping::Session, _) => "sessions",
        (Grouping::Message, 1) => "message",
        (Grouping::Message, _) => "messages",
    }
}

/// Renders the links that change the order.
fn sort_links(params: &Params) -> Markup {
    let chosen = params.get_param("sort").unwrap_or_default();
    html! {
        span.orders role="group" aria-label="Order" {
            @for (name, label) in [("", "Best first"), ("time", "Latest first")] {
                a href=(params.url_with("/search", &[("sort", name), ("offset", ""), ("rows", "")]))
                    aria-current=[(chosen == name).then_some("true")] { (label) }
            }
        }
    }
}

fn next_page_link(answer: &Answer, params: &Params) -> Markup {
    let offset = params.number_param("offset").unwrap_or(0);
    let end = offset + answer.sessions.len() as u64;
    let step = |to: u64| {
        let to = if to == 0 { String::new() } else { to.to_string() };
        params.url_with("/search", &[("offset", &to), ("rows", "")])
    };
    html! {
        nav.pager aria-label="Results" {
            @if offset > 0 { a.button href=(step(offset.saturating_sub(SESSIONS as u64))) { "Previous results" } }
            @if end < answer.total { a.button href=(step(end)) { "More results" } }
        }
    }
}

fn found_session(found: &Found, now: &Zoned) -> Markup {
    let entry = &found.entry;
    let first = found.hits.iter().find_map(|hit| Some((hit, hit.position?)));
    let href = first.map_or_else(
        || params::session_url(&entry.id),
        |(hit, at)| params::message_url(&output::search::session_of_hit(found, hit).id, at + 1),
    );
    let shown = found.hits.len() as u64;
    html! {
        li.hit {
            div.heading {
                (layout::agent_badge_markup(&entry.agent))
                a.name href=(href) { (entry.title) }
                span.muted.where { (session_place(entry)) " · " (relative_time(entry.ended_at, now)) " · " (count(entry.counts.user_prompts, "prompt")) }
            }
            ol { @for hit in &found.hits { (hit_line(found, hit)) } }
            @if found.matches > shown {
                p.muted.rest { (thousands(found.matches - shown)) " more in this session" }
            }
        }
    }
}

fn session_place(entry: &Entry) -> String {
    let project = entry.project.as_deref().unwrap_or("no project");
    entry
        .branch
        .as_ref()
        .map_or_else(|| project.to_owned(), |branch| format!("{project} · {branch}"))
}

fn hit_line(of: &Found, hit: &Hit) -> Markup {
    let entry = output::search::session_of_hit(of, hit);
    let who = text_author(entry, hit.kind);
    let index = hit.position.map(|position| position + 1);
    let href = index.map_or_else(
        || params::session_url(&entry.id),
        |index| hit_url(&entry.id, index, &hit.snippet),
    );
    html! {
        li {
            a href=(href) {
                span.number { @if let Some(index) = index { "#" (index) } }
                span class={ "kind " (who) } { (who) }
                span.text {
                    @if let Some(within) = &hit.within { span.muted { "in " (within.title) " · " } }
                    (marked_snippet(&hit.snippet))
                }
            }
            @if let Some(index) = index {
                details.context data-load=(format!("{}/part?from={}&until={}", params::session_url(&entry.id),
                    index.saturating_sub(3).max(1), index + 4)) {
                    summary { "context" }
                    div.transcript { a href=(href) { "Open the session here" } }
                }
            }
        }
    }
}

/// Returns the URL of a message with a hit; folded parts around the hit are opened.
pub(in crate::web) fn hit_url(id: &str, index: u64, snippet: &Snippet) -> String {
    let place = params::message_url(id, index);
    let text = snippet.highlights.first().and_then(|range| snippet.text.get(range.clone()));
    match text {
        Some(text) => place.replacen('#', &format!("&find={}#", percent_encode(text)), 1),
        None => place,
    }
}

/// Renders a snippet with the matches marked.
pub(in crate::web) fn marked_snippet(snippet: &Snippet) -> Markup {
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

/// Renders the values that narrow the results, with the number of sessions in all results.
fn facet_links(answer: &Answer, params: &Params) -> Markup {
    html! {
        aside.facets aria-label="Filters" {
            @for (facet, counts) in &answer.facets { (facet_of(*facet, counts, params)) }
            h2 { "Said by" }
            ul { @for role in ["user", "assistant", "tool"] { li { (narrowing_link(&format!("role:{role}"), role, params)) } } }
            h2 { "Time" }
            ul { @for (time, name) in TIMES { li { (narrowing_link(&format!("since:{time}"), name, params)) } } }
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
        Facet::Agent => layout::agent_display_name(value),
        Facet::Model => short_model(value).to_owned(),
        _ => value.to_owned(),
    };
    // Sessions without a value cannot be selected.
    let known: Vec<_> = counts.iter().filter(|(value, _)| value != "–").take(VALUES).collect();
    html! {
        @if !known.is_empty() {
            h2 { (title) }
            ul { @for (value, number) in known {
                li { (narrowing_link(&words(value), &name(value), params)) " " span.muted { (thousands(*number)) } }
            } }
        }
    }
}

/// Renders a link that adds words to the query, or removes them again.
fn narrowing_link(words: &str, name: &str, params: &Params) -> Markup {
    let text = params.get_param("q").unwrap_or_default();
    let (spaced, part) = (format!(" {text} "), format!(" {words} "));
    let is_on = spaced.contains(&part);
    let query = if is_on { spaced.replacen(&part, " ", 1) } else { format!("{text} {words}") };
    let href = params.url_with("/search", &[("q", query.trim()), ("offset", ""), ("rows", "")]);
    html! { a href=(href) aria-pressed=[is_on.then_some("true")] class=[is_on.then_some("on")] title=(words) { (name) } }
}

fn query_help() -> Markup {
    html! {
        div.help {
            h2 { "Query examples" }
            dl {
                @for (query, finds) in EXAMPLES {
                    dt { a href=(format!("/search?q={}", params::percent_encode(query))) { code { (query) } } }
                    dd { (finds) }
                }
            }
        }
    }
}

fn nothing_found_hint(params: &Params) -> Markup {
    html! {
        div.empty {
            h2 { "Nothing found" }
            p { "No session matches " code { (params.get_param("q").unwrap_or_default()) } "." }
            p { "Try fewer words, a prefix such as " code { "tokeniz*" } ", or remove a field such as " code { "since:" } "." }
        }
    }
}
