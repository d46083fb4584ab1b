//! Writes an export to standard output, to one file, or to a directory with an index.

use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use agent_journal::export::{Listed, SingleFileOutput, Together};
use agent_journal::{Entry, Export};
use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::target::{ExportDestination, ExportTarget};
use crate::error::{print_remark, print_warning};
use crate::output::file::{CompressingWriter, Draft, Packing, SplitOutput, session_file_name};
use crate::output::screen::LineScreen;
use crate::output::{bytes, count};

/// The written files with their sizes in bytes. The file to open comes first.
pub(super) type WrittenFiles = Vec<(PathBuf, u64)>;

/// Writes the sessions to their destination.
pub(super) fn write_all(
    export: &mut Export<'_>,
    entries: &[Entry],
    target: &ExportTarget,
) -> Result<WrittenFiles> {
    match (&target.place, target.format.storage_of_several()) {
        #[cfg(feature = "parquet")]
        (ExportDestination::Path(path), Together::Tables) => {
            let directory = path.as_deref().unwrap_or(Path::new("aj-export"));
            super::tables::write_tables_to(export, entries, target, directory)
        }
        (ExportDestination::Stdout, _) => to_stdout(export, entries, target),
        (ExportDestination::Path(path), Together::Directory)
            if target.is_directory(entries.len()) =>
        {
            let directory = path.as_deref().unwrap_or(Path::new("aj-export"));
            to_directory(export, entries, target, directory)
        }
        (ExportDestination::Path(path), _) => to_file(export, entries, target, path.as_deref()),
    }
}

fn to_stdout(
    export: &mut Export<'_>,
    entries: &[Entry],
    target: &ExportTarget,
) -> Result<WrittenFiles> {
    if entries.len() > 1 && target.format.storage_of_several() == Together::Directory {
        bail!(
            "{} pages cannot be written to standard output; use a directory with `-o`",
            entries.len()
        );
    }
    if target.format.storage_of_several() == Together::Tables {
        bail!("tables cannot be written to standard output; use a directory with `-o`");
    }
    let stdout = std::io::stdout();
    // Files and pipes get every character; a terminal gets no control characters.
    let out: Box<dyn Write> = if stdout.is_terminal() && target.packing == Packing::Plain {
        Box::new(LineScreen::new(stdout.lock()))
    } else {
        Box::new(stdout.lock())
    };
    let packer = CompressingWriter::new(BufWriter::new(out), target.packing)?;
    let mut out = SingleFileOutput(packer);
    for entry in entries {
        export.write_session(entry, &mut out)?;
    }
    out.0.finish_stream()?.flush()?;
    Ok(Vec::new())
}

fn to_file(
    export: &mut Export<'_>,
    entries: &[Entry],
    target: &ExportTarget,
    path: Option<&Path>,
) -> Result<WrittenFiles> {
    let name = |export: &mut Export<'_>| -> Result<String> {
        Ok(match entries {
            [entry] => {
                session_file_name(&export.exported_title(entry)?, entry)
                    + &target.file_suffix_with_dot()
            }
            _ => format!("aj-export{}", target.file_suffix_with_dot()),
        })
    };
    let path = match path {
        Some(path) if path.is_dir() => path.join(name(export)?),
        Some(path) => path.to_owned(),
        None => PathBuf::from(name(export)?),
    };
    let mut out = SplitOutput::new(&path, target.packing, target.replace, target.split)?;
    let bar = export_progress(entries.len());
    for entry in entries {
        export.write_session(entry, &mut out)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    out.finish_files()
}

fn to_directory(
    export: &mut Export<'_>,
    entries: &[Entry],
    target: &ExportTarget,
    directory: &Path,
) -> Result<WrittenFiles> {
    if directory.is_file() {
        bail!("{} is a file; several sessions need a directory", directory.display());
    }
    let mut listed = Vec::new();
    let mut written = Vec::new();
    let bar = export_progress(entries.len());
    for entry in entries {
        let name = session_file_name(&export.exported_title(entry)?, entry)
            + &target.file_suffix_with_dot();
        let mut out =
            SplitOutput::new(&directory.join(&name), target.packing, target.replace, target.split)?;
        let (head, agent) = export.write_session(entry, &mut out)?;
        let pieces = out.finish_files()?;
        let first = pieces.first().and_then(|(path, _)| path.file_name()).unwrap_or_default();
        listed.push(Listed { file: first.to_string_lossy().into_owned(), head, agent });
        written.extend(pieces);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(index) = target.format.render_index(&listed, export.page_theme()) {
        let path = directory.join(format!("index.{}", target.format.file_suffix()));
        let mut draft = Draft::new(&path, Packing::Plain, target.replace)?;
        draft
            .write_all(index.as_bytes())
            .with_context(|| format!("could not write {}", path.display()))?;
        let size = draft.keep_draft()?;
        written.insert(0, (path, size));
    }
    Ok(written)
}

pub(super) fn export_progress(sessions: usize) -> ProgressBar {
    if sessions < 2 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(sessions as u64);
    let style = "{bar:32} {pos} of {len} sessions  {eta}";
    bar.set_style(ProgressStyle::with_template(style).expect("the template is a constant"));
    bar
}

/// Reports the written files and the redactions.
pub(super) fn report_written(written: &[(PathBuf, u64)], export: &Export<'_>, sessions: usize) {
    let size: u64 = written.iter().map(|(_, size)| size).sum();
    if let Some((path, _)) = written.first() {
        anstream::println!("{}", path.display());
    }
    let taken: Vec<String> =
        export.redaction_counts().iter().map(|(rule, times)| format!("{times} × {rule}")).collect();
    let taken = if taken.is_empty() {
        String::new()
    } else {
        format!(" · redacted: {}", taken.join(", "))
    };
    let files = match written.len() {
        0 => String::new(),
        number => format!(" · {} ({})", count(number as u64, "file"), bytes(size)),
    };
    print_remark(&format!(" {}{files}{taken}", count(sessions as u64, "session")));
}

/// Warns that the export contains secrets and how to remove them.
pub(super) fn report_secrets(secrets: u64) {
    if secrets > 0 {
        let them = if secrets == 1 { "it" } else { "them" };
        let secrets = count(secrets, "secret");
        print_warning(&format!("the export contains {secrets}; use --redact to remove {them}"));
    }
}
