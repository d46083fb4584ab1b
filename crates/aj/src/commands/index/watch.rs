//! `aj index --watch`: read what agents write, as they write it.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use agent_journal::{StopWatch, SyncOptions, SyncReport, WatchOptions};
use anyhow::{Context as _, Result};
use jiff::Zoned;
use serde_json::json;

use crate::context::Context;
use crate::error::{FOUND, one_line, remark, warn};
use crate::output;

/// How long a round waits for another writer; after that the next one looks at everything.
const WAIT: Duration = Duration::from_mins(1);

/// The pause after a failed round, and the longest one after many in a row.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(super) fn run(context: &Context) -> Result<ExitCode> {
    let mut journal = context.journal()?;
    let mut watch = journal.watch(WatchOptions::default());
    end_on_signal(watch.stopper())?;
    remark("watching; Ctrl-C ends it");
    let (mut limit, mut failures) = (None, BTreeSet::new());
    let mut pause = FIRST_PAUSE;
    while let Some(changes) = journal.wait(&mut watch)? {
        if watch.limit() != limit.as_deref() {
            limit = watch.limit().map(str::to_owned);
            if let Some(limit) = &limit {
                warn(&format!("{limit}: some changes are noticed half a minute late"));
            }
        }
        let started = Instant::now();
        let options = SyncOptions { wait: Some(WAIT), ..SyncOptions::default() };
        let report = match journal.sync_changes(&changes, options, &mut |_| {}) {
            // A disk that is full now has space later.
            Err(error) if !error.is_lasting() && !error.is_refused() => {
                if pause == FIRST_PAUSE {
                    let error = one_line(&error.into());
                    warn(&format!("could not record new sessions: {error}; trying again"));
                }
                watch.retry_after(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            report => report?,
        };
        pause = FIRST_PAUSE;
        if report.busy || !report.unsettled.is_empty() {
            watch.missed();
        }
        // What cannot be read is said once, not in every round.
        for (path, reason) in &report.failures {
            if failures.insert((path.clone(), reason.clone())) {
                warn(&format!("could not read {path}: {reason}"));
            }
        }
        if report.sources > 0 {
            tell(&report, started.elapsed(), context)?;
        }
    }
    Ok(FOUND)
}

fn tell(report: &SyncReport, took: Duration, context: &Context) -> Result<()> {
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

/// Ends the watch when the user or the system asks for it: between two rounds, so that none is
/// left half done.
fn end_on_signal(stop: StopWatch) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.context("could not wait for signals")?;
    // Asked for before the first round, so that no signal comes too early.
    let asked = {
        let _inside = runtime.enter();
        asked()?
    };
    std::thread::spawn(move || {
        runtime.block_on(asked);
        stop.stop();
    });
    Ok(())
}

#[cfg(unix)]
fn asked() -> Result<impl Future<Output = ()>> {
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
fn asked() -> Result<impl Future<Output = ()>> {
    Ok(async {
        // Without signals only a kill ends it, which loses nothing either.
        let _ = tokio::signal::ctrl_c().await;
    })
}
