//! One file per command, with its arguments and its `run_…` function.

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
pub(crate) mod restore;
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
use agent_journal::search::{DayEdge, Filter, Scope, agent_name, date};
use agent_journal::{Journal, ViewRedaction};
use anyhow::Result;
use jiff::Zoned;

use crate::args::{AjCommand, GlobalArgs};
use crate::context::CommandContext;
use crate::error::print_notice;
use crate::session_filter::filter_of_fields;

/// The environment variable that any agent can set to identify itself.
const ANY_AGENT: &str = "AI_AGENT";

/// Runs the command of the command line.
pub(crate) fn run_command(args: GlobalArgs) -> Result<ExitCode> {
    match CommandContext::new(&args) {
        Ok(context) => run_in(args, &context),
        Err(error) if matches!(args.command, Some(AjCommand::Doctor(_))) => {
            doctor::without_settings(&error, args.json)
        }
        Err(error) => Err(error),
    }
}

/// Runs a command in the given context.
fn run_in(args: GlobalArgs, context: &CommandContext) -> Result<ExitCode> {
    let Some(command) = args.command else { return tui::run_without_command(context) };
    crate::restart::allow_restart_of(&command);
    match command {
        AjCommand::Search(args) => search::run_search_command(&args, context),
        AjCommand::List(args) => list::run_list(&args, context),
        AjCommand::Show(args) => show::run_show(&args, context),
        AjCommand::Resume(args) => resume::run_resume(&args, context),
        AjCommand::Restore(args) => restore::run_restore(&args, context),
        AjCommand::Handoff(args) => handoff::run_handoff(&args, context),
        AjCommand::Blame(args) => blame::run(&args, context),
        AjCommand::Files(args) => files::run_files(&args, context),
        AjCommand::Stats(args) => stats::run_stats(&args, context),
        AjCommand::Score(args) => score::run_score(&args, context),
        AjCommand::Statusline(args) => statusline::run_statusline(&args, context),
        AjCommand::Export(args) => export::run_export(&args, context),
        AjCommand::Import(args) => import::run_import(&args, context),
        AjCommand::Secrets(args) => secrets::run_secrets(&args, context),
        AjCommand::Serve(args) => serve::run_serve(&args, context),
        AjCommand::Sources(args) => sources::run_sources(&args, context),
        AjCommand::Why(args) => why::run_why(&args, context),
        AjCommand::Index(args) => index::run_index(&args, context),
        AjCommand::Mcp(args) => mcp::run_mcp(&args, context),
        AjCommand::Skill(args) => skill::run_skill(&args, context),
        AjCommand::Config(args) => config::run_config(&args, context),
        AjCommand::Doctor(args) => doctor::run_doctor(&args, context),
        AjCommand::Completions(args) => completions::run_completions(&args),
        AjCommand::Man(args) => man::run_man(&args),
        AjCommand::Demo(args) => demo::run_demo(&args, context.json),
        AjCommand::Tui(args) => tui::run_tui_command(&args, context),
    }
}

/// Flags that choose sessions, the same for every command.
#[derive(clap::Args, Default)]
pub(crate) struct FilterArgs {
    /// Only this agent, by id or alias; can be repeated
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,

    /// Only projects whose name or path contains TEXT
    #[arg(long, value_name = "TEXT")]
    project: Vec<String>,

    /// Only this git branch
    #[arg(long, value_name = "NAME")]
    branch: Vec<String>,

    /// Only since this time: 2026-11-03, 7d, 12h, yesterday, 'last week', 'this month'
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,

    /// Only until this time
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
}

impl FilterArgs {
    /// Adds the conditions of the flags to a filter.
    pub(crate) fn apply_flags(&self, filter: &mut Filter, now: &Zoned) -> Result<()> {
        for name in &self.agent {
            filter.agents.push(agent_name(name)?);
        }
        filter.projects.extend(self.project.iter().cloned());
        filter.branches.extend(self.branch.iter().cloned());
        if let Some(text) = &self.since {
            filter.since = Some(date(text, now, DayEdge::Start)?);
        }
        if let Some(text) = &self.until {
            filter.until = Some(date(text, now, DayEdge::End)?);
        }
        Ok(())
    }

    /// Returns the filter that query fields and flags describe together.
    pub(crate) fn with_fields(
        &self,
        fields: &[String],
        scope: Scope,
        now: &Zoned,
    ) -> Result<Filter> {
        let mut filter = filter_of_fields(&fields.join(" "), scope, now)?;
        self.apply_flags(&mut filter, now)?;
        Ok(filter)
    }

    /// Returns the filter that the flags describe.
    pub(crate) fn filter_from_flags(&self, scope: Scope, now: &Zoned) -> Result<Filter> {
        let mut filter = Filter { scope, ..Filter::default() };
        self.apply_flags(&mut filter, now)?;
        Ok(filter)
    }
}

/// Flags that say whether secrets are redacted in the output.
#[derive(clap::Args, Default)]
pub(crate) struct RedactArgs {
    /// Redact secrets, home directories and your name [default: secrets, if an agent runs aj]
    #[arg(long, overrides_with = "no_redact")]
    redact: bool,

    /// Do not redact anything, even if an agent runs aj
    #[arg(long, overrides_with = "redact")]
    no_redact: bool,
}

impl RedactArgs {
    /// Returns a redactor if output is to be redacted: because a flag says so, or because an agent
    /// runs the command.
    pub(crate) fn requested_redactor(&self, journal: &Journal) -> Option<Redactor> {
        match (self.redact, self.no_redact) {
            (true, _) => Some(journal.owner_redactor()),
            (_, true) => None,
            _ => reading_agent().map(|_| Redactor::of_secrets()),
        }
    }

    /// Returns the redaction of all output, for commands that show many sessions.
    pub(crate) fn of_views(&self) -> ViewRedaction {
        match (self.redact, self.no_redact) {
            (true, _) => ViewRedaction::Personal,
            (_, true) => ViewRedaction::Off,
            _ if reading_agent().is_some() => ViewRedaction::Secrets,
            _ => ViewRedaction::Off,
        }
    }

    /// Reports redactions that were not requested by a flag.
    pub(crate) fn report_redactions(&self, redactor: Option<&Redactor>) {
        let secrets = redactor.map_or(0, Redactor::secret_count);
        if self.redact || secrets == 0 {
            return;
        }
        if let Some(variable) = reading_agent() {
            let secrets = crate::output::count(secrets, "secret");
            print_notice(&format!("{secrets} redacted because {variable} is set; see --no-redact"));
        }
    }
}

/// Returns the environment variable that shows that an agent runs this command.
fn reading_agent() -> Option<&'static str> {
    let is_set = |name: &&str| {
        let value = std::env::var(name).unwrap_or_default();
        !matches!(value.as_str(), "" | "0" | "false")
    };
    let all = Journal::supported_agents().flat_map(|agent| agent.shell_variables.iter().copied());
    all.chain([ANY_AGENT]).find(is_set)
}
