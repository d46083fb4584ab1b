//! `aj secrets`: what should not be in a history, where it is, and since when.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::search::Scope;
use anyhow::Result;
use serde_json::json;

use super::FilterArgs;
use crate::context::Context;
use crate::error::{FOUND, found, remark};
use crate::output::wrap::gathered;
use crate::output::{self, BOLD, DIM, clock, count, pad, plain};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj secrets                    keys, tokens and passwords in all sessions
  aj secrets --since 30d        those of the last month
  aj secrets --json             for a program; never the secrets themselves")]
pub(crate) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let filter = args.filter.filter(Scope::All, &context.now)?;
    let (journal, _) = context.fresh_journal()?;
    let mut looked = 0_u64;
    let secrets = journal.secrets(&filter, &mut |_| looked += 1)?;
    if context.json {
        output::json::print("secrets", json!({ "sessions": looked, "secrets": secrets }))?;
        return Ok(found(!secrets.is_empty()));
    }
    let mut out = output::stdout();
    for secret in &secrets {
        let times =
            format!("{} in {}", count(secret.places, "place"), count(secret.sessions, "session"));
        let rule = pad(secret.rule, 18);
        let what = format!("{BOLD}{rule}{BOLD:#} {}", pad(&secret.hint, 26));
        let since = clock(secret.since, &context.now);
        let facts = [what, format!("{DIM}since {since}{DIM:#}"), times];
        let lines = gathered(&facts, "  ", output::width().saturating_sub(3));
        writeln!(out, " {}", lines.join("\n   "))?;
        writeln!(out, "   {DIM}aj show {}#{}{DIM:#}", plain(&secret.session), secret.message)?;
    }
    out.flush()?;
    if secrets.is_empty() {
        let searched = format!("no secrets found in {}", count(looked, "session"));
        return Context::nothing_found(&journal, &searched);
    }
    let advice = " · change them: what an agent read, others may have read";
    remark(&format!(
        " {} in {}{advice}",
        count(secrets.len() as u64, "secret"),
        count(looked, "session")
    ));
    Ok(FOUND)
}
