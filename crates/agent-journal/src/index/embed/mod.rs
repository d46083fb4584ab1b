//! What does a text mean, as a vector? Texts that mean the same lie in the same direction.
//!
//! An [`Embedder`] is shared by all threads: each reading thread embeds what it reads with
//! [`embed_passage`] and hands the rows to the writer of the vector file; a query is embedded with
//! [`Embedder::embed`]. Nothing is parsed before the first call.

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

use super::vectors::{Key, Place, Rows};
use super::{Passage, TextKind};

/// Turns texts into vectors of length one.
pub(crate) trait Embedder: Send + Sync {
    /// A name that changes whenever the same text would get another vector.
    fn id(&self) -> &str;

    /// How many components a vector has.
    fn dimensions(&self) -> usize;

    /// Writes the vector of a text; `false` when there is nothing in it to embed.
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

/// Embeds a passage window by window, if it is of a kind that is searched by meaning.
pub(crate) fn embed_passage(
    embedder: &dyn Embedder,
    (telling, position): (u64, Option<u64>),
    passage: &Passage<'_>,
    rows: &mut Rows,
) {
    if !has_meaning(passage.kind) {
        return;
    }
    let place = Place { telling, position, kind: passage.kind };
    for window in windows(passage.text) {
        let key = Key { place, content: xxh3_64(window.as_bytes()) };
        rows.add_with(key, |vector| embedder.embed(window, vector));
    }
}

/// The window of a text that was embedded and has a hash; none when the text was cut in another
/// way.
pub(crate) fn window_of(text: &str, content: u64) -> Option<&str> {
    windows(text).find(|window| xxh3_64(window.as_bytes()) == content)
}

/// Whether texts of a kind are searched by meaning: what people and models said, not what tools
/// were given and returned.
pub(crate) fn has_meaning(kind: TextKind) -> bool {
    matches!(kind, TextKind::Title | TextKind::Document | TextKind::Prompt | TextKind::Reply)
}

/// Scales a vector to length one; `false` when it has no direction.
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

    use super::super::vectors::{Shape, VectorWriter, Vectors};
    use super::*;

    #[test]
    fn the_passage_that_means_it_is_found_without_its_words() {
        let embedder: &dyn Embedder = Table::builtin();
        let shape = Shape {
            journal: 1,
            embedder: embedder.id().to_owned(),
            dimensions: embedder.dimensions(),
            precision: Precision::F16,
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vectors");
        let mut writer = VectorWriter::open(&path, &shape).unwrap().0;
        let mut rows = Rows::new(&shape);
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
            embed_passage(embedder, (4, Some(position as u64)), &passage, &mut rows);
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
