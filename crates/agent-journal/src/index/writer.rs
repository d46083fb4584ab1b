//! Both indexes as those that read see them: what is told goes to words and to meanings alike.

use super::lexical::PreparedLexical;
use super::passages::of_message;
use super::{Calls, LexicalWriter, Passage, SemanticWriter, Stamped, TextKind};
use crate::error::Result;
use crate::model::{Message, Timestamp};

/// The indexes, open for writing. Readers see nothing before a commit.
pub(crate) struct IndexWriter {
    pub(crate) lexical: LexicalWriter,
    /// None when nothing is found by meaning, or when that must wait for its own time.
    pub(crate) semantic: Option<SemanticWriter>,
    /// Whether the model's reasoning can be found.
    pub(crate) thinking: bool,
}

/// What was written and is not visible yet.
pub(crate) struct Prepared<'a> {
    lexical: PreparedLexical<'a>,
    semantic: Option<&'a SemanticWriter>,
}

impl Prepared<'_> {
    /// Makes what was written visible, as of a generation of the journal.
    pub(crate) fn commit(self, generation: i64) -> Result<()> {
        self.lexical.commit(generation)?;
        self.semantic.map_or(Ok(()), |semantic| semantic.commit(generation))
    }
}

/// The indexes that are written to: one of them when only that is behind.
#[derive(Clone, Copy)]
pub(crate) struct Targets<'a> {
    pub(crate) lexical: Option<&'a LexicalWriter>,
    pub(crate) semantic: Option<&'a SemanticWriter>,
    pub(crate) thinking: bool,
}

impl IndexWriter {
    /// All indexes there are.
    pub(crate) fn targets(&self) -> Targets<'_> {
        Targets {
            lexical: Some(&self.lexical),
            semantic: self.semantic.as_ref(),
            thinking: self.thinking,
        }
    }

    /// Writes everything since the last commit.
    pub(crate) fn prepare(&mut self) -> Result<Prepared<'_>> {
        Ok(Prepared { lexical: self.lexical.prepare()?, semantic: self.semantic.as_ref() })
    }

    /// Waits for what is under way.
    pub(crate) fn close(self) -> Result<()> {
        self.lexical.close()
    }
}

impl Targets<'_> {
    /// Makes a message findable; `calls` knows those of tools made before it.
    pub(crate) fn message(
        &self,
        (telling, position): (u64, u64),
        message: &Message,
        calls: &mut Calls,
    ) -> Result<()> {
        let at = message.at.map_or(0, Timestamp::as_millis);
        let position = Some(position);
        let (mut added, mut rows) = (Ok(()), None);
        of_message(message, calls, &mut |passage| {
            if added.is_err() || (passage.kind == TextKind::Thinking && !self.thinking) {
                return;
            }
            if let Some(semantic) = self.semantic {
                semantic.embed((telling, position), &passage, &mut rows);
            }
            if let Some(lexical) = self.lexical {
                added = lexical.add(&Stamped { telling, position, at, passage });
            }
        });
        added?;
        self.semantic.map_or(Ok(()), |semantic| semantic.append(rows))
    }

    /// Makes a text about a telling as a whole findable.
    pub(crate) fn whole(&self, telling: u64, at: i64, passage: Passage<'_>) -> Result<()> {
        if let Some(semantic) = self.semantic {
            let mut rows = None;
            semantic.embed((telling, None), &passage, &mut rows);
            semantic.append(rows)?;
        }
        let stamped = Stamped { telling, position: None, at, passage };
        self.lexical.map_or(Ok(()), |lexical| lexical.add(&stamped))
    }

    /// Notes that this thread adds nothing more for now: others need not wait for it.
    pub(crate) fn rest(&self) {
        self.lexical.iter().for_each(|lexical| lexical.rest());
    }

    /// Forgets a telling as a whole.
    pub(crate) fn remove(&self, telling: u64) -> Result<()> {
        if let Some(semantic) = self.semantic {
            semantic.remove(telling);
        }
        self.lexical.map_or(Ok(()), |lexical| lexical.remove(telling))
    }

    /// Forgets the messages of a telling from a position on.
    pub(crate) fn truncate(&self, telling: u64, from: u64) -> Result<()> {
        if let Some(semantic) = self.semantic {
            semantic.truncate(telling, from);
        }
        self.lexical.map_or(Ok(()), |lexical| lexical.truncate(telling, from))
    }

    /// Forgets what is about a telling as a whole.
    pub(crate) fn remove_whole(&self, telling: u64) -> Result<()> {
        if let Some(semantic) = self.semantic {
            semantic.remove_whole(telling);
        }
        self.lexical.map_or(Ok(()), |lexical| lexical.remove_whole(telling))
    }
}
