//! The unified document as JSON: one session per file, or one session per line.

use std::io;

use super::schema::{DocumentMessage, Graph};
use super::{ExportOptions, ExportOutput, Format, Pick, SessionFrame, SessionWriter, Together};

/// One session in one file, with one message per line.
pub(super) struct JsonDocument;

/// Several sessions, each complete on its line.
pub(super) struct NdjsonLines;

impl Format for JsonDocument {
    fn format_name(&self) -> &'static str {
        "json"
    }

    fn file_suffix(&self) -> &'static str {
        "json"
    }

    fn description(&self) -> &'static str {
        "one complete session, for programs"
    }

    fn storage_of_several(&self) -> Together {
        Together::Instead("ndjson")
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn always_groups_results(&self) -> bool {
        false
    }

    fn create_writer<'o>(
        &self,
        out: &'o mut dyn ExportOutput,
        _: &ExportOptions,
    ) -> Box<dyn SessionWriter + 'o> {
        Box::new(JsonStream::new(out, "\n"))
    }
}

impl Format for NdjsonLines {
    fn format_name(&self) -> &'static str {
        "ndjson"
    }

    fn file_suffix(&self) -> &'static str {
        "ndjson"
    }

    fn description(&self) -> &'static str {
        "many sessions, one per line"
    }

    fn storage_of_several(&self) -> Together {
        Together::OneFile
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn always_groups_results(&self) -> bool {
        false
    }

    fn default_sub_agents(&self) -> Pick {
        Pick::With
    }

    fn create_writer<'o>(
        &self,
        out: &'o mut dyn ExportOutput,
        _: &ExportOptions,
    ) -> Box<dyn SessionWriter + 'o> {
        Box::new(JsonStream::new(out, ""))
    }
}

struct JsonStream<'o> {
    out: &'o mut dyn ExportOutput,
    /// The text after the comma between messages.
    gap: &'static str,
    graph: Graph,
    is_first: bool,
    /// The message being written, in one piece: compressing outputs should not get small writes.
    line: Vec<u8>,
}

impl<'o> JsonStream<'o> {
    fn new(out: &'o mut dyn ExportOutput, gap: &'static str) -> Self {
        Self { out, gap, graph: Graph::default(), is_first: true, line: Vec::new() }
    }
}

impl SessionWriter for JsonStream<'_> {
    fn begin_session(&mut self, frame: &SessionFrame<'_>) -> io::Result<()> {
        self.graph = frame.outline.build_graph();
        self.is_first = true;
        let head = serde_json::to_string(frame.head)?;
        let open = head.strip_suffix('}').expect("a head is an object");
        write!(self.out, "{open},\"messages\":[{}", self.gap)
    }

    fn write_message(&mut self, message: &DocumentMessage) -> io::Result<()> {
        self.line.clear();
        if !std::mem::take(&mut self.is_first) {
            self.line.push(b',');
            self.line.extend_from_slice(self.gap.as_bytes());
        }
        serde_json::to_writer(&mut self.line, message)?;
        self.out.write_all(&self.line)
    }

    fn end_session(&mut self) -> io::Result<()> {
        let graph = serde_json::to_string(&self.graph)?;
        writeln!(self.out, "{}],\"graph\":{graph}}}", self.gap)
    }
}
