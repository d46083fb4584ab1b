//! Archives files on the reading threads: finds the new chunks of each file and compresses them, so
//! that little work is left for the writer.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::{Xxh3, xxh3_64};
use zstd::zstd_safe::{CCtx, CParameter, compress_bound};

use super::chunk_hash;
use super::chunker::{self, chunk_length};
use crate::connectors::formats::source_file::{FileRead, FileReads};
use crate::error::Result;
use crate::model::{Stamp, Timestamp};
use crate::store::{ChunkHash, FrameChunk, LatestVersion, PartRow, Store, VersionRow, Writer};

/// Size of a frame before compression, in bytes. Frames of a quarter of the size take 4 % more
/// space.
const FRAME_BYTES: usize = 2 << 20;

/// Size of the bytes behind the last chunk of a file that suffice for further chunks.
const MAX_PIECES_BYTES: u64 = 64 << 10;

/// Number of bytes at the end of a version that its guard hashes.
const GUARD_BYTES: usize = 4 << 10;

/// Size of one read, in bytes.
const STEP_BYTES: usize = 256 << 10;

/// Parameters of the compression: the fastest level with a larger table and window, which takes 5 %
/// less space for the same time.
const LEVEL: i32 = 1;
const WINDOW_LOG: u32 = 21;
const HASH_LOG: u32 = 17;

/// Data for the writer.
#[derive(Debug)]
pub(crate) enum ArchiveItem {
    /// Chunks that were compressed together.
    Frame(Frame),
    /// A version of a file. Its chunks are in the archive or in an earlier frame.
    Version(VersionRow),
    /// A source was read from a file that did not change.
    Link {
        /// Row id of the source.
        source: i64,
        /// Path of the file.
        path: PathBuf,
    },
    /// All files of a source are in the archive.
    Source {
        /// Row id of the source.
        source: i64,
        /// State of the source.
        stamp: Stamp,
    },
}

/// Chunks that were compressed together.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) body: Vec<u8>,
    /// Size before compression in bytes.
    pub(crate) raw: u64,
    pub(crate) sum: u64,
    pub(crate) chunks: Vec<FrameChunk>,
    /// Whether the frame is one of the pieces at the end of a file, which belong in the database.
    pub(crate) is_piece: bool,
}

impl Frame {
    /// Returns whether the archive lacks one of the chunks.
    pub(crate) fn is_new(&self, writer: &Writer<'_>) -> Result<bool> {
        for chunk in &self.chunks {
            if !writer.has_archive_chunk(chunk.hash)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The part of a source that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadExtent {
    /// The source was read to its end.
    Complete,
    /// The source was read as far as the observed reads show.
    Partial,
}

/// The state that the reading threads share until the next commit.
#[derive(Debug)]
pub(crate) struct ArchiveShare {
    identity: i64,
    /// Whether no chunk was committed yet.
    is_empty: bool,
    /// Chunks whose frames were sent to the writer.
    sent: Mutex<HashSet<ChunkHash>>,
    /// Files that one of the threads archives.
    taken: Mutex<HashSet<PathBuf>>,
}

impl ArchiveShare {
    pub(crate) fn new(store: &Store) -> Result<Self> {
        Ok(Self {
            identity: store.identity()?,
            is_empty: store.is_archive_empty()?,
            sent: Mutex::default(),
            taken: Mutex::default(),
        })
    }

    fn is_sent(&self, hash: ChunkHash) -> bool {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).contains(&hash)
    }

    /// Returns whether no other thread archives the file.
    fn take_file(&self, path: &Path) -> bool {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned())
    }
}

/// Archives files on one thread.
pub(crate) struct FileArchiver<'a> {
    share: &'a ArchiveShare,
    store: &'a Store,
    seen_at: Timestamp,
    packer: CCtx<'static>,
    /// Content of the next frame, and its chunks.
    raw: Vec<u8>,
    chunks: Vec<FrameChunk>,
    pending_hashes: HashSet<ChunkHash>,
    /// Versions that may need the next frame.
    pending: Vec<ArchiveItem>,
}

