//! The vector file, open for searching.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use memmap2::{Mmap, MmapOptions};

use super::VectorShape;
use super::file::{VectorBlock, VectorCommit};
use super::rows::VectorKey;

/// Vectors, open for searching. Later commits are not visible.
pub(crate) struct Vectors {
    pub(super) shape: VectorShape,
    file: Shared,
    pub(super) segments: Vec<VectorSegment>,
    /// Whether each row is dead; empty if no row is.
    dead: Vec<bool>,
    live: u64,
}

/// A block with its coarse part mapped into memory.
pub(super) struct VectorSegment {
    pub(super) block: VectorBlock,
    map: Mmap,
}

impl Vectors {
    /// Opens a file of a layout; returns `None` when it must be rebuilt.
    pub(crate) fn open(path: &Path, shape: &VectorShape) -> Option<Self> {
        Self::try_open(path, shape).ok().flatten()
    }

    fn try_open(path: &Path, shape: &VectorShape) -> io::Result<Option<Self>> {
        let mut file = File::open(path)?;
        let Some(commit) = VectorCommit::read(&mut file, shape)? else { return Ok(None) };
        let Some(blocks) = VectorBlock::all(&mut file, shape, commit.length)? else {
            return Ok(None);
        };
        let mut segments = Vec::with_capacity(blocks.len());
        for block in blocks {
            segments.push(VectorSegment { block, map: map(&file, block.coarse())? });
        }
        let rows = segments.last().map_or(0, |last| last.block.first + last.block.rows);
        if rows as u64 != commit.rows {
            return Ok(None);
        }
        let mut dead = vec![false; if commit.dead > 0 { rows } else { 0 }];
        for row in segments.iter().flat_map(|segment| segment.block.dead(&segment.map)) {
            let Some(dead) = dead.get_mut(row) else { return Ok(None) };
            *dead = true;
        }
        let live = (rows as u64).saturating_sub(commit.dead);
        Ok(Some(Self { shape: shape.clone(), file: Shared::new(file), segments, dead, live }))
    }

    /// Returns the last change of the journal in the file, without reading the vectors; `None` when
    /// the file must be rebuilt.
    pub(crate) fn generation(path: &Path, shape: &VectorShape) -> Option<i64> {
        let commit = VectorCommit::read(&mut File::open(path).ok()?, shape).ok()??;
        Some(commit.generation)
    }

    /// Returns the number of searchable vectors.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    pub(super) fn is_dead(&self, row: usize) -> bool {
        self.dead.get(row) == Some(&true)
    }

    /// Returns the segment of a row, and its index there.
    pub(super) fn locate(&self, row: usize) -> (&VectorSegment, usize) {
        let after = self.segments.partition_point(|segment| segment.block.first <= row);
        let segment = &self.segments[after - 1];
        (segment, row - segment.block.first)
    }

    /// Reads the exact components of some rows of a block.
    pub(super) fn read_exact(
        &self,
        block: &VectorBlock,
        rows: Range<usize>,
        into: &mut Vec<u8>,
    ) -> io::Result<()> {
        let range = block.exact(rows);
        into.resize((range.end - range.start) as usize, 0);
        self.file.read_at(range.start, into)
    }
}

impl VectorSegment {
    pub(super) fn keys(&self) -> &[[u8; super::rows::KEY]] {
        self.block.keys(&self.map)
    }

    pub(super) fn signs(&self) -> &[u8] {
        self.block.signs(&self.map)
    }

    pub(super) fn key(&self, at: usize) -> VectorKey {
        VectorKey::read(&self.keys()[at])
    }
}

/// A file that several threads read at independent offsets.
#[cfg(unix)]
struct Shared(File);

#[cfg(unix)]
impl Shared {
    fn new(file: File) -> Self {
        Self(file)
    }

    fn read_at(&self, start: u64, into: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.0, into, start)
    }
}

#[cfg(not(unix))]
struct Shared(std::sync::Mutex<File>);

#[cfg(not(unix))]
impl Shared {
    fn new(file: File) -> Self {
        Self(std::sync::Mutex::new(file))
    }

    fn read_at(&self, start: u64, into: &mut [u8]) -> io::Result<()> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(into)
    }
}

fn map(file: &File, range: Range<u64>) -> io::Result<Mmap> {
    let mut options = MmapOptions::new();
    options.offset(range.start).len((range.end - range.start) as usize);
    #[expect(
        unsafe_code,
        reason = "committed bytes are never changed nor cut off: the writer appends behind them \
                  and replaces the file by another"
    )]
    // SAFETY: see the reason above; other programs must not write to the journal's directory.
    unsafe {
        options.map(file)
    }
}
