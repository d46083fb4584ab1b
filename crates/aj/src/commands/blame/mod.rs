//! `aj blame`: which session wrote these lines.

mod git;

use std::fs;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent_journal::analyze::{Confidence, FileLine};
use agent_journal::{Author, Blame, BlamedFile};
use anyhow::{Context as _, Result, bail};
use serde_json::json;

use self::git::Commit;
use super::RedactArgs;
use crate::context::Context;
use crate::error::{found, remark};
use crate::output::{self, BOLD, DIM};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj blame src/main.rs          which sessions wrote it
  aj blame src/main.rs:40-60    only these lines

A line is attributed by content alone: a recorded edit of this file left exactly this text. `exact`
means that the whole edit stands there as one block, `partial` that some of its lines are left.
Beside it stands the commit that `git blame` names.")]
pub(crate) struct Args {
    /// A file, with a line or lines after a colon
    #[arg(value_name = "FILE[:LINE[-LINE]]")]
    place: String,

    #[command(flatten)]
    redact: RedactArgs,
}

/// A run of lines with one author, or none, that came with one commit, or none.
pub(crate) struct Span {
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) author: Option<Author>,
    pub(crate) commit: Option<String>,
}

/// The lines of a file that somebody asks about, and what its repository knows of them.
pub(crate) struct BlamedPlace {
    pub(crate) path: PathBuf,
    pub(crate) file: BlamedFile,
    commits: Vec<Option<Commit>>,
    wanted: RangeInclusive<usize>,
}

impl BlamedPlace {
    /// Reads the file of a place such as `file:4-8`.
    pub(crate) fn read(text: &str) -> Result<Self> {
        let (path, lines) = place(text)?;
        let (file, commits) = read(&path)?;
        let wanted = match lines {
            Some(lines) if *lines.end() > file.lines.len() => {
                bail!("{} has {}", path.display(), output::count(file.lines.len() as u64, "line"))
            }
            Some(lines) => lines,
            None => 1..=file.lines.len(),
        };
        Ok(Self { path, file, commits, wanted })
    }

    /// Joins lines with one author and commit.
    pub(crate) fn spans(&self, blame: &Blame) -> Vec<Span> {
        spans(blame, &self.commits, &self.wanted)
    }
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let place = BlamedPlace::read(&args.place)?;
    let answered = context.answer(|journal| Ok(journal.blame(&place.file)?))?;
    let mut blame = answered.answer;
    if let Some(redactor) = &mut args.redact.redactor(&answered.journal) {
        for entry in &mut blame.sessions {
            answered.journal.redact_entry(entry, redactor)?;
        }
        args.redact.report(Some(redactor));
    }
    let spans = place.spans(&blame);
    if context.json {
        output::json::print("blame", document(&place.path, &place.file, &blame, &spans))?;
    } else {
        print(&blame, &spans, context)?;
        remark(&summary(&blame, &spans));
    }
    Ok(found(spans.iter().any(|span| span.author.is_some())))
}

/// Splits `file:4-8`. A file that is there with its colon is meant as it is.
fn place(text: &str) -> Result<(PathBuf, Option<RangeInclusive<usize>>)> {
    let whole = || (PathBuf::from(text), None);
    let Some((path, lines)) = text.rsplit_once(':').filter(|_| !Path::new(text).exists()) else {
        return Ok(whole());
    };
    let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
    let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else {
        // A drive's letter, or a name with a colon: reading it says what is wrong.
        return Ok(whole());
    };
    if first == 0 || last < first {
        bail!("`{lines}` names no lines: the first line is 1, as in `{path}:1-20`");
    }
    Ok((PathBuf::from(path), Some(first..=last)))
}

/// Reads a file and what the repository around it knows of its lines.
fn read(path: &Path) -> Result<(BlamedFile, Vec<Option<Commit>>)> {
    let bytes = fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
    let given = std::path::absolute(path)?;
    let real = fs::canonicalize(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let commits = git::commits(&real);
    let lines = text.lines().enumerate().map(|(at, line)| FileLine {
        text: line.to_owned(),
        committed_at: commits.get(at).and_then(Option::as_ref).and_then(|commit| commit.at),
    });
    let lines = lines.collect();
    let repository = git::root(&real);
    let mut paths = vec![real];
    if !paths.contains(&given) {
        paths.push(given);
    }
    Ok((BlamedFile { paths, repository, lines }, commits))
}

fn spans(blame: &Blame, commits: &[Option<Commit>], wanted: &RangeInclusive<usize>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for number in wanted.clone() {
        let author = blame.lines.get(number - 1).copied().flatten();
        let commit = commits.get(number - 1).and_then(Option::as_ref);
        let commit = commit.map(|commit| commit.id.clone());
        match spans.last_mut() {
            Some(span) if span.author == author && span.commit == commit => span.last = number,
            _ => spans.push(Span { first: number, last: number, author, commit }),
        }
    }
    spans
}

fn print(blame: &Blame, spans: &[Span], context: &Context) -> Result<()> {
    let mut out = anstream::stdout().lock();
    let range = |span: &Span| {
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
    let room = output::width().saturating_sub(widest + longest + 39).clamp(16, 80);
    for span in spans {
        let lines = output::pad_left(&range(span), widest);
        let commit = output::cut_bytes(span.commit.as_deref().unwrap_or("–"), 8);
        let commit = output::pad(commit, 8);
        let Some(author) = &span.author else {
            let nobody = output::pad("no recorded edit", longest + 16);
            writeln!(out, " {lines}  {DIM}{nobody} {commit}{DIM:#}")?;
            continue;
        };
        let entry = &blame.sessions[author.session];
        let (badge, place) = (output::badge(entry), output::pad(&place(author), longest));
        let sure = output::pad(name(author.confidence), 7);
        let title = output::pad(&entry.title, room);
        let when = output::ago(author.at, &context.now);
        writeln!(
            out,
            " {lines}  {badge} {place} {DIM}{sure} {commit}{DIM:#} {BOLD}{title}{BOLD:#}  {when}"
        )?;
    }
    Ok(())
}

fn summary(blame: &Blame, spans: &[Span]) -> String {
    let count = |some: bool| -> usize {
        let fitting = spans.iter().filter(|span| span.author.is_some() == some);
        fitting.map(|span| span.last - span.first + 1).sum()
    };
    let (known, unknown) = (count(true), count(false));
    let sessions = output::count(blame.candidates as u64, "session");
    let lines = output::plural((known + unknown) as u64, "line");
    format!("{known} of {} {lines} · {sessions} changed this file", known + unknown)
}

pub(crate) fn name(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Exact => "exact",
        _ => "partial",
    }
}

fn document(path: &Path, file: &BlamedFile, blame: &Blame, spans: &[Span]) -> serde_json::Value {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_and_maybe_lines() {
        let check = |text: &str, file: &str, lines: Option<RangeInclusive<usize>>| {
            assert_eq!(place(text).unwrap(), (PathBuf::from(file), lines), "{text}");
        };
        check("src/x.rs", "src/x.rs", None);
        check("src/x.rs:4", "src/x.rs", Some(4..=4));
        check("src/x.rs:4-8", "src/x.rs", Some(4..=8));
        check("C:\\x.rs", "C:\\x.rs", None);
        assert!(place("x.rs:0").is_err());
        assert!(place("x.rs:8-4").is_err());
    }
}
