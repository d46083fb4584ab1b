//! Draws the query line and the summary of its results.

use agent_journal::search::search_field;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::{ACCENT, BOLD, DIM, WRONG, draw_rule, put_line};
use crate::output::{count, cut_to_width, thousands};
use crate::tui::layout::BrowseLayout;
use crate::tui::state::{Focus, TuiState};

/// Columns before the text.
const PROMPT: u16 = 3;

const HINT: &str = "words, \"a phrase\", prefix*, -exclude, agent: project: since: …";

pub(in crate::tui) fn draw_search_field(
    state: &TuiState,
    areas: &BrowseLayout,
    buffer: &mut Buffer,
) {
    let is_focused = state.focus == Focus::Search;
    let sign = Span::styled(" ❯ ", if is_focused { ACCENT } else { DIM });
    let text = &state.input.text;
    let mut line = Line::from(vec![sign]);
    if text.is_empty() {
        let room = usize::from(areas.input.width.saturating_sub(PROMPT + 1));
        line.spans.push(Span::styled(cut_to_width(HINT, room), DIM));
    } else {
        line.spans.extend(colored_query(&text[visible_query_start(state, areas.input)..]));
    }
    put_line(buffer, areas.input, 0, &line);
    draw_rule(buffer, areas.summary, search_summary(state, areas.summary.width));
}

/// Colours the fields of the query.
fn colored_query(text: &str) -> Vec<Span<'_>> {
    let field = Style::new().fg(Color::Cyan);
    text.split_inclusive(char::is_whitespace)
        .map(|word| match word.split_once(':') {
            Some((name, _)) if search_field(name).is_some() => Span::styled(word, field),
            _ => Span::raw(word),
        })
        .collect()
}

/// Returns the byte offset at which the visible part of a long query begins.
fn visible_query_start(state: &TuiState, area: Rect) -> usize {
    let room = usize::from(area.width.saturating_sub(PROMPT + 1));
    let before = &state.input.text[..state.input.at];
    let over = before.width().saturating_sub(room);
    let mut passed = 0;
    let start = before.char_indices().find(|(_, one)| {
        let is_enough = passed >= over;
        passed += one.to_string().width();
        is_enough
    });
    start.map_or(before.len(), |(at, _)| at)
}

pub(super) fn query_cursor(state: &TuiState, area: Rect) -> Option<Position> {
    if state.focus != Focus::Search {
        return None;
    }
    let shown = &state.input.text[visible_query_start(state, area)..state.input.at];
    Some(Position::new(area.x + PROMPT + shown.width() as u16, area.y))
}

fn search_summary(state: &TuiState, width: u16) -> Vec<Span<'_>> {
    let completion = &state.completion;
    if state.focus == Focus::Search && !completion.options.is_empty() {
        return completion
            .options
            .iter()
            .enumerate()
            .flat_map(|(at, option)| {
                let is_chosen = completion.chosen == Some(at);
                let style = if is_chosen { BOLD.add_modifier(Modifier::REVERSED) } else { DIM };
                [Span::styled(option.as_str(), style), Span::raw("  ")]
            })
            .collect();
    }
    if let Some(error) = &state.results.error {
        return vec![Span::styled(
            cut_to_width(error, usize::from(width.saturating_sub(4))),
            WRONG,
        )];
    }
    let Some(found) = &state.results.found else { return Vec::new() };
    let shown = found.items.len() as u64;
    let mut parts = vec![if shown < found.total
        && state.results.selected_item().is_some_and(|it| !it.hits.is_empty())
    {
        format!("{shown} of {} sessions", thousands(found.total))
    } else {
        count(found.total, "session")
    }];
    parts.extend(found.note.clone());
    if !found.took.is_zero() {
        parts.push(format!("{} ms", found.took.as_millis()));
    }
    vec![Span::styled(parts.join(" · "), DIM)]
}
