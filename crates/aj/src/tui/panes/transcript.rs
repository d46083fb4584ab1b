//! A session being read.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::results::badge;
use super::{ACCENT, BOLD, DIM, MATCH, footer, put, rule, stamp};
use crate::output::{cut, thousands};
use crate::tui::ansi::mark;
use crate::tui::layout::Page;
use crate::tui::reader::Reader;
use crate::tui::state::State;

pub(in crate::tui) fn draw(state: &State, areas: &Page, buffer: &mut Buffer) {
    let Some(reader) = &state.reader else { return };
    head(reader, areas.head, buffer);
    text(reader, areas.text, buffer);
    footer::draw(state, areas.footer, buffer);
}

fn head(reader: &Reader, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let place = format!("{} of {} ", thousands(reader.at.message + 1), thousands(reader.total()));
    let title = reader.entry.title.replace('\n', " ");
    let title = cut(&title, width.saturating_sub(10 + place.len()));
    let line = Line::from(vec![Span::raw(" "), badge(&reader.entry), Span::styled(title, BOLD)]);
    put(buffer, area, 0, &line);
    let end = area.right().saturating_sub(place.len() as u16);
    stamp(buffer, (end, area.y), &place, DIM);
    // The first fact is the title; the line after it is where and when.
    if area.height > 2
        && let Some(facts) = reader.facts.get(1)
    {
        let line = Line::from(vec![
            Span::raw(" "),
            Span::styled(cut(&facts.to_string(), width.saturating_sub(2)), DIM),
        ]);
        put(buffer, area, 1, &line);
    }
    let last = Rect { y: area.bottom().saturating_sub(1), height: 1, ..area };
    rule(buffer, last, Vec::new());
}

/// The lines of a session from the place of its reader on, what was found marked.
pub(super) fn text(reader: &Reader, area: Rect, buffer: &mut Buffer) {
    if !reader.is_loaded() {
        put(buffer, area, 0, &Line::styled("…", DIM));
        return;
    }
    let mut first = None;
    for (number, (place, row)) in reader.shown().enumerate() {
        let number = number as u16;
        let mark = |line: Line<'static>, it: &String| mark(&line, it, MATCH);
        put(buffer, area, number, &reader.marks().iter().fold(row.line.clone(), mark));
        let is_there = place.message == reader.at.message && place >= reader.at;
        if is_there && !row.is_empty() && first.is_none() {
            first = Some(number);
        }
    }
    if let Some(row) = first
        && area.x > 0
    {
        stamp(buffer, (area.x - 1, area.y + row), "▌", ACCENT);
    }
}
