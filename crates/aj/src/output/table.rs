//! Lists of sessions, one line each.

use std::io::Write;

use agent_journal::Entry;
use agent_journal::analyze::SessionFigures;
use agent_journal::model::SessionStatus;
use anyhow::Result;
use jiff::Zoned;

use super::{
    BOLD, DIM, count, cut_to_width, id_width, money, pad_left, pad_to_width, relative_time,
    session_badge, short_id, tokens,
};

/// Returns whether a list of this width shows figures that include sub-agents.
pub(crate) fn has_figures(width: usize) -> bool {
    Layout::layout_for_width(width).figures >= TOOLS
}

/// Writes a list of sessions, with as many figures as there is room for. Figures of a session with
/// sub-agents include theirs.
pub(crate) fn write_session_table(
    out: &mut dyn Write,
    entries: &[(Entry, SessionFigures)],
    width: usize,
    now: &Zoned,
) -> Result<()> {
    let ids = id_width(entries.iter().map(|(entry, _)| entry));
    let layout = Layout::layout_for_width((width + 8).saturating_sub(ids));
    for (entry, sums) in entries {
        let dot = if entry.status == SessionStatus::Running { "●" } else { " " };
        let title = pad_to_width(&entry.title, layout.title);
        let place = pad_to_width(&project_and_branch(entry), layout.place);
        let when = pad_to_width(&relative_time(entry.ended_at, now), 11);
        let id = pad_to_width(short_id(entry), ids);
        let line = format!(
            " {dot} {} {BOLD}{title}{BOLD:#}  {place} {DIM}{id}{DIM:#}  {when}{}",
            session_badge(entry),
            session_figure_cells(entry, sums, &layout)
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

/// Returns the project and branch of a session.
pub(crate) fn project_and_branch(entry: &Entry) -> String {
    match (&entry.project, &entry.branch) {
        (Some(project), Some(branch)) => format!("{project} · {branch}"),
        (Some(project), None) => project.clone(),
        (None, _) => "–".to_owned(),
    }
}

fn session_figure_cells(entry: &Entry, sums: &SessionFigures, layout: &Layout) -> String {
    let whole = &sums.with_subagents;
    let mut all = String::new();
    let mut add = |text: String, width: usize| {
        all.push_str("  ");
        all.push_str(&pad_left(&cut_to_width(&text, width), width));
    };
    if layout.figures >= 1 {
        add(count(entry.counts.user_prompts, "prompt"), 11);
    }
    if layout.figures >= TOOLS {
        add(count(whole.tool_calls, "tool"), 10);
    }
    if layout.figures >= 3 {
        let tokens = tokens(&whole.tokens, whole.tokens.total_tokens());
        add(if whole.tokens.is_known() { format!("{tokens} tok") } else { tokens }, 9);
    }
    if layout.figures >= COSTS {
        add(money(&whole.cost), 9);
    }
    all
}

/// Number of figures from which on tool calls, which sub-agents make too, are among them.
const TOOLS: usize = 2;

/// Number of figures from which on costs, the last of them, are among them.
const COSTS: usize = 4;

/// The widths of the parts of a line, in columns.
struct Layout {
    title: usize,
    place: usize,
    /// Number of figures that fit.
    figures: usize,
}

impl Layout {
    fn layout_for_width(width: usize) -> Self {
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
