//! `aj star`, `unstar`, `tag`, `untag`, `note` and `rename`: mark sessions.

use std::io::{IsTerminal, Read, Write};
use std::process::{Command, ExitCode};

use agent_journal::{Entry, Journal, MarkChange};
use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::RedactArgs;
use crate::context::{CommandContext, WAIT};
use crate::error::FOUND;
use crate::output::{self, BOLD, DIM, plain_text, short_id};

/// Maximum size of a note that is read from standard input or from a file.
const MAX_NOTE_BYTES: u64 = 1 << 20;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj star 3f1c                  star a session
  aj star 3f1c 0199             star two sessions
  aj list is:starred            list the starred sessions")]
pub(crate) struct StarArgs {
    /// Session ids or unique prefixes
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj unstar 3f1c                remove the star of a session
  aj unstar 3f1c 0199           remove the stars of two sessions")]
pub(crate) struct UnstarArgs {
    /// Session ids or unique prefixes
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj tag 3f1c release           add a tag
  aj tag 3f1c 0199 +release     tag two sessions
  aj tag 3f1c                   show the tags of a session
  aj tag                        list all tags
  aj list tag:release           list the sessions with a tag")]
pub(crate) struct TagArgs {
    /// A session id and tags, or several session ids and tags as `+TAG`
    #[arg(value_name = "ID|TAG")]
    words: Vec<String>,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj untag 3f1c wip             remove a tag
  aj untag 3f1c                 remove all tags of a session")]
pub(crate) struct UntagArgs {
    /// Session id or a unique prefix
    #[arg(value_name = "ID")]
    id: String,

    /// Tags to remove [default: all]
    #[arg(value_name = "TAG")]
    tags: Vec<String>,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj note 3f1c retry with the new API   write a note
  aj note 3f1c --remove                 remove the note
  aj list has:note                      list the sessions with a note
  git log -1 | aj note 3f1c             write what another program prints
  aj note 3f1c                          write it in your editor")]
pub(crate) struct NoteArgs {
    /// Session id or a unique prefix
    #[arg(value_name = "ID")]
    id: String,

    /// The note [default: standard input, or your editor]
    #[arg(value_name = "TEXT")]
    text: Vec<String>,

    /// Remove the note
    #[arg(long, conflicts_with = "text")]
    remove: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj rename 3f1c fix the login test     set the title of a session
  aj rename 3f1c                        restore the recorded title")]
pub(crate) struct RenameArgs {
    /// Session id or a unique prefix
    #[arg(value_name = "ID")]
    id: String,

