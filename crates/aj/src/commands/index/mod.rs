//! `aj index`: reads everything new, once or continuously.

mod service;
mod watch;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use agent_journal::search::{Filter, Scope};
use agent_journal::{Journal, SyncReport};
use anyhow::Result;
use serde_json::json;

use crate::context::{CommandContext, warn_of_unsettled};
use crate::error::{FOUND, print_warning};
use crate::output;
use service::Install;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj index                            read new sessions
  aj index --full                     read everything again and rebuild the index
  aj index --watch                    keep reading new sessions until Ctrl-C
  aj index --install-service          print a service file that does so from login on
  aj index --install-service=write    install the service file")]
pub(crate) struct IndexArgs {
    /// Read everything again and rebuild the index
    #[arg(long)]
    full: bool,

    /// Keep reading new sessions until interrupted
    #[arg(long, conflicts_with = "full")]
    watch: bool,

    /// Print or install a service that watches from login on
    #[arg(
        long,
        value_name = "ACTION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "print",
        conflicts_with_all = ["full", "watch"]
    )]
    install_service: Option<Install>,
}

impl IndexArgs {
    /// Returns whether the command runs until it is interrupted.
    pub(crate) fn is_endless(&self) -> bool {
        self.watch
    }
}

pub(crate) fn run_index(args: &IndexArgs, context: &CommandContext) -> Result<ExitCode> {
    if let Some(install) = args.install_service {
        return service::run_service(install, context);
    }
    if args.watch {
        return watch::run_watch(context);
    }
    let started = Instant::now();
    let mut journal = context.open_journal_only()?;
    let report = CommandContext::index_everything(&mut journal, args.full)?;
    print_failures(&report);
    warn_of_unsettled(&report);
    warn_of_absent_places(&journal);
    if report.busy {
        anyhow::bail!("another aj process is still writing the journal; nothing was read");
    }
    let took = started.elapsed();
    let coverage = journal.semantic_coverage()?;
    if let Some(problem) = &coverage.problem {
        print_warning(problem);
    }
    if context.json {
        output::json::print_document(
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
        let is_empty = journal.count_sessions(&all)? == 0;
        let none = "no agent history found; `aj sources --all` lists the scanned directories";
        writeln!(anstream::stdout(), "{}", if is_empty { none } else { "up to date" })?;
    } else {
        let size = output::bytes(report.bytes);
        let sources = output::count(report.sources, "source");
        writeln!(anstream::stdout(), "read {sources} ({size}) in {:.1} s", took.as_secs_f64())?;
    }
    Ok(if report.failures.is_empty() { FOUND } else { ExitCode::from(2) })
}

/// Warns of configured directories that do not exist.
fn warn_of_absent_places(journal: &Journal) {
    for path in journal.absent_places() {
        let path = path.display();
        print_warning(&format!(
            "{path} does not exist; check [storage.sources] and environment variables"
        ));
    }
}

fn print_failures(report: &SyncReport) {
    for (path, reason) in &report.failures {
        print_warning(&format!("could not read {path}: {}", output::failure_cause(path, reason)));
    }
}
