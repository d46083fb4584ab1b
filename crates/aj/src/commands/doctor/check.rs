//! The individual checks of `aj doctor`, each with advice.

use agent_journal::{AgentReport, Coverage, Health, IndexState, Journal, UnderstandingDrop};
use anyhow::Result;
use serde::Serialize;

use crate::context::CommandContext;
use crate::output::{bytes, count, failure_cause};

/// Percentage of an agent's records that must be parsed. With fewer, its format has probably
/// changed.
const UNDERSTOOD: u64 = 90;

/// The result of one check.
#[derive(Serialize)]
pub(super) struct CheckResult {
    pub(super) name: String,
    pub(super) state: CheckState,
    pub(super) finding: String,
    /// The action that fixes the finding.
    pub(super) advice: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckState {
    /// Everything is in order.
    Good,
    /// Worth knowing, but no problem.
    Note,
    /// Needs to be fixed.
    Bad,
}

impl CheckResult {
    pub(super) fn good_check(name: &str, finding: String) -> Self {
        Self { name: name.to_owned(), state: CheckState::Good, finding, advice: None }
    }

    pub(super) fn note_check(name: &str, finding: String, advice: &str) -> Self {
        Self {
            state: CheckState::Note,
            advice: Some(advice.to_owned()),
            ..Self::good_check(name, finding)
        }
    }

