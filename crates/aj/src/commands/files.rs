//! `aj files`: the files that sessions touched.

use std::cmp::Reverse;
use std::io::Write;
use std::process::ExitCode;

use agent_journal::search::Scope;
use agent_journal::{TouchedFile, Touches};
use anyhow::Result;
use clap::ValueEnum;
use serde::Deserialize;
use serde_json::json;

use super::{FilterArgs, RedactArgs};
use crate::context::Context;
use crate::error::{found, remark};
use crate::output::{self, DIM};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj files                        the files that most sessions touched
  aj files --project web          in one project
  aj files login.rs               who touched it, the latest first
  aj files --sort latest          what was touched last
  aj files --since 7d --json      for a program")]
pub(crate) struct Args {
    /// Only files whose path has this in it
    #[arg(value_name = "TEXT", default_value = "")]
    text: String,

    /// What comes first (sessions; with TEXT latest)
    #[arg(long, value_name = "WHAT")]
    sort: Option<FileSort>,

    /// How many files; 0 for all
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    limit: usize,

    #[command(flatten)]
    filter: FilterArgs,

    #[command(flatten)]
    redact: RedactArgs,
}

/// What comes first.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileSort {
    /// What most sessions touched
    Sessions,
    /// What was changed most often
    Edits,
    /// What was touched last
    Latest,
}

impl FileSort {
    /// Its names.
    pub(crate) const NAMES: [&str; 3] = ["sessions", "edits", "latest"];

    /// Returns the order of files whose paths have a text in them.
    pub(crate) fn usual(text: &str) -> Self {
        if text.is_empty() { Self::Sessions } else { Self::Latest }
    }

    /// Sorts files that come with the latest first; equal ones stay in that order.
    pub(crate) fn apply(self, files: &mut [TouchedFile]) {
        match self {
            Self::Sessions => {
                files.sort_by_key(|file| Reverse((file.sessions.len(), file.edits)));
            }
            Self::Edits => files.sort_by_key(|file| Reverse(file.edits)),
            Self::Latest => {}
        }
    }

    /// Says in which order files stand.
    pub(crate) fn order(self) -> &'static str {
        match self {
            Self::Sessions => "those of most sessions first",
            Self::Edits => "those edited most often first",
            Self::Latest => "the latest first",
        }
    }
}

/// Sessions shown below a file.
const SESSIONS: usize = 3;

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let filter = args.filter.filter(Scope::All, &context.now)?;
    let answered = context.answer(|journal| Ok(journal.files(&filter, &args.text)?))?;
    let mut files = answered.answer;
    let total = files.len();
    args.sort.unwrap_or_else(|| FileSort::usual(&args.text)).apply(&mut files);
    if args.limit > 0 {
        files.truncate(args.limit);
    }
    if let Some(redactor) = &mut args.redact.redactor(&answered.journal) {
        for touch in files.iter_mut().flat_map(|file| &mut file.sessions) {
            answered.journal.redact_entry(&mut touch.entry, redactor)?;
            touch.title.clone_from(&touch.entry.title);
        }
        for file in &mut files {
            redactor.own(&mut file.path);
        }
        args.redact.report(Some(redactor));
    }
    if context.json {
        output::json::print("files", json!({ "total": total, "files": files }))?;
    } else {
        for file in &files {
            print(file, context)?;
        }
        if files.is_empty() {
            return Context::nothing_found(&answered.journal, "no files match");
        }
        let shown = output::count(files.len() as u64, "file");
        remark(&format!("{shown} of {total} · aj blame FILE"));
    }
    Ok(found(!files.is_empty()))
}

fn print(file: &TouchedFile, context: &Context) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let sessions = output::count(file.sessions.len() as u64, "session");
    let how = touched(file.touches);
    writeln!(out, " {}  {DIM}{sessions} · {how}{DIM:#}", output::plain(&file.path))?;
    let room = output::width().saturating_sub(50).clamp(16, 80);
    let shown = file.sessions.iter().take(SESSIONS);
    let ids = output::id_width(shown.clone().map(|touch| &touch.entry));
    for touch in shown {
        let entry = &touch.entry;
        let badge = output::badge(entry);
        let id = output::pad(output::short_id(entry), ids);
        let title = output::pad(&touch.title, room);
        let when = output::ago(touch.ended_at, &context.now);
        writeln!(out, "   {badge} {DIM}{id}{DIM:#}  {title}  {when}")?;
    }
    let more = file.sessions.len().saturating_sub(SESSIONS);
    if more > 0 {
        writeln!(out, "   {DIM}and {}{DIM:#}", output::count(more as u64, "session"))?;
    }
    Ok(())
}

/// Says how a file was touched.
pub(crate) fn touched(touches: Touches) -> String {
    let Touches { viewed, edited, created } = touches;
    let all = [
        (edited, output::count(edited, "edit")),
        (created, format!("created {created}×")),
        (viewed, format!("viewed {viewed}×")),
    ];
    let told: Vec<String> =
        all.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text).collect();
    if told.is_empty() { "listed".to_owned() } else { told.join(", ") }
}
