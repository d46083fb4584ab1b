//! Continues a session in its own agent: what prevents it, and the agent's process.

use std::path::Path;
use std::process::{Command, ExitCode};

use agent_journal::Obstacle;
use agent_journal::connectors::Resume;
use anyhow::{Context as _, Result};

/// Describes an obstacle and how to remove it.
pub(crate) fn obstacle_text(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::NoCommand { agent } => {
            format!("{agent} has no command that resumes this session")
        }
        Obstacle::SubAgent { parent: Some(parent) } => {
            format!("it is a sub-agent; try its parent, `aj resume {parent}`")
        }
        Obstacle::SubAgent { parent: None } => "it is a sub-agent".to_owned(),
        Obstacle::OddId { id } => format!("the id `{id}` cannot be passed to a command"),
        Obstacle::Elsewhere { host } => format!("it was recorded on another machine ({host})"),
        Obstacle::NoProgram { program } => format!("`{program}` is not on PATH"),
        Obstacle::NoFile { path } => {
            format!(
                "its session file no longer exists: {path} (`aj show` and `aj handoff` still work)"
            )
        }
        Obstacle::NoDirectory => "its directory was not recorded; set one with --dir".to_owned(),
        Obstacle::DirectoryGone { path, guesses } => {
            let mut text = format!("its directory no longer exists: {path}");
            for guess in guesses {
                text.push_str(&format!("\n    --dir {} ({})", guess.path.display(), guess.why));
            }
            text
        }
        _ => "unknown reason".to_owned(),
    }
}

/// Replaces this process by the agent.
#[cfg(unix)]
pub(crate) fn run_agent(command: &Resume, directory: Option<&Path>) -> Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    let failure = agent_command(command, directory).exec();
    Err(failure).with_context(|| format!("could not run {}", command.program))
}

/// Runs the agent and exits with its exit code.
#[cfg(not(unix))]
pub(crate) fn run_agent(command: &Resume, directory: Option<&Path>) -> Result<ExitCode> {
    let status = agent_command(command, directory)
        .status()
        .with_context(|| format!("could not run {}", command.program))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2)))
}

fn agent_command(command: &Resume, directory: Option<&Path>) -> Command {
    let mut process = Command::new(command.program);
    process.args(&command.arguments);
    if let Some(directory) = directory {
        process.current_dir(directory);
    }
    process
}
