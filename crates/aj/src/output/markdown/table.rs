//! A table in columns that fit: the widest give way first, and their cells take several lines.

use anstyle::Style;
use pulldown_cmark::Alignment;

use super::Run;
use crate::output::DIM;
use crate::output::wrap::{Cell, broken, cells, width};

/// Between two columns.
const GAP: usize = 3;

/// Columns narrower than this cannot be read.
const NARROW: usize = 4;

pub(super) struct Table {
    columns: Vec<Alignment>,
    rows: Vec<Vec<Vec<Run>>>,
    row: Vec<Vec<Run>>,
}

impl Table {
    pub(super) fn new(columns: Vec<Alignment>) -> Self {
        Self { columns, rows: Vec::new(), row: Vec::new() }
    }

    pub(super) fn cell(&mut self, runs: Vec<Run>) {
        self.row.push(runs);
    }

    /// Ends a row; the first is the head.
    pub(super) fn end_row(&mut self) {
        let mut row = std::mem::take(&mut self.row);
        if self.rows.is_empty() {
            for (_, style) in row.iter_mut().flatten() {
                *style = style.bold();
            }
        }
        self.rows.push(row);
    }

    /// The lines of the table in a width.
    pub(super) fn lines(&self, room: usize) -> Vec<Vec<Run>> {
        let Some(widths) = self.widths(room) else {
            return self.rows.iter().map(|row| listed(row)).collect();
        };
        let mut lines = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            self.row(row, &widths, &mut lines);
            if at == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(vec![(rules.join("─┼─"), DIM)]);
            }
        }
        lines
    }

    /// How wide the columns are, if they fit at all.
    fn widths(&self, room: usize) -> Option<Vec<usize>> {
        let count = self.columns.len();
        let room = room.checked_sub(GAP * count.saturating_sub(1))?;
        let natural: Vec<usize> = (0..count)
            .map(|at| self.rows.iter().map(|row| row.get(at).map_or(0, |it| length(it))).max())
            .map(|widest| widest.unwrap_or(0).max(1))
            .collect();
        let fits =
            |most: &usize| natural.iter().map(|width| width.min(most)).sum::<usize>() <= room;
        let most = (1..=room).rev().find(fits)?;
        let is_readable = most >= NARROW || natural.iter().all(|width| *width <= most);
        is_readable.then(|| natural.iter().map(|width| *width.min(&most)).collect())
    }

    fn row(&self, row: &[Vec<Run>], widths: &[usize], lines: &mut Vec<Vec<Run>>) {
        let texts: Vec<Vec<Cell<'_, Style>>> =
            (0..widths.len()).map(|at| flat(row.get(at).map_or(&[][..], Vec::as_slice))).collect();
        let columns: Vec<Vec<&[Cell<'_, Style>]>> =
            texts.iter().zip(widths).map(|(text, width)| broken(text, (*width, *width))).collect();
        let height = columns.iter().map(Vec::len).max().unwrap_or(1);
        for at in 0..height {
            let mut line = Vec::new();
            for (number, (column, room)) in columns.iter().zip(widths).enumerate() {
                if number > 0 {
                    line.push((" │ ".to_owned(), DIM));
                }
                let text = column.get(at).copied().unwrap_or_default();
                self.place(number, text, *room, &mut line);
            }
            lines.push(line);
        }
    }

    /// Puts a line of a cell where its column wants it.
    fn place(&self, column: usize, text: &[Cell<'_, Style>], room: usize, line: &mut Vec<Run>) {
        let missing = room.saturating_sub(width(text));
        let before = match self.columns[column] {
            Alignment::Right => missing,
            Alignment::Center => missing / 2,
            _ => 0,
        };
        line.push((" ".repeat(before), Style::new()));
        line.extend(text.iter().map(|cell| (cell.text.to_owned(), cell.style)));
        line.push((" ".repeat(missing - before), Style::new()));
    }
}

fn flat(runs: &[Run]) -> Vec<Cell<'_, Style>> {
    runs.iter().flat_map(|(text, style)| cells(text, *style)).collect()
}

fn length(runs: &[Run]) -> usize {
    width(&flat(runs))
}

/// A row that has no room for columns: its cells one after the other.
fn listed(row: &[Vec<Run>]) -> Vec<Run> {
    let gap = [(" │ ".to_owned(), DIM)];
    row.join(&gap[..])
}
