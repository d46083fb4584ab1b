//! A session in another form: kept where the user is, or in a private file for another program.

use std::io::Write;
use std::path::{Path, PathBuf};

use agent_journal::export::{Format, Options, Output, Whole};
use agent_journal::{Entry, Journal};
use anyhow::{Context as _, Result};

use super::worker::{Door, Purpose};
use crate::commands::export::file_name;
use crate::output::file::{Draft, Packing, Replace};

/// Writes a session down and tells where.
pub(super) fn write(
    journal: &Journal,
    entry: &Entry,
    format: &'static dyn Format,
    (door, purpose): (&Door, Purpose),
) -> Result<PathBuf> {
    let redactor = format.is_shared().then(|| journal.redactor());
    let mut export = journal.export(format, Options { redactor, ..door.options.clone() });
    if purpose == Purpose::Keep {
        let name = format!("{}.{}", file_name(&export.title(entry)?, entry), format.suffix());
        let path = std::path::absolute(&name).unwrap_or_else(|_| PathBuf::from(&name));
        let mut draft = Whole(Draft::new(Path::new(&name), Packing::Plain, Replace::Never)?);
        export.write(entry, &mut draft)?;
        draft.0.keep()?;
        return Ok(path);
    }
    let attempt = "could not make a temporary file";
    let suffix = format!(".{}", format.suffix());
    // Only its owner may read it; the program that shows it may outlive this one. By its name the
    // library knows it, and deletes it a day later.
    let file = tempfile::Builder::new().prefix("aj-session-").suffix(&suffix).tempfile();
    let mut out = Whole(std::io::BufWriter::new(file.context(attempt)?));
    export.write(entry, &mut out as &mut dyn Output)?;
    out.flush()?;
    let file = out.0.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    let (_, path) = file.keep().context(attempt)?;
    Ok(path)
}
