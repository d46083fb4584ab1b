//! `aj statusline`: prints one line for a prompt or an agent's status bar. It does not sync first,
//! because a prompt cannot wait.

use std::io::{Read, Write};
use std::process::ExitCode;

use agent_journal::search::{DayEdge, Filter, date};
use agent_journal::{Entry, Journal};
use anyhow::Result;
use serde::Deserialize;
use serde_json::json;

use super::RedactArgs;
use crate::context::CommandContext;
use crate::error::FOUND;
use crate::output::{self, DIM, agent_of, amount, cut_to_width, money, plain_text, tokens};

/// Maximum size of the message of an agent to its status bar, in bytes.
const LONGEST_INPUT: u64 = 1 << 20;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj statusline                 the latest session, and today
  aj statusline --session 3f1c  one session, and today
  aj statusline --stdin         the session that an agent passes on standard input")]
pub(crate) struct StatuslineArgs {
    /// Session to show
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Read `session_id` from JSON on standard input
    #[arg(long, conflicts_with = "session")]
    stdin: bool,

    /// Read new sessions first (slower)
    #[arg(long)]
    fresh: bool,
}

pub(crate) fn run_statusline(args: &StatuslineArgs, context: &CommandContext) -> Result<ExitCode> {
    let context = &context.with_redaction(RedactArgs::default().of_views());
    let journal =
        if args.fresh { context.fresh_journal()? } else { context.open_journal_only()? };
    let today = journal.spending_since(date("today", &context.now, DayEdge::Start)?)?;
    let asked = if args.stdin { session_from_stdin()? } else { args.session.clone() };
    // Without a session id the line shows only the sums of today, not another session.
    let is_nameless = args.stdin && asked.as_deref().is_none_or(str::is_empty);
    let entry = if is_nameless { None } else { current_session(&journal, asked.as_deref())? };
    let figures =
        entry.as_ref().map(|entry| journal.figures_of_entries(std::slice::from_ref(entry)));
    let figures = figures.transpose()?.map(|mut figures| figures.remove(0));
    if context.json {
        let today = json!({ "tokens": today.tokens, "cost": today.cost });
        let session = entry.zip(figures).map(|(entry, figures)| {
            let whole = &figures.with_subagents;
            json!({
                "id": entry.id, "title": entry.title, "tokens": entry.tokens,
                "cost": figures.own.cost,
                "with_subagents": { "tokens": whole.tokens, "cost": whole.cost },
            })
        });
        output::json::print_document("statusline", json!({ "today": today, "session": session }))?;
        return Ok(FOUND);
    }
    let mut out = anstream::AutoStream::auto(std::io::stdout().lock());
    if let (Some(entry), Some(figures)) = (&entry, &figures) {
        let whole = &figures.with_subagents;
        let tokens = tokens(&whole.tokens, whole.tokens.total_tokens());
        let title = cut_to_width(&entry.title, 32);
        let badge = agent_of(entry).map_or(entry.agent.as_str(), |agent| agent.badge);
        let badge = plain_text(badge);
        write!(
            out,
            "{badge} {title} {DIM}·{DIM:#} {tokens} {} {DIM}│{DIM:#} ",
            money(&whole.cost)
        )?;
    }
    writeln!(out, "today {} {}", amount(today.tokens.total_tokens()), money(&today.cost))?;
    out.flush()?;
    Ok(FOUND)
}

/// The part of an agent's message to its status bar that is used here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusInput {
    session_id: Option<String>,
}

fn session_from_stdin() -> Result<Option<String>> {
    let mut text = String::new();
    std::io::stdin().take(LONGEST_INPUT).read_to_string(&mut text)?;
    Ok(serde_json::from_str::<StatusInput>(&text).unwrap_or_default().session_id)
}

/// Returns the requested session, or the one that was active last. A session that is not in the
/// journal yet is no error.
fn current_session(journal: &Journal, id: Option<&str>) -> Result<Option<Entry>> {
    match id {
        Some(id) => match journal.find_session(id) {
            Ok(entry) => Ok(Some(entry)),
            Err(agent_journal::Error::UnknownSession { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        },
        None => Ok(journal.list_entries(&Filter::default(), Some(1))?.pop()),
    }
}
