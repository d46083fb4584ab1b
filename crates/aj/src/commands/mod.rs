//! One file per command: its arguments, its `run`.

pub(crate) mod blame;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod files;
pub(crate) mod handoff;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod resume;
pub(crate) mod score;
pub(crate) mod search;
pub(crate) mod secrets;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod skill;
pub(crate) mod sources;
pub(crate) mod stats;
pub(crate) mod statusline;
pub(crate) mod tui;
pub(crate) mod why;

use std::process::ExitCode;

use agent_journal::export::Redactor;
use agent_journal::search::fields as search_fields;
use agent_journal::search::{Edge, Filter, Query, Scope, agent_name, date};
use agent_journal::{Error, Journal, ViewRedaction};
use anyhow::Result;
use jiff::Zoned;

use crate::args::{Args, Command};
use crate::context::Context;
use crate::error::notice;

/// The variable by which any agent may say that it runs a command.
const ANY_AGENT: &str = "AI_AGENT";

/// Runs the command that was asked for.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    match Context::new(&args) {
        Ok(context) => run_in(args, &context),
        Err(error) if matches!(args.command, Some(Command::Doctor(_))) => {
            doctor::without_settings(&error, args.json)
        }
        Err(error) => Err(error),
    }
}

/// Runs a command in a context of the caller's making.
fn run_in(args: Args, context: &Context) -> Result<ExitCode> {
    let Some(command) = args.command else { return tui::alone(context) };
    match command {
        Command::Search(args) => search::run(&args, context),
        Command::List(args) => list::run(&args, context),
        Command::Show(args) => show::run(&args, context),
        Command::Resume(args) => resume::run(&args, context),
        Command::Handoff(args) => handoff::run(&args, context),
        Command::Blame(args) => blame::run(&args, context),
        Command::Files(args) => files::run(&args, context),
        Command::Stats(args) => stats::run(&args, context),
        Command::Score(args) => score::run(&args, context),
        Command::Statusline(args) => statusline::run(&args, context),
        Command::Export(args) => export::run(&args, context),
        Command::Import(args) => import::run(&args, context),
        Command::Secrets(args) => secrets::run(&args, context),
        Command::Serve(args) => serve::run(&args, context),
        Command::Sources(args) => sources::run(&args, context),
        Command::Why(args) => why::run(&args, context),
        Command::Index(args) => index::run(&args, context),
        Command::Mcp(args) => mcp::run(&args, context),
        Command::Skill(args) => skill::run(&args, context),
        Command::Config(args) => config::run(&args, context),
        Command::Doctor(args) => doctor::run(&args, context),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Demo(args) => demo::run(&args, context.json),
        Command::Tui(args) => tui::run(&args, context),
    }
}

/// Flags that choose sessions, the same for every command.
#[derive(clap::Args, Default)]
pub(crate) struct FilterArgs {
    /// Only this agent (an id or alias; may be repeated)
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,

    /// Only projects whose name or path has this in it
    #[arg(long, value_name = "TEXT")]
    project: Vec<String>,

    /// Only this branch
    #[arg(long, value_name = "NAME")]
    branch: Vec<String>,

    /// Only since then: 2026-11-03, 7d, 12h, today, yesterday
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,

    /// Only until then
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
}

impl FilterArgs {
    /// Adds what the flags say to a filter.
    pub(crate) fn apply(&self, filter: &mut Filter, now: &Zoned) -> Result<()> {
        for name in &self.agent {
            filter.agents.push(agent_name(name)?);
        }
        filter.projects.extend(self.project.iter().cloned());
        filter.branches.extend(self.branch.iter().cloned());
        if let Some(text) = &self.since {
            filter.since = Some(date(text, now, Edge::Start)?);
        }
        if let Some(text) = &self.until {
            filter.until = Some(date(text, now, Edge::End)?);
        }
        Ok(())
    }

    /// The filter that fields, as for a search, and flags describe together.
    pub(crate) fn with_fields(
        &self,
        fields: &[String],
        scope: Scope,
        now: &Zoned,
    ) -> Result<Filter> {
        let query = Query::parse(&fields.join(" "), now)?;
        if let Some(clause) = query.clauses.first() {
            let known: Vec<String> =
                search_fields().iter().map(|field| format!("{}:", field.name)).collect();
            return Err(wrong(format!(
                "`{clause}` is no field: known are {} — `aj search` looks for words",
                known.join(" ")
            )));
        }
        let mut filter = Filter { scope, ..query.filter };
        self.apply(&mut filter, now)?;
        Ok(filter)
    }

    /// The filter the flags alone describe.
    pub(crate) fn filter(&self, scope: Scope, now: &Zoned) -> Result<Filter> {
        let mut filter = Filter { scope, ..Filter::default() };
        self.apply(&mut filter, now)?;
        Ok(filter)
    }
}

/// Flags that say whether secrets are taken out of what is shown.
#[derive(clap::Args, Default)]
pub(crate) struct RedactArgs {
    /// Redact secrets, home directories and your name (secrets always, when an agent runs aj)
    #[arg(long, overrides_with = "no_redact")]
    redact: bool,

    /// Show everything as it was recorded, also to an agent
    #[arg(long, overrides_with = "redact")]
    no_redact: bool,
}

impl RedactArgs {
    /// Returns what takes secrets out, if they are to be taken out: because the user says so, or
    /// because an agent is reading.
    pub(crate) fn redactor(&self, journal: &Journal) -> Option<Redactor> {
        match (self.redact, self.no_redact) {
            (true, _) => Some(journal.redactor()),
            (_, true) => None,
            _ => reading_agent().map(|_| Redactor::of_secrets()),
        }
    }

    /// Returns what is taken out of every answer, for commands that show many.
    pub(crate) fn of_views(&self) -> ViewRedaction {
        match (self.redact, self.no_redact) {
            (true, _) => ViewRedaction::Personal,
            (_, true) => ViewRedaction::Off,
            _ if reading_agent().is_some() => ViewRedaction::Secrets,
            _ => ViewRedaction::Off,
        }
    }

    /// Says that secrets were taken out which nobody asked to take out.
    pub(crate) fn report(&self, redactor: Option<&Redactor>) {
        let secrets = redactor.map_or(0, Redactor::secrets);
        if self.redact || secrets == 0 {
            return;
        }
        if let Some(variable) = reading_agent() {
            let secrets = crate::output::count(secrets, "secret");
            notice(&format!("{secrets} redacted because {variable} is set; see --no-redact"));
        }
    }
}

/// Returns the variable that says that an agent runs this command.
fn reading_agent() -> Option<&'static str> {
    let is_set = |name: &&str| {
        let value = std::env::var(name).unwrap_or_default();
        !matches!(value.as_str(), "" | "0" | "false")
    };
    let all = Journal::agents().flat_map(|agent| agent.shell_variables.iter().copied());
    all.chain([ANY_AGENT]).find(is_set)
}

/// Complains about what only messages have, where whole sessions are chosen.
pub(crate) fn of_sessions(filter: &Filter) -> Result<()> {
    match filter.message_field() {
        Some(field) => {
            Err(wrong(format!("`{field}` chooses messages: `aj search` and `aj list` take it")))
        }
        None => Ok(()),
    }
}

/// What cannot be understood is whoever asked's to mend, wherever it was asked.
fn wrong(message: String) -> anyhow::Error {
    Error::Query { message }.into()
}
