//! `aj completions`: what a shell needs to complete `aj`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, ValueEnum};
use clap_complete::{Generator, Shell, generate};
use clap_complete_nushell::Nushell;

use crate::error::FOUND;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj completions bash > aj.bash              then source it in ~/.bashrc
  aj completions zsh > _aj                   into a directory of $fpath
  aj completions fish > aj.fish              into ~/.config/fish/completions
  aj completions powershell > aj.ps1         then dot-source it in $PROFILE
  aj completions nushell > aj.nu             then `source` it in config.nu")]
pub(crate) struct Args {
    /// The shell
    shell: Name,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    Bash,
    Zsh,
    Fish,
    #[value(name = "powershell")]
    PowerShell,
    Nushell,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let script = match args.shell {
        Name::Bash => script(Shell::Bash),
        Name::Zsh => script(Shell::Zsh),
        Name::Fish => script(Shell::Fish),
        Name::PowerShell => script(Shell::PowerShell),
        Name::Nushell => script(Nushell),
    };
    std::io::stdout().write_all(&script)?;
    Ok(FOUND)
}

fn script(shell: impl Generator) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut crate::args::Args::command(), "aj", &mut script);
    script
}
