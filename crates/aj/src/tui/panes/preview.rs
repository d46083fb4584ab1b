//! A look into the chosen session, at the place that was found.

use ratatui::buffer::Buffer;
use ratatui::text::{Line, Span};

use super::transcript::text;
use super::{DIM, put, rule, stamp};
use crate::output::table::place;
use crate::output::{count, cut, short_id};
use crate::tui::layout::Preview;
use crate::tui::state::State;

pub(in crate::tui) fn draw(state: &State, areas: &Preview, buffer: &mut Buffer) {
    let room = usize::from(areas.head.width.saturating_sub(4));
    let facts = facts(state, room);
    if areas.head == areas.line {
        rule(buffer, areas.line, facts.into_iter().collect());
    } else {
        for y in areas.line.y..areas.line.bottom() {
            stamp(buffer, (areas.line.x, y), "│", DIM);
        }
        let mut line = Line::from(vec![Span::raw(" ")]);
        line.spans.extend(facts);
        put(buffer, areas.head, 0, &line);
    }
    if let Some(preview) = &state.preview {
        text(preview, areas.text, buffer);
    }
}

fn facts(state: &State, width: usize) -> Option<Span<'static>> {
    let item = state.results.chosen()?;
    let entry = &item.entry;
    let mut facts = vec![short_id(entry).to_owned(), place(entry)];
    facts.push(count(entry.counts.user_prompts, "prompt"));
    facts.push(count(entry.counts.tool_calls, "tool"));
    if !entry.children.is_empty() {
        facts.push(count(entry.children.len() as u64, "sub-agent"));
    }
    if item.hits.len() > 1 {
        facts.push(format!("place {} of {} found", state.results.hit + 1, item.hits.len()));
    }
    Some(Span::styled(cut(&facts.join(" · "), width), DIM))
}
