//! Search results as text: a heading for each session, a line for each message.

use std::collections::HashSet;
use std::io::Write;

use agent_journal::model::{Block, Message};
use agent_journal::present::{call_subject, nothing_close_line, tier_note};
use agent_journal::search::{Found, Hit, Snippet, Tier};
use agent_journal::{Entry, TextKind};
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use unicode_width::UnicodeWidthStr;

use super::{Report, session_of_hit};
use crate::context::Freshness;
use crate::error::print_remark;
use crate::output::{
    BOLD, DIM, bytes, count, cut_to_width, message_author, pad_to_width, plain_text, relative_time,
    session_badge, short_id, table, text_author,
};

const MATCH: Style = AnsiColor::Yellow.on_default().bold();

/// Columns of a heading apart from title and facts: badge, id and the spaces between.
const FRAME: usize = 21;

/// Narrowest useful title, in columns.
const SHORTEST_TITLE: usize = 16;

/// Narrowest useful list of facts, in columns.
const SHORTEST_FACTS: usize = 8;

/// Writes the results, as many as fit into the byte limit.
pub(crate) fn write_results(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    let mut tail = Vec::new();
    write_facets(&mut tail, report)?;
    let mut written = 0;
    if report.explain {
        let mut piece = Vec::new();
        write_query_explanation(&mut piece, report)?;
        written += piece.len();
        out.write_all(&piece)?;
    }
    for (at, found) in report.answer.sessions.iter().enumerate() {
        let mut piece = Vec::new();
        // Consecutive messages of one session share a heading.
        let before = at.checked_sub(1).map(|before| &report.answer.sessions[before].entry.id);
        let is_further = report.answer.tier == Tier::Listed && before == Some(&found.entry.id);
        let is_bare = found.hits.is_empty() && at > 0;
        if (at > 0 || report.explain) && !is_further && !is_bare {
            writeln!(piece)?;
        }
        if !is_further {
            write_found_heading(&mut piece, found, report)?;
        }
        write_found_session(&mut piece, found, report)?;
        let rest = omitted_text(report, at);
        let is_room = |bound: usize| written + piece.len() + tail.len() + rest.len() + 80 <= bound;
        if !report.max_bytes.is_none_or(is_room) {
            writeln!(out, "{rest}")?;
            break;
        }
        written += piece.len();
        out.write_all(&piece)?;
    }
    out.write_all(&tail)?;
    Ok(())
}

fn omitted_text(report: &Report<'_>, shown: usize) -> String {
    let rest = count(report.remaining_results(shown), report.noun_for_result());
    format!(" {rest} left out · {}", report.next_command(shown))
}

fn write_found_session(out: &mut dyn Write, found: &Found, report: &Report<'_>) -> Result<()> {
    // The title is in the heading already.
    let is_said = |hit: &&Hit| hit.kind != TextKind::Title || found.hits.len() == 1;
    let hits: Vec<&Hit> = found.hits.iter().filter(is_said).collect();
    // Each message is written once, even if it surrounds two hits.
    let mut written: HashSet<(&str, u64)> = hits
        .iter()
        .filter_map(|hit| Some((&*session_of_hit(found, hit).id, hit.position?)))
        .collect();
    for hit in hits {
        let entry = session_of_hit(found, hit);
        let at = hit.position.unwrap_or(0);
        let (before, after): (Vec<_>, Vec<_>) = hit
            .context
            .iter()
            .filter(|(position, _)| written.insert((&entry.id, *position)))
            .partition(|(position, _)| *position < at);
        for (position, message) in before {
            write_context_message(out, entry, *position, message, report.width)?;
        }
        write_hit_line(out, found, hit, report.width)?;
        for (position, message) in after {
            write_context_message(out, entry, *position, message, report.width)?;
        }
    }
    Ok(())
}

fn write_found_heading(out: &mut dyn Write, found: &Found, report: &Report<'_>) -> Result<()> {
    let entry = &found.entry;
    let id = short_id(entry);
    let frame = FRAME + id.width().saturating_sub(8);
    let room = report.width.saturating_sub(frame + SHORTEST_TITLE).min(report.width / 2);
    let label = tier_note(found.tier).unwrap_or_default();
    let facts = format!(
        "{} · {} · {}",
        table::project_and_branch(entry),
        relative_time(entry.ended_at, report.now),
        count(entry.counts.user_prompts, "prompt"),
    );
    let facts = match label {
        "" => cut_to_width(&facts, room),
        _ if room < label.len() + 3 + SHORTEST_FACTS => cut_to_width(label, room),
        _ => format!("{} · {label}", cut_to_width(&facts, room - label.len() - 3)),
    };
    let facts = if room < SHORTEST_FACTS { String::new() } else { facts };
    let title = pad_to_width(&entry.title, report.width.saturating_sub(frame + facts.width()));
    let id = pad_to_width(id, id.width().max(8));
    let facts = if facts.is_empty() { facts } else { format!("  {facts}") };
    writeln!(out, " {} {BOLD}{title}{BOLD:#}  {DIM}{id}{facts}{DIM:#}", session_badge(entry))?;
    Ok(())
}

fn write_hit_line(out: &mut dyn Write, found: &Found, hit: &Hit, width: usize) -> Result<()> {
    let entry = session_of_hit(found, hit);
    let who = text_author(entry, hit.kind);
    let number = hit.position.map_or(String::new(), |position| (position + 1).to_string());
    let mut room = width.saturating_sub(16);
    write!(out, " {DIM}{number:>5}{DIM:#} {} ", pad_to_width(who, 8))?;
    if hit.within.is_some() {
        let id = format!("sub-agent {}: ", plain_text(short_id(entry)));
        room = room.saturating_sub(id.width());
        write!(out, "{DIM}{id}{DIM:#}")?;
    }
    writeln!(out, "{}", highlight_snippet(&hit.snippet, room))?;
    Ok(())
}

