//! The sessions: filters, order, a window of rows; sub-agents folded under those who started them.

use std::sync::Arc;

use agent_journal::analyze::SessionFigures;
use agent_journal::search::Scope;
use agent_journal::{Entry, Facets, Journal, Listing};
use anyhow::Result;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Zoned;
use maud::{Markup, html};

use crate::output::{
    ago, amount, clock, count, known_duration, money, money_of_share, plural, thousands, tokens,
};
use crate::web::layout::{self, Nav};
use crate::web::params::{self, ORDERS, Params};
use crate::web::reply::Reply;
use crate::web::state::App;

/// Rows of a window.
const ROWS: usize = 100;

/// Choices of time, by their name in the address.
pub(in crate::web) const TIMES: [(&str, &str); 5] = [
    ("today", "Today"),
    ("7d", "7 days"),
    ("30d", "30 days"),
    ("90d", "90 days"),
    ("365d", "A year"),
];

struct List {
    listing: Listing,
    figures: Vec<SessionFigures>,
    offset: usize,
    parent: Option<Entry>,
    /// What is wrong with what was asked.
    mistake: Option<String>,
    now: Zoned,
}

/// Shows the list.
pub(in crate::web) async fn show(
    State(app): State<Arc<App>>,
    Query(params): Query<Params>,
) -> Reply<Response> {
    if let Err(mistake) = params.browse(&Zoned::now(), ROWS) {
        let message = format!("{mistake:#}");
        let page = app.ask(move |journal, now| wrong(journal, (&params, message), now)).await?;
        return Ok((StatusCode::BAD_REQUEST, page).into_response());
    }
    Ok(super::moment(&app, "/", params, write).await?.into_response())
}

/// The page with a mistake in what was asked: the form stays, to mend it.
fn wrong(journal: &Journal, (params, message): (&Params, String), now: &Zoned) -> Result<Markup> {
    let list = List { mistake: Some(message), ..read(journal, &Params::default(), now)? };
    Ok(layout::page("Sessions", Nav::Sessions, body(&list, params)))
}

fn write(journal: &Journal, params: &Params, now: &Zoned) -> Result<Markup> {
    let list = read(journal, params, now)?;
    // Scripts ask for the rows alone.
    if params.get("rows").is_some() {
        return Ok(rows(&list, params));
    }
    Ok(layout::page("Sessions", Nav::Sessions, body(&list, params)))
}

fn read(journal: &Journal, params: &Params, now: &Zoned) -> Result<List> {
    let mut browse = params.browse(now, ROWS)?;
    let parent = params.get("under").map(|id| journal.session(id)).transpose()?;
    if parent.is_some() {
        browse.filter.scope = Scope::All;
        browse.under.clone_from(&parent);
    }
    let listing = journal.browse(&browse)?;
    let figures = journal.session_figures(&listing.entries)?;
    Ok(List { listing, figures, offset: browse.offset, parent, mistake: None, now: now.clone() })
}

fn body(list: &List, params: &Params) -> Markup {
    let total = list.listing.total;
    html! {
        div.title {
            h1 { "Sessions" }
            @if list.mistake.is_none() { p.muted id="total" {
                (thousands(total)) (plural(total, " session"))
                @if let Some(parent) = &list.parent {
                    " started by " a href=(params::session(&parent.id)) { (parent.title) }
                }
            } }
        }
        (filters("/", params, &list.listing.facets))
        @if let Some(mistake) = &list.mistake {
            p.notice.bad role="alert" { (mistake) }
        } @else if list.listing.entries.is_empty() {
            (empty(params))
        } @else {
            ol.sessions id="rows" data-live="rows" { (labels()) (rows(list, params)) }
        }
    }
}

/// The form that chooses sessions; every choice is in the address.
pub(in crate::web) fn filters(action: &str, params: &Params, facets: &Facets) -> Markup {
    let orders: Vec<(&str, &str)> = ORDERS.iter().map(|(name, _, label)| (*name, *label)).collect();
    html! {
        form.filters action=(action) method="get" autocomplete="off" data-auto {
            (choice("since", "Any time", params, TIMES.map(|(value, name)| (value.to_owned(), name.to_owned()))))
            (choice("agent", "All agents", params, counted(&facets.agents, layout::agent_name)))
            (choice("project", "All projects", params, projects(facets)))
            (choice("branch", "All branches", params, counted(&facets.branches, str::to_owned)))
            (choice("model", "All models", params, counted(&facets.models, str::to_owned)))
            (choice("status", "Any status", params, counted(&facets.statuses, str::to_owned)))
            @if action == "/" {
                input.where type="text" name="where" aria-label="Fields that choose sessions" placeholder="tool:bash  hour:9  prompts:8.." autocomplete="off" spellcheck="false" value=[params.get("where")];
                label.sort { span { "Sort" } select name="sort" {
                    @for (value, name) in orders {
                        option value=(value) selected[params.get("sort") == Some(value)] { (name) }
                    }
                } }
            }
            @if let Some(under) = params.get("under") { input type="hidden" name="under" value=(under); }
            button type="submit" { "Apply" }
            @if params.is_filtered() { a.clear href=(action) { "Clear" } }
        }
    }
}

fn counted(facet: &[(String, u64)], name: impl Fn(&str) -> String) -> Vec<(String, String)> {
    let label = |(value, number): &(String, u64)| {
        (value.clone(), format!("{} ({})", name(value), thousands(*number)))
    };
    facet.iter().map(label).collect()
}

