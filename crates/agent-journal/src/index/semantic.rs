//! The index of meanings: an embedder and the file of what it made.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::Passage;
use super::embed::{AnyEmbedder, always, choose, embed_passage, has_meaning};
use super::vectors::{Near, Rows, Shape, VectorWriter, Vectors};
use crate::config::{Config, Precision};
use crate::error::Result;

/// How the files of vectors are called.
const PREFIX: &str = "vectors-";

/// An embedder with its file.
pub(crate) struct Semantic {
    embedder: AnyEmbedder,
    shape: Shape,
    path: PathBuf,
}

/// How much can be found by meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// The name of the embedder that answers; none when nothing is found by meaning.
    pub embedder: Option<String>,
    /// Texts that can be found: windows of messages, titles and documents.
    pub vectors: u64,
    /// Sessions whose texts all can.
    pub covered: u64,
    /// Sessions in all.
    pub sessions: u64,
    /// Why the user's own model is not used.
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
    /// What the user asked for; `None` when nothing is found by meaning.
    pub(crate) fn chosen(config: &Config, journal: i64) -> Option<Self> {
        let embedder = choose(&config.meaning).embedder?;
        Some(Self::new(embedder, config.meaning.precision, (&config.index_dir, journal)))
    }

    /// What can answer now: what the user asked for, or what there was before as long as that is
    /// being made.
    pub(crate) fn serving(config: &Config, journal: i64) -> Option<Self> {
        let chosen = Self::chosen(config, journal)?;
        if chosen.generation() > 0 {
            return Some(chosen);
        }
        let precisions = [Precision::F16, Precision::F32];
        let others = precisions.into_iter().flat_map(|precision| {
            always().map(|embedder| Self::new(embedder, precision, (&config.index_dir, journal)))
        });
        Some(others.into_iter().find(|other| other.generation() > 0).unwrap_or(chosen))
    }

    fn new(
        embedder: AnyEmbedder,
        precision: Precision,
        (directory, journal): (&Path, i64),
    ) -> Self {
        let suffix = match precision {
            Precision::F16 => "f16",
            Precision::F32 => "f32",
        };
        let path = directory.join(format!("{PREFIX}{}-{suffix}", embedder.id()));
        let shape = Shape {
            journal,
            embedder: embedder.id().to_owned(),
            dimensions: embedder.dimensions(),
            precision,
        };
        Self { embedder, shape, path }
    }

    /// Why the user's own model is not used, if there is one.
    pub(crate) fn problem(config: &Config) -> Option<String> {
        choose(&config.meaning).problem
    }

    /// Why there is no embedder at all, although one is wanted.
    pub(crate) fn impediment(config: &Config) -> Option<String> {
        let choice = choose(&config.meaning);
        choice.problem.filter(|_| choice.embedder.is_none())
    }

    /// The embedder's name.
    pub(crate) fn id(&self) -> &str {
        &self.shape.embedder
    }

    /// Where its vectors are.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The last change of the journal that can be found; zero when there is none.
    pub(crate) fn generation(&self) -> i64 {
        Vectors::generation(&self.path, &self.shape).unwrap_or(0)
    }

    /// Deletes the index.
    pub(crate) fn discard(&self) -> Result<()> {
        VectorWriter::discard(&self.path)
    }

    /// Opens the index for searching; `None` when it must be made anew.
    pub(crate) fn read(self) -> Option<SemanticReader> {
        let vectors = Vectors::open(&self.path, &self.shape)?;
        Some(SemanticReader { semantic: self, vectors })
    }

    /// Opens the index for writing, making it anew when it is missing, damaged or of another
    /// shape; says which generation it holds.
    pub(crate) fn write(self) -> Result<(SemanticWriter, i64)> {
        let (writer, generation) = VectorWriter::open(&self.path, &self.shape)?;
        Ok((SemanticWriter { semantic: self, writer: Mutex::new(writer) }, generation))
    }
}

impl SemanticReader {
    /// How many vectors there are.
    pub(crate) fn live(&self) -> u64 {
        self.vectors.live()
    }

    /// The `count` texts nearest to a text among the tellings that are allowed, the nearest
    /// first; none when there is nothing in the text to compare.
    pub(crate) fn near(
        &self,
        text: &str,
        allowed: &dyn Fn(u64) -> bool,
        count: usize,
    ) -> Vec<Near> {
        let mut query = vec![0.0; self.semantic.shape.dimensions];
        if !self.semantic.embedder.embed(text, &mut query) {
            return Vec::new();
        }
        self.vectors.search(&query, allowed, count)
    }
}

impl SemanticWriter {
    /// The rows of a passage, made on the thread that read it; none for a kind of text that is
    /// not found by meaning, and none for side conversations, which are left out of most searches.
    pub(crate) fn embed(
        &self,
        place: (u64, Option<u64>),
        passage: &Passage<'_>,
        rows: &mut Option<Rows>,
    ) {
        if has_meaning(passage.kind) && !passage.is_side {
            let rows = rows.get_or_insert_with(|| Rows::new(&self.semantic.shape));
            embed_passage(&*self.semantic.embedder, place, passage, rows);
        }
    }

    /// Adds rows.
    pub(crate) fn append(&self, rows: Option<Rows>) -> Result<()> {
        rows.map_or(Ok(()), |rows| self.lock().append(rows))
    }

    /// Forgets a telling as a whole.
    pub(crate) fn remove(&self, telling: u64) {
        self.lock().remove(telling);
    }

    /// Forgets the messages of a telling from a position on.
    pub(crate) fn truncate(&self, telling: u64, from: u64) {
        self.lock().truncate(telling, from);
    }

    /// Forgets what is about a telling as a whole.
    pub(crate) fn remove_whole(&self, telling: u64) {
        self.lock().remove_whole(telling);
    }

    /// Makes everything since the last commit visible, as of a generation of the journal.
    pub(crate) fn commit(&self, generation: i64) -> Result<()> {
        self.lock().commit(generation)
    }

    /// Deletes the files of other embedders, which served until now.
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
