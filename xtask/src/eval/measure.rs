//! Grades the answers of a search system.

use std::time::Duration;

use super::chance::Chance;
use super::queries::Item;

/// Maximum number of results that are graded.
pub(super) const DEPTH: usize = 50;

/// Number of bootstrap samples for a confidence interval.
const RESAMPLES: usize = 1000;

/// A session in the results, with the shown messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) session: usize,
    /// The shown messages. A title counts as the first prompt.
    pub(super) messages: Vec<usize>,
}

/// The answer of a system to a query.
#[derive(Clone, Debug, Default)]
pub(super) struct Reply {
    pub(super) shown: Vec<Shown>,
    /// Whether the system itself marks the answer as a weak match.
    pub(super) is_weak: bool,
    pub(super) took: Duration,
    /// Whether the question was refused instead of answered.
    pub(super) is_refused: bool,
}

/// The grade of an answer to a question.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Worth {
    /// The rank of the first correct result, starting at 1.
    pub(super) rank: Option<usize>,
    pub(super) took: Duration,
    pub(super) is_refused: bool,
}

impl Reply {
    pub(super) fn worth(&self, item: &Item) -> Worth {
        let fits = |shown: &Shown| {
            let wanted = item.messages.as_ref();
            item.sessions.contains(&shown.session)
                && wanted.is_none_or(|all| shown.messages.iter().any(|one| all.contains(one)))
        };
        let at = self.shown.iter().position(fits);
        Worth { rank: at.map(|at| at + 1), took: self.took, is_refused: self.is_refused }
    }
}

/// A mean with its confidence interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Returns the mean and its 95 % confidence interval, by bootstrapping.
pub(super) fn mean(figures: &[f64]) -> Mean {
    let average = |sum: f64| sum / figures.len().max(1) as f64;
    let mut chance = Chance::new(figures.len() as u64);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| average((0..figures.len()).map(|_| figures[chance.below(figures.len())]).sum()))
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[(share * (RESAMPLES - 1) as f64) as usize];
    Mean { value: average(figures.iter().sum()), low: at(0.025), high: at(0.975) }
}

pub(super) fn success(worth: &Worth, within: usize) -> f64 {
    f64::from(u8::from(worth.rank.is_some_and(|rank| rank <= within)))
}

/// Returns the reciprocal rank within the first ten results.
pub(super) fn reciprocal(worth: &Worth) -> f64 {
    worth.rank.filter(|rank| *rank <= 10).map_or(0.0, |rank| 1.0 / rank as f64)
}

/// Returns the value below which a share of all values lies.
pub(super) fn quantile<T: Copy + Ord + Default>(mut all: Vec<T>, share: f64) -> T {
    all.sort_unstable();
    let at = (share * all.len().saturating_sub(1) as f64).round() as usize;
    all.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::queries::Class;
    use super::*;

    fn worth(shown: &[(usize, &[usize])]) -> Worth {
        let shown = shown
            .iter()
            .map(|(session, messages)| Shown { session: *session, messages: messages.to_vec() });
        let reply = Reply { shown: shown.collect(), ..Reply::default() };
        let item = Item::about_sessions(Class::Question, String::new(), vec![3]);
        reply.worth(&Item { messages: Some(vec![5, 6]), ..item })
    }

    #[test]
    fn the_first_right_message_counts() {
        let found = worth(&[(1, &[5]), (3, &[4]), (3, &[4, 6])]);
        assert_eq!(found.rank, Some(3));
        assert!((reciprocal(&found) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!((success(&found, 1), success(&found, 5)), (0.0, 1.0));
        let missed = worth(&[(1, &[5])]);
        assert_eq!((missed.rank, reciprocal(&missed)), (None, 0.0));
    }

    #[test]
    fn an_interval_holds_its_mean_and_is_the_same_every_time() {
        let figures: Vec<f64> = (0..100).map(|one| f64::from(one % 4 == 0)).collect();
        let one = mean(&figures);
        assert!(one.low < one.value && one.value < one.high && (one.value - 0.25).abs() < 1e-9);
        assert!(one.high - one.low < 0.25);
        assert_eq!((one.low, one.high), (mean(&figures).low, mean(&figures).high));
    }

    #[test]
    fn quantiles_are_values_that_occur() {
        assert_eq!(quantile(vec![5, 1, 9], 0.5), 5);
        assert_eq!(quantile(vec![5, 1, 9], 0.95), 9);
        assert_eq!(quantile(Vec::<usize>::new(), 0.5), 0);
    }
}
