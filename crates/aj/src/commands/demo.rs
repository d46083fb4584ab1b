//! `aj demo`: a few made-up sessions, indexed and searched before your eyes.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;

use crate::context::Context;
use crate::error::FOUND;
use crate::output::{BOLD, DIM};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj demo            see the tool work, without any history of your own")]
pub(crate) struct Args {}

/// The made-up sessions: where each lies in a home, and what is in it.
const FILES: &[(&str, &str)] = &include!("../../demo/files.rs");

pub(crate) fn run(_: &Args) -> Result<ExitCode> {
    let home = tempfile::Builder::new()
        .prefix("aj-demo-")
        .tempdir()
        .context("could not make a directory")?;
    lay_out(home.path())?;
    let steps: [&[&str]; 5] = [
        &["index"],
        &["search", "flaky", "login"],
        &["search", "retry backoff", "role:assistant"],
        &["list"],
        &["show", "5e1fb0a2"],
    ];
    for step in steps {
        anstream::println!("{DIM}${DIM:#} {BOLD}aj {}{BOLD:#}", step.join(" "));
        let path = home.path().to_string_lossy().into_owned();
        let words = ["aj", "--home", &path].into_iter().chain(step.iter().copied());
        let args = crate::args::Args::try_parse_from(words)?;
        let mut context = Context::new(&args)?;
        context.settings.journal_dir = home.path().join(".agent-journal");
        context.paging = false;
        super::run_in(args, &context)?;
        anstream::println!();
    }
    anstream::println!(
        "{DIM}That was made up. `aj search` on its own looks into your history.{DIM:#}"
    );
    Ok(FOUND)
}

fn lay_out(home: &Path) -> Result<()> {
    for (path, content) in FILES {
        let path = home.join(path);
        let attempt = || format!("could not write {}", path.display());
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).with_context(attempt)?;
        }
        std::fs::write(&path, content).with_context(attempt)?;
    }
    Ok(())
}
