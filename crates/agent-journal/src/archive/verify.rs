//! Verifies the whole archive: the checksums of all frames, the hashes of all chunks, and that every
//! version has all its parts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::chunk_hash;
use super::pack::read_frame;
use crate::error::Result;
use crate::store::{FrameRow, Store};

/// Lists the files that the archive cannot give back as they were.
pub(crate) fn find_damage(directory: &Path, store: &Store) -> Result<BTreeSet<PathBuf>> {
    let identity = store.identity()?;
    let mut damaged: BTreeSet<PathBuf> = store.incomplete_files()?.into_iter().collect();
    for id in store.frame_ids()? {
        let Some(frame) = store.frame(id)? else { continue };
        if !is_sound(directory, store, &frame, identity)? {
            damaged.extend(store.files_with_frame(id)?);
        }
    }
    Ok(damaged)
}

fn is_sound(directory: &Path, store: &Store, frame: &FrameRow, identity: i64) -> Result<bool> {
    let Ok(content) = read_frame(directory, frame) else { return Ok(false) };
    let chunks = store.frame_chunks(frame.id)?;
    Ok(chunks.iter().all(|chunk| {
        let bytes = content.get(chunk.start as usize..(chunk.start + chunk.bytes) as usize);
        bytes.is_some_and(|bytes| chunk_hash(bytes, identity) == chunk.hash)
    }))
}
