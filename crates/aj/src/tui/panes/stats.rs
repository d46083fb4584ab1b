//! Draws the statistics of the filtered sessions.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::{BOLD, DIM, draw_rule, footer, put_line};
use crate::output::cut_to_width;
use crate::tui::filters::query_tokens;
use crate::tui::layout::TextPageLayout;
use crate::tui::state::TuiState;

pub(in crate::tui) fn draw_stats(state: &TuiState, areas: &TextPageLayout, buffer: &mut Buffer) {
    let Some(shown) = &state.stats else { return };
    let fields: Vec<&str> =
        query_tokens(&state.input.text).filter(|word| word.contains(':')).collect();
    let chosen = if fields.is_empty() { "everything".to_owned() } else { fields.join(" ") };
    let room = usize::from(areas.head.width.saturating_sub(16));
    let line = Line::from(vec![
        Span::styled(" Statistics  ", BOLD),
        Span::styled(cut_to_width(&chosen, room), DIM),
    ]);
    put_line(buffer, areas.head, 0, &line);
    let last = Rect { y: areas.head.bottom().saturating_sub(1), height: 1, ..areas.head };
    draw_rule(buffer, last, Vec::new());
    if !shown.is_here {
        put_line(buffer, areas.text, 0, &Line::styled("…", DIM));
    }
    for (row, line) in shown.lines.iter().skip(shown.top).enumerate() {
        put_line(buffer, areas.text, row as u16, line);
    }
    footer::draw_footer(state, areas.footer, buffer);
}
