//! Appends to the vector file. Only one process does so at a time: the one that holds the journal's
//! lock.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::VectorShape;
use super::file::{self, VectorBlock, VectorCommit};
use super::reader::{VectorSegment, Vectors};
use super::rows::{KEY, VectorKey, VectorRows, WHOLE};
use crate::error::{Error, Result};

/// The number of rows of a full block: few enough to stay in memory, enough for contiguous signs.
const BLOCK: usize = 4096;

/// The minimum number of dead rows for which the file is rewritten.
const WORTHWHILE: u64 = 1024;

/// The vector file, open for writing. Readers see nothing before a commit.
pub(crate) struct VectorWriter {
    path: PathBuf,
    shape: VectorShape,
    file: File,
    commit: VectorCommit,
    /// The number of blocks in the file.
    blocks: usize,
    /// The recording and position of every row, including pending ones.
    places: Vec<(u64, u32)>,
    dead: Vec<bool>,
    /// Rows that are not yet in the file.
    waiting: VectorRows,
    /// Pending removals, by recording.
    removals: HashMap<u64, Vec<Removal>>,
}

/// Rows of one recording to remove: those before a row number, with these positions.
struct Removal {
    before: usize,
    positions: RangeInclusive<u32>,
}

impl VectorWriter {
    /// Opens a file for writing, and rebuilds it when it is missing, damaged or of another layout.
    /// Returns the generation of the journal it contains.
    pub(crate) fn open(path: &Path, shape: &VectorShape) -> Result<(Self, i64)> {
        if let Some(vectors) = Vectors::open(path, shape)
            && let Ok(mut file) = OpenOptions::new().read(true).write(true).open(path)
            && let Ok(Some(commit)) = VectorCommit::read(&mut file, shape)
        {
            commit.restore(&mut file).map_err(Error::write_error(path))?;
            return Ok((Self::new(path, shape, file, commit, Some(&vectors)), commit.generation));
        }
        let file = create(path, shape)?.persist(path).map_err(|error| error.error);
        let file = file.map_err(Error::write_error(path))?;
        Ok((Self::new(path, shape, file, VectorCommit::FIRST, None), 0))
    }

    fn new(
        path: &Path,
        shape: &VectorShape,
        file: File,
        commit: VectorCommit,
        vectors: Option<&Vectors>,
    ) -> Self {
        let (mut places, mut dead, mut blocks) = (Vec::new(), Vec::new(), 0);
        if let Some(vectors) = vectors {
            places.extend(vectors.segments.iter().flat_map(VectorSegment::keys).map(place));
            dead.extend((0..places.len()).map(|row| vectors.is_dead(row)));
            blocks = vectors.segments.len();
        }
        Self {
            path: path.to_owned(),
            shape: shape.clone(),
            file,
            commit,
            blocks,
            places,
            dead,
            waiting: VectorRows::new(shape),
            removals: HashMap::new(),
        }
    }

