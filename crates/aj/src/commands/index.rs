//! `aj index`: read everything new.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use serde_json::json;

use crate::context::Context;
use crate::error::{FOUND, warn};
use crate::output;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj index           read what is new
  aj index --full    read everything again and make the index anew")]
pub(crate) struct Args {
    /// Read everything again and make the index anew
    #[arg(long)]
    full: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let started = Instant::now();
    let mut journal = context.journal()?;
    let report = Context::index(&mut journal, args.full)?;
    for (path, reason) in &report.failures {
        warn(&format!("could not read {path}: {reason}"));
    }
    if report.busy {
        anyhow::bail!("another aj is still writing the journal; nothing was read");
    }
    let took = started.elapsed();
    let coverage = journal.coverage()?;
    if let Some(problem) = &coverage.problem {
        warn(problem);
    }
    if context.json {
        output::json::print(
            "index",
            json!({
                "sources": report.sources,
                "bytes": report.bytes,
                "failures": report.failures,
                "meaning": coverage,
                "took_ms": took.as_millis() as u64,
            }),
        )?;
    } else if report.sources == 0 {
        writeln!(anstream::stdout(), "up to date")?;
    } else {
        let size = output::bytes(report.bytes);
        let sources = output::count(report.sources, "source");
        writeln!(anstream::stdout(), "read {sources} ({size}) in {:.1} s", took.as_secs_f64())?;
    }
    Ok(if report.failures.is_empty() { FOUND } else { ExitCode::from(2) })
}
