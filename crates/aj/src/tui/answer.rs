//! Answers the requests of the terminal UI from the journal, with the output code of the commands.

use std::sync::Arc;

use agent_journal::analyze::{Extent, StatsQuery};
use agent_journal::model::{Block, Message, Origin};
use agent_journal::present::{nothing_close_line, tier_note};
use agent_journal::search::{
    Answer, Filter, Hit, Query, Scope, SearchOptions, Tier, looks_copied, search_field,
};
use agent_journal::{Entry, Journal, TextKind};
use anyhow::Result;
use jiff::Zoned;
use ratatui::text::Line;

use super::action::{LandmarkKind, Way};
use super::ansi;
use super::worker::{
    FoundSessions, Goal, Landing, Pages, RenderedRow, RequestedWindow, RowMark, SessionItem,
    ViewOptions,
};
use crate::output;
use crate::output::transcript::Transcript;

/// Messages read at a time during a seek.
const STEP: u64 = 256;

/// Minimum length of a word to be searched as a prefix. Shorter prefixes match too many words.
const BEGINNING: usize = 3;

/// Finds the sessions that match the query typed so far. A query with words is searched; fields
/// alone filter the list.
pub(super) fn find_sessions_as_typed(
    journal: &Journal,
    text: &str,
    options: &SearchOptions,
    now: &Zoned,
) -> Result<FoundSessions> {
    let query = Query::parse(&query_as_typed(text), now)?;
    let took = std::time::Duration::ZERO;
    if !query.looks_for_something() {
        let entries = journal.list_entries(&query.filter, Some(options.limit))?;
        let item = |entry| SessionItem { entry, hits: Vec::new(), title: None };
        let mut items: Vec<SessionItem> = entries.into_iter().map(item).collect();
        if query.is_fields_only() && query.filter.lists_messages() {
            add_messages(journal, &query, options, &mut items)?;
        }
        return Ok(FoundSessions {
            items,
            total: journal.count_sessions(&query.filter)?,
            note: None,
            took,
        });
    }
    let answer = search_typed(journal, &query, text, options, now)?;
    let items = answer.sessions.into_iter().map(result_item);
    let mut notes: Vec<String> = query.reading_note.into_iter().collect();
    if answer.distant > 0 {
        notes.push(nothing_close_line(answer.distant));
    } else {
        notes.extend(tier_note(answer.tier).map(str::to_owned));
    }
    let note = (!notes.is_empty()).then(|| notes.join(" · "));
    Ok(FoundSessions { items: items.collect(), total: answer.total, note, took })
}

/// Searches for the query typed so far. If no text has all of its words, the last word is taken as
/// complete: a beginning is never compared by meaning.
fn search_typed(
    journal: &Journal,
    query: &Query,
    text: &str,
    options: &SearchOptions,
    now: &Zoned,
) -> Result<Answer> {
    let answer = journal.search(query, options)?;
    if answer.total > 0 && answer.tier < Tier::SomeWords || query.text == text.trim() {
        return Ok(answer);
    }
    let complete = Query::parse(text, now)?;
    if !complete.looks_for_something() {
        return Ok(answer);
    }
    let whole = journal.search(&complete, options)?;
    Ok(if whole.total > 0 || whole.distant > 0 { whole } else { answer })
}

/// Adds the messages that match the fields to the listed sessions.
fn add_messages(
    journal: &Journal,
    query: &Query,
    options: &SearchOptions,
    items: &mut [SessionItem],
) -> Result<()> {
    for found in journal.search(query, options)?.sessions {
        if let Some(item) = items.iter_mut().find(|item| item.entry.id == found.entry.id) {
            item.hits.extend(found.hits);
        }
    }
    Ok(())
}

/// Converts a search result. Title hits are separated, because the title is always shown.
fn result_item(found: agent_journal::search::Found) -> SessionItem {
    let is_title = |hit: &Hit| hit.kind == TextKind::Title && hit.position.is_none();
    let (titles, hits): (Vec<Hit>, Vec<Hit>) = found.hits.into_iter().partition(is_title);
    let title = titles.into_iter().next().map(|hit| hit.snippet);
    SessionItem { entry: found.entry, hits, title }
}

/// Returns the query to run while it is typed: the last word becomes a prefix, and a field without
/// a value is ignored.
fn query_as_typed(text: &str) -> String {
    let start = text.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let last = text.get(start..).unwrap_or_default();
    if let Some(name) = last.strip_suffix(':')
        && search_field(name).is_some()
    {
        return text[..start].to_owned();
    }
    let is_quoted = text.matches('"').count() % 2 == 1;
    let is_word = last.chars().count() >= BEGINNING
        && last.chars().all(|one| one.is_alphanumeric() || one == '_');
    // A copied line is searched as it stands.
    if is_word && !is_quoted && !looks_copied(text) { format!("{text}*") } else { text.to_owned() }
}

