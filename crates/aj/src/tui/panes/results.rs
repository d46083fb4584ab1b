//! Draws the list of matching sessions: one line each, and a line for its best hit.

use agent_journal::Entry;
use agent_journal::model::SessionStatus;
use agent_journal::search::{Hit, Snippet};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::{ACCENT, BOLD, DIM, MATCH, put_line, stamp_text};
use crate::output::table::project_and_branch;
use crate::output::{
    agent_of, cut_to_width, pad_left, pad_to_width, plain_text, relative_time, text_author,
};
use crate::tui::ansi;
use crate::tui::results::item_height;
use crate::tui::state::{Focus, SyncProgress, TuiState};
use crate::tui::worker::SessionItem;

pub(in crate::tui) fn draw_results(state: &TuiState, area: Rect, buffer: &mut Buffer) {
    let results = &state.results;
    if results.result_items().is_empty() {
        return draw_nothing_found(state, area, buffer);
    }
    let mut row = 0;
    for (at, item) in results.result_items().iter().enumerate().skip(results.top) {
        if row >= area.height {
            break;
        }
        let is_chosen = at == results.chosen;
        put_line(buffer, area, row, &result_heading(state, item, area.width, is_chosen));
        if let Some(hit) = shown_hit(state, item, is_chosen) {
            put_line(buffer, area, row + 1, &found_line(item, hit, area.width));
        }
        if is_chosen {
            let style = if state.focus == Focus::List { ACCENT } else { BOLD };
            for line in row..(row + item_height(item)).min(area.height) {
                stamp_text(buffer, area.x, area.y + line, "▌", style);
            }
        }
        row += item_height(item);
    }
}

fn draw_nothing_found(state: &TuiState, area: Rect, buffer: &mut Buffer) {
    let is_syncing = matches!(state.sync, SyncProgress::Checking | SyncProgress::Reading { .. });
    let lines: &[&str] = match (&state.results.found, is_syncing) {
        (None, _) => &[],
        (Some(_), true) => &["Reading sessions; results appear here."],
        (Some(_), false) if state.input.text.trim().is_empty() => {
            &["No sessions yet.", "`aj sources --all` lists the scanned directories."]
        }
        (Some(_), false) => &["Nothing found.", "Try fewer words or a prefix such as begin*."],
    };
    for (row, text) in lines.iter().enumerate() {
        let style = if row == 0 { Style::new() } else { DIM };
        let line =
            Line::styled(format!("  {}", cut_to_width(text, usize::from(area.width))), style);
        put_line(buffer, area, row as u16 + 1, &line);
    }
}

/// Returns the hit to show below a session: the selected hit of the selected session, otherwise the
/// first one.
fn shown_hit<'s>(state: &TuiState, item: &'s SessionItem, is_chosen: bool) -> Option<&'s Hit> {
    let at = if is_chosen { state.results.hit } else { 0 };
    item.hits.get(at).or(item.hits.first())
}

fn result_heading(
    state: &TuiState,
    item: &SessionItem,
    width: u16,
    is_chosen: bool,
) -> Line<'static> {
    let entry = &item.entry;
    let columns = ColumnWidths::for_width(width);
    let title = entry.title.replace('\n', " ");
    let style = if is_chosen { BOLD } else { Style::new() };
    let mut spans = vec![
        Span::raw(if entry.status == SessionStatus::Running { " ●" } else { "  " }),
        badge_span(entry),
    ];
    match &item.title {
        // A snippet that differs from the title cannot highlight it.
        Some(found) if found.text == title => {
            let marked = Line::from(marked_spans(found, columns.title)).patch_style(style);
            let missing = columns.title.saturating_sub(marked.width());
            spans.extend(marked.spans.into_iter().map(|it| it.patch_style(style)));
            spans.push(Span::raw(" ".repeat(missing)));
        }
        _ => spans.push(Span::styled(pad_to_width(&title, columns.title), style)),
    }
    if columns.place > 0 {
        spans.push(Span::styled(
            format!("  {}", pad_to_width(&project_and_branch(entry), columns.place)),
            DIM,
        ));
    }
    let when = short_ago(entry, state);
    spans.push(Span::styled(format!("  {}", pad_left(&when, columns.when)), DIM));
    Line::from(spans)
}

fn short_ago(entry: &Entry, state: &TuiState) -> String {
    relative_time(entry.ended_at, &state.now).replace(" min ago", "m").replace(" h ago", "h")
}

/// Returns an agent's name in its colour.
pub(super) fn badge_span(entry: &Entry) -> Span<'static> {
    let agent = agent_of(entry);
    let name = agent.map_or(entry.agent.as_str(), |agent| agent.badge);
    let style = agent
        .map_or(DIM, |agent| Style::new().fg(ansi::nearest_terminal_color(agent.color.into())));
    Span::styled(format!("{} ", pad_to_width(name, 7)), style.add_modifier(Modifier::BOLD))
}

fn found_line(item: &SessionItem, hit: &Hit, width: u16) -> Line<'static> {
    let number = hit.position.map_or(String::new(), |position| (position + 1).to_string());
    let who = pad_to_width(text_author(&item.entry, hit.kind), 7);
    let mut spans = vec![
        Span::styled(format!("  {} ", pad_left(&number, 5)), DIM),
        Span::styled(format!("{who} "), DIM),
    ];
    spans.extend(marked_spans(&hit.snippet, usize::from(width).saturating_sub(17)));
    Line::from(spans)
}

/// Highlights the matches of a snippet, cut to the width.
fn marked_spans(snippet: &Snippet, width: usize) -> Vec<Span<'static>> {
    let kept = cut_to_width(&snippet.text, width);
    let whole = kept.strip_suffix('…').filter(|kept| snippet.text.starts_with(*kept));
    let end = whole.unwrap_or(&kept).len();
    let mut spans = Vec::new();
    let mut at = 0;
    for range in snippet.highlights.iter().filter(|range| range.end <= end) {
        let (Some(before), Some(found)) =
            (snippet.text.get(at..range.start), snippet.text.get(range.clone()))
        else {
            continue;
        };
        spans.push(Span::raw(plain_text(before)));
        spans.push(Span::styled(plain_text(found), MATCH));
        at = range.end;
    }
    spans.push(Span::raw(kept.get(at..).unwrap_or_default().to_owned()));
    spans
}

/// Widths of the columns of a line.
struct ColumnWidths {
    title: usize,
    place: usize,
    when: usize,
}

impl ColumnWidths {
    fn for_width(width: u16) -> Self {
        let width = usize::from(width);
        let when = if width < 56 { 9 } else { 11 };
        let place = if width < 56 { 0 } else { (width / 4).clamp(12, 28) };
        let taken = 2 + 8 + if place > 0 { place + 2 } else { 0 } + when + 2 + 1;
        Self { title: width.saturating_sub(taken).max(8), place, when }
    }
}
