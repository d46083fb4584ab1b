//! Reads the write-ahead log of an SQLite database (`-wal`) without SQLite: which pages of the
//! database its committed transactions replace, and where those pages are in the log.
//!
//! The format is described at <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>. Frames
//! are appended to a log until all of them have been copied into the database (a checkpoint). Then
//! the next writer restarts at the beginning of the file, with a header that has another salt.

use std::collections::HashMap;
use std::fs::File;
use std::io;

use foldhash::fast::RandomState;

use super::snapshot::read_fully_at;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// Approximate number of bytes read from a log at a time.
const READ_BYTES: usize = 1 << 20;

/// Index of the committed part of a log, as of the time it was read.
pub(super) struct WalIndex {
    /// Header of the log. A different header means that the log was restarted.
    header: [u8; HEADER_BYTES],
    pub(super) page_bytes: usize,
    /// Number of pages of the database after the last commit.
    pub(super) page_count: u32,
    /// Offset in the log of the newest committed content of a page, by page number.
    frames: HashMap<u32, u64, RandomState>,
    /// Headers after the last commit and after the last valid frame: a writer that appends replaces
    /// one of them. `None` when a frame was being appended at that time, because it cannot be
    /// distinguished from one appended later.
    ends: Option<[FrameHeaderAt; 2]>,
}

/// The header of a frame, or the bytes found in its position.
#[derive(PartialEq, Eq)]
struct FrameHeaderAt {
    offset: u64,
    bytes: Vec<u8>,
}

impl FrameHeaderAt {
    fn read_frame_header(file: &File, offset: u64) -> io::Result<Self> {
        let mut bytes = vec![0; FRAME_HEADER_BYTES];
        let length = read_fully_at(file, &mut bytes, offset)?;
        bytes.truncate(length);
        Ok(Self { offset, bytes })
    }
}

impl WalIndex {
    /// Reads a log. `None` when it has no committed transaction.
    pub(super) fn read_wal_index(file: &File) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER_BYTES];
        if read_fully_at(file, &mut header, 0)? < HEADER_BYTES {
            return Ok(None);
        }
        let Some(log) = LogHeader::parse_log_header(&header) else { return Ok(None) };
        let frame_bytes = FRAME_HEADER_BYTES + log.page_bytes;
        let mut sum = log.checksum;
        let mut buffer = vec![0; (READ_BYTES / frame_bytes).max(1) * frame_bytes];
        let mut offset = HEADER_BYTES as u64;
        let mut committed_to = offset;
        let (mut page_count, mut first_uncommitted) = (0, Vec::new());
        let (mut frames, mut uncommitted) = (HashMap::default(), Vec::new());
        'log: loop {
            let length = read_fully_at(file, &mut buffer, offset)?;
            for frame in buffer[..length].chunks_exact(frame_bytes) {
                let (head, page) = frame.split_at(FRAME_HEADER_BYTES);
                if head[8..16] != header[16..24] {
                    break 'log;
                }
                log.update_checksum(&mut sum, &head[..8]);
                log.update_checksum(&mut sum, page);
                let number = big_endian(head, 0);
                if sum != [big_endian(head, 16), big_endian(head, 20)] || number == 0 {
                    break 'log;
                }
                if uncommitted.is_empty() {
                    first_uncommitted = head.to_vec();
                }
                uncommitted.push((number, offset + FRAME_HEADER_BYTES as u64));
                offset += frame_bytes as u64;
                if big_endian(head, 4) > 0 {
                    (page_count, committed_to) = (big_endian(head, 4), offset);
                    frames.extend(uncommitted.drain(..));
                }
            }
            if length < buffer.len() {
                break;
            }
        }
        if page_count == 0 {
            return Ok(None);
        }
        let end = FrameHeaderAt::read_frame_header(file, offset)?;
        let is_certain = end.bytes.get(8..16) != Some(&header[16..24]);
        let commit_end = if uncommitted.is_empty() {
            FrameHeaderAt { offset, bytes: end.bytes.clone() }
        } else {
            FrameHeaderAt { offset: committed_to, bytes: first_uncommitted }
        };
        let ends = is_certain.then_some([commit_end, end]);
        Ok(Some(Self { header, page_bytes: log.page_bytes, page_count, frames, ends }))
    }

    /// Returns the offset of a page's content in the log, if the log contains the page.
    pub(super) fn offset_of(&self, page: u32) -> Option<u64> {
        self.frames.get(&page).copied()
    }

    /// Returns whether the frames are still those that were read, that is, the log was not
    /// restarted.
    pub(super) fn is_same_log(&self, file: &File) -> io::Result<bool> {
        let mut header = [0; HEADER_BYTES];
        Ok(read_fully_at(file, &mut header, 0)? == HEADER_BYTES && header == self.header)
    }

    /// Returns whether nothing was committed since the log was read.
    pub(super) fn is_at_end(&self, file: &File) -> io::Result<bool> {
        let Some(ends) = &self.ends else { return Ok(false) };
        for end in ends {
            if FrameHeaderAt::read_frame_header(file, end.offset)? != *end {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The parsed header of a log.
struct LogHeader {
    page_bytes: usize,
    is_big_endian: bool,
    checksum: [u32; 2],
}

impl LogHeader {
    fn parse_log_header(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let magic = big_endian(header, 0);
        let page_bytes = big_endian(header, 8) as usize;
        let is_page_size = page_bytes.is_power_of_two() && (512..=65536).contains(&page_bytes);
        if magic & !1 != 0x377f_0682 || big_endian(header, 4) != 3_007_000 || !is_page_size {
            return None;
        }
        let mut log = Self { page_bytes, is_big_endian: magic & 1 == 1, checksum: [0, 0] };
        let mut sum = [0, 0];
        log.update_checksum(&mut sum, &header[..24]);
        log.checksum = sum;
        (sum == [big_endian(header, 24), big_endian(header, 28)]).then_some(log)
    }

    /// Updates a checksum with `bytes`.
    fn update_checksum(&self, sum: &mut [u32; 2], bytes: &[u8]) {
        let [mut first, mut second] = *sum;
        let read = if self.is_big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
        for pair in bytes.as_chunks::<4>().0.as_chunks::<2>().0 {
            let [left, right] = pair.map(read);
            first = first.wrapping_add(left).wrapping_add(second);
            second = second.wrapping_add(right).wrapping_add(first);
        }
        *sum = [first, second];
    }
}

fn big_endian(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}
