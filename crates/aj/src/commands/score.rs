//! `aj score`: how well the work with agents goes, with what is behind each number.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::analyze::{Extent, Score, StatsQuery};
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use serde_json::json;

use super::{FilterArgs, stats};
use crate::context::Context;
use crate::error::found;
use crate::output::wrap::{filled, gathered};
use crate::output::{self, BOLD, DIM, chart, count, pad, pad_left};

const TIP: Style = AnsiColor::Yellow.on_default();

/// Columns before what was measured.
const MEASURED: usize = 38;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj score             every repository and agent
  aj score web         repositories and agents with that in their name
  aj score --since 30d --json")]
pub(crate) struct Args {
    /// Only repositories and agents with this in their name or path
    #[arg(value_name = "REPO")]
    name: Option<String>,

    #[command(flatten)]
    filter: FilterArgs,

    /// Days of this time zone, such as Europe/Paris
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let now = stats::in_zone(&context.now, args.timezone.as_deref())?;
    let query = StatsQuery {
        filter: stats::filter(&[], &args.filter, &now)?,
        by: None,
        extent: Extent::Tasks,
        explain: false,
        now,
    };
    let (journal, _) = context.fresh_journal()?;
    let mut report = journal.score(&query)?;
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
        output::json::print("score", document)?;
        return Ok(found(is_found));
    }
    let mut out = anstream::AutoStream::auto(std::io::stdout().lock());
    let all = report.agents.iter().chain(&report.repositories);
    for score in all.clone().filter(|score| score.total.is_some()) {
        print(&mut out, score)?;
    }
    for score in all.filter(|score| score.total.is_none()) {
        let sessions = count(score.sessions, "session");
        writeln!(
            out,
            " {DIM}  –  {}  not enough sessions ({sessions}){DIM:#}",
            pad(&score.name, 34)
        )?;
    }
    out.flush()?;
    if !is_found {
        return Context::nothing_found(&journal, "nothing to score: no sessions match");
    }
    Ok(found(is_found))
}

fn print(out: &mut dyn Write, score: &Score) -> Result<()> {
    let width = output::width();
    let total = pad_left(&score.total.unwrap_or_default().to_string(), 3);
    let name = output::cut(&score.name, width.saturating_sub(24));
    let mut facts = vec![
        format!("{BOLD}{total}  {name}{BOLD:#}"),
        format!("{DIM}{}{DIM:#}", count(score.sessions, "session")),
    ];
    facts.extend(score.path.as_ref().map(|path| format!("{DIM}{}{DIM:#}", output::plain(path))));
    writeln!(out, " {}", gathered(&facts, "  ", width.saturating_sub(6)).join("\n      "))?;
    for category in &score.categories {
        let bar = chart::bar(category.points, 20, 10);
        let drawn = category.points.div_ceil(2) as usize;
        let blank = " ".repeat(10usize.saturating_sub(drawn));
        let points = pad_left(&category.points.to_string(), 2);
        let name = pad(category.name, 16);
        let measured = filled(&output::plain(&category.measured), width.saturating_sub(MEASURED));
        let measured = measured.join(&format!("\n{}", " ".repeat(MEASURED)));
        writeln!(out, "      {name} {points} {bar}{blank}  {DIM}{measured}{DIM:#}")?;
    }
    for tip in &score.tips {
        let tip = filled(&output::plain(tip), width.saturating_sub(8)).join("\n        ");
        writeln!(out, "      {TIP}›{TIP:#} {tip}")?;
    }
    Ok(writeln!(out)?)
}
