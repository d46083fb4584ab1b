//! Statistics as people read them.

use std::collections::BTreeMap;
use std::io::Write;

use agent_journal::analyze::{By, Counted, Figures, Group, Stats};
use anyhow::Result;
use jiff::Zoned;
use jiff::civil::Date;
use unicode_width::UnicodeWidthStr;

use super::wrap::gathered;
use super::{
    BOLD, DIM, amount, chart, clock, count, cut, duration, money, not_in_transcript, pad, pad_left,
    percent, plain, thousands, tokens, width,
};

/// Lines of a small table beside another.
const SMALL: usize = 6;

/// Columns that are left to a session's title beside its id.
const MIN_TITLE: usize = 6;

/// Writes the totals.
pub(crate) fn summary(out: &mut dyn Write, stats: &Stats, now: &Zoned, width: usize) -> Result<()> {
    let totals = &stats.totals;
    let sessions = format!(
        "sessions {BOLD}{}{BOLD:#}{}",
        thousands(totals.sessions),
        change(totals.sessions, stats.previous.as_ref().map(|it| it.sessions)),
    );
    let failed = totals
        .error_rate()
        .map_or(String::new(), |rate| format!(" {DIM}({} failed){DIM:#}", percent(rate)));
    let done = [
        format!("{DIM}{}{DIM:#}", period(stats, now)),
        sessions,
        format!("prompts {BOLD}{}{BOLD:#}", thousands(totals.prompts)),
        format!("active {BOLD}{}{BOLD:#}", duration(totals.active_s)),
        format!("work {}", duration(totals.work_s)),
        format!("tools {BOLD}{}{BOLD:#}{failed}", thousands(totals.tool_calls)),
    ];
    let spent = &totals.tokens;
    let of = |number: u64| tokens(spent, number);
    let priced = match totals.cost.priced_share() {
        Some(share) if share < 1.0 => {
            format!(" {DIM}({} of tokens priced){DIM:#}", percent(share))
        }
        _ => String::new(),
    };
    let before = stats.previous.as_ref().map(|it| it.cost.micros().unwrap_or(0));
    let changed = change(totals.cost.micros().unwrap_or(0), before);
    let spent = [
        format!("{DIM}tokens{DIM:#}"),
        format!("in {}", of(spent.input)),
        format!("out {}", of(spent.output)),
        format!("cache read {}", of(spent.cache_read)),
        format!("write {}", of(spent.cache_creation)),
        format!("cost {BOLD}{}{BOLD:#}{changed}{priced}", money(&totals.cost)),
    ];
    for facts in [&done[..], &spent] {
        let lines = gathered(facts, "   ", width.saturating_sub(1));
        writeln!(out, " {}", lines.join("\n "))?;
    }
    if let Some(line) = not_in_transcript(totals) {
        writeln!(out, " {DIM}{line}{DIM:#}")?;
    }
    Ok(())
}

/// The time in question, in words.
fn period(stats: &Stats, now: &Zoned) -> String {
    let day = |at: agent_journal::model::Timestamp| {
        clock(Some(at), now).split(' ').next().unwrap_or_default().to_owned()
    };
    match (stats.period.since, stats.period.until) {
        (None, None) => "all time".to_owned(),
        (Some(since), None) => format!("since {}", day(since)),
        (None, Some(until)) => format!("until {}", day(until)),
        (Some(since), Some(until)) => format!("{} to {}", day(since), day(until)),
    }
}

/// How a number compares with the period before.
fn change(number: u64, before: Option<u64>) -> String {
    let Some(before) = before.filter(|before| *before > 0) else { return String::new() };
    let change = (number as f64 / before as f64 - 1.0) * 100.0;
    format!(" {DIM}({change:+.0} %){DIM:#}")
}

