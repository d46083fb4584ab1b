//! Figures grouped by a common key.

use super::activity::merge_periods;
use super::stats::StatsGroup;
use super::usage::Figures;
use crate::maps::Map;

/// Groups by key, with their periods of work.
#[derive(Default)]
pub(super) struct Groups(Map<String, GroupSums>);

/// The sums of a group while sessions are added.
#[derive(Default)]
pub(super) struct GroupSums {
    pub(super) label: Option<String>,
    pub(super) figures: Figures,
    pub(super) periods: Vec<(i64, i64)>,
}

impl Groups {
    pub(super) fn group_sums(&mut self, key: &str) -> &mut GroupSums {
        if !self.0.contains_key(key) {
            self.0.insert(key.to_owned(), GroupSums::default());
        }
        self.0.get_mut(key).expect("it was just put there")
    }

    pub(super) fn into_sorted_groups<K: Ord>(
        self,
        rank: impl Fn(&StatsGroup) -> K,
    ) -> Vec<StatsGroup> {
        let finished = self.0.into_iter().map(|(key, gathered)| {
            let mut figures = gathered.figures;
            figures.finish_sums();
            if !gathered.periods.is_empty() {
                let joined = merge_periods(gathered.periods);
                let length: i64 = joined.iter().map(|(start, end)| end - start).sum();
                figures.work_s = length as u64 / 1000;
            }
            StatsGroup { key, label: gathered.label, figures }
        });
        let mut groups: Vec<StatsGroup> = finished.collect();
        groups.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.key.cmp(&b.key)));
        groups
    }
}
