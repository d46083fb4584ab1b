//! `aj search`: find it.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use agent_journal::Journal;
use agent_journal::search::{self, Blend, Fusion, Query};
use anyhow::{Result, bail};
use clap::ValueEnum;

use super::{FilterArgs, RedactArgs};
use crate::args::words_without;
use crate::context::Context;
use crate::error::found;
use crate::output;
use crate::output::search::{Report, closing, document, empty, text};
use crate::settings::Settings;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj search flaky login test
  aj search '\"copper lattice\"' -draft               a phrase, without a word
  aj search 'login OR signin' agent:claude since:7d
  aj search '/E0[0-9]+/' file:main.rs has:error      a regular expression
  aj search tool:bash is:failed since:7d             fields alone: every command that failed
  aj search role:you project:web                     your prompts in a project, latest first
  aj search login -C 2 --max-tokens 2000 --json      for an agent
  aj search login --facets agent,month --explain")]
pub(crate) struct Args {
    /// Words, "phrases", begin*, -not, /regex/, OR, NOT, ( ), and fields: agent: project: path:
    /// file: edited: branch: model: role: tool: kind: is: has: since: until: session: prompts: active:
    /// hour: include:sidechains. Fields alone list what fits, the latest first
    #[arg(required = true, value_name = "QUERY")]
    query: Vec<String>,

    #[command(flatten)]
    filter: FilterArgs,

    /// How many results at most; 0 for no limit
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,

    /// How many results to pass over
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,

    /// Messages before and after each match [default: `search.default_context`, else 0; with --json 3]
    #[arg(long, short = 'C', value_name = "N")]
    context: Option<u64>,

    /// How text is compared (as `search.default_mode` says: hybrid)
    #[arg(long, value_name = "HOW")]
    mode: Option<Mode>,

    /// What comes first
    #[arg(long, value_name = "WHAT", default_value = "relevance")]
    sort: Sort,

    /// What one result is
    #[arg(long, value_name = "WHAT", default_value = "session")]
    group: Group,

    /// Count the results by these: agent, project, model, month
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    facets: Vec<Facet>,

    /// Write at most so many tokens, and say what was left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..))]
    max_tokens: Option<u64>,

    /// Tell how the query was understood and what each step found
    #[arg(long)]
    explain: bool,

    #[command(flatten)]
    redact: RedactArgs,
}

/// More results than any history has.
const MOST: usize = 1_000_000;

/// How text is compared.
#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// By its words
    Lexical,
    /// By its meaning
    Semantic,
    /// By both
    Hybrid,
}

/// What comes first.
#[derive(Clone, Copy, ValueEnum)]
enum Sort {
    /// What fits best
    Relevance,
    /// What is latest
    Time,
}

/// What one result is.
#[derive(Clone, Copy, ValueEnum)]
enum Group {
    /// A session with its best messages
    Session,
    /// A message
    Message,
}

/// What results are counted by.
#[derive(Clone, Copy, ValueEnum)]
enum Facet {
    Agent,
    Project,
    Model,
    Month,
}

/// Says why a search by meaning alone can find nothing; `None` when it can.
pub(crate) fn why_no_meaning(journal: &Journal, mode: search::Mode) -> Option<String> {
    let problem = (mode == search::Mode::Semantic).then(|| journal.no_meaning()).flatten()?;
    Some(format!("nothing is found by meaning: {problem}, and `index.vector.fallback` is none"))
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let started = Instant::now();
    let mut query = Query::parse(&args.query.join(" "), &context.now)?;
    args.filter.apply(&mut query.filter, &context.now)?;
    if !query.looks_for_something() && !query.is_fields_only() {
        bail!("nothing to look for: give at least one word that must be there");
    }
    let options = options(args, context);
    if options.mode == search::Mode::Semantic && !context.settings.flag("index.vector.enabled") {
        bail!("nothing is found by meaning while `index.vector.enabled` is false");
    }
    if options.mode == search::Mode::Semantic
        && let Some(reason) = why_no_meaning(&context.journal()?, options.mode)
    {
        bail!(reason);
    }
    let mut answered = context.answer(|journal| Ok(journal.find(&query, &options)?))?;
    let mut redactor = args.redact.redactor(&answered.journal);
    if let Some(redactor) = &mut redactor {
        answered.journal.redact_answer(&mut answered.answer, redactor)?;
    }
    args.redact.report(redactor.as_ref());
    let figures = if context.json {
        let sessions = answered.answer.sessions.iter();
        let entries: Vec<_> = sessions.map(|found| found.entry.clone()).collect();
        answered.journal.session_figures(&entries)?
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
        width: output::width(),
        now: &context.now,
    };
    if context.json {
        let mut out = std::io::stdout().lock();
        out.write_all(document(&report)?.as_bytes())?;
    } else {
        let mut out = output::stdout();
        text(&mut out, &report)?;
        out.flush()?;
        if answered.answer.sessions.is_empty() {
            return Context::nothing_found(&answered.journal, &empty(&report));
        }
        closing(&report);
    }
    let is_found = !answered.answer.sessions.is_empty();
    answered.leave();
    Ok(found(is_found))
}

fn mode(asked: Option<Mode>, settings: &Settings) -> search::Mode {
    match asked {
        Some(Mode::Lexical) => search::Mode::Lexical,
        Some(Mode::Semantic) => search::Mode::Semantic,
        Some(Mode::Hybrid) => search::Mode::Hybrid,
        None => usual_mode(settings),
    }
}

/// How text is compared when nobody says it.
pub(crate) fn usual_mode(settings: &Settings) -> search::Mode {
    match settings.word("search.default_mode") {
        "lexical" => search::Mode::Lexical,
        "semantic" => search::Mode::Semantic,
        _ => search::Mode::Hybrid,
    }
}

fn options(args: &Args, context: &Context) -> search::Options {
    let settings = &context.settings;
    let is_asked = context.json || settings.is_set("search.default_context");
    let around = if is_asked { settings.number("search.default_context") as u64 } else { 0 };
    search::Options {
        limit: match args.limit.unwrap_or(settings.number("search.max_results")) {
            0 => MOST,
            limit => limit,
        },
        offset: args.offset,
        mode: mode(args.mode, settings),
        blend: Blend {
            fusion: match settings.word("search.fusion") {
                "ranks" => Fusion::Ranks,
                _ => Fusion::default(),
            },
            ..Blend::default()
        },
        sort: match args.sort {
            Sort::Relevance => search::Sort::Relevance,
            Sort::Time => search::Sort::Time,
        },
        group: match args.group {
            Group::Session => search::Grouping::Session,
            Group::Message => search::Grouping::Message,
        },
        context: args.context.unwrap_or(around),
        facets: args.facets.iter().map(|facet| (*facet).into()).collect(),
        zone: context.now.time_zone().clone(),
    }
}

impl From<Facet> for search::Facet {
    fn from(facet: Facet) -> Self {
        match facet {
            Facet::Agent => Self::Agent,
            Facet::Project => Self::Project,
            Facet::Model => Self::Model,
            Facet::Month => Self::Month,
        }
    }
}
