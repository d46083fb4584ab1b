//! Counts tools, failures, files and references.

use std::rc::Rc;

use serde::Serialize;

use crate::maps::{Map, Set};
use crate::model::{Ref, failure_name};
use crate::store::ActivityBucket;

/// The usage of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ToolFigures {
    /// The normalized name of the tool.
    pub tool: String,
    /// The number of calls.
    pub calls: u64,
    /// The number of calls with a result.
    pub results: u64,
    /// The number of results that report a failure.
    pub errors: u64,
    /// The number of sessions that used it, counted by task.
    pub sessions: u64,
    #[serde(skip)]
    last: Option<u64>,
}

/// A name with its number of occurrences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CountedName {
    /// The counted name.
    pub name: String,
    /// The number of occurrences.
    pub count: u64,
}

/// Counts tools and failures.
#[derive(Default)]
pub(super) struct ToolTally {
    tools: Map<Rc<str>, ToolFigures>,
    failures: Map<u8, u64>,
}

impl ToolTally {
    pub(super) fn add_quarter(&mut self, quarter: &ActivityBucket, task: u64) {
        for used in &quarter.tools {
            if !self.tools.contains_key(&used.name) {
                let tool = ToolFigures { tool: used.name.to_string(), ..ToolFigures::default() };
                self.tools.insert(used.name.clone(), tool);
            }
            let Some(tool) = self.tools.get_mut(&used.name) else { continue };
            tool.calls += used.calls;
            tool.results += used.results;
            tool.errors += used.errors;
            if tool.last != Some(task) {
                tool.last = Some(task);
                tool.sessions += 1;
            }
        }
        for (kind, count) in &quarter.failures {
            *self.failures.entry(*kind).or_default() += count;
        }
    }

    /// Returns the tools and the kinds of failure, the most frequent first.
    pub(super) fn into_tool_figures(self) -> (Vec<ToolFigures>, Vec<CountedName>) {
        let mut tools: Vec<ToolFigures> = self.tools.into_values().collect();
        tools.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.tool.cmp(&b.tool)));
        let named = self.failures.into_iter().map(|(kind, n)| (failure_name(kind).to_owned(), n));
        (tools, most_frequent(named.collect(), usize::MAX))
    }
}

impl ToolFigures {
    /// Returns the MCP server of the tool, if it belongs to one.
    pub fn mcp_server(&self) -> Option<&str> {
        self.tool.split_once('.').map(|(server, _)| server).filter(|server| !server.is_empty())
    }

    /// Returns the share of completed calls that failed.
    pub fn tool_error_rate(&self) -> Option<f64> {
        (self.results > 0).then(|| self.errors as f64 / self.results as f64)
    }
}

/// Returns the most frequent names, at most `limit`.
pub(super) fn most_frequent(counts: Map<String, u64>, limit: usize) -> Vec<CountedName> {
    let mut all: Vec<CountedName> =
        counts.into_iter().map(|(name, count)| CountedName { name, count }).collect();
    all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    all.truncate(limit);
    all
}

/// Counts distinct references by kind.
pub(super) fn count_refs<'r>(all: impl Iterator<Item = &'r Ref>) -> Vec<CountedName> {
    let mut counts: Map<String, u64> = Map::default();
    let mut seen = Set::default();
    for one in all.filter(|one| seen.insert((one.kind.as_str(), one.value.as_str()))) {
        *counts.entry(one.kind.clone()).or_default() += 1;
    }
    most_frequent(counts, usize::MAX)
}
