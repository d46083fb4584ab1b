//! What is written, and where to: worked out of flags, file names and settings.

use std::path::{Path, PathBuf};

use agent_journal::export::{FORMATS, Format, Together, format};
use agent_journal::search::nearest;
use anyhow::{Result, bail};

use super::Args;
use crate::context::Context;
use crate::output::file::{Packing, Replace};

/// What is written, and where to.
pub(super) struct Target {
    pub(super) format: &'static dyn Format,
    pub(super) packing: Packing,
    pub(super) place: Place,
    pub(super) replace: Replace,
    pub(super) split: Option<u64>,
    /// Whether a file is named whose name says its format.
    is_file: bool,
    /// Whether sessions were asked for by something that may choose any number of them.
    pub(super) is_open_ended: bool,
}

/// Where to.
pub(super) enum Place {
    Stdout,
    Path(Option<PathBuf>),
}

impl Target {
    pub(super) fn of(args: &Args, context: &Context) -> Result<Self> {
        let file = args.output.as_deref().filter(|path| !path.is_dir());
        let file = file.and_then(|path| path.file_name()?.to_str());
        let by_file = file.and_then(named);
        let (format, mut packing) = match (&args.format, by_file, context.json) {
            (Some(name), _, _) => known(name)?,
            (None, Some(found), _) => found,
            (None, None, true) => known("json")?,
            (None, None, false) => known(context.settings.word("export.default_format"))?,
        };
        let format = match format.together() {
            Together::Instead(name) if args.all && by_file.is_none() => known(name)?.0,
            _ => format,
        };
        if packing == Packing::Plain {
            packing = file.map_or(Packing::Plain, |file| Packing::split(file).1);
        }
        if packing != Packing::Plain && format.together() == Together::Tables {
            bail!("{} is compressed already: leave {} out", format.name(), packing.suffix());
        }
        let to_stdout = match &args.output {
            Some(path) => path == Path::new("-"),
            None => context.json && args.format.is_none(),
        };
        if args.split.is_some() && (to_stdout || format.name() != "markdown") {
            bail!("`--split` writes several Markdown files: not {}, nor `-o -`", format.name());
        }
        Ok(Self {
            format,
            packing,
            place: if to_stdout { Place::Stdout } else { Place::Path(args.output.clone()) },
            replace: if args.force { Replace::Yes } else { Replace::Never },
            split: args.split.map(|kilobytes| kilobytes.max(1) * 1000),
            is_file: by_file.is_some(),
            is_open_ended: args.all,
        })
    }

    /// The target for so many sessions: some formats hold only one.
    pub(super) fn for_number(mut self, number: usize) -> Result<Self> {
        if number == 1 {
            return Ok(self);
        }
        if self.is_file && self.format.together() == Together::Directory {
            bail!(
                "{number} sessions do not fit one {} file; give `-o` a directory",
                self.format.name()
            );
        }
        if let Together::Instead(name) = self.format.together() {
            if self.is_file {
                bail!(
                    "{number} sessions do not fit one {} file; name it .{name}",
                    self.format.name()
                );
            }
            self.format = known(name)?.0;
        }
        Ok(self)
    }

    /// Whether pages go to a directory: there are several, or there could be and the name is no
    /// file's.
    pub(super) fn is_directory(&self, number: usize) -> bool {
        let is_named = matches!(&self.place, Place::Path(Some(_))) && !self.is_file;
        number > 1 || self.is_open_ended && is_named
    }

    /// What its files are called, from the dot on.
    pub(super) fn suffix(&self) -> String {
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
}
