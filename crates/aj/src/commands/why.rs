//! `aj why`: why a session or a file is listed, or missing.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use agent_journal::{KnownSession, KnownSource, ListingState, Presence, SourceState};
use anyhow::Result;
use serde_json::json;

use super::RedactArgs;
use crate::context::Context;
use crate::error::{FOUND, nothing_found};
use crate::output::{self, DIM, cause, count, plain};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj why 3f1c                         a session, by its id or the beginning of it
  aj why ~/.claude/projects/x.jsonl   a file: whose it is, whether and how it was read
  aj why ~/work/web                   the files below a directory")]
pub(crate) struct Args {
    /// A session's id or its beginning, or a path
    #[arg(value_name = "ID|PATH")]
    subject: String,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let context = &context.redacting(&RedactArgs::default());
    let journal = context.journal()?;
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
        output::json::print("why", document)?;
        return Ok(crate::error::found(is_known));
    }
    if !is_known {
        let reason = if is_path { unknown_path(&path, &presence) } else { unknown_id(args) };
        return Ok(nothing_found(&reason));
    }
    let mut out = output::stdout();
    for session in &presence.sessions {
        writeln!(out, " {}", told_session(session))?;
    }
    for source in &presence.sources {
        print_source(&mut out, source)?;
    }
    out.flush()?;
    Ok(FOUND)
}

fn told_session(session: &KnownSession) -> String {
    let state = match session.listing {
        ListingState::Listed => "is listed",
        ListingState::SubAgent => "is a sub-agent's session: `aj list --all` shows it",
        ListingState::Copy => "is a working copy of another session and is not listed",
        ListingState::Empty => {
            "is not listed: nobody said or did anything in it; `aj show` reads it"
        }
    };
    format!("{} {state}  {DIM}{}{DIM:#}", plain(&session.id), plain(&session.title))
}

fn print_source(out: &mut dyn Write, source: &KnownSource) -> Result<()> {
    let state = match source.state {
        SourceState::Read => "read",
        SourceState::Changed => "changed since it was read: the next command reads it",
        SourceState::Unread => "found, not read yet: `aj index` reads it",
        SourceState::Gone => "gone; what it told lives on in the journal",
        SourceState::Failed => "could not be read",
    };
    writeln!(out, " {}  {DIM}{}{DIM:#}  {state}", plain(&source.path), source.agent)?;
    if let Some(error) = &source.error {
        writeln!(out, "   {}", plain(&cause(&source.path, error)))?;
    }
    if source.records > 0 {
        let records = count(source.records, "record");
        writeln!(out, "   {DIM}{} of {records} understood{DIM:#}", source.understood)?;
    }
    for (reason, number) in &source.skipped {
        writeln!(out, "   {DIM}skipped {number} × {}{DIM:#}", plain(reason))?;
    }
    Ok(())
}

fn unknown_path(path: &Path, presence: &Presence) -> String {
    let name = path.display();
    if !path.exists() {
        return format!("{name} does not exist, and the journal has nothing from there");
    }
    match &presence.inside {
        Some(inside) => format!(
            "{name} is in {}, which is scanned for {}, but no session is read from it",
            inside.path, inside.agent
        ),
        None => format!(
            "{name} is in no scanned directory: `aj sources --all` lists them, [storage.sources] adds others"
        ),
    }
}

fn unknown_id(args: &Args) -> String {
    format!(
        "no session `{}` in the journal, and no file with that name in a scanned directory; `aj sources --all` lists them",
        args.subject
    )
}
