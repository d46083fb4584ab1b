//! `aj blame`: shows which session wrote the lines of a file.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use agent_journal::{Author, Blame, BlamedFile};
use anyhow::Result;
use serde_json::json;

use super::RedactArgs;
use crate::blame::{BlamedPlace, BlamedSpan, confidence_label};
use crate::context::CommandContext;
use crate::error::{found_exit_code, print_remark};
use crate::output::{self, BOLD, DIM};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj blame src/main.rs          the session that wrote each line
  aj blame src/main.rs:40-60    only lines 40 to 60

A line is attributed by its content: a recorded edit of this file produced exactly this text.
`exact` means that the whole edit is still there as one block, `partial` that only some of its
lines are left. The commit from `git blame` is shown as well.")]
pub(crate) struct Args {
    /// File, with an optional line or range of lines
    #[arg(value_name = "FILE[:LINE[-LINE]]")]
    place: String,

    #[command(flatten)]
    redact: RedactArgs,
}

pub(crate) fn run(args: &Args, context: &CommandContext) -> Result<ExitCode> {
    let place = BlamedPlace::read_argument(&args.place)?;
    let answered = context.answer_fresh(|journal| Ok(journal.blame_file(&place.file)?))?;
    let mut blame = answered.answer;
    if let Some(redactor) = &mut args.redact.requested_redactor(&answered.journal) {
        for entry in &mut blame.sessions {
            answered.journal.redact_entry(entry, redactor)?;
        }
        args.redact.report_redactions(Some(redactor));
    }
    let spans = place.group_spans(&blame);
    if context.json {
        output::json::print_document("blame", document(&place.path, &place.file, &blame, &spans))?;
    } else {
        print(&blame, &spans, context)?;
        print_remark(&summary(&blame, &spans));
    }
    Ok(found_exit_code(spans.iter().any(|span| span.author.is_some())))
}

fn print(blame: &Blame, spans: &[BlamedSpan], context: &CommandContext) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let range = |span: &BlamedSpan| {
        let one = span.first == span.last;
        if one { span.first.to_string() } else { format!("{}–{}", span.first, span.last) }
    };
    let widest = spans.iter().map(|span| range(span).chars().count()).max().unwrap_or(0);
    let place = |author: &Author| {
        let id = output::short_id(&blame.sessions[author.session]);
        format!("{id}#{}", author.position + 1)
    };
    let authors = spans.iter().filter_map(|span| span.author.as_ref());
    let longest = authors.map(|author| place(author).chars().count()).fold(14, usize::max);
    let room = output::output_width().saturating_sub(widest + longest + 39).clamp(16, 80);
    for span in spans {
        let lines = output::pad_left(&range(span), widest);
        let commit = output::cut_bytes(span.commit.as_deref().unwrap_or("–"), 8);
        let commit = output::pad_to_width(commit, 8);
        let Some(author) = &span.author else {
            let nobody = output::pad_to_width("no recorded edit", longest + 16);
            writeln!(out, " {lines}  {DIM}{nobody} {commit}{DIM:#}")?;
            continue;
        };
        let entry = &blame.sessions[author.session];
        let (badge, place) =
            (output::session_badge(entry), output::pad_to_width(&place(author), longest));
        let sure = output::pad_to_width(confidence_label(author.confidence), 7);
        let title = output::pad_to_width(&entry.title, room);
        let when = output::relative_time(author.at, &context.now);
        writeln!(
            out,
            " {lines}  {badge} {place} {DIM}{sure} {commit}{DIM:#} {BOLD}{title}{BOLD:#}  {when}"
        )?;
    }
    Ok(())
}

fn summary(blame: &Blame, spans: &[BlamedSpan]) -> String {
    let count = |some: bool| -> usize {
        let fitting = spans.iter().filter(|span| span.author.is_some() == some);
        fitting.map(|span| span.last - span.first + 1).sum()
    };
    let (known, unknown) = (count(true), count(false));
    let sessions = output::count(blame.candidates as u64, "session");
    let lines = output::plural((known + unknown) as u64, "line");
    format!("{known} of {} {lines} · {sessions} changed this file", known + unknown)
}

fn document(
    path: &Path,
    file: &BlamedFile,
    blame: &Blame,
    spans: &[BlamedSpan],
) -> serde_json::Value {
    let spans: Vec<_> = spans
        .iter()
        .map(|span| {
            let author = span.author.as_ref().map(|author| {
                let entry = &blame.sessions[author.session];
                json!({
                    "session": entry.id,
                    "title": entry.title,
                    "agent": entry.agent,
                    "message": author.position + 1,
                    "at": author.at,
                    "confidence": author.confidence,
                })
            });
            json!({
                "first": span.first,
                "last": span.last,
                "commit": span.commit,
                "author": author,
            })
        })
        .collect();
    json!({
        "file": path.display().to_string(),
        "repository": file.repository.as_ref().map(|root| root.display().to_string()),
        "lines": file.lines.len(),
        "candidates": blame.candidates,
        "spans": spans,
    })
}
