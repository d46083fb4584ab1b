//! Statistics as text.

use std::collections::BTreeMap;
use std::io::Write;

use agent_journal::analyze::{CountedName, Figures, GroupBy, Stats, StatsGroup};
use anyhow::Result;
use jiff::Zoned;
use jiff::civil::Date;
use unicode_width::UnicodeWidthStr;

use super::wrap::join_to_lines;
use super::{
    BOLD, DIM, amount, chart, count, cut_to_width, duration, local_minute, money,
    not_in_transcript, output_width, pad_left, pad_to_width, percent, plain_text, thousands,
    tokens,
};

/// Most rows of a table that stands beside another.
const SMALL: usize = 6;

/// Fewest columns left for a session's title beside its id.
const MIN_TITLE: usize = 6;

/// Writes the totals.
pub(crate) fn write_summary(
    out: &mut dyn Write,
    stats: &Stats,
    now: &Zoned,
    width: usize,
) -> Result<()> {
    let totals = &stats.totals;
    let sessions = format!(
        "sessions {BOLD}{}{BOLD:#}{}",
        thousands(totals.sessions),
        change_text(totals.sessions, stats.previous.as_ref().map(|it| it.sessions)),
    );
    let failed = totals
        .call_error_rate()
        .map_or(String::new(), |rate| format!(" {DIM}({} failed){DIM:#}", percent(rate)));
    let done = [
        format!("{DIM}{}{DIM:#}", period_text(stats, now)),
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
    let before = stats.previous.as_ref().map(|it| it.cost.known_micros().unwrap_or(0));
    let changed = change_text(totals.cost.known_micros().unwrap_or(0), before);
    let spent = [
        format!("{DIM}tokens{DIM:#}"),
        format!("in {}", of(spent.input)),
        format!("out {}", of(spent.output)),
        format!("cache read {}", of(spent.cache_read)),
        format!("write {}", of(spent.cache_creation)),
        format!("cost {BOLD}{}{BOLD:#}{changed}{priced}", money(&totals.cost)),
    ];
    for facts in [&done[..], &spent] {
        let lines = join_to_lines(facts, "   ", width.saturating_sub(1));
        writeln!(out, " {}", lines.join("\n "))?;
    }
    if let Some(line) = not_in_transcript(totals) {
        writeln!(out, " {DIM}{line}{DIM:#}")?;
    }
    Ok(())
}

/// Describes the period of the statistics.
fn period_text(stats: &Stats, now: &Zoned) -> String {
    let day = |at: agent_journal::model::Timestamp| {
        local_minute(Some(at), now).split(' ').next().unwrap_or_default().to_owned()
    };
    match (stats.period.since, stats.period.until) {
        (None, None) => "all time".to_owned(),
        (Some(since), None) => format!("since {}", day(since)),
        (None, Some(until)) => format!("until {}", day(until)),
        (Some(since), Some(until)) => format!("{} to {}", day(since), day(until)),
    }
}

/// Formats the change of a number since the previous period.
fn change_text(number: u64, before: Option<u64>) -> String {
    let Some(before) = before.filter(|before| *before > 0) else { return String::new() };
    let change = (number as f64 / before as f64 - 1.0) * 100.0;
    format!(" {DIM}({change:+.0} % vs. the period before){DIM:#}")
}

/// Writes the most important figures of every kind.
pub(crate) fn write_overview(
    out: &mut dyn Write,
    stats: &Stats,
    now: &Zoned,
    width: usize,
) -> Result<()> {
    let mut facts = Vec::new();
    facts.extend(stats.totals.turns_per_session().map(|n| format!("{n:.1} prompts per session")));
    let hit = stats.totals.cache_hit_ratio();
    facts.extend(hit.map(|share| format!("{} of input read from cache", percent(share))));
    facts.extend(stats.refs.iter().map(|it| format!("{} {}", it.count, plain_text(&it.name))));
    let lines = join_to_lines(&facts, " · ", width.saturating_sub(1));
    writeln!(out, " {DIM}{}{DIM:#}\n", lines.join("\n "))?;

    let models = stats.models.iter().map(|it| {
        let tokens = token_total(&it.figures);
        (group_name(it), [amount(it.figures.sessions), tokens, money(&it.figures.cost)])
    });
    let projects = stats.projects.iter().map(|it| {
        let tokens = token_total(&it.figures);
        (group_name(it), [amount(it.figures.sessions), tokens, duration(it.figures.active_s)])
    });
    side_by_side(
        out,
        width,
        &Small::new("by model", ["sessions", "tokens", "cost"], models, width),
        &Small::new("by project", ["sessions", "tokens", "active"], projects, width),
    )?;
    let agents = stats.agents.iter().map(|it| {
        let tokens = token_total(&it.figures);
        (it.key.clone(), [amount(it.figures.sessions), tokens, money(&it.figures.cost)])
    });
    let used = stats.tools.iter().map(|it| {
        let failed = it.tool_error_rate().map_or("–".to_owned(), percent);
        (it.tool.clone(), [amount(it.sessions), thousands(it.calls), failed])
    });
    side_by_side(
        out,
        width,
        &Small::new("by agent", ["sessions", "tokens", "cost"], agents, width),
        &Small::new("by tool", ["sessions", "calls", "failed"], used, width),
    )?;
    let line = |counted: &[CountedName]| {
        let parts = counted.iter().take(SMALL).map(|it| format!("{} {}", it.name, it.count));
        parts.collect::<Vec<_>>().join(" · ")
    };
    if !stats.errors.is_empty() {
        writeln!(
            out,
            " {DIM}failures{DIM:#}  {}",
            cut_to_width(&line(&stats.errors), width.saturating_sub(12))
        )?;
    }
    for file in stats.files.iter().filter(|file| file.count > 1).take(5) {
        let count = pad_left(&file.count.to_string(), 5);
        writeln!(
            out,
            " {DIM}changed{DIM:#}  {count} ×  {}",
            cut_to_width(&file.name, width.saturating_sub(20))
        )?;
    }
    write_times(out, stats, now, width)
}

fn write_times(out: &mut dyn Write, stats: &Stats, now: &Zoned, width: usize) -> Result<()> {
    let streak = stats.streak;
    writeln!(
        out,
        "\n {DIM}hours 0–23{DIM:#} {}   streak {}, longest {}",
        chart::sparkline(&stats.hours),
        count(streak.current, "day"),
        streak.longest,
    )?;
    let days: BTreeMap<Date, u64> =
        stats.days.iter().map(|(day, figures)| (*day, figures.messages)).collect();
    let weeks = ((width as i64 - 6) / 2).clamp(1, 26);
    chart::write_calendar(out, &days, now.date(), weeks)
}

fn group_name(group: &StatsGroup) -> String {
    group.label.clone().unwrap_or_else(|| group.key.clone())
}

/// Formats the sum of all token classes.
fn token_total(figures: &Figures) -> String {
    tokens(&figures.tokens, figures.tokens.total_tokens())
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
            format!(
                "{} {} {} {}",
                pad_to_width(name, left),
                pad_left(a, 8),
                pad_left(b, 8),
                pad_left(c, 11)
            )
        };
        let mut lines = vec![format!("{DIM}{}{DIM:#}", line(title, heads))];
        for (name, [a, b, c]) in &rows {
            lines.push(line(name, [a, b, c]));
        }
        Self { lines, width: left + 30 }
    }
}

