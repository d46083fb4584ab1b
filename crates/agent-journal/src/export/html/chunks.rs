//! Pages of long sessions. A page of fifty megabytes opens at once if most of it is text that the
//! browser need not parse yet. Up to a size the whole page is markup, also for readers without
//! script. Beyond it only prompts are, and the messages between them are stored in chunks: markup
//! as a JSON string without any `<`, so that nothing in it can end the string or begin an element.
//! The page's script turns a chunk into markup when the reader scrolls near it.

use std::io::{self, Write};

use super::{HtmlPage, HtmlPageState};
use crate::export::schema::DocumentMessage;
use crate::export::{DetailLevel, ExportOutput, SessionFrame, SessionWriter, Theme};

/// The size of a full chunk, in bytes: small enough to be rendered in an instant.
const FULL: usize = 96 << 10;

/// The smallest chunk, in bytes. Less is written as markup.
const SMALL: usize = 512;

/// Writes a page whose later parts are stored in chunks.
pub(super) struct Chunked<'o> {
    paper: Paper<'o>,
    detail: DetailLevel,
    theme: Theme,
    sessions: Vec<HtmlPageState>,
    contents: Vec<(u64, String)>,
}

impl<'o> Chunked<'o> {
    pub(super) fn new(
        out: &'o mut dyn ExportOutput,
        detail: DetailLevel,
        theme: Theme,
        at_once: u64,
    ) -> Self {
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

    /// Calls `write` with a page that writes to this output.
    fn write_to_page(
        &mut self,
        write: impl FnOnce(&mut HtmlPage<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut page = HtmlPage {
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

impl SessionWriter for Chunked<'_> {
    fn begin_session(&mut self, frame: &SessionFrame<'_>) -> io::Result<()> {
        self.write_to_page(|page| page.begin_session(frame))
    }

    fn write_message(&mut self, message: &DocumentMessage) -> io::Result<()> {
        self.write_to_page(|page| page.write_message(message))
    }

    fn end_session(&mut self) -> io::Result<()> {
        self.write_to_page(|page| page.end_session())
    }
}

/// The output of a page. It writes directly, or collects deferrable messages into a chunk.
struct Paper<'o> {
    out: &'o mut dyn ExportOutput,
    /// The number of bytes that may still be written as markup.
    left: u64,
    /// The deferrable messages collected so far.
    run: Vec<u8>,
    /// The id prefix of the collected messages, the number of the first one, and that of the last
    /// one.
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
            let note =
                "This session is long: without JavaScript, only prompts are shown from here on";
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

impl ExportOutput for Paper<'_> {
    fn begin_turn(&mut self) -> io::Result<bool> {
        self.out.begin_turn()
    }

    fn begin_part(&mut self, prefix: &str, number: u64) {
        self.is_inside = true;
        match &mut self.span {
            Some((_, _, last)) => *last = number,
            None => self.span = Some((prefix.to_owned(), number, number)),
        }
    }

    fn end_lazy_part(&mut self) -> io::Result<()> {
        self.is_inside = false;
        if self.run.len() >= FULL { self.flush_run() } else { Ok(()) }
    }
}
