//! Output files that appear complete or not at all, compressed according to their names.

use std::fs;
use std::io::{self, BufRead, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use agent_journal::Entry;
use agent_journal::export::ExportOutput;
use anyhow::{Context, Result, bail};
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use tempfile::NamedTempFile;

use super::short_id;

/// The compression of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Packing {
    #[default]
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    /// Splits `x.md.gz` into the name without the compression suffix and the compression.
    pub(crate) fn split_suffix(name: &str) -> (&str, Self) {
        match name.rsplit_once('.') {
            Some((rest, "gz")) => (rest, Self::Gzip),
            Some((rest, "zst" | "zstd")) => (rest, Self::Zstd),
            _ => (name, Self::Plain),
        }
    }

    /// Returns the suffix that the compression adds to a file's name.
    pub(crate) fn packing_suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
        }
    }
}

/// A writer that compresses, or writes through unchanged.
pub(crate) enum CompressingWriter<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> CompressingWriter<W> {
    pub(crate) fn new(inner: W, packing: Packing) -> io::Result<Self> {
        Ok(match packing {
            Packing::Plain => Self::Plain(inner),
            Packing::Gzip => Self::Gzip(GzEncoder::new(inner, flate2::Compression::default())),
            Packing::Zstd => Self::Zstd(zstd::Encoder::new(inner, 1)?),
        })
    }

    /// Writes the end of the compressed stream and returns the inner writer.
    pub(crate) fn finish_stream(self) -> io::Result<W> {
        match self {
            Self::Plain(inner) => Ok(inner),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for CompressingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(inner) => inner.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(inner) => inner.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}

/// Returns a reader that decompresses. The first bytes decide, not the file's name.
pub(crate) fn open_decompressed(mut input: impl BufRead + 'static) -> io::Result<Box<dyn Read>> {
    Ok(match input.fill_buf()? {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(input)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::with_buffer(input)?),
        _ => Box::new(input),
    })
}

/// Whether an existing file may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replace {
    Never,
    Yes,
}

/// A file that gets its name only when it is complete.
pub(crate) struct Draft {
    packer: CompressingWriter<BufWriter<NamedTempFile>>,
    path: PathBuf,
    replace: Replace,
}

impl Draft {
    pub(crate) fn new(path: &Path, packing: Packing, replace: Replace) -> Result<Self> {
        if replace == Replace::Never && path.exists() {
            bail!("{} already exists; use `--force` to replace it", path.display());
        }
        // Renaming onto a device or a pipe would replace it by a file, for every user.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            bail!(
                "{} is not a regular file; use `-o -` to write to standard output",
                path.display()
            );
        }
        let attempt = || format!("could not write {}", path.display());
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        fs::create_dir_all(directory).with_context(attempt)?;
        let file = draft_in(directory).with_context(attempt)?;
        let packer = CompressingWriter::new(BufWriter::new(file), packing)?;
        Ok(Self { packer, path: path.to_owned(), replace })
    }

    /// Gives the file its name and returns its size in bytes.
    pub(crate) fn keep_draft(self) -> Result<u64> {
        let attempt = || format!("could not write {}", self.path.display());
        let buffer = self.packer.finish_stream().with_context(attempt)?;
        let file = buffer.into_inner().map_err(io::IntoInnerError::into_error);
        let file = file.with_context(attempt)?;
        file.as_file().sync_all().with_context(attempt)?;
        let size = file.as_file().metadata().with_context(attempt)?.len();
        let kept = match self.replace {
            Replace::Yes => file.persist(&self.path),
            Replace::Never => file.persist_noclobber(&self.path),
        };
        kept.map_err(|failure| failure.error).with_context(attempt)?;
        Ok(size)
    }
}

/// Creates a temporary file that only its owner may read, like the journal its contents come from.
fn draft_in(directory: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(".aj-").tempfile_in(directory)
}

/// Creates a file that only its owner may read.
#[cfg(feature = "parquet")]
pub(crate) fn create_private(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.packer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.packer.flush()
    }
}

