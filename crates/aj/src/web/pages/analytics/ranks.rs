//! The rankings: models, tools, directories, branches, agents, servers, failures, files.

use std::collections::BTreeMap;

use agent_journal::Journal;
use agent_journal::analyze::{Counted, Group, ToolFigures};
use maud::Markup;

use super::View;
use super::span::MODELS;
use super::summary::percent;
use crate::output::{amount, duration, money, thousands};
use crate::web::charts::{COLORS, Rank, Ranking};
use crate::web::pages::sessions::short_model;

/// How many names are seen at once.
const SEEN: usize = 8;

/// How many names there are at most, folded ones too.
const MOST: usize = 60;

impl View<'_> {
    pub(super) fn models(&self) -> Markup {
        let rank = |(at, group): (usize, &Group)| {
            let it = &group.figures;
            let cached = it.cache_hit_ratio().map_or("–".to_owned(), percent);
            Rank {
                name: short_model(&group.key).to_owned(),
                detail: Some(group.key.clone()),
                link: self.part("model", &group.key),
                size: it.tokens.total() as f64,
                bad: 0.0,
                // The colours of the charts above.
                color: if at < MODELS { at } else { COLORS },
                cells: vec![
                    thousands(it.sessions),
                    amount(it.tokens.total()),
                    cached,
                    money(&it.cost),
                ],
            }
        };
        let ranks = self.stats.models.iter().enumerate().take(MOST).map(rank).collect();
        let heads = vec!["Sessions", "Tokens", "Cached", "Cost"];
        ranking(("models", "Models", "Model"), heads, ranks)
    }

    pub(super) fn tools(&self) -> Markup {
        let rank = |tool: &ToolFigures| Rank {
            name: tool.tool.clone(),
            detail: None,
            link: self.part("tool", &tool.tool),
            size: tool.calls as f64,
            bad: tool.error_rate().unwrap_or(0.0),
            color: 0,
            cells: vec![
                thousands(tool.calls),
                success(tool.error_rate()),
                thousands(tool.sessions),
            ],
        };
        let ranks = self.stats.tools.iter().take(MOST).map(rank).collect();
        let heads = vec!["Calls", "Succeed", "Sessions"];
        ranking(("tools", "Tools", "Tool"), heads, ranks)
    }

    pub(super) fn directories(&self) -> Markup {
        let name = |group: &Group| {
            let label = group.label.clone().unwrap_or_else(|| group.key.clone());
            (label, Some(group.key.clone()))
        };
        let groups = self.groups(&self.stats.projects, "project", name);
        ranking(("directories", "Directories", "Project"), heads(), groups)
    }

    pub(super) fn branches(&self) -> Markup {
        let name = |group: &Group| (group.key.clone(), None);
        let groups = self.groups(&self.stats.branches, "branch", name);
        ranking(("branches", "Branches", "Branch"), heads(), groups)
    }

    pub(super) fn agents(&self) -> Markup {
        let name = |group: &Group| {
            let agent = Journal::agents().find(|agent| agent.id == group.key);
            (agent.map_or(group.key.as_str(), |agent| agent.name).to_owned(), None)
        };
        let groups = self.groups(&self.stats.agents, "agent", name);
        ranking(("agents", "Agents", "Agent"), heads(), groups)
    }

    /// Groups of sessions by their active time.
    fn groups(
        &self,
        groups: &[Group],
        field: &str,
        name: impl Fn(&Group) -> (String, Option<String>),
    ) -> Vec<Rank> {
        let rank = |group: &Group| {
            let (name, detail) = name(group);
            let it = &group.figures;
            Rank {
                name,
                detail,
                link: self.part(field, &group.key),
                size: it.active_s as f64,
                bad: 0.0,
                color: 0,
                cells: vec![
                    thousands(it.sessions),
                    duration(it.active_s),
                    amount(it.tokens.total()),
                    money(&it.cost),
                ],
            }
        };
        groups.iter().take(MOST).map(rank).collect()
    }

    pub(super) fn servers(&self) -> Markup {
        let mut servers: BTreeMap<&str, (u64, u64, u64, u64)> = BTreeMap::new();
        let mut names: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for tool in &self.stats.tools {
            let Some(server) = tool.server() else { continue };
            names.entry(server).or_default().push(format!("tool:{}", tool.tool));
            let sum = servers.entry(server).or_default();
            let add = (1, tool.calls, tool.results, tool.errors);
            *sum = (sum.0 + add.0, sum.1 + add.1, sum.2 + add.2, sum.3 + add.3);
        }
        let mut servers: Vec<_> = servers.into_iter().collect();
        servers.sort_by_key(|(name, sum)| (std::cmp::Reverse(sum.1), *name));
        let rank = |(name, (tools, calls, results, errors)): (&str, (u64, u64, u64, u64))| {
            let failed = (results > 0).then(|| errors as f64 / results as f64);
            Rank {
                name: name.to_owned(),
                detail: None,
                link: self.part("q", &names[name].join(" OR ")),
                size: calls as f64,
                bad: failed.unwrap_or(0.0),
                color: 0,
                cells: vec![thousands(tools), thousands(calls), success(failed)],
            }
        };
        let ranks = servers.into_iter().take(MOST).map(rank).collect();
        ranking(("servers", "MCP servers", "Server"), vec!["Tools", "Calls", "Succeed"], ranks)
    }

    pub(super) fn errors(&self) -> Markup {
        let ranks = counted(&self.stats.errors, 3, |_| self.part("has", "error"));
        ranking(("errors", "Failures", "Kind"), vec!["Times"], ranks)
    }

    pub(super) fn files(&self) -> Markup {
        let mut ranks = counted(&self.stats.files, 0, |path| self.part("file", path));
        for rank in &mut ranks {
            let name = ending(&rank.name).to_owned();
            rank.detail = Some(std::mem::replace(&mut rank.name, name));
        }
        ranking(("files", "Files changed most", "File"), vec!["Changes"], ranks)
    }
}

/// The end of a path: the beginning is the same for all of a project's files.
fn ending(path: &str) -> &str {
    let parts = path.rmatch_indices(['/', '\\']);
    parts.map(|(at, _)| at + 1).nth(2).map_or(path, |start| &path[start..])
}

fn heads() -> Vec<&'static str> {
    vec!["Sessions", "Active", "Tokens", "Cost"]
}

fn success(failed: Option<f64>) -> String {
    failed.map_or("–".to_owned(), |rate| percent(1.0 - rate))
}

fn counted(all: &[Counted], color: usize, link: impl Fn(&str) -> Option<String>) -> Vec<Rank> {
    let rank = |one: &Counted| Rank {
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

fn ranking((id, title, unit): (&str, &str, &str), heads: Vec<&str>, ranks: Vec<Rank>) -> Markup {
    Ranking { id, title, note: String::new(), unit, heads, ranks, seen: SEEN }.draw()
}
