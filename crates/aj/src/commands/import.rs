//! `aj import`: take in sessions that left another journal.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent_journal::{Arrival, Arriving, Journal, Progress};
use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::context::{Context, WAIT};
use crate::error::{FOUND, report, warn};
use crate::output::file::unpacked;
use crate::output::{self, count};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj import all.ndjson.zst     a backup, or another machine's history
  aj import session.json       what a colleague sent
  ssh box aj export --all -f ndjson -o - | aj import -")]
pub(crate) struct Args {
    /// Exported JSON or ndjson, packed or not; - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let mut journal = context.journal()?;
    let mut arrived = Vec::new();
    let mut code = FOUND;
    for path in &args.files {
        match import(&mut journal, path) {
            Ok(arrival) => {
                if !context.json {
                    tell(path, &arrival)?;
                }
                arrived.push((path.display().to_string(), arrival));
            }
            // One bad file keeps the others from nothing.
            Err(failure) => code = report(&failure),
        }
    }
    if context.json {
        let files: Vec<_> = arrived
            .iter()
            .map(|(path, arrival)| json!({ "path": path, "imported": arrival }))
            .collect();
        output::json::print("import", json!({ "files": files }))?;
    }
    Ok(code)
}

fn import(journal: &mut Journal, path: &Path) -> Result<Arrival> {
    let attempt = || format!("could not read {}", path.display());
    let is_stdin = path == Path::new("-");
    let file = if is_stdin { spooled()? } else { File::open(path).with_context(attempt)? };
    let name =
        if is_stdin { path.to_owned() } else { path.canonicalize().with_context(attempt)? };
    let bar = progress(file.metadata().with_context(attempt)?.len());
    let open = || -> io::Result<Box<dyn Read>> {
        let mut file = file.try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        bar.set_position(0);
        unpacked(BufReader::new(Box::new(bar.wrap_read(file))))
    };
    let arriving = Arriving { path: &name, open: &open };
    let arrival = journal.import(&arriving, WAIT, &mut |news| match news {
        Progress::Waiting => warn("another aj is writing the journal; waiting for it"),
        Progress::Rebuilding => bar.set_message("making it findable"),
        _ => {}
    });
    bar.finish_and_clear();
    Ok(arrival?)
}

/// What comes from standard input has to be read twice.
fn spooled() -> Result<File> {
    let mut file = tempfile::tempfile().context("could not make a temporary file")?;
    io::copy(&mut io::stdin().lock(), &mut file).context("could not read standard input")?;
    Ok(file)
}

fn progress(bytes: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    let style = "{bar:32} {binary_bytes:>11} of {binary_total_bytes}  {msg}";
    bar.set_style(ProgressStyle::with_template(style).expect("the template is a constant"));
    bar
}

fn tell(path: &Path, arrival: &Arrival) -> Result<()> {
    let Arrival { sessions, new, kept, messages } = *arrival;
    let mut line = format!("{}, {new} new", count(sessions, "session"));
    if kept > 0 {
        line.push_str(&format!(", {kept} known in full already"));
    }
    let messages = count(messages, "message");
    writeln!(anstream::stdout(), "{}: {line} ({messages})", path.display())?;
    Ok(())
}
