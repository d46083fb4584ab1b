//! The fallback embedder: every token has one component, chosen by its hash. It finds the same
//! words, not the same meaning.

use super::table::{Counted, START, Table, fnv1a};
use super::{Embedder, normalise};

const DIMENSIONS: usize = 1024;

/// Embeds by hash. The weight of a token follows from its rarity, given by its rank in the
/// vocabulary of the built-in table: no text of the journal has to be counted before.
pub(crate) struct HashEmbedder;

impl Embedder for HashEmbedder {
    fn id(&self) -> &'static str {
        "hash-v1-1024"
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn embed(&self, text: &str, into: &mut [f32]) -> bool {
        into.fill(0.0);
        let table = Table::builtin();
        let rarest = (table.words() as f32).ln_1p();
        table.count(text, &mut |token, weight| {
            let (text, rarity) = match token {
                Counted::Known(row) => (table.word(row), (row as f32 + 1.0).ln_1p() / rarest),
                Counted::Unknown(text) => (text, 1.0),
            };
            let hash = fnv1a(START, text);
            let sign = if hash >> 63 == 0 { -1.0 } else { 1.0 };
            into[(hash % DIMENSIONS as u64) as usize] += sign * weight * rarity;
        });
        normalise(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn similarity(one: &str, other: &str) -> f32 {
        let embed = |text: &str| {
            let mut vector = vec![0.0; DIMENSIONS];
            assert!(HashEmbedder.embed(text, &mut vector), "{text}");
            vector
        };
        embed(one).iter().zip(embed(other)).map(|(one, other)| one * other).sum()
    }

    #[test]
    fn rare_words_in_common_count_more_than_common_ones() {
        let text = "the frobnicator is in the way";
        assert!(similarity(text, "a frobnicator") > 0.6);
        assert!(similarity(text, "the thing is in the box") < 0.4);
        assert!((similarity("readFile", "read_file") - 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_has_no_words_is_not_embedded() {
        let mut vector = vec![1.0; DIMENSIONS];
        assert!(!HashEmbedder.embed("--- !", &mut vector));
        assert!(vector.iter().all(|value| *value == 0.0));
    }
}
