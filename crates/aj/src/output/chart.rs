//! Charts for the terminal: bars, sparklines and a calendar.

use std::collections::BTreeMap;
use std::io::Write;

use anstyle::{AnsiColor, Style};
use anyhow::Result;
use jiff::ToSpan;
use jiff::civil::{Date, Weekday};

use super::DIM;

const BAR: Style = AnsiColor::Green.on_default();
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
const SHADES: [char; 4] = ['░', '▒', '▓', '█'];

/// Draws a bar of up to `width` columns, in eighths of a column.
pub(crate) fn draw_bar(value: u64, largest: u64, width: usize) -> String {
    if value == 0 || largest == 0 || width == 0 {
        return String::new();
    }
    let eighths = (value as f64 / largest as f64 * (width * 8) as f64).round().max(1.0) as usize;
    let text = format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8]);
    format!("{BAR}{text}{BAR:#}")
}

/// Draws a sparkline: one column for each number, as high as the number is large.
pub(crate) fn sparkline(values: &[u64]) -> String {
    let largest = values.iter().copied().max().unwrap_or(0);
    let column = |value: &u64| match (*value, largest) {
        (0, _) | (_, 0) => ' ',
        (value, largest) => STEPS[((value * 8).div_ceil(largest) - 1).min(7) as usize],
    };
    values.iter().map(column).collect()
}

/// Writes a calendar of weeks that ends today: a column for each week, a row for each weekday.
pub(crate) fn write_calendar(
    out: &mut dyn Write,
    days: &BTreeMap<Date, u64>,
    today: Date,
    weeks: i64,
) -> Result<()> {
    let monday = today.nth_weekday(-1, Weekday::Monday).unwrap_or(today);
    let monday = if today.weekday() == Weekday::Monday { today } else { monday };
    let Ok(first) = monday.checked_sub((weeks - 1).weeks()) else { return Ok(()) };
    let largest = days.range(first..=today).map(|(_, value)| *value).max().unwrap_or(0);
    for (row, name) in ["Mon", "", "Wed", "", "Fri", "", "Sun"].into_iter().enumerate() {
        let mut line = String::new();
        for week in 0..weeks {
            let day = first.checked_add((week * 7 + row as i64).days());
            let Some(day) = day.ok().filter(|day| *day <= today) else { continue };
            line.push(shade_character(days.get(&day).copied().unwrap_or(0), largest));
            line.push(' ');
        }
        writeln!(out, " {DIM}{name:<3}{DIM:#} {BAR}{}{BAR:#}", line.trim_end())?;
    }
    Ok(())
}

fn shade_character(value: u64, largest: u64) -> char {
    if value == 0 || largest == 0 {
        return '·';
    }
    SHADES[((value * 4).div_ceil(largest) - 1).min(3) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparklines_rise_with_their_numbers() {
        assert_eq!(sparkline(&[0, 1, 4, 8]), " ▁▄█");
        assert_eq!(sparkline(&[0, 0]), "  ");
        assert_eq!(sparkline(&[]), "");
    }

    #[test]
    fn bars_are_never_empty_for_something() {
        let plain = |text: String| anstream::adapter::strip_str(&text).to_string();
        assert_eq!(plain(draw_bar(10, 10, 3)), "███");
        assert_eq!(plain(draw_bar(1, 1000, 3)), "▏");
        assert_eq!(plain(draw_bar(0, 10, 3)), "");
        assert_eq!(draw_bar(10, 10, 0), "", "there is no room");
    }

    #[test]
    fn a_calendar_ends_today() {
        // 2026-11-15 is a Sunday.
        let today = Date::constant(2026, 11, 15);
        let days = BTreeMap::from([(today, 4), (Date::constant(2026, 11, 9), 1)]);
        let mut text = Vec::new();
        write_calendar(&mut text, &days, today, 2).unwrap();
        let text = String::from_utf8(text).unwrap();
        let plain = anstream::adapter::strip_str(&text).to_string();
        let rows: Vec<&str> = plain.lines().collect();
        assert_eq!((rows[0], rows[6]), (" Mon · ░", " Sun · █"));
    }
}
