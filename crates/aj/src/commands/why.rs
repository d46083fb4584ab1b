//! `aj why`: explains why a session or a file is listed or missing.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use agent_journal::{KnownSession, KnownSource, ListingState, Presence, SourceState};
use anyhow::Result;
use serde_json::json;

use super::RedactArgs;
use crate::context::CommandContext;
use crate::error::{FOUND, print_nothing_found};
use crate::output::{self, DIM, count, failure_cause, plain_text};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj why 3f1c                         a session, by its id or a unique prefix
  aj why ~/.claude/projects/x.jsonl   a file: its agent, and whether it was read
  aj why ~/work/web                   all session files below a directory")]
pub(crate) struct WhyArgs {
    /// Session id, a unique prefix, or a path
    #[arg(value_name = "ID|PATH")]
    subject: String,
}

pub(crate) fn run_why(args: &WhyArgs, context: &CommandContext) -> Result<ExitCode> {
    let context = &context.with_redaction(RedactArgs::default().of_views());
    let journal = context.open_journal_only()?;
    let path = std::path::absolute(&args.subject)?;
    let is_path = args.subject.contains(['/', '\\']) || path.exists();
    let presence = if is_path {
        journal.presence_of_path(&path)?
    } else {
        journal.presence_of_session(&args.subject)?
    };
    let is_known = !presence.sessions.is_empty() || !presence.sources.is_empty();
    if context.json {
        let document = json!({
            "subject": args.subject,
            "sessions": presence.sessions,
            "sources": presence.sources,
            "inside": presence.inside,
        });
        output::json::print_document("why", document)?;
        return Ok(crate::error::found_exit_code(is_known));
    }
    if !is_known {
        let reason = if is_path { unknown_path(&path, &presence) } else { unknown_id(args) };
        return Ok(print_nothing_found(&reason));
    }
    let mut out = output::buffered_stdout();
    for session in &presence.sessions {
        writeln!(out, " {}", session_line(session))?;
    }
    for source in &presence.sources {
        print_source(&mut out, source)?;
    }
    out.flush()?;
    Ok(FOUND)
}

fn session_line(session: &KnownSession) -> String {
    let state = match session.listing {
        ListingState::Listed => "is listed",
        ListingState::SubAgent => "is a sub-agent: `aj list --all` lists it",
        ListingState::Copy => "is a working copy of another session and is not listed",
        ListingState::Empty => "is empty and not listed; `aj show` shows it",
    };
    format!("{} {state}  {DIM}{}{DIM:#}", plain_text(&session.id), plain_text(&session.title))
}

fn print_source(out: &mut dyn Write, source: &KnownSource) -> Result<()> {
    let state = match source.state {
        SourceState::Read => "read",
        SourceState::Changed => "changed since it was read; the next command reads it again",
        SourceState::Unread => "not read yet; `aj index` reads it",
        SourceState::Gone => "deleted; its messages are kept in the journal",
        SourceState::Failed => "could not be read",
    };
    writeln!(out, " {}  {DIM}{}{DIM:#}  {state}", plain_text(&source.path), source.agent)?;
    if let Some(error) = &source.error {
        writeln!(out, "   {}", plain_text(&failure_cause(&source.path, error)))?;
    }
    if source.records > 0 {
        let records = count(source.records, "record");
        writeln!(out, "   {DIM}{} of {records} parsed{DIM:#}", source.understood)?;
    }
    for (reason, number) in &source.skipped {
        writeln!(out, "   {DIM}skipped {number} × {}{DIM:#}", plain_text(reason))?;
    }
    Ok(())
}

fn unknown_path(path: &Path, presence: &Presence) -> String {
    let name = path.display();
    if !path.exists() {
        return format!("{name} does not exist, and the journal has no session from it");
    }
    match &presence.inside {
        Some(inside) => format!(
            "{name} is in {}, a directory of {}, but aj reads no session from it",
            inside.path, inside.agent
        ),
        None => format!(
            "{name} is not in a scanned directory: `aj sources --all` lists them, [storage.sources] adds others"
        ),
    }
}

fn unknown_id(args: &WhyArgs) -> String {
    format!(
        "no session or session file `{}`; `aj sources --all` lists the scanned directories",
        args.subject
    )
}
