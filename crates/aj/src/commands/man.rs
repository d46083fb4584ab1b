//! `aj man`: prints the manual pages, generated from the help.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::error::{FOUND, print_remark};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj man > aj.1                 the page of aj itself
  aj man search                 the page of one command
  aj man --dir man              all pages, for a directory of $MANPATH")]
pub(crate) struct ManArgs {
    /// Command to print the page of
    #[arg(conflicts_with = "dir")]
    command: Option<String>,

    /// Write all pages into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run_man(args: &ManArgs) -> Result<ExitCode> {
    let mut program = crate::args::GlobalArgs::command();
    program.build();
    if let Some(directory) = &args.dir {
        let attempt = || format!("could not write to {}", directory.display());
        std::fs::create_dir_all(directory).with_context(attempt)?;
        clap_mangen::generate_to(program, directory).with_context(attempt)?;
        print_remark(&format!(" written to {}", directory.display()));
        return Ok(FOUND);
    }
    let mut page = Vec::new();
    Man::new(selected_command(program, args.command.as_deref())?).render(&mut page)?;
    std::io::stdout().write_all(&page)?;
    Ok(FOUND)
}

fn selected_command(program: Command, name: Option<&str>) -> Result<Command> {
    let Some(name) = name else { return Ok(program) };
    let found = program.find_subcommand(name);
    Ok(found.ok_or_else(|| anyhow!("unknown command `{name}`"))?.clone())
}
