//! Draws the help: all keys, from the table of keys, and the query language.

use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::text::{Line, Span};

use super::{ACCENT, BOLD, DIM, draw_box, put_line};
use crate::output::pad_to_width;
use crate::tui::keys::{InputMode, KEYS};
use crate::tui::layout::popup_area;
use crate::tui::state::TuiState;

const SECTIONS: [(&str, &[InputMode]); 4] = [
    ("Query", &[InputMode::Search]),
    ("List", &[InputMode::List]),
    ("Reading", &[InputMode::Reading]),
    ("Other", &[InputMode::Find, InputMode::Filters]),
];

/// Examples of the query language.
const LANGUAGE: &[(&str, &str)] = &[
    ("flaky login", "both words in one message"),
    ("\"copper lattice\"", "words next to each other"),
    ("tokeniz*", "words that begin like this"),
    ("-draft", "without this word"),
    ("login OR signin", "either word; ( ) group"),
    ("/waited \\d+ ms/", "a regular expression"),
    ("agent:NAME model:opus", "one agent and model"),
    ("tool:bash file:auth.rs has:error", "tool, file, with a failure"),
    ("project:web branch:main", "one project and branch"),
    ("since:7d until:2026-11-03", "a period of time"),
    ("role:user", "only your prompts"),
];

/// Minimum screen width for two columns.
const WIDE: u16 = 116;

/// Width of one column.
const COLUMN: u16 = 56;

pub(in crate::tui) fn draw_help(state: &TuiState, buffer: &mut Buffer) {
    let size = state.size;
    let (left, right) = help_columns(size);
    let height = left.len().max(right.len()) as u16 + 2;
    let width = if right.is_empty() { COLUMN + 8 } else { COLUMN * 2 + 6 };
    let inside = draw_box(buffer, popup_area(size, width, height), "Help");
    let half = if right.is_empty() { inside.width } else { inside.width / 2 };
    for (column, lines) in [left, right].into_iter().enumerate() {
        let area =
            Rect { x: inside.x + half * column as u16, width: half.saturating_sub(1), ..inside };
        for (row, line) in lines.iter().skip(state.help).enumerate() {
            put_line(buffer, area, row as u16, line);
        }
    }
}

/// Returns the number of scroll positions of the help.
pub(in crate::tui) fn scroll_length(size: Size) -> usize {
    let (left, right) = help_columns(size);
    let shown = usize::from(size.height.saturating_sub(2));
    left.len().max(right.len()).saturating_sub(shown) + 1
}

fn help_columns(size: Size) -> (Vec<Line<'static>>, Vec<Line<'static>>) {
    let mut left = key_lines(&SECTIONS[..2]);
    left.extend(query_language_lines());
    let right = key_lines(&SECTIONS[2..]);
    if size.width >= WIDE {
        return (left, right);
    }
    left.push(Line::default());
    left.extend(right);
    (left, Vec::new())
}

fn key_lines(sections: &[(&str, &[InputMode])]) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (title, modes) in sections {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::styled((*title).to_owned(), ACCENT));
        let belongs = |first: Option<&InputMode>| first.is_some_and(|mode| modes.contains(mode));
        for key in KEYS.iter().filter(|it| !it.about.is_empty() && belongs(it.modes.first())) {
            lines.push(Line::from(vec![
                Span::styled(pad_to_width(&key.key_names(), 17), BOLD),
                Span::raw(format!(" {}", key.about)),
            ]));
        }
    }
    lines
}

fn query_language_lines() -> Vec<Line<'static>> {
    let mut lines = vec![Line::default(), Line::styled("Query language", ACCENT)];
    for (example, meaning) in LANGUAGE {
        lines.push(Line::from(vec![
            Span::styled(pad_to_width(example, 26), BOLD),
            Span::raw(format!(" {meaning}")),
        ]));
    }
    lines.push(Line::styled("Hold Shift to select text with the mouse.", DIM));
    lines
}
