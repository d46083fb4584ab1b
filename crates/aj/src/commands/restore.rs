//! `aj restore`: writes the agent's own files of a session back, as the archive has them.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use agent_journal::search::{DayEdge, date};
use agent_journal::{RestorableFile, RestoreObstacle, RestorePlace};
use anyhow::Result;
use serde_json::json;

use crate::context::CommandContext;
use crate::error::{FOUND, print_nothing_found};
use crate::output::{self, DIM, bytes, count};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj restore 3f1c -o saved                 write the files of a session below `saved`
  aj restore 3f1c -o saved --at yesterday  the same, as they were at the end of yesterday
  aj restore 3f1c --in-place               list the files that are missing in the agent's directory
  aj restore 3f1c --in-place --yes         write them there")]
pub(crate) struct RestoreArgs {
    /// Session id or a unique prefix
    #[arg(value_name = "ID")]
    id: String,

    /// Write the files below this directory
    #[arg(short, long, value_name = "DIR", required_unless_present = "in_place")]
    output: Option<PathBuf>,

    /// As the files were at this time: 2026-11-03, 2026-11-03T12:00:00Z, yesterday
    #[arg(long, value_name = "WHEN")]
    at: Option<String>,

    /// Restore the files in the agent's own directory
    #[arg(long, conflicts_with = "output")]
    in_place: bool,

    /// Write in the agent's own directory without listing the files first
    #[arg(long, requires = "in_place")]
    yes: bool,
}

pub(crate) fn run_restore(args: &RestoreArgs, context: &CommandContext) -> Result<ExitCode> {
    let id = args.id.split('#').next().unwrap_or_default();
    let at = args.at.as_ref().map(|text| date(text, &context.now, DayEdge::End)).transpose()?;
    let place = match &args.output {
        Some(directory) => RestorePlace::Directory(std::path::absolute(directory)?),
        None => RestorePlace::InPlace,
    };
    let answered = context.answer_fresh(|journal| {
        let entry = journal.find_session(id)?;
        Ok(journal.plan_restore(&entry, &place, at)?)
    })?;
    let files = answered.answer;
    if files.is_empty() {
        return Ok(print_nothing_found("the archive has no file of this session"));
    }
    let is_written = !args.in_place || args.yes;
    let new: Vec<&RestorableFile> = files.iter().filter(|file| file.obstacle.is_none()).collect();
    if is_written {
        for file in &new {
            answered.journal.restore_file(file)?;
        }
    }
    if context.json {
        output::json::print_document("restore", json!({ "written": is_written, "files": files }))?;
        return Ok(FOUND);
    }
    let number = count(new.len() as u64, "file");
    let summary = if is_written {
        format!("{number} restored")
    } else {
        format!("{number} to restore; nothing is written without --yes")
    };
    print_files(&files, &summary)?;
    if new.is_empty() {
        return Ok(print_nothing_found("nothing was restored: aj never replaces a file"));
    }
    Ok(FOUND)
}

fn print_files(files: &[RestorableFile], summary: &str) -> Result<()> {
    let mut out = output::buffered_stdout();
    for file in files {
        let state = match file.obstacle {
            None => "",
            Some(RestoreObstacle::Exists) => "  (this file exists, so it stays)",
            Some(_) => "  (unsafe path)",
        };
        let path = output::plain_text(&file.target.display().to_string());
        let (size, seen) = (bytes(file.bytes), file.seen_at);
        writeln!(out, "{path}  {DIM}{size}, read {seen}{state}{DIM:#}")?;
    }
    writeln!(out, "{DIM}{summary}{DIM:#}")?;
    out.flush()?;
    Ok(())
}
