//! The command line: what every command shares, and the list of commands.

use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use crate::commands::{
    config, demo, export, index, list, resume, score, search, secrets, show, sources, stats,
    statusline, tui,
};

/// The history of all your coding agents: one local journal, searchable.
#[derive(Parser)]
#[command(name = "aj", version, max_term_width = 100)]
#[command(after_help = "Examples:
  aj                               look around, on a terminal
  aj search flaky login test       find it, in any agent's history
  aj list --agent claude           the latest sessions
  aj show 3f1c#14                  read one, around message 14
  aj stats --since 30d             tokens, cost, time and tools
  aj export 3f1c                   take it along as a page
  aj sources                       what was looked at, and what was found")]
pub(crate) struct Args {
    /// Read the agents' files of another home directory
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) home: Option<PathBuf>,

    /// Write JSON
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,

    /// Answer from what the journal holds, without looking for news
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) no_sync: bool,

    /// When to use colours
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Global options"
    )]
    pub(crate) color: Color,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Find sessions by what was said and done in them
    Search(search::Args),
    /// List sessions, the latest first
    List(list::Args),
    /// Read a session
    Show(show::Args),
    /// Go on with a session in its own agent
    Resume(resume::Args),
    /// Sum up tokens, cost, time and tools
    Stats(stats::Args),
    /// Show how well the work with agents goes, and why
    Score(score::Args),
    /// Print one line for a prompt or an agent's status bar
    Statusline(statusline::Args),
    /// Write sessions down: a page, Markdown, JSON
    Export(export::Args),
    /// Find keys, tokens and passwords in the history
    Secrets(secrets::Args),
    /// Show what was looked at, understood and skipped, agent by agent
    Sources(sources::Args),
    /// Read everything new into the journal
    Index(index::Args),
    /// Show or make the configuration
    Config(config::Args),
    /// Try it on a few made-up sessions
    Demo(demo::Args),
    /// Look around in the history, on the whole screen
    Tui(tui::Args),
}

impl Args {
    /// Tells what can be asked, as an answer to nothing, and ends.
    pub(crate) fn ask_for_command() -> ! {
        Self::command().arg_required_else_help(true).subcommand_required(true).get_matches();
        unreachable!("without a command the arguments are never complete")
    }
}

/// When to use colours.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    Always,
    Never,
}

impl Color {
    pub(crate) fn write_global(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}
