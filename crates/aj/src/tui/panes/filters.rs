//! Filters to choose from, a column for each field.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::{ACCENT, BOLD, DIM, boxed, put};
use crate::output::{pad, pad_left, thousands};
use crate::tui::filters::{Chooser, Column};
use crate::tui::layout::popup;
use crate::tui::state::{Overlay, State};

/// Columns of the screen one field takes.
const WIDTH: u16 = 24;

/// Rows shown at most.
const ROWS: u16 = 14;

pub(in crate::tui) fn draw(state: &State, chooser: &Chooser, buffer: &mut Buffer) {
    let inside = boxed(buffer, area(state), "Filters");
    for (column, area) in shown(state, chooser, inside) {
        let Some(facet) = state.facets.columns.get(column) else { continue };
        let is_here = column == chooser.column;
        put(buffer, area, 0, &Line::styled(facet.field, if is_here { ACCENT } else { BOLD }));
        let top = top(chooser, column, area.height);
        for row in 0..area.height.saturating_sub(1) {
            let at = top + usize::from(row);
            let is_at = is_here && at == chooser.row(column);
            if let Some(line) = line(state, facet, at, is_at) {
                put(buffer, area, row + 1, &line);
            }
        }
    }
}

fn line(state: &State, facet: &Column, at: usize, is_at: bool) -> Option<Line<'static>> {
    let (value, count) = facet.values.get(at)?;
    let is_chosen = state.is_chosen(facet.field, value);
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
        Span::styled(pad(value, 13), style),
        Span::styled(pad_left(&count, 6), DIM),
    ]))
}

/// The first row shown in a column.
fn top(chooser: &Chooser, column: usize, height: u16) -> usize {
    let rows = usize::from(height.saturating_sub(1)).max(1);
    (chooser.row(column) + 1).saturating_sub(rows)
}

fn area(state: &State) -> Rect {
    let columns = state.facets.columns.len() as u16;
    let most = state.facets.columns.iter().map(|it| it.values.len()).max().unwrap_or(0) as u16;
    let area = popup(state.size, columns * WIDTH + 4, most.min(ROWS) + 3);
    // Down there it leaves the sessions in sight.
    let y = state.size.height.saturating_sub(area.height + 1);
    Rect { y, ..area }
}

/// The columns that have room, the chosen one among them.
fn shown(state: &State, chooser: &Chooser, inside: Rect) -> Vec<(usize, Rect)> {
    let room = usize::from(inside.width / WIDTH).max(1);
    let first = (chooser.column + 1).saturating_sub(room);
    (first..state.facets.columns.len().min(first + room))
        .map(|column| {
            let x = inside.x + (column - first) as u16 * WIDTH;
            (column, Rect { x, width: (WIDTH - 2).min(inside.width), ..inside })
        })
        .collect()
}

/// The column and row at a place of the screen.
pub(in crate::tui) fn at(state: &State, at: Position) -> Option<(usize, usize)> {
    let Some(Overlay::Filters(chooser)) = &state.overlay else { return None };
    let area = area(state);
    let inside = Rect::new(
        area.x + 2,
        area.y + 1,
        area.width.saturating_sub(4),
        area.height.saturating_sub(2),
    );
    let (column, area) =
        shown(state, chooser, inside).into_iter().find(|(_, area)| area.contains(at))?;
    let row = at.y.checked_sub(area.y + 1)?;
    let row = top(chooser, column, area.height) + usize::from(row);
    let count = state.facets.columns.get(column)?.values.len();
    (row < count).then_some((column, row))
}
