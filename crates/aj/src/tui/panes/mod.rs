//! One file for each part of the screen, each with a `draw_…(state, area, buffer)` function. Only
//! the sixteen colours of the terminal are used, and colour is never the only difference.

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
use super::state::{Overlay, TuiState};

/// Secondary facts.
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// Emphasized text.
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// The current position.
const ACCENT: Style = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
/// Text that matches the query.
const MATCH: Style =
    Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD).add_modifier(Modifier::UNDERLINED);
/// Error messages.
const WRONG: Style = Style::new().fg(Color::Red);

/// Draws the current screen and its overlay.
pub(super) fn draw_state(state: &TuiState, buffer: &mut Buffer) {
    let size = state.size;
    if state.stats.is_some() {
        stats::draw_stats(state, &layout::stats_layout(size), buffer);
    } else if state.reader.is_some() {
        transcript::draw_transcript(state, &layout::reading_layout(size), buffer);
    } else {
        let areas = layout::browse_layout(size);
        search::draw_search_field(state, &areas, buffer);
        results::draw_results(state, areas.results, buffer);
        if let Some(preview) = &areas.preview {
            preview::draw_preview(state, preview, buffer);
        }
        footer::draw_footer(state, areas.footer, buffer);
    }
    match &state.overlay {
        Some(Overlay::Help) => help::draw_help(state, buffer),
        Some(Overlay::Filters(chooser)) => filters::draw_filters(state, chooser, buffer),
        _ => {}
    }
}

/// Returns the position of the cursor, if it is visible.
pub(super) fn cursor_position(state: &TuiState) -> Option<Position> {
    if state.overlay.is_some() || state.stats.is_some() {
        return None;
    }
    match (&state.find, &state.reader) {
        (Some(find), _) => {
            Some(footer::find_cursor(find, layout::reading_layout(state.size).footer))
        }
        (None, None) => search::query_cursor(state, layout::browse_layout(state.size).input),
        _ => None,
    }
}

/// Removes all colours; bold, dim and underline are kept.
pub(super) fn remove_colors(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
    }
}

/// Draws a text if its position is on the screen.
fn stamp_text(buffer: &mut Buffer, x: u16, y: u16, text: &str, style: Style) {
    if buffer.area.contains(Position::new(x, y)) {
        buffer.set_string(x, y, text, style);
    }
}

/// Draws one line, cut at the end of the area.
fn put_line(buffer: &mut Buffer, area: Rect, row: u16, line: &Line<'_>) {
    if row < area.height && buffer.area.contains(Position::new(area.x, area.y + row)) {
        buffer.set_line(area.x, area.y + row, line, area.width);
    }
}

/// Draws a horizontal rule with text in it.
fn draw_rule(buffer: &mut Buffer, area: Rect, spans: Vec<Span<'_>>) {
    stamp_text(buffer, area.x, area.y, &"─".repeat(usize::from(area.width)), DIM);
    if spans.is_empty() || area.width < 4 || area.is_empty() {
        return;
    }
    let mut line = Line::from(vec![Span::raw(" ")]);
    line.spans.extend(spans);
    line.spans.push(Span::raw(" "));
    buffer.set_line(area.x + 1, area.y, &line, area.width - 2);
}

/// Clears an area, draws a box around it and returns the inner area.
fn draw_box(buffer: &mut Buffer, area: Rect, title: &str) -> Rect {
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
