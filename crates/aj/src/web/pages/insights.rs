//! The insights page: scores by repository and by agent, with tips.

use std::sync::Arc;

use agent_journal::Journal;
use agent_journal::analyze::{Score, ScoreReport};
use anyhow::Result;
use axum::extract::{Query, State};
use jiff::Zoned;
use maud::{Markup, html};

use super::analytics::period_links;
use super::stats_page;
use crate::output::{plural, thousands};
use crate::web::cache::MOMENT;
use crate::web::charts::{points_meter, score_ring};
use crate::web::choice::{EVER, StatsSelection};
use crate::web::layout::{self, Nav};
use crate::web::params::Params;
use crate::web::reply::CachedPageResult;
use crate::web::state::App;

const PAGE: &str = "/insights";

/// Most points of a category.
const MOST: u64 = 20;

/// Shows the scores.
pub(in crate::web) async fn insights_page(
    State(app): State<Arc<App>>,
    Query(params): Query<Params>,
) -> CachedPageResult {
    // The configured MCP servers are read from files that the journal does not track.
    stats_page(
        &app,
        PAGE,
        MOMENT,
        StatsSelection::from_params(&params).or_since(EVER),
        draw_insights,
    )
    .await
}

fn draw_insights(journal: &Journal, now: &Zoned, choice: &StatsSelection) -> Result<Markup> {
    let query = choice.to_stats_query(now)?;
    let report = journal.score(&query)?;
    let body = html! {
        div.title {
            h1 { "Insights" }
            p.muted { "How effectively you work with agents: five categories of up to 20 points." }
        }
        (period_links(choice, PAGE))
        @match selected_score(&report, choice.param_value("of")) {
            Some(score) => {
                (score_selector(&report, choice, score))
                div.insight {
                    (score_detail(score))
                    (score_overview(&report, choice, score))
                }
            },
            None => (empty_insights(choice)),
        }
    };
    Ok(layout::page_layout("Insights", Nav::Insights, body))
}

fn empty_insights(choice: &StatsSelection) -> Markup {
    html! {
        div.empty {
            h2 { "No sessions match" }
            p {
                a href=(choice.url_with_changes(PAGE, &[("since", ""), ("until", ""), ("of", "")])) { "Show all time" }
                " · " a href="/sources" { "List scanned directories" }
            }
        }
    }
}

/// Returns the requested score, or the first one that has a number.
fn selected_score<'r>(report: &'r ScoreReport, name: Option<&str>) -> Option<&'r Score> {
    let all = || report.repositories.iter().chain(&report.agents);
    let wanted = name.and_then(|name| {
        let bare = |score: &Score| score.name.trim_end_matches(" (all sessions)") == name;
        all()
            .find(|score| score_url_value(score) == name)
            .or_else(|| all().find(|score| bare(score)))
    });
    wanted.or_else(|| all().find(|score| score.total.is_some())).or_else(|| all().next())
}

/// Returns the URL value that names a score.
fn score_url_value(score: &Score) -> &str {
    score.path.as_deref().unwrap_or(&score.name)
}

fn score_selector(report: &ScoreReport, choice: &StatsSelection, chosen: &Score) -> Markup {
    let options = |scores: &[Score]| {
        html! {
            @for score in scores {
                option value=(score_url_value(score)) selected[score_url_value(score) == score_url_value(chosen)] {
                    (score.name) " · " (score.total.map_or("–".to_owned(), |total| total.to_string()))
                }
            }
        }
    };
    html! {
        form.filters.choice action=(PAGE) method="get" {
            @for name in ["since", "until", "agent", "project", "branch", "q"] {
                @if let Some(value) = choice.param_value(name) { input type="hidden" name=(name) value=(value); }
            }
            label { span { "Repository or agent" }
                select name="of" {
                    optgroup label="Agents" { (options(&report.agents)) }
                    optgroup label="Repositories" { (options(&report.repositories)) }
                }
            }
            button.primary { "Show" }
        }
    }
}

