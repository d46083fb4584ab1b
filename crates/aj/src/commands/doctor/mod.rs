//! `aj doctor`: whether everything is in order, and what to do if it is not.

mod check;
mod reach;

use std::io::Write;
use std::process::ExitCode;

use agent_journal::Reach;
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use serde_json::json;

use self::check::{Check, State};
use crate::context::Context;
use crate::error::found;
use crate::output::{self, DIM, pad};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj doctor                     configuration, sources, journal and index
  aj doctor --json              for a program; the exit code is 1 when something is to be done
  aj doctor --reach 100         also: is text that agents recorded found again?")]
pub(crate) struct Args {
    /// Draw pieces of text from the agents' files and look whether search finds them
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1000")]
    reach: Option<usize>,

    /// Draw other pieces
    #[arg(long, value_name = "N", default_value_t = 1, requires = "reach")]
    seed: u64,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let mut checks = vec![check::configuration(context)];
    checks.extend(check::homes(context));
    let mut reach = None;
    // A journal that fails a look is a finding, not the end of the look.
    match look(args, context, &mut checks) {
        Ok(found) => reach = found,
        Err(error) => checks.push(check::unusable(&error)),
    }
    if let (Some(reach), false) = (&reach, context.json) {
        reach::print(reach)?;
    }
    tell(&checks, context.json, reach.as_ref())
}

fn look(args: &Args, context: &Context, checks: &mut Vec<Check>) -> Result<Option<Reach>> {
    let journal = context.journal()?;
    checks.extend(check::journal(&journal)?);
    let Some(samples) = args.reach else { return Ok(None) };
    let (reach, check) = reach::look(&journal, samples, args.seed)?;
    checks.push(check);
    Ok(Some(reach))
}

/// What can be said when not even the settings could be read.
pub(crate) fn without_settings(error: &anyhow::Error, json: bool) -> Result<ExitCode> {
    tell(
        &[Check::bad("configuration", format!("{error:#}"), "correct it, or move it away")],
        json,
        None,
    )
}

fn tell(checks: &[Check], json: bool, reach: Option<&Reach>) -> Result<ExitCode> {
    let is_well = checks.iter().all(|check| check.state != State::Bad);
    if json {
        output::json::print(
            "doctor",
            json!({ "well": is_well, "checks": checks, "reach": reach }),
        )?;
        return Ok(found(is_well));
    }
    let mut out = output::stdout();
    for check in checks {
        let (mark, style) = match check.state {
            State::Good => ("ok", AnsiColor::Green.on_default()),
            State::Note => ("note", Style::new().dimmed()),
            State::Bad => ("fix", AnsiColor::Red.on_default().bold()),
        };
        let finding = output::plain(&check.finding);
        writeln!(out, " {style}{}{style:#} {} {finding}", pad(mark, 5), pad(&check.name, 14))?;
        if let Some(advice) = &check.advice {
            writeln!(out, "                      {DIM}{}{DIM:#}", output::plain(advice))?;
        }
    }
    out.flush()?;
    Ok(found(is_well))
}
