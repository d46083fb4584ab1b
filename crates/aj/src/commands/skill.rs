//! `aj skill`: prints or installs a skill that describes how to use the journal from a shell.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use agent_journal::Journal;
use agent_journal::search::{agent, search_fields};
use anyhow::{Context as _, Result, anyhow, bail};

use crate::context::CommandContext;
use crate::error::{FOUND, print_remark};

/// The text of the skill, with `FIELDS` as placeholder for the list of fields.
const TEMPLATE: &str = include_str!("skill.md");

/// The path of the skill below an agent's directory of skills.
const PLACE: &str = "agent-journal/SKILL.md";

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj skill                        print the skill
  aj skill --install claude       install it for Claude Code")]
pub(crate) struct SkillArgs {
    /// Install the skill for this agent
    #[arg(long, value_name = "AGENT")]
    install: Option<String>,
}

pub(crate) fn run_skill(args: &SkillArgs, context: &CommandContext) -> Result<ExitCode> {
    let Some(name) = &args.install else {
        write!(anstream::stdout(), "{}", skill_text())?;
        return Ok(FOUND);
    };
    let file = skill_path(name, context)?;
    let skill = skill_text();
    if let Ok(known) = fs::read_to_string(&file)
        && known != skill
        && !known.contains("name: agent-journal")
    {
        bail!("{} exists and is not this skill; move it away first", file.display());
    }
    let attempt = || format!("could not write {}", file.display());
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory).with_context(attempt)?;
    }
    fs::write(&file, &skill).with_context(attempt)?;
    print_remark(&format!(" written to {}", file.display()));
    Ok(FOUND)
}

fn skill_path(name: &str, context: &CommandContext) -> Result<PathBuf> {
    let id = agent(name)?;
    let found = Journal::supported_agents().find(|agent| agent.id == id);
    let skills = found.and_then(|agent| agent.mcp.as_ref()).and_then(|client| client.skills);
    let skills = skills.ok_or_else(|| anyhow!("{name} does not support skills"))?;
    Ok(context.settings.scanned_machine().home.join(skills).join(PLACE))
}

/// Returns the skill with every field of the query language and its values.
fn skill_text() -> String {
    let lines = search_fields().iter().map(|field| {
        let mut line = format!("- `{}:` {}", field.name, field.help);
        if field.values.is_empty() {
            line.push_str(&format!(", such as `{}`", field.example));
        }
        for (at, value) in field.values.iter().enumerate() {
            line.push_str(if at == 0 { ": `" } else { ", `" });
            line.push_str(value);
            line.push('`');
        }
        line
    });
    let lines: Vec<String> = lines.collect();
    TEMPLATE.replace("FIELDS", &lines.join("\n"))
}
