//! The steps of a message from the journal to a format: it is converted, redacted and grouped.

use std::io;

use super::group::Grouper;
use super::schema::{DocumentBlock, DocumentMessage, OWN, UnifiedDocument};
use super::to_document::{PictureLoader, Shaper};
use super::{
    AgentLook, ExportOptions, ExportOutput, Format, Outline, Placement, Redactor, SessionFrame,
};
use crate::model;

/// The export of one session.
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
        pictures: Option<&'p PictureLoader<'p>>,
        placement: Placement,
        redactor: Option<&'p mut Redactor>,
    ) -> Self {
        let grouper = (placement == Placement::Grouped).then(Grouper::default);
        Self { shaper: Shaper::new(agent, pictures), grouper, redactor, leaves_out_tools: false }
    }

    /// Names only messages of the outline as parents.
    pub(crate) fn with_parents_of(mut self, outline: &'p Outline) -> Self {
        self.shaper.outline = Some(outline);
        self
    }

    /// Sets whether tool calls and their results are left out. Their messages stay, so that message
    /// numbers and the graph stay valid.
    pub(crate) fn without_tools(mut self, leaves_out_tools: bool) -> Self {
        self.leaves_out_tools = leaves_out_tools;
        self
    }

    /// Adds a message of the journal, and returns the messages that are ready to be written.
    pub(crate) fn take_ready_messages(
        &mut self,
        position: u64,
        message: model::Message,
    ) -> Vec<DocumentMessage> {
        let message = self.shaper.convert_message(position, message);
        self.redact_and_group(message)
    }

    fn redact_and_group(&mut self, mut message: DocumentMessage) -> Vec<DocumentMessage> {
        if self.leaves_out_tools {
            leave_out_tools(&mut message);
        }
        if let Some(redactor) = &mut self.redactor {
            redactor.redact_message(&mut message);
        }
        match &mut self.grouper {
            Some(grouper) => grouper.add_to_group(message),
            None => vec![message],
        }
    }

    /// Returns the messages that still wait.
    pub(crate) fn take_remaining(&mut self) -> Vec<DocumentMessage> {
        self.grouper.as_mut().map(Grouper::take_waiting).unwrap_or_default()
    }

    /// Returns the redactor, for sub-agents that are written inside the session.
    pub(crate) fn redactor_for_subagents(&mut self) -> Option<&mut Redactor> {
        self.redactor.as_deref_mut()
    }
}

/// Removes tool calls and their results from a message, and the agent's extensions of such a
/// message.
fn leave_out_tools(message: &mut DocumentMessage) {
    let is_tool = |block: &DocumentBlock| {
        matches!(block, DocumentBlock::ToolUse { .. } | DocumentBlock::ToolResult { .. })
    };
    if message.content.iter().any(is_tool) {
        message.content.retain(|block| !is_tool(block));
        message.extensions.retain(|name, _| name == OWN);
    }
}

/// Writes a document that was exported before.
pub fn replay_document(
    document: &UnifiedDocument,
    agent: AgentLook,
    format: &dyn Format,
    options: &ExportOptions,
    out: &mut dyn ExportOutput,
) -> io::Result<()> {
    let outline = Outline::from_document(document);
    let mut redactor = options.redactor.clone();
    let mut head = document.document_head();
    if let Some(redactor) = &mut redactor {
        redactor.redact_session(&mut head.session);
    }
    let mut writer = format.create_writer(out, options);
    let mut pipe =
        Pipe::new(&document.agent, None, options.result_placement(format), redactor.as_mut());
    writer.begin_session(&SessionFrame { head: &head, outline: &outline, agent })?;
    for message in &document.messages {
        for ready in pipe.redact_and_group(message.clone()) {
            writer.write_message(&ready)?;
        }
    }
    for ready in pipe.take_remaining() {
        writer.write_message(&ready)?;
    }
    writer.end_session()
}
