//! `aj doctor`: checks the installation and suggests fixes.

mod check;
mod reach;

use std::io::Write;
use std::process::ExitCode;

use agent_journal::RecallReport;
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use serde_json::json;

use self::check::{CheckResult, CheckState};
use crate::context::CommandContext;
use crate::error::found_exit_code;
use crate::output::{self, DIM, pad_to_width};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj doctor                     check configuration, sources, journal and index
  aj doctor --json              print JSON; exit code 1 means that something needs to be fixed
  aj doctor --deep              also verify every byte of the archive
  aj doctor --reach 100         also search for 100 samples of recorded text")]
pub(crate) struct DoctorArgs {
    /// Also verify every byte of the archive
    #[arg(long)]
    deep: bool,

    /// Sample text from session files and verify that search finds it
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1000")]
    reach: Option<usize>,

    /// Seed of the sample
    #[arg(long, value_name = "N", default_value_t = 1, requires = "reach")]
    seed: u64,
}

pub(crate) fn run_doctor(args: &DoctorArgs, context: &CommandContext) -> Result<ExitCode> {
    let mut checks = vec![check::check_configuration(context)];
    checks.extend(check::check_homes(context));
    let mut reach = None;
    // A journal that fails a check is a finding; it does not end the command.
    match run_checks(args, context, &mut checks) {
        Ok(found) => reach = found,
        Err(error) => checks.push(check::unusable_journal(&error)),
    }
    if let (Some(reach), false) = (&reach, context.json) {
        reach::print_recall(reach)?;
    }
    print_checks(&checks, context.json, reach.as_ref())
}

fn run_checks(
    args: &DoctorArgs,
    context: &CommandContext,
    checks: &mut Vec<CheckResult>,
) -> Result<Option<RecallReport>> {
    let journal = context.open_journal_only()?;
    checks.extend(check::check_journal(&journal)?);
    if args.deep {
        checks.push(check::check_archive(&journal)?);
    }
    let Some(samples) = args.reach else { return Ok(None) };
    let (reach, check) = reach::check_search_recall(&journal, samples, args.seed)?;
    checks.push(check);
    Ok(Some(reach))
}

/// Reports that the settings could not be read.
pub(crate) fn without_settings(error: &anyhow::Error, json: bool) -> Result<ExitCode> {
    print_checks(
        &[CheckResult::bad_check(
            "configuration",
            format!("{error:#}"),
            "correct the file, or move it away",
        )],
        json,
        None,
    )
}

fn print_checks(
    checks: &[CheckResult],
    json: bool,
    reach: Option<&RecallReport>,
) -> Result<ExitCode> {
    let is_well = checks.iter().all(|check| check.state != CheckState::Bad);
    if json {
        output::json::print_document(
            "doctor",
            json!({ "well": is_well, "checks": checks, "reach": reach }),
        )?;
        return Ok(found_exit_code(is_well));
    }
    let mut out = output::buffered_stdout();
    for check in checks {
        let (mark, style) = match check.state {
            CheckState::Good => ("ok", AnsiColor::Green.on_default()),
            CheckState::Note => ("note", Style::new().dimmed()),
            CheckState::Bad => ("fix", AnsiColor::Red.on_default().bold()),
        };
        let finding = output::plain_text(&check.finding);
        // The name in JSON is part of the interface.
        let name = if check.name == "news" { "pending" } else { &check.name };
        writeln!(
            out,
            " {style}{}{style:#} {} {finding}",
            pad_to_width(mark, 5),
            pad_to_width(name, 14)
        )?;
        if let Some(advice) = &check.advice {
            writeln!(out, "                      {DIM}{}{DIM:#}", output::plain_text(advice))?;
        }
    }
    out.flush()?;
    Ok(found_exit_code(is_well))
}
