//! `aj score`: rates the work with agents, with the measurements behind each number.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::analyze::{Extent, Score, StatsQuery};
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use serde_json::json;

use super::{FilterArgs, stats};
use crate::context::CommandContext;
use crate::error::found_exit_code;
use crate::output::wrap::{join_to_lines, wrap_text};
use crate::output::{self, BOLD, DIM, chart, count, pad_left, pad_to_width};

const TIP: Style = AnsiColor::Yellow.on_default();

/// Columns before the measurements.
const MEASURED: usize = 38;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj score             all repositories and agents
  aj score web         repositories and agents whose name contains `web`
  aj score --since 30d --json")]
pub(crate) struct ScoreArgs {
    /// Only repositories and agents whose name or path contains REPO
    #[arg(value_name = "REPO")]
    name: Option<String>,

    #[command(flatten)]
    filter: FilterArgs,

    /// Time zone of days, such as Europe/Paris
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
}

pub(crate) fn run_score(args: &ScoreArgs, context: &CommandContext) -> Result<ExitCode> {
    let now = stats::in_zone(&context.now, args.timezone.as_deref())?;
    let query = StatsQuery {
        filter: stats::combined_filter(&[], &args.filter, &now)?,
        by: None,
        extent: Extent::Tasks,
        explain: false,
        now,
    };
    let answered = context.answer_fresh(|journal| Ok(journal.score(&query)?))?;
    let (journal, mut report) = (answered.journal, answered.answer);
    if let Some(name) = &args.name {
        let name = name.to_lowercase();
        let fits = |score: &Score| {
            let path = score.path.as_deref().unwrap_or_default();
            score.name.to_lowercase().contains(&name) || path.to_lowercase().contains(&name)
        };
        report.repositories.retain(fits);
        report.agents.retain(fits);
    }
    let is_found = !report.repositories.is_empty() || !report.agents.is_empty();
    if context.json {
        let document = json!({ "repositories": report.repositories, "agents": report.agents });
        output::json::print_document("score", document)?;
        return Ok(found_exit_code(is_found));
    }
    let mut out = anstream::AutoStream::auto(std::io::stdout().lock());
    let all = report.agents.iter().chain(&report.repositories);
    for score in all.clone().filter(|score| score.total.is_some()) {
        print_score(&mut out, score)?;
    }
    for score in all.filter(|score| score.total.is_none()) {
        let sessions = count(score.sessions, "session");
        writeln!(
            out,
            " {DIM}  –  {}  not enough sessions ({sessions}){DIM:#}",
            pad_to_width(&score.name, 34)
        )?;
    }
    out.flush()?;
    if !is_found {
        return CommandContext::report_nothing_found(&journal, "no sessions match");
    }
    Ok(found_exit_code(is_found))
}

fn print_score(out: &mut dyn Write, score: &Score) -> Result<()> {
    let width = output::output_width();
    let total = pad_left(&score.total.unwrap_or_default().to_string(), 3);
    let name = output::cut_to_width(&score.name, width.saturating_sub(24));
    let mut facts = vec![
        format!("{BOLD}{total}  {name}{BOLD:#}"),
        format!("{DIM}{}{DIM:#}", count(score.sessions, "session")),
    ];
    facts.extend(
        score.path.as_ref().map(|path| format!("{DIM}{}{DIM:#}", output::plain_text(path))),
    );
    writeln!(out, " {}", join_to_lines(&facts, "  ", width.saturating_sub(6)).join("\n      "))?;
    for category in &score.categories {
        let bar = chart::draw_bar(category.points, 20, 10);
        let drawn = category.points.div_ceil(2) as usize;
        let blank = " ".repeat(10usize.saturating_sub(drawn));
        let points = pad_left(&category.points.to_string(), 2);
        let name = pad_to_width(category.name, 16);
        let measured =
            wrap_text(&output::plain_text(&category.measured), width.saturating_sub(MEASURED));
        let measured = measured.join(&format!("\n{}", " ".repeat(MEASURED)));
        writeln!(out, "      {name} {points} {bar}{blank}  {DIM}{measured}{DIM:#}")?;
    }
    for tip in &score.tips {
        let tip = wrap_text(&output::plain_text(tip), width.saturating_sub(8)).join("\n        ");
        writeln!(out, "      {TIP}›{TIP:#} {tip}")?;
    }
    Ok(writeln!(out)?)
}
