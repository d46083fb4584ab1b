//! `aj mcp`: serves the journal to agents over MCP.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::Journal;
use agent_journal::search::agent;
use anyhow::{Result, anyhow};

use crate::context::CommandContext;
use crate::error::{FOUND, print_remark};

/// The name of the server in the configurations of agents.
const NAME: &str = "agent-journal";

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj mcp --print-config claude     print the configuration for Claude Code
  aj mcp --print-config codex      print the configuration for Codex CLI
  aj mcp                           serve on standard input and output; agents run this")]
pub(crate) struct McpArgs {
    /// Print the configuration for an agent, and where to add it
    #[arg(long, value_name = "AGENT")]
    print_config: Option<String>,
}

pub(crate) fn run_mcp(args: &McpArgs, context: &CommandContext) -> Result<ExitCode> {
    match &args.print_config {
        Some(name) => print_config(name)?,
        None => crate::mcp::serve_mcp(context)?,
    }
    Ok(FOUND)
}

fn print_config(name: &str) -> Result<()> {
    let id = agent(name)?;
    let found = Journal::supported_agents().find(|agent| agent.id == id);
    let client = found.and_then(|agent| agent.mcp.as_ref());
    let client = client.ok_or_else(|| anyhow!("{name} does not support MCP servers"))?;
    // Standard output contains only the configuration, so that it can be redirected to a file.
    print_remark(&format!(" Add this to {}", client.file));
    if let Some(add) = client.add {
        let add = add.replace("NAME", NAME).replace("COMMAND", "aj mcp");
        print_remark(&format!(" Or run: {add}"));
    }
    write!(anstream::stdout(), "{}", client.config_snippet(NAME, "aj", &["mcp"]))?;
    Ok(())
}
