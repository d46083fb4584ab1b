//! Lays out a Markdown table: the widest columns shrink first, and their cells take several lines.

use anstyle::Style;
use pulldown_cmark::Alignment;

use super::StyledRun;
use crate::output::DIM;
use crate::output::wrap::{TextCell, break_cells, cells_width, text_cells};

/// Columns between two table columns.
const GAP: usize = 3;

/// Narrowest readable width of a column that was shrunk.
const NARROW: usize = 4;

pub(super) struct MarkdownTable {
    columns: Vec<Alignment>,
    rows: Vec<Vec<Vec<StyledRun>>>,
    row: Vec<Vec<StyledRun>>,
}

impl MarkdownTable {
    pub(super) fn new(columns: Vec<Alignment>) -> Self {
        Self { columns, rows: Vec::new(), row: Vec::new() }
    }

    pub(super) fn add_cell(&mut self, runs: Vec<StyledRun>) {
        self.row.push(runs);
    }

    /// Ends a row; the first row is the head.
    pub(super) fn finish_row(&mut self) {
        let mut row = std::mem::take(&mut self.row);
        if self.rows.is_empty() {
            for (_, style) in row.iter_mut().flatten() {
                *style = style.bold();
            }
        }
        self.rows.push(row);
    }

    /// Renders the table as lines of at most `room` columns.
    pub(super) fn table_lines(&self, room: usize) -> Vec<Vec<StyledRun>> {
        let Some(widths) = self.column_widths(room) else {
            return self.rows.iter().map(|row| row_on_one_line(row)).collect();
        };
        let mut lines = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            self.render_row(row, &widths, &mut lines);
            if at == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(vec![(rules.join("─┼─"), DIM)]);
            }
        }
        lines
    }

    /// Returns the widths of the columns, or `None` if there is no room for readable ones.
    fn column_widths(&self, room: usize) -> Option<Vec<usize>> {
        let count = self.columns.len();
        let room = room.checked_sub(GAP * count.saturating_sub(1))?;
        let natural: Vec<usize> = (0..count)
            .map(|at| self.rows.iter().map(|row| row.get(at).map_or(0, |it| runs_length(it))).max())
            .map(|widest| widest.unwrap_or(0).max(1))
            .collect();
        let fits =
            |most: &usize| natural.iter().map(|width| width.min(most)).sum::<usize>() <= room;
        let most = (1..=room).rev().find(fits)?;
        let is_readable = most >= NARROW || natural.iter().all(|width| *width <= most);
        is_readable.then(|| natural.iter().map(|width| *width.min(&most)).collect())
    }

    fn render_row(
        &self,
        row: &[Vec<StyledRun>],
        widths: &[usize],
        lines: &mut Vec<Vec<StyledRun>>,
    ) {
        let texts: Vec<Vec<TextCell<'_, Style>>> = (0..widths.len())
            .map(|at| flat_cells(row.get(at).map_or(&[][..], Vec::as_slice)))
            .collect();
        let columns: Vec<Vec<&[TextCell<'_, Style>]>> = texts
            .iter()
            .zip(widths)
            .map(|(text, width)| break_cells(text, *width, *width))
            .collect();
        let height = columns.iter().map(Vec::len).max().unwrap_or(1);
        for at in 0..height {
            let mut line = Vec::new();
            for (number, (column, room)) in columns.iter().zip(widths).enumerate() {
                if number > 0 {
                    line.push((" │ ".to_owned(), DIM));
                }
                let text = column.get(at).copied().unwrap_or_default();
                self.render_cell_line(number, text, *room, &mut line);
            }
            lines.push(line);
        }
    }

    /// Adds one line of a cell, aligned in its column.
    fn render_cell_line(
        &self,
        column: usize,
        text: &[TextCell<'_, Style>],
        room: usize,
        line: &mut Vec<StyledRun>,
    ) {
        let missing = room.saturating_sub(cells_width(text));
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

fn flat_cells(runs: &[StyledRun]) -> Vec<TextCell<'_, Style>> {
    runs.iter().flat_map(|(text, style)| text_cells(text, *style)).collect()
}

fn runs_length(runs: &[StyledRun]) -> usize {
    cells_width(&flat_cells(runs))
}

/// Joins the cells of a row on one line, for tables without room for columns.
fn row_on_one_line(row: &[Vec<StyledRun>]) -> Vec<StyledRun> {
    let gap = [(" │ ".to_owned(), DIM)];
    row.join(&gap[..])
}