/// A function that sends data to the writer.
pub(crate) type SendItem<'s> = &'s mut dyn FnMut(ArchiveItem) -> Result<()>;

/// The result of archiving a file.
enum FileOutcome {
    /// The archive has the file as it was read.
    Archived,
    /// The file changed or disappeared meanwhile, or is not a regular file.
    Missed,
}

/// The plan for one file.
struct FilePlan {
    latest: Option<LatestVersion>,
    /// Offset of the first byte of the new chunks.
    from: u64,
    /// Offset after the last byte.
    end: u64,
    kind: PlanKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PlanKind {
    /// The whole file is a version.
    Whole,
    /// The version grew, and its end is divided into chunks.
    Chunks,
    /// The version grew by a small piece.
    Piece,
}

impl<'a> FileArchiver<'a> {
    pub(crate) fn new(share: &'a ArchiveShare, store: &'a Store, seen_at: Timestamp) -> Self {
        let mut packer = CCtx::create();
        for parameter in [
            CParameter::CompressionLevel(LEVEL),
            CParameter::WindowLog(WINDOW_LOG),
            CParameter::HashLog(HASH_LOG),
        ] {
            packer.set_parameter(parameter).expect("the parameters are within their bounds");
        }
        Self {
            share,
            store,
            seen_at,
            packer,
            raw: Vec::new(),
            chunks: Vec::new(),
            pending_hashes: HashSet::new(),
            pending: Vec::new(),
        }
    }

    /// Archives the files that a source was read from.
    pub(crate) fn archive_source(
        &mut self,
        source: i64,
        stamp: Stamp,
        reads: &FileReads,
        extent: ReadExtent,
        send: SendItem<'_>,
    ) -> Result<()> {
        let mut is_complete = extent == ReadExtent::Complete && !reads.is_empty();
        for (path, read) in reads {
            if read.is_database {
                is_complete = false;
                continue;
            }
            if !self.share.take_file(path) {
                self.pending.push(ArchiveItem::Link { source, path: path.clone() });
                continue;
            }
            let outcome = self.archive_file(source, path, *read, extent, send)?;
            is_complete &= matches!(outcome, FileOutcome::Archived);
        }
        if is_complete {
            self.pending.push(ArchiveItem::Source { source, stamp });
        }
        if self.raw.is_empty() { self.flush(send) } else { Ok(()) }
    }

    /// Sends everything that is still pending.
    pub(crate) fn flush(&mut self, send: SendItem<'_>) -> Result<()> {
        if !self.chunks.is_empty() {
            let (raw, chunks) = (std::mem::take(&mut self.raw), std::mem::take(&mut self.chunks));
            let frame = self.pack(&raw, chunks, false);
            self.raw = raw;
            self.raw.clear();
            self.pending_hashes.clear();
            let hashes: Vec<ChunkHash> = frame.chunks.iter().map(|chunk| chunk.hash).collect();
            send(ArchiveItem::Frame(frame))?;
            // Other threads may refer to the chunks only now that the writer receives them first.
            self.share.sent.lock().unwrap_or_else(PoisonError::into_inner).extend(hashes);
        }
        self.pending.drain(..).try_for_each(send)
    }

    fn archive_file(
        &mut self,
        source: i64,
        path: &Path,
        read: FileRead,
        extent: ReadExtent,
        send: SendItem<'_>,
    ) -> Result<FileOutcome> {
        let latest = self.store.latest_version(path)?;
        if latest.is_some_and(|latest| latest.stamp == read.stamp && latest.length >= read.end) {
            self.pending.push(ArchiveItem::Link { source, path: path.to_owned() });
            return Ok(FileOutcome::Archived);
        }
        let Ok(mut file) = open_regular_file(path) else { return Ok(FileOutcome::Missed) };
        let Some(plan) = plan_file(&mut file, latest, read, extent) else {
            return Ok(FileOutcome::Missed);
        };
        match self.add_file(&mut file, read, &plan, send)? {
            Some(added) => {
                let grown = plan.latest.filter(|_| plan.kind != PlanKind::Whole);
                let cut = match (plan.kind, grown) {
                    (PlanKind::Piece, Some(latest)) => latest.cut,
                    _ => added.cut,
                };
                self.pending.push(ArchiveItem::Version(VersionRow {
                    source,
                    path: path.to_owned(),
                    grown: grown.map(|latest| latest.id),
                    from: plan.from,
                    parts: added.parts,
                    length: plan.end,
                    cut,
                    guard: added.guard,
                    stamp: read.stamp,
                    seen_at: self.seen_at,
                }));
                Ok(FileOutcome::Archived)
            }
            None => Ok(FileOutcome::Missed),
        }
    }

