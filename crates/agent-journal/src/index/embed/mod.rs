//! Converts texts to vectors. Texts with a similar meaning point in a similar direction.
//!
//! All threads share an [`Embedder`]: each reading thread embeds passages with [`embed_passage`]
//! and passes the rows to the writer of the vector file; a query is embedded with
//! [`Embedder::embed`]. No model is parsed before the first call.

mod choose;
mod hash;
#[cfg(feature = "onnx")]
mod onnx;
mod table;
mod tokens;
mod windows;

pub(crate) use choose::{AnyEmbedder, always, choose};
pub(crate) use hash::HashEmbedder;
pub(crate) use table::Table;
#[doc(hidden)]
pub use table::embed_by;

use xxhash_rust::xxh3::xxh3_64;

use windows::windows;

use super::Passage;
use super::vectors::{VectorKey, VectorPlace, VectorRows};
use crate::filter::TextKind;

/// Converts texts to vectors of length one.
pub(crate) trait Embedder: Send + Sync {
    /// Returns a name that changes whenever the same text would get another vector.
    fn id(&self) -> &str;

    /// Returns the number of components of a vector.
    fn dimensions(&self) -> usize;

    /// Writes the vector of a text; returns `false` when the text has nothing to embed.
    fn embed(&self, text: &str, into: &mut [f32]) -> bool;
}

impl<E: Embedder + ?Sized> Embedder for &E {
    fn id(&self) -> &str {
        (**self).id()
    }

    fn dimensions(&self) -> usize {
        (**self).dimensions()
    }

    fn embed(&self, text: &str, into: &mut [f32]) -> bool {
        (**self).embed(text, into)
    }
}

/// Embeds a passage window by window, if its kind is searched by meaning.
pub(crate) fn embed_passage(
    embedder: &dyn Embedder,
    recording: u64,
    position: Option<u64>,
    passage: &Passage<'_>,
    rows: &mut VectorRows,
) {
    if !has_meaning(passage.kind) {
        return;
    }
    let place = VectorPlace { recording, position, kind: passage.kind };
    for window in windows(passage.text) {
        let key = VectorKey { place, content: xxh3_64(window.as_bytes()) };
        rows.add_with(key, |vector| embedder.embed(window, vector));
    }
}

/// Returns the window of a text that has this hash; `None` when the text was split differently.
pub(crate) fn window_of(text: &str, content: u64) -> Option<&str> {
    windows(text).find(|window| xxh3_64(window.as_bytes()) == content)
}

/// Returns whether texts of a kind are searched by meaning: prompts, replies and documents, not the
/// input and output of tools.
pub(crate) fn has_meaning(kind: TextKind) -> bool {
    matches!(kind, TextKind::Title | TextKind::Document | TextKind::Prompt | TextKind::Reply)
}

/// Scales a vector to length one; returns `false` when it has no direction.
fn normalise(vector: &mut [f32]) -> bool {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if length <= 0.0 {
        return false;
    }
    for value in vector.iter_mut() {
        *value /= length;
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::config::Precision;

    use super::super::vectors::{VectorShape, VectorWriter, Vectors};
    use super::*;

    #[test]
    fn the_passage_that_means_it_is_found_without_its_words() {
        let embedder: &dyn Embedder = Table::builtin();
        let shape = VectorShape {
            journal: 1,
            embedder: embedder.id().to_owned(),
            dimensions: embedder.dimensions(),
            precision: Precision::F16,
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vectors");
        let mut writer = VectorWriter::open(&path, &shape).unwrap().0;
        let mut rows = VectorRows::new(&shape);
        let filler = "The chart is drawn in blue and the legend below it in grey. ".repeat(100);
        let texts = [
            (TextKind::Prompt, format!("{filler}\n\nretry the request with exponential backoff")),
            (TextKind::Reply, "the button has a rounded border now".to_owned()),
            (
                TextKind::ToolOutput,
                "sleep(2 ** attempt) before trying the HTTP call again".to_owned(),
            ),
        ];
        for (position, (kind, text)) in texts.iter().enumerate() {
            let passage = Passage::whole(*kind, text);
            embed_passage(embedder, 4, Some(position as u64), &passage, &mut rows);
        }
        writer.append(rows).unwrap();
        writer.commit(1).unwrap();

        let mut query = vec![0.0; embedder.dimensions()];
        assert!(
            embedder.embed("sleep(2 ** attempt) before trying the HTTP call again", &mut query)
        );
        let near = Vectors::open(&path, &shape).unwrap().search(&query, &|_| true, 5);
        let places: Vec<_> = near.iter().map(|near| near.place.position).collect();
        assert_eq!(places, [Some(0), Some(1)]);
        assert!(near[0].score > near[1].score + 0.1, "{near:?}");
    }
}
