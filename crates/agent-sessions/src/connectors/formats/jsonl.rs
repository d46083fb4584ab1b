//! Reads lines of JSON from files that may still be growing.
//!
//! Live files are read in bounded chunks and never mapped: mapping a file that shrinks kills the
//! process. A last line without a newline is returned as incomplete, so that a connector can show
//! it now and read it again later.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use memchr::memchr;
use xxhash_rust::xxh3::xxh3_64;

use super::fold::fold_excess_values;
use super::large::{LARGE_BYTES, LargeTurn};
use super::source_file::SourceFile;
use crate::error::{Error, Result};
use crate::model::Checkpoint;

/// Default limit on the length of a line. Longer lines are skipped.
pub const MAX_LINE: usize = 64 << 20;

/// Reason for skipping a line that exceeds the limit.
pub const LINE_TOO_LONG: &str = "line too long";

thread_local! {
    static LIMIT: Cell<usize> = const { Cell::new(MAX_LINE) };
}

/// Runs `read` with another limit on the length of lines. The limit applies to every file that this
/// thread opens meanwhile.
pub fn with_max_line<T>(bytes: usize, read: impl FnOnce() -> T) -> T {
    struct Before(usize);
    impl Drop for Before {
        fn drop(&mut self) {
            LIMIT.set(self.0);
        }
    }
    let _before = Before(LIMIT.replace(bytes));
    read()
}

/// Number of bytes before a checkpoint that its guard hashes.
const GUARD: u64 = 1024;

/// Minimum number of bytes to request in one read.
const STEP: usize = 256 << 10;

/// Reads the lines of a file one by one.
pub struct LineReader {
    input: Box<dyn Read>,
    path: PathBuf,
    buffer: Vec<u8>,
    /// Start and end of the unread part of the buffer.
    start: usize,
    end: usize,
    /// File offset of `buffer[start]`.
    offset: u64,
    at_end: bool,
    /// Limit on the length of a line. Longer lines are skipped.
    max_line: usize,
    /// Whether lines with any number of JSON values are returned unchanged.
    has_all_values: bool,
    /// The line returned last, if it had too many values and was folded.
    folded: Vec<u8>,
    /// Held while the buffer is large.
    turn: Option<LargeTurn>,
}

/// A line without its newline.
#[derive(Clone, Copy, Debug)]
pub struct SourceLine<'a> {
    /// File offset of the line's first byte.
    pub offset: u64,
    /// Content of the line; empty if the line was too long to read.
    pub bytes: &'a [u8],
    /// The way in which the line ended.
    pub end: End,
}

/// The way in which a line ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A newline.
    Newline,
    /// The end of the file. The line may still be incomplete.
    File,
    /// The length limit. The rest of the line was skipped.
    TooLong,
}

impl LineReader {
    /// Opens a file and starts reading at `offset`.
    pub fn open_at(path: &Path, offset: u64) -> Result<Self> {
        let mut file = SourceFile::open(path).map_err(Error::read(path))?;
        file.seek(SeekFrom::Start(offset)).map_err(Error::read(path))?;
        Ok(Self { offset, ..Self::from_stream(Box::new(file), path) })
    }

    /// Opens a compressed file and starts reading at the beginning of its content.
    pub fn open_compressed(path: &Path) -> Result<Self> {
        let file = SourceFile::open(path).map_err(Error::read(path))?;
        let decoder = zstd::Decoder::new(file).map_err(Error::read(path))?;
        Ok(Self::from_stream(Box::new(decoder), path))
    }

    /// Reads lines from a stream derived from the file at `path`, such as its decompressed form.
    pub fn from_stream(input: Box<dyn Read>, path: &Path) -> Self {
        let (buffer, path) = (vec![0; STEP], path.to_owned());
        Self {
            input,
            path,
            buffer,
            start: 0,
            end: 0,
            offset: 0,
            at_end: false,
            max_line: LIMIT.get(),
            has_all_values: false,
            folded: Vec::new(),
            turn: None,
        }
    }

