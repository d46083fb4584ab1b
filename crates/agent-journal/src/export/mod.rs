//! Export of sessions. A session is converted to the unified document, and a format writes it
//! message by message, so that no session is too large. Formats only use the types of the document:
//! exporting from a document and exporting from the journal give the same result.
//!
//! Adding a format takes one file here and one line in [`FORMATS`].

pub mod redact;
pub mod schema;

mod additional;
mod from_document;
mod graph;
mod group;
mod html;
mod json;
mod markdown;
#[cfg(feature = "parquet")]
mod parquet;
mod pipeline;
mod read;
mod to_document;

#[cfg(test)]
mod tests;

#[cfg(feature = "parquet")]
pub use self::parquet::OpenTableFile;
pub use graph::Outline;
pub use html::Keep;
pub use pipeline::replay_document;
pub use redact::{Finding, NamedText, RedactionCounts, Redactor};

#[cfg(feature = "parquet")]
pub(crate) use self::parquet::{Tables, UsageRowCells};
pub(crate) use from_document::{message_from_document, session_from_head};
pub(crate) use graph::Sketch;
pub(crate) use group::Grouper;
pub(crate) use html::{Fragment, make_visible};
pub(crate) use pipeline::Pipe;
pub(crate) use read::{
    DocumentPart, LimitedInput, Surveyed, Trouble, read_documents, survey_documents,
};
pub(crate) use to_document::{Shaper, to_document_session};

use std::io::{self, Write};

use schema::{DocumentMessage, Head};

/// All formats. The one for people is the first.
pub const FORMATS: &[&dyn Format] = &[
    &html::Html,
    &markdown::Markdown,
    &json::JsonDocument,
    &json::NdjsonLines,
    #[cfg(feature = "parquet")]
    &parquet::Parquet,
];

/// A file format for sessions.
pub trait Format: Sync {
    /// Returns the name of the format, as on the command line.
    fn format_name(&self) -> &'static str;

    /// Returns the file extension, without the dot.
    fn file_suffix(&self) -> &'static str;

    /// Returns a description of a few words.
    fn description(&self) -> &'static str;

    /// Returns how the format stores several sessions.
    fn storage_of_several(&self) -> Together;

    /// Returns whether secrets are removed unless the caller refuses, because the format is made to
    /// be shared with other people.
    fn is_shared(&self) -> bool;

    /// Returns whether tool results are always grouped with their calls, independent of the
    /// options.
    fn always_groups_results(&self) -> bool;

    /// Returns whether sub-agents are exported by default: inside their parent, or as sessions of
    /// their own if the format stores all sessions in one file.
    fn default_sub_agents(&self) -> Pick {
        Pick::Without
    }

    /// Creates a writer for one session.
    fn create_writer<'o>(
        &self,
        out: &'o mut dyn ExportOutput,
        options: &ExportOptions,
    ) -> Box<dyn SessionWriter + 'o>;

    /// Renders a page that links to several files. Returns `None` if the format has no such page.
    fn render_index(&self, _sessions: &[Listed], _theme: Theme) -> Option<String> {
        None
    }
}

/// The way a format stores several sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// One file with one session after the other.
    OneFile,
    /// Not supported. The named format is used instead.
    Instead(&'static str),
    /// A directory with one file per session.
    Directory,
    /// A directory with tables over all sessions.
    Tables,
}

/// Writes one session, with its sub-agents inside it.
pub trait SessionWriter {
    /// Begins a session. A session that begins before another one has ended is part of it.
    fn begin_session(&mut self, frame: &SessionFrame<'_>) -> io::Result<()>;

    /// Writes the next message.
    fn write_message(&mut self, message: &DocumentMessage) -> io::Result<()>;

    /// Ends the session that was begun last.
    fn end_session(&mut self) -> io::Result<()>;
}

/// The output of a format: one or more files.
pub trait ExportOutput: Write {
    /// Begins a new turn. Returns whether a new file begins with it.
    fn begin_turn(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Begins a message that may be loaded later. Its id on the page is `{prefix}m{number}`.
    fn begin_part(&mut self, _prefix: &str, _number: u64) {}

    /// Ends a message that may be loaded later.
    fn end_lazy_part(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Any writer, as the output of a single file.
pub struct SingleFileOutput<W: Write>(pub W);

impl<W: Write> Write for SingleFileOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> ExportOutput for SingleFileOutput<W> {}

/// The facts about a session that a writer gets before the first message.
pub struct SessionFrame<'f> {
    /// The head of the document.
    pub head: &'f Head,
    /// The order and the branches of the messages.
    pub outline: &'f Outline,
    /// The name and colour of the agent.
    pub agent: AgentLook,
}

/// The display name and colour of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentLook {
    /// The display name.
    pub name: String,
    /// The colour as red, green and blue.
    pub color: (u8, u8, u8),
}

/// A session on the index page of an export.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The file that contains the session, relative to the index page.
    pub file: String,
    /// The head of the document.
    pub head: Head,
    /// The name and colour of the agent.
    pub agent: AgentLook,
}

/// The options of an export.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// The level of detail.
    pub detail: DetailLevel,
    /// The colours of a page.
    pub theme: Theme,
    /// The position of tool results.
    pub placement: Placement,
    /// Whether pictures are included or only described.
    pub pictures: Pick,
    /// Whether sub-agents are written inside their parent.
    pub sub_agents: Pick,
    /// Whether Markdown keeps pictures and pages that a viewer would fetch from another machine.
    pub remote_images: Pick,
    /// Whether tool calls and their results are left out of the JSON formats, too.
    pub leaves_out_tools: bool,
    /// The redactor that removes secrets; `None` keeps them.
    pub redactor: Option<Redactor>,
    /// The size of the part of a page that is markup from the beginning.
    pub at_once: AtOnce,
}

/// The number of bytes of a page that are markup from the beginning. The script of the page loads
/// the rest when the reader scrolls near it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtOnce(pub u64);

impl Default for AtOnce {
    fn default() -> Self {
        Self(2 << 20)
    }
}

impl ExportOptions {
    /// Returns the position of tool results in a format. Some formats ignore the option.
    pub(crate) fn result_placement(&self, format: &dyn Format) -> Placement {
        if format.always_groups_results() { Placement::Grouped } else { self.placement }
    }
}

/// Whether a part of a session is exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// It is left out.
    #[default]
    Without,
    /// It is exported.
    With,
}

/// The level of detail for people. Each level includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DetailLevel {
    /// Prompts and final replies.
    Answers,
    /// Tool calls, one line each.
    Actions,
    /// Inputs and outputs of tools, and reasoning.
    #[default]
    Tools,
    /// The metadata of every message, and injected text.
    Everything,
}

/// The colours of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Light text on a dark background.
    #[default]
    Dark,
    /// Dark text on a light background.
    Light,
    /// The setting of the reader's system.
    Auto,
}

/// The position of tool results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// In messages of their own, as they were recorded.
    #[default]
    Separate,
    /// Behind the call they answer.
    Grouped,
}

/// Finds a format by its name or file extension.
pub fn find_format(name: &str) -> Option<&'static dyn Format> {
    FORMATS
        .iter()
        .copied()
        .find(|format| format.format_name() == name || format.file_suffix() == name)
}
