//! The way of a message from the journal to the page: shaped, cleaned of secrets, grouped,
//! written.

use std::io;

use super::group::Grouper;
use super::schema::{Document, Message};
use super::shape::{Pictures, Shaper};
use super::{AgentLook, Format, Frame, Options, Outline, Output, Placement, Redactor, Writer};
use crate::model;

/// One session on its way out.
pub(crate) struct Pipe<'p> {
    shaper: Shaper<'p>,
    grouper: Option<Grouper>,
    redactor: Option<&'p mut Redactor>,
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
        Self { shaper: Shaper::new(agent, pictures), grouper, redactor }
    }

    /// Writes a message of the journal.
    pub(crate) fn message(
        &mut self,
        writer: &mut dyn Writer,
        position: u64,
        message: model::Message,
    ) -> io::Result<()> {
        let message = self.shaper.message(position, message);
        self.shaped(writer, message)
    }

    fn shaped(&mut self, writer: &mut dyn Writer, mut message: Message) -> io::Result<()> {
        if let Some(redactor) = &mut self.redactor {
            redactor.message(&mut message);
        }
        let Some(grouper) = &mut self.grouper else { return writer.message(&message) };
        for message in grouper.add(message) {
            writer.message(&message)?;
        }
        Ok(())
    }

    /// Writes what still waits.
    pub(crate) fn finish(&mut self, writer: &mut dyn Writer) -> io::Result<()> {
        for message in self.grouper.iter_mut().flat_map(Grouper::finish) {
            writer.message(&message)?;
        }
        Ok(())
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
    let outline = Outline::of(&document.messages);
    let mut redactor = options.redactor.clone();
    let mut head = document.head();
    if let Some(redactor) = &mut redactor {
        redactor.session(&mut head.session);
    }
    let mut writer = format.writer(out, options);
    let mut pipe = Pipe::new(&document.agent, None, options.placement(format), redactor.as_mut());
    writer.begin(&Frame { head: &head, outline: &outline, agent })?;
    for message in &document.messages {
        pipe.shaped(&mut *writer, message.clone())?;
    }
    pipe.finish(&mut *writer)?;
    writer.end()
}
