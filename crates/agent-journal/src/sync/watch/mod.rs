//! Watches the agents' files. Collects the events of the system until a burst is over. A slow
//! periodic scan finds changes without events.

mod pace;

pub use pace::{Changes, WatchOptions};

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use notify::{ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use crate::error::Result;
use crate::model::Stamp;
use pace::Pace;

/// Waits for changes of the agents' files.
pub struct Watch {
    /// `None` if the system does not support watching.
    watcher: Option<RecommendedWatcher>,
    signals: Receiver<Signal>,
    sender: Sender<Signal>,
    armed: Armed,
    pace: Pace,
    limit: Option<String>,
    /// The last changes that were returned, and the time of that.
    handed: Option<(Changes, Instant)>,
    /// Size of the data that was read for these changes, in bytes.
    read_bytes: u64,
}

/// A handle that stops a watch from any thread.
#[derive(Clone)]
pub struct StopWatch(Sender<Signal>);

/// A directory to watch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WatchDir {
    pub(crate) path: PathBuf,
    /// Whether its subdirectories are watched too.
    pub(crate) is_deep: bool,
}

/// The directories that are being watched.
#[derive(Default)]
struct Armed {
    /// Watched directories: whether recursively, and their inode.
    watch_dirs: BTreeMap<PathBuf, (bool, u64)>,
    /// Directories to watch that do not exist yet.
    missing: BTreeSet<PathBuf>,
    /// Directories that were created in watched ones.
    new: BTreeSet<PathBuf>,
}

enum Signal {
    Changed(Vec<PathBuf>),
    /// The system lost events.
    Lost,
    Stop,
}

impl Watch {
    pub(crate) fn new(options: WatchOptions) -> Self {
        let (sender, signals) = channel();
        let from_system = sender.clone();
        let watcher = notify::recommended_watcher(move |event| {
            if let Some(signal) = signal(event) {
                // The watch may have ended.
                let _ = from_system.send(signal);
            }
        });
        let limit = watcher.as_ref().err().map(reason);
        let mut pace = Pace::new(options, Instant::now());
        pace.is_blind = limit.is_some();
        let watcher = watcher.ok();
        Self {
            watcher,
            signals,
            sender,
            armed: Armed::default(),
            pace,
            limit,
            handed: None,
            read_bytes: 0,
        }
    }

    /// Returns a handle that stops this watch.
    pub fn stopper(&self) -> StopWatch {
        StopWatch(self.sender.clone())
    }

    /// Returns the reason why the system does not report all changes. In that case full scans are
    /// more frequent.
    pub fn limit(&self) -> Option<&str> {
        self.limit.as_deref()
    }

    /// Notes how much data was read for the last changes, in bytes. The pause before the next scan
    /// grows with it, so that a large database that changes all the time is not read all the time.
    pub fn note_read(&mut self, bytes: u64) {
        self.read_bytes += bytes;
    }

    /// Notes that the last changes could not be applied. A full scan follows soon.
    pub fn note_missed_changes(&mut self) {
        self.pace.lose(Instant::now());
    }

    /// Notes that the last changes could not be recorded. A full scan follows after a pause.
    pub fn retry_after(&mut self, pause: Duration) {
        let now = Instant::now();
        self.handed = None;
        self.pace.lose(now);
        self.pace.rest(pause, now);
    }