/// Writes two tables side by side, or one below the other where there is no room.
fn side_by_side(out: &mut dyn Write, width: usize, left: &Small, right: &Small) -> Result<()> {
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

/// Writes the groups. The `ids` of sessions are printed before their names.
pub(crate) fn write_groups(out: &mut dyn Write, stats: &Stats, ids: &[String]) -> Result<()> {
    let is_time =
        matches!(stats.by, Some(GroupBy::Day | GroupBy::Week | GroupBy::Month | GroupBy::Hour));
    let room = output_width().saturating_sub(72);
    let (left, bars) =
        if is_time { (11, room.saturating_sub(11)) } else { (room.clamp(16, 44), 0) };
    // A cut id would not open its session.
    let id_width = ids.iter().map(|id| id.width()).max().unwrap_or(0);
    let left = if ids.is_empty() { left } else { left.max(id_width + 2 + MIN_TITLE) };
    let line = |name: &str, cells: [String; 6]| {
        let widths = [8, 8, 11, 9, 9, 11];
        let cells = cells.iter().zip(widths).map(|(cell, width)| pad_left(cell, width));
        format!(" {} {}", pad_to_width(name, left), cells.collect::<Vec<_>>().join(" "))
    };
    let heads = ["sessions", "prompts", "active", "tools", "tokens", "cost"].map(str::to_owned);
    writeln!(out, "\n{DIM}{}{DIM:#}", line("", heads))?;
    let largest = stats.groups.iter().map(|it| it.figures.tokens.total_tokens()).max().unwrap_or(0);
    for (at, group) in stats.groups.iter().enumerate() {
        let id =
            ids.get(at).map_or_else(String::new, |id| format!("{}  ", pad_to_width(id, id_width)));
        let text =
            line(&format!("{id}{}", group_name(group)), group_cells(&group.figures, stats.by));
        let bar = chart::draw_bar(group.figures.tokens.total_tokens(), largest, bars.min(24));
        writeln!(out, "{}", format!("{text}  {bar}").trim_end())?;
    }
    Ok(())
}

fn group_cells(figures: &Figures, by: Option<GroupBy>) -> [String; 6] {
    let (tokens, cost) = (token_total(figures), money(&figures.cost));
    // The journal records spending by model, but no activity.
    if by == Some(GroupBy::Model) {
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

/// Writes the usage of tools.
pub(crate) fn write_tools(out: &mut dyn Write, stats: &Stats) -> Result<()> {
    let largest = stats.tools.iter().map(|tool| tool.calls).max().unwrap_or(0);
    writeln!(out, "\n {DIM}{}    calls   failed sessions{DIM:#}", pad_to_width("", 36))?;
    for tool in &stats.tools {
        let text = format!(
            " {} {} {} {}  {}",
            pad_to_width(&tool.tool, 36),
            pad_left(&thousands(tool.calls), 8),
            pad_left(&tool.tool_error_rate().map_or("–".to_owned(), percent), 8),
            pad_left(&thousands(tool.sessions), 8),
            chart::draw_bar(tool.calls, largest, output_width().saturating_sub(66).min(20)),
        );
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}

/// Writes the usage that was not counted, with the reasons.
pub(crate) fn write_explanation(out: &mut dyn Write, stats: &Stats) -> Result<()> {
    let Some(explained) = &stats.explained else { return Ok(()) };
    writeln!(out, "\n {DIM}times{DIM:#}")?;
    writeln!(
        out,
        " {} time between messages; a pause counts as 5 minutes at most",
        pad_left("active", 9)
    )?;
    writeln!(
        out,
        " {} periods with pauses under 30 minutes; overlaps count once",
        pad_left("work", 9)
    )?;
    writeln!(out, "\n {DIM}not counted, in the whole journal{DIM:#}")?;
    for reason in &explained.not_counted {
        writeln!(out, " {} × {}", pad_left(&thousands(reason.count), 9), reason.name)?;
    }
    if explained.not_counted.is_empty() {
        writeln!(out, "         nothing: every model call is recorded once")?;
    }
    for model in &explained.unpriced_models {
        let tokens = pad_left(&amount(model.count), 9);
        writeln!(out, " {tokens} tokens without a known price: {}", plain_text(&model.name))?;
    }
    if explained.undated_tokens > 0 {
        let tokens = pad_left(&amount(explained.undated_tokens), 9);
        writeln!(out, " {tokens} tokens without a time, not in any day")?;
    }
    Ok(())
}
