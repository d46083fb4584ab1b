//! Parses dates as people write them in a query.

use jiff::civil::{Date, Weekday};
use jiff::{ToSpan, Zoned};

use super::parse::wrong;
use crate::error::Result;
use crate::model::Timestamp;

/// The end of a day or period that a date stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DayEdge {
    /// The beginning of the day or period.
    Start,
    /// The end of the day or period.
    End,
}

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

/// Parses a date: `2026-11-03`, `2026-11`, an instant, `7d`, `12h`, `2w`, `3m`, `1y`, `today`,
/// `yesterday`, `monday`, `this week`, `last month`.
pub fn date(text: &str, now: &Zoned, edge: DayEdge) -> Result<Timestamp> {
    let text = text.trim().to_ascii_lowercase();
    let found = period(&text, now)
        .and_then(|(first, after)| {
            let day = if edge == DayEdge::End { after } else { first };
            let start = day.to_zoned(now.time_zone().clone()).ok()?.timestamp();
            let shift = i64::from(edge == DayEdge::End);
            Timestamp::from_millis(start.as_millisecond() - shift)
        })
        .or_else(|| ago(&text, now))
        .or_else(|| Timestamp::parse_iso_time(&text.to_ascii_uppercase()));
    found.ok_or_else(|| {
        wrong(format!("`{text}` is not a date — try 2026-11-03, 7d, 12h, yesterday or last week"))
    })
}

/// Returns whether two words form one date.
pub(super) fn is_two_words(first: &str, second: &str) -> bool {
    let is = |word: &str, known: &[&str]| known.iter().any(|one| one.eq_ignore_ascii_case(word));
    is(first, &["last", "this"]) && is(second, &["week", "month", "year"])
}

/// Returns the first day of a period, and the first day after it.
fn period(text: &str, now: &Zoned) -> Option<(Date, Date)> {
    let today = now.date();
    let from = |first: Date, length: jiff::Span| Some((first, first.checked_add(length).ok()?));
    let day = |first: Date| from(first, 1.day());
    match text {
        "today" => return day(today),
        "yesterday" => return day(today.yesterday().ok()?),
        _ => {}
    }
    if let Some((_, weekday)) = WEEKDAYS.iter().find(|(name, _)| *name == text) {
        let since = i64::from(today.weekday().since(*weekday));
        return day(today.checked_sub(since.days()).ok()?);
    }
    if let Some((which, unit)) = text.split_once([' ', '-', '_'])
        && is_two_words(which, unit.trim())
    {
        let (first, length) = match unit.trim() {
            "week" => {
                let since = i64::from(today.weekday().since(Weekday::Monday));
                (today.checked_sub(since.days()).ok()?, 1.week())
            }
            "month" => (today.first_of_month(), 1.month()),
            _ => (today.first_of_year(), 1.year()),
        };
        let first = if which == "last" { first.checked_sub(length).ok()? } else { first };
        return from(first, length);
    }
    match text.len() {
        10 => day(text.parse().ok()?),
        7 => from(format!("{text}-01").parse().ok()?, 1.month()),
        4 => from(format!("{text}-01-01").parse().ok()?, 1.year()),
        _ => None,
    }
}

fn ago(text: &str, now: &Zoned) -> Option<Timestamp> {
    let split = text.find(|character: char| !character.is_ascii_digit())?;
    let (count, unit) = text.split_at(split);
    let count: i64 = count.parse().ok().filter(|count| *count <= 100_000)?;
    let span = match unit {
        "h" => count.hours(),
        "d" => count.days(),
        "w" => count.weeks(),
        "m" | "mo" => count.months(),
        "y" => count.years(),
        _ => return None,
    };
    let then = now.checked_sub(span).ok()?;
    Timestamp::from_millis(then.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_of_the_users_zone() {
        let now: Zoned = "2026-11-15T12:00:00+01:00[Europe/Paris]".parse().unwrap();
        let check = |text: &str, edge: DayEdge, expected: &str| {
            let shown =
                date(text, &now, edge).map_or_else(|it| it.to_string(), |it| it.to_string());
            assert_eq!(shown, expected, "{text}");
        };
        check("2026-11-03", DayEdge::Start, "2026-11-02T23:00:00.000Z");
        check("2026-11-03", DayEdge::End, "2026-11-03T22:59:59.999Z");
        check("yesterday", DayEdge::Start, "2026-11-13T23:00:00.000Z");
        check("7d", DayEdge::Start, "2026-11-08T11:00:00.000Z");
        check("12h", DayEdge::End, "2026-11-14T23:00:00.000Z");
        check("2026-11-03T10:00:00Z", DayEdge::Start, "2026-11-03T10:00:00.000Z");
        check("last week", DayEdge::Start, "2026-11-01T23:00:00.000Z");
        check("last week", DayEdge::End, "2026-11-08T22:59:59.999Z");
        check("this-week", DayEdge::Start, "2026-11-08T23:00:00.000Z");
        check("last month", DayEdge::End, "2026-10-31T22:59:59.999Z");
        check("last year", DayEdge::Start, "2024-12-31T23:00:00.000Z");
        check("2026-02", DayEdge::End, "2026-02-28T22:59:59.999Z");
        check("2025", DayEdge::Start, "2024-12-31T23:00:00.000Z");
        check("Friday", DayEdge::Start, "2026-11-12T23:00:00.000Z");
        check("sunday", DayEdge::Start, "2026-11-14T23:00:00.000Z");
        for mistake in ["2026-13-01", "7x", "last decade", "", "d"] {
            assert!(date(mistake, &now, DayEdge::Start).is_err(), "{mistake}");
        }
    }
}
