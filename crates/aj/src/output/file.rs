//! Files that appear whole or not at all, compressed when their name says so.

use std::fs;
use std::io::{self, BufRead, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use agent_journal::export::Output;
use anyhow::{Context, Result, bail};
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use tempfile::NamedTempFile;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Packing {
    #[default]
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    /// Splits `x.md.gz` into the name and how it is packed.
    pub(crate) fn split(name: &str) -> (&str, Self) {
        match name.rsplit_once('.') {
            Some((rest, "gz")) => (rest, Self::Gzip),
            Some((rest, "zst" | "zstd")) => (rest, Self::Zstd),
            _ => (name, Self::Plain),
        }
    }

    /// What it adds to a file's name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
        }
    }
}

/// Anything bytes are packed into.
pub(crate) enum Packer<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Packer<W> {
    pub(crate) fn new(inner: W, packing: Packing) -> io::Result<Self> {
        Ok(match packing {
            Packing::Plain => Self::Plain(inner),
            Packing::Gzip => Self::Gzip(GzEncoder::new(inner, flate2::Compression::default())),
            Packing::Zstd => Self::Zstd(zstd::Encoder::new(inner, 1)?),
        })
    }

    /// Writes the end.
    pub(crate) fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(inner) => Ok(inner),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Packer<W> {
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

/// Unpacks what is packed; the first bytes tell, whatever the file is called.
pub(crate) fn unpacked(mut input: impl BufRead + 'static) -> io::Result<Box<dyn Read>> {
    Ok(match input.fill_buf()? {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(input)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::with_buffer(input)?),
        _ => Box::new(input),
    })
}

/// Whether a file that is there may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replace {
    Never,
    Yes,
}

/// A file on its way: nobody sees it before it is complete.
pub(crate) struct Draft {
    packer: Packer<BufWriter<NamedTempFile>>,
    path: PathBuf,
    replace: Replace,
}

impl Draft {
    pub(crate) fn new(path: &Path, packing: Packing, replace: Replace) -> Result<Self> {
        if replace == Replace::Never && path.exists() {
            bail!("{} is there already; `--force` replaces it", path.display());
        }
        // A device or a pipe would be replaced by the file, for everybody.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            bail!("{} is not a regular file; `-o -` writes to standard output", path.display());
        }
        let attempt = || format!("could not write {}", path.display());
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        fs::create_dir_all(directory).with_context(attempt)?;
        let file = draft_in(directory).with_context(attempt)?;
        let packer = Packer::new(BufWriter::new(file), packing)?;
        Ok(Self { packer, path: path.to_owned(), replace })
    }

    /// Gives the file its name; returns its size.
    pub(crate) fn keep(self) -> Result<u64> {
        let attempt = || format!("could not write {}", self.path.display());
        let buffer = self.packer.finish().with_context(attempt)?;
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

/// A file without a name that only its owner may read, as the journal it is taken from.
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

/// A session in several files, each at least so large, cut where a turn begins.
pub(crate) struct Pieces {
    path: PathBuf,
    packing: Packing,
    replace: Replace,
    limit: u64,
    current: Draft,
    written: u64,
    /// Files that are complete.
    pub(crate) done: Vec<(PathBuf, u64)>,
}

impl Pieces {
    /// Begins the first file; without a limit it is the only one.
    pub(crate) fn new(
        path: &Path,
        (packing, replace): (Packing, Replace),
        limit: Option<u64>,
    ) -> Result<Self> {
        let first = if limit.is_some() { numbered(path, 1) } else { path.to_owned() };
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

    /// Ends the last file; tells all of them with their sizes.
    pub(crate) fn finish(mut self) -> Result<Vec<(PathBuf, u64)>> {
        let path = self.current.path.clone();
        self.done.push((path, self.current.keep()?));
        Ok(self.done)
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.current.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.current.flush()
    }
}

impl Output for Pieces {
    fn turn(&mut self) -> io::Result<bool> {
        if self.written < self.limit {
            return Ok(false);
        }
        let path = numbered(&self.path, self.done.len() + 2);
        let next = Draft::new(&path, self.packing, self.replace).map_err(io::Error::other)?;
        let last = std::mem::replace(&mut self.current, next);
        let path = last.path.clone();
        self.done.push((path, last.keep().map_err(io::Error::other)?));
        self.written = 0;
        Ok(true)
    }
}

/// `x.md` becomes `x-2.md`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, suffix) = name
        .split_once('.')
        .map_or((&*name, String::new()), |(stem, rest)| (stem, format!(".{rest}")));
    path.with_file_name(format!("{stem}-{number}{suffix}"))
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
            draft.keep()
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
        let mut pieces = Pieces::new(&path, (Packing::Plain, Replace::Never), Some(5)).unwrap();
        for turn in ["one", "two", "three", "four"] {
            pieces.turn().unwrap();
            pieces.write_all(turn.as_bytes()).unwrap();
        }
        let files: Vec<(String, u64)> = pieces
            .finish()
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
        assert_eq!(Packing::split("x.md.gz"), ("x.md", Packing::Gzip));
        assert_eq!(Packing::split("ndjson.zst"), ("ndjson", Packing::Zstd));
        assert_eq!(Packing::split("html"), ("html", Packing::Plain));
    }
}
