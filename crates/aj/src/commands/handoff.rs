//! `aj handoff`: a session, summed up for whoever goes on with it.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::context::Context;
use crate::error::FOUND;
use crate::output::handoff::Handoff;
use crate::output::quote::{Quoter, tokens};

/// Fewer tokens say nothing.
const LEAST: usize = 200;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj handoff 3f1c                      goal, decisions, files, todos, last failure, last state
  aj handoff 3f1c --max-tokens 800     shorter
  aj handoff 3f1c > brief.md           for another agent to read")]
pub(crate) struct Args {
    /// A session's id or its beginning
    #[arg(value_name = "ID")]
    id: String,

    /// Never more tokens than this, estimated rather too many than too few
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    max_tokens: usize,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    ensure!(args.max_tokens >= LEAST, "a brief needs at least {LEAST} tokens");
    let id = args.id.split('#').next().unwrap_or_default();
    let answered = context.answer(|journal| {
        let entry = journal.session(id)?;
        let brief = journal.brief(&entry, &mut journal.redactor())?;
        Ok((entry, brief))
    })?;
    let (mut entry, brief) = answered.answer;
    let mut quoter = Quoter::new(answered.journal.redactor());
    quoter.entry(&mut entry, &answered.journal)?;
    let handoff = Handoff::new(&entry, &brief, &mut quoter);
    let text = handoff.text(args.max_tokens);
    if context.json {
        let count = tokens(&text);
        let document = json!({ "session": entry.id, "tokens": count, "brief": text });
        crate::output::json::print("handoff", document)?;
    } else {
        write!(anstream::stdout(), "{text}")?;
    }
    Ok(FOUND)
}
