//! Draws the filter overlay, with a column for each field.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::{ACCENT, BOLD, DIM, draw_box, put_line};
use crate::output::{pad_left, pad_to_width, thousands};
use crate::tui::filters::{Chooser, FacetColumn};
use crate::tui::layout::popup_area;
use crate::tui::state::{Overlay, TuiState};

/// Width of a field, in screen columns.
const WIDTH: u16 = 24;

/// Maximum number of visible rows.
const ROWS: u16 = 14;

pub(in crate::tui) fn draw_filters(state: &TuiState, chooser: &Chooser, buffer: &mut Buffer) {
    let inside = draw_box(buffer, filters_area(state), "Filters");
    for (column, area) in visible_columns(state, chooser, inside) {
        let Some(facet) = state.facets.columns.get(column) else { continue };
        let is_here = column == chooser.column;
        put_line(buffer, area, 0, &Line::styled(facet.field, if is_here { ACCENT } else { BOLD }));
        let top = first_visible_row(chooser, column, area.height);
        for row in 0..area.height.saturating_sub(1) {
            let at = top + usize::from(row);
            let is_at = is_here && at == chooser.selected_row(column);
            if let Some(line) = facet_line(state, facet, at, is_at) {
                put_line(buffer, area, row + 1, &line);
            }
        }
    }
}

fn facet_line(
    state: &TuiState,
    facet: &FacetColumn,
    at: usize,
    is_at: bool,
) -> Option<Line<'static>> {
    let (value, count) = facet.values.get(at)?;
    let is_chosen = state.is_filter_set(facet.field, value);
    let mark = if is_chosen { "✓ " } else { "  " };
    let style = if is_at {
        Style::new().add_modifier(Modifier::REVERSED)
    } else if is_chosen {
        BOLD
    } else {
        Style::new()
    };
    let count = count.map_or(String::new(), thousands);
    Some(Line::from(vec![
        Span::styled(mark, ACCENT),
        Span::styled(pad_to_width(value, 13), style),
        Span::styled(pad_left(&count, 6), DIM),
    ]))
}

/// Returns the first visible row of a column.
fn first_visible_row(chooser: &Chooser, column: usize, height: u16) -> usize {
    let rows = usize::from(height.saturating_sub(1)).max(1);
    (chooser.selected_row(column) + 1).saturating_sub(rows)
}

fn filters_area(state: &TuiState) -> Rect {
    let columns = state.facets.columns.len() as u16;
    let most = state.facets.columns.iter().map(|it| it.values.len()).max().unwrap_or(0) as u16;
    let area = popup_area(state.size, columns * WIDTH + 4, most.min(ROWS) + 3);
    // At the bottom the overlay does not hide the first sessions.
    let y = state.size.height.saturating_sub(area.height + 1);
    Rect { y, ..area }
}

/// Returns the columns that fit, with the selected one among them.
fn visible_columns(state: &TuiState, chooser: &Chooser, inside: Rect) -> Vec<(usize, Rect)> {
    let room = usize::from(inside.width / WIDTH).max(1);
    let first = (chooser.column + 1).saturating_sub(room);
    (first..state.facets.columns.len().min(first + room))
        .map(|column| {
            let x = inside.x + (column - first) as u16 * WIDTH;
            (column, Rect { x, width: (WIDTH - 2).min(inside.width), ..inside })
        })
        .collect()
}

/// Returns the column and row at a screen position.
pub(in crate::tui) fn filter_at(state: &TuiState, at: Position) -> Option<(usize, usize)> {
    let Some(Overlay::Filters(chooser)) = &state.overlay else { return None };
    let area = filters_area(state);
    let inside = Rect::new(
        area.x + 2,
        area.y + 1,
        area.width.saturating_sub(4),
        area.height.saturating_sub(2),
    );
    let (column, area) =
        visible_columns(state, chooser, inside).into_iter().find(|(_, area)| area.contains(at))?;
    let row = at.y.checked_sub(area.y + 1)?;
    let row = first_visible_row(chooser, column, area.height) + usize::from(row);
    let count = state.facets.columns.get(column)?.values.len();
    (row < count).then_some((column, row))
}
