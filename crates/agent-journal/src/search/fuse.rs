//! Combines matches by words and by meaning: two lists with different kinds of scores become one.

use std::collections::HashMap;
use std::hash::Hash;

/// The weight of the meaning against the words: see `docs/search-quality.md`.
pub(super) const MEANING_WEIGHT: f32 = 0.05;

/// The minimum similarity: texts below it are about something else.
pub(super) const MIN_SIMILARITY: f32 = 0.4;

/// Returns the score of a match by words on the scale of the combined scores, if the best match by
/// words scores `best`.
pub(super) fn scale_word_score(score: f32, best: f32, meaning_weight: f32) -> f32 {
    let score = if best > 0.0 { score / best } else { 0.0 };
    (1.0 - meaning_weight) * score
}

/// Returns the combined score of every key in either list: the weighted sum of both scores on the
/// same scale. Both lists are sorted, the best first; scores of words are at least zero, scores of
/// meanings lie between zero and one.
pub(super) fn fuse_scores<K: Copy + Eq + Hash>(
    words: &[(K, f32)],
    meanings: &[(K, f32)],
    meaning_weight: f32,
) -> HashMap<K, f32> {
    let mut fused: HashMap<K, f32> = HashMap::with_capacity(words.len() + meanings.len());
    let best = words.first().map_or(0.0, |first| first.1);
    for (key, score) in words {
        let worth = if best > 0.0 { (1.0 - meaning_weight) * score / best } else { 0.0 };
        *fused.entry(*key).or_default() += worth;
    }
    for (key, score) in meanings {
        *fused.entry(*key).or_default() += meaning_weight * score;
    }
    fused
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the keys in the order of their scores.
    fn order(weight: f32, words: &[(char, f32)], meanings: &[(char, f32)]) -> String {
        let mut fused: Vec<_> = fuse_scores(words, meanings, weight).into_iter().collect();
        fused.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        fused.into_iter().map(|(key, _)| key).collect()
    }

    const WORDS: [(char, f32); 3] = [('a', 20.0), ('b', 18.0), ('c', 2.0)];

    #[test]
    fn a_meaning_decides_between_words_of_nearly_the_same_worth() {
        assert_eq!(order(0.3, &WORDS, &[('b', 0.8), ('c', 0.8)]), "bac");
        assert_eq!(order(0.0, &WORDS, &[('b', 0.8), ('c', 0.8)]), "abc");
        assert_eq!(order(1.0, &WORDS, &[('b', 0.8), ('c', 0.9)]), "cba");
    }

    #[test]
    fn a_key_of_one_list_only_is_kept() {
        assert_eq!(order(MEANING_WEIGHT, &[], &[('x', 0.9), ('y', 0.5)]), "xy");
        assert_eq!(order(MEANING_WEIGHT, &WORDS, &[]), "abc");
        assert_eq!(order(MEANING_WEIGHT, &[('a', 0.0)], &[('b', 0.5)]), "ba");
    }
}
