//! The things that are looked at, each with what to do about it.

use agent_journal::{AgentReport, Coverage, Health, IndexState, Journal, UnderstandingDrop};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::output::{bytes, cause, count};

/// Of a hundred records of an agent this many are understood, or its format has changed.
const UNDERSTOOD: u64 = 90;

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

/// Further homes that are not there.
pub(super) fn homes(context: &Context) -> Vec<Check> {
    let homes = context.settings.homes.iter().map(|home| &home.machine.home);
    let missing = homes.filter(|home| !home.exists());
    let check = |home: &std::path::PathBuf| {
        let finding = format!("{} is not there", home.display());
        Check::note("homes", finding, "correct [[homes]] in the configuration, or mount it")
    };
    missing.map(check).collect()
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
    let mut checks: Vec<Check> = Vec::new();
    for report in &reports {
        checks.extend(agent(journal, report)?.or_else(|| unread(report, &health)));
    }
    if checks.is_empty() {
        let advice =
            "`aj sources --all` lists the scanned directories; [storage.sources] names others";
        checks.push(Check::note("sources", "no agent history found".to_owned(), advice));
    }
    for (path, reason) in &health.failures {
        let reason = cause(path, reason);
        let advice = "give yourself read permission";
        checks.push(Check::bad("sources", format!("{path}: {reason}"), advice));
    }
    checks.push(store(journal, &health));
    checks.push(index(&health));
    checks.extend(meaning(&journal.coverage()?));
    checks.extend(pending(&health));
    Ok(checks)
}

/// An agent that left something, or was looked for where the user said.
fn agent(journal: &Journal, report: &AgentReport) -> Result<Option<Check>> {
    let Some(check) = sources(report) else { return Ok(None) };
    // What could not be read at all says more than a share.
    if check.state == State::Bad || report.totals.sources == 0 {
        return Ok(Some(check));
    }
    let dropped = journal.understanding_drop(report.id)?;
    Ok(Some(dropped.map_or(check, |dropped| new_format(report, &dropped))))
}

/// A version of an agent that writes what is not understood.
fn new_format(report: &AgentReport, dropped: &UnderstandingDrop) -> Check {
    let UnderstandingDrop { version, records, path, .. } = dropped;
    let before = dropped.percent_before.map_or_else(String::new, |percent| {
        format!(", {percent:.1} % of those of earlier versions")
    });
    let types: Vec<String> =
        dropped.unknown_types.iter().map(|(name, number)| format!("{number} × {name}")).collect();
    let finding = format!(
        "only {:.1} % of {} of version {version} understood{before}; not understood: {}; most in {path}",
        dropped.percent(),
        count(*records, "record"),
        types.join(", "),
    );
    let advice = format!(
        "{} {version} may write a new format: update aj, or report these record types; nothing is \
         lost, a newer aj reads them again",
        report.name
    );
    Check::bad(report.id, finding, &advice)
}

/// The sources of an agent.
fn sources(report: &AgentReport) -> Option<Check> {
    let totals = &report.totals;
    let lost = report.roots.iter().find(|root| root.configured && !root.present);
    if let Some(root) = lost {
        let finding = format!("{} is not there", root.path.display());
        return Some(Check::note(report.id, finding, "correct [storage.sources], or mount it"));
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
            "{} could not be read: {path}: {}",
            count(totals.sources_failed, "source"),
            cause(path, reason)
        );
        return Some(Check::bad(
            report.id,
            finding,
            "`aj sources` names them; give yourself read permission",
        ));
    }
    let (all, understood) = totals.understood();
    if understood * 100 < all * UNDERSTOOD {
        let share = 100.0 * understood as f64 / all as f64;
        let most = totals.least_understood.as_ref();
        let most =
            most.map_or_else(String::new, |(path, _)| format!("; most of the others: {path}"));
        let finding = format!("only {share:.1} % of {} understood{most}", count(all, "record"));
        let advice = "the agent may write a new format: update aj, or report it; nothing is lost";
        return Some(Check::bad(report.id, finding, advice));
    }
    let skipped: u64 = totals.skipped.values().sum();
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

/// An agent whose sources are there and were never read.
fn unread(report: &AgentReport, health: &Health) -> Option<Check> {
    let pending = health.pending_agents.iter().find(|(id, ..)| *id == report.id);
    let (_, sources, size) = pending?;
    let finding = format!("{} ({}) not read yet", count(*sources, "source"), bytes(*size));
    Some(Check::note(report.id, finding, "`aj index` reads them"))
}

/// Whether and why something is not found by meaning.
fn meaning(coverage: &Coverage) -> Option<Check> {
    let problem = coverage.problem.as_ref()?;
    let advice = "correct index.vector.model_path, or change index.vector.fallback";
    Some(match &coverage.embedder {
        Some(_) => Check::note("meaning", problem.clone(), advice),
        None => Check::bad("meaning", format!("nothing is found by meaning: {problem}"), advice),
    })
}

fn store(journal: &Journal, health: &Health) -> Check {
    let path = journal.path().display();
    match &health.faults {
        None if !health.is_writable => {
            let advice =
                "give yourself write permission there, or set AJ_HOME to another directory";
            Check::bad("journal", format!("{path} cannot be made"), advice)
        }
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
