//! `aj sources`: what was looked at, and what came of it.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::{AgentReport, AgentTotals, Coverage};
use anyhow::Result;
use serde_json::json;

use crate::context::Context;
use crate::error::FOUND;
use crate::output::wrap::{filled, gathered};
use crate::output::{self, DIM, amount, bytes, cause, color, count, pad, pad_left, plain};

/// How many sources are named of which nothing was understood.
const NAMED: usize = 5;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj sources           every agent that left something
  aj sources --all     the others too, with the places looked at")]
pub(crate) struct Args {
    /// Agents that left nothing too
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let (journal, freshness) = context.fresh_journal()?;
    let reports = journal.sources()?;
    let coverage = journal.coverage()?;
    if context.json {
        let pending =
            json!({ "sources": freshness.pending_sources, "bytes": freshness.pending_bytes });
        output::json::print(
            "sources",
            json!({ "journal": journal.path().display().to_string(), "pending": pending, "meaning": coverage, "agents": reports }),
        )?;
        return Ok(FOUND);
    }
    let mut out = output::stdout();
    let mut absent = Vec::new();
    for report in &reports {
        if report.totals.sources > 0 || args.all {
            agent(&mut out, report)?;
        } else {
            absent.push(report.name);
        }
    }
    if !absent.is_empty() {
        let absent = format!("no sessions found of {}", absent.join(", "));
        let absent = filled(&absent, output::width().saturating_sub(3)).join("\n   ");
        writeln!(out, " {DIM}{absent}{DIM:#}")?;
    }
    writeln!(out, " {DIM}{}{DIM:#}", meaning(&coverage))?;
    writeln!(out, " {DIM}journal {}{DIM:#}", journal.path().display())?;
    out.flush()?;
    Ok(FOUND)
}

/// How much can be found by meaning.
fn meaning(coverage: &Coverage) -> String {
    let Coverage { embedder, vectors, covered, sessions, problem } = coverage;
    let state = match embedder {
        None => "nothing is found by meaning".to_owned(),
        Some(_) if covered == sessions => {
            format!("all found by meaning ({})", count(*vectors, "text"))
        }
        Some(_) => format!(
            "{} of {} found by meaning; `aj index` adds the others",
            amount(*covered),
            count(*sessions, "session")
        ),
    };
    problem.as_ref().map_or(state.clone(), |problem| format!("{state}; {problem}"))
}

fn agent(out: &mut dyn Write, report: &AgentReport) -> Result<()> {
    let totals = &report.totals;
    let style = color(report.agent);
    let sessions =
        format!("{} ({} started by you)", count(totals.sessions, "session"), totals.root_sessions);
    let size = if totals.bytes > 0 { bytes(totals.bytes) } else { String::new() };
    let found = format!(
        "{style}{}{style:#}  {}  {}",
        pad(report.id, 14),
        pad_left(&sessions, 34),
        pad_left(&size, 8)
    );
    let lines = gathered(&[found, understood(totals)], "  ", output::width().saturating_sub(3));
    writeln!(out, " {}", lines.join("\n   ").trim_end())?;
    for root in &report.roots {
        let state = if root.present { "" } else { "  (not there)" };
        writeln!(out, "   {DIM}{}{state}{DIM:#}", root.path.display())?;
    }
    if !report.scans_below && totals.sources == 0 {
        writeln!(
            out,
            "   {DIM}only in these places themselves and in projects that other agents know{DIM:#}"
        )?;
        let key = report.agent.key;
        writeln!(out, "   {DIM}to look elsewhere: [storage.sources] {key} = \"~/work/**\"{DIM:#}")?;
    }
    if totals.sessions > 0 {
        let share = |part: u64| format!("{:.0} %", 100.0 * part as f64 / totals.sessions as f64);
        let (cwd, title) = (share(totals.with_cwd), share(totals.with_title));
        let (model, branch) = (share(totals.with_model), share(totals.with_branch));
        writeln!(
            out,
            "   {DIM}with directory {cwd} · title {title} · model {model} · branch {branch}{DIM:#}"
        )?;
    }
    if totals.sources_gone > 0 {
        let sessions = count(totals.sessions_gone, "session");
        writeln!(
            out,
            "   {DIM}{} gone; {sessions} live on in the journal only{DIM:#}",
            count(totals.sources_gone, "source")
        )?;
    }
    for (reason, number) in &totals.skipped {
        writeln!(out, "   {DIM}skipped {} × {}{DIM:#}", amount(*number), plain(reason))?;
    }
    for (path, number) in totals.not_understood.iter().take(NAMED) {
        let records = count(*number, "record");
        writeln!(out, "   {DIM}nothing understood in {} ({records}){DIM:#}", plain(path))?;
    }
    if totals.not_understood.len() > NAMED {
        let more = count((totals.not_understood.len() - NAMED) as u64, "source");
        writeln!(out, "   {DIM}nor in {more} more; `--json` names them{DIM:#}")?;
    }
    for (path, reason) in &totals.failures {
        writeln!(out, "   could not read {}: {}", plain(path), plain(&cause(path, reason)))?;
    }
    Ok(())
}

fn understood(totals: &AgentTotals) -> String {
    let (all, understood) = totals.understood();
    if all == 0 {
        return String::new();
    }
    let share = 100.0 * understood as f64 / all as f64;
    // Nothing is called complete that is not.
    let share = if share < 100.0 { share.min(99.9) } else { share };
    let raw = if totals.records_raw > 0 {
        format!(", {} kept raw", amount(totals.records_raw))
    } else {
        String::new()
    };
    format!("{share:.1} % of {} understood{raw}", count(all, "record"))
}
