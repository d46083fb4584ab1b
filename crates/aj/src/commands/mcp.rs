//! `aj mcp`: the journal for agents.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::Journal;
use agent_journal::search::agent;
use anyhow::{Result, anyhow};

use crate::context::Context;
use crate::error::{FOUND, remark};

/// What the server is called in configurations.
const NAME: &str = "agent-journal";

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj mcp --print-config claude     what to write where, for one agent
  aj mcp --print-config codex      and for another
  aj mcp                           answer on standard input and output; agents run this")]
pub(crate) struct Args {
    /// Print what an agent's configuration needs, and where it belongs
    #[arg(long, value_name = "AGENT")]
    print_config: Option<String>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    match &args.print_config {
        Some(name) => print_config(name)?,
        None => crate::mcp::serve(context)?,
    }
    Ok(FOUND)
}

fn print_config(name: &str) -> Result<()> {
    let id = agent(name)?;
    let found = Journal::agents().find(|agent| agent.id == id);
    let client = found.and_then(|agent| agent.mcp.as_ref());
    let client = client.ok_or_else(|| anyhow!("{name} uses no MCP servers"))?;
    // What goes to standard output can be written to a file as it is.
    remark(&format!(" belongs into {}", client.file));
    if let Some(add) = client.add {
        let add = add.replace("NAME", NAME).replace("COMMAND", "aj mcp");
        remark(&format!(" or run {add}"));
    }
    write!(anstream::stdout(), "{}", client.snippet(NAME, "aj", &["mcp"]))?;
    Ok(())
}