/// Writes what matters most of everything.
pub(crate) fn overview(
    out: &mut dyn Write,
    stats: &Stats,
    now: &Zoned,
    width: usize,
) -> Result<()> {
    let mut facts = Vec::new();
    facts.extend(stats.totals.turns_per_session().map(|n| format!("{n:.1} prompts a session")));
    let hit = stats.totals.cache_hit_ratio();
    facts.extend(hit.map(|share| format!("{} of input from caches", percent(share))));
    facts.extend(stats.refs.iter().map(|it| format!("{} {}", it.count, plain(&it.name))));
    let lines = gathered(&facts, " · ", width.saturating_sub(1));
    writeln!(out, " {DIM}{}{DIM:#}\n", lines.join("\n "))?;

    let models = stats.models.iter().map(|it| {
        let tokens = total(&it.figures);
        (name(it), [amount(it.figures.sessions), tokens, money(&it.figures.cost)])
    });
    let projects = stats.projects.iter().map(|it| {
        let tokens = total(&it.figures);
        (name(it), [amount(it.figures.sessions), tokens, duration(it.figures.active_s)])
    });
    beside(
        (out, width),
        &Small::new("by model", ["sessions", "tokens", "cost"], models, width),
        &Small::new("by project", ["sessions", "tokens", "active"], projects, width),
    )?;
    let agents = stats.agents.iter().map(|it| {
        let tokens = total(&it.figures);
        (it.key.clone(), [amount(it.figures.sessions), tokens, money(&it.figures.cost)])
    });
    let used = stats.tools.iter().map(|it| {
        let failed = it.error_rate().map_or("–".to_owned(), percent);
        (it.tool.clone(), [amount(it.sessions), thousands(it.calls), failed])
    });
    beside(
        (out, width),
        &Small::new("by agent", ["sessions", "tokens", "cost"], agents, width),
        &Small::new("by tool", ["sessions", "calls", "failed"], used, width),
    )?;
    let line = |counted: &[Counted]| {
        let parts = counted.iter().take(SMALL).map(|it| format!("{} {}", it.name, it.count));
        parts.collect::<Vec<_>>().join(" · ")
    };
    if !stats.errors.is_empty() {
        writeln!(
            out,
            " {DIM}failures{DIM:#}  {}",
            cut(&line(&stats.errors), width.saturating_sub(12))
        )?;
    }
    for file in stats.files.iter().filter(|file| file.count > 1).take(5) {
        let count = pad_left(&file.count.to_string(), 5);
        writeln!(
            out,
            " {DIM}changed{DIM:#}  {count} ×  {}",
            cut(&file.name, width.saturating_sub(20))
        )?;
    }
    times(out, stats, now, width)
}

fn times(out: &mut dyn Write, stats: &Stats, now: &Zoned, width: usize) -> Result<()> {
    let streak = stats.streak;
    writeln!(
        out,
        "\n {DIM}hours 0–23{DIM:#} {}   streak {}, longest {}",
        chart::spark(&stats.hours),
        count(streak.current, "day"),
        streak.longest,
    )?;
    let days: BTreeMap<Date, u64> =
        stats.days.iter().map(|(day, figures)| (*day, figures.messages)).collect();
    let weeks = ((width as i64 - 6) / 2).clamp(1, 26);
    chart::calendar(out, &days, now.date(), weeks)
}

fn name(group: &Group) -> String {
    group.label.clone().unwrap_or_else(|| group.key.clone())
}

/// All tokens of some figures.
fn total(figures: &Figures) -> String {
    tokens(&figures.tokens, figures.tokens.total())
}

/// A table narrow enough to stand beside another.
struct Small {
    lines: Vec<String>,
    width: usize,
}

impl Small {
    fn new(
        title: &str,
        heads: [&str; 3],
        rows: impl Iterator<Item = (String, [String; 3])>,
        width: usize,
    ) -> Self {
        let rows: Vec<(String, [String; 3])> = rows.take(SMALL).collect();
        let is_alone = width < 2 * (12 + 30) + 6;
        let room = width.saturating_sub(2) / if is_alone { 1 } else { 2 };
        let left = room.saturating_sub(32).clamp(12, 30);
        let line = |name: &str, cells: [&str; 3]| {
            let [a, b, c] = cells;
            format!("{} {} {} {}", pad(name, left), pad_left(a, 8), pad_left(b, 8), pad_left(c, 11))
        };
        let mut lines = vec![format!("{DIM}{}{DIM:#}", line(title, heads))];
        for (name, [a, b, c]) in &rows {
            lines.push(line(name, [a, b, c]));
        }
        Self { lines, width: left + 30 }
    }
}

