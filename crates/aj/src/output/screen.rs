//! A terminal that is given recorded text as it is: nothing in it may steer it.

use std::io::{self, Write};

use super::plain;

/// Writes whole lines, without what could steer a terminal.
pub(crate) struct Screen<W: Write> {
    out: W,
    /// What was written since the last line end.
    line: Vec<u8>,
}

impl<W: Write> Screen<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, line: Vec::new() }
    }
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        let end = self.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.line.split_off(end);
        let lines = std::mem::replace(&mut self.line, rest);
        self.out.write_all(plain(&String::from_utf8_lossy(&lines)).as_bytes())?;
        Ok(bytes.len())
    }

    /// Writes the last line too, whether or not it is complete.
    fn flush(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        self.out.write_all(plain(&String::from_utf8_lossy(&line)).as_bytes())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_that_comes_in_parts_is_left_out_too() {
        let mut screen = Screen::new(Vec::new());
        for part in ["a\x1b[3", "1mb\n\tc\u{9b}", "d\x1b]0;ti", "tle\x07e"] {
            screen.write_all(part.as_bytes()).unwrap();
        }
        screen.flush().unwrap();
        assert_eq!(String::from_utf8(screen.out).unwrap(), "ab\n\tcde");
    }
}
