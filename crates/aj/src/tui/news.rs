//! The look for news, on a thread of its own beside everything else.

use std::time::{Duration, Instant};

use agent_journal::{Progress, SyncOptions};
use anyhow::Result;

use super::state::News;
use super::worker::{Door, said};

/// How often progress is told.
const OFTEN: Duration = Duration::from_millis(100);

/// Folds in what is new and tells how it goes; the last word is that it is done, or why not.
pub(super) fn look(door: Door, tell: impl Fn(News) + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name("news".to_owned()).spawn(move || {
        let last = fold(&door, &tell);
        tell(last.unwrap_or_else(|error| News::Failed(said(error))));
    })?;
    Ok(())
}

fn fold(door: &Door, tell: &impl Fn(News)) -> Result<News> {
    let mut journal = door.open()?;
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
            tell(News::Reading { bytes: done, of });
        }
    })?;
    if report.busy {
        return Ok(News::Busy);
    }
    Ok(match report.failures.as_slice() {
        [] => News::UpToDate,
        [(path, reason), ..] => News::Failed(format!("could not read {path}: {reason}")),
    })
}
