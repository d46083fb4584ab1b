//! `aj sources`: lists the scanned directories and the results of reading them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent_journal::{
    AgentReport, AgentTotals, Coverage, ImportedAgentReport, LearnedAgent, LearnedShare,
    RootReport, UnreadAgent, learn_agent,
};
use anyhow::Result;
use serde_json::json;

use crate::context::CommandContext;
use crate::error::{FOUND, print_nothing_found};
use crate::output::wrap::{join_to_lines, wrap_text};
use crate::output::{
    self, DIM, agent_style, amount, bytes, count, failure_cause, pad_left, pad_to_width, plain_text,
};

/// Maximum number of sources listed of which no record was parsed.
const NAMED: usize = 5;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj sources            agents with sessions on this machine
  aj sources --all      all supported agents and their directories
  aj sources --learn .  a declaration of the agent whose files are here")]
pub(crate) struct SourcesArgs {
    /// Include agents without sessions
    #[arg(long)]
    all: bool,

    /// Examine the files in a directory, and print a declaration of their agent
    #[arg(long, value_name = "DIR", conflicts_with = "all")]
    learn: Option<PathBuf>,
}

pub(crate) fn run_sources(args: &SourcesArgs, context: &CommandContext) -> Result<ExitCode> {
    if let Some(directory) = &args.learn {
        return learn_declaration(directory, context);
    }
    let answered = context.answer_fresh(|journal| {
        Ok((
            journal.agent_reports()?,
            journal.imported_agents()?,
            journal.unread_agents()?,
            journal.semantic_coverage()?,
        ))
    })?;
    let (reports, imported, unread, coverage) = answered.answer;
    let journal = answered.journal;
    if context.json {
        let pending = answered.freshness.pending_json();
        output::json::print_document(
            "sources",
            json!({ "journal": journal.database_path().display().to_string(), "pending": pending, "meaning": coverage, "agents": reports, "imported": imported, "unread": unread }),
        )?;
        return Ok(FOUND);
    }
    let mut out = output::buffered_stdout();
    let mut absent = Vec::new();
    let mut unlisted = 0;
    for report in &reports {
        if report.totals.sources > 0 || args.all {
            let listed = |root: &&RootReport| args.all || root.present || root.configured;
            let roots: Vec<&RootReport> = report.roots.iter().filter(listed).collect();
            unlisted += (report.roots.len() - roots.len()) as u64;
            write_agent(&mut out, report, &roots)?;
        } else if !unread.iter().any(|agent| agent.id == report.id) {
            absent.push(report.name);
        }
    }
    for report in &imported {
        imported_agent(&mut out, report)?;
    }
    for agent in &unread {
        write_unread_agent(&mut out, agent)?;
    }
    if !absent.is_empty() {
        let absent = format!("no sessions found for {}", absent.join(", "));
        let absent = wrap_text(&absent, output::output_width().saturating_sub(3)).join("\n   ");
        writeln!(out, " {DIM}{absent}{DIM:#}")?;
    }
    if unlisted > 0 {
        let unlisted = match unlisted {
            1 => "1 directory does not exist; `aj sources --all` lists it".to_owned(),
            _ => format!("{unlisted} directories do not exist; `aj sources --all` lists them"),
        };
        writeln!(out, " {DIM}{unlisted}{DIM:#}")?;
    }
    writeln!(out, " {DIM}{}{DIM:#}", coverage_text(&coverage))?;
    writeln!(out, " {DIM}journal {}{DIM:#}", journal.database_path().display())?;
    out.flush()?;
    Ok(FOUND)
}

/// Prints the declaration of an agent whose files are in a directory.
fn learn_declaration(directory: &Path, context: &CommandContext) -> Result<ExitCode> {
    let machine = context.settings.scanned_machine();
    let directory =
        directory.to_str().map_or(directory.to_owned(), |text| machine.expand_home(text));
    let directory = std::path::absolute(&directory)?;
    let shown = directory.display().to_string();
    let Some(learned) = learn_agent(&directory, &machine.home)? else {
        let message = format!("no conversation was recognised in {shown}");
        return Ok(print_nothing_found(&message));
    };
    if context.json {
        let document = json!({ "directory": shown, "learned": learned });
        output::json::print_document("learned-agent", document)?;
        return Ok(FOUND);
    }
    let mut out = output::buffered_stdout();
    for line in learned_comment(&learned, context) {
        writeln!(out, "# {line}")?;
    }
    write!(out, "\n{}", learned.declaration)?;
    out.flush()?;
    Ok(FOUND)
}

/// Describes a proposed declaration, in lines.
fn learned_comment(learned: &LearnedAgent, context: &CommandContext) -> Vec<String> {
    let share = |share: LearnedShare| {
        let whole = share.whole.max(1);
        format!("{:.1} %", (100.0 * share.part as f64 / whole as f64).min(100.0))
    };
    let of = |share: LearnedShare, noun: &str| {
        format!("{} of {}", amount(share.part), count(share.whole, noun))
    };
    let files = format!(
        "It reads {} ({} of their bytes), and understands {} and {} of their bytes.",
        of(learned.files, "file"),
        share(learned.file_bytes),
        of(learned.records, "record"),
        share(learned.record_bytes),
    );
    let advice =
        format!("A proposal. Check it, and add it to {}.", context.settings.file.display());
    let width = output::output_width().saturating_sub(2);
    [advice, files].iter().flat_map(|text| wrap_text(text, width)).collect()
}

