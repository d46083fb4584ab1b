//! `aj export`: write sessions down.

use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent_journal::export::{
    Detail, FORMATS, Format, Listed, Options, Pick, Placement, Theme, Together, Whole, format,
};
use agent_journal::search::{Filter, Query, Scope, nearest};
use agent_journal::{Entry, Export, Journal};
use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};

use super::FilterArgs;
use crate::context::Context;
use crate::error::{FOUND, found, remark};
use crate::output::file::{Draft, Packer, Packing, Pieces, Replace};
use crate::output::{bytes, count, short_id};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  aj export 3f1c                                    one session as a page
  aj export 3f1c -o - --format markdown             Markdown on the terminal
  aj export 'project:web since:30d' -o web/         a directory with an index
  aj export --all --format ndjson.zst -o all.ndjson.zst
  aj export 3f1c --json | jq .session")]
pub(crate) struct Args {
    /// Session ids or their beginnings; anything else is a query, as for `aj search`
    #[arg(value_name = "ID|QUERY", required_unless_present = "all")]
    what: Vec<String>,

    /// Every session, or every one the flags choose
    #[arg(long, conflicts_with = "what")]
    all: bool,

    #[command(flatten)]
    filter: FilterArgs,

    /// html, markdown, json or ndjson; with .gz or .zst to compress
    #[arg(long, short, value_name = "NAME")]
    format: Option<String>,

    /// Where to: a file, a directory, or - for standard output
    #[arg(long, short, value_name = "PATH")]
    output: Option<PathBuf>,

    /// Replace files that are there
    #[arg(long)]
    force: bool,

    /// How much of a session a page or Markdown tells
    #[arg(long, value_name = "LEVEL")]
    detail: Option<Level>,

    /// The colours of a page
    #[arg(long, value_name = "NAME")]
    theme: Option<Look>,

    /// Where JSON has the results of tools
    #[arg(long, value_name = "PLACE", default_value = "separate")]
    tool_results: Results,

    /// Tell sub-agents' sessions too
    #[arg(long, overrides_with = "no_sub_agents")]
    sub_agents: bool,

    /// Leave sub-agents' sessions out
    #[arg(long)]
    no_sub_agents: bool,

    /// Describe pictures only
    #[arg(long)]
    no_images: bool,

    /// Take secrets and your name out (so by default in pages and Markdown)
    #[arg(long, overrides_with = "no_redact")]
    redact: bool,

    /// Leave everything in
    #[arg(long)]
    no_redact: bool,

    /// Begin another file at the next prompt after so many kB (Markdown)
    #[arg(long, value_name = "KB")]
    split: Option<u64>,
}

/// How much of a session.
#[derive(Clone, Copy, ValueEnum)]
enum Level {
    /// Prompts and final answers
    Answers,
    /// What was done, a line each
    Actions,
    /// Inputs and outputs of tools, and reasoning
    Tools,
    /// Circumstances of every message, and what the program put in
    Everything,
}

/// The colours of a page.
#[derive(Clone, Copy, ValueEnum)]
enum Look {
    Dark,
    Light,
    Auto,
}

