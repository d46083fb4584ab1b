//! When to look: soon after a change, not in the middle of a burst, never so often that looking
//! becomes the work, and every now and then without a reason. It is told the time, and never asks.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// More changed paths than this are not looked at one by one.
const MOST: usize = 4096;

/// After work, at least this many times as long is rest.
const REST: u32 = 9;

/// How a watch paces itself.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// A burst of changes has ended when nothing has changed for this long.
    pub quiet: Duration,
    /// A burst that does not end is looked at after this long.
    pub patience: Duration,
    /// Everything is looked at this often, for changes that nobody told of.
    pub rescan: Duration,
    /// The same, where the system does not tell of changes.
    pub poll: Duration,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(300),
            patience: Duration::from_secs(2),
            rescan: Duration::from_mins(15),
            poll: Duration::from_secs(30),
        }
    }
}

/// What may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changes {
    /// These files and directories, and what lies in them.
    Paths(BTreeSet<PathBuf>),
    /// Anything: every root is to be looked at.
    Everything,
}

/// Gathers changes until it is time to look at them.
#[derive(Debug)]
pub(super) struct Pace {
    options: WatchOptions,
    /// Whether the system does not tell of every change.
    pub(super) is_blind: bool,
    paths: BTreeSet<PathBuf>,
    /// Something was missed.
    lost: bool,
    /// First and last change of the burst.
    burst: Option<(Instant, Instant)>,
    /// When the last look at everything was.
    scanned: Option<Instant>,
    rested: Instant,
}

impl Pace {
    /// Begins with a look at everything.
    pub(super) fn new(options: WatchOptions, now: Instant) -> Self {
        Self {
            options,
            is_blind: false,
            paths: BTreeSet::new(),
            lost: false,
            burst: None,
            scanned: None,
            rested: now,
        }
    }

    /// Notes that something changed.
    pub(super) fn note(&mut self, paths: impl IntoIterator<Item = PathBuf>, now: Instant) {
        if !self.lost {
            self.paths.extend(paths);
        }
        self.lost |= self.paths.len() > MOST;
        self.burst = Some((self.burst.map_or(now, |(first, _)| first), now));
    }

    /// Notes that changes were missed.
    pub(super) fn lose(&mut self, now: Instant) {
        self.lost = true;
        self.note([], now);
    }

    /// Notes how long the look at the last changes took.
    pub(super) fn worked(&mut self, took: Duration, now: Instant) {
        self.rested = now + took.saturating_mul(REST).min(self.options.poll);
    }

    /// Puts the next look off.
    pub(super) fn rest(&mut self, pause: Duration, now: Instant) {
        self.rested = self.rested.max(now + pause);
    }

    /// When to look next.
    pub(super) fn due(&self) -> Instant {
        let WatchOptions { quiet, patience, rescan, poll } = self.options;
        let pause = if self.is_blind { poll } else { rescan };
        let scan = self.scanned.map_or(self.rested, |scanned| scanned + pause);
        let burst = self.burst.map(|(first, last)| (last + quiet).min(first + patience));
        burst.map_or(scan, |burst| burst.min(scan)).max(self.rested)
    }

    /// Hands over what changed, if it is time.
    pub(super) fn take(&mut self, now: Instant) -> Option<Changes> {
        if now < self.due() {
            return None;
        }
        let paths = std::mem::take(&mut self.paths);
        let is_burst = self.burst.take().is_some();
        if is_burst && !self.lost {
            return Some(Changes::Paths(paths));
        }
        self.lost = false;
        self.scanned = Some(now);
        Some(Changes::Everything)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: WatchOptions = WatchOptions {
        quiet: Duration::from_millis(300),
        patience: Duration::from_secs(2),
        rescan: Duration::from_mins(15),
        poll: Duration::from_secs(30),
    };

    /// A pace whose first look is done, and the time of that.
    fn started() -> (Pace, Instant) {
        let now = Instant::now();
        let mut pace = Pace::new(OPTIONS, now);
        assert_eq!(pace.take(now), Some(Changes::Everything));
        (pace, now)
    }

    fn paths(names: &[&str]) -> Changes {
        Changes::Paths(names.iter().map(PathBuf::from).collect())
    }

    #[test]
    fn a_burst_is_one_change_when_it_has_ended() {
        let (mut pace, start) = started();
        for (name, at) in [("a", 0), ("b", 200), ("a", 400)] {
            let now = start + Duration::from_millis(at);
            pace.note([PathBuf::from(name)], now);
            assert_eq!(pace.take(now), None);
        }
        assert_eq!(pace.take(start + Duration::from_millis(699)), None);
        assert_eq!(pace.take(start + Duration::from_millis(700)), Some(paths(&["a", "b"])));
        assert_eq!(pace.due(), start + OPTIONS.rescan);
    }

    #[test]
    fn a_burst_without_end_is_looked_at_anyway() {
        let (mut pace, start) = started();
        let mut looked_at = Vec::new();
        for step in 0..50 {
            let now = start + Duration::from_millis(100 * step);
            pace.note([PathBuf::from("a")], now);
            looked_at.extend(pace.take(now).map(|_| step));
        }
        assert_eq!(looked_at, [20, 41]);
    }

    #[test]
    fn without_changes_there_is_one_look_in_a_long_while() {
        let (mut pace, start) = started();
        assert_eq!(pace.take(start + Duration::from_mins(14)), None);
        assert_eq!(pace.take(start + OPTIONS.rescan), Some(Changes::Everything));
        assert_eq!(pace.due(), start + 2 * OPTIONS.rescan);
    }

    #[test]
    fn a_system_that_does_not_tell_is_asked_more_often() {
        let (mut pace, start) = started();
        pace.is_blind = true;
        assert_eq!(pace.take(start + Duration::from_secs(29)), None);
        assert_eq!(pace.take(start + OPTIONS.poll), Some(Changes::Everything));
    }

    #[test]
    fn what_was_missed_or_is_too_much_means_everything() {
        let (mut pace, start) = started();
        pace.lose(start);
        assert_eq!(pace.take(start + OPTIONS.quiet), Some(Changes::Everything));
        pace.note((0..=MOST).map(|number| PathBuf::from(number.to_string())), start);
        assert_eq!(pace.take(start + OPTIONS.quiet), Some(Changes::Everything));
        pace.note([PathBuf::from("a")], start);
        assert_eq!(pace.take(start + OPTIONS.quiet), Some(paths(&["a"])));
    }

    #[test]
    fn a_failed_look_is_tried_again_after_a_pause() {
        let (mut pace, start) = started();
        pace.lose(start);
        pace.rest(Duration::from_secs(8), start);
        pace.note([PathBuf::from("a")], start + Duration::from_secs(1));
        assert_eq!(pace.take(start + Duration::from_millis(7999)), None);
        assert_eq!(pace.take(start + Duration::from_secs(8)), Some(Changes::Everything));
    }

    #[test]
    fn long_work_is_followed_by_a_longer_rest() {
        let (mut pace, start) = started();
        pace.worked(Duration::from_secs(1), start);
        pace.note([PathBuf::from("a")], start);
        assert_eq!(pace.due(), start + Duration::from_secs(9));
        pace.worked(Duration::from_mins(5), start);
        assert_eq!(pace.due(), start + OPTIONS.poll);
    }
}
