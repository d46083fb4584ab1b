//! `aj forget`: deletes sessions from the journal for good.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use agent_journal::search::Scope;
use agent_journal::{Entry, Error, ForgetPlan, Journal, LeftOutReason, LeftOutSession};
use anyhow::{Result, bail};
use serde_json::json;

use super::RedactArgs;
use crate::context::{CommandContext, WAIT};
use crate::error::{FOUND, print_nothing_found, print_warning};
use crate::output::{self, DIM, bytes, count, plain_text, relative_time, short_id};
use crate::session_filter::{filter_of_fields, require_session_fields};

/// Maximum number of sessions that are listed before the question.
const LISTED: usize = 12;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj forget 3f1c --yes                 forget a session and its sub-agents without a question
  aj forget project:secret --yes       forget all sessions of a project
  aj forget --excluded --yes           forget what [exclude] matches
  aj forget --list                     list forgotten and excluded sessions
  aj forget --undo 3f1c                read a session again

Agents' files are not touched.")]
pub(crate) struct ForgetArgs {
    /// Session ids or unique prefixes, or fields such as project:secret
    #[arg(value_name = "ID|FIELD", required_unless_present_any = ["undo", "list", "excluded"])]
    subjects: Vec<String>,

    /// Do not ask
    #[arg(long)]
    yes: bool,

    /// Forget the sessions that the configuration excludes
    #[arg(long, conflicts_with_all = ["subjects", "undo", "list"])]
    excluded: bool,

    /// Lift the tombstone of a session; the next `aj index` reads it again
    #[arg(long, value_name = "ID", conflicts_with_all = ["subjects", "list"])]
    undo: Option<String>,

    /// List the sessions that are not read
    #[arg(long, conflicts_with = "subjects")]
    list: bool,
}

pub(crate) fn run_forget(args: &ForgetArgs, context: &CommandContext) -> Result<ExitCode> {
    let context = &context.with_redaction(RedactArgs::default().of_views());
    if args.list {
        return list_left_out(context);
    }
    if let Some(id) = &args.undo {
        return lift_tombstones(id, context);
    }
    // What is forgotten is what the journal has now.
    let mut journal = context.fresh_journal()?;
    let plan = if args.excluded {
        journal.plan_forgetting_excluded()?
    } else {
        let sessions = find_subjects(&args.subjects, &journal, context)?;
        journal.plan_forgetting(sessions)?
    };
    if plan.sessions.is_empty() {
        return Ok(print_nothing_found("no sessions match"));
    }
    if !context.json {
        describe_plan(&plan, context)?;
    }
    if !args.yes && !confirms(&plan)? {
        return Ok(print_nothing_found("nothing was forgotten"));
    }
    let report = journal.forget_sessions(&plan, WAIT, &mut |_| {})?;
    if !report.is_complete {
        print_warning(
            "another aj process reads the journal: the next command that writes deletes the rest of the deleted data",
        );
    }
    if context.json {
        let sessions: Vec<&str> = plan.sessions.iter().map(|entry| entry.id.as_str()).collect();
        let document = json!({ "sessions": sessions, "forgotten": report });
        output::json::print_document("forget", document)?;
        return Ok(FOUND);
    }
    let mut out = output::buffered_stdout();
    let forgotten = count(report.sessions, "session");
    match report.freed_bytes {
        0 => writeln!(out, " {forgotten} forgotten")?,
        freed => writeln!(out, " {forgotten} forgotten, {} freed", bytes(freed))?,
    }
    writeln!(out, " {DIM}the agents' own files are unchanged; aj does not read them again{DIM:#}")?;
    out.flush()?;
    Ok(FOUND)
}

/// Finds the sessions with ids, or those that fields select.
fn find_subjects(
    subjects: &[String],
    journal: &Journal,
    context: &CommandContext,
) -> Result<Vec<Entry>> {
    let mut sessions = Vec::new();
    let mut fields = Vec::new();
    for subject in subjects {
        let id = subject.split('#').next().unwrap_or_default();
        match journal.find_session(id) {
            Ok(entry) => sessions.push(entry),
            Err(Error::UnknownSession { .. }) if subject.contains(':') => {
                fields.push(subject.as_str());
            }
            Err(error) => return Err(error.into()),
        }
    }
    if !fields.is_empty() {
        let filter = filter_of_fields(&fields.join(" "), Scope::Roots, &context.now)?;
        require_session_fields(&filter)?;
        if filter == (agent_journal::search::Filter { scope: Scope::Roots, ..Default::default() }) {
            bail!("the fields select every session; name at least one condition");
        }
        sessions.extend(journal.list_entries(&filter, None)?);
    }
    Ok(sessions)
}

