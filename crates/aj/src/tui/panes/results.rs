//! The sessions that fit, a line each; under it the best place that was found.

use agent_journal::Entry;
use agent_journal::search::{Hit, Snippet};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::{ACCENT, BOLD, DIM, MATCH, put, stamp};
use crate::output::table::place;
use crate::output::{agent_of, ago, cut, pad, pad_left, plain, speaker};
use crate::tui::ansi;
use crate::tui::results::rows;
use crate::tui::state::{Focus, News, State};
use crate::tui::worker::Item;

pub(in crate::tui) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let results = &state.results;
    if results.items().is_empty() {
        return nothing(state, area, buffer);
    }
    let mut row = 0;
    for (at, item) in results.items().iter().enumerate().skip(results.top) {
        if row >= area.height {
            break;
        }
        let is_chosen = at == results.chosen;
        put(buffer, area, row, &heading(state, item, area.width, is_chosen));
        if let Some(hit) = shown_hit(state, item, is_chosen) {
            put(buffer, area, row + 1, &found(item, hit, area.width));
        }
        if is_chosen {
            let style = if state.focus == Focus::List { ACCENT } else { BOLD };
            for line in row..(row + rows(item)).min(area.height) {
                stamp(buffer, (area.x, area.y + line), "▌", style);
            }
        }
        row += rows(item);
    }
}

fn nothing(state: &State, area: Rect, buffer: &mut Buffer) {
    let is_looking = matches!(state.news, News::Looking | News::Reading { .. });
    let lines: &[&str] = match (&state.results.found, is_looking) {
        (None, _) => &[],
        (Some(_), true) => &["The history is being read; what is found appears here."],
        (Some(_), false) if state.input.text.trim().is_empty() => {
            &["No sessions yet.", "`aj sources` tells where was looked."]
        }
        (Some(_), false) => &["Nothing found.", "Fewer words or begin* find more."],
    };
    for (row, text) in lines.iter().enumerate() {
        let style = if row == 0 { Style::new() } else { DIM };
        let line = Line::styled(format!("  {}", cut(text, usize::from(area.width))), style);
        put(buffer, area, row as u16 + 1, &line);
    }
}

/// The place of a session that is shown: the chosen one's is the one that is looked at.
fn shown_hit<'s>(state: &State, item: &'s Item, is_chosen: bool) -> Option<&'s Hit> {
    let at = if is_chosen { state.results.hit } else { 0 };
    item.hits.get(at).or(item.hits.first())
}

fn heading(state: &State, item: &Item, width: u16, is_chosen: bool) -> Line<'static> {
    let entry = &item.entry;
    let columns = Columns::of(width);
    let title = entry.title.replace('\n', " ");
    let style = if is_chosen { BOLD } else { Style::new() };
    let mut spans =
        vec![Span::raw(if entry.status == "running" { " ●" } else { "  " }), badge(entry)];
    match &item.title {
        // A snippet that is not the title as it stands cannot mark it.
        Some(found) if found.text == title => {
            let marked = Line::from(marked(found, columns.title)).patch_style(style);
            let missing = columns.title.saturating_sub(marked.width());
            spans.extend(marked.spans.into_iter().map(|it| it.patch_style(style)));
            spans.push(Span::raw(" ".repeat(missing)));
        }
        _ => spans.push(Span::styled(pad(&title, columns.title), style)),
    }
    if columns.place > 0 {
        spans.push(Span::styled(format!("  {}", pad(&place(entry), columns.place)), DIM));
    }
    let when = short_ago(entry, state);
    spans.push(Span::styled(format!("  {}", pad_left(&when, columns.when)), DIM));
    Line::from(spans)
}

fn short_ago(entry: &Entry, state: &State) -> String {
    ago(entry.ended_at, &state.now).replace(" min ago", "m").replace(" h ago", "h")
}

/// An agent's name in its colour.
pub(super) fn badge(entry: &Entry) -> Span<'static> {
    let agent = agent_of(entry);
    let name = agent.map_or(entry.agent.as_str(), |agent| agent.badge);
    let style = agent.map_or(DIM, |agent| Style::new().fg(ansi::nearest(agent.color)));
    Span::styled(format!("{} ", pad(name, 7)), style.add_modifier(Modifier::BOLD))
}

fn found(item: &Item, hit: &Hit, width: u16) -> Line<'static> {
    let number = hit.position.map_or(String::new(), |position| (position + 1).to_string());
    let who = pad(speaker(&item.entry, hit.kind), 7);
    let mut spans = vec![
        Span::styled(format!("  {} ", pad_left(&number, 5)), DIM),
        Span::styled(format!("{who} "), DIM),
    ];
    spans.extend(marked(&hit.snippet, usize::from(width).saturating_sub(17)));
    Line::from(spans)
}

/// A snippet with the found words marked, as much of it as has room.
fn marked(snippet: &Snippet, width: usize) -> Vec<Span<'static>> {
    let kept = cut(&snippet.text, width);
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
        spans.push(Span::raw(plain(before)));
        spans.push(Span::styled(plain(found), MATCH));
        at = range.end;
    }
    spans.push(Span::raw(kept.get(at..).unwrap_or_default().to_owned()));
    spans
}

/// How a line is divided.
struct Columns {
    title: usize,
    place: usize,
    when: usize,
}

impl Columns {
    fn of(width: u16) -> Self {
        let width = usize::from(width);
        let when = if width < 56 { 9 } else { 11 };
        let place = if width < 56 { 0 } else { (width / 4).clamp(12, 28) };
        let taken = 2 + 8 + if place > 0 { place + 2 } else { 0 } + when + 2 + 1;
        Self { title: width.saturating_sub(taken).max(8), place, when }
    }
}
