//! The list of sessions: filters, order and a window of rows; sub-agents are folded under the
//! sessions that started them.

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
    amount, count, known_duration, local_minute, money, money_of_share, plural, relative_time,
    thousands, tokens,
};
use crate::web::layout::{self, Nav};
use crate::web::params::{self, ORDERS, Params};
use crate::web::reply::HandlerResult;
use crate::web::state::App;

/// Rows of a window.
const ROWS: usize = 100;

/// The offered periods: URL value and label.
pub(in crate::web) const TIMES: [(&str, &str); 5] = [
    ("today", "Today"),
    ("7d", "7 days"),
    ("30d", "30 days"),
    ("90d", "90 days"),
    ("365d", "A year"),
];

/// The data of the page.
struct SessionList {
    listing: Listing,
    figures: Vec<SessionFigures>,
    offset: usize,
    parent: Option<Entry>,
    /// An error in the URL parameters.
    mistake: Option<String>,
    now: Zoned,
}

/// Shows the list of sessions.
pub(in crate::web) async fn sessions_page(
    State(app): State<Arc<App>>,
    Query(params): Query<Params>,
) -> HandlerResult<Response> {
    if let Err(mistake) = params.browse_query(&Zoned::now(), ROWS) {
        let message = format!("{mistake:#}");
        let page = app
            .run_query(move |journal, now| list_error_page(journal, &params, message, now))
            .await?;
        return Ok((StatusCode::BAD_REQUEST, page).into_response());
    }
    Ok(super::listing_page(&app, "/", params, write_sessions_page).await?.into_response())
}

/// Renders the page with an error message; the form keeps its values, so that they can be
/// corrected.
fn list_error_page(
    journal: &Journal,
    params: &Params,
    message: String,
    now: &Zoned,
) -> Result<Markup> {
    let list = SessionList {
        mistake: Some(message),
        ..read_session_list(journal, &Params::default(), now)?
    };
    Ok(layout::page_layout("Sessions", Nav::Sessions, sessions_body(&list, params)))
}

fn write_sessions_page(journal: &Journal, params: &Params, now: &Zoned) -> Result<Markup> {
    let list = read_session_list(journal, params, now)?;
    // Scripts request the rows alone.
    if params.get_param("rows").is_some() {
        return Ok(session_rows(&list, params));
    }
    Ok(layout::page_layout("Sessions", Nav::Sessions, sessions_body(&list, params)))
}

fn read_session_list(journal: &Journal, params: &Params, now: &Zoned) -> Result<SessionList> {
    let mut browse = params.browse_query(now, ROWS)?;
    let parent = params.get_param("under").map(|id| journal.find_session(id)).transpose()?;
    if parent.is_some() {
        browse.filter.scope = Scope::All;
        browse.under.clone_from(&parent);
    }
    let listing = journal.browse_sessions(&browse)?;
    let figures = journal.figures_of_entries(&listing.entries)?;
    Ok(SessionList {
        listing,
        figures,
        offset: browse.offset,
        parent,
        mistake: None,
        now: now.clone(),
    })
}

fn sessions_body(list: &SessionList, params: &Params) -> Markup {
    let total = list.listing.total;
    html! {
        div.title {
            h1 { "Sessions" }
            @if list.mistake.is_none() { p.muted id="total" {
                (thousands(total)) (plural(total, " session"))
                @if let Some(parent) = &list.parent {
                    " started by " a href=(params::session_url(&parent.id)) { (parent.title) }
                }
            } }
        }
        (filter_form("/", params, &list.listing.facets))
        @if let Some(mistake) = &list.mistake {
            p.notice.bad role="alert" { (mistake) }
        } @else if list.listing.entries.is_empty() {
            (empty_list(params))
        } @else {
            ol.sessions id="rows" data-live="rows" { (column_labels()) (session_rows(list, params)) }
        }
    }
}

/// Renders the form that selects sessions; every choice is a URL parameter.
pub(in crate::web) fn filter_form(action: &str, params: &Params, facets: &Facets) -> Markup {
    let orders: Vec<(&str, &str)> = ORDERS.iter().map(|(name, _, label)| (*name, *label)).collect();
    html! {
        form.filters action=(action) method="get" autocomplete="off" data-auto {
            (select_field("since", "Any time", params, TIMES.map(|(value, name)| (value.to_owned(), name.to_owned()))))
            (select_field("agent", "All agents", params, facet_options(&facets.agents, layout::agent_display_name)))
            (select_field("project", "All projects", params, project_options(facets)))
            (select_field("branch", "All branches", params, facet_options(&facets.branches, str::to_owned)))
            (select_field("model", "All models", params, facet_options(&facets.models, str::to_owned)))
            (select_field("status", "Any status", params, facet_options(&facets.statuses, str::to_owned)))
            @if action == "/" {
                input.where type="text" name="where" aria-label="Filter by fields" placeholder="tool:bash  hour:9  prompts:8.." autocomplete="off" spellcheck="false" value=[params.get_param("where")];
                label.sort { span { "Sort" } select name="sort" {
                    @for (value, name) in orders {
                        option value=(value) selected[params.get_param("sort") == Some(value)] { (name) }
                    }
                } }
            }
            @if let Some(under) = params.get_param("under") { input type="hidden" name="under" value=(under); }
            button type="submit" { "Apply" }
            @if params.is_filtered() { a.clear href=(action) { "Clear" } }
        }
    }
}

