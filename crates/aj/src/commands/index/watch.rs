//! `aj index --watch`: reads new data as agents write it.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use agent_journal::{StopWatch, SyncOptions, SyncReport, WatchOptions};
use anyhow::{Context as _, Result};
use jiff::Zoned;
use serde_json::json;

use crate::context::CommandContext;
use crate::error::{FOUND, causes_on_one_line, print_remark, print_warning};
use crate::output;

/// Time that a round waits for another writer. If it times out, the next round scans everything.
const WAIT: Duration = Duration::from_mins(1);

/// The pause after a failed round, and the longest pause after several failures in a row.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(super) fn run_watch(context: &CommandContext) -> Result<ExitCode> {
    let mut journal = context.open_journal_only()?;
    let mut watch = journal.start_watch(WatchOptions::default());
    end_on_signal(watch.stopper())?;
    print_remark("watching; press Ctrl-C to stop");
    let (mut limit, mut failures) = (None, BTreeSet::new());
    let mut pause = FIRST_PAUSE;
    while let Some(changes) = journal.wait_for_changes(&mut watch)? {
        if watch.limit() != limit.as_deref() {
            limit = watch.limit().map(str::to_owned);
            if let Some(limit) = &limit {
                print_warning(&format!("{limit}: some changes are noticed up to 30 seconds late"));
            }
        }
        let started = Instant::now();
        let options = SyncOptions { wait: Some(WAIT), ..SyncOptions::default() };
        let report = match journal.sync_changes(&changes, options, &mut |_| {}) {
            // Temporary failures, such as a full disk, are retried.
            Err(error) if !error.is_lasting() && !error.is_write_refused() => {
                if pause == FIRST_PAUSE {
                    let error = causes_on_one_line(&error.into());
                    print_warning(&format!("could not record new sessions: {error}; retrying"));
                }
                watch.retry_after(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            report => report?,
        };
        pause = FIRST_PAUSE;
        watch.note_read(report.read_bytes);
        if report.busy || !report.unsettled.is_empty() {
            watch.note_missed_changes();
        }
        // Each failure is reported once, not in every round.
        for (path, reason) in &report.failures {
            if failures.insert((path.clone(), reason.clone())) {
                print_warning(&format!("could not read {path}: {reason}"));
            }
        }
        if report.sources > 0 {
            print_sync_report(&report, started.elapsed(), context)?;
        }
    }
    Ok(FOUND)
}

fn print_sync_report(report: &SyncReport, took: Duration, context: &CommandContext) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if context.json {
        let line = json!({
            "schema": "aj.watch/1",
            "at": Zoned::now().timestamp().to_string(),
            "sources": report.sources,
            "bytes": report.bytes,
            "failures": report.failures,
            "took_ms": took.as_millis() as u64,
        });
        writeln!(out, "{line}")?;
    } else {
        let sources = output::count(report.sources, "source");
        let time = Zoned::now().strftime("%H:%M:%S");
        let size = output::bytes(report.bytes);
        writeln!(out, "{time}  {sources} ({size}) in {} ms", took.as_millis())?;
    }
    Ok(out.flush()?)
}

/// Stops the watch on a signal of the user or the system, between two rounds, so that no round is
/// interrupted.
fn end_on_signal(stop: StopWatch) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.context("could not wait for signals")?;
    // The handlers are installed before the first round, so that no signal comes too early.
    let asked = {
        let _inside = runtime.enter();
        interrupt_requested()?
    };
    std::thread::spawn(move || {
        runtime.block_on(asked);
        stop.stop();
    });
    Ok(())
}

#[cfg(unix)]
fn interrupt_requested() -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn interrupt_requested() -> Result<impl Future<Output = ()>> {
    Ok(async {
        // Without a signal handler only a kill ends the process, which loses no data either.
        let _ = tokio::signal::ctrl_c().await;
    })
}
