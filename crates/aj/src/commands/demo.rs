//! `aj demo`: a few made-up sessions, indexed and searched before your eyes.

use std::io::Write;
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

const CLOSING: &str = "That was made up. `aj search` on its own looks into your history.";

pub(crate) fn run(_: &Args, json: bool) -> Result<ExitCode> {
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
    let context = Context::made_up(home.path(), json)?;
    for (at, step) in steps.into_iter().enumerate() {
        let line = step.join(" ");
        match (json, at) {
            (false, _) => say(&format!("{DIM}${DIM:#} {BOLD}aj {line}{BOLD:#}"))?,
            (true, 0) => say("{\"schema\":\"aj.demo/1\",\"steps\":[")?,
            (true, _) => say(",")?,
        }
        let words = std::iter::once("aj").chain(step.iter().copied());
        super::run_in(crate::args::Args::try_parse_from(words)?, &context)?;
        if !json {
            say("")?;
        }
    }
    say(if json { "]}" } else { CLOSING })?;
    Ok(FOUND)
}

fn say(line: &str) -> Result<()> {
    Ok(writeln!(anstream::stdout(), "{line}")?)
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
