//! `aj demo`: indexes and searches a few sample sessions.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;

use crate::context::CommandContext;
use crate::error::FOUND;
use crate::output::{BOLD, DIM};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj demo            try aj without any sessions of your own")]
pub(crate) struct DemoArgs {}

/// The sample sessions: path below the home, and content.
const FILES: &[(&str, &str)] = &include!("../../demo/files.rs");

const CLOSING: &str = "These were sample sessions. Run `aj search` to search your own.";

pub(crate) fn run_demo(_: &DemoArgs, json: bool) -> Result<ExitCode> {
    let home = tempfile::Builder::new()
        .prefix("aj-demo-")
        .tempdir()
        .context("could not create a directory")?;
    lay_out(home.path())?;
    let steps: [&[&str]; 5] = [
        &["index"],
        &["search", "flaky", "login"],
        &["search", "retry backoff", "role:assistant"],
        &["list"],
        &["show", "5e1fb0a2"],
    ];
    let context = CommandContext::demo_context(home.path(), json)?;
    for (at, step) in steps.into_iter().enumerate() {
        let line = step.join(" ");
        match (json, at) {
            (false, _) => print_line(&format!("{DIM}${DIM:#} {BOLD}aj {line}{BOLD:#}"))?,
            (true, 0) => print_line("{\"schema\":\"aj.demo/1\",\"steps\":[")?,
            (true, _) => print_line(",")?,
        }
        let words = std::iter::once("aj").chain(step.iter().copied());
        super::run_in(crate::args::GlobalArgs::try_parse_from(words)?, &context)?;
        if !json {
            print_line("")?;
        }
    }
    print_line(if json { "]}" } else { CLOSING })?;
    Ok(FOUND)
}

fn print_line(line: &str) -> Result<()> {
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
