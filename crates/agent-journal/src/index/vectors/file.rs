//! The file format, little-endian: a header page, then blocks.
//!
//! The page begins with the layout. Two slots behind it alternate; each stores the committed length
//! of the file and the generation of the journal. A slot is written after its blocks are on the
//! disk, so the newest intact slot is valid, and everything beyond its length is a torn tail.
//! Committed bytes never change: a file that is mostly garbage is replaced by another.
//!
//! A block holds the numbers of earlier rows that are dead, and rows of its own column by column,
//! so that the coarse pass reads nothing but keys and signs. Only these are mapped; the exact
//! components of the few best rows are read from the file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use super::rows::{KEY, VectorRows, signs};
use super::{Precision, VectorShape};

/// The version of the file format; a file with another version is rebuilt.
const VERSION: u32 = 3;

const MAGIC: &[u8; 8] = b"AJVECTOR";
const BLOCK_MAGIC: &[u8; 8] = b"AJ ROWS\0";

/// The size of the header page, after which the blocks begin.
pub(super) const PAGE: usize = 4096;

/// The offsets of the slots: in separate sectors, because a sector is written completely or not at
/// all.
const SLOTS: [usize; 2] = [1024, 2048];
const SLOT: usize = 48;

const HEADER: usize = 32;

/// The alignment of signs: one cache line of the processor.
const LINE: usize = 64;

/// The committed state of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VectorCommit {
    /// The number of the commit.
    pub(super) sequence: u64,
    /// The last change of the journal in the file.
    pub(super) generation: i64,
    /// The committed length of the file in bytes.
    pub(super) length: u64,
    /// The number of rows, and the number of dead ones among them.
    pub(super) rows: u64,
    pub(super) dead: u64,
}

/// The location and layout of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct VectorBlock {
    /// The offset of the block in the file.
    at: u64,
    /// The number of its first row.
    pub(super) first: usize,
    /// The number of its rows.
    pub(super) rows: usize,
    dead: usize,
    dimensions: usize,
    width: usize,
}

impl VectorCommit {
    /// The commit of an empty file.
    pub(super) const FIRST: Self =
        Self { sequence: 1, generation: 0, length: PAGE as u64, rows: 0, dead: 0 };

    fn encode(&self) -> [u8; SLOT] {
        let mut bytes = [0; SLOT];
        let numbers = [self.sequence, self.generation as u64, self.length, self.rows, self.dead];
        for (place, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        let sum = xxh3_64(&bytes[..SLOT - 8]);
        bytes[SLOT - 8..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let [sequence, generation, length, rows, dead, sum] = numbers(bytes);
        let commit = Self { sequence, generation: generation as i64, length, rows, dead };
        (sum == xxh3_64(&bytes[..SLOT - 8])).then_some(commit)
    }

    /// Reads the newest intact commit; returns `None` when the file has another layout or no such
    /// commit.
    pub(super) fn read(file: &mut File, shape: &VectorShape) -> io::Result<Option<Self>> {
        let size = file.metadata()?.len();
        if size < PAGE as u64 {
            return Ok(None);
        }
        let mut page = [0; PAGE];
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut page)?;
        if !page.starts_with(&title(shape)) {
            return Ok(None);
        }
        let slots = SLOTS.iter().filter_map(|at| Self::decode(&page[*at..at + SLOT]));
        let whole = slots.filter(|slot| (PAGE as u64..=size).contains(&slot.length));
        Ok(whole.max_by_key(|slot| slot.sequence))
    }

    /// Writes the commit into its slot.
    pub(super) fn write(&self, file: &mut File) -> io::Result<()> {
        file.seek(SeekFrom::Start(SLOTS[(self.sequence % 2) as usize] as u64))?;
        file.write_all(&self.encode())
    }

    /// Cuts off everything written after this commit. The other slot is cleared: a later commit
    /// whose blocks were lost must not become valid when the file has grown again.
    pub(super) fn restore(&self, file: &mut File) -> io::Result<()> {
        file.seek(SeekFrom::Start(SLOTS[((self.sequence + 1) % 2) as usize] as u64))?;
        file.write_all(&[0; SLOT])?;
        file.set_len(self.length)
    }
}

/// Writes the header page of an empty file.
pub(super) fn begin(file: &mut File, shape: &VectorShape) -> io::Result<()> {
    let mut page = [0; PAGE];
    let title = title(shape);
    page[..title.len()].copy_from_slice(&title);
    file.write_all(&page)
}

/// Returns the first bytes of a file with this layout.
fn title(shape: &VectorShape) -> Vec<u8> {
    let mut title = MAGIC.to_vec();
    title.extend_from_slice(&VERSION.to_le_bytes());
    title.extend_from_slice(&(shape.dimensions as u32).to_le_bytes());
    title.extend_from_slice(&(shape.precision.width() as u32).to_le_bytes());
    title.extend_from_slice(&shape.journal.to_le_bytes());
    // A name of any length has a hash of eight bytes; the name itself is for human readers.
    title.extend_from_slice(&xxh3_64(shape.embedder.as_bytes()).to_le_bytes());
    title.extend(shape.embedder.bytes().take(256).chain([0]));
    title
}

impl VectorBlock {
    /// Lists the blocks of a file up to a length; returns `None` when it is damaged.
    pub(super) fn all(
        file: &mut File,
        shape: &VectorShape,
        length: u64,
    ) -> io::Result<Option<Vec<Self>>> {
        let (mut blocks, mut at, mut first) = (Vec::new(), PAGE as u64, 0);
        while at < length {
            let mut header = [0; HEADER];
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(&mut header)?;
            let block = Self::decode(&header, at, shape);
            let Some(block) = block.filter(|block| block.first == first && block.end() <= length)
            else {
                return Ok(None);
            };
            first += block.rows;
            at = block.end();
            blocks.push(block);
        }
        Ok(Some(blocks))
    }

