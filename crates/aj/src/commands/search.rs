//! `aj search`: finds sessions and messages.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use agent_journal::search::{self, Query, SearchOptions};
use anyhow::{Result, bail};
use clap::ValueEnum;

use super::{FilterArgs, RedactArgs};
use crate::args::words_without;
use crate::context::CommandContext;
use crate::error::{found_exit_code, print_notice};
use crate::output;
use crate::output::search::{
    Report, nothing_found_line, print_closing_line, search_json, write_results,
};
use crate::query_fields::{QUERY_HELP, QueryWord, SEARCH_AFTER_HELP, SEARCH_EXAMPLES};
use crate::session_filter::why_no_meaning;
use crate::settings::UserSettings;

#[derive(clap::Args)]
#[command(after_help = SEARCH_EXAMPLES, after_long_help = SEARCH_AFTER_HELP.as_str())]
pub(crate) struct SearchArgs {
    #[arg(
        required = true,
        value_name = "QUERY",
        help = QUERY_HELP.as_str(),
        value_parser = QueryWord,
        hide_possible_values = true
    )]
    query: Vec<String>,

    #[command(flatten)]
    filter: FilterArgs,

    /// Show at most N results; 0 for no limit
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,

    /// Skip the first N results
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,

    /// Show N messages of context around each match [default: `search.default_context` if set, else 0, or 3 with --json]
    #[arg(long, short = 'C', value_name = "N")]
    context: Option<u64>,

    /// Search mode [default: `search.default_mode`, hybrid]
    #[arg(long, value_name = "MODE")]
    mode: Option<ModeArg>,

    /// Order of the results
    #[arg(long, value_name = "ORDER", default_value = "relevance")]
    sort: SortArg,

    /// Return sessions or single messages
    #[arg(long, value_name = "UNIT", default_value = "session")]
    group: GroupArg,

    /// Count the results by agent, project, model or month
    #[arg(long, value_name = "FACET", value_delimiter = ',')]
    facets: Vec<FacetArg>,

    /// Limit the output to about N tokens, and report what was left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..))]
    max_tokens: Option<u64>,

    /// Explain how the query was parsed and what each step found
    #[arg(long)]
    explain: bool,

    #[command(flatten)]
    redact: RedactArgs,
}

/// A limit that is larger than the number of results in any history.
const MOST: usize = 1_000_000;

/// How text is compared.
#[derive(Clone, Copy, ValueEnum)]
enum ModeArg {
    /// Match words
    Lexical,
    /// Match by meaning
    Semantic,
    /// Match words and meaning
    Hybrid,
}

/// What comes first.
#[derive(Clone, Copy, ValueEnum)]
enum SortArg {
    /// Best match first
    Relevance,
    /// Latest first
    Time,
}

/// What one result is.
#[derive(Clone, Copy, ValueEnum)]
enum GroupArg {
    /// Sessions, each with its best messages
    Session,
    /// Messages
    Message,
}

/// What results are counted by.
#[derive(Clone, Copy, ValueEnum)]
enum FacetArg {
    Agent,
    Project,
    Model,
    Month,
}

pub(crate) fn run_search_command(args: &SearchArgs, context: &CommandContext) -> Result<ExitCode> {
    let started = Instant::now();
    let mut query = Query::parse(&args.query.join(" "), &context.now)?;
    args.filter.apply_flags(&mut query.filter, &context.now)?;
    if !query.looks_for_something() && !query.is_fields_only() {
        bail!("the query only excludes: add at least one word to search for");
    }
    if let Some(note) = &query.reading_note {
        print_notice(note);
    }
    let options = search_options(args, context);
    if options.mode == search::Mode::Semantic && !context.settings.index.searches_meaning {
        bail!("search by meaning is disabled: `index.vector.enabled` is false");
    }
    if options.mode == search::Mode::Semantic
        && let Some(reason) = why_no_meaning(&context.open_journal_only()?, options.mode)
    {
        bail!(reason);
    }
    let mut answered = context.answer_fresh(|journal| Ok(journal.search(&query, &options)?))?;
    let mut redactor = args.redact.requested_redactor(&answered.journal);
    if let Some(redactor) = &mut redactor {
        answered.journal.redact_answer(&mut answered.answer, redactor)?;
    }
    args.redact.report_redactions(redactor.as_ref());
    let figures = if context.json {
        let sessions = answered.answer.sessions.iter();
        let entries: Vec<_> = sessions.map(|found| found.entry.clone()).collect();
        answered.journal.figures_of_entries(&entries)?
    } else {
        Vec::new()
    };
    let report = Report {
        query: &query,
        answer: &answered.answer,
        figures: &figures,
        options: &options,
        call: words_without("--offset"),
        took: started.elapsed().as_millis() as u64,
        freshness: answered.freshness,
        explain: args.explain,
        max_bytes: args.max_tokens.map(output::bytes_of_tokens),
        width: output::output_width(),
        now: &context.now,
    };
    if context.json {
        let mut out = std::io::stdout().lock();
        out.write_all(search_json(&report)?.as_bytes())?;
    } else {
        let mut out = output::buffered_stdout();
        write_results(&mut out, &report)?;
        out.flush()?;
        if answered.answer.sessions.is_empty() {
            return CommandContext::report_nothing_found(
                &answered.journal,
                &nothing_found_line(&report),
            );
        }
        print_closing_line(&report);
    }
    let is_found = !answered.answer.sessions.is_empty();
    answered.leak_journal();
    Ok(found_exit_code(is_found))
}

fn search_mode(asked: Option<ModeArg>, settings: &UserSettings) -> search::Mode {
    match asked {
        Some(ModeArg::Lexical) => search::Mode::Lexical,
        Some(ModeArg::Semantic) => search::Mode::Semantic,
        Some(ModeArg::Hybrid) => search::Mode::Hybrid,
        None => settings.search.mode,
    }
}

fn search_options(args: &SearchArgs, context: &CommandContext) -> SearchOptions {
    let settings = &context.settings;
    let is_asked = context.json || settings.search.is_context_set;
    let around = if is_asked { settings.search.context } else { 0 };
    SearchOptions {
        limit: match args.limit.unwrap_or(settings.search.max_results) {
            0 => MOST,
            limit => limit,
        },
        offset: args.offset,
        mode: search_mode(args.mode, settings),
        sort: match args.sort {
            SortArg::Relevance => search::Sort::Relevance,
            SortArg::Time => search::Sort::Time,
        },
        grouping: match args.group {
            GroupArg::Session => search::Grouping::Session,
            GroupArg::Message => search::Grouping::Message,
        },
        context: args.context.unwrap_or(around),
        facets: args.facets.iter().map(|facet| (*facet).into()).collect(),
        zone: context.now.time_zone().clone(),
        ..SearchOptions::default()
    }
}

impl From<FacetArg> for search::Facet {
    fn from(facet: FacetArg) -> Self {
        match facet {
            FacetArg::Agent => Self::Agent,
            FacetArg::Project => Self::Project,
            FacetArg::Model => Self::Model,
            FacetArg::Month => Self::Month,
        }
    }
}
