//! A year of days: a column a week, a row a day of the week, darker where more was done.

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};
use maud::{Markup, html};

use super::{Caption, figure, px};
use crate::output::{count, plural};

const CELL: f64 = 12.0;
const LEFT: f64 = 30.0;
const TOP: f64 = 18.0;

/// Shades above nothing.
const SHADES: usize = 4;

/// A calendar of weeks.
pub(crate) struct Calendar<'a> {
    /// Its place in the page.
    pub(crate) id: &'a str,
    /// What it shows.
    pub(crate) title: &'a str,
    /// What else there is to say about it.
    pub(crate) note: String,
    /// What is counted, for one.
    pub(crate) what: &'a str,
    /// The days with something in them.
    pub(crate) days: &'a BTreeMap<Date, u64>,
    /// The last day that is shown.
    pub(crate) last: Date,
    /// How many weeks are shown.
    pub(crate) weeks: i64,
    /// Where a day leads.
    pub(crate) link: &'a dyn Fn(Date) -> String,
}

/// A day with its place.
struct Cell {
    date: Date,
    x: f64,
    y: f64,
    value: u64,
}

impl Calendar<'_> {
    /// Draws the calendar.
    pub(crate) fn draw(&self) -> Markup {
        let cells = self.cells();
        let largest = cells.iter().map(|cell| cell.value).max().unwrap_or(0);
        let mut paths = vec![String::new(); SHADES + 1];
        for cell in &cells {
            let _ = write!(
                paths[shade(cell.value, largest)],
                "M{} {}h10v10h-10z",
                px(cell.x),
                px(cell.y)
            );
        }
        let width = LEFT + self.weeks as f64 * CELL;
        let title = format!("{}-title", self.id);
        let drawing = html! {
            svg.calendar viewBox=(format!("0 0 {} {}", px(width), px(TOP + 7.0 * CELL))) {
                g role="img" aria-labelledby=(title) {
                    title id=(title) { (self.summary(&cells)) }
                    (names(&cells))
                    @for (shade, path) in paths.iter().enumerate() {
                        @if !path.is_empty() { path class=(format!("h{shade}")) d=(path) {} }
                    }
                }
                (self.targets(&cells))
            }
        };
        let caption = Caption { id: self.id, title: self.title, note: &self.note };
        figure(&caption, &drawing, &self.table(&cells))
    }

    fn cells(&self) -> Vec<Cell> {
        let monday = match self.last.weekday() {
            Weekday::Monday => self.last,
            _ => self.last.nth_weekday(-1, Weekday::Monday).unwrap_or(self.last),
        };
        let Ok(first) = monday.checked_sub((self.weeks - 1).weeks()) else { return Vec::new() };
        let days = first.series(1.day()).take_while(|date| *date <= self.last);
        let cell = |(at, date): (usize, Date)| Cell {
            date,
            x: LEFT + (at / 7) as f64 * CELL,
            y: TOP + (at % 7) as f64 * CELL,
            value: self.days.get(&date).copied().unwrap_or(0),
        };
        days.enumerate().map(cell).collect()
    }

    fn summary(&self, cells: &[Cell]) -> String {
        let busy = cells.iter().filter(|cell| cell.value > 0).count();
        let most = cells.iter().max_by_key(|cell| cell.value).filter(|cell| cell.value > 0);
        let most = most.map_or(String::new(), |cell| {
            let what = plural(cell.value, self.what);
            format!(", at most {} {what} ({})", cell.value, day(cell.date))
        });
        let busy = count(busy as u64, "active day");
        format!("{}: {busy} in {}{most}", self.title, count(self.weeks as u64, "week"))
    }

    fn targets(&self, cells: &[Cell]) -> Markup {
        html! {
            g aria-hidden="true" {
                @for cell in cells.iter().filter(|cell| cell.value > 0) {
                    a href=((self.link)(cell.date)) tabindex="-1" {
                        title { (day(cell.date)) "\n" (cell.value) " " (plural(cell.value, self.what)) }
                        rect.target x=(px(cell.x)) y=(px(cell.y)) width="11" height="11" {}
                    }
                }
            }
        }
    }

    fn table(&self, cells: &[Cell]) -> Markup {
        html! {
            table {
                thead { tr { th scope="col" { "Day" } th.number scope="col" { (self.what) "s" } } }
                tbody {
                    @for cell in cells.iter().rev().filter(|cell| cell.value > 0) {
                        tr {
                            th scope="row" { a href=((self.link)(cell.date)) { (day(cell.date)) } }
                            td.number { (cell.value) }
                        }
                    }
                }
            }
        }
    }
}

/// The names of months above and of days at the side.
fn names(cells: &[Cell]) -> Markup {
    let weeks = cells.chunks(7);
    let is_new = |week: &&[Cell]| week.iter().any(|cell| cell.date.day() == 1);
    html! {
        @for (row, name) in [(0, "Mon"), (2, "Wed"), (4, "Fri")] {
            text.tick x=(px(LEFT - 5.0)) y=(px(TOP + f64::from(row) * CELL + 9.0)) text-anchor="end" { (name) }
        }
        @for week in weeks.filter(is_new) {
            @if let Some(cell) = week.last() {
                text.tick x=(px(cell.x)) y=(px(TOP - 6.0)) { (cell.date.strftime("%b").to_string()) }
            }
        }
    }
}

fn day(date: Date) -> String {
    date.strftime("%a %-d %b %Y").to_string()
}

/// Nothing is 0; everything else is at least 1.
fn shade(value: u64, largest: u64) -> usize {
    if value == 0 || largest == 0 {
        return 0;
    }
    (value as usize * SHADES).div_ceil(largest as usize).min(SHADES)
}

#[cfg(test)]
mod tests {
    use super::*;

    // 2026-11-15 is a Sunday.
    const LAST: Date = Date::constant(2026, 11, 15);

    fn drawn(days: &BTreeMap<Date, u64>) -> String {
        let link = |date: Date| format!("/sessions?since={date}&until={date}");
        let calendar = Calendar {
            id: "days",
            title: "Activity",
            note: String::new(),
            what: "message",
            days,
            last: LAST,
            weeks: 2,
            link: &link,
        };
        calendar.draw().into_string()
    }

    #[test]
    fn the_last_day_stands_at_the_end_and_leads_to_its_sessions() {
        let text = drawn(&BTreeMap::from([(LAST, 4), (Date::constant(2026, 11, 9), 1)]));
        assert!(text.contains(r#"class="h4" d="M42 90h10v10h-10z""#), "{text}");
        assert!(text.contains(r#"class="h1" d="M42 18h10v10h-10z""#), "{text}");
        let link = r#"href="/sessions?since=2026-11-15&amp;until=2026-11-15""#;
        assert_eq!(text.matches(link).count(), 2);
        assert!(text.contains("Activity: 2 active days in 2 weeks, at most 4 messages"), "{text}");
        assert!(!text.contains("style"));
    }

    #[test]
    fn a_calendar_without_anything_is_a_calendar() {
        let text = drawn(&BTreeMap::new());
        assert_eq!(text.matches("h10v10").count(), 14);
        assert!(text.contains("0 active days"));
    }

    #[test]
    fn little_is_never_shown_as_nothing() {
        assert_eq!([0, 1, 50, 100].map(|value| shade(value, 100)), [0, 1, 2, 4]);
    }
}
