//! Draws a session that is read.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::results::badge_span;
use super::{ACCENT, BOLD, DIM, MATCH, draw_rule, footer, put_line, stamp_text};
use crate::output::{cut_to_width, thousands};
use crate::tui::ansi::highlight_needle;
use crate::tui::layout::TextPageLayout;
use crate::tui::reader::TranscriptReader;
use crate::tui::state::TuiState;

pub(in crate::tui) fn draw_transcript(
    state: &TuiState,
    areas: &TextPageLayout,
    buffer: &mut Buffer,
) {
    let Some(reader) = &state.reader else { return };
    draw_transcript_head(reader, areas.head, buffer);
    draw_transcript_text(reader, areas.text, buffer);
    footer::draw_footer(state, areas.footer, buffer);
}

fn draw_transcript_head(reader: &TranscriptReader, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let place =
        format!("{} of {} ", thousands(reader.at.message + 1), thousands(reader.message_total()));
    let title = reader.entry.title.replace('\n', " ");
    let title = cut_to_width(&title, width.saturating_sub(10 + place.len()));
    let line =
        Line::from(vec![Span::raw(" "), badge_span(&reader.entry), Span::styled(title, BOLD)]);
    put_line(buffer, area, 0, &line);
    let end = area.right().saturating_sub(place.len() as u16);
    stamp_text(buffer, end, area.y, &place, DIM);
    // The first fact is the title, the second one project and time.
    if area.height > 2
        && let Some(facts) = reader.facts.get(1)
    {
        let line = Line::from(vec![
            Span::raw(" "),
            Span::styled(cut_to_width(&facts.to_string(), width.saturating_sub(2)), DIM),
        ]);
        put_line(buffer, area, 1, &line);
    }
    let last = Rect { y: area.bottom().saturating_sub(1), height: 1, ..area };
    draw_rule(buffer, last, Vec::new());
}

/// Draws the visible rows of a session with highlighted matches.
pub(super) fn draw_transcript_text(reader: &TranscriptReader, area: Rect, buffer: &mut Buffer) {
    if !reader.is_loaded() {
        put_line(buffer, area, 0, &Line::styled("…", DIM));
        return;
    }
    let mut first = None;
    for (number, (place, row)) in reader.rows_on_screen().enumerate() {
        let number = number as u16;
        let mark = |line: Line<'static>, it: &String| highlight_needle(&line, it, MATCH);
        put_line(
            buffer,
            area,
            number,
            &reader.highlighted_words().iter().fold(row.line.clone(), mark),
        );
        let is_there = place.message == reader.at.message && place >= reader.at;
        if is_there && !row.is_blank_row() && first.is_none() {
            first = Some(number);
        }
    }
    if let Some(row) = first
        && area.x > 0
    {
        stamp_text(buffer, area.x - 1, area.y + row, "▌", ACCENT);
    }
}
