//! `aj stats`: tokens, cost, time and tools.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::Journal;
use agent_journal::analyze::{By, Extent, Figures, Stats, StatsQuery};
use agent_journal::search::{Filter, Scope};
use anyhow::{Context as _, Result};
use clap::ValueEnum;
use jiff::Zoned;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::{FilterArgs, RedactArgs, of_sessions};
use crate::context::Context;
use crate::error::{found, remark};
use crate::output;
use crate::output::stats::{explain, groups, overview, summary, tools};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj stats                             everything
  aj stats --since 30d                 and how it compares with the 30 days before
  aj stats --by day project:web        day by day, in one project
  aj stats --by model --json           for a program
  aj stats --explain                   what was not counted, and why")]
pub(crate) struct Args {
    /// Of which sessions: agent: project: path: file: branch: model: tool: is: has: since: until:
    #[arg(value_name = "FIELD")]
    fields: Vec<String>,

    #[command(flatten)]
    filter: FilterArgs,

    /// Group by this
    #[arg(long, value_name = "WHAT")]
    by: Option<Group>,

    /// Leave out what sub-agents did and spent
    #[arg(long)]
    own_only: bool,

    /// Tell what was not counted, and why
    #[arg(long)]
    explain: bool,

    /// Days and hours of this time zone, such as Europe/Paris
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,

    /// Lines at most, 0 for no limit (40; with --json none)
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    redact: RedactArgs,
}

/// Lines for people when nobody says how many.
const LINES: usize = 40;