/// Renders a part of a session like `aj show`.
pub(super) fn render_pages(
    journal: &Journal,
    window: &RequestedWindow,
    now: &Zoned,
) -> Result<Pages> {
    let RequestedWindow { entry, range, view } = window;
    let mut transcript = new_transcript(entry, view);
    let figures = journal.figures_of_entries(std::slice::from_ref(entry))?.remove(0);
    // The facts are cut when they are drawn.
    let width = std::mem::replace(&mut transcript.width, usize::MAX);
    transcript.write_header(now, &figures)?;
    transcript.width = width;
    let facts = take_rendered_lines(&mut transcript, usize::MAX);
    let mut messages = Vec::new();
    for (position, message) in journal.read_messages(entry, range.clone())? {
        messages.push((position, message_rows(&mut transcript, position, &message, view)?));
    }
    if range.start == 0 {
        begin_with(document_rows(journal, &mut transcript, view)?, &mut messages);
    }
    Ok(Pages { id: entry.id.clone(), view: view.clone(), facts, messages })
}

fn new_transcript<'a>(entry: &'a Entry, view: &ViewOptions) -> Transcript<'a, Vec<u8>> {
    let mut transcript = Transcript::new(Vec::new(), entry, view.detail, view.width);
    transcript.is_rendered = true;
    transcript.flipped = Arc::clone(&view.flipped);
    transcript
}

/// Renders the documents of a session. They are unfolded together with the first message.
fn document_rows(
    journal: &Journal,
    transcript: &mut Transcript<'_, Vec<u8>>,
    view: &ViewOptions,
) -> Result<Vec<RenderedRow>> {
    transcript.detail.everything = view.detail.everything || view.opened == Some(0);
    transcript.write_session_documents(&journal.session_documents(transcript.entry)?)?;
    Ok(take_rendered_lines(transcript, view.width).into_iter().map(plain_row).collect())
}

/// Inserts rows above the first message, or alone if there is no message.
fn begin_with(mut rows: Vec<RenderedRow>, messages: &mut Vec<(u64, Vec<RenderedRow>)>) {
    match messages.first_mut() {
        Some((0, first)) => {
            rows.append(first);
            *first = rows;
        }
        _ => messages.insert(0, (0, rows)),
    }
}

fn plain_row(line: Line<'static>) -> RenderedRow {
    RenderedRow { line, call: None, mark: RowMark::None }
}

/// Renders a message. The rows of a tool carry the id of its call.
fn message_rows(
    transcript: &mut Transcript<'_, Vec<u8>>,
    position: u64,
    message: &Message,
    view: &ViewOptions,
) -> Result<Vec<RenderedRow>> {
    let is_opened = view.opened == Some(position);
    transcript.detail.tools = view.detail.tools || is_opened;
    transcript.detail.thinking = view.detail.thinking || is_opened;
    transcript.flipped = if is_opened { Arc::default() } else { Arc::clone(&view.flipped) };
    let is_shown = transcript.begin_message(position, message)?;
    let mut rows: Vec<RenderedRow> =
        take_rendered_lines(transcript, view.width).into_iter().map(plain_row).collect();
    for block in message.blocks.iter().filter(|_| is_shown) {
        transcript.write_message_block(block, message)?;
        let (call, first) = match block {
            Block::ToolCall { id, .. } => (Some(Arc::from(id.as_str())), RowMark::Call),
            Block::ToolResult { call_id, is_error, .. } => {
                let has_failed = *is_error == Some(true);
                let mark = if has_failed { RowMark::Failure } else { RowMark::None };
                (Some(Arc::from(call_id.as_str())), mark)
            }
            _ => (None, RowMark::None),
        };
        for (at, line) in take_rendered_lines(transcript, view.width).into_iter().enumerate() {
            let mark = if at == 0 { first } else { RowMark::None };
            rows.push(RenderedRow { line, call: call.clone(), mark });
        }
    }
    Ok(rows)
}

/// Takes the output since the last call, as lines.
fn take_rendered_lines(
    transcript: &mut Transcript<'_, Vec<u8>>,
    width: usize,
) -> Vec<Line<'static>> {
    let text = std::mem::take(&mut transcript.out);
    ansi::wrap_ansi_text(&String::from_utf8_lossy(&text), width)
}

/// Finds the next message with the goal, from one end of the range. In the message `here` only a
/// match in folded text counts.
pub(super) fn seek_landing(
    journal: &Journal,
    window: &RequestedWindow,
    goal: &Goal,
    way: Way,
    here: u64,
) -> Result<Option<Landing>> {
    let (mut from, mut to) = (window.range.start, window.range.end);
    while from < to {
        let part = match way {
            Way::Next => from..to.min(from + STEP),
            Way::Previous => from.max(to.saturating_sub(STEP))..to,
        };
        match way {
            Way::Next => from = part.end,
            Way::Previous => to = part.start,
        }
        let messages = journal.read_messages(&window.entry, part)?;
        let mut fitting = messages
            .iter()
            .filter_map(|(at, message)| {
                landing_in_message(journal, window, *at, message, goal).transpose()
            })
            .filter(|landing| {
                landing.as_ref().map_or(true, |one| one.message != here || one.is_folded)
            });
        let found = if way == Way::Next { fitting.next() } else { fitting.next_back() };
        if found.is_some() {
            return found.transpose();
        }
    }
    Ok(None)
}