    /// Divides a file into chunks and adds those that are new. Returns `None` if the bytes are not
    /// those that were read.
    fn add_file(
        &mut self,
        file: &mut File,
        read: FileRead,
        plan: &FilePlan,
        send: SendItem<'_>,
    ) -> Result<Option<AddedFile>> {
        let is_checked = read.end == plan.end && read.start < read.end;
        let begin = if is_checked { plan.from.min(read.start) } else { plan.from };
        let mut input = CheckedInput {
            file,
            at: begin,
            end: plan.end,
            hash_from: if is_checked { read.start } else { plan.end },
            hash: Xxh3::new(),
        };
        if input.file.seek(SeekFrom::Start(begin)).is_err() {
            return Ok(None);
        }
        let mut added = AddedFile { parts: Vec::new(), cut: plan.from, guard: 0 };
        let mut buffer: Vec<u8> = Vec::new();
        // Offset in the file of the first byte in the buffer.
        let mut start = begin;
        let mut last_bytes: Vec<u8> = Vec::new();
        loop {
            let known = buffer.len();
            if input.fill(&mut buffer).is_err() {
                return Ok(None);
            }
            let is_end = input.at >= input.end;
            if buffer.len() == known && !is_end {
                return Ok(None); // The file became shorter.
            }
            keep_last(&mut last_bytes, &buffer[known..]);
            let mut used = 0;
            if start < plan.from {
                used = buffer.len().min((plan.from - start) as usize);
            }
            while start + used as u64 >= plan.from && used < buffer.len() {
                let rest = &buffer[used..];
                let found = if plan.kind == PlanKind::Piece { None } else { chunk_length(rest) };
                let Some(length) = found.or(is_end.then_some(rest.len())) else { break };
                let is_cut = found.is_some();
                let place = start + used as u64;
                let chunk = &buffer[used..used + length];
                let is_piece = !is_cut && plan.kind != PlanKind::Whole;
                let hash = self.add_chunk(chunk, is_piece, send)?;
                added.parts.push(PartRow { start: place, hash });
                used += length;
                if is_cut {
                    added.cut = start + used as u64;
                }
            }
            buffer.drain(..used);
            start += used as u64;
            if is_end {
                break;
            }
        }
        if is_checked && input.hash.digest() != read.hash {
            return Ok(None);
        }
        added.guard = if plan.end - begin >= last_bytes.len() as u64
            && (last_bytes.len() == GUARD_BYTES || begin == 0)
        {
            xxh3_64(&last_bytes)
        } else {
            match guard_of(input.file, plan.end) {
                Ok(guard) => guard,
                Err(_) => return Ok(None),
            }
        };
        Ok(Some(added))
    }

    /// Adds a chunk to the next frame unless the archive has it.
    fn add_chunk(&mut self, bytes: &[u8], is_piece: bool, send: SendItem<'_>) -> Result<ChunkHash> {
        let hash = chunk_hash(bytes, self.share.identity);
        let is_known = self.pending_hashes.contains(&hash)
            || self.share.is_sent(hash)
            || !self.share.is_empty && self.store.has_chunk(hash)?;
        if is_known {
            return Ok(hash);
        }
        let size = bytes.len() as u64;
        if is_piece {
            let chunk = FrameChunk { hash, start: 0, bytes: size };
            let frame = self.pack(bytes, vec![chunk], true);
            send(ArchiveItem::Frame(frame))?;
            return Ok(hash);
        }
        if self.raw.len() + bytes.len() > FRAME_BYTES {
            self.flush(send)?;
        }
        self.chunks.push(FrameChunk { hash, start: self.raw.len() as u64, bytes: size });
        self.raw.extend_from_slice(bytes);
        self.pending_hashes.insert(hash);
        Ok(hash)
    }