/// Where results of tools stand.
#[derive(Clone, Copy, ValueEnum)]
enum Results {
    /// In messages of their own
    Separate,
    /// With the call they answer
    Grouped,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<ExitCode> {
    let target = Target::of(args, context)?;
    let (journal, _) = context.fresh_journal()?;
    let sub_agents = match (args.sub_agents, args.no_sub_agents) {
        (true, _) => Pick::With,
        (_, true) => Pick::Without,
        _ => target.format.sub_agents(),
    };
    let entries = Choice { args, context, journal: &journal, sub_agents }.entries(&target)?;
    if entries.is_empty() {
        remark(" nothing found — `aj list` and `aj search` take the same words");
        return Ok(found(false));
    }
    let target = target.for_number(entries.len())?;
    let mut export =
        journal.export(target.format, options(args, context, &target, sub_agents, &journal));
    let written = match (&target.place, target.format.together()) {
        (Place::Stdout, _) => to_stdout(&mut export, &entries, &target)?,
        (Place::Path(_), Together::Directory) if entries.len() > 1 => {
            to_directory(&mut export, &entries, &target)?
        }
        (Place::Path(path), _) => to_file(&mut export, &entries, &target, path)?,
    };
    report(&written, &export, entries.len());
    Ok(FOUND)
}

fn options(
    args: &Args,
    context: &Context,
    target: &Target,
    sub_agents: Pick,
    journal: &Journal,
) -> Options {
    let settings = &context.settings;
    let tools = settings.flag("export.include_tool_calls");
    let detail = match args.detail {
        Some(Level::Answers) => Detail::Answers,
        Some(Level::Actions) => Detail::Actions,
        Some(Level::Tools) => Detail::Tools,
        Some(Level::Everything) => Detail::Everything,
        None if tools => Detail::Tools,
        None => Detail::Answers,
    };
    let theme = args.theme.unwrap_or(match settings.word("export.html_theme") {
        "light" => Look::Light,
        "auto" => Look::Auto,
        _ => Look::Dark,
    });
    let redacts = args.redact || target.format.is_shared() && !args.no_redact;
    Options {
        detail,
        theme: match theme {
            Look::Dark => Theme::Dark,
            Look::Light => Theme::Light,
            Look::Auto => Theme::Auto,
        },
        placement: match args.tool_results {
            Results::Separate => Placement::Separate,
            Results::Grouped => Placement::Grouped,
        },
        pictures: if args.no_images { Pick::Without } else { Pick::With },
        sub_agents,
        redactor: redacts.then(|| journal.redactor()),
    }
}

/// Which sessions.
struct Choice<'a> {
    args: &'a Args,
    context: &'a Context,
    journal: &'a Journal,
    sub_agents: Pick,
}

impl Choice<'_> {
    fn entries(&self, target: &Target) -> Result<Vec<Entry>> {
        // In a page or in Markdown sub-agents stand inside their parent.
        let apart =
            self.sub_agents == Pick::With && target.format.together() != Together::Directory;
        let scope = if apart { Scope::All } else { Scope::Roots };
        if self.args.all {
            let filter = self.args.filter.filter(scope, &self.context.now)?;
            return Ok(self.journal.sessions(&filter, None)?);
        }
        if let Some(entries) = self.by_id()? {
            return Ok(entries);
        }
        let mut query = Query::parse(&self.args.what.join(" "), &self.context.now)?;
        query.filter.scope = scope;
        self.args.filter.apply(&mut query.filter, &self.context.now)?;
        self.by_query(&query)
    }

    /// The sessions, when every word is the id of one.
    fn by_id(&self) -> Result<Option<Vec<Entry>>> {
        let mut entries: Vec<Entry> = Vec::new();
        for id in &self.args.what {
            match self.journal.session(id) {
                Ok(entry) if entries.iter().any(|known| known.id == entry.id) => {}
                Ok(entry) => entries.push(entry),
                Err(error @ agent_journal::Error::AmbiguousSession { .. }) if is_id(id) => {
                    return Err(error.into());
                }
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(entries))
    }

    fn by_query(&self, query: &Query) -> Result<Vec<Entry>> {
        if query.clauses.is_empty() {
            return Ok(self.journal.sessions(&query.filter, None)?);
        }
        let all = Filter { scope: Scope::All, ..Filter::default() };
        let limit = self.journal.count(&all)?.max(1) as usize;
        let answer = self.journal.search(query, limit, 0)?;
        Ok(answer.sessions.into_iter().map(|found| found.entry).collect())
    }
}

/// Whether a word can only be meant as an id.
fn is_id(word: &str) -> bool {
    word.contains(|one: char| one.is_ascii_digit())
        && word.chars().all(|one| one.is_ascii_hexdigit() || one == '-')
}

/// What is written, and where to.
struct Target {
    format: &'static dyn Format,
    packing: Packing,
    place: Place,
    replace: Replace,
    split: Option<u64>,
    /// Whether the format was asked for by a file's name.
    by_name: bool,
}

