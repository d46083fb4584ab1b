//! `aj export`: write sessions down.

mod choice;
#[cfg(feature = "parquet")]
mod tables;
mod target;
mod write;

use std::path::PathBuf;
use std::process::ExitCode;

use agent_journal::Journal;
use agent_journal::export::{Detail, Options, Pick, Placement, Theme};
use anyhow::Result;
use clap::ValueEnum;

use self::choice::Choice;
use self::target::Target;
pub(crate) use self::write::file_name;
use super::FilterArgs;
use crate::context::Context;
use crate::error::FOUND;
use crate::settings::Settings;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj export 3f1c                                    one session as a page
  aj export 3f1c -o - --format markdown             Markdown on the terminal
  aj export 'project:web since:30d' -o web/         a directory with an index
  aj export --all --format ndjson.zst -o all.ndjson.zst
  aj export --all --format parquet -o tables/       for DuckDB, pandas, Spark
  aj export 3f1c --json | jq .session")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Args {
    /// Session ids or their beginnings; anything else is a query, as for `aj search`
    #[arg(value_name = "ID|QUERY", required_unless_present = "all")]
    what: Vec<String>,

    /// Every session, or every one the flags choose
    #[arg(long, conflicts_with = "what")]
    all: bool,

    #[command(flatten)]
    filter: FilterArgs,

    /// html, markdown, json, ndjson or parquet; with .gz or .zst to compress
    #[arg(long, short, value_name = "NAME")]
    format: Option<String>,

    /// Where to: a file, a directory, or - for standard output
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,

    /// Replace files that are there
    #[arg(long)]
    force: bool,

    /// How much of a session a page or Markdown tells
    #[arg(long, value_name = "LEVEL")]
    detail: Option<Level>,

    /// The colours of a page
    #[arg(long, value_name = "NAME")]
    theme: Option<Look>,

    /// Where JSON has the results of tools
    #[arg(long, value_name = "PLACE", default_value = "separate")]
    tool_results: Results,

    /// Tell sub-agents' sessions too
    #[arg(long, overrides_with = "no_sub_agents")]
    sub_agents: bool,

    /// Leave sub-agents' sessions out
    #[arg(long)]
    no_sub_agents: bool,

    /// Describe pictures only
    #[arg(long)]
    no_images: bool,

    /// Keep pictures in Markdown that a viewer fetches from elsewhere; else they become links
    #[arg(long)]
    remote_images: bool,

    /// Redact secrets, home directories and your name (default for HTML and Markdown)
    #[arg(long, overrides_with = "no_redact")]
    redact: bool,

    /// Leave everything in (default for JSON, ndjson and Parquet)
    #[arg(long)]
    no_redact: bool,

    /// Begin another file at the next prompt after so many kB (Markdown)
    #[arg(long, value_name = "KB")]
    split: Option<u64>,
}

/// How much of a session.
#[derive(Clone, Copy, ValueEnum)]
enum Level {
    /// Prompts and final answers
    Answers,
    /// What was done, a line each
    Actions,
    /// Inputs and outputs of tools, and reasoning
    Tools,
    /// Circumstances of every message, and what the program put in
    Everything,
}

/// The colours of a page.
#[derive(Clone, Copy, ValueEnum)]
enum Look {
    Dark,
    Light,
    Auto,
}

/// Where results of tools stand.
#[derive(Clone, Copy, ValueEnum)]
enum Results {
    /// In messages of their own
    Separate,
    /// With the call they answer
    Grouped,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let target = Target::of(args, context)?;
    let sub_agents = match (args.sub_agents, args.no_sub_agents) {
        (true, _) => Pick::With,
        (_, true) => Pick::Without,
        _ => target.format.sub_agents(),
    };
    let (journal, _) = context.fresh_journal()?;
    let entries = Choice { args, context, journal: &journal, sub_agents }.entries(&target)?;
    if entries.is_empty() {
        let message = "no sessions match; `aj list` and `aj search` take the same words";
        return Context::nothing_found(&journal, message);
    }
    let mut target = target.for_number(entries.len())?;
    // A query chooses any number of sessions, an id one.
    target.is_open_ended |= args.what.iter().any(|what| journal.session(what).is_err());
    let options = Options { sub_agents, ..options(args, context, &target, &journal) };
    let mut export = journal.export(target.format, options);
    export.count_secrets();
    let written = write::all(&mut export, &entries, &target)?;
    write::report(&written, &export, entries.len());
    write::report_secrets(export.counted_secrets());
    Ok(FOUND)
}

/// How sessions are written down when nobody says otherwise.
pub(crate) fn usual(settings: &Settings) -> Options {
    let tools = settings.flag("export.include_tool_calls");
    Options {
        detail: if tools { Detail::Tools } else { Detail::Answers },
        leaves_out_tools: !tools,
        theme: match settings.word("export.html_theme") {
            "light" => Theme::Light,
            "auto" => Theme::Auto,
            _ => Theme::Dark,
        },
        pictures: Pick::With,
        ..Options::default()
    }
}

fn options(args: &Args, context: &Context, target: &Target, journal: &Journal) -> Options {
    let usual = usual(&context.settings);
    let is_cleaned = args.redact || target.format.is_shared() && !args.no_redact;
    Options {
        detail: args.detail.map_or(usual.detail, Into::into),
        theme: args.theme.map_or(usual.theme, Into::into),
        placement: match args.tool_results {
            Results::Separate => Placement::Separate,
            Results::Grouped => Placement::Grouped,
        },
        pictures: if args.no_images { Pick::Without } else { Pick::With },
        remote_images: if args.remote_images { Pick::With } else { Pick::Without },
        // Of a page the level decides; whoever asks for one asks for what it has.
        leaves_out_tools: usual.leaves_out_tools && args.detail.is_none(),
        redactor: is_cleaned.then(|| journal.redactor()),
        ..Options::default()
    }
}

impl From<Level> for Detail {
    fn from(level: Level) -> Self {
        match level {
            Level::Answers => Self::Answers,
            Level::Actions => Self::Actions,
            Level::Tools => Self::Tools,
            Level::Everything => Self::Everything,
        }
    }
}

impl From<Look> for Theme {
    fn from(look: Look) -> Self {
        match look {
            Look::Dark => Self::Dark,
            Look::Light => Self::Light,
            Look::Auto => Self::Auto,
        }
    }
}
