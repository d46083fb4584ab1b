//! Figures sorted by something they have in common.

use super::activity::union;
use super::stats::Group;
use super::usage::Figures;
use crate::maps::Map;

/// Groups by key, with their periods of work.
#[derive(Default)]
pub(super) struct Groups(Map<String, Gathered>);

/// A group on its way.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) label: Option<String>,
    pub(super) figures: Figures,
    pub(super) periods: Vec<(i64, i64)>,
}

impl Groups {
    pub(super) fn at(&mut self, key: &str) -> &mut Gathered {
        if !self.0.contains_key(key) {
            self.0.insert(key.to_owned(), Gathered::default());
        }
        self.0.get_mut(key).expect("it was just put there")
    }

    pub(super) fn finish<K: Ord>(self, rank: impl Fn(&Group) -> K) -> Vec<Group> {
        let finished = self.0.into_iter().map(|(key, gathered)| {
            let mut figures = gathered.figures;
            figures.finish();
            if !gathered.periods.is_empty() {
                let joined = union(gathered.periods);
                let length: i64 = joined.iter().map(|(start, end)| end - start).sum();
                figures.work_s = length as u64 / 1000;
            }
            Group { key, label: gathered.label, figures }
        });
        let mut groups: Vec<Group> = finished.collect();
        groups.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.key.cmp(&b.key)));
        groups
    }
}