    /// Returns lines unchanged, regardless of their number of values, for callers that keep lines
    /// as text.
    #[must_use]
    pub fn with_all_values(self) -> Self {
        Self { has_all_values: true, ..self }
    }

    /// Returns the next line. `None` at the end of the file.
    pub fn next_line(&mut self) -> Result<Option<SourceLine<'_>>> {
        self.give_back_room();
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.start..self.end];
            let found = memchr(b'\n', &unread[searched..]).map(|found| searched + found);
            searched = unread.len();
            if found.unwrap_or(searched) > self.max_line {
                return self.skip_line().map(Some);
            }
            if let Some(length) = found {
                return Ok(Some(self.take_line(length, 1, End::Newline)));
            }
            if !self.fill_buffer()? {
                let last = (searched > 0).then(|| self.take_line(searched, 0, End::File));
                return Ok(last);
            }
        }
    }

    /// Returns the file offset of the next line.
    pub fn next_offset(&self) -> u64 {
        self.offset
    }

    fn take_line(&mut self, length: usize, newline: usize, end: End) -> SourceLine<'_> {
        let from = self.start;
        let offset = self.offset;
        self.start += length + newline;
        self.offset += (length + newline) as u64;
        let folded = if self.has_all_values {
            Cow::Borrowed(&[][..])
        } else {
            fold_excess_values(&self.buffer[from..from + length])
        };
        let bytes = if let Cow::Owned(folded) = folded {
            // The original line is no longer needed.
            let rest = self.buffer[self.start..self.end].to_vec();
            (self.start, self.end) = (0, rest.len());
            (self.buffer, self.folded) = (rest, folded);
            &self.folded[..]
        } else {
            &self.buffer[from..from + length]
        };
        SourceLine { offset, bytes: bytes.strip_suffix(b"\r").unwrap_or(bytes), end }
    }

    /// Shrinks the buffer after a large line.
    fn give_back_room(&mut self) {
        self.folded = Vec::new();
        let unread = self.end - self.start;
        if self.turn.is_none() || unread > LARGE_BYTES / 2 {
            return;
        }
        let mut buffer = vec![0; unread.max(STEP)];
        buffer[..unread].copy_from_slice(&self.buffer[self.start..self.end]);
        self.buffer = buffer;
        (self.start, self.end) = (0, unread);
        self.turn = None;
    }

    /// Reads more bytes into the buffer. Returns `false` at the end of the file.
    fn fill_buffer(&mut self) -> Result<bool> {
        if self.at_end {
            return Ok(false);
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() - self.end < STEP {
            let doubled = (self.buffer.len() * 2).min(self.max_line.saturating_add(2 * STEP));
            let size = doubled.max(self.end + STEP);
            if size > LARGE_BYTES && self.turn.is_none() {
                self.turn = Some(LargeTurn::wait_for_turn());
            }
            self.buffer.resize(size, 0);
        }
        let read =
            self.input.read(&mut self.buffer[self.end..]).map_err(Error::read(&self.path))?;
        self.end += read;
        self.at_end = read == 0;
        Ok(read > 0)
    }

    /// Skips the rest of a line that exceeds the limit.
    fn skip_line(&mut self) -> Result<SourceLine<'_>> {
        let offset = self.offset;
        loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(found) = memchr(b'\n', unread) {
                self.start += found + 1;
                self.offset += found as u64 + 1;
                break;
            }
            self.offset += unread.len() as u64;
            (self.start, self.end) = (0, 0);
            if !self.fill_buffer()? {
                break;
            }
        }
        Ok(SourceLine { offset, bytes: &[], end: End::TooLong })
    }
}

