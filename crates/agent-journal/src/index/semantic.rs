//! The index of meanings: an embedder and the file with its vectors.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::Passage;
use super::embed::{AnyEmbedder, always, choose, embed_passage, has_meaning};
use super::vectors::{NearVector, VectorRows, VectorShape, VectorWriter, Vectors};
use crate::config::{Config, Precision};
use crate::error::Result;

/// The prefix of vector files.
const PREFIX: &str = "vectors-";

/// An embedder with its vector file.
pub(crate) struct Semantic {
    embedder: AnyEmbedder,
    shape: VectorShape,
    path: PathBuf,
}

/// The share of the journal that can be found by meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// The name of the embedder in use; `None` when nothing is found by meaning.
    pub embedder: Option<String>,
    /// The number of searchable texts: windows of messages, titles and documents.
    pub vectors: u64,
    /// The number of sessions whose texts are all searchable.
    pub covered: u64,
    /// The total number of sessions.
    pub sessions: u64,
    /// The reason why the user's own model is not used.
    pub problem: Option<String>,
}

/// The index, open for writing. Readers see nothing before a commit.
pub(crate) struct SemanticWriter {
    semantic: Semantic,
    writer: Mutex<VectorWriter>,
}

/// The index, open for searching.
pub(crate) struct SemanticReader {
    semantic: Semantic,
    vectors: Vectors,
}

impl Semantic {
    /// Returns the index that the configuration asks for; `None` when nothing is found by meaning.
    pub(crate) fn chosen(config: &Config, journal: i64) -> Option<Self> {
        let embedder = choose(&config.meaning).embedder?;
        Some(Self::new(embedder, config.meaning.precision, &config.index_dir, journal))
    }

    /// Returns the index that can be searched now: the configured one, or an earlier one while the
    /// configured one is being built.
    pub(crate) fn serving(config: &Config, journal: i64) -> Option<Self> {
        let chosen = Self::chosen(config, journal)?;
        if chosen.generation() > 0 {
            return Some(chosen);
        }
        let precisions = [Precision::F16, Precision::F32];
        let others = precisions.into_iter().flat_map(|precision| {
            always().map(|embedder| Self::new(embedder, precision, &config.index_dir, journal))
        });
        Some(others.into_iter().find(|other| other.generation() > 0).unwrap_or(chosen))
    }

    fn new(embedder: AnyEmbedder, precision: Precision, directory: &Path, journal: i64) -> Self {
        let suffix = match precision {
            Precision::F16 => "f16",
            Precision::F32 => "f32",
        };
        let path = directory.join(format!("{PREFIX}{}-{suffix}", embedder.id()));
        let shape = VectorShape {
            journal,
            embedder: embedder.id().to_owned(),
            dimensions: embedder.dimensions(),
            precision,
        };
        Self { embedder, shape, path }
    }

    /// Returns the reason why the user's own model is not used, if there is one.
    pub(crate) fn problem(config: &Config) -> Option<String> {
        choose(&config.meaning).problem
    }

    /// Returns the reason why there is no embedder at all, although one is wanted.
    pub(crate) fn impediment(config: &Config) -> Option<String> {
        let choice = choose(&config.meaning);
        choice.problem.filter(|_| choice.embedder.is_none())
    }

    /// Returns the name of the embedder.
    pub(crate) fn id(&self) -> &str {
        &self.shape.embedder
    }

    /// Returns the path of the vector file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the last change of the journal in the index; zero when there is none.
    pub(crate) fn generation(&self) -> i64 {
        Vectors::generation(&self.path, &self.shape).unwrap_or(0)
    }

    /// Deletes the index.
    pub(crate) fn discard(&self) -> Result<()> {
        VectorWriter::discard(&self.path)
    }

    /// Opens the index for searching; returns `None` when it must be rebuilt.
    pub(crate) fn read(self) -> Option<SemanticReader> {
        let vectors = Vectors::open(&self.path, &self.shape)?;
        Some(SemanticReader { semantic: self, vectors })
    }

    /// Opens the index for writing, and rebuilds it when it is missing, damaged or of another
    /// layout. Returns the generation it contains.
    pub(crate) fn write(self) -> Result<(SemanticWriter, i64)> {
        let (writer, generation) = VectorWriter::open(&self.path, &self.shape)?;
        Ok((SemanticWriter { semantic: self, writer: Mutex::new(writer) }, generation))
    }
}

impl SemanticReader {
    /// Returns the number of vectors.
    pub(crate) fn live(&self) -> u64 {
        self.vectors.live()
    }

    /// Returns the `count` texts nearest to a text among the allowed recordings, the nearest first;
    /// none when the text has nothing to compare.
    pub(crate) fn near(
        &self,
        text: &str,
        allowed: &dyn Fn(u64) -> bool,
        count: usize,
    ) -> Vec<NearVector> {
        let mut query = vec![0.0; self.semantic.shape.dimensions];
        if !self.semantic.embedder.embed(text, &mut query) {
            return Vec::new();
        }
        self.vectors.search(&query, allowed, count)
    }
}

impl SemanticWriter {
    /// Embeds a passage on the thread that read it, and adds its rows. Kinds of text without
    /// meaning are skipped, and so are side conversations, which most searches exclude.
    pub(crate) fn embed(
        &self,
        recording: u64,
        position: Option<u64>,
        passage: &Passage<'_>,
        rows: &mut Option<VectorRows>,
    ) {
        if has_meaning(passage.kind) && !passage.is_side {
            let rows = rows.get_or_insert_with(|| VectorRows::new(&self.semantic.shape));
            embed_passage(&*self.semantic.embedder, recording, position, passage, rows);
        }
    }

    /// Appends rows.
    pub(crate) fn append(&self, rows: Option<VectorRows>) -> Result<()> {
        rows.map_or(Ok(()), |rows| self.lock().append(rows))
    }

    /// Removes a recording completely.
    pub(crate) fn remove(&self, recording: u64) {
        self.lock().remove(recording);
    }

    /// Removes the messages of a recording from a position on.
    pub(crate) fn truncate(&self, recording: u64, from: u64) {
        self.lock().truncate(recording, from);
    }

    /// Removes the texts about a whole recording.
    pub(crate) fn remove_whole(&self, recording: u64) {
        self.lock().remove_whole(recording);
    }

    /// Makes everything since the last commit visible, as of a generation of the journal.
    pub(crate) fn commit(&self, generation: i64) -> Result<()> {
        self.lock().commit(generation)
    }

    /// Deletes the files of other embedders, which were used until now.
    pub(crate) fn discard_others(&self) -> Result<()> {
        let path = &self.semantic.path;
        let Some(entries) = path.parent().and_then(|parent| fs::read_dir(parent).ok()) else {
            return Ok(());
        };
        for other in entries.flatten().map(|entry| entry.path()) {
            let name = other.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(PREFIX) && other != *path {
                VectorWriter::discard(&other)?;
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, VectorWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
