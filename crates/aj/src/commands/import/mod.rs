//! `aj import`: imports sessions that another journal exported, and conversations of web chats.

mod archive;

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent_journal::{ImportReport, ImportSource, Journal, Progress};
use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::context::{CommandContext, WAIT};
use crate::error::{FOUND, print_warning, report_error};
use crate::output::file::open_decompressed;
use crate::output::{self, count};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj import all.ndjson.zst     a backup, or the sessions of another machine
  aj import session.json       a session that a colleague exported
  aj import data-export.zip    the chats in an export of claude.ai or ChatGPT
  ssh box aj export --all -f ndjson -o - | aj import -")]
pub(crate) struct ImportArgs {
    /// JSON or ndjson exports, optionally compressed; exports of claude.ai or ChatGPT; - for
    /// standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

pub(crate) fn run_import(args: &ImportArgs, context: &CommandContext) -> Result<ExitCode> {
    let mut journal = context.open_journal_only()?;
    let mut arrived = Vec::new();
    let mut code = FOUND;
    for path in &args.files {
        match import_path(&mut journal, path) {
            Ok(arrival) => {
                if !context.json {
                    print_import_report(path, &arrival)?;
                }
                if let Some(reason) = &arrival.index_error {
                    print_warning(&format!("could not make the sessions findable: {reason}"));
                }
                arrived.push((path.display().to_string(), arrival));
            }
            // A bad file does not stop the import of the others.
            Err(failure) => code = report_error(&failure),
        }
    }
    if context.json {
        let files: Vec<_> = arrived
            .iter()
            .map(|(path, arrival)| json!({ "path": path, "imported": arrival }))
            .collect();
        output::json::print_document("import", json!({ "files": files }))?;
    }
    Ok(code)
}

fn import_path(journal: &mut Journal, path: &Path) -> Result<ImportReport> {
    let attempt = || format!("could not read {}", path.display());
    let is_stdin = path == Path::new("-");
    let file = if is_stdin { spool_stdin()? } else { File::open(path).with_context(attempt)? };
    let name =
        if is_stdin { path.to_owned() } else { path.canonicalize().with_context(attempt)? };
    let bar = import_progress(file.metadata().with_context(attempt)?.len());
    let open = || -> io::Result<Box<dyn Read>> {
        let mut file = file.try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        bar.set_position(0);
        let mut input = BufReader::new(bar.wrap_read(file.try_clone()?));
        if archive::is_archive(input.fill_buf()?) {
            return archive::open_conversations(file);
        }
        open_decompressed(input)
    };
    let arriving = ImportSource { path: &name, open: &open };
    let arrival = journal.import_file(&arriving, WAIT, &mut |news| match news {
        Progress::Waiting => print_warning("another aj process is writing the journal; waiting"),
        Progress::Rebuilding => bar.set_message("indexing"),
        _ => {}
    });
    bar.finish_and_clear();
    Ok(arrival?)
}

/// Copies standard input to a temporary file, because an import is read twice.
fn spool_stdin() -> Result<File> {
    let mut file = tempfile::tempfile().context("could not create a temporary file")?;
    io::copy(&mut io::stdin().lock(), &mut file).context("could not read standard input")?;
    Ok(file)
}

fn import_progress(bytes: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    let style = "{bar:32} {binary_bytes:>11} of {binary_total_bytes}  {msg}";
    bar.set_style(ProgressStyle::with_template(style).expect("the template is a constant"));
    bar
}

fn print_import_report(path: &Path, arrival: &ImportReport) -> Result<()> {
    let ImportReport { sessions, new, kept, messages, unread, .. } = *arrival;
    let mut line = format!("{}, {new} new", count(sessions, "session"));
    if kept > 0 {
        line.push_str(&format!(", {kept} already complete"));
    }
    if unread > 0 {
        line.push_str(&format!(", {} not understood", count(unread, "conversation")));
    }
    let messages = count(messages, "message");
    writeln!(anstream::stdout(), "{}: {line} ({messages})", path.display())?;
    Ok(())
}