    fn pack(&mut self, raw: &[u8], chunks: Vec<FrameChunk>, is_piece: bool) -> Frame {
        let mut body = Vec::with_capacity(compress_bound(raw.len()));
        self.packer.compress2(&mut body, raw).expect("compressing into memory cannot fail");
        body.shrink_to_fit();
        Frame { sum: xxh3_64(&body), raw: raw.len() as u64, body, chunks, is_piece }
    }
}

/// The chunks of a file.
struct AddedFile {
    parts: Vec<PartRow>,
    cut: u64,
    guard: u64,
}

/// Reads a part of a file and hashes what a connector read of it.
struct CheckedInput<'f> {
    file: &'f mut File,
    at: u64,
    end: u64,
    hash_from: u64,
    hash: Xxh3,
}

impl CheckedInput<'_> {
    /// Reads until the buffer has enough bytes for a chunk or the end is reached.
    fn fill(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        while buffer.len() < chunker::MAX_BYTES + STEP_BYTES && self.at < self.end {
            let known = buffer.len();
            let wanted = (self.end - self.at).min(STEP_BYTES as u64);
            let read = self.file.by_ref().take(wanted).read_to_end(buffer)? as u64;
            if read == 0 {
                return Ok(());
            }
            let skipped = self.hash_from.saturating_sub(self.at).min(read) as usize;
            self.hash.update(&buffer[known + skipped..]);
            self.at += read;
        }
        Ok(())
    }
}

/// Decides how a file is archived. Returns `None` if it cannot be now.
fn plan_file(
    file: &mut File,
    latest: Option<LatestVersion>,
    read: FileRead,
    extent: ReadExtent,
) -> Option<FilePlan> {
    let end = match extent {
        ReadExtent::Complete => read.end.max(read.stamp.size),
        ReadExtent::Partial => read.end,
    };
    if let Some(latest) = latest {
        let is_whole = read.start == 0 && read.end >= latest.length;
        let has_grown = !is_whole
            && latest.stamp.inode == read.stamp.inode
            && end >= latest.length
            && guard_of(file, latest.length).is_ok_and(|guard| guard == latest.guard);
        if has_grown {
            let is_small = end - latest.cut <= MAX_PIECES_BYTES;
            let (from, kind) = if is_small {
                (latest.length, PlanKind::Piece)
            } else {
                (latest.cut, PlanKind::Chunks)
            };
            return Some(FilePlan { latest: Some(latest), from, end, kind });
        }
    }
    // A file that was read in part is a version only if nothing else is known of it.
    let is_partial = extent == ReadExtent::Partial;
    if is_partial && (read.start > 0 || latest.is_some()) {
        return None;
    }
    Some(FilePlan { latest, from: 0, end, kind: PlanKind::Whole })
}

/// Opens a regular file; anything else could block.
fn open_regular_file(path: &Path) -> io::Result<File> {
    let is_file = |metadata: &std::fs::Metadata| metadata.is_file();
    if !std::fs::metadata(path).is_ok_and(|metadata| is_file(&metadata)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let file = File::open(path)?;
    let is_regular = is_file(&file.metadata()?);
    is_regular.then_some(file).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Hashes the last bytes before an offset.
fn guard_of(file: &mut File, end: u64) -> io::Result<u64> {
    let bytes = end.min(GUARD_BYTES as u64);
    let mut last = vec![0; bytes as usize];
    file.seek(SeekFrom::Start(end - bytes))?;
    file.read_exact(&mut last)?;
    Ok(xxh3_64(&last))
}

/// Keeps the last bytes of everything that was read.
fn keep_last(last: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[bytes.len().saturating_sub(GUARD_BYTES)..];
    let surplus = (last.len() + bytes.len()).saturating_sub(GUARD_BYTES);
    last.drain(..surplus);
    last.extend_from_slice(bytes);
}