    /// Waits for changes. Returns `None` if the watch was stopped. `watch_dirs` returns the directories
    /// to watch, the most important first; it is called whenever they may have changed.
    pub(crate) fn wait(
        &mut self,
        watch_dirs: &dyn Fn() -> Result<Vec<WatchDir>>,
    ) -> Result<Option<Changes>> {
        if let Some((changes, handed)) = self.handed.take() {
            let now = Instant::now();
            self.pace.worked(now - handed, std::mem::take(&mut self.read_bytes), now);
            // A full scan may have found more directories to watch, which may have changed since.
            if changes == Changes::Everything {
                let found = self.arm(watch_dirs()?);
                if !found.is_empty() {
                    self.pace.note(found, now);
                }
            }
        }
        loop {
            let now = Instant::now();
            if let Some(changes) = self.pace.take(now) {
                if changes == Changes::Everything {
                    self.arm(watch_dirs()?);
                }
                self.handed = Some((changes.clone(), Instant::now()));
                return Ok(Some(changes));
            }
            match self.signals.recv_timeout(self.pace.due() - now) {
                Ok(Signal::Changed(paths)) => self.changed(paths),
                Ok(Signal::Lost) => self.pace.lose(Instant::now()),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    fn changed(&mut self, paths: Vec<PathBuf>) {
        let now = Instant::now();
        for path in &paths {
            // A watched directory was created or deleted, so the directories to watch must be
            // determined again.
            if self.armed.is_edge(path) {
                self.pace.lose(now);
            } else if path.is_dir() && !self.armed.watch_dirs.contains_key(path) {
                self.enter(path);
            }
        }
        self.pace.note(paths, now);
    }

    /// Watches a directory that was created in a watched one, because files may be added to it
    /// later.
    fn enter(&mut self, path: &Path) {
        let Some(watcher) = &mut self.watcher else { return };
        match watcher.watch(path, RecursiveMode::Recursive) {
            Ok(()) => drop(self.armed.new.insert(path.to_owned())),
            Err(error) => self.limit_to(Some(reason(&error))),
        }
    }

    /// Watches exactly these directories, up to the limit of the system. Returns those that were
    /// not watched before.
    fn arm(&mut self, watch_dirs: Vec<WatchDir>) -> Vec<PathBuf> {
        let Some(watcher) = &mut self.watcher else { return Vec::new() };
        let mut before = std::mem::take(&mut self.armed);
        self.armed.new = std::mem::take(&mut before.new);
        self.armed.new.retain(|path| path.is_dir());
        let wanted = self.armed.missing_of(watch_dirs);
        let kept: HashSet<&PathBuf> = wanted.iter().map(|(dir, _)| &dir.path).collect();
        for path in before.watch_dirs.keys().filter(|path| !kept.contains(path)) {
            // It may no longer exist.
            let _ = watcher.unwatch(path);
        }
        let (mut limit, mut found) = (None, Vec::new());
        for (WatchDir { path, is_deep }, inode) in wanted {
            if before.watch_dirs.get(&path) != Some(&(is_deep, inode)) {
                let mode =
                    if is_deep { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
                if let Err(error) = watcher.watch(&path, mode) {
                    limit = Some(reason(&error));
                    if matches!(error.kind, ErrorKind::MaxFilesWatch) {
                        break;
                    }
                    continue;
                }
                found.push(path.clone());
            }
            self.armed.watch_dirs.insert(path, (is_deep, inode));
        }
        self.limit_to(limit);
        found
    }

    fn limit_to(&mut self, limit: Option<String>) {
        self.pace.is_blind = limit.is_some();
        self.limit = limit;
    }
}

impl Armed {
    /// Returns whether a change of this path may change the directories to watch.
    fn is_edge(&self, path: &Path) -> bool {
        let came = self.missing.iter().any(|missing| missing.starts_with(path));
        came || (self.watch_dirs.contains_key(path) && !path.is_dir())
    }

    /// Finds the directories to watch that exist, and notes those that are missing.
    fn missing_of(&mut self, watch_dirs: Vec<WatchDir>) -> Vec<(WatchDir, u64)> {
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        for dir in watch_dirs {
            let place = nearest(&dir);
            if place.path != dir.path {
                self.missing.insert(dir.path);
            }
            let is_new = self.new.iter().any(|new| place.path.starts_with(new));
            if is_new || !seen.insert(place.path.clone()) {
                continue;
            }
            let Ok(metadata) = std::fs::metadata(&place.path) else { continue };
            found.push((place, Stamp::from_metadata(&metadata).inode));
        }
        found
    }
}

impl StopWatch {
    /// Stops the watch. A waiting thread returns at once.
    pub fn stop(&self) {
        // The watch may have ended already.
        let _ = self.0.send(Signal::Stop);
    }
}

/// Converts an event of the system to a signal. Read access is not a change.
fn signal(event: notify::Result<Event>) -> Option<Signal> {
    let Ok(event) = event else { return Some(Signal::Lost) };
    if event.need_rescan() {
        return Some(Signal::Lost);
    }
    match event.kind {
        EventKind::Access(_) => None,
        _ => Some(Signal::Changed(event.paths)),
    }
}

/// Returns the nearest existing directory, in which the creation of a missing one is noticed.
fn nearest(dir: &WatchDir) -> WatchDir {
    if dir.path.is_dir() {
        return dir.clone();
    }
    let around = dir.path.ancestors().skip(1).find(|path| path.is_dir());
    WatchDir { path: around.unwrap_or(Path::new("/")).to_owned(), is_deep: false }
}

fn reason(error: &notify::Error) -> String {
    match &error.kind {
        ErrorKind::MaxFilesWatch => {
            "reached the system's limit of watched directories (fs.inotify.max_user_watches)"
                .to_owned()
        }
        ErrorKind::Io(cause) => cause.to_string(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_the_system_is_said_in_its_own_words() {
        let error = notify::Error::new(ErrorKind::MaxFilesWatch);
        assert!(reason(&error).contains("max_user_watches"));
    }

    #[test]
    fn reading_is_no_change_and_an_overflow_is_every_change() {
        let access = Event::new(EventKind::Access(notify::event::AccessKind::Any));
        assert!(signal(Ok(access)).is_none());
        let overflow = Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan);
        assert!(matches!(signal(Ok(overflow)), Some(Signal::Lost)));
        let write =
            Event::new(EventKind::Modify(notify::event::ModifyKind::Any)).add_path("a".into());
        assert!(matches!(signal(Ok(write)), Some(Signal::Changed(paths)) if paths.len() == 1));
    }

    #[test]
    fn what_is_not_there_is_waited_for_in_the_directory_around_it() {
        let home = tempfile::tempdir().unwrap();
        let deep = |path: PathBuf| nearest(&WatchDir { path, is_deep: true });
        let missing = deep(home.path().join(".agent/sessions"));
        assert_eq!(missing, WatchDir { path: home.path().to_owned(), is_deep: false });
        std::fs::create_dir_all(home.path().join(".agent/sessions")).unwrap();
        assert!(deep(home.path().join(".agent/sessions")).is_deep);
    }
}
