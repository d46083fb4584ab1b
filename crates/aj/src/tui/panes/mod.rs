//! One file for each part of the screen, each with `draw(state, area, buffer)`. Only the sixteen
//! colours of the terminal are used, and nothing is told by colour alone.

pub(super) mod filters;
pub(super) mod footer;
pub(super) mod help;
pub(super) mod preview;
pub(super) mod results;
pub(super) mod search;
pub(super) mod stats;
pub(super) mod transcript;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::layout;
use super::state::{Overlay, State};

/// Facts that are not the point.
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// The point.
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Where the reader is.
const ACCENT: Style = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
/// What was looked for.
const MATCH: Style =
    Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD).add_modifier(Modifier::UNDERLINED);
/// What went wrong.
const WRONG: Style = Style::new().fg(Color::Red);

/// Draws the screen.
pub(super) fn draw(state: &State, buffer: &mut Buffer) {
    let size = state.size;
    if state.stats.is_some() {
        stats::draw(state, &layout::stats(size), buffer);
    } else if state.reader.is_some() {
        transcript::draw(state, &layout::reading(size), buffer);
    } else {
        let areas = layout::browse(size);
        search::draw(state, &areas, buffer);
        results::draw(state, areas.results, buffer);
        if let Some(preview) = &areas.preview {
            preview::draw(state, preview, buffer);
        }
        footer::draw(state, areas.footer, buffer);
    }
    match &state.overlay {
        Some(Overlay::Help) => help::draw(state, buffer),
        Some(Overlay::Filters(chooser)) => filters::draw(state, chooser, buffer),
        _ => {}
    }
}

/// Where the cursor is to be seen.
pub(super) fn cursor(state: &State) -> Option<Position> {
    if state.overlay.is_some() || state.stats.is_some() {
        return None;
    }
    match (&state.find, &state.reader) {
        (Some(find), _) => Some(footer::cursor(find, layout::reading(state.size).footer)),
        (None, None) => search::cursor(state, layout::browse(state.size).input),
        _ => None,
    }
}

/// Takes the colours out; bold, dim and underlined stay.
pub(super) fn bleach(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
    }
}

/// Draws a few characters, if the place is on the screen at all.
fn stamp(buffer: &mut Buffer, (x, y): (u16, u16), text: &str, style: Style) {
    if buffer.area.contains(Position::new(x, y)) {
        buffer.set_string(x, y, text, style);
    }
}

/// Draws one line, cut at the end of the area.
fn put(buffer: &mut Buffer, area: Rect, row: u16, line: &Line<'_>) {
    if row < area.height && buffer.area.contains(Position::new(area.x, area.y + row)) {
        buffer.set_line(area.x, area.y + row, line, area.width);
    }
}

/// Draws a line with text in it.
fn rule(buffer: &mut Buffer, area: Rect, spans: Vec<Span<'_>>) {
    stamp(buffer, (area.x, area.y), &"─".repeat(usize::from(area.width)), DIM);
    if spans.is_empty() || area.width < 4 || area.is_empty() {
        return;
    }
    let mut line = Line::from(vec![Span::raw(" ")]);
    line.spans.extend(spans);
    line.spans.push(Span::raw(" "));
    buffer.set_line(area.x + 1, area.y, &line, area.width - 2);
}

/// Empties an area and draws a box around it; returns what is inside.
fn boxed(buffer: &mut Buffer, area: Rect, title: &str) -> Rect {
    use ratatui::widgets::{Block, BorderType, Clear, Widget};
    Clear.render(area, buffer);
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(DIM)
        .title(Span::styled(format!(" {title} "), BOLD));
    let inner = block.inner(area);
    block.render(area, buffer);
    Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner }
}
