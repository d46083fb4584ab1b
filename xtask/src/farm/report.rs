//! The table of recordings in `docs/agents.md`. Each row is kept until its agent is recorded again.

use std::fs;

use anyhow::{Context, Result};

use super::agents::{AGENTS, FarmAgent};
use super::install::Installed;
use crate::cargo::root;
use crate::docs::replace_between_markers;

const PAGE: &str = "docs/agents.md";
const MARKER: &str = "recordings";
const HEAD: &str = "| agent | version | recorded | scenario | verdict |\n|---|---|---|---|---|\n";

/// The result of one scenario.
pub(crate) struct Row {
    agent: &'static str,
    version: String,
    date: String,
    scenario: String,
    verdict: String,
}

impl Row {
    pub(crate) fn new(
        agent: &FarmAgent,
        installed: Option<&Installed>,
        scenario: &str,
        verdict: String,
    ) -> Self {
        let version = installed.map_or_else(String::new, |installed| match &installed.refused {
            Some(newest) => format!("{} ({newest} cannot be installed)", installed.version),
            None => installed.version.clone(),
        });
        let date = jiff::Zoned::now().date().to_string();
        Self { agent: agent.name, version, date, scenario: scenario.to_owned(), verdict }
    }

    pub(crate) fn line(&self) -> String {
        let Self { agent, version, date, scenario, verdict } = self;
        format!("| {agent} | {version} | {date} | {scenario} | {verdict} |\n")
    }
}

/// Replaces the rows of the agents that were recorded.
pub(crate) fn write_rows(rows: &[Row]) -> Result<()> {
    let path = root().join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("no {PAGE}"))?;
    let table = merge_rows(&page, rows);
    let page = replace_between_markers(&page, MARKER, &table);
    let page = page.with_context(|| format!("{PAGE} has no place for `{MARKER}`"))?;
    fs::write(&path, page).with_context(|| format!("could not write {PAGE}"))
}

/// Returns the table of a page with new rows, in the order of the agents.
fn merge_rows(page: &str, rows: &[Row]) -> String {
    let old = page.split(HEAD).nth(1).unwrap_or_default();
    let old: Vec<&str> = old.lines().take_while(|line| line.starts_with('|')).collect();
    let mut table = HEAD.to_owned();
    for agent in AGENTS {
        let mut new = rows.iter().filter(|row| row.agent == agent.name).peekable();
        if new.peek().is_some() {
            new.for_each(|row| table.push_str(&row.line()));
        } else {
            let prefix = format!("| {} |", agent.name);
            let kept = old.iter().filter(|line| line.starts_with(&prefix));
            kept.for_each(|line| table.push_str(&format!("{line}\n")));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_other_agents_are_kept() {
        let old = "| codex | 1 | 2026-01-01 | tools | equal |\n";
        let page = format!("x\n{HEAD}{old}| claude | 1 | 2026-01-01 | fork | equal |\n\ny\n");
        let installed = Installed { version: "2".to_owned(), refused: None };
        let row = Row::new(&AGENTS[0], Some(&installed), "tools", "equal".to_owned());
        let new = row.line();
        assert_eq!(merge_rows(&page, &[row]), format!("{HEAD}{new}{old}"));
    }
}
