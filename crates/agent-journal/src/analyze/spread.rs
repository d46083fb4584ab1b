//! How sessions spread over sizes: so many short ones, so many long ones.

use super::tools::Counted;

/// Counts sessions by a size of theirs.
pub(super) struct Spread {
    /// The first size of each class, and its name.
    classes: &'static [(u64, &'static str)],
    counts: Vec<u64>,
}

/// Classes of prompts.
pub(super) const TURNS: &[(u64, &str)] = &[
    (0, "none"),
    (1, "1"),
    (2, "2–3"),
    (4, "4–7"),
    (8, "8–15"),
    (16, "16–31"),
    (32, "32–63"),
    (64, "64 and more"),
];

/// Classes of active milliseconds.
pub(super) const DURATIONS: &[(u64, &str)] = &[
    (0, "under 1 min"),
    (60_000, "1–5 min"),
    (300_000, "5–15 min"),
    (900_000, "15–30 min"),
    (1_800_000, "30–60 min"),
    (3_600_000, "1–2 h"),
    (7_200_000, "2–4 h"),
    (14_400_000, "4 h and more"),
];

impl Spread {
    pub(super) fn new(classes: &'static [(u64, &'static str)]) -> Self {
        Self { classes, counts: vec![0; classes.len()] }
    }

    pub(super) fn add(&mut self, size: u64) {
        let class = self.classes.partition_point(|(first, _)| *first <= size);
        self.counts[class.saturating_sub(1)] += 1;
    }

    /// The classes up to the last that has a session; none when there is no session.
    pub(super) fn finish(self) -> Vec<Counted> {
        let last = self.counts.iter().rposition(|count| *count > 0).map_or(0, |at| at + 1);
        let named = self.classes.iter().zip(self.counts);
        let counted = named.map(|((_, name), count)| Counted { name: (*name).to_owned(), count });
        counted.take(last).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_session_is_in_the_class_of_its_size() {
        let mut spread = Spread::new(TURNS);
        for size in [1, 2, 3, 4, 7, 8] {
            spread.add(size);
        }
        let counts: Vec<(String, u64)> =
            spread.finish().into_iter().map(|it| (it.name, it.count)).collect();
        let expected = [("none", 0), ("1", 1), ("2–3", 2), ("4–7", 2), ("8–15", 1)];
        assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)));
    }

    #[test]
    fn no_session_is_in_no_class() {
        assert!(Spread::new(DURATIONS).finish().is_empty());
    }
}
