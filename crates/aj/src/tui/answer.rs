//! How questions are answered: from the journal, in the words of the other commands.

use std::sync::Arc;

use agent_journal::analyze::{Extent, StatsQuery};
use agent_journal::model::{Block, Message, Origin};
use agent_journal::search::{Filter, Hit, Query, Scope, Tier, field_called};
use agent_journal::{Entry, Journal, TextKind};
use anyhow::Result;
use jiff::Zoned;
use ratatui::text::Line;

use super::action::{Landmark, Way};
use super::ansi;
use super::worker::{Found, Goal, Item, Landing, Mark, Pages, Row, View, Window};
use crate::output;
use crate::output::transcript::Transcript;

/// Messages read at a time while something is sought.
const STEP: u64 = 256;

/// Shorter beginnings of words stand for too many words to be worth a look.
const BEGINNING: usize = 3;

/// Finds the sessions that fit what is typed so far; words alone are looked for, fields alone
/// choose from the list.
pub(super) fn find(journal: &Journal, text: &str, limit: usize, now: &Zoned) -> Result<Found> {
    let query = Query::parse(&typed(text), now)?;
    let took = std::time::Duration::ZERO;
    if !query.looks_for_something() {
        let entries = journal.sessions(&query.filter, Some(limit))?;
        let item = |entry| Item { entry, hits: Vec::new(), title: None };
        let mut items: Vec<Item> = entries.into_iter().map(item).collect();
        if query.is_fields_only() && query.filter.lists_messages() {
            add_messages(journal, &query, limit, &mut items)?;
        }
        return Ok(Found { items, total: journal.count(&query.filter)?, note: None, took });
    }
    let answer = journal.search(&query, limit, 0)?;
    let items = answer.sessions.into_iter().map(item);
    let note = match answer.tier {
        Tier::Typo => Some("spelt otherwise"),
        Tier::WordForms => Some("other word forms"),
        Tier::SomeWords => Some("some words"),
        Tier::Meaning => Some("by meaning"),
        _ => None,
    };
    Ok(Found { items: items.collect(), total: answer.total, note, took })
}

/// Adds the messages that fields choose to the sessions they are in.
fn add_messages(journal: &Journal, query: &Query, limit: usize, items: &mut [Item]) -> Result<()> {
    for found in journal.search(query, limit, 0)?.sessions {
        if let Some(item) = items.iter_mut().find(|item| item.entry.id == found.entry.id) {
            item.hits.extend(found.hits);
        }
    }
    Ok(())
}

/// A session with the places found in it; the title is shown anyway, and is marked there.
fn item(found: agent_journal::search::Found) -> Item {
    let is_title = |hit: &Hit| hit.kind == TextKind::Title && hit.position.is_none();
    let (titles, hits): (Vec<Hit>, Vec<Hit>) = found.hits.into_iter().partition(is_title);
    let title = titles.into_iter().next().map(|hit| hit.snippet);
    Item { entry: found.entry, hits, title }
}

/// What is meant by a query that is still being typed: its last word is a beginning, and a field
/// without a value is none yet.
fn typed(text: &str) -> String {
    let start = text.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let last = text.get(start..).unwrap_or_default();
    if let Some(name) = last.strip_suffix(':')
        && field_called(name).is_some()
    {
        return text[..start].to_owned();
    }
    let is_quoted = text.matches('"').count() % 2 == 1;
    let is_word = last.chars().count() >= BEGINNING
        && last.chars().all(|one| one.is_alphanumeric() || one == '_');
    if is_word && !is_quoted { format!("{text}*") } else { text.to_owned() }
}