enum Place {
    Stdout,
    Path(Option<PathBuf>),
}

impl Target {
    fn of(args: &Args, context: &Context) -> Result<Self> {
        let file = args.output.as_ref().and_then(|path| path.file_name()?.to_str());
        let by_file = file
            .and_then(named)
            .filter(|_| !args.output.as_ref().is_some_and(|path| path.is_dir()));
        let (format, packing) = match (&args.format, by_file, context.json) {
            (Some(name), _, _) => known(name)?,
            (None, Some(found), _) => found,
            (None, None, true) => known("json")?,
            (None, None, false) => known(context.settings.word("export.default_format"))?,
        };
        let to_stdout = match &args.output {
            Some(path) => path == Path::new("-"),
            None => context.json && args.format.is_none(),
        };
        if args.split.is_some() && format.together() != Together::Directory {
            bail!("`--split` is for Markdown; `ndjson` has a session a line already");
        }
        if args.split.is_some() && (to_stdout || format.name() != "markdown") {
            bail!("`--split` writes several Markdown files: give it a file's name");
        }
        Ok(Self {
            format,
            packing,
            place: if to_stdout { Place::Stdout } else { Place::Path(args.output.clone()) },
            replace: if args.force { Replace::Yes } else { Replace::Never },
            split: args.split.map(|kilobytes| kilobytes.max(1) * 1000),
            by_name: by_file.is_some() && args.format.is_none()
                || args.format.as_deref() == Some("json"),
        })
    }

    /// The target for so many sessions: some formats hold only one.
    fn for_number(mut self, number: usize) -> Result<Self> {
        if number == 1 {
            return Ok(self);
        }
        if let Together::Instead(name) = self.format.together() {
            let file = matches!(&self.place, Place::Path(Some(_)));
            if self.by_name && file {
                bail!(
                    "{number} sessions do not fit one {} file; name it .{name}",
                    self.format.name()
                );
            }
            self.format = known(name)?.0;
        }
        Ok(self)
    }

    fn suffix(&self) -> String {
        format!(".{}{}", self.format.suffix(), self.packing.suffix())
    }
}

/// A format by a file's name.
fn named(file: &str) -> Option<(&'static dyn Format, Packing)> {
    let (name, packing) = Packing::split(file);
    Some((format(name.rsplit_once('.')?.1)?, packing))
}

/// A format by its own name.
fn known(name: &str) -> Result<(&'static dyn Format, Packing)> {
    let (plain, packing) = Packing::split(name);
    if let Some(format) = format(plain) {
        return Ok((format, packing));
    }
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name()).collect();
    match nearest(plain, &names) {
        Some(near) => bail!("unknown format `{name}` — did you mean `{near}`?"),
        None => bail!("unknown format `{name}` — known are {}", names.join(", ")),
    }
}

fn to_stdout(
    export: &mut Export<'_>,
    entries: &[Entry],
    target: &Target,
) -> Result<Vec<(PathBuf, u64)>> {
    if entries.len() > 1 && target.format.together() == Together::Directory {
        bail!("{} pages do not fit standard output; give `-o` a directory", entries.len());
    }
    let packer = Packer::new(BufWriter::new(std::io::stdout().lock()), target.packing)?;
    let mut out = Whole(packer);
    for entry in entries {
        export.write(entry, &mut out)?;
    }
    out.0.finish()?.flush()?;
    Ok(Vec::new())
}

fn to_file(
    export: &mut Export<'_>,
    entries: &[Entry],
    target: &Target,
    path: &Option<PathBuf>,
) -> Result<Vec<(PathBuf, u64)>> {
    let name = |export: &mut Export<'_>| match entries {
        [entry] => file_name(&export.title(entry), entry) + &target.suffix(),
        _ => format!("aj-export{}", target.suffix()),
    };
    let path = match path {
        Some(path) if path.is_dir() => path.join(name(export)),
        Some(path) => path.clone(),
        None => PathBuf::from(name(export)),
    };
    let mut out = Pieces::new(&path, (target.packing, target.replace), target.split)?;
    let bar = progress(entries.len());
    for entry in entries {
        export.write(entry, &mut out)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    out.finish()
}

