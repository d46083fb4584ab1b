//! `aj resume`: go on with a session in its own agent.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use agent_journal::connectors::Resume;
use agent_journal::{Obstacle, Resumption};
use anyhow::{Context as _, Result, anyhow};
use serde_json::json;

use crate::context::Context;
use crate::error::{FOUND, warn};
use crate::output;
use crate::output::shell::Shell;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj resume 3f1c --print               the command, to look at or to paste
  aj resume 3f1c --print --shell fish  as another shell reads it
  aj resume 3f1c --json                with what stands in the way, for a program")]
pub(crate) struct Args {
    /// A session's id or its beginning
    #[arg(value_name = "ID")]
    id: String,

    /// Print the command instead of running it
    #[arg(long)]
    print: bool,

    /// The shell that is to read the printed command
    #[arg(long, value_name = "NAME", requires = "print")]
    shell: Option<Shell>,

    /// Run it in this directory instead of the session's own
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    // A place in the session is no part of its id.
    let id = args.id.split('#').next().unwrap_or_default();
    let answered = context.answer(|journal| Ok(journal.session(id)?))?;
    let entry = answered.answer;
    let directory = args.dir.as_deref().map(std::path::absolute).transpose()?;
    let resumption = answered.journal.resume(&entry, directory.as_deref())?;
    let shell = args.shell.unwrap_or_else(Shell::current);
    if context.json {
        print_json(&entry.id, &resumption, shell)?;
        return Ok(FOUND);
    }
    let texts = texts(&resumption.obstacles, context);
    let Some(command) = &resumption.command else {
        return Err(refusal(&texts));
    };
    if args.print {
        for text in &texts {
            warn(text);
        }
        writeln!(anstream::stdout(), "{}", shell.line(resumption.directory.as_deref(), command))?;
        return Ok(FOUND);
    }
    if !texts.is_empty() {
        return Err(refusal(&texts));
    }
    exec(command, resumption.directory.as_deref())
}

fn print_json(session: &str, resumption: &Resumption, shell: Shell) -> Result<()> {
    let line = resumption
        .command
        .as_ref()
        .map(|command| shell.line(resumption.directory.as_deref(), command));
    let obstacles: Vec<_> = resumption
        .obstacles
        .iter()
        .map(|obstacle| {
            let mut document = serde_json::to_value(obstacle)?;
            document["message"] = text(obstacle).into();
            Ok(document)
        })
        .collect::<Result<_>>()?;
    output::json::print(
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

/// Everything in the way, in words. An agent looks into the home of whoever runs it.
fn texts(obstacles: &[Obstacle], context: &Context) -> Vec<String> {
    let home = &context.settings.machine().home;
    let is_other = std::env::home_dir().is_some_and(|own| own != *home);
    let other = is_other.then(|| format!("it was recorded in another home: {}", home.display()));
    obstacles.iter().map(text).chain(other).collect()
}

fn refusal(texts: &[String]) -> anyhow::Error {
    anyhow!("could not resume: {}", texts.join("\n    "))
}

/// What stands in the way, and what helps.
pub(crate) fn text(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::NoCommand { agent } => {
            format!("{agent} has no command that goes on with this session")
        }
        Obstacle::SubAgent { parent: Some(parent) } => {
            format!("another session's agent ran it; try `aj resume {parent}`")
        }
        Obstacle::SubAgent { parent: None } => "another session's agent ran it".to_owned(),
        Obstacle::OddId { id } => format!("`{id}` is no id that could be handed to a command"),
        Obstacle::Elsewhere { host } => format!("it was recorded elsewhere ({host})"),
        Obstacle::NoProgram { program } => format!("`{program}` is not on PATH"),
        Obstacle::NoFile { path } => {
            format!("the agent's file is gone: {path} (`aj show` and `aj handoff` still work)")
        }
        Obstacle::NoDirectory => "its directory is not recorded; name one with --dir".to_owned(),
        Obstacle::DirectoryGone { path, guesses } => {
            let mut text = format!("its directory is gone: {path}");
            for guess in guesses {
                text.push_str(&format!("\n    --dir {} ({})", guess.path.display(), guess.why));
            }
            text
        }
        _ => "something else".to_owned(),
    }
}

/// Becomes the agent.
#[cfg(unix)]
pub(crate) fn exec(command: &Resume, directory: Option<&Path>) -> Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    let failure = prepared(command, directory).exec();
    Err(failure).with_context(|| format!("could not run {}", command.program))
}

/// Runs the agent and ends as it ends.
#[cfg(not(unix))]
pub(crate) fn exec(command: &Resume, directory: Option<&Path>) -> Result<ExitCode> {
    let status = prepared(command, directory)
        .status()
        .with_context(|| format!("could not run {}", command.program))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2)))
}

fn prepared(command: &Resume, directory: Option<&Path>) -> Command {
    let mut prepared = Command::new(command.program);
    prepared.args(&command.arguments);
    if let Some(directory) = directory {
        prepared.current_dir(directory);
    }
    prepared
}
