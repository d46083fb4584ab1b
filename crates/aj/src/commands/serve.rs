//! `aj serve`: the dashboard.

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::Result;

use super::RedactArgs;
use crate::context::Context;
use crate::error::FOUND;
use crate::web;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj serve --open                 the dashboard, in your browser
  aj serve --port 0               on any port that is free
  aj serve --bind 0.0.0.0         for other machines; the address carries a secret")]
pub(crate) struct Args {
    /// The port; 0 picks a free one
    #[arg(long, short, value_name = "PORT", default_value_t = 3957)]
    port: u16,

    /// The address to listen on; any but this machine's own requires the secret that is printed
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: IpAddr,

    /// Open it in the browser
    #[arg(long)]
    open: bool,

    #[command(flatten)]
    redact: RedactArgs,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let options = web::Options { bind: args.bind, port: args.port, open: args.open };
    web::serve(&options, &context.redacting(&args.redact))?;
    Ok(FOUND)
}
