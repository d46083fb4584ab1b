//! The file, mapped into memory for searching.

use std::fs::File;
use std::path::Path;

use memmap2::{Mmap, MmapOptions};

use super::file::{Block, Commit, PAGE};
use super::rows::Key;
use super::{Precision, Shape};

/// Vectors, open for searching. What is committed later is not seen.
pub(crate) struct Vectors {
    map: Option<Mmap>,
    pub(super) blocks: Vec<Block>,
    /// Row by row, once any is dead.
    dead: Vec<bool>,
    pub(super) dimensions: usize,
    pub(super) precision: Precision,
    commit: Commit,
}

impl Vectors {
    /// Opens a file of a shape; `None` when it must be made anew.
    pub(crate) fn open(path: &Path, shape: &Shape) -> Option<Self> {
        let mut file = File::open(path).ok()?;
        let commit = Commit::read(&mut file, shape).ok()??;
        let map = map(&file, commit.length)?;
        let data = map.as_deref().unwrap_or_default();
        let blocks = Block::all(data, shape)?;
        let rows: usize = blocks.iter().map(|block| block.rows).sum();
        if rows as u64 != commit.rows {
            return None;
        }
        let mut dead = vec![false; if commit.dead > 0 { rows } else { 0 }];
        for row in blocks.iter().flat_map(|block| block.dead(data)) {
            *dead.get_mut(row)? = true;
        }
        let (dimensions, precision) = (shape.dimensions, shape.precision);
        Some(Self { map, blocks, dead, dimensions, precision, commit })
    }

    /// The last change of the journal that can be found, told without mapping the file; `None`
    /// when it must be made anew.
    pub(crate) fn generation(path: &Path, shape: &Shape) -> Option<i64> {
        let commit = Commit::read(&mut File::open(path).ok()?, shape).ok()??;
        Some(commit.generation)
    }

    /// How many vectors there are to be found.
    pub(crate) fn live(&self) -> u64 {
        self.commit.rows - self.commit.dead
    }

    pub(super) fn data(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }

    /// Which rows are dead; may be shorter than the rows.
    pub(super) fn dead(&self) -> &[bool] {
        &self.dead
    }

    pub(super) fn is_dead(&self, row: usize) -> bool {
        self.dead.get(row) == Some(&true)
    }

    /// The block of a row, and its place there.
    pub(super) fn locate(&self, row: usize) -> (&Block, usize) {
        let after = self.blocks.partition_point(|block| block.first <= row);
        let block = &self.blocks[after - 1];
        (block, row - block.first)
    }

    pub(super) fn key(&self, row: usize) -> Key {
        let (block, at) = self.locate(row);
        Key::read(&block.keys(self.data())[at])
    }
}

/// Maps the blocks of a file; nothing is mapped when there are none. The outer `None` is failure.
#[expect(clippy::option_option, reason = "an empty file is no failure")]
fn map(file: &File, length: u64) -> Option<Option<Mmap>> {
    let length = (length as usize).checked_sub(PAGE)?;
    if length == 0 {
        return Some(None);
    }
    #[expect(
        unsafe_code,
        reason = "committed bytes are never changed nor cut off: the writer appends behind them \
                  and replaces the file by another; the page that changes is not mapped"
    )]
    // SAFETY: see the reason above; other programs have no business in the journal's directory.
    let map = unsafe { MmapOptions::new().offset(PAGE as u64).len(length).map(file) };
    map.ok().map(Some)
}
