//! Syncs the journal on a background thread.

use std::time::{Duration, Instant};

use agent_journal::{Progress, SyncOptions};
use anyhow::Result;

use super::state::SyncProgress;
use super::worker::{Door, error_on_one_line};

/// Minimum interval between progress reports.
const OFTEN: Duration = Duration::from_millis(100);

/// Starts a sync and reports its progress. The last report is the result.
pub(super) fn sync_and_report(
    door: Door,
    report_progress: impl Fn(SyncProgress) + Send + 'static,
) -> Result<()> {
    std::thread::Builder::new().name("sync".to_owned()).spawn(move || {
        let last = apply_pending_changes(&door, &report_progress);
        report_progress(
            last.unwrap_or_else(|error| SyncProgress::Failed(error_on_one_line(error))),
        );
    })?;
    Ok(())
}

fn apply_pending_changes(
    door: &Door,
    report_progress: &impl Fn(SyncProgress),
) -> Result<SyncProgress> {
    let mut journal = door.open_journal()?;
    let (mut done, mut of) = (0, 0);
    let mut reported_at: Option<Instant> = None;
    let report = journal.sync(SyncOptions::default(), &mut |progress| {
        match progress {
            Progress::Found { bytes, .. } => of = bytes,
            Progress::Read { bytes } => done += bytes,
            _ => return,
        }
        if reported_at.is_none_or(|at| at.elapsed() > OFTEN) {
            reported_at = Some(Instant::now());
            report_progress(SyncProgress::Reading { bytes: done, of });
        }
    })?;
    if report.busy {
        return Ok(SyncProgress::Busy);
    }
    Ok(match report.failures.as_slice() {
        [] => SyncProgress::UpToDate,
        [(path, reason), ..] => SyncProgress::Failed(format!("could not read {path}: {reason}")),
    })
}
