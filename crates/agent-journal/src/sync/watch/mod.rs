//! News of the agents' files while they are written: what the system tells, gathered until a
//! burst is over, and a slow look at everything as a safety net.

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
    /// `None` when the system cannot tell of changes.
    watcher: Option<RecommendedWatcher>,
    signals: Receiver<Signal>,
    sender: Sender<Signal>,
    armed: Armed,
    pace: Pace,
    limit: Option<String>,
    /// The changes that were handed over last, and when.
    handed: Option<(Changes, Instant)>,
}

/// Ends a watch, from any thread.
#[derive(Clone)]
pub struct StopWatch(Sender<Signal>);

/// A directory to be watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Spot {
    pub(crate) path: PathBuf,
    /// Whether what lies below it counts, too.
    pub(crate) is_deep: bool,
}

/// What is being watched.
#[derive(Default)]
struct Armed {
    /// Places, each with the inode of the directory that was found there.
    spots: BTreeMap<PathBuf, (bool, u64)>,
    /// Places that are not there yet.
    missing: BTreeSet<PathBuf>,
    /// Directories that appeared in watched ones.
    new: BTreeSet<PathBuf>,
}

enum Signal {
    Changed(Vec<PathBuf>),
    /// The system could not tell everything.
    Lost,
    Stop,
}

impl Watch {
    pub(crate) fn new(options: WatchOptions) -> Self {
        let (sender, signals) = channel();
        let tell = sender.clone();
        let watcher = notify::recommended_watcher(move |event| {
            if let Some(signal) = signal(event) {
                // Whoever watched may have gone.
                let _ = tell.send(signal);
            }
        });
        let limit = watcher.as_ref().err().map(reason);
        let mut pace = Pace::new(options, Instant::now());
        pace.is_blind = limit.is_some();
        let watcher = watcher.ok();
        Self { watcher, signals, sender, armed: Armed::default(), pace, limit, handed: None }
    }

    /// What ends this watch.
    pub fn stopper(&self) -> StopWatch {
        StopWatch(self.sender.clone())
    }

    /// Why the system does not tell of every change; then everything is looked at more often.
    pub fn limit(&self) -> Option<&str> {
        self.limit.as_deref()
    }

    /// Says that what was told last could not be folded in: soon everything is to be looked at.
    pub fn missed(&mut self) {
        self.pace.lose(Instant::now());
    }

    /// Notes that the last changes could not be recorded: after a pause, everything is looked at.
    pub fn retry_after(&mut self, pause: Duration) {
        let now = Instant::now();
        self.handed = None;
        self.pace.lose(now);
        self.pace.rest(pause, now);
    }

    /// Waits for changes; `None` when the watch was ended. `spots` says what is to be watched,
    /// the most important first, and is asked whenever that may have changed.
    pub(crate) fn wait(
        &mut self,
        spots: &dyn Fn() -> Result<Vec<Spot>>,
    ) -> Result<Option<Changes>> {
        if let Some((changes, handed)) = self.handed.take() {
            let now = Instant::now();
            self.pace.worked(now - handed, now);
            // A look at everything may have found more to watch, which may have changed since.
            if changes == Changes::Everything {
                let found = self.arm(spots()?);
                if !found.is_empty() {
                    self.pace.note(found, now);
                }
            }
        }
        loop {
            let now = Instant::now();
            if let Some(changes) = self.pace.take(now) {
                if changes == Changes::Everything {
                    self.arm(spots()?);
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
            // A watched place came or went: what is to be watched must be found out again.
            if self.armed.is_edge(path) {
                self.pace.lose(now);
            } else if path.is_dir() && !self.armed.spots.contains_key(path) {
                self.enter(path);
            }
        }
        self.pace.note(paths, now);
    }

    /// Watches a directory that appeared in a watched one: what belongs in it may come later.
    fn enter(&mut self, path: &Path) {
        let Some(watcher) = &mut self.watcher else { return };
        match watcher.watch(path, RecursiveMode::Recursive) {
            Ok(()) => drop(self.armed.new.insert(path.to_owned())),
            Err(error) => self.limit_to(Some(reason(&error))),
        }
    }

    /// Watches exactly these places, as many of them as the system allows, and tells which were
    /// not watched before.
    fn arm(&mut self, spots: Vec<Spot>) -> Vec<PathBuf> {
        let Some(watcher) = &mut self.watcher else { return Vec::new() };
        let mut before = std::mem::take(&mut self.armed);
        self.armed.new = std::mem::take(&mut before.new);
        self.armed.new.retain(|path| path.is_dir());
        let wanted = self.armed.missing_of(spots);
        let kept: HashSet<&PathBuf> = wanted.iter().map(|(spot, _)| &spot.path).collect();
        for path in before.spots.keys().filter(|path| !kept.contains(path)) {
            // It may have gone already.
            let _ = watcher.unwatch(path);
        }
        let (mut limit, mut found) = (None, Vec::new());
        for (Spot { path, is_deep }, inode) in wanted {
            if before.spots.get(&path) != Some(&(is_deep, inode)) {
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
            self.armed.spots.insert(path, (is_deep, inode));
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
    /// Whether a change of this path may change what is to be watched.
    fn is_edge(&self, path: &Path) -> bool {
        let came = self.missing.iter().any(|missing| missing.starts_with(path));
        came || (self.spots.contains_key(path) && !path.is_dir())
    }

    /// Finds what is there of the places that are to be watched, and notes the others.
    fn missing_of(&mut self, spots: Vec<Spot>) -> Vec<(Spot, u64)> {
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        for spot in spots {
            let place = nearest(&spot);
            if place.path != spot.path {
                self.missing.insert(spot.path);
            }
            let is_new = self.new.iter().any(|new| place.path.starts_with(new));
            if is_new || !seen.insert(place.path.clone()) {
                continue;
            }
            let Ok(metadata) = std::fs::metadata(&place.path) else { continue };
            found.push((place, Stamp::of(&metadata).inode));
        }
        found
    }
}

impl StopWatch {
    /// Ends the watch; who waits is told at once.
    pub fn stop(&self) {
        // A watch that is gone has ended.
        let _ = self.0.send(Signal::Stop);
    }
}

/// What an event of the system means here; reading a file changes nothing.
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

/// A place that is not there yet is waited for in the nearest directory around it.
fn nearest(spot: &Spot) -> Spot {
    if spot.path.is_dir() {
        return spot.clone();
    }
    let around = spot.path.ancestors().skip(1).find(|path| path.is_dir());
    Spot { path: around.unwrap_or(Path::new("/")).to_owned(), is_deep: false }
}

fn reason(error: &notify::Error) -> String {
    match &error.kind {
        ErrorKind::MaxFilesWatch => {
            "the system's limit of watched directories is reached (fs.inotify.max_user_watches)"
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
        let deep = |path: PathBuf| nearest(&Spot { path, is_deep: true });
        let missing = deep(home.path().join(".agent/sessions"));
        assert_eq!(missing, Spot { path: home.path().to_owned(), is_deep: false });
        std::fs::create_dir_all(home.path().join(".agent/sessions")).unwrap();
        assert!(deep(home.path().join(".agent/sessions")).is_deep);
    }
}
