//! What the chosen sessions come to.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::{BOLD, DIM, footer, put, rule};
use crate::output::cut;
use crate::tui::filters::tokens;
use crate::tui::layout::Page;
use crate::tui::state::State;

pub(in crate::tui) fn draw(state: &State, areas: &Page, buffer: &mut Buffer) {
    let Some(shown) = &state.stats else { return };
    let fields: Vec<&str> = tokens(&state.input.text).filter(|word| word.contains(':')).collect();
    let chosen = if fields.is_empty() { "everything".to_owned() } else { fields.join(" ") };
    let room = usize::from(areas.head.width.saturating_sub(16));
    let line = Line::from(vec![
        Span::styled(" Statistics  ", BOLD),
        Span::styled(cut(&chosen, room), DIM),
    ]);
    put(buffer, areas.head, 0, &line);
    let last = Rect { y: areas.head.bottom().saturating_sub(1), height: 1, ..areas.head };
    rule(buffer, last, Vec::new());
    if !shown.is_here {
        put(buffer, areas.text, 0, &Line::styled("…", DIM));
    }
    for (row, line) in shown.lines.iter().skip(shown.top).enumerate() {
        put(buffer, areas.text, row as u16, line);
    }
    footer::draw(state, areas.footer, buffer);
}
