//! Answers for people: a heading for each session, a line for each message.

use std::collections::HashSet;
use std::io::Write;

use agent_journal::model::{Message, Role};
use agent_journal::search::{Found, Hit, Snippet, Tier};
use agent_journal::{Entry, TextKind};
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use unicode_width::UnicodeWidthStr;

use super::json::words_of;
use super::{Report, place};
use crate::error::remark;
use crate::output::{BOLD, DIM, ago, badge, count, cut, pad, plain, short_id, speaker, table};

const MATCH: Style = AnsiColor::Yellow.on_default().bold();

/// Columns of a heading beside title and facts: badge, id and the spaces between.
const FRAME: usize = 21;

/// A title shorter than this says nothing.
const SHORTEST_TITLE: usize = 16;

/// Facts shorter than this say nothing.
const SHORTEST_FACTS: usize = 8;

/// Writes an answer, as much of it as its bound has room for.
pub(crate) fn text(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    let mut tail = Vec::new();
    facets(&mut tail, report)?;
    let mut written = 0;
    if report.explain {
        let mut piece = Vec::new();
        explain(&mut piece, report)?;
        written += piece.len();
        out.write_all(&piece)?;
    }
    for (at, found) in report.answer.sessions.iter().enumerate() {
        let mut piece = Vec::new();
        // Messages of one session that follow each other stand below one heading.
        let before = at.checked_sub(1).map(|before| &report.answer.sessions[before].entry.id);
        let is_further = report.answer.tier == Tier::Listed && before == Some(&found.entry.id);
        let is_bare = found.hits.is_empty() && at > 0;
        if (at > 0 || report.explain) && !is_further && !is_bare {
            writeln!(piece)?;
        }
        if !is_further {
            heading(&mut piece, found, report)?;
        }
        session(&mut piece, found, report)?;
        let rest = left_out(report, at);
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

fn left_out(report: &Report<'_>, shown: usize) -> String {
    let rest = count(report.rest(shown), report.noun());
    format!(" {rest} left out · {}", report.next(shown))
}

fn session(out: &mut dyn Write, found: &Found, report: &Report<'_>) -> Result<()> {
    // The heading has the title already.
    let is_said = |hit: &&Hit| hit.kind != TextKind::Title || found.hits.len() == 1;
    let hits: Vec<&Hit> = found.hits.iter().filter(is_said).collect();
    // What was found, and what stands around two of them, is told once.
    let mut told: HashSet<(&str, u64)> =
        hits.iter().filter_map(|hit| Some((&*place(found, hit).id, hit.position?))).collect();
    for hit in hits {
        let entry = place(found, hit);
        let at = hit.position.unwrap_or(0);
        let (before, after): (Vec<_>, Vec<_>) = hit
            .context
            .iter()
            .filter(|(position, _)| told.insert((&entry.id, *position)))
            .partition(|(position, _)| *position < at);
        for (position, message) in before {
            around(out, entry, (*position, message), report.width)?;
        }
        line(out, found, hit, report.width)?;
        for (position, message) in after {
            around(out, entry, (*position, message), report.width)?;
        }
    }
    Ok(())
}

fn heading(out: &mut dyn Write, found: &Found, report: &Report<'_>) -> Result<()> {
    let entry = &found.entry;
    let id = short_id(entry);
    let frame = FRAME + id.width().saturating_sub(8);
    let room = report.width.saturating_sub(frame + SHORTEST_TITLE).min(report.width / 2);
    let label = match found.tier {
        Tier::SomeWords => "some words",
        Tier::Typo => "nearly",
        Tier::WordForms => "other forms",
        Tier::Meaning => "by meaning",
        _ => "",
    };
    let facts = format!(
        "{} · {} · {}",
        table::place(entry),
        ago(entry.ended_at, report.now),
        count(entry.counts.user_prompts, "prompt"),
    );
    let facts = match label {
        "" => cut(&facts, room),
        _ if room < label.len() + 3 + SHORTEST_FACTS => cut(label, room),
        _ => format!("{} · {label}", cut(&facts, room - label.len() - 3)),
    };
    let facts = if room < SHORTEST_FACTS { String::new() } else { facts };
    let title = pad(&entry.title, report.width.saturating_sub(frame + facts.width()));
    let id = pad(id, id.width().max(8));
    let facts = if facts.is_empty() { facts } else { format!("  {facts}") };
    writeln!(out, " {} {BOLD}{title}{BOLD:#}  {DIM}{id}{facts}{DIM:#}", badge(entry))?;
    Ok(())
}

fn line(out: &mut dyn Write, found: &Found, hit: &Hit, width: usize) -> Result<()> {
    let entry = place(found, hit);
    let who = speaker(entry, hit.kind);
    let number = hit.position.map_or(String::new(), |position| (position + 1).to_string());
    let mut room = width.saturating_sub(16);
    write!(out, " {DIM}{number:>5}{DIM:#} {} ", pad(who, 8))?;
    if hit.within.is_some() {
        let id = format!("in {} ", plain(short_id(entry)));
        room = room.saturating_sub(id.width());
        write!(out, "{DIM}{id}{DIM:#}")?;
    }
    writeln!(out, "{}", marked(&hit.snippet, room))?;
    Ok(())
}

/// A message before or after a hit.
fn around(
    out: &mut dyn Write,
    entry: &Entry,
    (position, message): (u64, &Message),
    width: usize,
) -> Result<()> {
    let who = match message.role {
        Role::User if message.sidechain => "parent",
        Role::User => speaker(entry, TextKind::Prompt),
        Role::Assistant => speaker(entry, TextKind::Reply),
        Role::Tool => "tool",
        Role::System => "notice",
    };
    let text = words_of(message);
    let text = text.split_whitespace().take(60).collect::<Vec<_>>().join(" ");
    let text = cut(&text, width.saturating_sub(16));
    writeln!(out, " {DIM}{:>5} {} {text}{DIM:#}", position + 1, pad(who, 8))?;
    Ok(())
}

/// Marks the found words in a snippet, as much of it as has room.
fn marked(snippet: &Snippet, width: usize) -> String {
    let kept = cut(&snippet.text, width);
    // The cut adds an ellipsis and may end before a mark does.
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
        text.push_str(&plain(before));
        text.push_str(&format!("{MATCH}{}{MATCH:#}", plain(found)));
        at = range.end;
    }
    text.push_str(kept.get(at..).unwrap_or_default());
    text
}

fn facets(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    for (facet, counts) in &report.answer.facets {
        let name = format!("{facet:?}").to_lowercase();
        let counts: Vec<String> =
            counts.iter().map(|(value, count)| format!("{value} {count}")).collect();
        let counts = cut(&counts.join(" · "), report.width.saturating_sub(11));
        writeln!(out, "\n {DIM}{}{DIM:#} {counts}", pad(&name, 9))?;
    }
    Ok(())
}

fn explain(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    let mut tell = |name: &str, text: &str| writeln!(out, " {DIM}{}{DIM:#} {text}", pad(name, 18));
    let clauses: Vec<String> = report.query.clauses.iter().map(ToString::to_string).collect();
    tell("looks for", &clauses.join(" "))?;
    let filter = report.query.filter.to_string();
    tell("where", if filter.is_empty() { "everywhere" } else { &filter })?;
    for (typed, read) in &report.answer.corrected {
        tell("read", &format!("{typed} as {read}: it occurs nowhere"))?;
    }
    for stage in &report.answer.stages {
        let took = stage.took.as_secs_f64() * 1e3;
        let found = count(stage.found, "session");
        tell(&stage.name, &format!("{} → {found} · {took:.1} ms", stage.query))?;
    }
    if report.answer.untried > 0 {
        let untried = count(report.answer.untried, "message");
        tell("not tried", &format!("{untried}: too many have what the expression needs"))?;
    }
    Ok(())
}

/// One line about an answer that is empty.
pub(crate) fn empty(report: &Report<'_>) -> String {
    let filter = report.query.filter.to_string();
    let place = if filter.is_empty() { String::new() } else { format!(" in {filter}") };
    let unread = if report.freshness.pending_sources == 0 { "" } else { "; index incomplete" };
    let is_list = report.answer.tier == Tier::Listed;
    let advice = if is_list { "" } else { "; fewer words or `begin*` find more" };
    format!("nothing found{place}{unread}{advice}")
}

/// One line about the answer, for people at a terminal.
pub(crate) fn closing(report: &Report<'_>) {
    let (answer, took) = (report.answer, report.took);
    let fresh = if report.freshness.pending_sources == 0 { "up to date" } else { "more to read" };
    if answer.untried > 0 {
        let untried = count(answer.untried, "message");
        remark(&format!(" the expression was not tried on {untried}: add a word or a field"));
    }
    if answer.uncovered > 0 {
        let sessions = count(answer.uncovered, "session");
        remark(&format!(" {sessions} not yet found by meaning: run `aj index`"));
    }
    let Some(first) = answer.sessions.first() else { return };
    let place = first
        .hits
        .iter()
        .find_map(|hit| {
            let entry = place(first, hit);
            hit.position.map(|at| format!("aj show {}#{}", short_id(entry), at + 1))
        })
        .unwrap_or_else(|| {
            // Longer texts are told by their first lines otherwise.
            let is_document = first.hits.iter().any(|hit| hit.kind == TextKind::Document);
            let all = if is_document { " --all" } else { "" };
            format!("aj show {}{all}", short_id(&first.entry))
        });
    let shown = answer.sessions.len();
    let total = count(answer.total, report.noun());
    let read: Vec<String> =
        answer.corrected.iter().map(|(typed, read)| format!("{typed} → {read} · ")).collect();
    let read = read.concat();
    remark(&format!(" {shown} of {total} · {read}{took} ms · {fresh} · {place}"));
}
