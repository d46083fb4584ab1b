//! Deletes the chunks that no version needs, and returns their space.

use std::collections::BTreeSet;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::pack::{PackWriter, read_frame, remove_pack};
use crate::error::{Error, Result};
use crate::store::{FrameChunk, FramePlace, FrameRow, Store, Writer};

/// Compression level of frames that are written again.
const LEVEL: i32 = 3;

/// Packs that are no longer needed once the transaction is committed.
#[derive(Debug, Default)]
#[must_use = "the packs must be removed after the commit"]
pub(crate) struct ObsoletePacks(BTreeSet<u64>);

impl ObsoletePacks {
    /// Deletes the packs. The caller committed the transaction.
    pub(crate) fn remove(&self, directory: &Path) -> Result<()> {
        self.0.iter().try_for_each(|number| remove_pack(directory, *number))
    }
}

/// Removes all chunks that no version needs. A pack with such chunks is written again without them.
/// The caller commits `writer` and then removes the packs that this function returns.
pub(crate) fn collect_garbage(
    directory: &Path,
    store: &Store,
    writer: &Writer<'_>,
) -> Result<ObsoletePacks> {
    writer.delete_unused_chunks()?;
    let changed = store.frames_with_gaps()?;
    let mut obsolete = BTreeSet::new();
    for frame in &changed {
        if let FramePlace::Pack { number, .. } = frame.place {
            obsolete.insert(number);
        }
    }
    let mut packs = PackWriter::new(directory, store, u64::MAX);
    if !obsolete.is_empty() {
        packs.start_new_pack()?;
    }
    for frame in &changed {
        let content = read_frame(directory, frame).map_err(Error::read(directory))?;
        rewrite_frame(frame, &content, store, writer, &mut packs)?;
    }
    for number in &obsolete {
        for frame in store.frames_in_pack(*number)? {
            let content = read_frame(directory, &frame).map_err(Error::read(directory))?;
            rewrite_frame(&frame, &content, store, writer, &mut packs)?;
        }
    }
    packs.sync()?;
    Ok(ObsoletePacks(obsolete))
}

/// Writes the chunks of a frame that are still needed into a new frame.
fn rewrite_frame(
    frame: &FrameRow,
    content: &[u8],
    store: &Store,
    writer: &Writer<'_>,
    packs: &mut PackWriter<'_>,
) -> Result<()> {
    let old = store.frame_chunks(frame.id)?;
    writer.delete_frame(frame.id)?;
    let (mut raw, mut chunks) = (Vec::new(), Vec::new());
    for chunk in old {
        let range = chunk.start as usize..(chunk.start + chunk.bytes) as usize;
        let Some(bytes) = content.get(range) else { continue };
        chunks.push(FrameChunk { start: raw.len() as u64, ..chunk });
        raw.extend_from_slice(bytes);
    }
    if chunks.is_empty() {
        return Ok(());
    }
    let body = zstd::bulk::compress(&raw, LEVEL).expect("compressing into memory cannot fail");
    let sum = xxh3_64(&body);
    let place = match &frame.place {
        FramePlace::Row(_) => FramePlace::Row(body),
        FramePlace::Pack { .. } => packs.append_always(&body)?,
    };
    writer.move_chunks(&place, raw.len() as u64, sum, &chunks)
}
