//! A calendar chart: a column for each week, a row for each weekday, darker where the value is
//! larger.

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};
use maud::{Markup, html};

use super::{Caption, chart_figure, format_px};
use crate::output::{count, plural};

const CELL: f64 = 12.0;
const LEFT: f64 = 30.0;
const TOP: f64 = 18.0;

/// Number of shades, apart from the one for zero.
const SHADES: usize = 4;

/// A calendar of weeks.
pub(crate) struct CalendarChart<'a> {
    /// The id of its element in the page.
    pub(crate) id: &'a str,
    /// The title above it.
    pub(crate) title: &'a str,
    /// A note beside the title.
    pub(crate) note: String,
    /// The noun for one counted item.
    pub(crate) what: &'a str,
    /// The values by day; days without one count as zero.
    pub(crate) days: &'a BTreeMap<Date, u64>,
    /// The last day that is shown.
    pub(crate) last: Date,
    /// The number of weeks that are shown.
    pub(crate) weeks: i64,
    /// Returns the URL of a day.
    pub(crate) link: &'a dyn Fn(Date) -> String,
}

/// A day with its position and value.
struct CalendarDay {
    date: Date,
    x: f64,
    y: f64,
    value: u64,
}

impl CalendarChart<'_> {
    /// Renders the calendar as SVG, with its table.
    pub(crate) fn draw_calendar(&self) -> Markup {
        let cells = self.calendar_days();
        let largest = cells.iter().map(|cell| cell.value).max().unwrap_or(0);
        let mut paths = vec![String::new(); SHADES + 1];
        for cell in &cells {
            let _ = write!(
                paths[shade_index(cell.value, largest)],
                "M{} {}h10v10h-10z",
                format_px(cell.x),
                format_px(cell.y)
            );
        }
        let width = LEFT + self.weeks as f64 * CELL;
        let title = format!("{}-title", self.id);
        let drawing = html! {
            svg.calendar viewBox=(format!("0 0 {} {}", format_px(width), format_px(TOP + 7.0 * CELL))) {
                g role="img" aria-labelledby=(title) {
                    title id=(title) { (self.calendar_summary(&cells)) }
                    (axis_names(&cells))
                    @for (shade, path) in paths.iter().enumerate() {
                        @if !path.is_empty() { path class=(format!("h{shade}")) d=(path) {} }
                    }
                }
                (self.pointer_targets(&cells))
            }
        };
        let caption = Caption { id: self.id, title: self.title, note: &self.note };
        chart_figure(&caption, &drawing, &self.calendar_table(&cells))
    }

    fn calendar_days(&self) -> Vec<CalendarDay> {
        let monday = match self.last.weekday() {
            Weekday::Monday => self.last,
            _ => self.last.nth_weekday(-1, Weekday::Monday).unwrap_or(self.last),
        };
        let Ok(first) = monday.checked_sub((self.weeks - 1).weeks()) else { return Vec::new() };
        let days = first.series(1.day()).take_while(|date| *date <= self.last);
        let cell = |(at, date): (usize, Date)| CalendarDay {
            date,
            x: LEFT + (at / 7) as f64 * CELL,
            y: TOP + (at % 7) as f64 * CELL,
            value: self.days.get(&date).copied().unwrap_or(0),
        };
        days.enumerate().map(cell).collect()
    }

    fn calendar_summary(&self, cells: &[CalendarDay]) -> String {
        let busy = cells.iter().filter(|cell| cell.value > 0).count();
        let most = cells.iter().max_by_key(|cell| cell.value).filter(|cell| cell.value > 0);
        let most = most.map_or(String::new(), |cell| {
            let what = plural(cell.value, self.what);
            format!(", at most {} {what} ({})", cell.value, day_label(cell.date))
        });
        let busy = count(busy as u64, "active day");
        format!("{}: {busy} in {}{most}", self.title, count(self.weeks as u64, "week"))
    }

    fn pointer_targets(&self, cells: &[CalendarDay]) -> Markup {
        html! {
            g aria-hidden="true" {
                @for cell in cells.iter().filter(|cell| cell.value > 0) {
                    a href=((self.link)(cell.date)) tabindex="-1" {
                        title { (day_label(cell.date)) "\n" (cell.value) " " (plural(cell.value, self.what)) }
                        rect.target x=(format_px(cell.x)) y=(format_px(cell.y)) width="11" height="11" {}
                    }
                }
            }
        }
    }

    fn calendar_table(&self, cells: &[CalendarDay]) -> Markup {
        html! {
            table {
                thead { tr { th scope="col" { "Day" } th.number scope="col" { (self.what) "s" } } }
                tbody {
                    @for cell in cells.iter().rev().filter(|cell| cell.value > 0) {
                        tr {
                            th scope="row" { a href=((self.link)(cell.date)) { (day_label(cell.date)) } }
                            td.number { (cell.value) }
                        }
                    }
                }
            }
        }
    }
}

/// Renders the names of months at the top and of weekdays at the side.
fn axis_names(cells: &[CalendarDay]) -> Markup {
    let weeks = cells.chunks(7);
    let is_new = |week: &&[CalendarDay]| week.iter().any(|cell| cell.date.day() == 1);
    html! {
        @for (row, name) in [(0, "Mon"), (2, "Wed"), (4, "Fri")] {
            text.tick x=(format_px(LEFT - 5.0)) y=(format_px(TOP + f64::from(row) * CELL + 9.0)) text-anchor="end" { (name) }
        }
        @for week in weeks.filter(is_new) {
            @if let Some(cell) = week.last() {
                text.tick x=(format_px(cell.x)) y=(format_px(TOP - 6.0)) { (cell.date.strftime("%b").to_string()) }
            }
        }
    }
}

fn day_label(date: Date) -> String {
    date.strftime("%a %-d %b %Y").to_string()
}

/// Returns the shade of a value: 0 for zero, at least 1 for anything else.
fn shade_index(value: u64, largest: u64) -> usize {
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
        let calendar = CalendarChart {
            id: "days",
            title: "Activity",
            note: String::new(),
            what: "message",
            days,
            last: LAST,
            weeks: 2,
            link: &link,
        };
        calendar.draw_calendar().into_string()
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
        assert_eq!([0, 1, 50, 100].map(|value| shade_index(value, 100)), [0, 1, 2, 4]);
    }
}
