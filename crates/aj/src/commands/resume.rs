//! `aj resume`: continues a session in its own agent.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use agent_journal::{Obstacle, Resumption};
use anyhow::{Result, anyhow};
use serde_json::json;

use crate::context::CommandContext;
use crate::error::{FOUND, print_warning};
use crate::output;
use crate::output::shell::ShellKind;
use crate::resume::{obstacle_text, run_agent};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj resume 3f1c --print               print the command instead of running it
  aj resume 3f1c --print --shell fish  the same, in fish syntax
  aj resume 3f1c --json                the command and any obstacles, as JSON")]
pub(crate) struct ResumeArgs {
    /// Session id or a unique prefix
    #[arg(value_name = "ID")]
    id: String,

    /// Print the command instead of running it
    #[arg(long)]
    print: bool,

    /// Shell syntax of the printed command
    #[arg(long, value_name = "NAME", requires = "print")]
    shell: Option<ShellKind>,

    /// Run in this directory instead of the session's own
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run_resume(args: &ResumeArgs, context: &CommandContext) -> Result<ExitCode> {
    // The message number is not part of the id.
    let id = args.id.split('#').next().unwrap_or_default();
    let answered = context.answer_fresh(|journal| Ok(journal.find_session(id)?))?;
    let entry = answered.answer;
    let directory = args.dir.as_deref().map(std::path::absolute).transpose()?;
    let resumption = answered.journal.plan_resume(&entry, directory.as_deref())?;
    let shell = args.shell.unwrap_or_else(ShellKind::current_shell);
    if context.json {
        print_json(&entry.id, &resumption, shell)?;
        return Ok(FOUND);
    }
    let texts = obstacle_texts(&resumption.obstacles, context);
    let Some(command) = &resumption.command else {
        return Err(refusal_error(&texts));
    };
    if args.print {
        for text in &texts {
            print_warning(text);
        }
        writeln!(
            anstream::stdout(),
            "{}",
            shell.command_line(resumption.directory.as_deref(), command)
        )?;
        return Ok(FOUND);
    }
    if !texts.is_empty() {
        return Err(refusal_error(&texts));
    }
    run_agent(command, resumption.directory.as_deref())
}

fn print_json(session: &str, resumption: &Resumption, shell: ShellKind) -> Result<()> {
    let line = resumption
        .command
        .as_ref()
        .map(|command| shell.command_line(resumption.directory.as_deref(), command));
    let obstacles: Vec<_> = resumption
        .obstacles
        .iter()
        .map(|obstacle| {
            let mut document = serde_json::to_value(obstacle)?;
            document["message"] = obstacle_text(obstacle).into();
            Ok(document)
        })
        .collect::<Result<_>>()?;
    output::json::print_document(
        "resume",
        json!({
            "session": session,
            "ready": resumption.is_ready(),
            "command": resumption.command,
            "directory": resumption.directory,
            "line": line,
            "obstacles": obstacles,
        }),
    )
}

/// Describes all obstacles. A foreign home is one, because an agent reads the home of its own user.
fn obstacle_texts(obstacles: &[Obstacle], context: &CommandContext) -> Vec<String> {
    let home = &context.settings.scanned_machine().home;
    let is_other = std::env::home_dir().is_some_and(|own| own != *home);
    let other =
        is_other.then(|| format!("the session was recorded in another home: {}", home.display()));
    obstacles.iter().map(obstacle_text).chain(other).collect()
}

fn refusal_error(texts: &[String]) -> anyhow::Error {
    anyhow!("could not resume: {}", texts.join("\n    "))
}
