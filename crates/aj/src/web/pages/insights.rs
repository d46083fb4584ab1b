//! Insights: how well it goes, by repository and by agent, and what would make it better.

use std::sync::Arc;

use agent_journal::Journal;
use agent_journal::analyze::{Score, ScoreReport};
use anyhow::Result;
use axum::extract::{Query, State};
use jiff::Zoned;
use maud::{Markup, html};

use super::analytics::periods;
use super::sums;
use crate::output::{plural, thousands};
use crate::web::cache::MOMENT;
use crate::web::charts::{meter, ring};
use crate::web::choice::{Choice, EVER};
use crate::web::layout::{self, Nav};
use crate::web::params::Params;
use crate::web::reply::Kept;
use crate::web::state::App;

const PAGE: &str = "/insights";

/// Points a category has at most.
const MOST: u64 = 20;

/// Shows the scores.
pub(in crate::web) async fn show(
    State(app): State<Arc<App>>,
    Query(params): Query<Params>,
) -> Kept {
    // Which servers are configured is read from files, of which the journal knows nothing.
    sums(&app, (PAGE, MOMENT), Choice::read(&params).or_since(EVER), draw).await
}

fn draw(journal: &Journal, now: &Zoned, choice: &Choice) -> Result<Markup> {
    let query = choice.query(now)?;
    let report = journal.score(&query)?;
    let body = html! {
        div.title {
            h1 { "Insights" }
            p.muted { "How well it goes: five categories of up to 20 points, each measured." }
        }
        (periods(choice, PAGE))
        @match selected(&report, choice.get("of")) {
            Some(score) => {
                (selector(&report, choice, score))
                div.insight {
                    (detail(score))
                    (overview(&report, choice, score))
                }
            },
            None => (empty(choice)),
        }
    };
    Ok(layout::page("Insights", Nav::Insights, body))
}

fn empty(choice: &Choice) -> Markup {
    html! {
        div.empty {
            h2 { "Nothing to score here" }
            p {
                a href=(choice.link(PAGE, &[("since", ""), ("until", ""), ("of", "")])) { "Look at all time" }
                " · " a href="/sources" { "where was looked" }
            }
        }
    }
}

/// The score that was asked for, or the first that has a number.
fn selected<'r>(report: &'r ScoreReport, name: Option<&str>) -> Option<&'r Score> {
    let all = || report.repositories.iter().chain(&report.agents);
    let wanted = name.and_then(|name| {
        let bare = |score: &Score| score.name.trim_end_matches(" (all sessions)") == name;
        all().find(|score| value(score) == name).or_else(|| all().find(|score| bare(score)))
    });
    wanted.or_else(|| all().find(|score| score.total.is_some())).or_else(|| all().next())
}

/// What a score is called in an address.
fn value(score: &Score) -> &str {
    score.path.as_deref().unwrap_or(&score.name)
}

fn selector(report: &ScoreReport, choice: &Choice, chosen: &Score) -> Markup {
    let options = |scores: &[Score]| {
        html! {
            @for score in scores {
                option value=(value(score)) selected[value(score) == value(chosen)] {
                    (score.name) " · " (score.total.map_or("–".to_owned(), |total| total.to_string()))
                }
            }
        }
    };
    html! {
        form.filters.choice action=(PAGE) method="get" {
            @for name in ["since", "until", "agent", "project", "branch", "q"] {
                @if let Some(value) = choice.get(name) { input type="hidden" name=(name) value=(value); }
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

fn detail(score: &Score) -> Markup {
    html! {
        section.card.score aria-labelledby="score-name" {
            div.head {
                (ring(score.total, &score.name))
                div {
                    h2 id="score-name" { (marker(score)) (score.name) }
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
                                td.wide aria-hidden="true" { (meter(category.points, MOST)) }
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

/// Every score at a glance.
fn overview(report: &ScoreReport, choice: &Choice, chosen: &Score) -> Markup {
    html! {
        nav.card.scores aria-label="Scores" {
            (list("Agents", &report.agents, choice, chosen))
            (list("Repositories", &report.repositories, choice, chosen))
        }
    }
}

fn list(title: &str, scores: &[Score], choice: &Choice, chosen: &Score) -> Markup {
    html! {
        @if !scores.is_empty() {
            h3 { (title) }
            ul {
                @for score in scores {
                    li {
                        a href=(choice.link(PAGE, &[("of", value(score))])) title=[score.path.as_ref()]
                            aria-current=[(value(score) == value(chosen)).then_some("true")] {
                            span.name { (marker(score)) (score.name) }
                            (meter(score.total.unwrap_or(0), 100))
                            span.number { (score.total.map_or("–".to_owned(), |total| total.to_string())) }
                        }
                    }
                }
            }
        }
    }
}

/// The colour of an agent, before its name.
fn marker(score: &Score) -> Markup {
    let name = score.name.trim_end_matches(" (all sessions)");
    let agent = Journal::agents().find(|agent| agent.name == name && score.path.is_none());
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
        let agent = Journal::agents().next().unwrap().name;
        let report = ScoreReport {
            repositories: vec![
                score("web", Some("/a/web"), None),
                score("api", Some("/b"), Some(7)),
            ],
            agents: vec![score(&format!("{agent} (all sessions)"), None, Some(9))],
        };
        let check = |name: Option<&str>, expected: Option<u64>| {
            assert_eq!(selected(&report, name).unwrap().total, expected, "{name:?}");
        };
        check(Some("/a/web"), None);
        check(Some("api"), Some(7));
        check(Some(agent), Some(9));
        check(Some("nowhere"), Some(7));
        check(None, Some(7));
    }

    #[test]
    fn an_agent_has_its_colour_and_a_repository_of_that_name_has_not() {
        let agent = Journal::agents().next().unwrap();
        let name = format!("{} (all sessions)", agent.name);
        let class = format!("agent-{}", agent.id);
        assert!(marker(&score(&name, None, None)).into_string().contains(&class));
        assert_eq!(marker(&score(agent.name, Some("/x"), None)).into_string(), "");
    }
}
