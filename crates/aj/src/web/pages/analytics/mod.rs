//! The analytics page: statistics of many sessions, over time and by common properties.

mod controls;
mod ranks;
mod span;
mod summary;
mod times;

use std::sync::Arc;

use agent_journal::Journal;
use agent_journal::analyze::Stats;
use anyhow::Result;
use axum::extract::{Query, State};
use jiff::Zoned;
use maud::{Markup, html};

pub(super) use controls::{Controls, period_links};

use self::span::BucketedPeriod;
use super::stats_page;
use crate::web::cache::QUARTER;
use crate::web::choice::{EVER, StatsSelection};
use crate::web::layout::{self, Nav};
use crate::web::params::Params;
use crate::web::reply::CachedPageResult;
use crate::web::state::App;

/// The period of the page when the URL names none.
const USUAL: &str = "30d";

/// The data that every part of the page uses.
struct StatsView<'a> {
    stats: &'a Stats,
    choice: &'a StatsSelection,
    span: BucketedPeriod,
    now: &'a Zoned,
}

/// Shows the statistics.
pub(in crate::web) async fn analytics_page(
    State(app): State<Arc<App>>,
    Query(params): Query<Params>,
) -> CachedPageResult {
    stats_page(
        &app,
        "/analytics",
        QUARTER,
        StatsSelection::from_params(&params).or_since(USUAL),
        draw_analytics,
    )
    .await
}

fn draw_analytics(journal: &Journal, now: &Zoned, choice: &StatsSelection) -> Result<Markup> {
    let query = choice.to_stats_query(now)?;
    let stats = journal.stats(&query)?;
    let controls = Controls { choice, page: "/analytics", projects: &stats.projects };
    let is_empty = stats.totals.messages == 0 && stats.totals.tokens.total_tokens() == 0;
    let view =
        StatsView { stats: &stats, choice, span: BucketedPeriod::from_stats(&stats, now), now };
    let body = html! {
        div.title { h1 { "Analytics" } p.muted { (view.span.describe_period()) } }
        (controls.draw_controls())
        @if is_empty { (empty_analytics(choice)) } @else { (view.draw_view()) }
    };
    Ok(layout::page_layout("Analytics", Nav::Analytics, body))
}

fn empty_analytics(choice: &StatsSelection) -> Markup {
    html! {
        div.empty {
            h2 { "No sessions match" }
            p {
                a href=(choice.url_with_changes("/analytics", &[("since", EVER), ("until", "")])) { "Show all time" }
                " · " a href="/analytics?since=all" { "Remove all filters" }
                " · " a href="/sources" { "List scanned directories" }
            }
        }
    }
}

impl StatsView<'_> {
    fn draw_view(&self) -> Markup {
        html! {
            (self.figure_tiles())
            section aria-labelledby="over-time" {
                h2 id="over-time" { "Over time" }
                div.charts {
                    (self.sessions_chart())
                    (self.activity_chart())
                    (self.cost_chart())
                    (self.tokens_chart())
                    (self.token_kinds())
                    (self.cache_chart())
                    (self.failures_chart())
                    (self.hours_chart())
                    (self.turns_chart())
                    (self.durations_chart())
                }
                (self.activity_calendar())
            }
            section aria-labelledby="by-what" {
                h2 id="by-what" { "Breakdown" }
                div.charts {
                    (self.models_ranking())
                    (self.tools_ranking())
                    (self.directories_ranking())
                    (self.branches_ranking())
                    (self.agents_ranking())
                    (self.servers_ranking())
                    (self.errors_ranking())
                    (self.files_ranking())
                }
            }
        }
    }

    /// Returns the URL that lists the sessions of a part of the selection.
    fn part_url(&self, name: &str, value: &str) -> Option<String> {
        // Sessions without a value cannot be selected.
        if value == "(unknown)" {
            return None;
        }
        // The whole path: a part of it would select more than was counted.
        let path = (name == "project").then(|| format!("={value}"));
        Some(self.choice.sessions_url(&[(name, path.as_deref().unwrap_or(value))]))
    }
}