fn to_directory(
    export: &mut Export<'_>,
    entries: &[Entry],
    target: &Target,
) -> Result<Vec<(PathBuf, u64)>> {
    let directory = match &target.place {
        Place::Path(Some(path)) => path.clone(),
        _ => PathBuf::from("aj-export"),
    };
    if directory.is_file() {
        bail!("{} is a file; several sessions need a directory", directory.display());
    }
    let mut listed = Vec::new();
    let mut written = Vec::new();
    let bar = progress(entries.len());
    for entry in entries {
        let name = file_name(&export.title(entry), entry) + &target.suffix();
        let mut out =
            Pieces::new(&directory.join(&name), (target.packing, target.replace), target.split)?;
        let (head, agent) = export.write(entry, &mut out)?;
        let pieces = out.finish()?;
        let first = pieces.first().and_then(|(path, _)| path.file_name()).unwrap_or_default();
        listed.push(Listed { file: first.to_string_lossy().into_owned(), head, agent });
        written.extend(pieces);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(index) = target.format.index(&listed, export.theme()) {
        let path = directory.join(format!("index.{}", target.format.suffix()));
        let mut draft = Draft::new(&path, Packing::Plain, target.replace)?;
        draft
            .write_all(index.as_bytes())
            .with_context(|| format!("could not write {}", path.display()))?;
        let size = draft.keep()?;
        written.insert(0, (path, size));
    }
    Ok(written)
}

/// A name people know the session by, and still its own.
fn file_name(title: &str, entry: &Entry) -> String {
    let mut name = String::new();
    for one in title.chars().flat_map(char::to_lowercase) {
        if one.is_alphanumeric() {
            name.push(one);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
        if name.chars().count() >= 48 {
            break;
        }
    }
    let id: String =
        short_id(entry).chars().filter(|one| one.is_alphanumeric() || *one == '-').collect();
    let name = name.trim_end_matches('-');
    if name.is_empty() { id } else { format!("{name}-{id}") }
}

fn progress(sessions: usize) -> ProgressBar {
    if sessions < 2 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(sessions as u64);
    let style = "{bar:32} {pos} of {len} sessions  {eta}";
    bar.set_style(ProgressStyle::with_template(style).expect("the template is a constant"));
    bar
}

fn report(written: &[(PathBuf, u64)], export: &Export<'_>, sessions: usize) {
    let size: u64 = written.iter().map(|(_, size)| size).sum();
    if let Some((path, _)) = written.first() {
        anstream::println!("{}", path.display());
    }
    let taken: Vec<String> =
        export.redactions().iter().map(|(rule, times)| format!("{times} × {rule}")).collect();
    let taken = if taken.is_empty() {
        String::new()
    } else {
        format!(" · taken out: {}", taken.join(", "))
    };
    let files = match written.len() {
        0 => String::new(),
        number => format!(" · {} ({})", count(number as u64, "file"), bytes(size)),
    };
    remark(&format!(" {}{files}{taken}", count(sessions as u64, "session")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_name_and_by_file() {
        let name = |(format, packing): (&'static dyn Format, Packing)| (format.name(), packing);
        assert_eq!(name(known("md").unwrap()), ("markdown", Packing::Plain));
        assert_eq!(name(known("ndjson.zst").unwrap()), ("ndjson", Packing::Zstd));
        assert_eq!(name(named("a.b.json.gz").unwrap()), ("json", Packing::Gzip));
        assert!(named("folder").is_none());
        let mistake = known("htlm").err().unwrap().to_string();
        assert_eq!(mistake, "unknown format `htlm` — did you mean `html`?");
    }

    #[test]
    fn only_what_cannot_be_a_word_is_an_id() {
        assert!(is_id("5e1fb0a2") && is_id("5e1f-"));
        assert!(!is_id("added") && !is_id("login2"));
    }
}
