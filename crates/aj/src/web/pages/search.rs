//! The search: the same language as `aj search`, with facets at the side.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use agent_journal::search::{Answer, Found, Hit, Query as Wanted, Snippet, Tier};
use agent_journal::{Entry, TextKind};
use axum::extract::{Query, State};
use jiff::Zoned;
use maud::{Markup, html};

use crate::output::{ago, count, thousands};
use crate::web::layout::{self, Nav};
use crate::web::params::{self, Params};
use crate::web::reply::Page;
use crate::web::state::App;

/// Sessions of an answer.
const SESSIONS: usize = 30;

/// What can be typed, with what it finds.
const EXAMPLES: [(&str, &str); 6] = [
    ("flaky login test", "all of the words, ranked; some of them when not all are there"),
    ("\"connection refused\"", "words next to each other"),
    ("tokeniz*", "a beginning of a word"),
    ("retry -draft", "without a word"),
    ("since:7d timeout", "of the last week"),
    ("project:web role:user migration", "in one project, in what you said"),
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
) -> Page {
    let asked = params.clone();
    let told = app.ask(move |journal, now| {
        let started = Instant::now();
        let text = asked.get("q").unwrap_or_default();
        let query = match Wanted::parse(text, now) {
            Ok(query) => query,
            Err(error) => return Ok(Told::Wrong(error.to_string())),
        };
        if query.clauses.iter().all(|clause| clause.negated) {
            return Ok(Told::Nothing);
        }
        let offset = asked.number("offset").unwrap_or(0) as usize;
        let answer = Box::new(journal.search(&query, SESSIONS, offset)?);
        let took = started.elapsed().as_millis();
        Ok(Told::Answer { answer, now: Box::new(now.clone()), took })
    });
    let told = told.await?;
    if params.get("rows").is_some() {
        return Ok(results(&told, &params));
    }
    let text = params.get("q").unwrap_or_default();
    let title = if text.is_empty() { "Search".to_owned() } else { format!("{text} · Search") };
    Ok(layout::page(&title, Nav::Search, body(&told, &params)))
}

fn body(told: &Told, params: &Params) -> Markup {
    html! {
        h1.sr { "Search" }
        form.search action="/search" method="get" role="search" data-search {
            input type="search" id="q" name="q" value=(params.get("q").unwrap_or_default())
                placeholder="Search everything your agents said and did"
                aria-label="Search" autocomplete="off" autocapitalize="off" spellcheck="false"
                role="combobox" aria-expanded="false" aria-controls="suggestions" aria-autocomplete="list";
            button.primary type="submit" { "Search" }
            ul.suggestions id="suggestions" role="listbox" aria-label="Completions" hidden {}
        }
        div id="results" aria-live="polite" data-live="results" { (results(told, params)) }
    }
}

fn results(told: &Told, params: &Params) -> Markup {
    match told {
        Told::Nothing => help(),
        Told::Wrong(message) => html! { p.notice.bad role="alert" { (message) } },
        Told::Answer { answer, .. } if answer.sessions.is_empty() => nothing(params),
        Told::Answer { answer, now, took } => html! {
            p.muted.summary {
                (thousands(answer.total)) @if answer.total == 1 { " session" } @else { " sessions" }
                " · " (took) " ms · "
                span class={ "tier " (tier(answer.tier)) } { (tier(answer.tier)) }
            }
            div.found {
                ol.hits { @for found in &answer.sessions { (session(found, now)) } }
                (facets(answer, params))
            }
            (further(answer, params))
        },
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
    let first = found.hits.iter().find_map(|hit| hit.position);
    let href =
        first.map_or_else(|| params::session(&entry.id), |at| params::message(&entry.id, at + 1));
    let shown = found.hits.len() as u64;
    html! {
        li.hit {
            div.heading {
                (layout::badge(&entry.agent))
                a.name href=(href) { (entry.title) }
                span.muted.where { (place(entry)) " · " (ago(entry.ended_at, now)) " · " (count(entry.counts.user_prompts, "prompt")) }
            }
            ol { @for hit in &found.hits { (line(entry, hit)) } }
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

fn line(entry: &Entry, hit: &Hit) -> Markup {
    let who = match hit.kind {
        TextKind::Prompt => "you",
        TextKind::Reply => "agent",
        TextKind::ToolInput | TextKind::ToolOutput => "tool",
        TextKind::Thinking => "thought",
        TextKind::Title => "title",
        TextKind::Document => "summary",
    };
    let index = hit.position.map(|position| position + 1);
    let href =
        index.map_or_else(|| params::session(&entry.id), |index| params::message(&entry.id, index));
    html! {
        li {
            a href=(href) {
                span.number { @if let Some(index) = index { "#" (index) } }
                span class={ "kind " (who) } { (who) }
                span.text { (marked(&hit.snippet)) }
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

/// What the answer could be narrowed by.
fn facets(answer: &Answer, params: &Params) -> Markup {
    let mut agents = BTreeMap::new();
    let mut projects = BTreeMap::new();
    for found in &answer.sessions {
        *agents.entry(found.entry.agent.as_str()).or_insert(0_u64) += 1;
        if let Some(project) = &found.entry.project {
            *projects.entry(project.as_str()).or_insert(0_u64) += 1;
        }
    }
    html! {
        aside.facets aria-label="Narrow the search" {
            (facet("Agent", "agent", agents, params))
            (facet("Project", "project", projects, params))
            h2 { "Said by" }
            ul { @for role in ["user", "assistant", "tool"] { li { (narrow("role", role, params)) } } }
            h2 { "Time" }
            ul { @for time in ["7d", "30d", "365d"] { li { (narrow("since", time, params)) } } }
        }
    }
}

fn facet(title: &str, field: &str, values: BTreeMap<&str, u64>, params: &Params) -> Markup {
    let mut values: Vec<(&str, u64)> = values.into_iter().collect();
    values.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(other.0)));
    html! {
        @if !values.is_empty() {
            h2 { (title) }
            ul { @for (value, number) in values.into_iter().take(8) {
                li { (narrow(field, value, params)) " " span.muted { (number) } }
            } }
        }
    }
}

/// A link that adds a field to the query, or takes it out again.
fn narrow(field: &str, value: &str, params: &Params) -> Markup {
    let quoted =
        if value.contains(char::is_whitespace) { format!("\"{value}\"") } else { value.to_owned() };
    let word = format!("{field}:{quoted}");
    let text = params.get("q").unwrap_or_default();
    let rest: Vec<&str> = text.split_whitespace().filter(|one| *one != word).collect();
    let is_on = rest.len() < text.split_whitespace().count();
    let query = if is_on { rest.join(" ") } else { format!("{text} {word}") };
    let href = params.with("/search", &[("q", &query), ("offset", ""), ("rows", "")]);
    html! { a href=(href) aria-pressed=[is_on.then_some("true")] class=[is_on.then_some("on")] { (value) } }
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
