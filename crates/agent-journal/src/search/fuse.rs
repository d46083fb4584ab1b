//! Words and meanings put together: two lists of what was found, each with scores of its own kind,
//! become one.

use std::collections::HashMap;
use std::hash::Hash;

/// How two lists are put together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fusion {
    /// The weighted sum of both scores, each brought to the same scale; the weight is that of the
    /// meanings.
    Convex(f32),
    /// The sum of reciprocal ranks, whatever the scores.
    Ranks,
}

/// What a meaning weighs against a word: see `docs/search-quality.md`.
const WEIGHT: f32 = 0.2;

/// Added to every rank, so that the first places do not decide alone.
const RANK: f32 = 60.0;

/// Texts less near than this are about something else.
const FLOOR: f32 = 0.4;

/// How words and meanings are put together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blend {
    /// How their scores are.
    pub fusion: Fusion,
    /// How near a text without the words must be to be shown, from zero to one.
    pub floor: f32,
}

impl Default for Blend {
    fn default() -> Self {
        Self { fusion: Fusion::default(), floor: FLOOR }
    }
}

impl Blend {
    /// What a match by words is worth beside one by meaning, if the best one scores `best`.
    pub(super) fn of_words(self, score: f32, best: f32) -> f32 {
        let score = if best > 0.0 { score / best } else { 0.0 };
        match self.fusion {
            Fusion::Convex(weight) => (1.0 - weight) * score,
            Fusion::Ranks => score,
        }
    }

    /// What a match by meaning is worth beside one by words.
    pub(super) fn of_meaning(self, score: f32) -> f32 {
        match self.fusion {
            Fusion::Convex(weight) => weight * score,
            Fusion::Ranks => score,
        }
    }
}

impl Default for Fusion {
    fn default() -> Self {
        Self::Convex(WEIGHT)
    }
}

impl Fusion {
    /// What everything in either list is worth. Both lists have their best first; scores of words
    /// are at least zero, scores of meanings lie between zero and one.
    pub(super) fn join<K: Copy + Eq + Hash>(
        self,
        words: &[(K, f32)],
        meanings: &[(K, f32)],
    ) -> HashMap<K, f32> {
        let mut joined: HashMap<K, f32> = HashMap::with_capacity(words.len() + meanings.len());
        let best = words.first().map_or(0.0, |first| first.1);
        for (rank, (key, score)) in words.iter().enumerate() {
            let worth = match self {
                Self::Convex(_) if best <= 0.0 => 0.0,
                Self::Convex(weight) => (1.0 - weight) * score / best,
                Self::Ranks => 1.0 / (RANK + rank as f32),
            };
            *joined.entry(*key).or_default() += worth;
        }
        for (rank, (key, score)) in meanings.iter().enumerate() {
            let worth = match self {
                Self::Convex(weight) => weight * score,
                Self::Ranks => 1.0 / (RANK + rank as f32),
            };
            *joined.entry(*key).or_default() += worth;
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys in the order of what they are worth.
    fn order(fusion: Fusion, words: &[(char, f32)], meanings: &[(char, f32)]) -> String {
        let mut joined: Vec<_> = fusion.join(words, meanings).into_iter().collect();
        joined.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        joined.into_iter().map(|(key, _)| key).collect()
    }

    const WORDS: [(char, f32); 3] = [('a', 20.0), ('b', 18.0), ('c', 2.0)];

    #[test]
    fn a_meaning_decides_between_words_of_nearly_the_same_worth() {
        assert_eq!(order(Fusion::Convex(0.3), &WORDS, &[('b', 0.8), ('c', 0.8)]), "bac");
        assert_eq!(order(Fusion::Convex(0.0), &WORDS, &[('b', 0.8), ('c', 0.8)]), "abc");
        assert_eq!(order(Fusion::Convex(1.0), &WORDS, &[('b', 0.8), ('c', 0.9)]), "cba");
    }

    #[test]
    fn ranks_do_not_look_at_scores() {
        assert_eq!(order(Fusion::Ranks, &WORDS, &[('c', 0.2), ('d', 0.1)]), "cabd");
    }

    #[test]
    fn what_only_one_list_has_is_kept() {
        assert_eq!(order(Fusion::default(), &[], &[('x', 0.9), ('y', 0.5)]), "xy");
        assert_eq!(order(Fusion::default(), &WORDS, &[]), "abc");
        assert_eq!(order(Fusion::default(), &[('a', 0.0)], &[('b', 0.5)]), "ba");
    }
}
