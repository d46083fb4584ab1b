//! `aj serve`: runs the dashboard.

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::Result;

use super::RedactArgs;
use crate::context::CommandContext;
use crate::error::FOUND;
use crate::web;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj serve --open                 open the dashboard in your browser
  aj serve --port 0               use any free port
  aj serve --bind 0.0.0.0         allow other machines; the printed URL contains a secret")]
pub(crate) struct ServeArgs {
    /// Port to listen on; 0 picks a free one
    #[arg(long, short, value_name = "PORT", default_value_t = 3957)]
    port: u16,

    /// Address to listen on; other than loopback, visitors need the secret of the printed URL
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: IpAddr,

    /// Open the dashboard in a browser
    #[arg(long)]
    open: bool,

    #[command(flatten)]
    redact: RedactArgs,
}

pub(crate) fn run_serve(args: &ServeArgs, context: &CommandContext) -> Result<ExitCode> {
    let options = web::ServeOptions { bind: args.bind, port: args.port, open: args.open };
    web::serve_dashboard(&options, &context.with_redaction(args.redact.of_views()))?;
    Ok(FOUND)
}
