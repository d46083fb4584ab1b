//! Stores embedding vectors and finds the nearest ones. One writer appends to a flat file, which
//! readers map into memory. Like every index it may be deleted at any time.
//!
//! A reading thread fills [`VectorRows`] (see `embed::embed_passage`), which are ready to be written. The
//! writer, which holds the journal's lock, applies changes in the order in which they were
//! recorded: [`VectorWriter::truncate`] from the first message that changed,
//! [`VectorWriter::append`] for new rows, and [`VectorWriter::commit`] with the journal's
//! generation; uncommitted data is lost after a crash. A search opens [`Vectors`] and calls
//! [`Vectors::search`].
//!
//! Vectors of two embedders cannot be compared, so each [`VectorShape`] has a file of its own: while the
//! file for a new embedder is filled from the store, the old one is searched.

mod file;
mod reader;
mod rows;
mod search;
mod writer;

pub(crate) use reader::Vectors;
pub(crate) use rows::{VectorKey, VectorPlace, VectorRows};
pub(crate) use search::NearVector;
pub(crate) use writer::VectorWriter;

use crate::config::Precision;

/// The properties of the vectors in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VectorShape {
    /// The id of the journal they were made from.
    pub(crate) journal: i64,
    /// The id of the embedder that made them.
    pub(crate) embedder: String,
    /// The number of components of each vector.
    pub(crate) dimensions: usize,
    /// The precision of the stored components.
    pub(crate) precision: Precision,
}

impl Precision {
    /// Returns the bytes of one component.
    fn width(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 => 4,
        }
    }
}

#[cfg(test)]
mod tests;
