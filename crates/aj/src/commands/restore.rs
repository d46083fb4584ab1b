//! `aj restore`: writes the agent's own files of a session back, as the archive has them.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use agent_journal::model::Timestamp;
use agent_journal::search::{DayEdge, date};
use agent_journal::{RestorableFile, RestoreObstacle, RestorePlace};
use anyhow::{Result, bail};
use serde_json::json;

use crate::context::CommandContext;
use crate::error::{FOUND, print_nothing_found, print_notice};
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
    print_files(&files)?;
    let obstacle = files.iter().any(|file| file.obstacle.is_some());
    match (new.len(), is_written) {
        (0, _) if obstacle => bail!("nothing to restore: aj never replaces a file"),
        (number, true) => print_notice(&format!("{} restored", count(number as u64, "file"))),
        (number, false) => print_notice(&format!(
            "{} to restore; nothing is written without --yes",
            count(number as u64, "file")
        )),
    }
    Ok(FOUND)
}

fn print_files(files: &[RestorableFile]) -> Result<()> {
    let mut out = output::buffered_stdout();
    for file in files {
        let state = match file.obstacle {
            None => "",
            Some(RestoreObstacle::Exists) => "  (this file exists, so it stays)",
            Some(_) => "  (unsafe path)",
        };
        let path = output::plain_text(&file.target.display().to_string());
        let (size, seen) = (bytes(file.bytes), seen_text(file.seen_at));
        writeln!(out, "{path}  {DIM}{size}, read {seen}{state}{DIM:#}")?;
    }
    out.flush()?;
    Ok(())
}

fn seen_text(at: Timestamp) -> String {
    at.to_string()
}
