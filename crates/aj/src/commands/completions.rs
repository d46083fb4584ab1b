//! `aj completions`: prints shell completion scripts.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, ValueEnum};
use clap_complete::{Generator, Shell, generate};
use clap_complete_nushell::Nushell;

use crate::error::FOUND;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj completions bash > aj.bash              source it in ~/.bashrc
  aj completions zsh > _aj                   put it into a directory of $fpath
  aj completions fish > aj.fish              put it into ~/.config/fish/completions
  aj completions powershell > aj.ps1         dot-source it in $PROFILE
  aj completions nushell > aj.nu             `source` it in config.nu")]
pub(crate) struct CompletionsArgs {
    /// Shell to complete commands in
    shell: ShellName,
}

#[derive(Clone, Copy, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
    #[value(name = "powershell")]
    PowerShell,
    Nushell,
}

pub(crate) fn run_completions(args: &CompletionsArgs) -> Result<ExitCode> {
    let script = match args.shell {
        ShellName::Bash => completion_script(Shell::Bash),
        ShellName::Zsh => completion_script(Shell::Zsh),
        ShellName::Fish => completion_script(Shell::Fish),
        ShellName::PowerShell => completion_script(Shell::PowerShell),
        ShellName::Nushell => completion_script(Nushell),
    };
    std::io::stdout().write_all(&script)?;
    Ok(FOUND)
}

fn completion_script(shell: impl Generator) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut crate::args::GlobalArgs::command(), "aj", &mut script);
    script
}
