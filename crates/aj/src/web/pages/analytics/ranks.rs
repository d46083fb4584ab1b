//! The rankings: models, tools, directories, branches, agents, servers, failures, files.

use std::collections::BTreeMap;

use agent_journal::Journal;
use agent_journal::analyze::{CountedName, StatsGroup, ToolFigures};
use maud::Markup;

use super::StatsView;
use super::span::MODELS;
use super::summary::percent_text;
use crate::output::{amount, duration, money, thousands};
use crate::web::charts::{COLORS, Rank, Ranking};
use crate::web::pages::sessions::short_model;

/// Rows that are visible before the rest is unfolded.
const SEEN: usize = 8;

/// Most rows of a ranking, folded ones included.
const MOST: usize = 60;

/// The calls of the tools of one MCP server.
#[derive(Default)]
struct ServerFigures {
    tools: u64,
    calls: u64,
    results: u64,
    errors: u64,
}

impl StatsView<'_> {
    pub(super) fn models_ranking(&self) -> Markup {
        let rank = |(at, group): (usize, &StatsGroup)| {
            let it = &group.figures;
            let cached = it.cache_hit_ratio().map_or("–".to_owned(), percent_text);
            Rank {
                name: short_model(&group.key).to_owned(),
                detail: Some(group.key.clone()),
                link: self.part_url("model", &group.key),
                size: it.tokens.total_tokens() as f64,
                bad: 0.0,
                // The same colours as in the charts by model.
                color: if at < MODELS { at } else { COLORS },
                cells: vec![
                    thousands(it.sessions),
                    amount(it.tokens.total_tokens()),
                    cached,
                    money(&it.cost),
                ],
            }
        };
        let ranks = self.stats.models.iter().enumerate().take(MOST).map(rank).collect();
        let heads = vec!["Sessions", "Tokens", "Cached", "Cost"];
        ranking_section(
            &RankingTitle { id: "models", title: "Models", unit: "Model" },
            heads,
            ranks,
        )
    }

    pub(super) fn tools_ranking(&self) -> Markup {
        let rank = |tool: &ToolFigures| Rank {
            name: tool.tool.clone(),
            detail: None,
            link: self.part_url("tool", &tool.tool),
            size: tool.calls as f64,
            bad: tool.tool_error_rate().unwrap_or(0.0),
            color: 0,
            cells: vec![
                thousands(tool.calls),
                success_percent(tool.tool_error_rate()),
                thousands(tool.sessions),
            ],
        };
        let ranks = self.stats.tools.iter().take(MOST).map(rank).collect();
        let heads = vec!["Calls", "Succeed", "Sessions"];
        ranking_section(&RankingTitle { id: "tools", title: "Tools", unit: "Tool" }, heads, ranks)
    }

    pub(super) fn directories_ranking(&self) -> Markup {
        let name = |group: &StatsGroup| {
            let label = group.label.clone().unwrap_or_else(|| group.key.clone());
            (label, Some(group.key.clone()))
        };
        let groups = self.group_ranks(&self.stats.projects, "project", name);
        ranking_section(
            &RankingTitle { id: "directories", title: "Directories", unit: "Project" },
            group_heads(),
            groups,
        )
    }

    pub(super) fn branches_ranking(&self) -> Markup {
        let name = |group: &StatsGroup| (group.key.clone(), None);
        let groups = self.group_ranks(&self.stats.branches, "branch", name);
        ranking_section(
            &RankingTitle { id: "branches", title: "Branches", unit: "Branch" },
            group_heads(),
            groups,
        )
    }

    pub(super) fn agents_ranking(&self) -> Markup {
        let name = |group: &StatsGroup| {
            let agent = Journal::supported_agents().find(|agent| agent.id == group.key);
            (agent.map_or(group.key.as_str(), |agent| agent.name).to_owned(), None)
        };
        let groups = self.group_ranks(&self.stats.agents, "agent", name);
        ranking_section(
            &RankingTitle { id: "agents", title: "Agents", unit: "Agent" },
            group_heads(),
            groups,
        )
    }

    /// Builds the rows for groups of sessions, ranked by active time.
    fn group_ranks(
        &self,
        groups: &[StatsGroup],
        field: &str,
        name: impl Fn(&StatsGroup) -> (String, Option<String>),
    ) -> Vec<Rank> {
        let rank = |group: &StatsGroup| {
            let (name, detail) = name(group);
            let it = &group.figures;
            Rank {
                name,
                detail,
                link: self.part_url(field, &group.key),
                size: it.active_s as f64,
                bad: 0.0,
                color: 0,
                cells: vec![
                    thousands(it.sessions),
                    duration(it.active_s),
                    amount(it.tokens.total_tokens()),
                    money(&it.cost),
                ],
            }
        };
        groups.iter().take(MOST).map(rank).collect()
    }

    pub(super) fn servers_ranking(&self) -> Markup {
        let mut servers: BTreeMap<&str, ServerFigures> = BTreeMap::new();
        let mut names: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for tool in &self.stats.tools {
            let Some(server) = tool.mcp_server() else { continue };
            names.entry(server).or_default().push(format!("tool:{}", tool.tool));
            let sum = servers.entry(server).or_default();
            sum.tools += 1;
            sum.calls += tool.calls;
            sum.results += tool.results;
            sum.errors += tool.errors;
        }
        let mut servers: Vec<_> = servers.into_iter().collect();
        servers.sort_by_key(|(name, sum)| (std::cmp::Reverse(sum.calls), *name));
        let rank = |(name, sum): (&str, ServerFigures)| {
            let failed = (sum.results > 0).then(|| sum.errors as f64 / sum.results as f64);
            Rank {
                name: name.to_owned(),
                detail: None,
                link: self.part_url("q", &names[name].join(" OR ")),
                size: sum.calls as f64,
                bad: failed.unwrap_or(0.0),
                color: 0,
                cells: vec![thousands(sum.tools), thousands(sum.calls), success_percent(failed)],
            }
        };
        let ranks = servers.into_iter().take(MOST).map(rank).collect();
        ranking_section(
            &RankingTitle { id: "servers", title: "MCP servers", unit: "Server" },
            vec!["Tools", "Calls", "Succeed"],
            ranks,
        )
    }

    pub(super) fn errors_ranking(&self) -> Markup {
        let ranks = counted_ranks(&self.stats.errors, 3, |_| self.part_url("has", "error"));
        ranking_section(
            &RankingTitle { id: "errors", title: "Failures", unit: "Kind" },
            vec!["Times"],
            ranks,
        )
    }

    pub(super) fn files_ranking(&self) -> Markup {
        let mut ranks = counted_ranks(&self.stats.files, 0, |path| self.part_url("file", path));
        for rank in &mut ranks {
            let name = path_ending(&rank.name).to_owned();
            rank.detail = Some(std::mem::replace(&mut rank.name, name));
        }
        ranking_section(
            &RankingTitle { id: "files", title: "Most changed files", unit: "File" },
            vec!["Changes"],
            ranks,
        )
    }
}