/// Renders a part of a session, as `aj show` does.
pub(super) fn pages(journal: &Journal, window: &Window, now: &Zoned) -> Result<Pages> {
    let Window { entry, range, view } = window;
    let mut transcript = transcript(entry, view);
    let figures = journal.session_figures(std::slice::from_ref(entry))?.remove(0);
    // Facts are cut where they are shown.
    let width = std::mem::replace(&mut transcript.width, usize::MAX);
    transcript.header(now, &figures)?;
    transcript.width = width;
    let facts = taken(&mut transcript, usize::MAX);
    let mut messages = Vec::new();
    for (position, message) in journal.messages(entry, range.clone())? {
        messages.push((position, rows(&mut transcript, (position, &message), view)?));
    }
    if range.start == 0 {
        begin_with(documents(journal, &mut transcript, view)?, &mut messages);
    }
    Ok(Pages { id: entry.id.clone(), view: view.clone(), facts, messages })
}

fn transcript<'a>(entry: &'a Entry, view: &View) -> Transcript<'a, Vec<u8>> {
    let mut transcript = Transcript::new(Vec::new(), entry, view.detail, view.width);
    transcript.is_rendered = true;
    transcript.flipped = Arc::clone(&view.flipped);
    transcript
}

/// The lines of the longer texts about a session. They are unfolded with the first message.
fn documents(
    journal: &Journal,
    transcript: &mut Transcript<'_, Vec<u8>>,
    view: &View,
) -> Result<Vec<Row>> {
    transcript.detail.everything = view.detail.everything || view.opened == Some(0);
    transcript.documents(&journal.documents(transcript.entry)?)?;
    Ok(taken(transcript, view.width).into_iter().map(plain).collect())
}

/// Puts lines above the first message; they stand alone when there is none.
fn begin_with(mut rows: Vec<Row>, messages: &mut Vec<(u64, Vec<Row>)>) {
    match messages.first_mut() {
        Some((0, first)) => {
            rows.append(first);
            *first = rows;
        }
        _ => messages.insert(0, (0, rows)),
    }
}

fn plain(line: Line<'static>) -> Row {
    Row { line, call: None, mark: Mark::None }
}

/// The lines of a message; those of tools know whose they are.
fn rows(
    transcript: &mut Transcript<'_, Vec<u8>>,
    (position, message): (u64, &Message),
    view: &View,
) -> Result<Vec<Row>> {
    let is_opened = view.opened == Some(position);
    transcript.detail.tools = view.detail.tools || is_opened;
    transcript.detail.thinking = view.detail.thinking || is_opened;
    transcript.flipped = if is_opened { Arc::default() } else { Arc::clone(&view.flipped) };
    let is_shown = transcript.begin(position, message)?;
    let mut rows: Vec<Row> = taken(transcript, view.width).into_iter().map(plain).collect();
    for block in message.blocks.iter().filter(|_| is_shown) {
        transcript.block(block, message)?;
        let (call, first) = match block {
            Block::ToolCall { id, .. } => (Some(Arc::from(id.as_str())), Mark::Call),
            Block::ToolResult { call_id, is_error, .. } => {
                let has_failed = *is_error == Some(true);
                let mark = if has_failed { Mark::Failure } else { Mark::None };
                (Some(Arc::from(call_id.as_str())), mark)
            }
            _ => (None, Mark::None),
        };
        for (at, line) in taken(transcript, view.width).into_iter().enumerate() {
            let mark = if at == 0 { first } else { Mark::None };
            rows.push(Row { line, call: call.clone(), mark });
        }
    }
    Ok(rows)
}

