//! Writes recorded text to a terminal without anything that could control the terminal.

use std::io::{self, Write};

use super::plain_text;

/// A writer of complete lines that removes terminal control sequences.
pub(crate) struct LineScreen<W: Write> {
    out: W,
    /// Bytes written since the last line end.
    line: Vec<u8>,
}

impl<W: Write> LineScreen<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, line: Vec::new() }
    }
}

impl<W: Write> Write for LineScreen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        let end = self.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.line.split_off(end);
        let lines = std::mem::replace(&mut self.line, rest);
        self.out.write_all(plain_text(&String::from_utf8_lossy(&lines)).as_bytes())?;
        Ok(bytes.len())
    }

    /// Writes the last line too, whether or not it is complete.
    fn flush(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.out.write_all(plain_text(&String::from_utf8_lossy(&line)).as_bytes())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_that_comes_in_parts_is_left_out_too() {
        let mut screen = LineScreen::new(Vec::new());
        for part in ["a\x1b[3", "1mb\n\tc\u{9b}", "d\x1b]0;ti", "tle\x07e"] {
            screen.write_all(part.as_bytes()).unwrap();
        }
        screen.flush().unwrap();
        assert_eq!(String::from_utf8(screen.out).unwrap(), "ab\n\tcde");
    }
}