/// Describes how many sessions can be found by meaning.
fn coverage_text(coverage: &Coverage) -> String {
    let Coverage { embedder, vectors, covered, sessions, problem } = coverage;
    let state = match embedder {
        None => "search by meaning is not available".to_owned(),
        Some(_) if covered == sessions => {
            format!("search by meaning covers all sessions ({})", count(*vectors, "text"))
        }
        Some(_) => format!(
            "search by meaning covers {} of {}; `aj index` adds the others",
            amount(*covered),
            count(*sessions, "session")
        ),
    };
    problem.as_ref().map_or(state.clone(), |problem| format!("{state}; {problem}"))
}

/// Lists an agent with some of the directories that are scanned for it.
fn write_agent(out: &mut dyn Write, report: &AgentReport, roots: &[&RootReport]) -> Result<()> {
    let totals = &report.totals;
    let style = agent_style(report.agent);
    headline(out, &format!("{style}{}{style:#}", pad_to_width(report.id, 14)), totals)?;
    for root in roots {
        let state = if root.present { "" } else { "  (does not exist)" };
        writeln!(out, "   {DIM}{}{state}{DIM:#}", root.path.display())?;
    }
    if !report.scans_below && totals.sources > 0 {
        let others = if roots.is_empty() { "the" } else { "and the" };
        writeln!(out, "   {DIM}{others} directories of projects{DIM:#}")?;
    }
    if !report.scans_below && totals.sources == 0 {
        writeln!(
            out,
            "   {DIM}only these directories and known projects, not the directories below them{DIM:#}"
        )?;
        let key = report.agent.key;
        writeln!(out, "   {DIM}to add others: [storage.sources] {key} = \"~/work/**\"{DIM:#}")?;
    }
    write_totals(out, totals)
}

/// Lists an agent that is known only from imported files.
fn imported_agent(out: &mut dyn Write, report: &ImportedAgentReport) -> Result<()> {
    headline(out, &pad_to_width(&plain_text(&report.id), 14), &report.totals)?;
    let files = count(report.totals.sources, "imported file");
    writeln!(out, "   {DIM}from {files}{DIM:#}")?;
    write_totals(out, &report.totals)
}

/// Lists an agent that was used on this machine and whose sessions cannot be read.
fn write_unread_agent(out: &mut dyn Write, agent: &UnreadAgent) -> Result<()> {
    let found = format!("{}: found, not read: {}", agent.name, agent.reason);
    let found = wrap_text(&found, output::output_width().saturating_sub(3)).join("\n   ");
    writeln!(out, " {found}")?;
    writeln!(out, "   {DIM}{}{DIM:#}", agent.path.display())?;
    Ok(())
}

/// Writes the line with the name of an agent, its sessions and the share of understood records.
fn headline(out: &mut dyn Write, name: &str, totals: &AgentTotals) -> Result<()> {
    let sessions =
        format!("{} ({} started by you)", count(totals.sessions, "session"), totals.root_sessions);
    let size = if totals.bytes > 0 { bytes(totals.bytes) } else { String::new() };
    let found = format!("{name}  {}  {}", pad_left(&sessions, 34), pad_left(&size, 8));
    let lines = join_to_lines(
        &[found, understood_text(totals)],
        "  ",
        output::output_width().saturating_sub(3),
    );
    writeln!(out, " {}", lines.join("\n   ").trim_end())?;
    Ok(())
}

/// Writes what was read: the known fields, gone sources, skipped records and failures.
fn write_totals(out: &mut dyn Write, totals: &AgentTotals) -> Result<()> {
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
            "   {DIM}{} deleted; {sessions} only in the journal{DIM:#}",
            count(totals.sources_gone, "source")
        )?;
    }
    for (reason, number) in &totals.skipped {
        writeln!(out, "   {DIM}skipped {} × {}{DIM:#}", amount(*number), plain_text(reason))?;
    }
    for (path, number) in totals.not_understood.iter().take(NAMED) {
        let records = count(*number, "record");
        writeln!(out, "   {DIM}no record parsed in {} ({records}){DIM:#}", plain_text(path))?;
    }
    if totals.not_understood.len() > NAMED {
        let more = count((totals.not_understood.len() - NAMED) as u64, "source");
        writeln!(out, "   {DIM}nor in {more} more; `--json` lists them{DIM:#}")?;
    }
    for (path, reason) in &totals.failures {
        writeln!(
            out,
            "   could not read {}: {}",
            plain_text(path),
            plain_text(&failure_cause(path, reason))
        )?;
    }
    Ok(())
}

fn understood_text(totals: &AgentTotals) -> String {
    let (all, understood) = totals.understood();
    if all == 0 {
        return String::new();
    }
    let share = 100.0 * understood as f64 / all as f64;
    // Less than 100 % is never shown as 100 %.
    let share = if share < 100.0 { share.min(99.9) } else { share };
    let raw = if totals.records_raw > 0 {
        format!(", {} kept raw", amount(totals.records_raw))
    } else {
        String::new()
    };
    format!("{share:.1} % of {} parsed{raw}", count(all, "record"))
}
