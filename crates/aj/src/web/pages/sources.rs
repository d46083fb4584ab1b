//! The sources: what was looked at, understood, skipped, gone.

use std::sync::Arc;

use agent_journal::{AgentReport, AgentTotals};
use axum::extract::State;
use maud::{Markup, html};

use crate::output::{amount, bytes, count, plural, thousands};
use crate::settings::source_key;
use crate::web::layout::{self, Nav};
use crate::web::params;
use crate::web::reply::Page;
use crate::web::state::App;

/// Who keeps sessions for this many days keeps them.
const FOREVER: u64 = 3650;

/// Shows them.
pub(in crate::web) async fn show(State(app): State<Arc<App>>) -> Page {
    let (reports, journal) = app
        .ask(|journal, _| Ok((journal.sources()?, journal.path().display().to_string())))
        .await?;
    let (found, absent): (Vec<_>, Vec<_>) =
        reports.iter().partition(|report| report.totals.sources > 0);
    let body = html! {
        div.title {
            h1 { "Sources" }
            p.muted { "What was read, and what came of it. Nothing here is ever written to." }
        }
        div.sources {
            @for report in &found { (agent(report)) }
            @if !absent.is_empty() { (nothing_of(&absent)) }
        }
        p.muted { "The journal is " code { (journal) } "." }
    };
    Ok(layout::page("Sources", Nav::Sources, body))
}

fn agent(report: &AgentReport) -> Markup {
    let totals = &report.totals;
    let share = understood(totals);
    html! {
        section.card.source class={ "agent-" (report.id) } {
            header {
                h2 { (layout::badge(report.id)) " " (report.name) }
                p { a href=(format!("/?agent={}", params::encode(report.id))) { (thousands(totals.sessions)) (plural(totals.sessions, " session")) } }
            }
            dl.figures {
                div { dt { "started by you" } dd { (thousands(totals.root_sessions)) } }
                div { dt { "size" } dd { (bytes(totals.bytes)) } }
                div { dt { "files" } dd { (thousands(totals.sources)) } }
                @if let Some(share) = share {
                    div { dt { "understood" } dd {
                        (format!("{share:.1} %")) " "
                        meter min="0" max="100" low="95" optimum="100" value=(format!("{share:.1}")) { (format!("{share:.1} %")) }
                    } }
                }
                @if totals.records_raw > 0 { div { dt { "kept raw" } dd { (count(totals.records_raw, "record")) } } }
            }
            @if let Some(retention) = report.retention.as_ref().filter(|one| one.days < FOREVER) {
                p.notice {
                    (report.name) " deletes sessions after " (retention.days) (plural(retention.days, " day")) "; the journal keeps them. "
                    "To have it keep its own longer, set " code { (retention.setting) } " in " code { (retention.file) } "."
                }
            }
            @if totals.sources_gone > 0 {
                p.notice { (count(totals.sources_gone, "file")) " gone: " (count(totals.sessions_gone, "session")) " live on in the journal only." }
            }
            ul.places { @for root in &report.roots {
                li { code { (root.path.display()) } @if !root.present { span.muted { " not there" } } }
            } }
            @if !totals.skipped.is_empty() {
                details { summary { (count(totals.skipped.values().sum(), "record")) " skipped" }
                    ul { @for (reason, number) in &totals.skipped { li { (amount(*number)) " × " (reason) } } }
                }
            }
            @for (path, reason) in &totals.failures {
                p.notice.bad { "Could not read " code { (path) } ": " (reason) }
            }
        }
    }
}

fn nothing_of(absent: &[&AgentReport]) -> Markup {
    html! {
        section.card.source {
            header { h2 { "Nothing found of" } }
            dl.absent {
                @for report in absent {
                    dt { (layout::badge(report.id)) }
                    dd {
                        @for root in report.roots.iter().take(1) { code { (root.path.display()) } }
                        @if report.roots.len() > 1 {
                            details { summary.muted { "and " (count(report.roots.len() as u64 - 1, "more place")) }
                                ul.places { @for root in &report.roots[1..] { li { code { (root.path.display()) } } } } }
                        }
                        p.muted { "Elsewhere? " code { (source_key(report.agent.key)) " = \"…\"" } }
                    }
                }
            }
            p.muted { "Other places are named in the configuration: " code { "aj config" } " shows it." }
        }
    }
}

/// How much was understood, in percent. Nothing is called complete that is not.
fn understood(totals: &AgentTotals) -> Option<f64> {
    let skipped: u64 = totals.skipped.values().sum();
    let all = totals.records_understood + skipped;
    if all == 0 {
        return None;
    }
    let known = totals.records_understood.saturating_sub(totals.records_raw);
    let share = 100.0 * known as f64 / all as f64;
    Some(if share < 100.0 { share.min(99.9) } else { share })
}
