//! How sessions spread over sizes: so many short ones, so many long ones.

use serde::Serialize;

/// Sessions of about one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Class {
    /// Which size.
    pub name: &'static str,
    /// How many.
    pub count: u64,
    /// What a query says after the field's name to find them.
    #[serde(skip)]
    pub range: &'static str,
}

/// The first size of a class, its name, and what a query says of it.
type Bounds = (u64, &'static str, &'static str);

/// Counts sessions by a size of theirs.
pub(super) struct Spread {
    classes: &'static [Bounds],
    counts: Vec<u64>,
}

/// Classes of prompts.
pub(super) const TURNS: &[Bounds] = &[
    (0, "none", "0"),
    (1, "1", "1"),
    (2, "2–3", "2..3"),
    (4, "4–7", "4..7"),
    (8, "8–15", "8..15"),
    (16, "16–31", "16..31"),
    (32, "32–63", "32..63"),
    (64, "64 and more", "64.."),
];

/// Classes of active milliseconds.
pub(super) const DURATIONS: &[Bounds] = &[
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
    pub(super) fn new(classes: &'static [Bounds]) -> Self {
        Self { classes, counts: vec![0; classes.len()] }
    }

    pub(super) fn add(&mut self, size: u64) {
        let class = self.classes.partition_point(|(first, ..)| *first <= size);
        self.counts[class.saturating_sub(1)] += 1;
    }

    /// The classes up to the last that has a session; none when there is no session.
    pub(super) fn finish(self) -> Vec<Class> {
        let last = self.counts.iter().rposition(|count| *count > 0).map_or(0, |at| at + 1);
        let named = self.classes.iter().zip(self.counts);
        named.map(|((_, name, range), count)| Class { name, count, range }).take(last).collect()
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
            spread.add(size);
        }
        let counts: Vec<(&str, u64)> =
            spread.finish().into_iter().map(|it| (it.name, it.count)).collect();
        assert_eq!(counts, [("none", 0), ("1", 1), ("2–3", 2), ("4–7", 2), ("8–15", 1)]);
    }

    #[test]
    fn a_query_finds_the_sessions_of_a_class() {
        let now = "2026-11-15T12:00:00+00:00[UTC]".parse().unwrap();
        for (field, unit, classes) in [("prompts", 1, TURNS), ("active", 1000, DURATIONS)] {
            for (at, (first, name, range)) in classes.iter().enumerate() {
                let query = Query::parse(&format!("{field}:{range}"), &now).unwrap();
                let next = classes.get(at + 1).map(|next| next.0 / unit - 1);
                let [size] = query.filter.sizes[..] else { panic!("{name}: no size") };
                assert_eq!((size.from, size.to), (first / unit, next), "{name}");
            }
        }
    }

    #[test]
    fn no_session_is_in_no_class() {
        assert!(Spread::new(DURATIONS).finish().is_empty());
    }
}
