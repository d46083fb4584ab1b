//! `aj stats`: tokens, cost, time and tools.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::analyze::{By, Extent, Figures, Stats, StatsQuery};
use agent_journal::search::{Filter, Scope};
use anyhow::{Context as _, Result};
use clap::ValueEnum;
use jiff::Zoned;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::FilterArgs;
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

    /// Sort by this
    #[arg(long, value_name = "WHAT")]
    by: Option<Sort>,

    /// Leave out what sub-agents did and spent
    #[arg(long)]
    own_only: bool,

    /// Tell what was not counted, and why
    #[arg(long)]
    explain: bool,

    /// Days and hours of this time zone, such as Europe/Paris
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,

    /// Lines at most; 0 for no limit
    #[arg(long, short = 'n', value_name = "N", default_value_t = 40)]
    limit: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sort {
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

impl From<Sort> for By {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Day => Self::Day,
            Sort::Week => Self::Week,
            Sort::Month => Self::Month,
            Sort::Hour => Self::Hour,
            Sort::Agent => Self::Agent,
            Sort::Model => Self::Model,
            Sort::Project => Self::Project,
            Sort::Branch => Self::Branch,
            Sort::Tool => Self::Tool,
            Sort::Session => Self::Session,
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
    let stats = journal.stats(&query)?;
    let is_found = stats.totals.messages > 0 || stats.totals.tokens.total() > 0;
    if context.json {
        let mut document = document(&stats, &query.now)?;
        document["pending"] =
            json!({ "sources": freshness.pending_sources, "bytes": freshness.pending_bytes });
        output::json::print("stats", document)?;
        return Ok(found(is_found));
    }
    if !is_found {
        remark(" nothing in that time and place — `aj sources` tells where was looked");
        return Ok(found(false));
    }
    let mut out = output::stdout();
    summary(&mut out, &stats, &query.now)?;
    match stats.by {
        None => overview(&mut out, &stats, &query.now, output::width())?,
        Some(By::Tool) => tools(&mut out, &stats, args.limit)?,
        Some(_) => groups(&mut out, &stats, args.limit)?,
    }
    explain(&mut out, &stats)?;
    out.flush()?;
    Ok(found(true))
}

/// Now, in the zone whose days and hours are meant.
pub(super) fn in_zone(now: &Zoned, zone: Option<&str>) -> Result<Zoned> {
    let Some(name) = zone else { return Ok(now.clone()) };
    let zone = TimeZone::get(name).with_context(|| format!("`{name}` is no time zone"))?;
    Ok(now.with_time_zone(zone))
}

/// The filter that fields and flags describe together.
pub(super) fn filter(fields: &[String], flags: &FilterArgs, now: &Zoned) -> Result<Filter> {
    flags.with_fields(fields, Scope::All, now)
}

/// The filter that fields describe.
pub(crate) fn chosen(fields: &str, now: &Zoned) -> Result<Filter> {
    FilterArgs::default().with_fields(&[fields.to_owned()], Scope::All, now)
}

/// The statistics for programs, with the totals also under their documented names.
fn document(stats: &Stats, now: &Zoned) -> Result<Value> {
    let mut document = serde_json::to_value(stats)?;
    let totals = &stats.totals;
    document["timezone"] = json!(now.time_zone().iana_name());
    document["totals"] = figures(totals)?;
    document["days"] = stats
        .days
        .iter()
        .map(|(day, it)| {
            let mut one = figures(it)?;
            one["date"] = json!(day);
            Ok(one)
        })
        .collect::<Result<Value>>()?;
    if stats.by == Some(By::Tool) {
        document["groups"] = serde_json::to_value(&stats.tools)?;
    }
    document["totalCostUSD"] = json!(totals.cost.dollars());
    let per_day: Map<String, Value> = stats
        .days
        .iter()
        .filter_map(|(day, it)| Some((day.to_string(), json!(it.cost.dollars()?))))
        .collect();
    document["costPerDay"] = Value::Object(per_day);
    document["tokenUsage"] = json!({
        "totalInput": totals.tokens.input,
        "totalOutput": totals.tokens.output,
        "totalCacheRead": totals.tokens.cache_read,
        "totalCacheCreation": totals.tokens.cache_creation,
    });
    Ok(document)
}

fn figures(figures: &Figures) -> Result<Value> {
    let mut document = serde_json::to_value(figures)?;
    document["cache_hit_ratio"] = json!(figures.cache_hit_ratio());
    document["error_rate"] = json!(figures.error_rate());
    document["turns_per_session"] = json!(figures.turns_per_session());
    Ok(document)
}