    pub(super) fn bad_check(name: &str, finding: String, advice: &str) -> Self {
        Self {
            state: CheckState::Bad,
            advice: Some(advice.to_owned()),
            ..Self::good_check(name, finding)
        }
    }
}

/// Reports the configuration file. It has been read without error, or this check would not run.
pub(super) fn check_configuration(context: &CommandContext) -> CheckResult {
    let file = context.settings.file.display();
    let finding = if context.settings.file.exists() {
        format!("{file}")
    } else {
        format!("defaults; {file} does not exist")
    };
    CheckResult::good_check("configuration", finding)
}

/// Reports further homes that do not exist.
pub(super) fn check_homes(context: &CommandContext) -> Vec<CheckResult> {
    let homes = context.settings.homes.iter().map(|home| &home.machine.home);
    let missing = homes.filter(|home| !home.exists());
    let check = |home: &std::path::PathBuf| {
        let finding = format!("{} does not exist", home.display());
        CheckResult::note_check(
            "homes",
            finding,
            "correct [[homes]] in the configuration, or mount the directory",
        )
    };
    missing.map(check).collect()
}

/// Reports a journal that cannot be opened.
pub(super) fn unusable_journal(error: &anyhow::Error) -> CheckResult {
    let hints = crate::error::hints_for(error).join("; ");
    CheckResult::bad_check("journal", format!("{error:#}"), &hints)
}

/// Checks sources, store and index.
pub(super) fn check_journal(journal: &Journal) -> Result<Vec<CheckResult>> {
    let health = journal.check_health()?;
    let reports = journal.agent_reports()?;
    let mut checks: Vec<CheckResult> = Vec::new();
    for report in &reports {
        checks.extend(check_agent(journal, report)?.or_else(|| check_unread(report, &health)));
    }
    if checks.is_empty() {
        let advice =
            "`aj sources --all` lists the scanned directories; [storage.sources] adds others";
        checks.push(CheckResult::note_check(
            "sources",
            "no agent history found".to_owned(),
            advice,
        ));
    }
    for agent in journal.unread_agents()? {
        let finding = format!("not read: {} ({})", agent.reason, agent.path.display());
        let check = CheckResult::good_check(agent.id, finding);
        checks.push(CheckResult { state: CheckState::Note, ..check });
    }
    for (path, reason) in &health.failures {
        let reason = failure_cause(path, reason);
        let advice = "grant yourself read permission";
        checks.push(CheckResult::bad_check("sources", format!("{path}: {reason}"), advice));
    }
    checks.push(check_store(journal, &health));
    checks.push(check_index(&health));
    checks.extend(check_coverage(&journal.semantic_coverage()?));
    checks.extend(check_pending(&health));
    Ok(checks)
}

/// Checks an agent that has sources, or whose configured directory is missing.
fn check_agent(journal: &Journal, report: &AgentReport) -> Result<Option<CheckResult>> {
    let Some(check) = check_sources(report) else { return Ok(None) };
    // An unreadable source matters more than a low parse rate.
    if check.state == CheckState::Bad || report.totals.sources == 0 {
        return Ok(Some(check));
    }
    let dropped = journal.understanding_drop(report.id)?;
    Ok(Some(dropped.map_or(check, |dropped| new_format(report, &dropped))))
}

/// Reports a version of an agent whose records are mostly not parsed.
fn new_format(report: &AgentReport, dropped: &UnderstandingDrop) -> CheckResult {
    let UnderstandingDrop { version, records, path, .. } = dropped;
    let before = dropped
        .percent_before
        .map_or_else(String::new, |percent| format!(", {percent:.1} % in earlier versions"));
    let types: Vec<String> =
        dropped.unknown_types.iter().map(|(name, number)| format!("{number} × {name}")).collect();
    let finding = format!(
        "only {:.1} % of {} of version {version} parsed{before}; not parsed: {}; most in {path}",
        dropped.parsed_percent(),
        count(*records, "record"),
        types.join(", "),
    );
    let advice = format!(
        "{} {version} may use a new format: update aj, or report these record types; no data is \
         lost, a newer aj reads them again",
        report.name
    );
    CheckResult::bad_check(report.id, finding, &advice)
}

/// Checks the sources of an agent.
fn check_sources(report: &AgentReport) -> Option<CheckResult> {
    let totals = &report.totals;
    let lost = report.roots.iter().find(|root| root.configured && !root.present);
    if let Some(root) = lost {
        let finding = format!("{} does not exist", root.path.display());
        return Some(CheckResult::note_check(
            report.id,
            finding,
            "correct [storage.sources], or mount the directory",
        ));
    }
    if totals.sources == 0 {
        return None;
    }
    let mut finding = count(totals.sessions, "session");
    if totals.bytes > 0 {
        finding += &format!(", {}", bytes(totals.bytes));
    }
    if totals.sources_gone > 0 {
        finding +=
            &format!(", {} deleted but kept in the journal", count(totals.sources_gone, "source"));
    }
    if let Some((path, reason)) = totals.failures.first() {
        let finding = format!(
            "{} could not be read: {path}: {}",
            count(totals.sources_failed, "source"),
            failure_cause(path, reason)
        );
        return Some(CheckResult::bad_check(
            report.id,
            finding,
            "`aj sources` lists them; grant yourself read permission",
        ));
    }
    let (all, understood) = totals.understood();
    if understood * 100 < all * UNDERSTOOD {
        let share = 100.0 * understood as f64 / all as f64;
        let most = totals.least_understood.as_ref();
        let most =
            most.map_or_else(String::new, |(path, _)| format!("; most of the rest is in {path}"));
        let finding = format!("only {share:.1} % of {} parsed{most}", count(all, "record"));
        let advice = "the agent may use a new format: update aj, or report it; no data is lost";
        return Some(CheckResult::bad_check(report.id, finding, advice));
    }
    let skipped: u64 = totals.skipped.values().sum();
    // Up to one record in a hundred is damage; more indicates a changed format.
    if skipped * 100 > all {
        let finding = format!("{finding}; {skipped} of {all} records could not be parsed");
        return Some(CheckResult::note_check(
            report.id,
            finding,
            "`aj sources` lists the reasons; a newer aj may parse them",
        ));
    }
    Some(CheckResult::good_check(report.id, finding))
}

/// Reports an agent whose sources exist but were never read.
fn check_unread(report: &AgentReport, health: &Health) -> Option<CheckResult> {
    let pending = health.pending_agents.iter().find(|(id, ..)| *id == report.id);
    let (_, sources, size) = pending?;
    let finding = format!("{} ({}) not read yet", count(*sources, "source"), bytes(*size));
    Some(CheckResult::note_check(report.id, finding, "`aj index` reads them"))
}

/// Reports a problem of search by meaning.
fn check_coverage(coverage: &Coverage) -> Option<CheckResult> {
    let problem = coverage.problem.as_ref()?;
    let advice = "correct index.vector.model_path, or change index.vector.fallback";
    Some(match &coverage.embedder {
        Some(_) => CheckResult::note_check("meaning", problem.clone(), advice),
        None => CheckResult::bad_check(
            "meaning",
            format!("search by meaning is not available: {problem}"),
            advice,
        ),
    })
}

fn check_store(journal: &Journal, health: &Health) -> CheckResult {
    let path = journal.database_path().display();
    match &health.faults {
        None if !health.is_writable => {
            let advice =
                "grant yourself write permission there, or set AJ_HOME to another directory";
            CheckResult::bad_check("journal", format!("{path} cannot be created"), advice)
        }
        None => CheckResult::note_check(
            "journal",
            format!("{path} does not exist yet"),
            "`aj index` creates it",
        ),
        Some(faults) if !faults.is_empty() => {
            let advice =
                "move it away and run `aj index`, which reads all existing session files again";
            CheckResult::bad_check("journal", format!("{path}: {}", faults.join("; ")), advice)
        }
        Some(_) if !health.is_writable => {
            let advice = "new sessions are not recorded; make the directory writable";
            CheckResult::bad_check("journal", format!("{path} is not writable"), advice)
        }
        Some(_) if !health.is_private => {
            let advice = format!("chmod go= {path}");
            CheckResult::bad_check("journal", format!("other users can read {path}"), &advice)
        }
        Some(_) => {
            CheckResult::good_check("journal", format!("{path}, {}, sound", bytes(health.bytes)))
        }
    }
}

/// Verifies every byte of the archive.
pub(super) fn check_archive(journal: &Journal) -> Result<CheckResult> {
    let totals = journal.archive_totals()?;
    let damaged = journal.find_archive_damage()?;
    let Some(first) = damaged.first() else {
        let finding = format!(
            "{} in {}, {}, sound",
            count(totals.versions, "version"),
            count(totals.files, "file"),
            bytes(totals.stored_bytes)
        );
        return Ok(CheckResult::good_check("archive", finding));
    };
    let files = count(damaged.len() as u64, "file");
    let finding = format!("{files} cannot be restored, among them {}", first.display());
    let advice = "restore the directory `archive` of the journal from a backup, if you have one";
    Ok(CheckResult::bad_check("archive", finding, advice))
}

fn check_index(health: &Health) -> CheckResult {
    match (health.index, &health.faults) {
        (IndexState::Current, _) => CheckResult::good_check("index", "complete".to_owned()),
        (_, None) => CheckResult::note_check(
            "index",
            "does not exist yet".to_owned(),
            "`aj index` creates it",
        ),
        (IndexState::Behind, _) => CheckResult::bad_check(
            "index",
            "lacks the latest messages".to_owned(),
            "run `aj index`",
        ),
        (IndexState::Absent, _) => CheckResult::bad_check(
            "index",
            "cannot be used".to_owned(),
            "run `aj index` to rebuild it",
        ),
    }
}

fn check_pending(health: &Health) -> Option<CheckResult> {
    let number = health.pending_sources;
    let finding =
        || format!("{} ({}) not read yet", count(number, "source"), bytes(health.pending_bytes));
    (number > 0).then(|| CheckResult::note_check("news", finding(), "`aj index` reads them"))
}