/// An output split over several files: a new one starts at the first turn after `limit` bytes.
pub(crate) struct SplitOutput {
    path: PathBuf,
    packing: Packing,
    replace: Replace,
    limit: u64,
    current: Draft,
    written: u64,
    /// Complete files, with their sizes in bytes.
    pub(crate) done: Vec<(PathBuf, u64)>,
}

impl SplitOutput {
    /// Starts the first file; without a limit it is the only one.
    pub(crate) fn new(
        path: &Path,
        packing: Packing,
        replace: Replace,
        limit: Option<u64>,
    ) -> Result<Self> {
        let first = if limit.is_some() { numbered_path(path, 1) } else { path.to_owned() };
        Ok(Self {
            path: path.to_owned(),
            packing,
            replace,
            limit: limit.unwrap_or(u64::MAX),
            current: Draft::new(&first, packing, replace)?,
            written: 0,
            done: Vec::new(),
        })
    }

    /// Ends the last file and returns all files with their sizes.
    pub(crate) fn finish_files(mut self) -> Result<Vec<(PathBuf, u64)>> {
        let path = self.current.path.clone();
        self.done.push((path, self.current.keep_draft()?));
        Ok(self.done)
    }
}

impl Write for SplitOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.current.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.current.flush()
    }
}

impl ExportOutput for SplitOutput {
    fn begin_turn(&mut self) -> io::Result<bool> {
        if self.written < self.limit {
            return Ok(false);
        }
        let path = numbered_path(&self.path, self.done.len() + 2);
        let next = Draft::new(&path, self.packing, self.replace).map_err(io::Error::other)?;
        let last = std::mem::replace(&mut self.current, next);
        let path = last.path.clone();
        self.done.push((path, last.keep_draft().map_err(io::Error::other)?));
        self.written = 0;
        Ok(true)
    }
}

/// Inserts a number into a file name: `x.md` becomes `x-2.md`.
fn numbered_path(path: &Path, number: usize) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, suffix) = name
        .split_once('.')
        .map_or((&*name, String::new()), |(stem, rest)| (stem, format!(".{rest}")));
    path.with_file_name(format!("{stem}-{number}{suffix}"))
}

/// Returns a readable and unique file name for a session.
pub(crate) fn session_file_name(title: &str, entry: &Entry) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_stays_unless_asked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.md");
        let write = |text: &[u8], replace| -> Result<u64> {
            let mut draft = Draft::new(&path, Packing::Plain, replace)?;
            draft.write_all(text)?;
            draft.keep_draft()
        };
        assert_eq!(write(b"one", Replace::Never).unwrap(), 3);
        assert!(write(b"two", Replace::Never).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write(b"three", Replace::Yes).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
    }

    #[test]
    fn what_was_not_finished_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut draft =
            Draft::new(&directory.path().join("a.md"), Packing::Gzip, Replace::Never).unwrap();
        draft.write_all(b"half").unwrap();
        drop(draft);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn pieces_are_cut_at_turns_and_numbered() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.md");
        let mut pieces = SplitOutput::new(&path, Packing::Plain, Replace::Never, Some(5)).unwrap();
        for turn in ["one", "two", "three", "four"] {
            pieces.begin_turn().unwrap();
            pieces.write_all(turn.as_bytes()).unwrap();
        }
        let files: Vec<(String, u64)> = pieces
            .finish_files()
            .unwrap()
            .into_iter()
            .map(|(path, size)| (path.file_name().unwrap().to_string_lossy().into_owned(), size))
            .collect();
        let expected = [("a-1.md", 6), ("a-2.md", 5), ("a-3.md", 4)]
            .map(|(name, size)| (name.to_owned(), size));
        assert_eq!(files, expected);
    }

    #[test]
    fn names_tell_how_a_file_is_packed() {
        assert_eq!(Packing::split_suffix("x.md.gz"), ("x.md", Packing::Gzip));
        assert_eq!(Packing::split_suffix("ndjson.zst"), ("ndjson", Packing::Zstd));
        assert_eq!(Packing::split_suffix("html"), ("html", Packing::Plain));
    }
}