/// Writes two tables side by side, or one below the other where there is no room.
fn beside((out, width): (&mut dyn Write, usize), left: &Small, right: &Small) -> Result<()> {
    if left.width + right.width + 6 > width {
        for line in left.lines.iter().chain(&right.lines) {
            writeln!(out, " {line}")?;
        }
        return Ok(writeln!(out)?);
    }
    for at in 0..left.lines.len().max(right.lines.len()) {
        let blank = " ".repeat(left.width);
        let first = left.lines.get(at).unwrap_or(&blank);
        let second = right.lines.get(at).map_or("", String::as_str);
        writeln!(out, "{}", format!(" {first}    {second}").trim_end())?;
    }
    Ok(writeln!(out)?)
}

/// Writes the groups that were asked for. The `ids` of sessions stand in front of their names.
pub(crate) fn groups(out: &mut dyn Write, stats: &Stats, ids: &[String]) -> Result<()> {
    let is_time = matches!(stats.by, Some(By::Day | By::Week | By::Month | By::Hour));
    let room = width().saturating_sub(72);
    let (left, bars) =
        if is_time { (11, room.saturating_sub(11)) } else { (room.clamp(16, 44), 0) };
    // An id that is cut opens nothing.
    let id_width = ids.iter().map(|id| id.width()).max().unwrap_or(0);
    let left = if ids.is_empty() { left } else { left.max(id_width + 2 + MIN_TITLE) };
    let line = |name: &str, cells: [String; 6]| {
        let widths = [8, 8, 11, 9, 9, 11];
        let cells = cells.iter().zip(widths).map(|(cell, width)| pad_left(cell, width));
        format!(" {} {}", pad(name, left), cells.collect::<Vec<_>>().join(" "))
    };
    let heads = ["sessions", "prompts", "active", "tools", "tokens", "cost"].map(str::to_owned);
    writeln!(out, "\n{DIM}{}{DIM:#}", line("", heads))?;
    let largest = stats.groups.iter().map(|it| it.figures.tokens.total()).max().unwrap_or(0);
    for (at, group) in stats.groups.iter().enumerate() {
        let id = ids.get(at).map_or_else(String::new, |id| format!("{}  ", pad(id, id_width)));
        let text = line(&format!("{id}{}", name(group)), cells(&group.figures, stats.by));
        let bar = chart::bar(group.figures.tokens.total(), largest, bars.min(24));
        writeln!(out, "{}", format!("{text}  {bar}").trim_end())?;
    }
    Ok(())
}

fn cells(figures: &Figures, by: Option<By>) -> [String; 6] {
    let (tokens, cost) = (total(figures), money(&figures.cost));
    // What a model did is not known, only what it spent.
    if by == Some(By::Model) {
        let none = String::new;
        return [thousands(figures.sessions), none(), none(), none(), tokens, cost];
    }
    [
        thousands(figures.sessions),
        thousands(figures.prompts),
        duration(figures.active_s),
        thousands(figures.tool_calls),
        tokens,
        cost,
    ]
}

/// Writes how tools were used.
pub(crate) fn tools(out: &mut dyn Write, stats: &Stats) -> Result<()> {
    let largest = stats.tools.iter().map(|tool| tool.calls).max().unwrap_or(0);
    writeln!(out, "\n {DIM}{}    calls   failed sessions{DIM:#}", pad("", 36))?;
    for tool in &stats.tools {
        let text = format!(
            " {} {} {} {}  {}",
            pad(&tool.tool, 36),
            pad_left(&thousands(tool.calls), 8),
            pad_left(&tool.error_rate().map_or("–".to_owned(), percent), 8),
            pad_left(&thousands(tool.sessions), 8),
            chart::bar(tool.calls, largest, width().saturating_sub(66).min(20)),
        );
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

/// Writes what was not counted.
pub(crate) fn explain(out: &mut dyn Write, stats: &Stats) -> Result<()> {
    let Some(explained) = &stats.explained else { return Ok(()) };
    writeln!(out, "\n {DIM}not counted, in the whole journal{DIM:#}")?;
    for reason in &explained.not_counted {
        writeln!(out, " {} × {}", pad_left(&thousands(reason.count), 9), reason.name)?;
    }
    if explained.not_counted.is_empty() {
        writeln!(out, "         nothing: every call is recorded once")?;
    }
    for model in &explained.unpriced_models {
        let tokens = pad_left(&amount(model.count), 9);
        writeln!(out, " {tokens} tokens without a price: {}", plain(&model.name))?;
    }
    if explained.undated_tokens > 0 {
        let tokens = pad_left(&amount(explained.undated_tokens), 9);
        writeln!(out, " {tokens} tokens without a time, in no day")?;
    }
    Ok(())
}
