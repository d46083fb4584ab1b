//! The unified document as JSON: one session a file, or one session a line.

use std::io;

use super::schema::{Graph, Message};
use super::{Format, Frame, Lines as _, Options, Output, Pick, Together, Writer};

/// One session in one file, a message a line.
pub(super) struct Document;

/// Several sessions, each complete on its line.
pub(super) struct Lines;

impl Format for Document {
    fn name(&self) -> &'static str {
        "json"
    }

    fn suffix(&self) -> &'static str {
        "json"
    }

    fn about(&self) -> &'static str {
        "one session, complete, for programs"
    }

    fn together(&self) -> Together {
        Together::Instead("ndjson")
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn groups(&self) -> bool {
        false
    }

    fn writer<'o>(&self, out: &'o mut dyn Output, _: &Options) -> Box<dyn Writer + 'o> {
        Box::new(Stream::new(out, "\n"))
    }
}

impl Format for Lines {
    fn name(&self) -> &'static str {
        "ndjson"
    }

    fn suffix(&self) -> &'static str {
        "ndjson"
    }

    fn about(&self) -> &'static str {
        "many sessions, one a line"
    }

    fn together(&self) -> Together {
        Together::OneFile
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn groups(&self) -> bool {
        false
    }

    fn sub_agents(&self) -> Pick {
        Pick::With
    }

    fn writer<'o>(&self, out: &'o mut dyn Output, _: &Options) -> Box<dyn Writer + 'o> {
        Box::new(Stream::new(out, ""))
    }
}

struct Stream<'o> {
    out: &'o mut dyn Output,
    /// What separates messages, besides the comma.
    gap: &'static str,
    graph: Graph,
    is_first: bool,
    /// A message on its way: outputs that compress dislike small pieces.
    line: Vec<u8>,
}

impl<'o> Stream<'o> {
    fn new(out: &'o mut dyn Output, gap: &'static str) -> Self {
        Self { out, gap, graph: Graph::default(), is_first: true, line: Vec::new() }
    }
}

impl Writer for Stream<'_> {
    fn begin(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        self.graph = frame.outline.graph();
        self.is_first = true;
        let head = serde_json::to_string(frame.head)?;
        let open = head.strip_suffix('}').expect("a head is an object");
        write!(self.out, "{open},\"messages\":[{}", self.gap)
    }

    fn message(&mut self, message: &Message) -> io::Result<()> {
        let json = serde_json::to_vec(message)?;
        self.line(&json)
    }

    fn end(&mut self) -> io::Result<()> {
        let graph = serde_json::to_string(&self.graph)?;
        writeln!(self.out, "{}],\"graph\":{graph}}}", self.gap)
    }

    fn lines(&mut self) -> Option<&mut dyn super::Lines> {
        Some(self)
    }
}

impl super::Lines for Stream<'_> {
    fn line(&mut self, json: &[u8]) -> io::Result<()> {
        self.line.clear();
        if !std::mem::take(&mut self.is_first) {
            self.line.push(b',');
            self.line.extend_from_slice(self.gap.as_bytes());
        }
        self.line.extend_from_slice(json);
        self.out.write_all(&self.line)
    }
}
