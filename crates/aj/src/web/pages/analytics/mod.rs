//! Analytics: what many sessions come to, over time and by what they have in common.

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

pub(super) use controls::{Controls, periods};

use self::span::Span;
use super::sums;
use crate::web::cache::QUARTER;
use crate::web::choice::{Choice, EVER};
use crate::web::layout::{self, Nav};
use crate::web::params::Params;
use crate::web::reply::Kept;
use crate::web::state::App;

/// The time a page is about when nothing else was asked for.
const USUAL: &str = "30d";

/// What every part of the page is made of.
struct View<'a> {
    stats: &'a Stats,
    choice: &'a Choice,
    span: Span,
    now: &'a Zoned,
}

/// Shows the sums.
pub(in crate::web) async fn show(
    State(app): State<Arc<App>>,
    Query(params): Query<Params>,
) -> Kept {
    sums(&app, ("/analytics", QUARTER), Choice::read(&params).or_since(USUAL), draw).await
}

fn draw(journal: &Journal, now: &Zoned, choice: &Choice) -> Result<Markup> {
    let query = choice.query(now)?;
    let stats = journal.stats(&query)?;
    let controls = Controls { choice, page: "/analytics", projects: &stats.projects };
    let is_empty = stats.totals.messages == 0 && stats.totals.tokens.total() == 0;
    let view = View { stats: &stats, choice, span: Span::of(&stats, now), now };
    let body = html! {
        div.title { h1 { "Analytics" } p.muted { (view.span.words()) } }
        (controls.draw())
        @if is_empty { (empty(choice)) } @else { (view.draw()) }
    };
    Ok(layout::page("Analytics", Nav::Analytics, body))
}

fn empty(choice: &Choice) -> Markup {
    html! {
        div.empty {
            h2 { "Nothing in this time and place" }
            p {
                a href=(choice.link("/analytics", &[("since", EVER), ("until", "")])) { "Look at all time" }
                " · " a href="/analytics?since=all" { "without any filter" }
                " · " a href="/sources" { "where was looked" }
            }
        }
    }
}

impl View<'_> {
    fn draw(&self) -> Markup {
        html! {
            (self.tiles())
            section aria-labelledby="over-time" {
                h2 id="over-time" { "Over time" }
                div.charts {
                    (self.sessions())
                    (self.activity())
                    (self.cost())
                    (self.tokens())
                    (self.token_kinds())
                    (self.cache())
                    (self.failures())
                    (self.hours())
                    (self.turns())
                    (self.durations())
                }
                (self.calendar())
            }
            section aria-labelledby="by-what" {
                h2 id="by-what" { "By what they have in common" }
                div.charts {
                    (self.models())
                    (self.tools())
                    (self.directories())
                    (self.branches())
                    (self.agents())
                    (self.servers())
                    (self.errors())
                    (self.files())
                }
            }
        }
    }

    /// The sessions of a part of the choice.
    fn part(&self, name: &str, value: &str) -> Option<String> {
        // What is not known cannot be asked for.
        if value == "(unknown)" {
            return None;
        }
        // The whole path: a part of it would choose more than was counted.
        let path = (name == "project").then(|| format!("={value}"));
        Some(self.choice.sessions(&[(name, path.as_deref().unwrap_or(value))]))
    }
}
