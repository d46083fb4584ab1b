//! `aj index`: read everything new, once or as it comes.

mod service;
mod watch;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use agent_journal::search::{Filter, Scope};
use agent_journal::{Journal, SyncReport};
use anyhow::Result;
use serde_json::json;

use crate::context::{Context, warn_of_unsettled};
use crate::error::{FOUND, warn};
use crate::output;
use service::Install;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj index                            read what is new
  aj index --full                     read everything again and make the index anew
  aj index --watch                    keep reading as agents write, until Ctrl-C
  aj index --install-service          print a service that does so from login on
  aj index --install-service=write    install it")]
pub(crate) struct Args {
    /// Read everything again and make the index anew
    #[arg(long)]
    full: bool,

    /// Keep reading as agents write
    #[arg(long, conflicts_with = "full")]
    watch: bool,

    /// Print a service that watches from login on, or install it
    #[arg(
        long,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "print",
        conflicts_with_all = ["full", "watch"]
    )]
    install_service: Option<Install>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    if let Some(install) = args.install_service {
        return service::run(install, context);
    }
    if args.watch {
        return watch::run(context);
    }
    let started = Instant::now();
    let mut journal = context.journal()?;
    let report = Context::index(&mut journal, args.full)?;
    tell_failures(&report);
    warn_of_unsettled(&report);
    warn_of_absent_places(&journal);
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
                "pending": { "sources": report.pending_sources, "bytes": report.pending_bytes },
                "meaning": coverage,
                "took_ms": took.as_millis() as u64,
            }),
        )?;
    } else if report.sources == 0 && report.pending_sources == 0 {
        let all = Filter { scope: Scope::All, ..Filter::default() };
        let is_empty = journal.count(&all)? == 0;
        let none = "no agent history found; `aj sources --all` lists the scanned directories";
        writeln!(anstream::stdout(), "{}", if is_empty { none } else { "up to date" })?;
    } else {
        let size = output::bytes(report.bytes);
        let sources = output::count(report.sources, "source");
        writeln!(anstream::stdout(), "read {sources} ({size}) in {:.1} s", took.as_secs_f64())?;
    }
    Ok(if report.failures.is_empty() { FOUND } else { ExitCode::from(2) })
}

/// Names the places that the user configured and that are not there.
fn warn_of_absent_places(journal: &Journal) {
    for path in journal.absent_places() {
        let path = path.display();
        warn(&format!("{path} is not there; [storage.sources] or a variable names it"));
    }
}

fn tell_failures(report: &SyncReport) {
    for (path, reason) in &report.failures {
        warn(&format!("could not read {path}: {}", output::cause(path, reason)));
    }
}
