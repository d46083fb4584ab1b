//! The history that a fork refers to instead of repeating it.
//!
//! Since 0.166 a fork's file holds only what follows the fork: its `session_meta` names the thread
//! that it continues and the end of the shared part. That part of the other thread's file is
//! emitted as the fork's beginning, with the ids and calls it has there, so that nothing counts
//! twice.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::line::HistoryBase;
use super::reader::RolloutReader;
use super::usage::uuid_millis;
use super::{FOLDERS, RolloutFileName};
use crate::connectors::formats::files;
use crate::connectors::formats::json::BorrowedText;
use crate::connectors::formats::jsonl::{End, LineReader};
use crate::error::Result;
use crate::model::{Continuation, Timestamp};

/// Maximum length of a chain of forks.
const MAX_FORKS: usize = 64;

/// Maximum distance of the machine's clock from UTC: directories are named after local days.
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

impl RolloutReader<'_> {
    /// Reads the part of another thread that this one continues. If that file cannot be read, the
    /// fork begins with its own records.
    pub(super) fn take_history(&mut self, base: &HistoryBase<'_>) -> Result<()> {
        let Some(thread) = base.thread_id.as_ref().map(BorrowedText::as_borrowed_str) else {
            return Ok(());
        };
        if self.forks.len() == MAX_FORKS || self.forks.iter().any(|known| known == thread) {
            return Ok(());
        }
        let Some(path) = find_rollout_of_thread(&self.path, thread) else { return Ok(()) };
        let Ok(mut lines) = open_rollout(&path) else { return Ok(()) };
        let (name, offset) = (
            std::mem::replace(&mut self.name, RolloutFileName::parse_rollout_name(&path)),
            self.offset,
        );
        self.forks.push(thread.to_owned());
        // Errors in that file are reported when it is read itself.
        while let Ok(Some(line)) = lines.next_line() {
            if line.end == End::File || !base.covers_line(line.offset, line.bytes) {
                break;
            }
            self.read_rollout_line(&line)?;
        }
        self.close_answer()?;
        self.forks.pop();
        (self.name, self.offset) = (name, offset);
        if self.forks.is_empty() {
            self.state.threads.return_to_own();
        }
        Ok(())
    }

    /// Updates how many of the messages emitted so far belong to another session.
    pub(super) fn note_shared(&mut self) {
        let is_copy = !self.forks.is_empty() || self.state.threads.is_replay();
        if is_copy
            && !self.state.has_own
            && let Some(origin) = &self.state.origin
        {
            let messages = self.emitted;
            self.session.continues = Some(Continuation { session: origin.clone(), messages });
        } else if !is_copy {
            self.state.has_own = true;
        }
    }
}

impl HistoryBase<'_> {
    /// Returns whether a line of the other thread's file is part of the history.
    fn covers_line(&self, offset: u64, line: &[u8]) -> bool {
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
fn open_rollout(path: &Path) -> Result<LineReader> {
    if path.extension().is_none_or(|ending| ending != "zst") {
        return LineReader::open_at(path, 0);
    }
    LineReader::open_compressed(path)
}

/// Finds the rollout of a thread: in the directory of the file that names it, in the directory of
/// the day encoded in the thread's id, or among the archived ones.
fn find_rollout_of_thread(beside: &Path, thread: &str) -> Option<PathBuf> {
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

/// Finds the rollout of a thread in a directory. An uncompressed file takes precedence over a
/// compressed one, and a thread's first file over those that a revert started.
fn in_folder(folder: &Path, thread: &str) -> Option<PathBuf> {
    let entries = files::directory_entries(folder).ok()?.into_iter();
    let of_thread = entries.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_log = name.ends_with(".jsonl") || name.ends_with(".jsonl.zst");
        is_log
            && name.contains(thread)
            && RolloutFileName::parse_rollout_name(path).thread == thread
    });
    of_thread.min_by_key(|path| (path.as_os_str().len(), path.clone()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

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
        assert_eq!(find_rollout_of_thread(&fork, thread), None);
        let archived =
            touch(&format!("archived_sessions/rollout-2026-04-15T12-00-00-{thread}.jsonl.zst"));
        assert_eq!(find_rollout_of_thread(&fork, thread), Some(archived));
        let plain =
            touch(&format!("sessions/2026/04/16/rollout-2026-04-16T00-00-00-{thread}.jsonl"));
        touch(&format!("sessions/2026/04/16/rollout-2026-04-16T00-00-00-{thread}_{thread}.jsonl"));
        assert_eq!(find_rollout_of_thread(&fork, thread), Some(plain));
    }

    #[test]
    fn a_base_ends_at_a_byte_or_at_a_number() {
        let base: HistoryBase<'_> = serde_json::from_str(r#"{"end_byte_offset":10}"#).unwrap();
        assert!(base.covers_line(9, b"") && !base.covers_line(10, b""));
        let base: HistoryBase<'_> = serde_json::from_str(r#"{"end_ordinal_exclusive":3}"#).unwrap();
        assert!(
            base.covers_line(99, br#"{"ordinal":2}"#) && !base.covers_line(0, br#"{"ordinal":3}"#)
        );
    }
}
