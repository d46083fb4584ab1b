//! The things that are looked at, each with what to do about it.

use agent_journal::{AgentReport, Health, IndexState, Journal};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::output::{bytes, count};

/// What one look came to.
#[derive(Serialize)]
pub(super) struct Check {
    pub(super) name: String,
    pub(super) state: State,
    pub(super) finding: String,
    /// What to do.
    pub(super) advice: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// Something is to be done.
    Bad,
}

impl Check {
    pub(super) fn good(name: &str, finding: String) -> Self {
        Self { name: name.to_owned(), state: State::Good, finding, advice: None }
    }

    pub(super) fn note(name: &str, finding: String, advice: &str) -> Self {
        Self { state: State::Note, advice: Some(advice.to_owned()), ..Self::good(name, finding) }
    }

    pub(super) fn bad(name: &str, finding: String, advice: &str) -> Self {
        Self { state: State::Bad, advice: Some(advice.to_owned()), ..Self::good(name, finding) }
    }
}

/// The settings: they were read, or nobody would be here.
pub(super) fn configuration(context: &Context) -> Check {
    let file = context.settings.file.display();
    let finding = if context.settings.file.exists() {
        format!("{file}")
    } else {
        format!("the defaults; {file} is not there")
    };
    Check::good("configuration", finding)
}

/// A journal that cannot even be opened.
pub(super) fn unusable(error: &anyhow::Error) -> Check {
    let hints = crate::error::hints(error).join("; ");
    Check::bad("journal", format!("{error:#}"), &hints)
}

/// Sources, store and index.
pub(super) fn journal(journal: &Journal) -> Result<Vec<Check>> {
    let health = journal.health()?;
    let reports = journal.sources()?;
    let mut checks: Vec<Check> = reports.iter().filter_map(agent).collect();
    if checks.is_empty() {
        let advice =
            "`aj sources --all` tells where was looked; [storage.sources] names other places";
        checks.push(Check::note("sources", "no agent left anything here".to_owned(), advice));
    }
    for (path, reason) in &health.failures {
        checks.push(Check::bad("sources", format!("{path}: {reason}"), "make it readable for you"));
    }
    checks.push(store(journal, &health));
    checks.push(index(&health));
    checks.extend(pending(&health));
    Ok(checks)
}

/// An agent that left something, or was looked for where the user said.
fn agent(report: &AgentReport) -> Option<Check> {
    let totals = &report.totals;
    let lost = report.roots.iter().find(|root| root.configured && !root.present);
    if let Some(root) = lost {
        let finding = format!("{} is not there", root.path.display());
        return Some(Check::bad(report.id, finding, "correct [storage.sources], or mount it"));
    }
    if totals.sources == 0 {
        return None;
    }
    let mut finding = count(totals.sessions, "session");
    if totals.bytes > 0 {
        finding += &format!(", {}", bytes(totals.bytes));
    }
    if totals.sources_gone > 0 {
        finding += &format!(", {} gone and kept here", count(totals.sources_gone, "source"));
    }
    if let Some((path, reason)) = totals.failures.first() {
        let finding = format!(
            "{} could not be read: {path}: {reason}",
            count(totals.sources_failed, "source")
        );
        return Some(Check::bad(
            report.id,
            finding,
            "`aj sources` names them; make them readable for you",
        ));
    }
    let skipped: u64 = totals.skipped.values().sum();
    let all = totals.records_understood + skipped;
    // One in a hundred is damage; more is a format that changed.
    if skipped * 100 > all {
        let finding = format!("{finding}; {skipped} of {all} records were not understood");
        return Some(Check::note(
            report.id,
            finding,
            "`aj sources` tells why; a newer aj may know them",
        ));
    }
    Some(Check::good(report.id, finding))
}

fn store(journal: &Journal, health: &Health) -> Check {
    let path = journal.path().display();
    match &health.faults {
        None => Check::note("journal", format!("{path} is not there yet"), "`aj index` makes it"),
        Some(faults) if !faults.is_empty() => {
            let advice = "move it away and run `aj index`: sessions whose files are still there are read again";
            Check::bad("journal", format!("{path}: {}", faults.join("; ")), advice)
        }
        Some(_) if !health.is_writable => {
            let advice = "what is new is not recorded; make the directory yours";
            Check::bad("journal", format!("{path} cannot be written"), advice)
        }
        Some(_) if !health.is_private => {
            let advice = format!("chmod go= {path}");
            Check::bad("journal", format!("others may read {path}"), &advice)
        }
        Some(_) => Check::good("journal", format!("{path}, {}, sound", bytes(health.bytes))),
    }
}

fn index(health: &Health) -> Check {
    match (health.index, &health.faults) {
        (IndexState::Current, _) => Check::good("index", "has everything".to_owned()),
        (_, None) => Check::note("index", "not there yet".to_owned(), "`aj index` makes it"),
        (IndexState::Behind, _) => {
            Check::bad("index", "lacks what was read last".to_owned(), "run `aj index`")
        }
        (IndexState::Absent, _) => {
            Check::bad("index", "cannot be used".to_owned(), "run `aj index`: it is made anew")
        }
    }
}

fn pending(health: &Health) -> Option<Check> {
    let number = health.pending_sources;
    let finding =
        || format!("{} ({}) not read yet", count(number, "source"), bytes(health.pending_bytes));
    (number > 0)
        .then(|| Check::note("news", finding(), "the next command reads them, or `aj index`"))
}
