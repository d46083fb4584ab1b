//! The archive: the bytes of the files that sources were read from, as they were before any
//! interpretation. A file is a chain of versions, a version is a list of chunks, and a chunk is
//! stored once. Chunks are compressed together in frames, and frames are appended to packs beside
//! the journal's database, which contains their catalogue.
//!
//! A file that only grows keeps its version: its chunks stay, and the bytes behind the last chunk
//! that ended because of its content are kept in small pieces in the database until they suffice
//! for further chunks. So each append costs little, and no pack contains bytes that nothing needs.

mod chunker;
mod collect;
mod pack;
mod read;
mod verify;
mod write;

pub(crate) use collect::collect_garbage;
pub(crate) use pack::PackWriter;
pub(crate) use read::{ArchiveReader, ArchivedCopies, copy_file};
pub(crate) use verify::find_damage;
pub(crate) use write::{ArchiveItem, ArchiveShare, FileArchiver, ReadExtent};

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::store::ChunkHash;

/// Returns the directory of the packs of a journal.
pub(crate) fn pack_directory(journal_dir: &Path) -> PathBuf {
    journal_dir.join("archive")
}

/// Returns the hash that names a chunk. It is seeded with the random identity of the journal, so
/// that nobody can prepare two contents with the same hash.
fn chunk_hash(bytes: &[u8], identity: i64) -> ChunkHash {
    xxh3_128_with_seed(bytes, identity.cast_unsigned())
}
