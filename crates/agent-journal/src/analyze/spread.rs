//! The distribution of sessions over size classes.

use serde::Serialize;

/// A size class with its number of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizeClass {
    /// The label of the class.
    pub name: &'static str,
    /// The number of sessions.
    pub count: u64,
    /// The value that selects the class in a query, without the field name.
    #[serde(skip)]
    pub range: &'static str,
}

/// The lower bound of a class, its label, and its value in a query.
type ClassBounds = (u64, &'static str, &'static str);

/// Counts sessions by size class.
pub(super) struct Spread {
    classes: &'static [ClassBounds],
    counts: Vec<u64>,
}

/// Classes by number of prompts.
pub(super) const TURNS: &[ClassBounds] = &[
    (0, "none", "0"),
    (1, "1", "1"),
    (2, "2–3", "2..3"),
    (4, "4–7", "4..7"),
    (8, "8–15", "8..15"),
    (16, "16–31", "16..31"),
    (32, "32–63", "32..63"),
    (64, "64 and more", "64.."),
];

/// Classes by active milliseconds.
pub(super) const DURATIONS: &[ClassBounds] = &[
    (0, "under 1 min", "..1m"),
    (60_000, "1–5 min", "1m..5m"),
    (300_000, "5–15 min", "5m..15m"),
    (900_000, "15–30 min", "15m..30m"),
    (1_800_000, "30–60 min", "30m..1h"),
    (3_600_000, "1–2 h", "1h..2h"),
    (7_200_000, "2–4 h", "2h..4h"),
    (14_400_000, "4 h and more", "4h.."),
];

impl Spread {
    pub(super) fn new(classes: &'static [ClassBounds]) -> Self {
        Self { classes, counts: vec![0; classes.len()] }
    }

    pub(super) fn add_size(&mut self, size: u64) {
        let class = self.classes.partition_point(|(first, ..)| *first <= size);
        self.counts[class.saturating_sub(1)] += 1;
    }

    /// Returns the classes up to the last one with a session; empty without sessions.
    pub(super) fn into_classes(self) -> Vec<SizeClass> {
        let last = self.counts.iter().rposition(|count| *count > 0).map_or(0, |at| at + 1);
        let named = self.classes.iter().zip(self.counts);
        named.map(|((_, name, range), count)| SizeClass { name, count, range }).take(last).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Query;

    #[test]
    fn every_session_is_in_the_class_of_its_size() {
        let mut spread = Spread::new(TURNS);
        for size in [1, 2, 3, 4, 7, 8] {
            spread.add_size(size);
        }
        let counts: Vec<(&str, u64)> =
            spread.into_classes().into_iter().map(|it| (it.name, it.count)).collect();
        assert_eq!(counts, [("none", 0), ("1", 1), ("2–3", 2), ("4–7", 2), ("8–15", 1)]);
    }

    #[test]
    fn a_query_finds_the_sessions_of_a_class() {
        let now = "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap();
        for (field, unit, classes) in [("prompts", 1, TURNS), ("active", 1000, DURATIONS)] {
            for (at, (first, name, range)) in classes.iter().enumerate() {
                let query = Query::parse(&format!("{field}:{range}"), &now).unwrap();
                let next = classes.get(at + 1).map(|next| next.0 / unit - 1);
                let [range] = query.filter.ranges[..] else { panic!("{name}: no range") };
                assert_eq!((range.min, range.max), (first / unit, next), "{name}");
            }
        }
    }

    #[test]
    fn no_session_is_in_no_class() {
        assert!(Spread::new(DURATIONS).into_classes().is_empty());
    }
}
