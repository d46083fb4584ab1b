//! Reads the conversations in a chat archive: the ZIP file that a web chat sends to its users.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::rc::Rc;

use flate2::CrcReader;
use flate2::bufread::DeflateDecoder;
use rawzip::{CompressionMethod, FileReader, RECOMMENDED_BUFFER_SIZE, RangeReader, ZipArchive};

/// The largest accepted sum of decompressed bytes. It protects against archives that are made to
/// decompress without end.
const MAX_DECOMPRESSED_BYTES: u64 = 16 << 30;

/// The largest accepted number of files with conversations.
const MAX_PARTS: usize = 10_000;

/// Returns whether a file begins like a ZIP archive.
pub(super) fn is_archive(start: &[u8]) -> bool {
    start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06")
}

/// Opens the files with conversations in an archive as one stream of lists.
pub(super) fn open_conversations(file: File) -> io::Result<Box<dyn Read>> {
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let archive =
        ZipArchive::from_file(file, &mut buffer).map_err(|error| archive_error(&error))?;
    let mut found = Vec::new();
    let mut entries = archive.entries(&mut buffer);
    while let Some(entry) = entries.next_entry().map_err(|error| archive_error(&error))? {
        let name = String::from_utf8_lossy(entry.file_path().as_bytes()).into_owned();
        if !has_conversations(&name) {
            continue;
        }
        let is_stored = entry.compression_method() == CompressionMethod::STORE;
        let is_readable = is_stored || entry.compression_method() == CompressionMethod::DEFLATE;
        if !is_readable || entry.flags().is_encrypted() {
            return Err(io::Error::other(format!("{name} in it is encrypted or packed otherwise")));
        }
        if found.len() == MAX_PARTS {
            return Err(io::Error::other("it contains too many files"));
        }
        found.push((name, is_stored, entry.crc32(), entry.wayfinder()));
    }
    if found.is_empty() {
        let reason = "no conversations.json in it: not an export of a web chat";
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let mut parts = VecDeque::new();
    for (name, is_stored, checksum, place) in found {
        let entry = archive.get_entry(place).map_err(|error| archive_error(&error))?;
        let (start, end) = entry.compressed_data_range();
        parts.push_back(ArchivePart { name, is_stored, checksum, range: start..end });
    }
    let file = Rc::new(archive.into_inner());
    Ok(Box::new(ConversationReader { file, parts, open: None, left: MAX_DECOMPRESSED_BYTES }))
}

/// Returns whether a file of an archive is a list of conversations: `conversations.json`, or one of
/// several such as `conversations-000.json`.
fn has_conversations(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_numbered = |rest: &str| {
        let digits = rest.strip_prefix(['-', '_']).unwrap_or(rest);
        digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let rest = name.strip_prefix("conversations").and_then(|rest| rest.strip_suffix(".json"));
    rest.is_some_and(is_numbered) && !path.starts_with("__MACOSX/")
}

fn archive_error(error: &rawzip::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a readable ZIP archive: {error}"))
}

/// A file in an archive.
struct ArchivePart {
    name: String,
    is_stored: bool,
    checksum: u32,
    range: Range<u64>,
}

/// A file in an archive that is being read.
struct OpenPart {
    name: String,
    checksum: u32,
    reader: CrcReader<Box<dyn Read>>,
}

/// The contents of the files, one after the other, separated by newlines.
struct ConversationReader {
    file: Rc<FileReader>,
    parts: VecDeque<ArchivePart>,
    open: Option<OpenPart>,
    left: u64,
}

impl ConversationReader {
    fn open_part(&self, part: ArchivePart) -> OpenPart {
        let raw = RangeReader::new(self.file.clone(), part.range);
        let reader: Box<dyn Read> = if part.is_stored {
            Box::new(raw)
        } else {
            Box::new(DeflateDecoder::new(BufReader::new(raw)))
        };
        OpenPart { name: part.name, checksum: part.checksum, reader: CrcReader::new(reader) }
    }
}

impl Read for ConversationReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let Some(open) = &mut self.open else {
            let Some(part) = self.parts.pop_front() else { return Ok(0) };
            self.open = Some(self.open_part(part));
            bytes[0] = b'\n';
            return Ok(1);
        };
        let read = open.reader.read(bytes)?;
        if read == 0 {
            if open.reader.crc().sum() != open.checksum {
                return Err(io::Error::other(format!("{} in it is damaged", open.name)));
            }
            self.open = None;
            return self.read(bytes);
        }
        let left = self.left.checked_sub(read as u64);
        self.left = left.ok_or_else(|| io::Error::other("its contents are too large"))?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::has_conversations;

    #[test]
    fn lists_of_conversations_are_recognized_by_name() {
        for name in ["conversations.json", "export/conversations.json", "conversations-012.json"] {
            assert!(has_conversations(name), "{name}");
        }
        for name in ["users.json", "shared_conversations.json", "conversations.html", "x/y.json"] {
            assert!(!has_conversations(name), "{name}");
        }
        assert!(!has_conversations("__MACOSX/conversations.json"));
    }
}
