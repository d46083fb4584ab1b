//! The file, open for searching.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use memmap2::{Mmap, MmapOptions};

use super::Shape;
use super::file::{Block, Commit};
use super::rows::Key;

/// Vectors, open for searching. What is committed later is not seen.
pub(crate) struct Vectors {
    pub(super) shape: Shape,
    file: Shared,
    pub(super) segments: Vec<Segment>,
    /// Row by row, once any is dead.
    dead: Vec<bool>,
    live: u64,
}

/// A block with its coarse part in memory.
pub(super) struct Segment {
    pub(super) block: Block,
    map: Mmap,
}

impl Vectors {
    /// Opens a file of a shape; `None` when it must be made anew.
    pub(crate) fn open(path: &Path, shape: &Shape) -> Option<Self> {
        Self::try_open(path, shape).ok().flatten()
    }

    fn try_open(path: &Path, shape: &Shape) -> io::Result<Option<Self>> {
        let mut file = File::open(path)?;
        let Some(commit) = Commit::read(&mut file, shape)? else { return Ok(None) };
        let Some(blocks) = Block::all(&mut file, shape, commit.length)? else { return Ok(None) };
        let mut segments = Vec::with_capacity(blocks.len());
        for block in blocks {
            segments.push(Segment { block, map: map(&file, block.coarse())? });
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

    /// The last change of the journal that can be found, told without looking at the vectors;
    /// `None` when the file must be made anew.
    pub(crate) fn generation(path: &Path, shape: &Shape) -> Option<i64> {
        let commit = Commit::read(&mut File::open(path).ok()?, shape).ok()??;
        Some(commit.generation)
    }

    /// How many vectors there are to be found.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    pub(super) fn is_dead(&self, row: usize) -> bool {
        self.dead.get(row) == Some(&true)
    }

    /// The segment of a row, and its place there.
    pub(super) fn locate(&self, row: usize) -> (&Segment, usize) {
        let after = self.segments.partition_point(|segment| segment.block.first <= row);
        let segment = &self.segments[after - 1];
        (segment, row - segment.block.first)
    }

    /// Reads the exact components of some rows of a block.
    pub(super) fn read_exact(
        &self,
        block: &Block,
        rows: Range<usize>,
        into: &mut Vec<u8>,
    ) -> io::Result<()> {
        let range = block.exact(rows);
        into.resize((range.end - range.start) as usize, 0);
        self.file.read_at(range.start, into)
    }
}

impl Segment {
    pub(super) fn keys(&self) -> &[[u8; super::rows::KEY]] {
        self.block.keys(&self.map)
    }

    pub(super) fn signs(&self) -> &[u8] {
        self.block.signs(&self.map)
    }

    pub(super) fn key(&self, at: usize) -> Key {
        Key::read(&self.keys()[at])
    }
}

/// A file that several threads read at places of their own.
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
    // SAFETY: see the reason above; other programs have no business in the journal's directory.
    unsafe {
        options.map(file)
    }
}