fn facet_options(facet: &[(String, u64)], name: impl Fn(&str) -> String) -> Vec<(String, String)> {
    let label = |(value, number): &(String, u64)| {
        (value.clone(), format!("{} ({})", name(value), thousands(*number)))
    };
    facet.iter().map(label).collect()
}

/// Returns the projects as full names or paths: a part of one would select more than was counted.
fn project_options(facets: &Facets) -> Vec<(String, String)> {
    let labels = facet_options(&facets.projects, str::to_owned).into_iter().map(|(_, label)| label);
    facets.project_choices.iter().cloned().zip(labels).collect()
}

fn select_field(
    name: &str,
    none: &str,
    params: &Params,
    options: impl IntoIterator<Item = (String, String)>,
) -> Markup {
    let chosen = params.get_param(name);
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

fn session_rows(list: &SessionList, params: &Params) -> Markup {
    let end = list.offset + list.listing.entries.len();
    html! {
        @for (entry, figures) in list.listing.entries.iter().zip(&list.figures) {
            (session_row(entry, figures, &list.now))
        }
        @if (end as u64) < list.listing.total && !list.listing.entries.is_empty() {
            li.more data-more=(params.url_with("/", &[("offset", &end.to_string()), ("rows", "1")])) {
                a href=(params.url_with("/", &[("offset", &end.to_string()), ("rows", "")])) {
                    "Next " (ROWS.min(list.listing.total as usize - end))
                }
                @if list.offset > 0 {
                    a href=(params.url_with("/", &[("offset", ""), ("rows", "")])) { "Back to the start" }
                }
            }
        }
    }
}

/// Renders a row of the list. Figures of a session with sub-agents include theirs.
pub(in crate::web) fn session_row(entry: &Entry, figures: &SessionFigures, now: &Zoned) -> Markup {
    let whole = &figures.with_subagents;
    let with = if figures.subagents > 0 { ", with sub-agents" } else { "" };
    let href = params::session_url(&entry.id);
    html! {
        li.row data-id=(entry.id) {
            span class={ "dot " (entry.status.name()) } title=(entry.status.name()) { span.sr { (entry.status.name()) } }
            (layout::agent_badge_markup(&entry.agent))
            div.what {
                a.name href=(href) { (session_name(entry)) }
                div.where {
                    @if let Some(project) = &entry.project { a href=(single_filter_url("project", &format!("={project}"))) { (project) } }
                    @if let Some(branch) = &entry.branch { span.branch-name { (branch) } }
                    @if let Some(model) = entry.models.first() { span.model title=(model) { (short_model(model)) } }
                    @if !entry.source.present { span.gone title="The session file was deleted; the journal keeps it" { "kept" } }
                    @if !entry.children.is_empty() { (subagent_label(entry)) }
                }
            }
            span.num title="Prompts" { (amount(entry.counts.user_prompts)) span.unit { (plural(entry.counts.user_prompts, " prompt")) } }
            span.num.tools title={ "Tool calls" (with) } {
                (amount(whole.tool_calls))
                @if whole.tool_errors > 0 {
                    " " span.bad title="Failed" { "✗" (amount(whole.tool_errors)) }
                }
            }
            span.num.active title="Active time" { (known_duration(entry.active_s)) }
            span.num.tokens title={ "Tokens" (with) } { (tokens(&whole.tokens, whole.tokens.total_tokens())) }
            span.num.cost title={ "Cost" (with) @if whole.cost.unpriced_tokens() > 0 { ": " (money_of_share(&whole.cost)) } } { (money(&whole.cost)) }
            time.num datetime=[entry.ended_at.map(|at| at.to_string())] title=(local_minute(entry.ended_at, now)) {
                (relative_time(entry.ended_at, now))
            }
        }
    }
}

/// Renders the heads of the columns; every number has a label of its own as well.
fn column_labels() -> Markup {
    html! {
        li.row.labels aria-hidden="true" {
            span {} span { "Agent" } span { "Session" }
            span.num { "Prompts" } span.num.tools { "Tools" } span.num.active { "Active" }
            span.num.tokens { "Tokens" } span.num.cost { "Cost" } span.num { "Last" }
        }
    }
}

fn subagent_label(entry: &Entry) -> Markup {
    let href = format!("/?under={}", params::percent_encode(&entry.id));
    html! {
        details.subs data-load={ (href) "&rows=1" } {
            summary { (count(entry.children.len() as u64, "sub-agent")) }
            ol.sessions { li { a href=(href) { "Show sub-agents" } } }
        }
    }
}

fn session_name(entry: &Entry) -> &str {
    if entry.title.trim().is_empty() { &entry.native_id } else { &entry.title }
}

/// Returns the name of a model without its date.
pub(in crate::web) fn short_model(model: &str) -> &str {
    let is_day = |day: &str| day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit());
    model.rsplit_once('-').filter(|(_, day)| is_day(day)).map_or(model, |(name, _)| name)
}

fn single_filter_url(name: &str, value: &str) -> String {
    format!("/?{name}={}", params::percent_encode(value))
}

fn empty_list(params: &Params) -> Markup {
    html! {
        div.empty {
            @if params.is_filtered() {
                h2 { "No sessions match" }
                p { "No session in the journal matches all filters above." }
                p { a.button href="/" { "Show all sessions" } }
            } @else {
                h2 { "The journal is empty" }
                p { "Sessions appear here when you use a coding agent on this machine." }
                p { "If they are in another directory, " a href="/sources" { "Sources" } " lists the scanned directories and how to add others." }
            }
        }
    }
}