    /// The title [default: the recorded one]
    #[arg(value_name = "TITLE")]
    title: Vec<String>,
}

pub(crate) fn run_star(args: &StarArgs, context: &CommandContext) -> Result<ExitCode> {
    apply_changes(&args.ids, &[MarkChange::Star], context)
}

pub(crate) fn run_unstar(args: &UnstarArgs, context: &CommandContext) -> Result<ExitCode> {
    apply_changes(&args.ids, &[MarkChange::Unstar], context)
}

pub(crate) fn run_tag(args: &TagArgs, context: &CommandContext) -> Result<ExitCode> {
    if args.words.is_empty() {
        return list_tags(context);
    }
    let (ids, changes) = parse_tag_words(&args.words);
    apply_changes(&ids, &changes, context)
}

pub(crate) fn run_untag(args: &UntagArgs, context: &CommandContext) -> Result<ExitCode> {
    let mut changes: Vec<MarkChange> =
        args.tags.iter().cloned().map(MarkChange::RemoveTag).collect();
    if changes.is_empty() {
        changes.push(MarkChange::RemoveAllTags);
    }
    apply_changes(std::slice::from_ref(&args.id), &changes, context)
}

pub(crate) fn run_note(args: &NoteArgs, context: &CommandContext) -> Result<ExitCode> {
    let ids = std::slice::from_ref(&args.id);
    if args.remove {
        return apply_changes(ids, &[MarkChange::SetNote(String::new())], context);
    }
    if !args.text.is_empty() {
        return apply_changes(ids, &[MarkChange::SetNote(args.text.join(" "))], context);
    }
    if !std::io::stdin().is_terminal() {
        let mut text = String::new();
        let mut input = std::io::stdin().lock().take(MAX_NOTE_BYTES);
        input.read_to_string(&mut text).context("could not read the note")?;
        if text.trim().is_empty() {
            bail!("the note is empty: pass a text, or `--remove` to remove the note");
        }
        return apply_changes(ids, &[MarkChange::SetNote(text)], context);
    }
    let (journal, entries) = find_sessions(ids, context)?;
    let note = entries.first().and_then(|entry| entry.marks.note.clone()).unwrap_or_default();
    let edited = edit_note(&note)?;
    write_changes(journal, &entries, &[MarkChange::SetNote(edited)], context)
}

pub(crate) fn run_rename(args: &RenameArgs, context: &CommandContext) -> Result<ExitCode> {
    let change = MarkChange::SetTitle(args.title.join(" "));
    apply_changes(std::slice::from_ref(&args.id), &[change], context)
}

/// Splits words into session ids and changes of tags. If a word begins with `+`, only such words
/// are tags; otherwise all words after the first are.
fn parse_tag_words(words: &[String]) -> (Vec<String>, Vec<MarkChange>) {
    let is_signed = |word: &String| word.starts_with('+');
    let any_signed = words.iter().any(is_signed);
    let (mut ids, mut changes) = (Vec::new(), Vec::new());
    for (at, word) in words.iter().enumerate() {
        if is_signed(word) || !any_signed && at > 0 {
            changes.push(MarkChange::AddTag(word.trim_start_matches('+').to_owned()));
        } else {
            ids.push(word.clone());
        }
    }
    (ids, changes)
}

fn list_tags(context: &CommandContext) -> Result<ExitCode> {
    let answered = context.answer_fresh(|journal| Ok(journal.count_tags()?))?;
    if context.json {
        let tags: Vec<_> = answered
            .answer
            .iter()
            .map(|(tag, sessions)| json!({ "tag": tag, "sessions": sessions }))
            .collect();
        output::json::print_document("tags", json!({ "tags": tags }))?;
        return Ok(crate::error::found_exit_code(!answered.answer.is_empty()));
    }
    if answered.answer.is_empty() {
        return Ok(crate::error::print_nothing_found("no tags; `aj tag ID TAG` adds one"));
    }
    let mut out = output::buffered_stdout();
    for (tag, sessions) in &answered.answer {
        let sessions = output::count(*sessions, "session");
        writeln!(out, " #{}  {DIM}{sessions}{DIM:#}", plain_text(tag))?;
    }
    out.flush()?;
    Ok(FOUND)
}

fn apply_changes(
    ids: &[String],
    changes: &[MarkChange],
    context: &CommandContext,
) -> Result<ExitCode> {
    let (journal, entries) = find_sessions(ids, context)?;
    write_changes(journal, &entries, changes, context)
}

/// Finds the sessions with the given ids.
fn find_sessions(ids: &[String], context: &CommandContext) -> Result<(Journal, Vec<Entry>)> {
    let context = context.with_redaction(RedactArgs::default().of_views());
    let journal = context.fresh_journal()?;
    // The message number is not part of the id.
    let ids = ids.iter().map(|id| id.split('#').next().unwrap_or_default());
    let entries = ids.map(|id| Ok(journal.find_session(id)?)).collect::<Result<Vec<Entry>>>()?;
    Ok((journal, entries))
}

/// Changes the marks of sessions, and shows the result.
fn write_changes(
    mut journal: Journal,
    entries: &[Entry],
    changes: &[MarkChange],
    context: &CommandContext,
) -> Result<ExitCode> {
    if !changes.is_empty() {
        journal.mark_sessions(entries, changes, WAIT)?;
    }
    let ids = entries.iter().map(|entry| &entry.id);
    let marked = ids.map(|id| Ok(journal.find_session(id)?)).collect::<Result<Vec<Entry>>>()?;
    if context.json {
        let sessions: Vec<_> = marked
            .iter()
            .map(|entry| json!({ "id": entry.id, "title": entry.title, "marks": entry.marks }))
            .collect();
        output::json::print_document("marks", json!({ "sessions": sessions }))?;
        return Ok(FOUND);
    }
    let mut out = output::buffered_stdout();
    for entry in &marked {
        let title = plain_text(&entry.title);
        let marks = plain_text(&entry.marks.star_and_tags());
        let line = format!(" {DIM}{}{DIM:#}  {BOLD}{title}{BOLD:#}  {marks}", short_id(entry));
        writeln!(out, "{}", line.trim_end())?;
        for line in entry.marks.note.iter().flat_map(|note| note.lines()) {
            writeln!(out, "   {}", plain_text(line))?;
        }
    }
    out.flush()?;
    Ok(FOUND)
}

/// Opens a note in the user's editor, and returns the edited text.
fn edit_note(note: &str) -> Result<String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let Some(editor) = variable("VISUAL").or_else(|| variable("EDITOR")) else {
        bail!("set EDITOR, or pass the note as text");
    };
    let mut file = tempfile::Builder::new().prefix("aj-note-").suffix(".txt").tempfile()?;
    file.write_all(note.as_bytes())?;
    file.flush()?;
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or_default();
    let status = Command::new(program)
        .args(words)
        .arg(file.path())
        .status()
        .with_context(|| format!("could not run {program}"))?;
    if !status.success() {
        bail!("{program} failed; the note is unchanged");
    }
    // An editor may replace the file instead of writing into it.
    let mut text = String::new();
    std::fs::File::open(file.path())?.take(MAX_NOTE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_words_are_tags_and_plain_ones_ids() {
        let parse = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            parse_tag_words(&words)
        };
        let add = |tag: &str| MarkChange::AddTag(tag.to_owned());
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(parse("3f1c release done"), (ids(&["3f1c"]), vec![add("release"), add("done")]));
        let mixed = (ids(&["3f1c", "0199"]), vec![add("release"), add("done")]);
        assert_eq!(parse("3f1c 0199 +release +done"), mixed);
        assert_eq!(parse("3f1c"), (ids(&["3f1c"]), Vec::new()));
    }
}
