//! `aj tui`, and `aj` without a command: runs the terminal UI.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::RedactArgs;
use crate::context::CommandContext;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj                        browse all sessions
  aj tui project:web login  start with a query")]
pub(crate) struct TuiArgs {
    /// Initial query
    #[arg(value_name = "QUERY")]
    query: Vec<String>,

    #[command(flatten)]
    redact: RedactArgs,
}

pub(crate) fn run_tui_command(args: &TuiArgs, context: &CommandContext) -> Result<ExitCode> {
    if context.json || !has_screen() {
        bail!("`aj tui` needs a terminal; use `aj search` and `aj show` instead");
    }
    crate::tui::run_tui(&context.with_redaction(args.redact.of_views()), &args.query.join(" "))
}

/// Runs `aj` without a command: the terminal UI, or the usage if there is no terminal.
pub(super) fn run_without_command(context: &CommandContext) -> Result<ExitCode> {
    if context.json || !has_screen() {
        crate::args::GlobalArgs::ask_for_command();
    }
    crate::tui::run_tui(&context.with_redaction(RedactArgs::default().of_views()), "")
}

/// Returns whether standard input and output are a terminal that can position text.
fn has_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !is_dumb
}
