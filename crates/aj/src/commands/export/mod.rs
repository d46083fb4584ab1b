//! `aj export`: writes sessions to files or standard output.

mod choice;
#[cfg(feature = "parquet")]
mod tables;
mod target;
mod write;

use std::path::PathBuf;
use std::process::ExitCode;

use agent_journal::Journal;
use agent_journal::export::{DetailLevel, ExportOptions, Pick, Placement, Theme};
use anyhow::Result;
use clap::ValueEnum;

use self::choice::ExportSelection;
use self::target::ExportTarget;
use super::FilterArgs;
use crate::context::CommandContext;
use crate::error::FOUND;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj export 3f1c                                    one session as an HTML page
  aj export 3f1c -o - --format markdown             Markdown on standard output
  aj export 'project:web since:30d' -o web/         a directory of pages with an index
  aj export --all --format ndjson.zst -o all.ndjson.zst
  aj export --all --format parquet -o tables/       tables for DuckDB, pandas, Spark
  aj export 3f1c --json | jq .session")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ExportArgs {
    /// Session ids or unique prefixes; anything else is a query, as in `aj search`
    #[arg(value_name = "ID|QUERY", required_unless_present = "all")]
    what: Vec<String>,

    /// Export all sessions that the other flags select
    #[arg(long, conflicts_with = "what")]
    all: bool,

    #[command(flatten)]
    filter: FilterArgs,

    /// Format: html, markdown, json, ndjson or parquet; append .gz or .zst to compress
    #[arg(long, short, value_name = "NAME")]
    format: Option<String>,

    /// Write to this file or directory; - for standard output
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,

    /// Replace existing files
    #[arg(long)]
    force: bool,

    /// Level of detail of HTML and Markdown
    #[arg(long, value_name = "LEVEL")]
    detail: Option<Level>,

    /// Colours of HTML pages
    #[arg(long, value_name = "NAME")]
    theme: Option<ThemeArg>,

    /// Where JSON puts tool results
    #[arg(long, value_name = "PLACE", default_value = "separate")]
    tool_results: ResultsArg,

    /// Include sub-agents
    #[arg(long, overrides_with = "no_sub_agents")]
    sub_agents: bool,

    /// Exclude sub-agents
    #[arg(long)]
    no_sub_agents: bool,

    /// Describe images instead of including them
    #[arg(long)]
    no_images: bool,

    /// Embed remote images in Markdown instead of linking to them
    #[arg(long)]
    remote_images: bool,

    /// Redact secrets, home directories and your name (default for HTML and Markdown)
    #[arg(long, overrides_with = "no_redact")]
    redact: bool,

    /// Do not redact anything (default for JSON, ndjson and Parquet)
    #[arg(long)]
    no_redact: bool,

    /// Split Markdown into several files: at the next prompt after KB kilobytes
    #[arg(long, value_name = "KB")]
    split: Option<u64>,
}

/// How much of a session.
#[derive(Clone, Copy, ValueEnum)]
enum Level {
    /// Prompts and final answers
    Answers,
    /// One line for each action
    Actions,
    /// Tool inputs and outputs, and reasoning
    Tools,
    /// Metadata of every message, and injected text
    Everything,
}

/// Colours of HTML pages.
#[derive(Clone, Copy, ValueEnum)]
enum ThemeArg {
    Dark,
    Light,
    Auto,
}

/// Where results of tools stand.
#[derive(Clone, Copy, ValueEnum)]
enum ResultsArg {
    /// In separate messages
    Separate,
    /// With their tool calls
    Grouped,
}

pub(crate) fn run_export(args: &ExportArgs, context: &CommandContext) -> Result<ExitCode> {
    let target = ExportTarget::from_args(args, context)?;
    let sub_agents = match (args.sub_agents, args.no_sub_agents) {
        (true, _) => Pick::With,
        (_, true) => Pick::Without,
        _ => target.format.default_sub_agents(),
    };
    let journal = context.fresh_journal()?;
    let entries = ExportSelection { args, context, journal: &journal, sub_agents }
        .selected_entries(&target)?;
    if entries.is_empty() {
        let message = "no sessions match; try the same query with `aj search`";
        return CommandContext::report_nothing_found(&journal, message);
    }
    let mut target = target.for_number(entries.len())?;
    // A query can match any number of sessions, an id only one.
    target.is_open_ended |= args.what.iter().any(|what| journal.find_session(what).is_err());
    let options = ExportOptions { sub_agents, ..export_options(args, context, &target, &journal) };
    let mut export = journal.start_export(target.format, options);
    export.count_secrets();
    let written = write::write_all(&mut export, &entries, &target)?;
    write::report_written(&written, &export, entries.len());
    write::report_secrets(export.counted_secrets());
    Ok(FOUND)
}

fn export_options(
    args: &ExportArgs,
    context: &CommandContext,
    target: &ExportTarget,
    journal: &Journal,
) -> ExportOptions {
    let usual = context.settings.export_options();
    let is_cleaned = args.redact || target.format.is_shared() && !args.no_redact;
    ExportOptions {
        detail: args.detail.map_or(usual.detail, Into::into),
        theme: args.theme.map_or(usual.theme, Into::into),
        placement: match args.tool_results {
            ResultsArg::Separate => Placement::Separate,
            ResultsArg::Grouped => Placement::Grouped,
        },
        pictures: if args.no_images { Pick::Without } else { Pick::With },
        remote_images: if args.remote_images { Pick::With } else { Pick::Without },
        // An explicit `--detail` overrides the setting that leaves out tool calls.
        leaves_out_tools: usual.leaves_out_tools && args.detail.is_none(),
        redactor: is_cleaned.then(|| journal.owner_redactor()),
        ..ExportOptions::default()
    }
}

impl From<Level> for DetailLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Answers => Self::Answers,
            Level::Actions => Self::Actions,
            Level::Tools => Self::Tools,
            Level::Everything => Self::Everything,
        }
    }
}

impl From<ThemeArg> for Theme {
    fn from(look: ThemeArg) -> Self {
        match look {
            ThemeArg::Dark => Self::Dark,
            ThemeArg::Light => Self::Light,
            ThemeArg::Auto => Self::Auto,
        }
    }
}
