//! How does an entry leave? A session is given the shape of the unified document, and a format
//! writes it down, message by message, so that no session is ever too large. Every format writes
//! from the document's types alone: what is made of an exported document equals what is made of
//! the journal.
//!
//! Adding a format is one file here and one line in [`FORMATS`].

pub mod redact;
pub mod schema;

mod additional;
mod describe;
mod graph;
mod group;
mod html;
mod json;
mod lane;
mod markdown;
#[cfg(feature = "parquet")]
mod parquet;
mod pipe;
mod read;
mod shape;
mod unshape;

#[cfg(test)]
mod tests;

#[cfg(feature = "parquet")]
pub use self::parquet::Open;
pub use graph::Outline;
pub use html::Keep;
pub use pipe::replay;
pub use redact::{Finding, NamedText, Redactions, Redactor};

#[cfg(feature = "parquet")]
pub(crate) use self::parquet::{Spending, Tables};
pub(crate) use graph::Sketch;
pub(crate) use group::Grouper;
pub(crate) use html::{Fragment, visible};
pub(crate) use pipe::Pipe;
pub(crate) use read::{Part, Surveyed, Trouble, documents, survey};
pub(crate) use shape::{Shaper, session};
pub(crate) use unshape::{message as told_message, session as told_session};

use std::io::{self, Write};

use schema::{Head, Message};

/// Every format, the one for people first.
pub const FORMATS: &[&dyn Format] = &[
    &html::Html,
    &markdown::Markdown,
    &json::Document,
    &json::Lines,
    #[cfg(feature = "parquet")]
    &parquet::Parquet,
];

/// A way to write sessions down.
pub trait Format: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// What its files are called, after the dot.
    fn suffix(&self) -> &'static str;

    /// What it is good for, in a few words.
    fn about(&self) -> &'static str;

    /// How several sessions leave together.
    fn together(&self) -> Together;

    /// Whether it is made for other people's eyes: secrets are taken out unless refused.
    fn is_shared(&self) -> bool;

    /// Whether results of tools stand with their calls, whatever the options say.
    fn groups(&self) -> bool;

    /// Whether sub-agents go along unless the caller says otherwise: inside their parent, or as
    /// sessions of their own where sessions leave in one file.
    fn sub_agents(&self) -> Pick {
        Pick::Without
    }

    /// Begins to write.
    fn writer<'o>(&self, out: &'o mut dyn Output, options: &Options) -> Box<dyn Writer + 'o>;

    /// Writes a page that leads to several files; `None` when the format has no such page.
    fn index(&self, _sessions: &[Listed], _theme: Theme) -> Option<String> {
        None
    }
}

/// How several sessions leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// One file, one session after the other.
    OneFile,
    /// This format cannot, the named one can.
    Instead(&'static str),
    /// A directory with a file for each.
    Directory,
    /// A directory with tables of what is in all of them.
    Tables,
}

/// Writes one session, and the sessions it started inside it.
pub trait Writer {
    /// Begins a session; one that begins before another has ended is a part of it.
    fn begin(&mut self, frame: &Frame<'_>) -> io::Result<()>;

    /// Writes the next message.
    fn message(&mut self, message: &Message) -> io::Result<()>;

    /// Ends the session begun last.
    fn end(&mut self) -> io::Result<()>;

    /// Whoever takes messages as the JSON of the document, when the format is that.
    fn lines(&mut self) -> Option<&mut dyn Lines> {
        None
    }
}

/// Takes messages as the JSON of the document.
pub trait Lines {
    /// Writes the next message.
    fn line(&mut self, json: &[u8]) -> io::Result<()>;
}

/// Where a format writes.
pub trait Output: Write {
    /// Tells that a new turn begins, and learns whether it begins another file.
    fn turn(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Tells that a message begins which need not be there at once: what stands before its
    /// number in its id, and the number.
    fn begin_part(&mut self, _prefix: &str, _number: u64) {}

    /// Tells that it is complete.
    fn end_part(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Any writer as an output of one piece.
pub struct Whole<W: Write>(pub W);

impl<W: Write> Write for Whole<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<W: Write> Output for Whole<W> {}

/// What is known before the first message.
pub struct Frame<'f> {
    /// The document's head.
    pub head: &'f Head,
    /// How the messages follow each other.
    pub outline: &'f Outline,
    /// The agent as people know it.
    pub agent: AgentLook,
}

/// An agent as people know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentLook {
    /// Its name.
    pub name: String,
    /// Its colour.
    pub color: (u8, u8, u8),
}

/// A session in an index of many.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The file it was written to.
    pub file: String,
    /// The document's head.
    pub head: Head,
    /// The agent as people know it.
    pub agent: AgentLook,
}

/// How sessions are written down.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How much of a session.
    pub detail: Detail,
    /// The colours of a page.
    pub theme: Theme,
    /// Where results of tools stand.
    pub placement: Placement,
    /// Whether pictures go along or are only described.
    pub pictures: Pick,
    /// Whether the sessions of sub-agents are told inside their parent's.
    pub sub_agents: Pick,
    /// Whether Markdown keeps pictures and pages that a viewer would fetch from elsewhere.
    pub remote_images: Pick,
    /// Whether calls of tools and their results stay out of the document's own formats, too.
    pub leaves_out_tools: bool,
    /// What takes secrets out.
    pub redactor: Option<Redactor>,
    /// How much of a page is there before its reader comes near.
    pub at_once: AtOnce,
}

/// How many bytes of a page are there at once. What follows waits for its reader, who then needs
/// script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtOnce(pub u64);

impl Default for AtOnce {
    fn default() -> Self {
        Self(2 << 20)
    }
}

impl Options {
    /// Where results stand in a format: some have no choice.
    pub(crate) fn placement(&self, format: &dyn Format) -> Placement {
        if format.groups() { Placement::Grouped } else { self.placement }
    }
}

/// Whether something goes along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// It stays.
    #[default]
    Without,
    /// It goes along.
    With,
}

/// How much of a session is written for people, each with all that the one before it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Prompts and final answers.
    Answers,
    /// What was done, a line each.
    Actions,
    /// Inputs and outputs of tools, and reasoning.
    #[default]
    Tools,
    /// The circumstances of every message, and what the program put in.
    Everything,
}

/// The colours of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Light on dark.
    #[default]
    Dark,
    /// Dark on light.
    Light,
    /// As the reader's system has it.
    Auto,
}

/// Where results of tools stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// In messages of their own, as they were recorded.
    #[default]
    Separate,
    /// Behind the call they answer.
    Grouped,
}

/// Finds a format by its name or suffix.
pub fn format(name: &str) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.name() == name || format.suffix() == name)
}