/// Hashes the bytes before `offset`, as the guard of a checkpoint there.
pub fn checkpoint_guard(path: &Path, offset: u64) -> Result<u64> {
    let mut file = SourceFile::open(path).map_err(Error::read(path))?;
    let from = offset.saturating_sub(GUARD);
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(from)).map_err(Error::read(path))?;
    file.take(offset - from).read_to_end(&mut bytes).map_err(Error::read(path))?;
    Ok(xxh3_64(&bytes))
}

/// Adds a guard for the bytes between a checkpoint and the current end of the file. Their content
/// was already emitted, so a later read continues from the checkpoint only if they are unchanged.
pub fn seal_checkpoint(path: &Path, checkpoint: Checkpoint) -> Checkpoint {
    let end = SourceFile::open(path).and_then(|file| file.size()).unwrap_or(0);
    if checkpoint.offset == 0 || end <= checkpoint.offset {
        return checkpoint;
    }
    match tail_guard(path, checkpoint.offset, end) {
        Ok(seen_guard) => Checkpoint { seen_to: end, seen_guard, ..checkpoint },
        Err(_) => Checkpoint::default(),
    }
}

/// Returns whether the content around a checkpoint is unchanged since it was read.
pub fn is_unchanged_around(path: &Path, checkpoint: &Checkpoint) -> bool {
    let Checkpoint { offset, seen_to, .. } = *checkpoint;
    offset > 0
        && checkpoint_guard(path, offset).is_ok_and(|guard| guard == checkpoint.guard)
        && (seen_to <= offset
            || tail_guard(path, offset, seen_to).is_ok_and(|guard| guard == checkpoint.seen_guard))
}

/// Hashes the bytes after `offset` and the last bytes before `end`.
fn tail_guard(path: &Path, offset: u64, end: u64) -> Result<u64> {
    let mut file = SourceFile::open(path).map_err(Error::read(path))?;
    let mut bytes = Vec::new();
    let first = offset..end.min(offset + GUARD);
    let last = first.end.max(end.saturating_sub(GUARD))..end;
    for part in [first, last] {
        file.seek(SeekFrom::Start(part.start)).map_err(Error::read(path))?;
        let length = part.end - part.start;
        (&mut file).take(length).read_to_end(&mut bytes).map_err(Error::read(path))?;
    }
    Ok(xxh3_64(&bytes))
}

/// Returns whether an error is one of reading a file rather than of decompressing it: the next read
/// may succeed.
pub fn is_file_failure(error: &Error) -> bool {
    matches!(error, Error::Read { source, .. } if source.raw_os_error().is_some())
}

/// Returns whether a line is empty or whitespace.
pub fn is_blank_line(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// Repairs a line that a strict parser rejects: removes a byte-order mark and NULs, and replaces
/// invalid UTF-8 and escapes of lone surrogates.
pub fn mend_line(line: &[u8]) -> Vec<u8> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let text = match String::from_utf8_lossy(line) {
        Cow::Borrowed(text) => text.to_owned(),
        Cow::Owned(text) => text,
    };
    let mut bytes = text.replace('\0', "").into_bytes();
    replace_lone_surrogates(&mut bytes);
    bytes
}

/// Like `repair_line`, for lines that a lenient parser accepts: changes only lines with escaped
/// surrogates.
pub fn mend_escapes(line: &[u8]) -> Cow<'_, [u8]> {
    let escapes = memchr::memchr_iter(b'\\', line);
    let is_surrogate = |at: usize| matches!(escaped_unit(&line[at..]), Some(0xd800..=0xdfff));
    if escapes.into_iter().any(is_surrogate) {
        let mut bytes = line.to_vec();
        replace_lone_surrogates(&mut bytes);
        return Cow::Owned(bytes);
    }
    Cow::Borrowed(line)
}

