//! `aj show`: read a session.

use std::io::{BufWriter, IsTerminal, Write};
use std::ops::Range;
use std::process::ExitCode;

use agent_journal::export::Redactor;
use agent_journal::{Entry, Journal};
use anyhow::{Result, anyhow};

use super::RedactArgs;
use crate::context::Context;
use crate::error::FOUND;
use crate::output;
use crate::output::json::{Stream, documents, session, touched_files};
use crate::output::pager::Pager;
use crate::output::transcript::{Detail, Transcript};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj show 3f1c             the session whose id begins with 3f1c
  aj show 3f1c#14 -C 5     message 14 with five before and after
  aj show 3f1c --tools     with inputs and outputs of tools
  aj show 3f1c --redact    without secrets, to show it to somebody")]
pub(crate) struct Args {
    /// A session's id or its beginning, with `#message` for a place in it
    #[arg(value_name = "ID[#MESSAGE]")]
    id: String,

    /// Messages before and after the one asked for
    #[arg(long, short = 'C', value_name = "N")]
    context: Option<u64>,

    /// Inputs and outputs of tools in full
    #[arg(long)]
    tools: bool,

    /// The model's reasoning
    #[arg(long)]
    thinking: bool,

    /// Everything: plans, checkpoints, injected text, notices and side conversations in full
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    redact: RedactArgs,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let (id, place) = match args.id.split_once('#') {
        Some((id, place)) => (id, Some(place)),
        None => (args.id.as_str(), None),
    };
    let answered = context.answer(|journal| Ok(journal.session(id)?))?;
    let (journal, mut entry) = (answered.journal, answered.answer);
    let number = place.map(|place| number(&entry, place)).transpose()?;
    let around = args.context.unwrap_or(context.settings.number("search.default_context") as u64);
    let range = range(&entry, number, around);
    let figures = journal.session_figures(std::slice::from_ref(&entry))?.remove(0);
    // Whoever asks for a message gets no plan with it.
    let account = if place.is_none() { journal.account(&entry)? } else { None };
    let mut account = account.unwrap_or_default();
    let mut summaries = if place.is_none() { journal.summaries(&entry)? } else { Vec::new() };
    let mut redactor = args.redact.redactor(&journal);
    if let Some(redactor) = &mut redactor {
        journal.redact_entry(&mut entry, redactor)?;
        for text in account.documents.iter_mut().map(|(_, text)| text).chain(&mut summaries) {
            redactor.own(text);
        }
    }
    let mut files = if place.is_none() { journal.touched_files(&entry)? } else { Vec::new() };
    if let Some(redactor) = &mut redactor {
        for (path, _) in &mut files {
            redactor.own(path);
        }
    }
    let notices = journal.notices(&entry)?;
    let mut window = Window { journal: &journal, entry: &entry, range, redactor };
    if context.json {
        let mut document = session(&entry, &figures)?;
        if !account.documents.is_empty() {
            document["documents"] = documents(&account.documents);
        }
        if !summaries.is_empty() {
            document["summaries"] = serde_json::to_value(&summaries)?;
        }
        if !files.is_empty() {
            document["files"] = touched_files(&files);
        }
        if !notices.is_empty() {
            document["notices"] = serde_json::to_value(&notices)?;
        }
        let out = BufWriter::new(std::io::stdout().lock());
        let mut stream = Stream::begin(out, "show", &document)?;
        window.each(|position, message| stream.message(position, message))?;
        stream.end()?;
        args.redact.report(window.redactor.as_ref());
        return Ok(FOUND);
    }
    // One that is the title stands there already.
    let others = summaries.into_iter().filter(|text| text.trim() != entry.title || args.all);
    account.documents.extend(others.map(|text| ("summary".to_owned(), text)));
    let detail =
        Detail { tools: args.tools, thinking: args.thinking || args.all, everything: args.all };
    let out = BufWriter::new(Pager::open(context.paging));
    let mut transcript = Transcript::new(out, &entry, detail, output::width());
    // Whoever reads a pipe gets the text as it was written.
    transcript.is_rendered = std::io::stdout().is_terminal();
    transcript.notices = notices;
    transcript.header(&context.now, &figures)?;
    transcript.files(&files)?;
    transcript.documents(&account.documents)?;
    window.each(|position, message| {
        // What is asked for is shown, whatever it is.
        let is_asked = number == Some(position + 1);
        transcript.detail = if is_asked { Detail::FULL } else { detail };
        transcript.message(position, message)
    })?;
    let mut out = transcript.out;
    out.flush()?;
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.close()?;
    args.redact.report(window.redactor.as_ref());
    Ok(FOUND)
}

/// Messages are numbered from 1.
fn number(entry: &Entry, place: &str) -> Result<u64> {
    let total = entry.transcript_length();
    let number = place.parse().ok().filter(|number| (1..=total).contains(number));
    number.ok_or_else(|| {
        anyhow!("`{place}` is no message of {}: it has messages 1 to {total}", entry.id)
    })
}

fn range(entry: &Entry, number: Option<u64>, around: u64) -> Range<u64> {
    let total = entry.transcript_length();
    let Some(number) = number else { return 0..total };
    (number - 1).saturating_sub(around)..(number + around).min(total)
}

struct Window<'a> {
    journal: &'a Journal,
    entry: &'a Entry,
    range: Range<u64>,
    redactor: Option<Redactor>,
}

impl Window<'_> {
    fn each(
        &mut self,
        mut show: impl FnMut(u64, &agent_journal::model::Message) -> Result<()>,
    ) -> Result<()> {
        let redactor = &mut self.redactor;
        let mut failure = None;
        let read =
            self.journal.each_message(self.entry, self.range.clone(), &mut |at, mut message| {
                if let Some(redactor) = redactor {
                    redactor.recorded(&mut message);
                }
                failure = show(at, &message).err();
                if failure.is_some() { Err(agent_journal::Error::Stopped) } else { Ok(()) }
            });
        failure.map_or_else(|| Ok(read?), Err)
    }
}
