//! Lists of sessions, one line each.

use std::io::Write;

use agent_journal::Entry;
use agent_journal::analyze::SessionFigures;
use anyhow::Result;
use jiff::Zoned;

use super::{BOLD, DIM, ago, badge, count, cut, id_width, money, pad, pad_left, short_id, tokens};

/// Whether there is room for what sessions did and spent with their sub-agents.
pub(crate) fn has_figures(width: usize) -> bool {
    Layout::of(width).figures >= TOOLS
}

/// Writes a list of sessions, each with its figures where these have room. Figures of a session
/// with sub-agents include theirs.
pub(crate) fn sessions(
    out: &mut dyn Write,
    entries: &[(Entry, SessionFigures)],
    width: usize,
    now: &Zoned,
) -> Result<()> {
    let ids = id_width(entries.iter().map(|(entry, _)| entry));
    let layout = Layout::of((width + 8).saturating_sub(ids));
    for (entry, sums) in entries {
        let dot = if entry.status == "running" { "●" } else { " " };
        let title = pad(&entry.title, layout.title);
        let place = pad(&place(entry), layout.place);
        let when = pad(&ago(entry.ended_at, now), 11);
        let id = pad(short_id(entry), ids);
        let line = format!(
            " {dot} {} {BOLD}{title}{BOLD:#}  {place} {DIM}{id}{DIM:#}  {when}{}",
            badge(entry),
            figures(entry, sums, &layout)
        );
        writeln!(out, "{}", line.trim_end())?;
        if !entry.children.is_empty() {
            let included = if layout.figures >= TOOLS { ", included above" } else { "" };
            let agents = count(entry.children.len() as u64, "sub-agent");
            writeln!(out, "   {DIM}└ {agents}{included}{DIM:#}")?;
        }
    }
    Ok(())
}

/// The project and branch of a session.
pub(crate) fn place(entry: &Entry) -> String {
    match (&entry.project, &entry.branch) {
        (Some(project), Some(branch)) => format!("{project} · {branch}"),
        (Some(project), None) => project.clone(),
        (None, _) => "–".to_owned(),
    }
}

fn figures(entry: &Entry, sums: &SessionFigures, layout: &Layout) -> String {
    let whole = &sums.with_subagents;
    let mut all = String::new();
    let mut add = |text: String, width: usize| {
        all.push_str("  ");
        all.push_str(&pad_left(&cut(&text, width), width));
    };
    if layout.figures >= 1 {
        add(count(entry.counts.user_prompts, "prompt"), 11);
    }
    if layout.figures >= TOOLS {
        add(count(whole.tool_calls, "tool"), 10);
    }
    if layout.figures >= 3 {
        let tokens = tokens(&whole.tokens, whole.tokens.total());
        add(if whole.tokens.is_known() { format!("{tokens} tok") } else { tokens }, 9);
    }
    if layout.figures >= COSTS {
        add(money(&whole.cost), 9);
    }
    all
}

/// How many figures there are when calls of tools, which sub-agents make too, are among them.
const TOOLS: usize = 2;

/// How many figures there are when costs, the last of them, are among them.
const COSTS: usize = 4;

/// How a line is divided.
struct Layout {
    title: usize,
    place: usize,
    /// How many figures have room.
    figures: usize,
}

impl Layout {
    fn of(width: usize) -> Self {
        let figures = match width {
            ..90 => 0,
            90..110 => 1,
            110..124 => 2,
            124..136 => 3,
            _ => COSTS,
        };
        let taken = 12 + 3 + 10 + 11 + [0, 13, 25, 36, 47][figures];
        let rest = width.saturating_sub(taken).max(24);
        let place = (rest / 3).clamp(8, 32);
        Self { title: rest - place, place, figures }
    }
}
