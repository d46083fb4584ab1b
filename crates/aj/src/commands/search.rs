//! `aj search`: find it.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use agent_journal::search::{Answer, Found, Hit, Query, Snippet, Tier};
use anstyle::{AnsiColor, Style};
use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::FilterArgs;
use crate::context::{Context, Freshness};
use crate::error::{found, remark};
use crate::output::{
    self, BOLD, DIM, ago, badge, count, cut, pad, plain, short_id, speaker, table,
};

const MATCH: Style = AnsiColor::Yellow.on_default().bold();

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj search flaky login test
  aj search '\"copper lattice\" -draft'           a phrase, without a word
  aj search 'tokeniz* agent:claude since:7d'     a beginning, and where to look
  aj search login --project web --json")]
pub(crate) struct Args {
    /// Words, "phrases", begin*, -not, and agent: project: branch: role: since: until:
    #[arg(required = true, value_name = "QUERY")]
    query: Vec<String>,

    #[command(flatten)]
    filter: FilterArgs,

    /// How many sessions at most
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,

    /// How many sessions to pass over
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let started = Instant::now();
    let mut query = Query::parse(&args.query.join(" "), &context.now)?;
    args.filter.apply(&mut query.filter, &context.now)?;
    if query.clauses.iter().all(|clause| clause.negated) {
        bail!("nothing to look for: give at least one word; `aj list` takes the same filters");
    }
    let limit = args.limit.unwrap_or(context.settings.number("search.max_results")).max(1);
    let answered = context.answer(|journal| Ok(journal.search(&query, limit, args.offset)?))?;
    let (answer, freshness) = (answered.answer, answered.freshness);
    let took = started.elapsed().as_millis() as u64;
    if context.json {
        output::json::print("search", document(&query, &answer, took, freshness))?;
    } else {
        print(&answer, context)?;
        closing(&answer, took, freshness);
    }
    Ok(found(!answer.sessions.is_empty()))
}

fn print(answer: &Answer, context: &Context) -> Result<()> {
    let width = output::width();
    let mut out = anstream::AutoStream::auto(std::io::stdout().lock());
    for (at, session) in answer.sessions.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        heading(&mut out, session, answer.tier, (width, context))?;
        for hit in &session.hits {
            line(&mut out, session, hit, width)?;
        }
    }
    out.flush()?;
    Ok(())
}

fn heading(
    out: &mut dyn Write,
    session: &Found,
    tier: Tier,
    (width, context): (usize, &Context),
) -> Result<()> {
    let entry = &session.entry;
    let mut facts = format!(
        "{} · {} · {}",
        table::place(entry),
        ago(entry.ended_at, &context.now),
        count(entry.counts.user_prompts, "prompt"),
    );
    if tier == Tier::SomeWords {
        facts.push_str(" · some words");
    }
    let facts = cut(&facts, width / 2);
    let used = 2 + 8 + 10 + unicode_width::UnicodeWidthStr::width(facts.as_str()) + 2;
    let title = pad(&entry.title, width.saturating_sub(used).max(16));
    let id = pad(short_id(entry), 8);
    writeln!(out, " {} {BOLD}{title}{BOLD:#}  {DIM}{id}  {facts}{DIM:#}", badge(entry))?;
    Ok(())
}

fn line(out: &mut dyn Write, session: &Found, hit: &Hit, width: usize) -> Result<()> {
    let who = speaker(&session.entry, hit.kind);
    let number = hit.position.map_or(String::new(), |position| (position + 1).to_string());
    let text = marked(&hit.snippet, width.saturating_sub(16));
    writeln!(out, " {DIM}{number:>5}{DIM:#} {} {text}", pad(who, 8))?;
    Ok(())
}

/// Marks the found words in a snippet, as much of it as has room.
fn marked(snippet: &Snippet, width: usize) -> String {
    let kept = cut(&snippet.text, width);
    // The cut adds an ellipsis and may end before a mark does.
    let end = if kept.len() < snippet.text.len() {
        kept.len().saturating_sub('…'.len_utf8())
    } else {
        kept.len()
    };
    let mut text = String::new();
    let mut at = 0;
    for range in snippet.highlights.iter().filter(|range| range.end <= end) {
        let (Some(before), Some(found)) =
            (snippet.text.get(at..range.start), snippet.text.get(range.clone()))
        else {
            continue;
        };
        text.push_str(&plain(before));
        text.push_str(&format!("{MATCH}{}{MATCH:#}", plain(found)));
        at = range.end;
    }
    text.push_str(kept.get(at..).unwrap_or_default());
    text
}

fn closing(answer: &Answer, took: u64, freshness: Freshness) {
    let fresh = if freshness.pending_sources == 0 { "up to date" } else { "more to read" };
    if answer.sessions.is_empty() {
        remark(&format!(
            " nothing found · {took} ms · {fresh} · fewer words or `begin*` find more"
        ));
        return;
    }
    let first = &answer.sessions[0];
    let place = first
        .hits
        .iter()
        .find_map(|hit| hit.position)
        .map_or(String::new(), |at| format!("#{}", at + 1));
    let shown = answer.sessions.len();
    let open = format!("aj show {}{place}", short_id(&first.entry));
    remark(&format!(" {shown} of {} sessions · {took} ms · {fresh} · {open}", answer.total));
}

fn document(query: &Query, answer: &Answer, took: u64, freshness: Freshness) -> Value {
    let hits: Vec<Value> = answer
        .sessions
        .iter()
        .flat_map(|session| session.hits.iter().map(|hit| hit_document(session, hit, answer.tier)))
        .collect();
    json!({
        "query": query.text,
        "mode": "lexical",
        "tier": answer.tier,
        "took_ms": took,
        "pending": { "sources": freshness.pending_sources, "bytes": freshness.pending_bytes },
        "total": answer.total,
        "sessions": answer.sessions.iter().map(|session| &session.entry).collect::<Vec<_>>(),
        "hits": hits,
    })
}

fn hit_document(session: &Found, hit: &Hit, tier: Tier) -> Value {
    let message = hit.message.as_ref().map(|message| {
        json!({
            "index": hit.position.map(|position| position + 1),
            "uuid": message.uuid,
            "role": message.role.name(),
            "timestamp": message.at,
        })
    });
    json!({
        "session": session.entry.id,
        "message": message,
        "kind": hit.kind,
        "tier": tier,
        "score": hit.score,
        "snippet": hit.snippet,
    })
}
