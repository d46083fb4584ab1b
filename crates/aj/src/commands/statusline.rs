//! `aj statusline`: one line for a prompt or an agent's status bar. It answers from what the
//! journal holds, because a prompt cannot wait.

use std::io::{Read, Write};
use std::process::ExitCode;

use agent_journal::search::{Edge, Filter, date};
use agent_journal::{Entry, Journal};
use anyhow::Result;
use serde::Deserialize;
use serde_json::json;

use super::RedactArgs;
use crate::context::Context;
use crate::error::FOUND;
use crate::output::{self, DIM, agent_of, amount, cut, money, plain, tokens};

/// More than this is no message of an agent to its status bar.
const LONGEST_INPUT: u64 = 1 << 20;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj statusline                 today, and the session that was active last
  aj statusline --session 3f1c  today, and one session
  aj statusline --stdin         the session an agent names on standard input")]
pub(crate) struct Args {
    /// The current session
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Read the current session's `session_id` from JSON on standard input
    #[arg(long, conflicts_with = "session")]
    stdin: bool,

    /// Look for news first, which takes longer
    #[arg(long)]
    fresh: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let context = &context.redacting(&RedactArgs::default());
    let journal = if args.fresh { context.fresh_journal()?.0 } else { context.journal()? };
    let today = journal.spent_since(date("today", &context.now, Edge::Start)?)?;
    let asked = if args.stdin { named()? } else { args.session.clone() };
    // An agent that does not say which session it shows gets today's sums, not another's.
    let is_nameless = args.stdin && asked.as_deref().is_none_or(str::is_empty);
    let entry = if is_nameless { None } else { current(&journal, asked.as_deref())? };
    let figures = entry.as_ref().map(|entry| journal.session_figures(std::slice::from_ref(entry)));
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
        output::json::print("statusline", json!({ "today": today, "session": session }))?;
        return Ok(FOUND);
    }
    let mut out = anstream::AutoStream::auto(std::io::stdout().lock());
    if let (Some(entry), Some(figures)) = (&entry, &figures) {
        let whole = &figures.with_subagents;
        let tokens = tokens(&whole.tokens, whole.tokens.total());
        let title = cut(&entry.title, 32);
        let badge = agent_of(entry).map_or(entry.agent.as_str(), |agent| agent.badge);
        let badge = plain(badge);
        write!(
            out,
            "{badge} {title} {DIM}·{DIM:#} {tokens} {} {DIM}│{DIM:#} ",
            money(&whole.cost)
        )?;
    }
    writeln!(out, "today {} {}", amount(today.tokens.total()), money(&today.cost))?;
    out.flush()?;
    Ok(FOUND)
}

/// What an agent tells its status bar, as far as it matters here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    session_id: Option<String>,
}

fn named() -> Result<Option<String>> {
    let mut text = String::new();
    std::io::stdin().take(LONGEST_INPUT).read_to_string(&mut text)?;
    Ok(serde_json::from_str::<Told>(&text).unwrap_or_default().session_id)
}

/// The session that was asked for, or the one that was active last. One that the journal has not
/// read yet is no error.
fn current(journal: &Journal, id: Option<&str>) -> Result<Option<Entry>> {
    match id {
        Some(id) => match journal.session(id) {
            Ok(entry) => Ok(Some(entry)),
            Err(agent_journal::Error::UnknownSession { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        },
        None => Ok(journal.sessions(&Filter::default(), Some(1))?.pop()),
    }
}