/// Returns the text of a message, with one line for each tool call.
fn words_of(message: &Message) -> String {
    let texts = message.blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.clone()),
        Block::ToolCall { name, input, .. } => Some(format!("▸ {name} {}", call_subject(input))),
        Block::ToolResult { output, .. } => Some(output.clone()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Writes a message before or after a hit.
fn write_context_message(
    out: &mut dyn Write,
    entry: &Entry,
    position: u64,
    message: &Message,
    width: usize,
) -> Result<()> {
    let who = message_author(entry, message);
    let text = words_of(message);
    let text = text.split_whitespace().take(60).collect::<Vec<_>>().join(" ");
    let text = cut_to_width(&text, width.saturating_sub(16));
    writeln!(out, " {DIM}{:>5} {} {text}{DIM:#}", position + 1, pad_to_width(who, 8))?;
    Ok(())
}

/// Highlights the matches in a snippet that is cut to a width.
fn highlight_snippet(snippet: &Snippet, width: usize) -> String {
    let kept = cut_to_width(&snippet.text, width);
    // The cut adds an ellipsis and may end inside a highlighted range.
    let end = if kept.len() < snippet.text.len() {
        kept.len().saturating_sub('…'.len_utf8())
    } else {
        kept.len()
    };
    let mut text = String::new();
    let mut at = 0;
    for range in snippet.highlights.iter().filter(|range| range.end <= end) {
        let (Some(before), Some(found)) =
            (snippet.text.get(at..range.start), snippet.text.get(range.clone()))
        else {
            continue;
        };
        text.push_str(&plain_text(before));
        text.push_str(&format!("{MATCH}{}{MATCH:#}", plain_text(found)));
        at = range.end;
    }
    text.push_str(kept.get(at..).unwrap_or_default());
    text
}

fn write_facets(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    for (facet, counts) in &report.answer.facets {
        let name = format!("{facet:?}").to_lowercase();
        let counts: Vec<String> =
            counts.iter().map(|(value, count)| format!("{value} {count}")).collect();
        let counts = cut_to_width(&counts.join(" · "), report.width.saturating_sub(11));
        writeln!(out, "\n {DIM}{}{DIM:#} {counts}", pad_to_width(&name, 9))?;
    }
    Ok(())
}

fn write_query_explanation(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    let mut write_step =
        |name: &str, text: &str| writeln!(out, " {DIM}{}{DIM:#} {text}", pad_to_width(name, 18));
    let clauses: Vec<String> = report.query.clauses.iter().map(ToString::to_string).collect();
    write_step("searches for", &clauses.join(" "))?;
    let filter = report.query.filter.to_string();
    write_step("where", if filter.is_empty() { "everywhere" } else { &filter })?;
    for (typed, read) in &report.answer.corrected {
        write_step("read", &format!("{typed} as {read}: `{typed}` does not occur"))?;
    }
    for stage in &report.answer.stages {
        let took = stage.took.as_secs_f64() * 1e3;
        let found = count(stage.found, "session");
        write_step(&stage.name, &format!("{} → {found} · {took:.1} ms", stage.query))?;
    }
    if report.answer.untried > 0 {
        let untried = count(report.answer.untried, "message");
        write_step("not tried", &format!("{untried}: the expression matches too many candidates"))?;
    }
    Ok(())
}

/// Returns the line that is printed when nothing was found.
pub(crate) fn nothing_found_line(report: &Report<'_>) -> String {
    if report.answer.distant > 0 {
        return nothing_close_line(report.answer.distant);
    }
    let filter = report.query.filter.to_string();
    let place = if filter.is_empty() { String::new() } else { format!(" in {filter}") };
    let unread = if report.freshness.pending_sources == 0 { "" } else { "; index incomplete" };
    let is_list = report.answer.tier == Tier::Listed;
    let advice = if is_list { "" } else { "; try fewer words or a prefix such as `begin*`" };
    format!("nothing found{place}{unread}{advice}")
}

/// Prints one line about the results, for people at a terminal.
pub(crate) fn print_closing_line(report: &Report<'_>) {
    let (answer, took) = (report.answer, report.took);
    let fresh = match report.freshness {
        Freshness { pending_sources: 0, .. } => "up to date".to_owned(),
        freshness => {
            format!("index incomplete: {} left (`aj index`)", bytes(freshness.pending_bytes))
        }
    };
    if answer.untried > 0 {
        let untried = count(answer.untried, "message");
        print_remark(&format!(
            " {untried} not tested against the expression: add a word or a field"
        ));
    }
    if answer.uncovered > 0 {
        let sessions = count(answer.uncovered, "session");
        print_remark(&format!(" search by meaning does not cover {sessions} yet: run `aj index`"));
    }
    let Some(first) = answer.sessions.first() else { return };
    let place = first
        .hits
        .iter()
        .find_map(|hit| {
            let entry = session_of_hit(first, hit);
            hit.position.map(|at| format!("aj show {}#{}", short_id(entry), at + 1))
        })
        .unwrap_or_else(|| {
            // Without `--all`, documents are shown by their first lines only.
            let is_document = first.hits.iter().any(|hit| hit.kind == TextKind::Document);
            let all = if is_document { " --all" } else { "" };
            format!("aj show {}{all}", short_id(&first.entry))
        });
    let shown = answer.sessions.len();
    let total = count(answer.total, report.noun_for_result());
    let read: Vec<String> =
        answer.corrected.iter().map(|(typed, read)| format!("{typed} → {read} · ")).collect();
    let read = read.concat();
    print_remark(&format!(" {shown} of {total} · {read}{took} ms · {fresh} · {place}"));
}