/// Projects by their whole names or paths: a part of one would choose more than was counted.
fn projects(facets: &Facets) -> Vec<(String, String)> {
    let labels = counted(&facets.projects, str::to_owned).into_iter().map(|(_, label)| label);
    facets.project_choices.iter().cloned().zip(labels).collect()
}

fn choice(
    name: &str,
    none: &str,
    params: &Params,
    options: impl IntoIterator<Item = (String, String)>,
) -> Markup {
    let chosen = params.get(name);
    let options: Vec<(String, String)> = options.into_iter().collect();
    let is_listed = options.iter().any(|(value, _)| Some(value.as_str()) == chosen);
    html! {
        select name=(name) aria-label=(none) class=[chosen.map(|_| "chosen")] {
            option value="" { (none) }
            @if let Some(chosen) = chosen.filter(|_| !is_listed) {
                option value=(chosen) selected { (chosen.trim_start_matches('=')) }
            }
            @for (value, label) in &options {
                option value=(value) selected[Some(value.as_str()) == chosen] { (label) }
            }
        }
    }
}

fn rows(list: &List, params: &Params) -> Markup {
    let end = list.offset + list.listing.entries.len();
    html! {
        @for (entry, figures) in list.listing.entries.iter().zip(&list.figures) {
            (row(entry, figures, &list.now))
        }
        @if (end as u64) < list.listing.total && !list.listing.entries.is_empty() {
            li.more data-more=(params.with("/", &[("offset", &end.to_string()), ("rows", "1")])) {
                a href=(params.with("/", &[("offset", &end.to_string()), ("rows", "")])) {
                    "Next " (ROWS.min(list.listing.total as usize - end))
                }
                @if list.offset > 0 {
                    a href=(params.with("/", &[("offset", ""), ("rows", "")])) { "Back to the first" }
                }
            }
        }
    }
}

/// A session in a list. Figures of a session with sub-agents include theirs.
pub(in crate::web) fn row(entry: &Entry, figures: &SessionFigures, now: &Zoned) -> Markup {
    let whole = &figures.with_subagents;
    let with = if figures.subagents > 0 { ", with sub-agents" } else { "" };
    let href = params::session(&entry.id);
    html! {
        li.row data-id=(entry.id) {
            span class={ "dot " (entry.status) } title=(entry.status) { span.sr { (entry.status) } }
            (layout::badge(&entry.agent))
            div.what {
                a.name href=(href) { (name(entry)) }
                div.where {
                    @if let Some(project) = &entry.project { a href=(only("project", &format!("={project}"))) { (project) } }
                    @if let Some(branch) = &entry.branch { span.branch-name { (branch) } }
                    @if let Some(model) = entry.models.first() { span.model title=(model) { (short_model(model)) } }
                    @if !entry.source.present { span.gone title="Its file is gone; the journal kept it" { "kept" } }
                    @if !entry.children.is_empty() { (sub_agents(entry)) }
                }
            }
            span.num title="Prompts" { (amount(entry.counts.user_prompts)) span.unit { (plural(entry.counts.user_prompts, " prompt")) } }
            span.num.tools title={ "Calls of tools" (with) } {
                (amount(whole.tool_calls))
                @if whole.tool_errors > 0 {
                    " " span.bad title="Failed" { "✗" (amount(whole.tool_errors)) }
                }
            }
            span.num.active title="Active time" { (known_duration(entry.active_s)) }
            span.num.tokens title={ "Tokens" (with) } { (tokens(&whole.tokens, whole.tokens.total())) }
            span.num.cost title={ "Cost" (with) @if whole.cost.unpriced_tokens() > 0 { ": " (money_of_share(&whole.cost)) } } { (money(&whole.cost)) }
            time.num datetime=[entry.ended_at.map(|at| at.to_string())] title=(clock(entry.ended_at, now)) {
                (ago(entry.ended_at, now))
            }
        }
    }
}

/// What the numbers of the rows are; each says it of itself as well.
fn labels() -> Markup {
    html! {
        li.row.labels aria-hidden="true" {
            span {} span { "Agent" } span { "Session" }
            span.num { "Prompts" } span.num.tools { "Tools" } span.num.active { "Active" }
            span.num.tokens { "Tokens" } span.num.cost { "Cost" } span.num { "Last" }
        }
    }
}

fn sub_agents(entry: &Entry) -> Markup {
    let href = format!("/?under={}", params::encode(&entry.id));
    html! {
        details.subs data-load={ (href) "&rows=1" } {
            summary { (count(entry.children.len() as u64, "sub-agent")) }
            ol.sessions { li { a href=(href) { "Show them" } } }
        }
    }
}

fn name(entry: &Entry) -> &str {
    if entry.title.trim().is_empty() { &entry.native_id } else { &entry.title }
}

/// A model's name without the day it was made.
pub(in crate::web) fn short_model(model: &str) -> &str {
    let is_day = |day: &str| day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit());
    model.rsplit_once('-').filter(|(_, day)| is_day(day)).map_or(model, |(name, _)| name)
}

fn only(name: &str, value: &str) -> String {
    format!("/?{name}={}", params::encode(value))
}

fn empty(params: &Params) -> Markup {
    html! {
        div.empty {
            @if params.is_filtered() {
                h2 { "No session fits" }
                p { "Nothing in the journal has all of what is chosen above." }
                p { a.button href="/" { "Show all sessions" } }
            } @else {
                h2 { "The journal is empty" }
                p { "Use a coding agent on this machine, and its sessions appear here by themselves." }
                p { "Sessions in another place? " a href="/sources" { "Sources" } " tells where was looked, and how to name other places." }
            }
        }
    }
}
