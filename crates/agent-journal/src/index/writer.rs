//! Writes messages and texts to both indexes, of words and of meanings.

use super::lexical::PreparedLexical;
use super::passages::of_message;
use super::{KnownCalls, LexicalWriter, Passage, SemanticWriter, StampedPassage};
use crate::error::Result;
use crate::filter::TextKind;
use crate::model::{Message, Timestamp};

/// The indexes, open for writing. Readers see nothing before a commit.
pub(crate) struct IndexWriter {
    pub(crate) lexical: LexicalWriter,
    /// The index of meanings; `None` when nothing is found by meaning, or when it is updated
    /// separately.
    pub(crate) semantic: Option<SemanticWriter>,
    /// Whether the model's reasoning is indexed.
    pub(crate) thinking: bool,
}

/// A commit that is written and not visible yet.
pub(crate) struct Prepared<'a> {
    lexical: PreparedLexical<'a>,
    semantic: Option<&'a SemanticWriter>,
}

impl Prepared<'_> {
    /// Makes the written data visible, as of a generation of the journal.
    pub(crate) fn commit(self, generation: i64) -> Result<()> {
        self.lexical.commit(generation)?;
        self.semantic.map_or(Ok(()), |semantic| semantic.commit(generation))
    }
}

/// The indexes to write to: only one of them if the other is up to date.
#[derive(Clone, Copy)]
pub(crate) struct IndexTargets<'a> {
    pub(crate) lexical: Option<&'a LexicalWriter>,
    pub(crate) semantic: Option<&'a SemanticWriter>,
    pub(crate) thinking: bool,
}

impl IndexWriter {
    /// Returns all open indexes.
    pub(crate) fn targets(&self) -> IndexTargets<'_> {
        IndexTargets {
            lexical: Some(&self.lexical),
            semantic: self.semantic.as_ref(),
            thinking: self.thinking,
        }
    }

    /// Writes everything since the last commit.
    pub(crate) fn prepare(&mut self) -> Result<Prepared<'_>> {
        Ok(Prepared { lexical: self.lexical.prepare()?, semantic: self.semantic.as_ref() })
    }

    /// Waits for running merges.
    pub(crate) fn close(self) -> Result<()> {
        self.lexical.close()
    }
}

impl IndexTargets<'_> {
    /// Indexes a message; `calls` holds the earlier tool calls.
    pub(crate) fn message(
        &self,
        recording: u64,
        position: u64,
        message: &Message,
        calls: &mut KnownCalls,
    ) -> Result<()> {
        let at = message.at.map_or(0, Timestamp::as_millis);
        let position = Some(position);
        let (mut added, mut rows) = (Ok(()), None);
        of_message(message, calls, &mut |passage| {
            if added.is_err() || (passage.kind == TextKind::Thinking && !self.thinking) {
                return;
            }
            if let Some(semantic) = self.semantic {
                semantic.embed(recording, position, &passage, &mut rows);
            }
            if let Some(lexical) = self.lexical {
                added = lexical.add(&StampedPassage { recording, position, at, passage });
            }
        });
        added?;
        self.semantic.map_or(Ok(()), |semantic| semantic.append(rows))
    }

    /// Indexes a text about a whole recording.
    pub(crate) fn whole(&self, recording: u64, at: i64, passage: Passage<'_>) -> Result<()> {
        if let Some(semantic) = self.semantic {
            let mut rows = None;
            semantic.embed(recording, None, &passage, &mut rows);
            semantic.append(rows)?;
        }
        let stamped = StampedPassage { recording, position: None, at, passage };
        self.lexical.map_or(Ok(()), |lexical| lexical.add(&stamped))
    }

    /// Lets other threads continue: this thread adds nothing more for now.
    pub(crate) fn rest(&self) {
        self.lexical.iter().for_each(|lexical| lexical.rest());
    }

    /// Removes a recording completely.
    pub(crate) fn remove(&self, recording: u64) -> Result<()> {
        if let Some(semantic) = self.semantic {
            semantic.remove(recording);
        }
        self.lexical.map_or(Ok(()), |lexical| lexical.remove(recording))
    }

    /// Removes the messages of a recording from a position on.
    pub(crate) fn truncate(&self, recording: u64, from: u64) -> Result<()> {
        if let Some(semantic) = self.semantic {
            semantic.truncate(recording, from);
        }
        self.lexical.map_or(Ok(()), |lexical| lexical.truncate(recording, from))
    }

    /// Removes the texts about a whole recording.
    pub(crate) fn remove_whole(&self, recording: u64) -> Result<()> {
        if let Some(semantic) = self.semantic {
            semantic.remove_whole(recording);
        }
        self.lexical.map_or(Ok(()), |lexical| lexical.remove_whole(recording))
    }
}
