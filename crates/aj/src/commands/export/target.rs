//! Determines format and destination of an export from flags, file names and settings.

use std::path::{Path, PathBuf};

use agent_journal::export::{FORMATS, Format, Together, find_format};
use agent_journal::search::nearest;
use anyhow::{Result, bail};

use super::ExportArgs;
use crate::context::CommandContext;
use crate::output::file::{Packing, Replace};

/// Format and destination of an export.
pub(super) struct ExportTarget {
    pub(super) format: &'static dyn Format,
    pub(super) packing: Packing,
    pub(super) place: ExportDestination,
    pub(super) replace: Replace,
    pub(super) split: Option<u64>,
    /// Whether the output path is a file whose suffix determines the format.
    is_file: bool,
    /// Whether the selection can match any number of sessions.
    pub(super) is_open_ended: bool,
}

/// The destination of an export.
pub(super) enum ExportDestination {
    Stdout,
    Path(Option<PathBuf>),
}

impl ExportTarget {
    pub(super) fn from_args(args: &ExportArgs, context: &CommandContext) -> Result<Self> {
        let file = args.output.as_deref().filter(|path| !path.is_dir());
        let file = file.and_then(|path| path.file_name()?.to_str());
        let by_file = file.and_then(format_by_file_name);
        let (format, mut packing) = match (&args.format, by_file, context.json) {
            (Some(name), _, _) => format_by_name(name)?,
            (None, Some(found), _) => found,
            (None, None, true) => format_by_name("json")?,
            (None, None, false) => format_by_name(&context.settings.export.format)?,
        };
        let format = match format.storage_of_several() {
            Together::Instead(name) if args.all && by_file.is_none() => format_by_name(name)?.0,
            _ => format,
        };
        if packing == Packing::Plain {
            packing = file.map_or(Packing::Plain, |file| Packing::split_suffix(file).1);
        }
        if packing != Packing::Plain && format.storage_of_several() == Together::Tables {
            bail!(
                "{} is already compressed: remove {}",
                format.format_name(),
                packing.packing_suffix()
            );
        }
        let to_stdout = match &args.output {
            Some(path) => path == Path::new("-"),
            None => context.json && args.format.is_none(),
        };
        if args.split.is_some() && (to_stdout || format.format_name() != "markdown") {
            bail!(
                "`--split` needs Markdown files: it does not work with {} or `-o -`",
                format.format_name()
            );
        }
        Ok(Self {
            format,
            packing,
            place: if to_stdout {
                ExportDestination::Stdout
            } else {
                ExportDestination::Path(args.output.clone())
            },
            replace: if args.force { Replace::Yes } else { Replace::Never },
            split: args.split.map(|kilobytes| kilobytes.max(1) * 1000),
            is_file: by_file.is_some(),
            is_open_ended: args.all,
        })
    }

    /// Returns the target for a number of sessions. Formats that hold one session are replaced.
    pub(super) fn for_number(mut self, number: usize) -> Result<Self> {
        if number == 1 {
            return Ok(self);
        }
        if self.is_file && self.format.storage_of_several() == Together::Directory {
            bail!(
                "{number} sessions do not fit into one {} file; use a directory with `-o`",
                self.format.format_name()
            );
        }
        if let Together::Instead(name) = self.format.storage_of_several() {
            if self.is_file {
                bail!(
                    "{number} sessions do not fit into one {} file; use the suffix .{name}",
                    self.format.format_name()
                );
            }
            self.format = format_by_name(name)?.0;
        }
        Ok(self)
    }

    /// Returns whether the sessions go to a directory: there are several, or there can be several
    /// and the output path does not name a file.
    pub(super) fn is_directory(&self, number: usize) -> bool {
        let is_named = matches!(&self.place, ExportDestination::Path(Some(_))) && !self.is_file;
        number > 1 || self.is_open_ended && is_named
    }

    /// Returns the suffix of the files, with the dot.
    pub(super) fn file_suffix_with_dot(&self) -> String {
        format!(".{}{}", self.format.file_suffix(), self.packing.packing_suffix())
    }
}

/// Returns format and packing by the suffix of a file name.
fn format_by_file_name(file: &str) -> Option<(&'static dyn Format, Packing)> {
    let (name, packing) = Packing::split_suffix(file);
    Some((find_format(name.rsplit_once('.')?.1)?, packing))
}

/// Returns format and packing by the name of the format.
fn format_by_name(name: &str) -> Result<(&'static dyn Format, Packing)> {
    let (plain, packing) = Packing::split_suffix(name);
    if let Some(format) = find_format(plain) {
        return Ok((format, packing));
    }
    let names: Vec<&str> = FORMATS.iter().map(|format| format.format_name()).collect();
    match nearest(plain, &names) {
        Some(near) => bail!("unknown format `{name}` — did you mean `{near}`?"),
        None => bail!("unknown format `{name}` — expected one of {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_name_and_by_file() {
        let name =
            |(format, packing): (&'static dyn Format, Packing)| (format.format_name(), packing);
        assert_eq!(name(format_by_name("md").unwrap()), ("markdown", Packing::Plain));
        assert_eq!(name(format_by_name("ndjson.zst").unwrap()), ("ndjson", Packing::Zstd));
        assert_eq!(name(format_by_file_name("a.b.json.gz").unwrap()), ("json", Packing::Gzip));
        assert!(format_by_file_name("folder").is_none());
        let mistake = format_by_name("htlm").err().unwrap().to_string();
        assert_eq!(mistake, "unknown format `htlm` — did you mean `html`?");
    }
}
