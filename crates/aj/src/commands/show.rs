//! `aj show`: prints a session.

use std::io::{BufWriter, IsTerminal, Write};
use std::ops::Range;
use std::process::ExitCode;

use agent_journal::export::Redactor;
use agent_journal::{Entry, Journal};
use anyhow::{Result, anyhow};

use super::RedactArgs;
use crate::context::CommandContext;
use crate::error::FOUND;
use crate::output;
use crate::output::json::{SessionJsonStream, documents_json, session_json, touched_files_json};
use crate::output::pager::Pager;
use crate::output::transcript::{ShownParts, Transcript};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj show 3f1c             the session whose id begins with 3f1c
  aj show 3f1c#14 -C 5     message 14 and five messages before and after
  aj show 3f1c --tools     with tool inputs and outputs
  aj show 3f1c --redact    with secrets redacted, to share it")]
pub(crate) struct ShowArgs {
    /// Session id or a unique prefix, with an optional message number
    #[arg(value_name = "ID[#MESSAGE]")]
    id: String,

    /// Show N messages before and after the selected message
    #[arg(long, short = 'C', value_name = "N")]
    context: Option<u64>,

    /// Show tool inputs and outputs in full
    #[arg(long)]
    tools: bool,

    /// Show the model's reasoning
    #[arg(long)]
    thinking: bool,

    /// Show everything in full: plans, checkpoints, injected text, notices and side conversations
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    redact: RedactArgs,
}

pub(crate) fn run_show(args: &ShowArgs, context: &CommandContext) -> Result<ExitCode> {
    let (id, place) = match args.id.split_once('#') {
        Some((id, place)) => (id, Some(place)),
        None => (args.id.as_str(), None),
    };
    let answered = context.answer_fresh(|journal| Ok(journal.find_session(id)?))?;
    let (journal, mut entry) = (answered.journal, answered.answer);
    let number = place.map(|place| parse_message_number(&entry, place)).transpose()?;
    let around = args.context.unwrap_or(context.settings.search.context);
    let range = message_range(&entry, number, around);
    let figures = journal.figures_of_entries(std::slice::from_ref(&entry))?.remove(0);
    // A single message is shown without the documents of the session.
    let account = if place.is_none() { journal.session_metadata(&entry)? } else { None };
    let mut account = account.unwrap_or_default();
    let mut summaries =
        if place.is_none() { journal.session_summaries(&entry)? } else { Vec::new() };
    let mut redactor = args.redact.requested_redactor(&journal);
    if let Some(redactor) = &mut redactor {
        journal.redact_entry(&mut entry, redactor)?;
        for text in account.documents.iter_mut().map(|(_, text)| text).chain(&mut summaries) {
            redactor.redact_in_place(text);
        }
    }
    let mut files = if place.is_none() { journal.touched_files_of(&entry)? } else { Vec::new() };
    if let Some(redactor) = &mut redactor {
        for (path, _) in &mut files {
            redactor.redact_in_place(path);
        }
    }
    let notices = journal.session_notices(&entry)?;
    let mut window = ShownWindow { journal: &journal, entry: &entry, range, redactor };
    if context.json {
        let mut document = session_json(&entry, &figures)?;
        if !account.documents.is_empty() {
            document["documents"] = documents_json(&account.documents);
        }
        if !summaries.is_empty() {
            document["summaries"] = serde_json::to_value(&summaries)?;
        }
        if !files.is_empty() {
            document["files"] = touched_files_json(&files);
        }
        if !notices.is_empty() {
            document["notices"] = serde_json::to_value(&notices)?;
        }
        let out = BufWriter::new(std::io::stdout().lock());
        let mut stream = SessionJsonStream::begin_stream(out, "show", &document)?;
        window
            .for_each_message(|position, message| stream.write_json_message(position, message))?;
        stream.end_stream()?;
        args.redact.report_redactions(window.redactor.as_ref());
        return Ok(FOUND);
    }
    // A summary that equals the title is already shown.
    let others = summaries.into_iter().filter(|text| text.trim() != entry.title || args.all);
    account.documents.extend(others.map(|text| ("summary".to_owned(), text)));
    let detail =
        ShownParts { tools: args.tools, thinking: args.thinking || args.all, everything: args.all };
    let out = BufWriter::new(Pager::open_pager(context.paging));
    let mut transcript = Transcript::new(out, &entry, detail, output::output_width());
    // A pipe gets the text as it was recorded.
    transcript.is_rendered = std::io::stdout().is_terminal();
    transcript.notices = notices;
    transcript.write_header(&context.now, &figures)?;
    transcript.write_files(&files)?;
    transcript.write_session_documents(&account.documents)?;
    window.for_each_message(|position, message| {
        // The requested message is always shown in full.
        let is_asked = number == Some(position + 1);
        transcript.detail = if is_asked { ShownParts::FULL } else { detail };
        transcript.write_transcript_message(position, message)
    })?;
    let mut out = transcript.out;
    out.flush()?;
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.close_pager()?;
    args.redact.report_redactions(window.redactor.as_ref());
    Ok(FOUND)
}

/// Parses a message number. Messages are numbered from 1.
fn parse_message_number(entry: &Entry, place: &str) -> Result<u64> {
    let total = entry.transcript_length();
    let number = place.parse().ok().filter(|number| (1..=total).contains(number));
    number.ok_or_else(|| {
        anyhow!("`{place}` is not a message of {}: it has messages 1 to {total}", entry.id)
    })
}

fn message_range(entry: &Entry, number: Option<u64>, around: u64) -> Range<u64> {
    let total = entry.transcript_length();
    let Some(number) = number else { return 0..total };
    (number - 1).saturating_sub(around)..(number + around).min(total)
}

struct ShownWindow<'a> {
    journal: &'a Journal,
    entry: &'a Entry,
    range: Range<u64>,
    redactor: Option<Redactor>,
}

impl ShownWindow<'_> {
    fn for_each_message(
        &mut self,
        mut show: impl FnMut(u64, &agent_journal::model::Message) -> Result<()>,
    ) -> Result<()> {
        let redactor = &mut self.redactor;
        let mut failure = None;
        let read =
            self.journal.visit_messages(self.entry, self.range.clone(), &mut |at, mut message| {
                if let Some(redactor) = redactor {
                    redactor.redact_recorded_message(&mut message);
                }
                failure = show(at, &message).err();
                if failure.is_some() { Err(agent_journal::Error::Stopped) } else { Ok(()) }
            });
        failure.map_or_else(|| Ok(read?), Err)
    }
}
