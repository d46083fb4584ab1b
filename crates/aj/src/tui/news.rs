//! Syncs the journal on a background thread.

use std::time::{Duration, Instant};

use agent_journal::{Progress, SyncOptions};
use anyhow::Result;

use super::state::SyncNews;
use super::worker::{Door, error_on_one_line};

/// Minimum interval between progress reports.
const OFTEN: Duration = Duration::from_millis(100);

/// Starts a sync and reports its progress. The last report is the result.
pub(super) fn sync_and_report(door: Door, tell: impl Fn(SyncNews) + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name("news".to_owned()).spawn(move || {
        let last = apply_pending_changes(&door, &tell);
        tell(last.unwrap_or_else(|error| SyncNews::Failed(error_on_one_line(error))));
    })?;
    Ok(())
}

fn apply_pending_changes(door: &Door, tell: &impl Fn(SyncNews)) -> Result<SyncNews> {
    let mut journal = door.open_journal()?;
    let (mut done, mut of) = (0, 0);
    let mut told: Option<Instant> = None;
    let report = journal.sync(SyncOptions::default(), &mut |progress| {
        match progress {
            Progress::Found { bytes, .. } => of = bytes,
            Progress::Read { bytes } => done += bytes,
            _ => return,
        }
        if told.is_none_or(|at| at.elapsed() > OFTEN) {
            told = Some(Instant::now());
            tell(SyncNews::Reading { bytes: done, of });
        }
    })?;
    if report.busy {
        return Ok(SyncNews::Busy);
    }
    Ok(match report.failures.as_slice() {
        [] => SyncNews::UpToDate,
        [(path, reason), ..] => SyncNews::Failed(format!("could not read {path}: {reason}")),
    })
}
