//! Tools, failures, files and references, counted.

use std::rc::Rc;

use serde::Serialize;

use crate::maps::{Map, Set};
use crate::model::{Ref, failure_name};
use crate::store::Quarter;

/// How a tool was used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolFigures {
    /// The tool, by its normal name.
    pub tool: String,
    /// Calls.
    pub calls: u64,
    /// Calls that were answered.
    pub results: u64,
    /// Answers that report a failure.
    pub errors: u64,
    /// Sessions that used it, counted by task.
    pub sessions: u64,
    #[serde(skip)]
    last: Option<u64>,
}

/// Something and how often it was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// What.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// Counts tools and failures.
#[derive(Default)]
pub(super) struct ToolTally {
    tools: Map<Rc<str>, ToolFigures>,
    failures: Map<u8, u64>,
}

impl ToolTally {
    pub(super) fn add(&mut self, quarter: &Quarter, task: u64) {
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

    /// The tools and the kinds of failure, the most frequent first.
    pub(super) fn finish(self) -> (Vec<ToolFigures>, Vec<Counted>) {
        let mut tools: Vec<ToolFigures> = self.tools.into_values().collect();
        tools.sort_by(|a, b| b.calls.cmp(&a.calls).then_with(|| a.tool.cmp(&b.tool)));
        let named = self.failures.into_iter().map(|(kind, n)| (failure_name(kind).to_owned(), n));
        (tools, ranked(named.collect(), usize::MAX))
    }
}

impl ToolFigures {
    /// The server it comes from, for tools of MCP servers.
    pub fn server(&self) -> Option<&str> {
        self.tool.split_once('.').map(|(server, _)| server).filter(|server| !server.is_empty())
    }

    /// The share of answered calls that failed.
    pub fn error_rate(&self) -> Option<f64> {
        (self.results > 0).then(|| self.errors as f64 / self.results as f64)
    }
}

/// The most frequent things, at most so many.
pub(super) fn ranked(counts: Map<String, u64>, limit: usize) -> Vec<Counted> {
    let mut all: Vec<Counted> =
        counts.into_iter().map(|(name, count)| Counted { name, count }).collect();
    all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    all.truncate(limit);
    all
}

/// Counts references by kind, each once.
pub(super) fn refs<'r>(all: impl Iterator<Item = &'r Ref>) -> Vec<Counted> {
    let mut counts: Map<String, u64> = Map::default();
    let mut seen = Set::default();
    for one in all.filter(|one| seen.insert((one.kind.as_str(), one.value.as_str()))) {
        *counts.entry(one.kind.clone()).or_default() += 1;
    }
    ranked(counts, usize::MAX)
}