/// Returns the end of a path; the beginning is the same for all files of a project.
fn path_ending(path: &str) -> &str {
    let parts = path.rmatch_indices(['/', '\\']);
    parts.map(|(at, _)| at + 1).nth(2).map_or(path, |start| &path[start..])
}

fn group_heads() -> Vec<&'static str> {
    vec!["Sessions", "Active", "Tokens", "Cost"]
}

fn success_percent(failed: Option<f64>) -> String {
    failed.map_or("–".to_owned(), |rate| percent_text(1.0 - rate))
}

fn counted_ranks(
    all: &[CountedName],
    color: usize,
    link: impl Fn(&str) -> Option<String>,
) -> Vec<Rank> {
    let rank = |one: &CountedName| Rank {
        name: one.name.clone(),
        detail: None,
        link: link(&one.name),
        size: one.count as f64,
        bad: 0.0,
        color,
        cells: vec![thousands(one.count)],
    };
    all.iter().take(MOST).map(rank).collect()
}

/// The title of a ranking.
struct RankingTitle {
    id: &'static str,
    title: &'static str,
    /// The name of a ranked thing.
    unit: &'static str,
}

fn ranking_section(title: &RankingTitle, heads: Vec<&str>, ranks: Vec<Rank>) -> Markup {
    let RankingTitle { id, title, unit } = *title;
    Ranking { id, title, note: String::new(), unit, heads, ranks, seen: SEEN }.draw_ranking()
}
