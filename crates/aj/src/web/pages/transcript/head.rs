//! The head of a session's page: the facts about the session.

use agent_journal::Entry;
use agent_journal::analyze::Cost;
use agent_journal::model::{Ref, Tokens};
use maud::{Markup, html};

use super::SessionView;
use crate::output::{amount, count, duration, local_minute, money_of_share, short_id, thousands};
use crate::web::layout;
use crate::web::params;

/// Renders the facts about a session.
pub(super) fn session_head(view: &SessionView) -> Markup {
    let entry = &view.entry;
    html! {
        header.head {
            p.crumbs {
                (layout::agent_badge_markup(&entry.agent))
                span class={ "status " (entry.status.name()) } { span class={ "dot " (entry.status.name()) } {} (entry.status.name()) }
                @if let Some(parent) = &entry.parent_id {
                    span { "started by " a href=(params::session_url(parent)) { "another session" } }
                }
                @if let Some(origin) = &entry.continues {
                    span { "continues " a href=(params::session_url(origin)) { "another session" } " after " (count(entry.shared_messages, "message")) }
                }
                @for fork in entry.continued_by.iter().take(12) {
                    span { "continued by " a href=(params::session_url(fork)) { "another session" } }
                }
            }
            h1 { (entry.title) }
            dl.facts { @for (name, value) in head_facts(view) { div { dt { (name) } dd { (value) } } } }
            (session_commands(entry))
        }
    }
}

fn head_facts(view: &SessionView) -> Vec<(&'static str, Markup)> {
    let entry = &view.entry;
    let mut facts = Vec::new();
    let mut add = |name, value: Option<Markup>| facts.extend(value.map(|value| (name, value)));
    let text = |text: &str| html! { (text) };
    add("project", entry.project.as_deref().map(|project| {
        html! { a href=(format!("/?project={}", params::percent_encode(&format!("={project}")))) title=[entry.project_path.as_deref()] { (project) } }
    }));
    add("branch", entry.branch.as_deref().map(|branch| html! { code { (branch) } }));
    add("branches", several_values(&entry.branches));
    add("directories", several_values(&entry.directories));
    add("repository", entry.repository.as_deref().map(text));
    let summary = entry.summary.as_deref().filter(|summary| *summary != entry.title);
    add("summary", summary.map(text));
    add("model", entry.models.first().map(|first| model_names(first, &entry.models)));
    add("version", entry.agent_version.as_deref().map(text));
    add(
        "started",
        entry.started_at.map(
            |at| html! { time datetime=(at.to_string()) { (local_minute(Some(at), &view.now)) } },
        ),
    );
    add(
        "ended",
        entry.ended_at.map(
            |at| html! { time datetime=(at.to_string()) { (local_minute(Some(at), &view.now)) } },
        ),
    );
    let time = html! { (duration(entry.active_s)) " active" @if entry.wall_s > entry.active_s { span.muted { " of " (duration(entry.wall_s)) } } };
    add("time", (entry.wall_s > 0).then_some(time));
    add("prompts", Some(html! { (thousands(entry.counts.user_prompts)) }));
    add("tools", Some(tool_counts(entry)));
    add("tokens", entry.tokens.is_known().then(|| tokens_markup(&entry.tokens)));
    let own = &view.figures.own;
    add(
        "cost",
        (own.tokens.is_known() || own.cost.known_micros().is_some())
            .then(|| cost_markup(&own.cost)),
    );
    let unrecorded = &own.not_in_transcript;
    add(
        "not in the transcript",
        (!unrecorded.has_no_tokens()).then(|| {
            html! { (tokens_markup(&unrecorded.tokens)) " · " (cost_markup(&unrecorded.cost)) }
        }),
    );
    add("refs", (!entry.refs.is_empty()).then(|| reference_links(&entry.refs)));
    let whole = &view.figures.with_subagents;
    add(
        "with sub-agents",
        (view.figures.subagents > 0).then(|| {
            html! {
                (count(view.figures.subagents, "sub-agent"))
                " · " (count(whole.tool_calls, "tool call"))
                @if whole.tool_errors > 0 { " " span.bad { (count(whole.tool_errors, "failure")) } }
                " · " @if whole.tokens.is_known() { (tokens_markup(&whole.tokens)) } @else { "tokens –" }
                " · " (cost_markup(&whole.cost))
            }
        }),
    );
    add(
        "file",
        Some(
            html! { code { (entry.source.path) } @if !entry.source.present { span.gone { "deleted; kept in the journal" } } },
        ),
    );
    facts
}

fn several_values(all: &[String]) -> Option<Markup> {
    (!all.is_empty()).then(|| html! { @for one in all { code { (one) } " " } })
}

fn model_names(first: &str, all: &[String]) -> Markup {
    html! {
        (first)
        @if all.len() > 1 { span.muted title=(all[1..].join(", ")) { " and " (all.len() - 1) " more" } }
    }
}

fn tool_counts(entry: &Entry) -> Markup {
    html! {
        (thousands(entry.counts.tool_calls))
        @if entry.counts.tool_errors > 0 { " " span.bad { (count(entry.counts.tool_errors, "failure")) } }
    }
}

fn cost_markup(cost: &Cost) -> Markup {
    html! { (money_of_share(cost)) @if cost.known_micros().is_none() { span.muted { " unknown" } } }
}

fn tokens_markup(tokens: &Tokens) -> Markup {
    html! {
        (amount(tokens.input)) " in · " (amount(tokens.output)) " out"
        span.muted { " · cache " (amount(tokens.cache_read)) " read, " (amount(tokens.cache_creation)) " written" }
    }
}

fn reference_links(refs: &[Ref]) -> Markup {
    html! { @for one in refs.iter().take(12) { code.ref { (one.kind) " " (one.value) } " " } }
}

/// Renders the commands that continue, show or export the session.
fn session_commands(entry: &Entry) -> Markup {
    let id = short_id(entry);
    html! {
        p.commands.noprint {
            code data-copy { "aj resume " (id) }
            code data-copy { "aj show " (id) }
            code data-copy { "aj export " (id) }
        }
    }
}
