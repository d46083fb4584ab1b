//! The history that a fork refers to instead of repeating it.
//!
//! Since 0.166 a fork's file holds only what follows: its `session_meta` names the thread it goes
//! on from and how far. That part of the other thread's file is told as the fork's beginning, with
//! the ids and calls it has there, so that nothing of it counts twice.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::line::HistoryBase;
use super::reader::Reader;
use super::usage::uuid_millis;
use super::{FOLDERS, Name};
use crate::connectors::formats::json::Text;
use crate::connectors::formats::jsonl::{End, Lines};
use crate::error::{Error, Result};
use crate::model::{Continuation, Timestamp};

/// A chain of forks longer than this is no chain.
const MAX_FORKS: usize = 64;

/// The clock of the machine may be this far from UTC: files lie in folders of local days.
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

impl Reader<'_> {
    /// Tells the part of another thread that this one goes on from. A file that cannot be read
    /// leaves the fork to begin where it does.
    pub(super) fn take_history(&mut self, base: &HistoryBase<'_>) -> Result<()> {
        let Some(thread) = base.thread_id.as_ref().map(Text::as_str) else { return Ok(()) };
        if self.forks.len() == MAX_FORKS || self.forks.iter().any(|known| known == thread) {
            return Ok(());
        }
        let Some(path) = find(&self.path, thread) else { return Ok(()) };
        let Ok(mut lines) = open(&path) else { return Ok(()) };
        let (name, offset) = (std::mem::replace(&mut self.name, Name::of(&path)), self.offset);
        self.forks.push(thread.to_owned());
        // What is wrong with that file is its own affair.
        while let Ok(Some(line)) = lines.next() {
            if line.end == End::File || !base.covers(line.offset, line.bytes) {
                break;
            }
            self.line(&line)?;
        }
        self.close()?;
        self.forks.pop();
        (self.name, self.offset) = (name, offset);
        if self.forks.is_empty() {
            self.state.threads.return_to_own();
        }
        Ok(())
    }

    /// Notes that what was told so far is another session's.
    pub(super) fn note_shared(&mut self) {
        let is_copy = !self.forks.is_empty() || self.state.threads.is_replay();
        if is_copy
            && !self.state.has_own
            && let Some(origin) = &self.state.origin
        {
            let messages = self.told;
            self.session.continues = Some(Continuation { session: origin.clone(), messages });
        } else if !is_copy {
            self.state.has_own = true;
        }
    }
}

impl HistoryBase<'_> {
    /// Whether a line of the other thread's file is part of the history.
    fn covers(&self, offset: u64, line: &[u8]) -> bool {
        #[derive(Deserialize)]
        struct Numbered {
            ordinal: Option<u64>,
        }
        if let Some(end) = self.end_byte_offset {
            return offset < end;
        }
        let Some(end) = self.end_ordinal_exclusive else { return false };
        let numbered = serde_json::from_slice::<Numbered>(line).ok();
        numbered.and_then(|line| line.ordinal).is_none_or(|ordinal| ordinal < end)
    }
}

/// Opens a rollout, compressed or not, at its beginning.
fn open(path: &Path) -> Result<Lines> {
    if path.extension().is_none_or(|ending| ending != "zst") {
        return Lines::open(path, 0);
    }
    let file = File::open(path).map_err(Error::read(path))?;
    let decoder: Box<dyn Read> = Box::new(zstd::Decoder::new(file).map_err(Error::read(path))?);
    Ok(Lines::over(decoder, path))
}

/// Finds the rollout of a thread: beside the file that names it, in the folder of the day that the
/// thread's id tells, or among the archived ones.
fn find(beside: &Path, thread: &str) -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> = beside.parent().map(Path::to_owned).into_iter().collect();
    let is_root = |folder: &&Path| FOLDERS.iter().any(|name| folder.ends_with(name));
    if let Some(home) = beside.ancestors().find(is_root).and_then(Path::parent) {
        let began = uuid_millis(thread);
        for shift in [0, -DAY_MILLIS, DAY_MILLIS] {
            let day = began.and_then(|began| Timestamp::from_millis(began + shift));
            let Some(day) = day.map(|day| day.to_string()) else { continue };
            let (year, month, day) = (day.get(..4)?, day.get(5..7)?, day.get(8..10)?);
            folders.push(home.join(FOLDERS[0]).join(year).join(month).join(day));
        }
        folders.push(home.join(FOLDERS[1]));
    }
    folders.iter().find_map(|folder| in_folder(folder, thread))
}

/// Finds the rollout of a thread in a folder; the plain file before a compressed one, the first
/// file of a thread before those that a revert began.
fn in_folder(folder: &Path, thread: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let of_thread = entries.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_log = name.ends_with(".jsonl") || name.ends_with(".jsonl.zst");
        is_log && name.contains(thread) && Name::of(path).thread == thread
    });
    of_thread.min_by_key(|path| (path.as_os_str().len(), path.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_found_by_the_day_in_its_id() {
        let home = tempfile::tempdir().unwrap();
        let touch = |name: &str| {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            File::create(&path).unwrap();
            path
        };
        // 2026-04-15T10:00:00Z.
        let thread = "019d9095-5900-7000-8000-000000000001";
        let fork = touch("sessions/2026/05/01/rollout-2026-05-01T09-00-00-fork.jsonl");
        assert_eq!(find(&fork, thread), None);
        let archived =
            touch(&format!("archived_sessions/rollout-2026-04-15T12-00-00-{thread}.jsonl.zst"));
        assert_eq!(find(&fork, thread), Some(archived));
        let plain =
            touch(&format!("sessions/2026/04/16/rollout-2026-04-16T00-00-00-{thread}.jsonl"));
        touch(&format!("sessions/2026/04/16/rollout-2026-04-16T00-00-00-{thread}_{thread}.jsonl"));
        assert_eq!(find(&fork, thread), Some(plain));
    }

    #[test]
    fn a_base_ends_at_a_byte_or_at_a_number() {
        let base: HistoryBase<'_> = serde_json::from_str(r#"{"end_byte_offset":10}"#).unwrap();
        assert!(base.covers(9, b"") && !base.covers(10, b""));
        let base: HistoryBase<'_> = serde_json::from_str(r#"{"end_ordinal_exclusive":3}"#).unwrap();
        assert!(base.covers(99, br#"{"ordinal":2}"#) && !base.covers(0, br#"{"ordinal":3}"#));
    }
}
