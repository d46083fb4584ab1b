//! Time on the user's calendar: local days and hours, streaks, periods of work.

use std::collections::BTreeSet;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::Serialize;

use crate::maps::Map;
use crate::model::QUARTER;

/// The local date and hour of a quarter hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Local {
    pub(super) date: Date,
    pub(super) hour: i8,
}

/// The user's calendar, which caches every quarter hour it converts.
pub(super) struct UserCalendar {
    zone: TimeZone,
    known: Map<i64, Option<Local>>,
}

/// Consecutive days with a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Streak {
    /// The length of the streak that ends today or yesterday, in days.
    pub current: u64,
    /// The length of the longest streak, in days.
    pub longest: u64,
}

impl UserCalendar {
    pub(super) fn new(zone: TimeZone) -> Self {
        Self { zone, known: Map::default() }
    }

    /// Returns the local date and hour of a quarter hour; `None` for records without a time.
    pub(super) fn local_time_of_quarter(&mut self, quarter: i64) -> Option<Local> {
        if quarter == 0 {
            return None;
        }
        let zone = &self.zone;
        *self.known.entry(quarter).or_insert_with(|| {
            let at = Timestamp::from_millisecond(quarter * QUARTER).ok()?;
            let local = zone.to_datetime(at);
            Some(Local { date: local.date(), hour: local.hour() })
        })
    }
}

/// Counts consecutive days.
pub(super) fn count_streak(days: &BTreeSet<Date>, today: Date) -> Streak {
    let mut streak = Streak::default();
    let (mut run, mut last) = (0, None::<Date>);
    for day in days {
        let follows = last.is_some_and(|last| last.tomorrow().is_ok_and(|next| next == *day));
        run = if follows { run + 1 } else { 1 };
        last = Some(*day);
        streak.longest = streak.longest.max(run);
    }
    // Today is not over yet: a streak ends only after a complete day without a session.
    let alive = today.checked_sub(1.day()).unwrap_or(today);
    if last.is_some_and(|last| last >= alive) {
        streak.current = run;
    }
    streak
}

/// Merges periods that overlap or touch.
pub(super) fn merge_periods(mut periods: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    periods.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (start, end) in periods {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// Splits periods at quarter hours, and calls `found` with each quarter hour and its milliseconds.
pub(super) fn by_quarter(periods: &[(i64, i64)], mut found: impl FnMut(i64, u64)) {
    for (start, end) in periods {
        let mut at = *start;
        while at < *end {
            let quarter = at.div_euclid(QUARTER);
            let next = ((quarter + 1) * QUARTER).min(*end);
            found(quarter, (next - at) as u64);
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streak_lives_until_a_day_passes_without_a_session() {
        let days = |list: &[i8]| -> BTreeSet<Date> {
            list.iter().map(|day| Date::constant(2026, 11, *day)).collect()
        };
        let check = |list: &[i8], current: u64, longest: u64| {
            let today = Date::constant(2026, 11, 15);
            assert_eq!(count_streak(&days(list), today), Streak { current, longest }, "{list:?}");
        };
        check(&[], 0, 0);
        check(&[15], 1, 1);
        check(&[13, 14], 2, 2);
        check(&[12, 13], 0, 2);
        check(&[1, 2, 3, 14, 15], 2, 3);
    }

    #[test]
    fn overlapping_work_counts_once() {
        assert_eq!(merge_periods(vec![(5, 9), (0, 6), (20, 30), (9, 10)]), [(0, 10), (20, 30)]);
        let mut cut = Vec::new();
        by_quarter(&[(QUARTER - 5, 2 * QUARTER + 7)], |quarter, length| {
            cut.push((quarter, length));
        });
        assert_eq!(cut, [(0, 5), (1, QUARTER as u64), (2, 7)]);
    }

    #[test]
    fn quarters_are_enough_for_every_zone() {
        // Kathmandu is 5:45 ahead: its midnight is 18:15 UTC.
        let mut calendar = UserCalendar::new(TimeZone::get("Asia/Kathmandu").unwrap());
        let quarter = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond() / QUARTER;
        let before = calendar.local_time_of_quarter(quarter("2026-11-14T18:00:00Z")).unwrap();
        let after = calendar.local_time_of_quarter(quarter("2026-11-14T18:15:00Z")).unwrap();
        assert_eq!((before.date.day(), before.hour), (14, 23));
        assert_eq!((after.date.day(), after.hour), (15, 0));
    }
}
