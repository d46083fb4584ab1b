//! Draws the preview of the selected session at the selected hit.

use ratatui::buffer::Buffer;
use ratatui::text::{Line, Span};

use super::transcript::draw_transcript_text;
use super::{DIM, draw_rule, put_line, stamp_text};
use crate::output::table::project_and_branch;
use crate::output::{count, cut_to_width, short_id};
use crate::tui::layout::Preview;
use crate::tui::state::TuiState;

pub(in crate::tui) fn draw_preview(state: &TuiState, areas: &Preview, buffer: &mut Buffer) {
    let room = usize::from(areas.head.width.saturating_sub(4));
    let facts = preview_facts(state, room);
    if areas.head == areas.line {
        draw_rule(buffer, areas.line, facts.into_iter().collect());
    } else {
        for y in areas.line.y..areas.line.bottom() {
            stamp_text(buffer, areas.line.x, y, "│", DIM);
        }
        let mut line = Line::from(vec![Span::raw(" ")]);
        line.spans.extend(facts);
        put_line(buffer, areas.head, 0, &line);
    }
    if let Some(preview) = &state.preview {
        draw_transcript_text(preview, areas.text, buffer);
    }
}

fn preview_facts(state: &TuiState, width: usize) -> Option<Span<'static>> {
    let item = state.results.selected_item()?;
    let entry = &item.entry;
    let mut facts = vec![short_id(entry).to_owned(), project_and_branch(entry)];
    facts.push(count(entry.counts.user_prompts, "prompt"));
    facts.push(count(entry.counts.tool_calls, "tool"));
    if !entry.children.is_empty() {
        facts.push(count(entry.children.len() as u64, "sub-agent"));
    }
    if item.hits.len() > 1 {
        facts.push(format!("match {} of {}", state.results.hit + 1, item.hits.len()));
    }
    Some(Span::styled(cut_to_width(&facts.join(" · "), width), DIM))
}