    /// Deletes a vector file.
    #[expect(clippy::disallowed_methods, reason = "the index owns its files")]
    pub(crate) fn discard(path: &Path) -> Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::write_error(path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Appends rows.
    pub(crate) fn append(&mut self, mut rows: VectorRows) -> Result<()> {
        self.places.extend(rows.keys.as_chunks().0.iter().map(place));
        self.waiting.take(&mut rows);
        if self.waiting.len() < BLOCK {
            return Ok(());
        }
        self.flush(&[]).map_err(Error::write_error(&self.path))
    }

    /// Removes a recording completely.
    pub(crate) fn remove(&mut self, recording: u64) {
        self.forget(recording, 0..=WHOLE);
    }

    /// Removes the messages of a recording from a position on.
    pub(crate) fn truncate(&mut self, recording: u64, from: u64) {
        self.forget(recording, u32::try_from(from).unwrap_or(WHOLE)..=WHOLE - 1);
    }

    /// Removes the texts about a whole recording.
    pub(crate) fn remove_whole(&mut self, recording: u64) {
        self.forget(recording, WHOLE..=WHOLE);
    }

    fn forget(&mut self, recording: u64, positions: RangeInclusive<u32>) {
        let before = self.places.len();
        self.removals.entry(recording).or_default().push(Removal { before, positions });
    }

    /// Makes everything since the last commit visible, as of a generation of the journal.
    pub(crate) fn commit(&mut self, generation: i64) -> Result<()> {
        self.write_commit(generation).map_err(Error::write_error(&self.path))?;
        let VectorCommit { rows, dead, .. } = self.commit;
        let scattered = self.blocks > 64 + self.places.len() / (BLOCK / 16);
        if (dead > rows / 2 && dead >= WORTHWHILE) || scattered {
            self.compact()?;
        }
        Ok(())
    }

    fn write_commit(&mut self, generation: i64) -> io::Result<()> {
        let dying = self.bury();
        if !self.waiting.is_empty() || !dying.is_empty() {
            self.flush(&dying)?;
        }
        self.file.sync_data()?;
        let VectorCommit { sequence, length, dead, .. } = self.commit;
        let (rows, dead) = (self.places.len() as u64, dead + dying.len() as u64);
        let commit = VectorCommit { sequence: sequence + 1, generation, length, rows, dead };
        commit.write(&mut self.file)?;
        self.commit = commit;
        Ok(())
    }

    /// Marks the rows that were removed since the last commit as dead and returns them.
    fn bury(&mut self) -> Vec<u32> {
        self.dead.resize(self.places.len(), false);
        let removals = std::mem::take(&mut self.removals);
        let mut dying = Vec::new();
        if removals.is_empty() {
            return dying;
        }
        for (row, (recording, position)) in self.places.iter().enumerate() {
            let meets = |one: &Removal| row < one.before && one.positions.contains(position);
            let removals = removals.get(recording).map_or(&[][..], Vec::as_slice);
            if !self.dead[row] && removals.iter().any(meets) {
                self.dead[row] = true;
                dying.push(row as u32);
            }
        }
        dying
    }

    /// Writes the pending rows as a block behind the last one. They become valid with a commit.
    fn flush(&mut self, dying: &[u32]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.commit.length))?;
        let first = self.places.len() - self.waiting.len();
        let mut buffered = BufWriter::new(&mut self.file);
        let size = VectorBlock::write(&mut buffered, first, &self.waiting, dying)?;
        buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
        self.commit.length += size;
        self.blocks += 1;
        self.waiting.clear();
        Ok(())
    }

    /// Replaces the file by one without the dead rows, in full blocks.
    fn compact(&mut self) -> Result<()> {
        let Some(vectors) = Vectors::open(&self.path, &self.shape) else { return Ok(()) };
        let mut fresh = create(&self.path, &self.shape)?;
        let VectorCommit { generation, .. } = self.commit;
        let file = fresh.reopen().map_err(Error::write_error(&self.path))?;
        let mut copy = Self::new(&self.path, &self.shape, file, VectorCommit::FIRST, None);
        let mut exact = Vec::new();
        for segment in &vectors.segments {
            let (first, count) = (segment.block.first, segment.block.rows);
            let read = vectors.read_exact(&segment.block, 0..count, &mut exact);
            read.map_err(Error::read(&self.path))?;
            let mut rows = VectorRows::new(&self.shape);
            let live = (0..count).filter(|at| !vectors.is_dead(first + at));
            live.for_each(|at| rows.copy(segment, &exact, at));
            copy.append(rows)?;
        }
        copy.write_commit(generation).map_err(Error::write_error(&self.path))?;
        drop(vectors);
        fresh.as_file_mut().sync_all().map_err(Error::write_error(&self.path))?;
        // If an open file cannot be replaced, the old one stays in use until all readers are
        // closed.
        if fresh.persist(&self.path).is_ok() {
            *self = copy;
        }
        Ok(())
    }
}

/// Returns the recording and position of a key.
fn place(key: &[u8; KEY]) -> (u64, u32) {
    let (recording, rest) = VectorKey::read_place(key);
    (recording, rest as u32)
}

/// Creates an empty file under a temporary name.
fn create(path: &Path, shape: &VectorShape) -> Result<NamedTempFile> {
    let directory = path.parent().unwrap_or(Path::new("."));
    crate::private::private_directory(directory)?;
    // The name is always the same: a file left by a crash is found and deleted.
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    VectorWriter::discard(&directory.join(&name))?;
    let write = || {
        let builder = tempfile::Builder::new().prefix(&name).rand_bytes(0).tempfile_in(directory);
        let mut file = builder?;
        file::begin(file.as_file_mut(), shape)?;
        VectorCommit::FIRST.write(file.as_file_mut())?;
        Ok(file)
    };
    write().map_err(Error::write_error(path))
}
