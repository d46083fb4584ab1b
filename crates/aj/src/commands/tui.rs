//! `aj tui`, and `aj` alone on a terminal: look around on the whole screen.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::RedactArgs;
use crate::context::Context;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj                        on a terminal, the same
  aj tui project:web login  begin with a query")]
pub(crate) struct Args {
    /// What to look for at first
    #[arg(value_name = "QUERY")]
    query: Vec<String>,

    #[command(flatten)]
    redact: RedactArgs,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    if context.json || !has_screen() {
        bail!("there is no screen here; `aj search` and `aj show` print their answers");
    }
    crate::tui::run(&context.redacting(&args.redact), &args.query.join(" "))
}

/// What `aj` without a command does: with nobody at a screen it tells what can be asked.
pub(super) fn alone(context: &Context) -> Result<ExitCode> {
    if context.json || !has_screen() {
        crate::args::Args::ask_for_command();
    }
    crate::tui::run(&context.redacting(&RedactArgs::default()), "")
}

/// Whether somebody sits at a terminal that can place text.
fn has_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && !is_dumb
}