    fn decode(header: &[u8; HEADER], at: u64, shape: &VectorShape) -> Option<Self> {
        let [_, counts, first, sum] = numbers(header);
        if header[..8] != *BLOCK_MAGIC || sum != xxh3_64(&header[..24]) {
            return None;
        }
        Some(Self {
            at,
            first: first as usize,
            rows: counts as u32 as usize,
            dead: (counts >> 32) as usize,
            dimensions: shape.dimensions,
            width: shape.precision.width(),
        })
    }

    /// Writes a block whose first row has the number `first`; returns its size.
    pub(super) fn write(
        file: &mut impl Write,
        first: usize,
        rows: &VectorRows,
        dead: &[u32],
    ) -> io::Result<u64> {
        let mut bytes = Vec::with_capacity(HEADER + dead.len() * 4 + rows.keys.len());
        bytes.extend_from_slice(BLOCK_MAGIC);
        bytes.extend_from_slice(&(rows.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(dead.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(first as u64).to_le_bytes());
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        bytes.extend(dead.iter().flat_map(|row| row.to_le_bytes()));
        bytes.extend_from_slice(&rows.keys);
        bytes.resize(bytes.len().next_multiple_of(LINE), 0);
        file.write_all(&bytes)?;
        file.write_all(&rows.signs)?;
        file.write_all(&rows.exact)?;
        let body = rows.signs.len() + rows.exact.len();
        let padding = body.next_multiple_of(LINE) - body;
        file.write_all(&[0; LINE][..padding])?;
        Ok((bytes.len() + body + padding) as u64)
    }

    /// Returns the part of the file that the coarse pass reads, from the dead rows to the signs.
    pub(super) fn coarse(&self) -> Range<u64> {
        self.at + HEADER as u64..self.at + self.exact_at() as u64
    }

    /// Returns the part of the file with the exact components of some rows.
    pub(super) fn exact(&self, rows: Range<usize>) -> Range<u64> {
        let size = self.dimensions * self.width;
        let start = self.at + self.exact_at() as u64;
        start + (rows.start * size) as u64..start + (rows.end * size) as u64
    }

    fn end(&self) -> u64 {
        let body = self.rows * (signs(self.dimensions) + self.dimensions * self.width);
        self.at + (self.signs_at() + body.next_multiple_of(LINE)) as u64
    }

    // Offsets from the beginning of the block.

    fn keys_at(&self) -> usize {
        HEADER + self.dead * 4
    }

    fn signs_at(&self) -> usize {
        (self.keys_at() + self.rows * KEY).next_multiple_of(LINE)
    }

    fn exact_at(&self) -> usize {
        self.signs_at() + self.rows * signs(self.dimensions)
    }
}

/// Accessors for the coarse part of a block.
impl VectorBlock {
    /// Returns the numbers of earlier rows that are dead.
    pub(super) fn dead<'a>(&self, coarse: &'a [u8]) -> impl Iterator<Item = usize> + use<'a> {
        let numbers = coarse[..self.dead * 4].as_chunks().0;
        numbers.iter().map(|number| u32::from_le_bytes(*number) as usize)
    }

    pub(super) fn keys<'a>(&self, coarse: &'a [u8]) -> &'a [[u8; KEY]] {
        coarse[self.keys_at() - HEADER..][..self.rows * KEY].as_chunks().0
    }

    /// Returns the signs, row after row.
    pub(super) fn signs<'a>(&self, coarse: &'a [u8]) -> &'a [u8] {
        &coarse[self.signs_at() - HEADER..]
    }
}

fn numbers<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let chunks = bytes.as_chunks().0;
    std::array::from_fn(|at| u64::from_le_bytes(chunks[at]))
}

impl Precision {
    /// Returns the dot product of a row with a vector.
    pub(super) fn dot(self, row: &[u8], other: &[f32]) -> f32 {
        match self {
            Self::F16 => {
                dot(row.as_chunks().0, other, |bytes| super::rows::whole(u16::from_le_bytes(bytes)))
            }
            Self::F32 => dot(row.as_chunks().0, other, f32::from_le_bytes),
        }
    }
}

/// Computes a dot product with several independent sums: a single sum would depend on its previous
/// value at every step.
fn dot<const N: usize>(row: &[[u8; N]], other: &[f32], value: impl Fn([u8; N]) -> f32) -> f32 {
    const LANES: usize = 8;
    let (rows, row) = row.as_chunks::<LANES>();
    let (others, other) = other.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (row, other) in rows.iter().zip(others) {
        for lane in 0..LANES {
            sums[lane] += value(row[lane]) * other[lane];
        }
    }
    let rest = row.iter().zip(other).map(|(bytes, other)| value(*bytes) * other);
    sums.iter().sum::<f32>() + rest.sum::<f32>()
}