/// What was written since the last time, as lines.
fn taken(transcript: &mut Transcript<'_, Vec<u8>>, width: usize) -> Vec<Line<'static>> {
    let text = std::mem::take(&mut transcript.out);
    ansi::lines(&String::from_utf8_lossy(&text), width)
}

/// Finds the next message from one end of the range on that has what is sought. Of the message
/// `here` only what is folded is new.
pub(super) fn seek(
    journal: &Journal,
    window: &Window,
    goal: &Goal,
    (way, here): (Way, u64),
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
        let messages = journal.messages(&window.entry, part)?;
        let mut fitting = messages
            .iter()
            .filter_map(|(at, message)| landing(journal, window, (*at, message), goal).transpose())
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

/// The message, if it has what is sought.
fn landing(
    journal: &Journal,
    window: &Window,
    (position, message): (u64, &Message),
    goal: &Goal,
) -> Result<Option<Landing>> {
    let is_folded = match goal {
        Goal::Text(text) => {
            let unfolded = View { opened: Some(position), ..window.view.clone() };
            let lines = |view: &View| -> Result<usize> {
                let all = all_rows(journal, &window.entry, view, (position, message))?;
                Ok(all.iter().filter(|row| contains(&row.line, text)).count())
            };
            let found = lines(&unfolded)?;
            if found == 0 {
                return Ok(None);
            }
            found > lines(&window.view)?
        }
        Goal::Landmark(_) if window.view.detail.hides(message) => return Ok(None),
        Goal::Landmark(landmark) if fits(message, *landmark) => false,
        Goal::Landmark(_) => return Ok(None),
    };
    Ok(Some(Landing { message: position, is_folded }))
}

fn fits(message: &Message, landmark: Landmark) -> bool {
    match landmark {
        Landmark::Prompt => message.origin.is_prompt() || message.origin == Origin::Command,
        Landmark::Tool => {
            message.blocks.iter().any(|block| matches!(block, Block::ToolCall { .. }))
        }
        Landmark::Error => {
            let failed =
                |block: &Block| matches!(block, Block::ToolResult { is_error: Some(true), .. });
            message.failed || message.blocks.iter().any(failed)
        }
    }
}

/// The lines of a message, and before the first those of the longer texts.
fn all_rows(
    journal: &Journal,
    entry: &Entry,
    view: &View,
    (position, message): (u64, &Message),
) -> Result<Vec<Row>> {
    let mut transcript = transcript(entry, view);
    let mut all = Vec::new();
    if position == 0 {
        all = documents(journal, &mut transcript, view)?;
    }
    transcript.detail.everything = view.detail.everything;
    all.extend(rows(&mut transcript, (position, message), view)?);
    Ok(all)
}

/// Whether a text stands in a line, whatever its case.
pub(super) fn contains(line: &Line<'_>, text: &str) -> bool {
    line.to_string().to_lowercase().contains(&text.to_lowercase())
}

/// Sums up the sessions that the fields of a query choose, as `aj stats` does.
pub(super) fn stats(
    journal: &Journal,
    text: &str,
    width: usize,
    now: &Zoned,
) -> Result<Vec<Line<'static>>> {
    let chosen = Query::parse(&typed(text), now).map(|query| query.filter).unwrap_or_default();
    let filter = Filter { scope: Scope::All, ..chosen };
    let query =
        StatsQuery { filter, by: None, extent: Extent::Tasks, explain: false, now: now.clone() };
    let stats = journal.stats(&query)?;
    let mut out = Vec::new();
    output::stats::summary(&mut out, &stats, now, width)?;
    output::stats::overview(&mut out, &stats, now, width)?;
    Ok(ansi::lines(&String::from_utf8_lossy(&out), width))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_about_a_session_stands_above_its_first_message() {
        let rows = |text: &'static str| vec![plain(Line::raw(text))];
        let told = |messages: &[(u64, Vec<Row>)]| -> Vec<(u64, String)> {
            let line = |(at, rows): &(u64, Vec<Row>)| {
                (*at, rows.iter().map(|row| row.line.to_string()).collect::<Vec<_>>().join("|"))
            };
            messages.iter().map(line).collect()
        };
        let mut messages = vec![(0, rows("first")), (1, rows("second"))];
        begin_with(rows("plan"), &mut messages);
        assert_eq!(told(&messages), [(0, "plan|first".into()), (1, "second".into())]);
        let mut messages = Vec::new();
        begin_with(rows("plan"), &mut messages);
        assert_eq!(told(&messages), [(0, "plan".into())]);
    }

    #[test]
    fn the_word_being_typed_is_a_beginning() {
        let check = |text: &str, expected: &str| assert_eq!(typed(text), expected, "{text}");
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
