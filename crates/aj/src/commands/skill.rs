//! `aj skill`: what an agent has to know to use the journal from its shell.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use agent_journal::Journal;
use agent_journal::search::{agent, fields};
use anyhow::{Context as _, Result, anyhow, bail};

use crate::context::Context;
use crate::error::{FOUND, remark};

/// The skill, with `FIELDS` in the place of the fields.
const TEMPLATE: &str = include_str!("skill.md");

/// The directory of the skill, and its file.
const PLACE: &str = "agent-journal/SKILL.md";

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj skill                        read it, or write it where your agent looks for skills
  aj skill --install claude       write it there")]
pub(crate) struct Args {
    /// Write it where this agent looks for skills
    #[arg(long, value_name = "AGENT")]
    install: Option<String>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let Some(name) = &args.install else {
        write!(anstream::stdout(), "{}", skill())?;
        return Ok(FOUND);
    };
    let file = place(name, context)?;
    let skill = skill();
    if let Ok(known) = fs::read_to_string(&file)
        && known != skill
        && !known.contains("name: agent-journal")
    {
        bail!("{} is something else; move it away first", file.display());
    }
    let attempt = || format!("could not write {}", file.display());
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory).with_context(attempt)?;
    }
    fs::write(&file, &skill).with_context(attempt)?;
    remark(&format!(" written to {}", file.display()));
    Ok(FOUND)
}

fn place(name: &str, context: &Context) -> Result<PathBuf> {
    let id = agent(name)?;
    let found = Journal::agents().find(|agent| agent.id == id);
    let skills = found.and_then(|agent| agent.mcp.as_ref()).and_then(|client| client.skills);
    let skills = skills.ok_or_else(|| anyhow!("{name} has no directory for skills"))?;
    Ok(context.settings.machine().home.join(skills).join(PLACE))
}

/// Returns the skill with every field of the query language and its values.
fn skill() -> String {
    let lines = fields().iter().map(|field| {
        let mut line = format!("- `{}:` {}", field.name, field.about);
        for (at, value) in field.values.iter().enumerate() {
            line.push_str(if at == 0 { " — `" } else { ", `" });
            line.push_str(value);
            line.push('`');
        }
        line
    });
    let lines: Vec<String> = lines.collect();
    TEMPLATE.replace("FIELDS", &lines.join("\n"))
}
