//! Decides when to scan: soon after a change, not during a burst, never so often that scanning
//! dominates, and periodically without a reason. The current time is always a parameter.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Number of changed paths above which everything is scanned.
const MOST: usize = 4096;

/// Minimum pause after a scan, as a multiple of the duration of the scan.
const REST: u32 = 9;

/// Bytes read per second on average, above which the pause after a scan is longer.
const BYTES_PER_SECOND: u64 = 32 << 20;

/// Timing of a watch.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// Time without changes after which a burst has ended.
    pub quiet: Duration,
    /// Time after which a burst is handled even if it has not ended.
    pub patience: Duration,
    /// Interval of full scans, which find changes without events.
    pub rescan: Duration,
    /// Interval of full scans if the system does not report all changes.
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

/// The paths that may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changes {
    /// These files and directories, and everything below them.
    Paths(BTreeSet<PathBuf>),
    /// Anything, so all roots must be scanned.
    Everything,
}

/// Collects changes until it is time to scan.
#[derive(Debug)]
pub(super) struct Pace {
    options: WatchOptions,
    /// Whether the system does not report all changes.
    pub(super) is_blind: bool,
    paths: BTreeSet<PathBuf>,
    /// Whether changes were missed.
    lost: bool,
    /// Times of the first and the last change of the burst.
    burst: Option<(Instant, Instant)>,
    /// Time of the last full scan.
    scanned: Option<Instant>,
    rested: Instant,
}

impl Pace {
    /// Creates a pace whose first result is a full scan.
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

    /// Notes changed paths.
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

    /// Notes the duration of the last scan, and the size of the data that was read.
    pub(super) fn worked(&mut self, took: Duration, read_bytes: u64, now: Instant) {
        let for_size = Duration::from_millis(read_bytes.saturating_mul(1000) / BYTES_PER_SECOND);
        self.rested = now + took.saturating_mul(REST).max(for_size).min(self.options.poll);
    }

    /// Delays the next scan.
    pub(super) fn rest(&mut self, pause: Duration, now: Instant) {
        self.rested = self.rested.max(now + pause);
    }

    /// Returns the time of the next scan.
    pub(super) fn due(&self) -> Instant {
        let WatchOptions { quiet, patience, rescan, poll } = self.options;
        let pause = if self.is_blind { poll } else { rescan };
        let scan = self.scanned.map_or(self.rested, |scanned| scanned + pause);
        let burst = self.burst.map(|(first, last)| (last + quiet).min(first + patience));
        burst.map_or(scan, |burst| burst.min(scan)).max(self.rested)
    }

    /// Returns the collected changes if the next scan is due.
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

    /// Returns a pace whose first scan is done, and the time of that scan.
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
        pace.worked(Duration::from_secs(1), 0, start);
        pace.note([PathBuf::from("a")], start);
        assert_eq!(pace.due(), start + Duration::from_secs(9));
        pace.worked(Duration::from_mins(5), 0, start);
        assert_eq!(pace.due(), start + OPTIONS.poll);
    }

    #[test]
    fn much_data_is_followed_by_a_longer_rest_however_quick_it_was_read() {
        let (mut pace, start) = started();
        let instant = Duration::from_millis(1);
        for (bytes, pause) in [
            (4 << 10, OPTIONS.quiet),
            (320 << 20, Duration::from_secs(10)),
            (3 << 30, OPTIONS.poll),
        ] {
            pace.worked(instant, bytes, start);
            pace.note([PathBuf::from("state.vscdb")], start);
            assert_eq!(pace.due(), start + pause, "{bytes} bytes");
            pace.take(start + OPTIONS.poll);
        }
    }
}