fn score_detail(score: &Score) -> Markup {
    html! {
        section.card.score aria-labelledby="score-name" {
            div.head {
                (score_ring(score.total, &score.name))
                div {
                    h2 id="score-name" { (agent_marker(score)) (score.name) }
                    @if let Some(path) = &score.path { p.muted.path { (path) } }
                    p.muted { (thousands(score.sessions)) (plural(score.sessions, " session")) }
                    @if score.total.is_none() {
                        p { "Not enough sessions: a score needs at least three." }
                    }
                }
            }
            @if !score.categories.is_empty() {
                table {
                    thead { tr {
                        th scope="col" { "Category" }
                        td.wide aria-hidden="true" {}
                        th.number scope="col" { "Points" }
                        th scope="col" { "Measured" }
                    } }
                    tbody {
                        @for category in &score.categories {
                            tr {
                                th scope="row" { (category.name) }
                                td.wide aria-hidden="true" { (points_meter(category.points, MOST)) }
                                td.number { (category.points) " / " (MOST) }
                                td.muted { (category.measured) }
                            }
                        }
                    }
                }
            }
            @if !score.tips.is_empty() {
                h3 { "Tips" }
                ul.tips { @for tip in &score.tips { li { (tip) } } }
            }
        }
    }
}

/// Renders the list of all scores.
fn score_overview(report: &ScoreReport, choice: &StatsSelection, chosen: &Score) -> Markup {
    html! {
        nav.card.scores aria-label="Scores" {
            (score_list("Agents", &report.agents, choice, chosen))
            (score_list("Repositories", &report.repositories, choice, chosen))
        }
    }
}

fn score_list(title: &str, scores: &[Score], choice: &StatsSelection, chosen: &Score) -> Markup {
    html! {
        @if !scores.is_empty() {
            h3 { (title) }
            ul {
                @for score in scores {
                    li {
                        a href=(choice.url_with_changes(PAGE, &[("of", score_url_value(score))])) title=[score.path.as_ref()]
                            aria-current=[(score_url_value(score) == score_url_value(chosen)).then_some("true")] {
                            span.name { (agent_marker(score)) (score.name) }
                            (points_meter(score.total.unwrap_or(0), 100))
                            span.number { (score.total.map_or("–".to_owned(), |total| total.to_string())) }
                        }
                    }
                }
            }
        }
    }
}

/// Renders the colour of an agent, before its name.
fn agent_marker(score: &Score) -> Markup {
    let name = score.name.trim_end_matches(" (all sessions)");
    let agent =
        Journal::supported_agents().find(|agent| agent.name == name && score.path.is_none());
    html! {
        @if let Some(agent) = agent { span class={ "marker agent-" (agent.id) } aria-hidden="true" {} }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(name: &str, path: Option<&str>, total: Option<u64>) -> Score {
        Score {
            name: name.to_owned(),
            path: path.map(str::to_owned),
            sessions: 3,
            total,
            categories: Vec::new(),
            tips: Vec::new(),
        }
    }

    #[test]
    fn a_score_is_found_by_path_name_or_agent() {
        let agent = Journal::supported_agents().next().unwrap().name;
        let report = ScoreReport {
            repositories: vec![
                score("web", Some("/a/web"), None),
                score("api", Some("/b"), Some(7)),
            ],
            agents: vec![score(&format!("{agent} (all sessions)"), None, Some(9))],
        };
        let check = |name: Option<&str>, expected: Option<u64>| {
            assert_eq!(selected_score(&report, name).unwrap().total, expected, "{name:?}");
        };
        check(Some("/a/web"), None);
        check(Some("api"), Some(7));
        check(Some(agent), Some(9));
        check(Some("nowhere"), Some(7));
        check(None, Some(7));
    }

    #[test]
    fn an_agent_has_its_colour_and_a_repository_of_that_name_has_not() {
        let agent = Journal::supported_agents().next().unwrap();
        let name = format!("{} (all sessions)", agent.name);
        let class = format!("agent-{}", agent.id);
        assert!(agent_marker(&score(&name, None, None)).into_string().contains(&class));
        assert_eq!(agent_marker(&score(agent.name, Some("/x"), None)).into_string(), "");
    }
}
