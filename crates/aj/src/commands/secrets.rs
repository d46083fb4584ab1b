//! `aj secrets`: lists keys, tokens and passwords in the history, with their locations and dates.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::search::Scope;
use anyhow::Result;
use serde_json::json;

use super::FilterArgs;
use crate::context::CommandContext;
use crate::error::{FOUND, found_exit_code, print_remark};
use crate::output::wrap::join_to_lines;
use crate::output::{self, BOLD, DIM, count, local_minute, pad_to_width, plain_text};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj secrets                    find keys, tokens and passwords in all sessions
  aj secrets --since 30d        only in sessions of the last 30 days
  aj secrets --json             print JSON; never contains the secrets themselves")]
pub(crate) struct SecretsArgs {
    #[command(flatten)]
    filter: FilterArgs,
}

pub(crate) fn run_secrets(args: &SecretsArgs, context: &CommandContext) -> Result<ExitCode> {
    let filter = args.filter.filter_from_flags(Scope::All, &context.now)?;
    let journal = context.fresh_journal()?;
    let mut looked = 0_u64;
    let secrets = journal.find_secrets_in_sessions(&filter, &mut |_| looked += 1)?;
    if context.json {
        output::json::print_document("secrets", json!({ "sessions": looked, "secrets": secrets }))?;
        return Ok(found_exit_code(!secrets.is_empty()));
    }
    let mut out = output::buffered_stdout();
    for secret in &secrets {
        let times =
            format!("{} in {}", count(secret.places, "place"), count(secret.sessions, "session"));
        let rule = pad_to_width(secret.rule, 18);
        let what = format!("{BOLD}{rule}{BOLD:#} {}", pad_to_width(&secret.hint, 26));
        let since = local_minute(secret.since, &context.now);
        let facts = [what, format!("{DIM}since {since}{DIM:#}"), times];
        let lines = join_to_lines(&facts, "  ", output::output_width().saturating_sub(3));
        writeln!(out, " {}", lines.join("\n   "))?;
        writeln!(out, "   {DIM}aj show {}#{}{DIM:#}", plain_text(&secret.session), secret.message)?;
    }
    out.flush()?;
    if secrets.is_empty() {
        let searched = format!("no secrets found in {}", count(looked, "session"));
        return CommandContext::report_nothing_found(&journal, &searched);
    }
    let advice = " · replace them: text that an agent read may have been logged elsewhere";
    print_remark(&format!(
        " {} in {}{advice}",
        count(secrets.len() as u64, "secret"),
        count(looked, "session")
    ));
    Ok(FOUND)
}
