//! Where do texts lie, and which are near? A flat file of vectors, appended to by one writer and
//! mapped into memory by readers. Like every index it may be deleted at any time.
//!
//! A reading thread fills [`Rows`] (see `embed::embed_passage`), which are ready to be written.
//! The writer, which holds the journal's lock, takes them in the order in which they were told:
//! [`VectorWriter::truncate`] from the first message that is told again,
//! [`VectorWriter::append`] what is new, and [`VectorWriter::commit`] with the journal's
//! generation; what was not committed is not there after a crash. A search opens [`Vectors`] and asks [`Vectors::search`].
//!
//! Vectors of two embedders cannot be compared, so each [`Shape`] has a file of its own: while
//! one for a new embedder is filled from the store, the old one answers.

mod file;
mod reader;
mod rows;
mod search;
mod writer;

pub(crate) use reader::Vectors;
pub(crate) use rows::{Key, Place, Rows};
pub(crate) use search::Near;
pub(crate) use writer::VectorWriter;

use crate::config::Precision;

/// What the vectors in a file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The journal they were made from.
    pub(crate) journal: i64,
    /// The id of the embedder that made them.
    pub(crate) embedder: String,
    /// How many components each has.
    pub(crate) dimensions: usize,
    /// How exactly they are kept.
    pub(crate) precision: Precision,
}

impl Precision {
    /// The bytes of one component.
    fn width(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 => 4,
        }
    }
}

#[cfg(test)]
mod tests;
