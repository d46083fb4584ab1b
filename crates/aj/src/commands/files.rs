//! `aj files`: lists the files that sessions touched.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::TouchedFile;
use agent_journal::search::Scope;
use anyhow::Result;
use serde_json::json;

use super::{FilterArgs, RedactArgs};
use crate::context::CommandContext;
use crate::error::{found_exit_code, print_remark};
use crate::output::files::{FileSort, touches_in_words};
use crate::output::{self, DIM};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj files                        files that most sessions touched
  aj files --project web          files of one project
  aj files login.rs               sessions that touched a file, latest first
  aj files --sort latest          files that were touched last
  aj files --since 7d --json      files of the last 7 days, as JSON")]
pub(crate) struct FilesArgs {
    /// Only files whose path contains TEXT
    #[arg(value_name = "TEXT", default_value = "")]
    text: String,

    /// Order of the files [default: sessions; latest with TEXT]
    #[arg(long, value_name = "ORDER")]
    sort: Option<FileSort>,

    /// List at most N files; 0 for no limit
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    limit: usize,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    redact: RedactArgs,
}

/// Maximum number of sessions shown below a file.
const SESSIONS: usize = 3;

pub(crate) fn run_files(args: &FilesArgs, context: &CommandContext) -> Result<ExitCode> {
    let filter = args.filter.filter_from_flags(Scope::All, &context.now)?;
    let answered =
        context.answer_fresh(|journal| Ok(journal.list_touched_files(&filter, &args.text)?))?;
    let mut files = answered.answer;
    let total = files.len();
    args.sort.unwrap_or_else(|| FileSort::default_order(&args.text)).sort_files(&mut files);
    if args.limit > 0 {
        files.truncate(args.limit);
    }
    if let Some(redactor) = &mut args.redact.requested_redactor(&answered.journal) {
        for touch in files.iter_mut().flat_map(|file| &mut file.sessions) {
            answered.journal.redact_entry(&mut touch.entry, redactor)?;
            touch.title.clone_from(&touch.entry.title);
        }
        for file in &mut files {
            redactor.redact_in_place(&mut file.path);
        }
        args.redact.report_redactions(Some(redactor));
    }
    if context.json {
        output::json::print_document("files", json!({ "total": total, "files": files }))?;
    } else {
        for file in &files {
            print_file(file, context)?;
        }
        if files.is_empty() {
            return CommandContext::report_nothing_found(&answered.journal, "no files match");
        }
        let shown = output::count(files.len() as u64, "file");
        print_remark(&format!("{shown} of {total} · aj blame FILE"));
    }
    Ok(found_exit_code(!files.is_empty()))
}

fn print_file(file: &TouchedFile, context: &CommandContext) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let sessions = output::count(file.sessions.len() as u64, "session");
    let how = touches_in_words(file.touches);
    writeln!(out, " {}  {DIM}{sessions} · {how}{DIM:#}", output::plain_text(&file.path))?;
    let room = output::output_width().saturating_sub(50).clamp(16, 80);
    let shown = file.sessions.iter().take(SESSIONS);
    let ids = output::id_width(shown.clone().map(|touch| &touch.entry));
    for touch in shown {
        let entry = &touch.entry;
        let badge = output::session_badge(entry);
        let id = output::pad_to_width(output::short_id(entry), ids);
        let title = output::pad_to_width(&touch.title, room);
        let when = output::relative_time(touch.ended_at, &context.now);
        writeln!(out, "   {badge} {DIM}{id}{DIM:#}  {title}  {when}")?;
    }
    let more = file.sessions.len().saturating_sub(SESSIONS);
    if more > 0 {
        writeln!(out, "   {DIM}and {}{DIM:#}", output::count(more as u64, "more session"))?;
    }
    Ok(())
}