fn replace_lone_surrogates(bytes: &mut [u8]) {
    let mut at = 0;
    while at + 6 <= bytes.len() {
        match escaped_unit(&bytes[at..]) {
            Some(0xd800..=0xdbff)
                if matches!(escaped_unit(&bytes[at + 6..]), Some(0xdc00..=0xdfff)) =>
            {
                at += 12;
            }
            Some(0xd800..=0xdfff) => {
                bytes[at + 2..at + 6].copy_from_slice(b"fffd");
                at += 6;
            }
            Some(_) => at += 6,
            // An escaped backslash may be followed by a literal `u`.
            None if bytes[at] == b'\\' => at += 2,
            None => at += 1,
        }
    }
}

/// Parses `\uXXXX`.
fn escaped_unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.get(..6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn lines(content: &[u8]) -> Vec<(u64, String, End)> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let mut lines = LineReader::open_at(file.path(), 0).unwrap();
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            let text = String::from_utf8_lossy(line.bytes[..line.bytes.len().min(20)].into());
            all.push((line.offset, text.into_owned(), line.end));
        }
        all
    }

    #[test]
    fn a_last_line_without_its_newline_is_incomplete() {
        let expected = [(0, "{}".into(), End::Newline), (3, "{\"a\"".into(), End::File)];
        assert_eq!(lines(b"{}\n{\"a\""), expected);
    }

    #[test]
    fn carriage_returns_and_blank_lines_are_ordinary() {
        let all = lines(b"a\r\n\r\n\nb\n");
        let texts: Vec<&str> = all.iter().map(|line| &*line.1).collect();
        assert_eq!(texts, ["a", "", "", "b"]);
        assert_eq!(all[3].0, 6);
    }

    #[test]
    fn a_line_too_long_to_hold_costs_its_neighbours_nothing() {
        let mut content = b"before\n".to_vec();
        content.resize(MAX_LINE + 3 * STEP, b'x');
        content.extend_from_slice(b"\nafter\n");
        let all = lines(&content);
        let ends: Vec<(&str, End)> = all.iter().map(|line| (&*line.1, line.2)).collect();
        assert_eq!(ends, [("before", End::Newline), ("", End::TooLong), ("after", End::Newline)]);
    }

    #[test]
    fn a_line_longer_than_the_buffer_is_read_whole() {
        let content = [vec![b'y'; 3 * STEP + 17], b"\nz\n".to_vec()].concat();
        let all = lines(&content);
        assert_eq!((all.len(), all[1].0), (2, (3 * STEP + 18) as u64));
    }

    #[test]
    fn mending_keeps_pairs_and_replaces_what_no_parser_takes() {
        let check = |line: &[u8], expected: &str| {
            assert_eq!(String::from_utf8(mend_line(line)).unwrap(), expected);
        };
        check(b"\xef\xbb\xbf{\"a\":\"\xff\"}\0\0", "{\"a\":\"\u{fffd}\"}");
        check(
            br#""\ud83d\ude00 \ud83d \\ud83d \ude00""#,
            r#""\ud83d\ude00 \ufffd \\ud83d \ufffd""#,
        );
    }

    #[test]
    fn a_checkpoint_holds_only_while_what_was_told_behind_it_stands() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"one\ntwo\n").unwrap();
        let path = file.path().to_owned();
        let guard = checkpoint_guard(&path, 4).unwrap();
        let checkpoint =
            seal_checkpoint(&path, Checkpoint { offset: 4, guard, ..Checkpoint::default() });
        assert!(is_unchanged_around(&path, &checkpoint));
        file.write_all(b"three\n").unwrap();
        assert!(is_unchanged_around(&path, &checkpoint));
        std::fs::File::create(&path).unwrap().write_all(b"one\nTWO\nthree\n").unwrap();
        assert!(!is_unchanged_around(&path, &checkpoint));
    }

    #[test]
    fn another_history_before_the_offset_has_another_guard() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"one\ntwo\n").unwrap();
        let before = checkpoint_guard(file.path(), 4).unwrap();
        file.write_all(b"three\n").unwrap();
        assert_eq!(checkpoint_guard(file.path(), 4).unwrap(), before);
        assert_ne!(checkpoint_guard(file.path(), 8).unwrap(), before);
    }
}