/// Returns the message as a match if it contains the goal.
fn landing_in_message(
    journal: &Journal,
    window: &RequestedWindow,
    position: u64,
    message: &Message,
    goal: &Goal,
) -> Result<Option<Landing>> {
    let is_folded = match goal {
        Goal::Text(text) => {
            let unfolded = ViewOptions { opened: Some(position), ..window.view.clone() };
            let lines = |view: &ViewOptions| -> Result<usize> {
                let all = all_rows(journal, &window.entry, view, position, message)?;
                Ok(all.iter().filter(|row| line_contains(&row.line, text)).count())
            };
            let found = lines(&unfolded)?;
            if found == 0 {
                return Ok(None);
            }
            found > lines(&window.view)?
        }
        Goal::Landmark(_) if window.view.detail.hides_message(message) => return Ok(None),
        Goal::Landmark(landmark) if is_landmark(message, *landmark) => false,
        Goal::Landmark(_) => return Ok(None),
    };
    Ok(Some(Landing { message: position, is_folded }))
}

fn is_landmark(message: &Message, landmark: LandmarkKind) -> bool {
    match landmark {
        LandmarkKind::Prompt => {
            message.origin.is_human_prompt() || message.origin == Origin::Command
        }
        LandmarkKind::Tool => {
            message.blocks.iter().any(|block| matches!(block, Block::ToolCall { .. }))
        }
        LandmarkKind::Error => {
            let failed =
                |block: &Block| matches!(block, Block::ToolResult { is_error: Some(true), .. });
            message.failed || message.blocks.iter().any(failed)
        }
    }
}

/// Renders a message, and the documents above the first one.
fn all_rows(
    journal: &Journal,
    entry: &Entry,
    view: &ViewOptions,
    position: u64,
    message: &Message,
) -> Result<Vec<RenderedRow>> {
    let mut transcript = new_transcript(entry, view);
    let mut all = Vec::new();
    if position == 0 {
        all = document_rows(journal, &mut transcript, view)?;
    }
    transcript.detail.everything = view.detail.everything;
    all.extend(message_rows(&mut transcript, position, message, view)?);
    Ok(all)
}

/// Returns whether a line contains a text, ignoring case.
pub(super) fn line_contains(line: &Line<'_>, text: &str) -> bool {
    line.to_string().to_lowercase().contains(&text.to_lowercase())
}

/// Renders the statistics of the sessions that the fields of a query select, like `aj stats`.
pub(super) fn render_stats(
    journal: &Journal,
    text: &str,
    width: usize,
    now: &Zoned,
) -> Result<Vec<Line<'static>>> {
    let chosen =
        Query::parse(&query_as_typed(text), now).map(|query| query.filter).unwrap_or_default();
    let filter = Filter { scope: Scope::All, ..chosen };
    let query =
        StatsQuery { filter, by: None, extent: Extent::Tasks, explain: false, now: now.clone() };
    let stats = journal.stats(&query)?;
    let mut out = Vec::new();
    output::stats::write_summary(&mut out, &stats, now, width)?;
    output::stats::write_overview(&mut out, &stats, now, width)?;
    Ok(ansi::wrap_ansi_text(&String::from_utf8_lossy(&out), width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_about_a_session_stands_above_its_first_message() {
        let rows = |text: &'static str| vec![plain_row(Line::raw(text))];
        let texts = |messages: &[(u64, Vec<RenderedRow>)]| -> Vec<(u64, String)> {
            let line = |(at, rows): &(u64, Vec<RenderedRow>)| {
                (*at, rows.iter().map(|row| row.line.to_string()).collect::<Vec<_>>().join("|"))
            };
            messages.iter().map(line).collect()
        };
        let mut messages = vec![(0, rows("first")), (1, rows("second"))];
        begin_with(rows("plan"), &mut messages);
        assert_eq!(texts(&messages), [(0, "plan|first".into()), (1, "second".into())]);
        let mut messages = Vec::new();
        begin_with(rows("plan"), &mut messages);
        assert_eq!(texts(&messages), [(0, "plan".into())]);
    }

    #[test]
    fn the_word_being_typed_is_a_beginning() {
        let check =
            |text: &str, expected: &str| assert_eq!(query_as_typed(text), expected, "{text}");
        check("flaky log", "flaky log*");
        check("flaky lo", "flaky lo");
        check("flaky login ", "flaky login ");
        check("\"flaky log", "\"flaky log");
        check("-draft", "-draft");
        check("login agent:", "login ");
        check("login agent:codex", "login agent:codex");
        check("std::mem", "std::mem");
        check("", "");
    }
}
