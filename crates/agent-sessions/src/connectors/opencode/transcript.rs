//! Emits the messages of one session, and derives from them what belongs to the session.

use super::document::OpenCodeRevert;
use super::message::{ConvertedMessage, RecordFacts};
use crate::connectors::formats::json::BorrowedText;
use crate::connectors::{Record, Sink};
use crate::error::Result;
use crate::model::{Continuation, Json, Message, Session, Timestamp};

/// The extension that marks messages that were taken back.
const REVERTED: &str = "reverted";

/// Emits the messages of one session.
pub(super) struct TranscriptWriter<'s> {
    sink: &'s mut dyn Sink,
    session: Session,
    /// Start of the session. Older messages of a fork were copied.
    created: Option<Timestamp>,
    /// Id of the message from which on the conversation was taken back.
    reverted_from: Option<String>,
    is_reverted: bool,
    /// Number of messages emitted so far, and of those copied from another session.
    emitted: u64,
    copied: u64,
    /// Time of the last copied record.
    copied_to: Option<Timestamp>,
    has_own: bool,
}

impl<'s> TranscriptWriter<'s> {
    /// Emits the session that the following messages belong to.
    pub(super) fn begin_session(
        session: Session,
        created: Option<Timestamp>,
        revert: Option<OpenCodeRevert<'_>>,
        sink: &'s mut dyn Sink,
    ) -> Result<Self> {
        sink.accept_record(Record::Session(Box::new(session.clone())))?;
        // Of a message that was taken back in part, the beginning stays.
        let is_part = revert.as_ref().is_some_and(|revert| revert.part.is_some());
        let message = revert.and_then(|revert| revert.message).map(BorrowedText::into_owned);
        Ok(Self {
            sink,
            session,
            created,
            reverted_from: message.filter(|_| !is_part),
            is_reverted: false,
            emitted: 0,
            copied: 0,
            copied_to: None,
            has_own: false,
        })
    }

    /// Emits a converted record. `at` is its position in the source.
    pub(super) fn emit_converted(
        &mut self,
        id: &str,
        converted: ConvertedMessage,
        facts: RecordFacts,
        at: u64,
    ) -> Result<()> {
        self.is_reverted |= self.reverted_from.as_deref() == Some(id);
        let is_copy = self.is_copied(facts.began);
        if is_copy {
            self.copied_to = facts.began;
        } else {
            self.session.extend_time_span(facts.began);
            self.session.extend_time_span(facts.ended);
            for file in facts.files {
                if !self.session.files.contains(&file) {
                    self.session.files.push(file);
                }
            }
        }
        match converted {
            ConvertedMessage::Messages(messages) => {
                self.has_own |= !is_copy;
                messages.into_iter().try_for_each(|message| self.emit_message(message, is_copy))
            }
            ConvertedMessage::PassedOver(reason) => {
                self.sink.accept_record(Record::passed_over_record(at, reason))
            }
            ConvertedMessage::Unreadable => self.skip_record(at, "not a message"),
        }
    }

    /// Reports a record that cannot be read.
    pub(super) fn skip_record(&mut self, at: u64, reason: &'static str) -> Result<()> {
        self.sink.accept_record(Record::unreadable_record(at, reason))
    }

    fn emit_message(&mut self, mut message: Message, is_copy: bool) -> Result<()> {
        self.emitted += 1;
        if is_copy {
            self.copied = self.emitted;
        }
        if self.is_reverted {
            message.extensions.insert(REVERTED.to_owned(), Json::from_value(&true));
        }
        if self.session.cwd.is_none() {
            self.session.cwd.clone_from(&message.cwd);
        }
        self.sink.accept_record(Record::Message(Box::new(message)))
    }

    /// Returns whether a record was copied from another session.
    fn is_copied(&self, at: Option<Timestamp>) -> bool {
        !self.has_own && at.zip(self.created).is_some_and(|(at, created)| at < created)
    }

    /// Emits the final metadata of the session. `find_origin` returns the session from which a fork
    /// copied its beginning, where it can be found; it receives the time of the last copied record.
    pub(super) fn finish_session(
        mut self,
        find_origin: impl FnOnce(Option<Timestamp>) -> Result<Option<String>>,
    ) -> Result<()> {
        if self.session.started_at.is_none() {
            self.session.extend_time_span(self.created);
        }
        if self.copied > 0 {
            self.session.begins_with_copy = true;
            let messages = self.copied;
            self.session.continues =
                find_origin(self.copied_to)?.map(|session| Continuation { session, messages });
        }
        self.sink.accept_record(Record::Session(Box::new(self.session)))
    }
}
