//! Writing it: to standard output, to one file, or to a directory with an index.

use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use agent_journal::export::{Listed, Together, Whole};
use agent_journal::{Entry, Export};
use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::target::{Place, Target};
use crate::error::{remark, warn};
use crate::output::file::{Draft, Packer, Packing, Pieces};
use crate::output::screen::Screen;
use crate::output::{bytes, count, short_id};

/// Files with their sizes, the one to open first.
pub(super) type Written = Vec<(PathBuf, u64)>;

/// Writes the sessions where they belong.
pub(super) fn all(export: &mut Export<'_>, entries: &[Entry], target: &Target) -> Result<Written> {
    match (&target.place, target.format.together()) {
        #[cfg(feature = "parquet")]
        (Place::Path(path), Together::Tables) => {
            let directory = path.as_deref().unwrap_or(Path::new("aj-export"));
            super::tables::write(export, entries, target, directory)
        }
        (Place::Stdout, _) => to_stdout(export, entries, target),
        (Place::Path(path), Together::Directory) if target.is_directory(entries.len()) => {
            let directory = path.as_deref().unwrap_or(Path::new("aj-export"));
            to_directory(export, entries, target, directory)
        }
        (Place::Path(path), _) => to_file(export, entries, target, path.as_deref()),
    }
}

fn to_stdout(export: &mut Export<'_>, entries: &[Entry], target: &Target) -> Result<Written> {
    if entries.len() > 1 && target.format.together() == Together::Directory {
        bail!("{} pages do not fit standard output; give `-o` a directory", entries.len());
    }
    if target.format.together() == Together::Tables {
        bail!("tables do not fit standard output; give `-o` a directory");
    }
    let stdout = std::io::stdout();
    // A file or another program gets every character, a terminal none that steers it.
    let out: Box<dyn Write> = if stdout.is_terminal() && target.packing == Packing::Plain {
        Box::new(Screen::new(stdout.lock()))
    } else {
        Box::new(stdout.lock())
    };
    let packer = Packer::new(BufWriter::new(out), target.packing)?;
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
    path: Option<&Path>,
) -> Result<Written> {
    let name = |export: &mut Export<'_>| -> Result<String> {
        Ok(match entries {
            [entry] => file_name(&export.title(entry)?, entry) + &target.suffix(),
            _ => format!("aj-export{}", target.suffix()),
        })
    };
    let path = match path {
        Some(path) if path.is_dir() => path.join(name(export)?),
        Some(path) => path.to_owned(),
        None => PathBuf::from(name(export)?),
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
    directory: &Path,
) -> Result<Written> {
    if directory.is_file() {
        bail!("{} is a file; several sessions need a directory", directory.display());
    }
    let mut listed = Vec::new();
    let mut written = Vec::new();
    let bar = progress(entries.len());
    for entry in entries {
        let name = file_name(&export.title(entry)?, entry) + &target.suffix();
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
pub(crate) fn file_name(title: &str, entry: &Entry) -> String {
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

pub(super) fn progress(sessions: usize) -> ProgressBar {
    if sessions < 2 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(sessions as u64);
    let style = "{bar:32} {pos} of {len} sessions  {eta}";
    bar.set_style(ProgressStyle::with_template(style).expect("the template is a constant"));
    bar
}

/// Tells what was written, and what was taken out.
pub(super) fn report(written: &[(PathBuf, u64)], export: &Export<'_>, sessions: usize) {
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

/// Says that secrets were written, and how to leave them out.
pub(super) fn report_secrets(secrets: u64) {
    if secrets > 0 {
        let (are, them) = if secrets == 1 { ("is", "it") } else { ("are", "them") };
        let secrets = count(secrets, "secret");
        warn(&format!("{secrets} {are} in what was written; --redact takes {them} out"));
    }
}
