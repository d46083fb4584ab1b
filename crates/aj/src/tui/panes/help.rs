//! Every key, from the table of keys, and the language of queries.

use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::text::{Line, Span};

use super::{ACCENT, BOLD, DIM, boxed, put};
use crate::output::pad;
use crate::tui::keys::{KEYS, Mode};
use crate::tui::layout::popup;
use crate::tui::state::State;

const SECTIONS: [(&str, &[Mode]); 4] = [
    ("Query", &[Mode::Search]),
    ("List", &[Mode::List]),
    ("Reading", &[Mode::Reading]),
    ("Elsewhere", &[Mode::Find, Mode::Filters]),
];

/// The language of queries, by example.
const LANGUAGE: &[(&str, &str)] = &[
    ("flaky login", "both words in one message"),
    ("\"copper lattice\"", "words next to each other"),
    ("tokeniz*", "a beginning; so is the word being typed"),
    ("-draft", "without this word"),
    ("login OR signin", "either word; parentheses group"),
    ("/waited \\d+ ms/", "a pattern"),
    ("agent:NAME model:opus", "of one agent, one model"),
    ("tool:bash file:auth.rs has:error", "by what was done"),
    ("project:web branch:main", "of one project, one branch"),
    ("since:7d until:2026-11-03", "of a time"),
    ("role:user", "only what you said; also assistant, tool, title"),
];

/// From this width on there are two columns.
const WIDE: u16 = 116;

/// Width of one column.
const COLUMN: u16 = 56;

pub(in crate::tui) fn draw(state: &State, buffer: &mut Buffer) {
    let size = state.size;
    let (left, right) = columns(size);
    let height = left.len().max(right.len()) as u16 + 2;
    let width = if right.is_empty() { COLUMN + 8 } else { COLUMN * 2 + 6 };
    let inside = boxed(buffer, popup(size, width, height), "Help");
    let half = if right.is_empty() { inside.width } else { inside.width / 2 };
    for (column, lines) in [left, right].into_iter().enumerate() {
        let area =
            Rect { x: inside.x + half * column as u16, width: half.saturating_sub(1), ..inside };
        for (row, line) in lines.iter().skip(state.help).enumerate() {
            put(buffer, area, row as u16, line);
        }
    }
}

/// How far it may be scrolled, and one more.
pub(in crate::tui) fn length(size: Size) -> usize {
    let (left, right) = columns(size);
    let shown = usize::from(size.height.saturating_sub(2));
    left.len().max(right.len()).saturating_sub(shown) + 1
}

fn columns(size: Size) -> (Vec<Line<'static>>, Vec<Line<'static>>) {
    let mut left = keys(&SECTIONS[..2]);
    left.extend(language());
    let right = keys(&SECTIONS[2..]);
    if size.width >= WIDE {
        return (left, right);
    }
    left.push(Line::default());
    left.extend(right);
    (left, Vec::new())
}

fn keys(sections: &[(&str, &[Mode])]) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (title, modes) in sections {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::styled((*title).to_owned(), ACCENT));
        let belongs = |first: Option<&Mode>| first.is_some_and(|mode| modes.contains(mode));
        for key in KEYS.iter().filter(|it| !it.about.is_empty() && belongs(it.modes.first())) {
            lines.push(Line::from(vec![
                Span::styled(pad(&key.names(), 17), BOLD),
                Span::raw(format!(" {}", key.about)),
            ]));
        }
    }
    lines
}

fn language() -> Vec<Line<'static>> {
    let mut lines = vec![Line::default(), Line::styled("What can be asked", ACCENT)];
    for (example, meaning) in LANGUAGE {
        lines.push(Line::from(vec![
            Span::styled(pad(example, 26), BOLD),
            Span::raw(format!(" {meaning}")),
        ]));
    }
    lines.push(Line::styled("Hold Shift to select text with the mouse.", DIM));
    lines
}