#[derive(Clone, Copy, ValueEnum)]
enum Group {
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

impl From<Group> for By {
    fn from(group: Group) -> Self {
        match group {
            Group::Day => Self::Day,
            Group::Week => Self::Week,
            Group::Month => Self::Month,
            Group::Hour => Self::Hour,
            Group::Agent => Self::Agent,
            Group::Model => Self::Model,
            Group::Project => Self::Project,
            Group::Branch => Self::Branch,
            Group::Tool => Self::Tool,
            Group::Session => Self::Session,
        }
    }
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let now = in_zone(&context.now, args.timezone.as_deref())?;
    let query = StatsQuery {
        filter: filter(&args.fields, &args.filter, &now)?,
        by: args.by.map(By::from),
        extent: if args.own_only { Extent::OwnOnly } else { Extent::Tasks },
        explain: args.explain,
        now,
    };
    let (journal, freshness) = context.fresh_journal()?;
    let mut stats = journal.stats(&query)?;
    if let Some(redactor) = &mut args.redact.redactor(&journal) {
        journal.redact_stats(&mut stats, redactor)?;
        args.redact.report(Some(redactor));
    }
    let is_found = stats.totals.messages > 0 || stats.totals.tokens.total() > 0;
    if context.json {
        let kept = keep(&mut stats, args.limit.unwrap_or(0));
        let mut document = document(&stats, &query.now)?;
        if let Some((shown, all)) = kept {
            document["left_out"] = json!(all - shown);
        }
        document["pending"] =
            json!({ "sources": freshness.pending_sources, "bytes": freshness.pending_bytes });
        output::json::print("stats", document)?;
        return Ok(found(is_found));
    }
    if !is_found {
        return Context::nothing_found(&journal, "no sessions match");
    }
    let all = keep(&mut stats, args.limit.unwrap_or(LINES));
    let mut out = output::stdout();
    summary(&mut out, &stats, &query.now, output::width())?;
    match stats.by {
        None => overview(&mut out, &stats, &query.now, output::width())?,
        Some(By::Tool) => tools(&mut out, &stats)?,
        Some(_) => groups(&mut out, &stats, &session_ids(&journal, &stats))?,
    }
    explain(&mut out, &stats)?;
    out.flush()?;
    if let Some((shown, all)) = all {
        remark(&format!(" {shown} of {all} · `--limit 0` shows all"));
    }
    Ok(found(true))
}

/// Returns the short id of each session that is a group, as lists have it; nothing for groups of
/// another kind.
fn session_ids(journal: &Journal, stats: &Stats) -> Vec<String> {
    if stats.by != Some(By::Session) {
        return Vec::new();
    }
    let keys = stats.groups.iter().map(|group| &group.key);
    let short = |key: &String| {
        let entry = journal.session(key);
        entry.map_or_else(|_| key.clone(), |entry| output::short_id(&entry).to_owned())
    };
    keys.map(short).collect()
}

/// Keeps so many groups, all of them at zero; tells how many of how many when some were left out.
fn keep(stats: &mut Stats, limit: usize) -> Option<(usize, usize)> {
    let by = stats.by?;
    let all = if by == By::Tool { stats.tools.len() } else { stats.groups.len() };
    if limit == 0 || limit >= all {
        return None;
    }
    // Of a list in order of time the end is news, of the others the beginning.
    if matches!(by, By::Day | By::Week | By::Month) {
        stats.groups.drain(..all - limit);
    }
    if by == By::Tool {
        stats.tools.truncate(limit);
    }
    stats.groups.truncate(limit);
    Some((limit, all))
}

/// Now, in the zone whose days and hours are meant.
pub(super) fn in_zone(now: &Zoned, zone: Option<&str>) -> Result<Zoned> {
    let Some(name) = zone else { return Ok(now.clone()) };
    let zone = TimeZone::get(name).with_context(|| format!("`{name}` is no time zone"))?;
    Ok(now.with_time_zone(zone))
}

/// The filter that fields and flags describe together.
pub(super) fn filter(fields: &[String], flags: &FilterArgs, now: &Zoned) -> Result<Filter> {
    let filter = flags.with_fields(fields, Scope::All, now)?;
    of_sessions(&filter)?;
    Ok(filter)
}

/// The filter that fields describe.
pub(crate) fn chosen(fields: &str, now: &Zoned) -> Result<Filter> {
    FilterArgs::default().with_fields(&[fields.to_owned()], Scope::All, now)
}

/// The statistics for programs, with the totals also under their documented names.
pub(crate) fn document(stats: &Stats, now: &Zoned) -> Result<Value> {
    let mut document = serde_json::to_value(stats)?;
    let totals = &stats.totals;
    document["timezone"] = json!(now.time_zone().iana_name());
    document["totals"] = figures(totals)?;
    // What was not counted is not there, rather than nothing.
    if stats.by.is_some()
        && let Some(document) = document.as_object_mut()
    {
        document.remove("files");
    }
    document["models"] = models(stats)?;
    document["days"] = stats
        .days
        .iter()
        .map(|(day, it)| {
            let mut one = figures(it)?;
            one["date"] = json!(day);
            Ok(one)
        })
        .collect::<Result<Value>>()?;
    match stats.by {
        Some(By::Tool) => document["groups"] = serde_json::to_value(&stats.tools)?,
        Some(By::Model) => spent_only(&mut document["groups"]),
        _ => {}
    }
    document["totalCostUSD"] = json!(totals.cost.dollars());
    let per_day: Map<String, Value> = stats
        .days
        .iter()
        .filter_map(|(day, it)| Some((day.to_string(), json!(it.cost.dollars()?))))
        .collect();
    document["costPerDay"] = Value::Object(per_day);
    let known = |number: u64| totals.tokens.is_known().then_some(number);
    document["tokenUsage"] = json!({
        "totalInput": known(totals.tokens.input),
        "totalOutput": known(totals.tokens.output),
        "totalCacheRead": known(totals.tokens.cache_read),
        "totalCacheCreation": known(totals.tokens.cache_creation),
    });
    Ok(document)
}

/// What the models spent, for programs.
pub(crate) fn models(stats: &Stats) -> Result<Value> {
    let mut models = serde_json::to_value(&stats.models)?;
    spent_only(&mut models);
    Ok(models)
}

/// Takes out what is not known of a model: it is known what it spent, not what was done with it.
fn spent_only(groups: &mut Value) {
    const DONE: [&str; 8] = [
        "sessions_started",
        "prompts",
        "messages",
        "active_s",
        "work_s",
        "tool_calls",
        "tool_results",
        "tool_errors",
    ];
    let groups = groups.as_array_mut().into_iter().flatten();
    for group in groups.filter_map(Value::as_object_mut) {
        group.retain(|name, _| !DONE.contains(&name.as_str()));
    }
}

fn figures(figures: &Figures) -> Result<Value> {
    let mut document = serde_json::to_value(figures)?;
    document["cache_hit_ratio"] = json!(figures.cache_hit_ratio());
    document["error_rate"] = json!(figures.error_rate());
    document["turns_per_session"] = json!(figures.turns_per_session());
    Ok(document)
}
