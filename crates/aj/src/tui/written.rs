//! Exports a session from the terminal UI, to the working directory or to a private temporary file.

use std::io::Write;
use std::path::{Path, PathBuf};

use agent_journal::export::{ExportOptions, ExportOutput, Format, SingleFileOutput};
use agent_journal::{Entry, Journal};
use anyhow::{Context as _, Result};

use super::worker::{Door, Purpose};
use crate::output::file::{Draft, Packing, Replace, session_file_name};

/// Writes a session and returns the path of the file.
pub(super) fn write_export(
    journal: &Journal,
    entry: &Entry,
    format: &'static dyn Format,
    door: &Door,
    purpose: Purpose,
) -> Result<PathBuf> {
    let redactor = format.is_shared().then(|| journal.owner_redactor());
    let mut export =
        journal.start_export(format, ExportOptions { redactor, ..door.options.clone() });
    if purpose == Purpose::Keep {
        let name = format!(
            "{}.{}",
            session_file_name(&export.exported_title(entry)?, entry),
            format.file_suffix()
        );
        let path = std::path::absolute(&name).unwrap_or_else(|_| PathBuf::from(&name));
        let mut draft =
            SingleFileOutput(Draft::new(Path::new(&name), Packing::Plain, Replace::Never)?);
        export.write_session(entry, &mut draft)?;
        draft.0.keep_draft()?;
        return Ok(path);
    }
    let attempt = "could not create a temporary file";
    let suffix = format!(".{}", format.file_suffix());
    // Only the owner can read the file. It is kept, because the program that shows it may outlive
    // this one. The library recognizes it by its name and deletes it a day later.
    let file = tempfile::Builder::new().prefix("aj-session-").suffix(&suffix).tempfile();
    let mut out = SingleFileOutput(std::io::BufWriter::new(file.context(attempt)?));
    export.write_session(entry, &mut out as &mut dyn ExportOutput)?;
    out.flush()?;
    let file = out.0.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    let (_, path) = file.keep().context(attempt)?;
    Ok(path)
}
