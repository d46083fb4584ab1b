//! Divides the period of a page into days, weeks or months: as many as a chart has room for.

use std::collections::BTreeMap;

use agent_journal::analyze::{Figures, Stats};
use agent_journal::model::{Timestamp, Tokens};
use jiff::civil::{Date, Weekday};
use jiff::{ToSpan, Zoned};

/// Longest period, in days, that is divided into days.
const DAYS: i32 = 62;

/// Longest period, in days, that is divided into weeks; a longer one is divided into months.
const WEEKS: i32 = 400;

/// Models with a series of their own.
pub(super) const MODELS: usize = 6;

/// A period in equal buckets, with the activity and spending of each.
pub(super) struct BucketedPeriod {
    pub(super) first: Date,
    pub(super) last: Date,
    pub(super) unit: Unit,
    pub(super) steps: Vec<PeriodBucket>,
    /// The models with a series of their own; the spending of all others comes after theirs.
    pub(super) models: Vec<String>,
}

/// The length of a bucket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Day,
    Week,
    Month,
}

/// The activity and spending of one bucket.
pub(super) struct PeriodBucket {
    pub(super) first: Date,
    pub(super) last: Date,
    pub(super) started: u64,
    pub(super) prompts: u64,
    pub(super) active_s: u64,
    pub(super) work_s: u64,
    pub(super) results: u64,
    pub(super) errors: u64,
    pub(super) tokens: Tokens,
    /// Tokens, and millionths of a dollar where they are known, by model; the last entry is that of
    /// all other models.
    pub(super) spent: Vec<(u64, Option<u64>)>,
}

impl BucketedPeriod {
    pub(super) fn from_stats(stats: &Stats, now: &Zoned) -> Self {
        let date = |at: Timestamp| {
            let at = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default();
            at.to_zoned(now.time_zone().clone()).date()
        };
        let known = |day: Option<&(Date, Figures)>| day.map_or(now.date(), |(date, _)| *date);
        let first = stats.period.since.map_or(known(stats.days.first()), date);
        let last = stats
            .period
            .until
            .map_or(now.date(), date)
            .min(known(stats.days.last()).max(now.date()));
        let last = last.max(first);
        let days = last.since(first).map_or(0, |span| span.get_days()) + 1;
        let unit = if days <= DAYS {
            Unit::Day
        } else if days <= WEEKS {
            Unit::Week
        } else {
            Unit::Month
        };
        let models = stats.models.iter().take(MODELS).map(|group| group.key.clone()).collect();
        let mut span = Self { first, last, unit, steps: Vec::new(), models };
        span.fill_buckets(stats);
        span
    }

    fn fill_buckets(&mut self, stats: &Stats) {
        let mut start = self.unit.bucket_start(self.first);
        let mut places = BTreeMap::new();
        while start <= self.last {
            let Ok(next) = self.unit.next_bucket(start) else { break };
            places.insert(start, self.steps.len());
            self.steps.push(PeriodBucket::new(start, next, self.models.len() + 1));
            start = next;
        }
        let place = |date: Date| places.get(&self.unit.bucket_start(date)).copied();
        for (date, figures) in &stats.days {
            if let Some(step) = place(*date).and_then(|at| self.steps.get_mut(at)) {
                step.add_bucket_figures(figures);
            }
        }
        for one in &stats.spending {
            let model = self.models.iter().position(|model| *model == one.model);
            let model = model.unwrap_or(self.models.len());
            if let Some(step) = place(one.date).and_then(|at| self.steps.get_mut(at)) {
                let (tokens, micros) = &mut step.spent[model];
                *tokens += one.tokens.total_tokens();
                if let Some(cost) = one.cost.known_micros() {
                    *micros.get_or_insert(0) += cost;
                }
            }
        }
    }

    /// Describes the period: its first and last day.
    pub(super) fn describe_period(&self) -> String {
        let day = |date: Date| date.strftime("%-d %b %Y").to_string();
        if self.first == self.last {
            return day(self.first);
        }
        format!("{} – {}", day(self.first), day(self.last))
    }
}

impl Unit {
    /// Returns the name of the unit.
    pub(super) fn unit_name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// Returns the name of the unit as the head of a column.
    pub(super) fn column_head(self) -> &'static str {
        match self {
            Self::Day => "Day",
            Self::Week => "Week",
            Self::Month => "Month",
        }
    }

    fn bucket_start(self, date: Date) -> Date {
        match self {
            Self::Day => date,
            Self::Week if date.weekday() == Weekday::Monday => date,
            Self::Week => date.nth_weekday(-1, Weekday::Monday).unwrap_or(date),
            Self::Month => date.first_of_month(),
        }
    }

    fn next_bucket(self, start: Date) -> Result<Date, jiff::Error> {
        match self {
            Self::Day => start.checked_add(1.day()),
            Self::Week => start.checked_add(1.week()),
            Self::Month => start.checked_add(1.month()),
        }
    }
}

impl PeriodBucket {
    fn new(first: Date, next: Date, models: usize) -> Self {
        Self {
            first,
            last: next.yesterday().unwrap_or(first),
            started: 0,
            prompts: 0,
            active_s: 0,
            work_s: 0,
            results: 0,
            errors: 0,
            tokens: Tokens::default(),
            spent: vec![(0, None); models],
        }
    }

    fn add_bucket_figures(&mut self, figures: &Figures) {
        self.started += figures.sessions_started;
        self.prompts += figures.prompts;
        self.active_s += figures.active_s;
        self.work_s += figures.work_s;
        self.results += figures.tool_results;
        self.errors += figures.tool_errors;
        self.tokens += figures.tokens;
    }

    /// Returns the full and the short name of the bucket.
    pub(super) fn bucket_names(&self, unit: Unit) -> (String, String) {
        let text = |format: &str| self.first.strftime(format).to_string();
        match unit {
            Unit::Day => (text("%a %-d %b %Y"), text("%-d %b")),
            Unit::Week => (format!("week of {}", text("%-d %b %Y")), text("%-d %b")),
            Unit::Month => (text("%B %Y"), text("%b %y")),
        }
    }

    /// Returns the share of input that was read from a cache.
    pub(super) fn cached_share(&self) -> Option<f64> {
        let input = self.tokens.input + self.tokens.cache_read + self.tokens.cache_creation;
        (input > 0).then(|| self.tokens.cache_read as f64 / input as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_begin_on_mondays_and_months_on_their_first() {
        let sunday = Date::constant(2026, 11, 15);
        assert_eq!(Unit::Week.bucket_start(sunday), Date::constant(2026, 11, 9));
        assert_eq!(
            Unit::Week.bucket_start(Date::constant(2026, 11, 9)),
            Date::constant(2026, 11, 9)
        );
        assert_eq!(Unit::Month.bucket_start(sunday), Date::constant(2026, 11, 1));
        let step = PeriodBucket::new(Date::constant(2026, 2, 1), Date::constant(2026, 3, 1), 1);
        assert_eq!(step.last, Date::constant(2026, 2, 28));
        assert_eq!(
            step.bucket_names(Unit::Month),
            ("February 2026".to_owned(), "Feb 26".to_owned())
        );
    }
}
