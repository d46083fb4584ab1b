//! `aj stats`: sums up tokens, cost, time and tools.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::Journal;
use agent_journal::analyze::{Extent, GroupBy, Stats, StatsQuery};
use agent_journal::search::{Filter, Scope};
use anyhow::{Context as _, Result};
use clap::ValueEnum;
use jiff::Zoned;
use jiff::tz::TimeZone;
use serde_json::json;

use super::{FilterArgs, RedactArgs};
use crate::context::CommandContext;
use crate::documents;
use crate::error::{found_exit_code, print_remark};
use crate::output;
use crate::output::stats::{
    write_explanation, write_groups, write_overview, write_summary, write_tools,
};
use crate::query_fields::{QueryWord, STATS_HELP};
use crate::session_filter::require_session_fields;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj stats                             all sessions
  aj stats --since 30d                 the last 30 days, compared with the 30 days before
  aj stats --by day project:web        one project, by day
  aj stats --by model --json           by model, as JSON
  aj stats --explain                   also what was not counted, and why")]
pub(crate) struct StatsArgs {
    #[arg(
        value_name = "FIELD",
        help = STATS_HELP.as_str(),
        value_parser = QueryWord,
        hide_possible_values = true
    )]
    fields: Vec<String>,

    #[command(flatten)]
    filter: FilterArgs,

    /// Group the figures
    #[arg(long, value_name = "GROUP")]
    by: Option<GroupByArg>,

    /// Exclude sub-agents
    #[arg(long)]
    own_only: bool,

    /// Explain what was not counted, and why
    #[arg(long)]
    explain: bool,

    /// Time zone of days and hours, such as Europe/Paris
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,

    /// Show at most N lines; 0 for no limit [default: 40; no limit with --json]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    redact: RedactArgs,
}

/// Default maximum number of lines in text output.
const LINES: usize = 40;

#[derive(Clone, Copy, ValueEnum)]
enum GroupByArg {
    Day,
    Week,
    Month,
    Hour,
    Agent,
    Model,
    Project,
    Branch,
    Tool,
    Session,
}

impl From<GroupByArg> for GroupBy {
    fn from(group: GroupByArg) -> Self {
        match group {
            GroupByArg::Day => Self::Day,
            GroupByArg::Week => Self::Week,
            GroupByArg::Month => Self::Month,
            GroupByArg::Hour => Self::Hour,
            GroupByArg::Agent => Self::Agent,
            GroupByArg::Model => Self::Model,
            GroupByArg::Project => Self::Project,
            GroupByArg::Branch => Self::Branch,
            GroupByArg::Tool => Self::Tool,
            GroupByArg::Session => Self::Session,
        }
    }
}

pub(crate) fn run_stats(args: &StatsArgs, context: &CommandContext) -> Result<ExitCode> {
    let now = in_zone(&context.now, args.timezone.as_deref())?;
    let query = StatsQuery {
        filter: combined_filter(&args.fields, &args.filter, &now)?,
        by: args.by.map(GroupBy::from),
        extent: if args.own_only { Extent::OwnOnly } else { Extent::Tasks },
        explain: args.explain,
        now,
    };
    let answered = context.answer_fresh(|journal| Ok(journal.stats(&query)?))?;
    let (journal, mut stats, freshness) = (answered.journal, answered.answer, answered.freshness);
    if let Some(redactor) = &mut args.redact.requested_redactor(&journal) {
        journal.redact_stats(&mut stats, redactor)?;
        args.redact.report_redactions(Some(redactor));
    }
    let is_found = stats.totals.messages > 0 || stats.totals.tokens.total_tokens() > 0;
    if context.json {
        let kept = limit_groups(&mut stats, args.limit.unwrap_or(0));
        let mut document = documents::stats::stats_document(&stats, &query.now)?;
        if let Some((shown, all)) = kept {
            document["left_out"] = json!(all - shown);
        }
        document["pending"] = freshness.pending_json();
        output::json::print_document("stats", document)?;
        return Ok(found_exit_code(is_found));
    }
    if !is_found {
        return CommandContext::report_nothing_found(&journal, "no sessions match");
    }
    let all = limit_groups(&mut stats, args.limit.unwrap_or(LINES));
    let mut out = output::buffered_stdout();
    write_summary(&mut out, &stats, &query.now, output::output_width())?;
    match stats.by {
        None => write_overview(&mut out, &stats, &query.now, output::output_width())?,
        Some(GroupBy::Tool) => write_tools(&mut out, &stats)?,
        Some(_) => write_groups(&mut out, &stats, &session_ids(&journal, &stats))?,
    }
    write_explanation(&mut out, &stats)?;
    out.flush()?;
    if let Some((shown, all)) = all {
        print_remark(&format!(" {shown} of {all} · `--limit 0` shows all"));
    }
    Ok(found_exit_code(true))
}

/// Returns the short id of each session if the groups are sessions, otherwise nothing.
fn session_ids(journal: &Journal, stats: &Stats) -> Vec<String> {
    if stats.by != Some(GroupBy::Session) {
        return Vec::new();
    }
    let keys = stats.groups.iter().map(|group| &group.key);
    let short = |key: &String| {
        let entry = journal.find_session(key);
        entry.map_or_else(|_| key.clone(), |entry| output::short_id(&entry).to_owned())
    };
    keys.map(short).collect()
}

/// Keeps at most `limit` groups, or all if it is 0. Returns the numbers of kept and of all groups
/// if some were left out.
fn limit_groups(stats: &mut Stats, limit: usize) -> Option<(usize, usize)> {
    let by = stats.by?;
    let all = if by == GroupBy::Tool { stats.tools.len() } else { stats.groups.len() };
    if limit == 0 || limit >= all {
        return None;
    }
    // Groups by time keep the latest ones at the end, all others the first ones.
    if matches!(by, GroupBy::Day | GroupBy::Week | GroupBy::Month) {
        stats.groups.drain(..all - limit);
    }
    if by == GroupBy::Tool {
        stats.tools.truncate(limit);
    }
    stats.groups.truncate(limit);
    Some((limit, all))
}

/// Returns the current time in the given time zone.
pub(super) fn in_zone(now: &Zoned, zone: Option<&str>) -> Result<Zoned> {
    let Some(name) = zone else { return Ok(now.clone()) };
    let zone = TimeZone::get(name).with_context(|| format!("`{name}` is not a time zone"))?;
    Ok(now.with_time_zone(zone))
}

/// Returns the session filter that fields and flags describe together.
pub(super) fn combined_filter(
    fields: &[String],
    flags: &FilterArgs,
    now: &Zoned,
) -> Result<Filter> {
    let filter = flags.with_fields(fields, Scope::All, now)?;
    require_session_fields(&filter)?;
    Ok(filter)
}