/// Prints what would be forgotten.
fn describe_plan(plan: &ForgetPlan, context: &CommandContext) -> Result<()> {
    let mut out = output::buffered_stdout();
    for entry in plan.sessions.iter().take(LISTED) {
        let when = relative_time(entry.ended_at, &context.now);
        let title = plain_text(&entry.title);
        writeln!(out, " {DIM}{}{DIM:#}  {title}  {DIM}{when}{DIM:#}", short_id(entry))?;
    }
    if plan.sessions.len() > LISTED {
        let more = count((plan.sessions.len() - LISTED) as u64, "more session");
        writeln!(out, " {DIM}and {more}{DIM:#}")?;
    }
    let mut parts = vec![count(plan.sessions.len() as u64, "session")];
    if plan.subagents > 0 {
        parts.push(count(plan.subagents, "sub-agent"));
    }
    parts.push(count(plan.messages, "message"));
    parts.push(bytes(plan.bytes));
    writeln!(out, " to forget: {}", parts.join(" · "))?;
    if !plan.copied_into.is_empty() {
        let copies = count(plan.copied_into.len() as u64, "session");
        let ids: Vec<String> =
            plan.copied_into.iter().take(LISTED).map(|id| plain_text(id)).collect();
        writeln!(
            out,
            " {DIM}{copies} with a copy of these messages stay: {}{DIM:#}",
            ids.join(" ")
        )?;
    }
    writeln!(out, " {DIM}the agents' own files are not touched{DIM:#}")?;
    out.flush()?;
    Ok(())
}

/// Asks whether the sessions should be forgotten.
fn confirms(plan: &ForgetPlan) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("cannot ask without a terminal; pass `--yes`");
    }
    let sessions = count(plan.sessions.len() as u64, "session");
    let mut stderr = anstream::stderr().lock();
    write!(stderr, "Forget {sessions} for good? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn lift_tombstones(id: &str, context: &CommandContext) -> Result<ExitCode> {
    let mut journal = context.open_journal_only()?;
    let lifted = journal.lift_tombstones(id, WAIT)?;
    if context.json {
        output::json::print_document("forget-undo", json!({ "sessions": lifted }))?;
        return Ok(FOUND);
    }
    let mut out = output::buffered_stdout();
    for session in &lifted {
        writeln!(out, " {}", plain_text(&session.id))?;
    }
    let next = "the next command reads these sessions again, if their files still exist";
    writeln!(out, " {DIM}{next}{DIM:#}")?;
    out.flush()?;
    Ok(FOUND)
}

fn list_left_out(context: &CommandContext) -> Result<ExitCode> {
    let journal = context.open_journal_only()?;
    let left_out = journal.left_out_sessions()?;
    if context.json {
        output::json::print_document("left-out", json!({ "sessions": left_out }))?;
        return Ok(crate::error::found_exit_code(!left_out.is_empty()));
    }
    if left_out.is_empty() {
        return Ok(print_nothing_found("no session is forgotten or excluded"));
    }
    let mut out = output::buffered_stdout();
    for session in &left_out {
        writeln!(out, " {}", left_out_line(session))?;
    }
    out.flush()?;
    Ok(FOUND)
}

/// Describes a session that is not read.
pub(crate) fn left_out_line(session: &LeftOutSession) -> String {
    let id = plain_text(&session.id);
    let since = &session.since.to_string()[..10];
    match session.reason {
        LeftOutReason::Forgotten => {
            let with = if session.is_subagent { " as a sub-agent" } else { "" };
            format!("{id} was forgotten{with}  {DIM}{since}{DIM:#}")
        }
        LeftOutReason::Excluded => {
            let directory = session.directory.as_deref().unwrap_or_default();
            format!("{id} is excluded by [exclude]  {DIM}{}{DIM:#}", plain_text(directory))
        }
    }
}
