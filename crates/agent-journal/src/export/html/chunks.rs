//! Long sessions: a page of fifty megabytes opens at once when most of it is text that the
//! browser need not understand yet. Up to a size everything is simply there, for readers without
//! script too. Beyond it prompts are there, and what lies between them waits in chunks: markup as
//! a JSON string without any `<`, so that nothing in it can end it or begin anything. The page's
//! script turns a chunk into markup when the reader comes near.

use std::io::{self, Write};

use super::{Page, State};
use crate::export::schema::Message;
use crate::export::{Detail, Frame, Output, Theme, Writer};

/// A chunk is complete at this many bytes: small enough to appear in an instant.
const FULL: usize = 96 << 10;

/// Less than this is not worth a chunk.
const SMALL: usize = 512;

/// A page whose later parts wait.
pub(super) struct Chunked<'o> {
    paper: Paper<'o>,
    detail: Detail,
    theme: Theme,
    sessions: Vec<State>,
    contents: Vec<(u64, String)>,
}

impl<'o> Chunked<'o> {
    pub(super) fn new(out: &'o mut dyn Output, detail: Detail, theme: Theme, at_once: u64) -> Self {
        let paper = Paper {
            out,
            left: at_once,
            run: Vec::new(),
            span: None,
            is_inside: false,
            has_chunks: false,
        };
        Self { paper, detail, theme, sessions: Vec::new(), contents: Vec::new() }
    }

    /// Lets the page write on this paper.
    fn page(&mut self, write: impl FnOnce(&mut Page<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut page = Page {
            out: &mut self.paper,
            detail: self.detail,
            theme: self.theme,
            sessions: std::mem::take(&mut self.sessions),
            contents: std::mem::take(&mut self.contents),
            pictures: None,
        };
        let written = write(&mut page);
        (self.sessions, self.contents) = (page.sessions, page.contents);
        written
    }
}

impl Writer for Chunked<'_> {
    fn begin(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        self.page(|page| page.begin(frame))
    }

    fn message(&mut self, message: &Message) -> io::Result<()> {
        self.page(|page| page.message(message))
    }

    fn end(&mut self) -> io::Result<()> {
        self.page(|page| page.end())
    }
}

/// Where a page is written: directly, or into the run of messages that may wait.
struct Paper<'o> {
    out: &'o mut dyn Output,
    /// How much may still be there at once.
    left: u64,
    /// Messages that may wait.
    run: Vec<u8>,
    /// What stands before the numbers of the run in its ids, its first number, its last one.
    span: Option<(String, u64, u64)>,
    is_inside: bool,
    has_chunks: bool,
}

impl Paper<'_> {
    fn flush_run(&mut self) -> io::Result<()> {
        let run = std::mem::take(&mut self.run);
        let Some((prefix, first, last)) = self.span.take().filter(|_| !run.is_empty()) else {
            return Ok(());
        };
        if run.len() as u64 <= self.left || run.len() < SMALL {
            self.left = self.left.saturating_sub(run.len() as u64);
            return self.out.write_all(&run);
        }
        self.left = 0;
        if !std::mem::replace(&mut self.has_chunks, true) {
            let note = "This session is long: from here on only prompts are shown without script";
            writeln!(self.out, "<noscript><p class=\"label\">{note}</p></noscript>")?;
        }
        let text = String::from_utf8_lossy(&run);
        let text = serde_json::to_string(&text)?.replace('<', "\\u003c");
        writeln!(
            self.out,
            "<div class=\"chunk\" data-of=\"{prefix}\" data-first=\"{first}\" data-last=\"{last}\">\
             <script type=\"application/json\">{text}</script></div>"
        )
    }
}

impl Write for Paper<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_inside {
            self.run.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        self.flush_run()?;
        let written = self.out.write(bytes)?;
        self.left = self.left.saturating_sub(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Output for Paper<'_> {
    fn turn(&mut self) -> io::Result<bool> {
        self.out.turn()
    }

    fn begin_part(&mut self, prefix: &str, number: u64) {
        self.is_inside = true;
        match &mut self.span {
            Some((_, _, last)) => *last = number,
            None => self.span = Some((prefix.to_owned(), number, number)),
        }
    }

    fn end_part(&mut self) -> io::Result<()> {
        self.is_inside = false;
        if self.run.len() >= FULL { self.flush_run() } else { Ok(()) }
    }
}
