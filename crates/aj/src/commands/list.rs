//! `aj list`: the latest sessions.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::analyze::SessionFigures;
use agent_journal::search::Scope;
use anyhow::Result;
use serde_json::json;

use super::{FilterArgs, RedactArgs};
use crate::context::Context;
use crate::error::{FOUND, found, remark};
use crate::output::{self, table};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj list                              the latest sessions
  aj list --agent claude --since 7d    of one agent, of the last week
  aj list project:web has:pr           with a pull request, in one project
  aj list edited:login.rs -is:gone     that changed a file and are still there
  aj list is:failed tool:bash          in which a command failed
  aj list --all --limit 0 --json       every conversation, for a program")]
pub(crate) struct Args {
    /// Which ones: agent: project: path: file: edited: branch: model: tool: is: has: since: until: session:
    /// prompts: active: hour:, or with such a message: role: kind: is:failed
    #[arg(value_name = "FIELD")]
    fields: Vec<String>,

    #[command(flatten)]
    filter: FilterArgs,

    /// Sub-agents' sessions too
    #[arg(long)]
    all: bool,

    /// How many at most; 0 for no limit
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    limit: usize,

    #[command(flatten)]
    redact: RedactArgs,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let scope = if args.all { Scope::All } else { Scope::Roots };
    let filter = args.filter.with_fields(&args.fields, scope, &context.now)?;
    let limit = (args.limit > 0).then_some(args.limit);
    let width = output::width();
    // Prices take long to read beside all the rest.
    let is_priced = context.json || table::has_figures(width);
    let mut answered = context.answer(|journal| {
        let entries = journal.sessions(&filter, limit)?;
        let unpriced = || vec![SessionFigures::default(); entries.len()];
        let figures = if is_priced { journal.session_figures(&entries)? } else { unpriced() };
        Ok((entries.into_iter().zip(figures).collect::<Vec<_>>(), journal.count(&filter)?))
    })?;
    let mut redactor = args.redact.redactor(&answered.journal);
    if let Some(redactor) = &mut redactor {
        for (entry, _) in &mut answered.answer.0 {
            answered.journal.redact_entry(entry, redactor)?;
        }
    }
    args.redact.report(redactor.as_ref());
    let (entries, total) = &answered.answer;
    if context.json {
        let sessions = entries.iter().map(|(entry, figures)| output::json::session(entry, figures));
        let sessions = sessions.collect::<Result<Vec<_>>>()?;
        let pending = answered.freshness.document();
        let document = json!({ "total": total, "pending": pending, "sessions": sessions });
        output::json::print("list", document)?;
        return Ok(found(!entries.is_empty()));
    }
    let mut out = output::stdout();
    table::sessions(&mut out, entries, width, &context.now)?;
    out.flush()?;
    if entries.is_empty() {
        return Context::nothing_found(&answered.journal, "no sessions match");
    }
    if *total > entries.len() as u64 {
        remark(&format!(" {} of {total} sessions · `--limit 0` shows all", entries.len()));
    }
    answered.leave();
    Ok(FOUND)
}
