//! The way of a message from the journal to the page: shaped, cleaned of secrets, grouped.

use std::io;

use super::group::Grouper;
use super::schema::{Block, Document, Message, OWN};
use super::shape::{Pictures, Shaper};
use super::{AgentLook, Format, Frame, Options, Outline, Output, Placement, Redactor};
use crate::model;

/// One session on its way out.
pub(crate) struct Pipe<'p> {
    shaper: Shaper<'p>,
    grouper: Option<Grouper>,
    redactor: Option<&'p mut Redactor>,
    leaves_out_tools: bool,
}

impl<'p> Pipe<'p> {
    /// Begins a session.
    pub(crate) fn new(
        agent: &str,
        pictures: Option<&'p Pictures<'p>>,
        placement: Placement,
        redactor: Option<&'p mut Redactor>,
    ) -> Self {
        let grouper = (placement == Placement::Grouped).then(Grouper::default);
        Self { shaper: Shaper::new(agent, pictures), grouper, redactor, leaves_out_tools: false }
    }

    /// Names as parents only messages that the outline has.
    pub(crate) fn with_parents_of(mut self, outline: &'p Outline) -> Self {
        self.shaper.outline = Some(outline);
        self
    }

    /// Leaves out calls of tools and their results. Their messages stay, so that numbers and the
    /// graph hold.
    pub(crate) fn without_tools(mut self, leaves_out_tools: bool) -> Self {
        self.leaves_out_tools = leaves_out_tools;
        self
    }

    /// Takes a message of the journal, and gives those that are ready to be written.
    pub(crate) fn take(&mut self, position: u64, message: model::Message) -> Vec<Message> {
        let message = self.shaper.message(position, message);
        self.shaped(message)
    }

    /// Gives a stored message as a line of the document, appended to `out`; whether it could: not
    /// when something is to be taken out, put elsewhere or fetched.
    pub(crate) fn line(&mut self, position: u64, stored: &[u8], out: &mut Vec<u8>) -> bool {
        let is_plain = self.grouper.is_none() && self.redactor.is_none() && !self.leaves_out_tools;
        is_plain && self.shaper.line(position, stored, out)
    }

    fn shaped(&mut self, mut message: Message) -> Vec<Message> {
        if self.leaves_out_tools {
            leave_out_tools(&mut message);
        }
        if let Some(redactor) = &mut self.redactor {
            redactor.message(&mut message);
        }
        match &mut self.grouper {
            Some(grouper) => grouper.add(message),
            None => vec![message],
        }
    }

    /// Gives what still waits.
    pub(crate) fn rest(&mut self) -> Vec<Message> {
        self.grouper.as_mut().map(Grouper::finish).unwrap_or_default()
    }

    /// What takes secrets out, for whoever writes something in between.
    pub(crate) fn redactor(&mut self) -> Option<&mut Redactor> {
        self.redactor.as_deref_mut()
    }
}

/// Takes calls of tools and their results out of a message, with what the agent recorded beside
/// its content.
fn leave_out_tools(message: &mut Message) {
    let is_tool = |block: &Block| matches!(block, Block::ToolUse { .. } | Block::ToolResult { .. });
    if message.content.iter().any(is_tool) {
        message.content.retain(|block| !is_tool(block));
        message.extensions.retain(|name, _| name == OWN);
    }
}

/// Writes a document that was exported before.
pub fn replay(
    document: &Document,
    agent: AgentLook,
    format: &dyn Format,
    options: &Options,
    out: &mut dyn Output,
) -> io::Result<()> {
    let outline = Outline::of(document);
    let mut redactor = options.redactor.clone();
    let mut head = document.head();
    if let Some(redactor) = &mut redactor {
        redactor.session(&mut head.session);
    }
    let mut writer = format.writer(out, options);
    let mut pipe = Pipe::new(&document.agent, None, options.placement(format), redactor.as_mut());
    writer.begin(&Frame { head: &head, outline: &outline, agent })?;
    for message in &document.messages {
        for ready in pipe.shaped(message.clone()) {
            writer.message(&ready)?;
        }
    }
    for ready in pipe.rest() {
        writer.message(&ready)?;
    }
    writer.end()
}
