//! Packs: files of bounded size to which frames are appended. A frame counts only once the
//! catalogue names it, so a pack that was torn by a crash loses nothing that was committed. The
//! next writer cuts it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::private::private_directory;
use crate::store::{FramePlace, FrameRow, Store};

/// Size above which a pack is complete, in bytes.
const MAX_PACK_BYTES: u64 = 32 << 20;

/// Beginning of the name of each pack, before its number.
const PACK_PREFIX: &str = "pack-";

/// Appends frames to packs. One process writes at a time.
pub(crate) struct PackWriter<'s> {
    directory: PathBuf,
    store: &'s Store,
    state: Option<PackState>,
    max_bytes: u64,
}

/// The packs as this process knows them since it wrote the first frame.
struct PackState {
    open: Option<OpenPack>,
    /// Number of the next pack.
    next: u64,
    /// End of the last frame in the pack before it, if frames may be appended there.
    last_end: Option<u64>,
    /// Size of all frames in bytes.
    stored_bytes: u64,
}

struct OpenPack {
    path: PathBuf,
    number: u64,
    file: io::BufWriter<File>,
    length: u64,
    is_dirty: bool,
}

fn pack_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{PACK_PREFIX}{number:06}"))
}

impl<'s> PackWriter<'s> {
    /// Prepares to append to the packs in a directory. Writes nothing yet.
    pub(crate) fn new(directory: &Path, store: &'s Store, max_bytes: u64) -> Self {
        Self { directory: directory.to_owned(), store, state: None, max_bytes }
    }

    /// Appends a frame. Returns its place, or `None` if the archive has its maximum size.
    pub(crate) fn append(&mut self, body: &[u8]) -> Result<Option<FramePlace>> {
        let bytes = body.len() as u64;
        if self.max_bytes < u64::MAX && self.state()?.stored_bytes + bytes > self.max_bytes {
            return Ok(None);
        }
        self.append_always(body).map(Some)
    }

    /// Lets the next frame begin a new pack.
    pub(super) fn start_new_pack(&mut self) -> Result<()> {
        self.state()?.last_end = None;
        Ok(())
    }

    /// Appends a frame, whatever the size of the archive.
    pub(super) fn append_always(&mut self, body: &[u8]) -> Result<FramePlace> {
        let bytes = body.len() as u64;
        let open = self.state()?.open.take();
        let mut open = match open {
            Some(open) if open.length + bytes <= MAX_PACK_BYTES => open,
            Some(mut full) => {
                full.sync()?;
                self.open_pack(bytes)?
            }
            None => self.open_pack(bytes)?,
        };
        open.file.write_all(body).map_err(Error::write_error(&open.path))?;
        open.is_dirty = true;
        let place = FramePlace::Pack { number: open.number, start: open.length, bytes };
        open.length += bytes;
        let state = self.state()?;
        state.stored_bytes += bytes;
        state.open = Some(open);
        Ok(place)
    }

    /// Makes all frames durable. The catalogue may name them after that.
    pub(crate) fn sync(&mut self) -> Result<()> {
        let open = self.state.as_mut().and_then(|state| state.open.as_mut());
        open.map_or(Ok(()), OpenPack::sync)
    }

    /// Returns the state of the packs. Before the first frame, deletes the packs that no frame of
    /// the catalogue is in: a process that was killed left them.
    fn state(&mut self) -> Result<&mut PackState> {
        if self.state.is_none() {
            private_directory(&self.directory)?;
            let last = self.store.last_pack_end()?;
            let stored_bytes = match self.max_bytes {
                u64::MAX => 0,
                _ => self.store.archive_totals()?.stored_bytes,
            };
            remove_unknown_packs(&self.directory, self.store)?;
            self.state = Some(PackState {
                open: None,
                next: last.map_or(0, |(number, _)| number + 1),
                last_end: last.map(|(_, end)| end),
                stored_bytes,
            });
        }
        self.state.as_mut().ok_or(Error::Stopped)
    }

    /// Opens the last pack if it has space, or creates the next one. Cuts what a process that was
    /// killed left behind the last frame.
    fn open_pack(&mut self, bytes: u64) -> Result<OpenPack> {
        let state = self.state()?;
        let (last_end, number) = (state.last_end.take(), state.next);
        if let Some(end) = last_end {
            let path = pack_path(&self.directory, number - 1);
            if end + bytes <= MAX_PACK_BYTES
                && let Ok(mut file) = OpenOptions::new().read(true).write(true).open(&path)
                && file.metadata().is_ok_and(|metadata| metadata.len() >= end)
            {
                file.set_len(end).map_err(Error::write_error(&path))?;
                file.seek(SeekFrom::Start(end)).map_err(Error::write_error(&path))?;
                return Ok(OpenPack::new(path, number - 1, file, end));
            }
        }
        self.state()?.next += 1;
        let path = pack_path(&self.directory, number);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(Error::write_error(&path))?;
        sync_directory(&self.directory)?;
        Ok(OpenPack::new(path, number, file, 0))
    }
}

impl OpenPack {
    fn new(path: PathBuf, number: u64, file: File, length: u64) -> Self {
        let file = io::BufWriter::with_capacity(1 << 16, file);
        Self { path, number, file, length, is_dirty: false }
    }

    fn sync(&mut self) -> Result<()> {
        if self.is_dirty {
            self.file.flush().map_err(Error::write_error(&self.path))?;
            self.file.get_ref().sync_data().map_err(Error::write_error(&self.path))?;
            self.is_dirty = false;
        }
        Ok(())
    }
}

/// Deletes the packs that no frame of the catalogue is in.
fn remove_unknown_packs(directory: &Path, store: &Store) -> Result<()> {
    let known = store.pack_numbers()?;
    let entries = fs::read_dir(directory).map_err(Error::read(directory))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PACK_PREFIX)?.parse().ok());
        if number.is_some_and(|number| !known.contains(&number)) {
            remove_pack(directory, number.unwrap_or_default())?;
        }
    }
    Ok(())
}

/// Deletes a pack that no frame of the catalogue is in.
#[expect(clippy::disallowed_methods, reason = "packs belong to the archive")]
pub(super) fn remove_pack(directory: &Path, number: u64) -> Result<()> {
    let path = pack_path(directory, number);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::write_error(&path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> Result<()> {
    let synced = File::open(directory).and_then(|open| open.sync_all());
    synced.map_err(Error::write_error(directory))
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> Result<()> {
    Ok(())
}

/// Reads and decompresses a frame. Fails with `InvalidData` if its checksum is wrong.
pub(super) fn read_frame(directory: &Path, frame: &FrameRow) -> io::Result<Vec<u8>> {
    let body = match &frame.place {
        FramePlace::Row(body) => body.clone(),
        FramePlace::Pack { number, start, bytes } => {
            let mut file = File::open(pack_path(directory, *number))?;
            file.seek(SeekFrom::Start(*start))?;
            let mut body = Vec::new();
            file.take(*bytes).read_to_end(&mut body)?;
            body
        }
    };
    if xxh3_64(&body) != frame.sum {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the archive is damaged"));
    }
    let raw = zstd::bulk::decompress(&body, frame.raw as usize)?;
    if raw.len() as u64 == frame.raw {
        return Ok(raw);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the archive is damaged"))
}
