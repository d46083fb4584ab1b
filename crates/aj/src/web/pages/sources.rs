//! The sources page: scanned directories, and the records that were parsed, skipped or are gone.

use std::sync::Arc;

use agent_journal::{AgentReport, AgentTotals, RootReport, UnreadAgent};
use axum::extract::State;
use maud::{Markup, html};

use crate::output::{amount, bytes, count, plural, thousands};
use crate::settings::source_key;
use crate::web::layout::{self, Nav};
use crate::web::params;
use crate::web::reply::PageResult;
use crate::web::state::App;

/// A retention of at least this many days counts as unlimited.
const FOREVER: u64 = 3650;

/// Shows the sources.
pub(in crate::web) async fn sources_page(State(app): State<Arc<App>>) -> PageResult {
    let (reports, unread, journal) = app
        .run_query(|journal, _| {
            let path = journal.database_path().display().to_string();
            Ok((journal.agent_reports()?, journal.unread_agents()?, path))
        })
        .await?;
    let (found, mut absent): (Vec<_>, Vec<_>) =
        reports.iter().partition(|report| report.totals.sources > 0);
    absent.retain(|report| !unread.iter().any(|agent| agent.id == report.id));
    let body = html! {
        div.title {
            h1 { "Sources" }
            p.muted { "Scanned directories and the sessions found in them. aj never writes to these directories." }
        }
        div.sources {
            @for report in &found { (agent_section(report)) }
            @if !unread.is_empty() { (unread_section(&unread)) }
            @if !absent.is_empty() { (nothing_of(&absent)) }
        }
        p.muted { "Journal: " code { (journal) } }
    };
    Ok(layout::page_layout("Sources", Nav::Sources, body))
}

fn agent_section(report: &AgentReport) -> Markup {
    let totals = &report.totals;
    let share = understood_share(totals);
    html! {
        section.card.source class={ "agent-" (report.id) } {
            header {
                h2 { (layout::agent_badge_markup(report.id)) " " (report.name) }
                p { a href=(format!("/?agent={}", params::percent_encode(report.id))) { (thousands(totals.sessions)) (plural(totals.sessions, " session")) } }
            }
            dl.figures {
                div { dt { "started by you" } dd { (thousands(totals.root_sessions)) } }
                div { dt { "size" } dd { (bytes(totals.bytes)) } }
                div { dt { "files" } dd { (thousands(totals.sources)) } }
                @if let Some(share) = share {
                    div { dt { "parsed" } dd {
                        (format!("{share:.1} %")) " "
                        meter min="0" max="100" low="95" optimum="100" value=(format!("{share:.1}")) { (format!("{share:.1} %")) }
                    } }
                }
                @if totals.records_raw > 0 { div { dt { "kept raw" } dd { (count(totals.records_raw, "record")) } } }
            }
            @if let Some(retention) = report.retention.as_ref().filter(|one| one.days < FOREVER) {
                p.notice {
                    (report.name) " deletes sessions after " (retention.days) (plural(retention.days, " day")) "; the journal keeps them. "
                    "To keep the files longer, set " code { (retention.setting) } " in " code { (retention.file) } "."
                }
            }
            @if totals.sources_gone > 0 {
                p.notice { (count(totals.sources_gone, "file")) " deleted: " (count(totals.sessions_gone, "session")) " only in the journal." }
            }
            (directories(&report.roots))
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

/// Lists the scanned directories. Those that do not exist are folded, unless someone named them.
fn directories(roots: &[RootReport]) -> Markup {
    let (listed, folded): (Vec<_>, Vec<_>) =
        roots.iter().partition(|root| root.present || root.configured);
    html! {
        ul.places { @for root in listed {
            li { code { (root.path.display()) } @if !root.present { span.muted { " does not exist" } } }
        } }
        @if !folded.is_empty() {
            details { summary { (folded.len()) @if folded.len() == 1 { " directory does not exist" } @else { " directories do not exist" } }
                ul.places { @for root in folded { li { code { (root.path.display()) } } } }
            }
        }
    }
}

/// Lists the agents that were used on this machine and whose sessions cannot be read.
fn unread_section(unread: &[UnreadAgent]) -> Markup {
    html! {
        section.card.source {
            header { h2 { "Found, not read" } }
            dl.absent {
                @for agent in unread {
                    dt { (agent.name) }
                    dd { code { (agent.path.display()) } p.muted { (agent.reason.to_string()) } }
                }
            }
        }
    }
}

fn nothing_of(absent: &[&AgentReport]) -> Markup {
    html! {
        section.card.source {
            header { h2 { "No sessions found" } }
            dl.absent {
                @for report in absent {
                    dt { (layout::agent_badge_markup(report.id)) }
                    dd {
                        @for root in report.roots.iter().take(1) { code { (root.path.display()) } }
                        @if report.roots.len() > 1 {
                            details { summary.muted { "and " (count(report.roots.len() as u64 - 1, "more directory")) }
                                ul.places { @for root in &report.roots[1..] { li { code { (root.path.display()) } } } } }
                        }
                        p.muted { "Add directories: " code { (source_key(report.agent.key)) " = \"…\"" } }
                    }
                }
            }
            p.muted { "Add other directories in the configuration file; " code { "aj config path" } " prints its path." }
        }
    }
}

/// Returns the share of records that were parsed, in percent. Only a complete one is shown as 100.
fn understood_share(totals: &AgentTotals) -> Option<f64> {
    let skipped: u64 = totals.skipped.values().sum();
    let all = totals.records_understood + skipped;
    if all == 0 {
        return None;
    }
    let known = totals.records_understood.saturating_sub(totals.records_raw);
    let share = 100.0 * known as f64 / all as f64;
    Some(if share < 100.0 { share.min(99.9) } else { share })
}
