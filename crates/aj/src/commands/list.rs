//! `aj list`: lists the latest sessions.

use std::io::Write;
use std::process::ExitCode;

use agent_journal::analyze::SessionFigures;
use agent_journal::search::Scope;
use anyhow::Result;
use serde_json::json;

use super::{FilterArgs, RedactArgs};
use crate::context::CommandContext;
use crate::error::{FOUND, found_exit_code, print_remark};
use crate::output::{self, table};
use crate::query_fields::{LIST_HELP, QueryWord};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj list                              the latest sessions
  aj list --agent claude --since 7d    one agent's sessions of the last week
  aj list project:web has:pr           sessions of a project that link a pull request
  aj list edited:login.rs -is:gone     sessions that edited a file, not deleted since
  aj list is:failed tool:bash          sessions with a failed command
  aj list --all --limit 0 --json       all sessions and sub-agents, as JSON")]
pub(crate) struct ListArgs {
    #[arg(
        value_name = "FIELD",
        help = LIST_HELP.as_str(),
        value_parser = QueryWord,
        hide_possible_values = true
    )]
    fields: Vec<String>,

    #[command(flatten)]
    filter: FilterArgs,

    /// Include sub-agents
    #[arg(long)]
    all: bool,

    /// List at most N sessions; 0 for no limit
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    limit: usize,

    #[command(flatten)]
    redact: RedactArgs,
}

pub(crate) fn run_list(args: &ListArgs, context: &CommandContext) -> Result<ExitCode> {
    let scope = if args.all { Scope::All } else { Scope::Roots };
    let filter = args.filter.with_fields(&args.fields, scope, &context.now)?;
    let limit = (args.limit > 0).then_some(args.limit);
    let width = output::output_width();
    // Reading the price table takes long compared with the rest of the command.
    let is_priced = context.json || table::has_figures(width);
    let mut answered = context.answer_fresh(|journal| {
        let entries = journal.list_entries(&filter, limit)?;
        let unpriced = || vec![SessionFigures::default(); entries.len()];
        let figures = if is_priced { journal.figures_of_entries(&entries)? } else { unpriced() };
        Ok((entries.into_iter().zip(figures).collect::<Vec<_>>(), journal.count_sessions(&filter)?))
    })?;
    let mut redactor = args.redact.requested_redactor(&answered.journal);
    if let Some(redactor) = &mut redactor {
        for (entry, _) in &mut answered.answer.0 {
            answered.journal.redact_entry(entry, redactor)?;
        }
    }
    args.redact.report_redactions(redactor.as_ref());
    let (entries, total) = &answered.answer;
    if context.json {
        let sessions =
            entries.iter().map(|(entry, figures)| output::json::session_json(entry, figures));
        let sessions = sessions.collect::<Result<Vec<_>>>()?;
        let pending = answered.freshness.pending_json();
        let document = json!({ "total": total, "pending": pending, "sessions": sessions });
        output::json::print_document("list", document)?;
        return Ok(found_exit_code(!entries.is_empty()));
    }
    let mut out = output::buffered_stdout();
    table::write_session_table(&mut out, entries, width, &context.now)?;
    out.flush()?;
    if entries.is_empty() {
        return CommandContext::report_nothing_found(&answered.journal, "no sessions match");
    }
    if *total > entries.len() as u64 {
        print_remark(&format!(" {} of {total} sessions · `--limit 0` shows all", entries.len()));
    }
    answered.leak_journal();
    Ok(FOUND)
}
