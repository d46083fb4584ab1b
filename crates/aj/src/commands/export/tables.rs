//! Writes Parquet tables: four directories, which appear only when they are complete.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use agent_journal::{Entry, Export};
use anyhow::{Context as _, Result, bail};

use super::target::ExportTarget;
use super::write::{WrittenFiles, export_progress};
use crate::output::file::{Replace, create_private};

/// Writes the tables into a directory. Other files in it are kept.
pub(super) fn write_tables_to(
    export: &mut Export<'_>,
    entries: &[Entry],
    target: &ExportTarget,
    directory: &Path,
) -> Result<WrittenFiles> {
    if directory.is_file() {
        bail!("{} is a file; Parquet tables need a directory", directory.display());
    }
    let attempt = || format!("could not write {}", directory.display());
    fs::create_dir_all(directory).with_context(attempt)?;
    let draft = tempfile::Builder::new().prefix(".aj-").tempdir_in(directory);
    let draft = draft.with_context(attempt)?;
    let mut files: Vec<PathBuf> = Vec::new();
    let bar = export_progress(entries.len());
    let mut open = |name: &str| -> io::Result<Box<dyn Write + Send>> {
        let path = draft.path().join(name);
        fs::create_dir_all(path.parent().unwrap_or(draft.path()))?;
        files.push(PathBuf::from(name));
        Ok(Box::new(BufWriter::new(create_private(&path)?)))
    };
    export.write_tables(entries, &mut open, &mut || bar.inc(1))?;
    bar.finish_and_clear();
    keep_tables(draft.path(), directory, target.replace).with_context(attempt)?;
    let written = files.into_iter().map(|name| {
        let path = directory.join(name);
        let size = path.metadata().map_or(0, |metadata| metadata.len());
        (path, size)
    });
    let written: WrittenFiles = written.collect();
    // The directory as a whole is what a reader opens.
    let size = written.iter().map(|(_, size)| size).sum();
    Ok(if written.is_empty() { written } else { vec![(directory.to_owned(), size)] })
}

/// Moves the finished tables from the temporary directory to their final names.
fn keep_tables(draft: &Path, directory: &Path, replace: Replace) -> Result<()> {
    let mut tables = Vec::new();
    for entry in fs::read_dir(draft)? {
        tables.push(entry?.file_name());
    }
    if replace == Replace::Never {
        let known = tables.iter().map(|name| directory.join(name)).find(|path| path.exists());
        if let Some(path) = known {
            bail!("{} already exists; use `--force` to replace it", path.display());
        }
    }
    for name in &tables {
        let (new, place) = (draft.join(name), directory.join(name));
        if place.exists() {
            fs::rename(&place, draft.join(format!("{}.old", name.to_string_lossy())))?;
        }
        fs::rename(new, place)?;
    }
    Ok(())
}
