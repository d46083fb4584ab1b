//! `aj handoff`: summarizes a session for another agent or person.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::context::CommandContext;
use crate::error::FOUND;
use crate::output::handoff::Handoff;
use crate::output::quote::{Quoter, estimate_tokens};

/// Minimum size of a brief, in tokens. Smaller briefs are useless.
const LEAST: usize = 200;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj handoff 3f1c                      goal, decisions, files, todos, last failure, last state
  aj handoff 3f1c --max-tokens 800     a shorter brief
  aj handoff 3f1c > brief.md           a file for another agent")]
pub(crate) struct HandoffArgs {
    /// Session id or a unique prefix
    #[arg(value_name = "ID")]
    id: String,

    /// Limit the output to N tokens (estimated conservatively)
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    max_tokens: usize,
}

pub(crate) fn run_handoff(args: &HandoffArgs, context: &CommandContext) -> Result<ExitCode> {
    ensure!(args.max_tokens >= LEAST, "a brief needs at least {LEAST} tokens");
    let id = args.id.split('#').next().unwrap_or_default();
    let answered = context.answer_fresh(|journal| {
        let entry = journal.find_session(id)?;
        let brief = journal.build_brief(&entry, &mut journal.owner_redactor())?;
        Ok((entry, brief))
    })?;
    let (mut entry, brief) = answered.answer;
    let mut quoter = Quoter::new(answered.journal.owner_redactor());
    quoter.redact_entry(&mut entry, &answered.journal)?;
    let handoff = Handoff::new(&entry, &brief, &mut quoter);
    let text = handoff.render_within(args.max_tokens);
    if context.json {
        let count = estimate_tokens(&text);
        let document = json!({ "session": entry.id, "tokens": count, "brief": text });
        crate::output::json::print_document("handoff", document)?;
    } else {
        write!(anstream::stdout(), "{text}")?;
    }
    Ok(FOUND)
}
