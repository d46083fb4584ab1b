//! Makes one result of what belongs together: a task with what it started, messages that say the
//! same.

use super::answer::Tier;
use super::gather::Group;
use super::places::Places;
use crate::maps::{Map, Set};

/// What a result counts whose messages all stand in a better one, too.
const ECHO: f32 = 0.5;

/// Folds the groups of sessions into those of the tasks they belong to.
pub(super) fn into_tasks(
    mut groups: Vec<Group>,
    tasks: &Map<u64, u64>,
    (keep, places): (usize, &Places),
) -> Vec<Group> {
    // Most sessions are a task of their own, and nothing is joined with them.
    let shared: Set<u64> = tasks.values().copied().collect();
    let mut known: Map<u64, usize> = Map::default();
    let mut kept = 0;
    for at in 0..groups.len() {
        let telling = groups[at].telling;
        let telling = tasks.get(&telling).copied().unwrap_or(telling);
        groups[at].telling = telling;
        let is_shared = shared.contains(&telling);
        let place = if is_shared { *known.entry(telling).or_insert(kept) } else { kept };
        if place == kept {
            groups.swap(kept, at);
            kept += 1;
            continue;
        }
        let group = std::mem::replace(&mut groups[at], Group::new(telling, Tier::AllWords));
        let task = &mut groups[place];
        task.tier = task.tier.min(group.tier);
        task.worth = task.worth.into_iter().chain(group.worth).reduce(f32::max);
        task.join(group, keep, places);
    }
    groups.truncate(kept);
    groups
}

/// Shows messages that are nearly the same once in each result, and lets a result that only
/// repeats a better one step back. The groups are in order; the first `wanted` are found among
/// those that are returned, which may not be in order.
pub(super) fn collapse<'g>(
    groups: &'g mut [Group],
    wanted: usize,
    places: &Places,
) -> &'g mut [Group] {
    let mut seen: Set<u32> = Set::default();
    // What keeps its worth is better than whatever follows.
    let (mut looked_at, mut settled) = (0, 0);
    while let Some(group) = groups.get_mut(looked_at).filter(|_| settled < wanted) {
        let before = group.score();
        let mut own: Vec<u32> = Vec::with_capacity(group.best.len());
        group.best.retain(|one| {
            let print = places.text(one).print;
            let is_new = print == 0 || !own.contains(&print);
            if is_new {
                own.push(print);
            }
            is_new
        });
        if own.iter().all(|print| *print != 0 && seen.contains(print)) {
            group.best.iter_mut().for_each(|one| one.score *= ECHO);
            group.worth = group.worth.map(|worth| worth * ECHO);
        }
        settled += usize::from(group.score() >= before);
        seen.extend(own);
        looked_at += 1;
    }
    &mut groups[..looked_at]
}

#[cfg(test)]
mod tests {
    use super::super::gather::Match;
    use super::super::places::Located;
    use super::*;
    use crate::index::TextKind;

    fn group(telling: u64, matches: &[(f32, u64, u32)], places: &mut Places) -> Group {
        let mut group = Group::new(telling, Tier::AllWords);
        for (score, position, print) in matches {
            let (score, print, at) = (*score, *print, 0);
            let (position, kind) = (Some(*position), TextKind::Reply);
            let place = places.add(Located { telling, position, kind, print, at, window: None });
            group.best.push(Match { score, place });
            group.count += 1;
        }
        group
    }

    #[test]
    fn what_a_task_started_is_found_with_it() {
        let mut places = Places::default();
        let mut of = |telling, matches: &[(f32, u64, u32)]| group(telling, matches, &mut places);
        let groups = vec![of(7, &[(3.0, 1, 0)]), of(1, &[(2.0, 1, 0)]), of(2, &[])];
        let folded = into_tasks(groups, &Map::from_iter([(7, 1)]), (6, &places));
        assert_eq!(folded.len(), 2);
        assert_eq!((folded[0].telling, folded[0].count), (1, 2));
        let best = folded[0].best.iter();
        let tellings: Vec<u64> = best.map(|one| places.text(one).telling).collect();
        assert_eq!(tellings, [7, 1]);
    }

    /// What three results are worth of which two repeat the best, and how many were looked at.
    fn collapsed(wanted: usize) -> (Vec<Group>, usize) {
        let mut places = Places::default();
        let mut of = |telling, matches: &[(f32, u64, u32)]| group(telling, matches, &mut places);
        let mut groups = vec![
            of(1, &[(4.0, 1, 9), (3.0, 2, 9), (2.0, 3, 0)]),
            of(2, &[(4.0, 1, 9)]),
            of(3, &[(1.0, 1, 9), (0.5, 2, 8)]),
            of(4, &[(0.5, 1, 8)]),
        ];
        let looked_at = collapse(&mut groups, wanted, &places).len();
        (groups, looked_at)
    }

    #[test]
    fn messages_that_say_the_same_count_once() {
        let (groups, looked_at) = collapsed(usize::MAX);
        assert_eq!((groups[0].best.len(), looked_at), (2, 4));
        let scores: Vec<String> =
            groups.iter().map(|group| group.best[0].score.to_string()).collect();
        assert_eq!(scores, ["4", "2", "1", "0.25"]);
    }

    #[test]
    fn no_more_are_looked_at_than_could_come_first() {
        // The first loses a match, the second repeats it: only the third is sure of its place.
        assert_eq!(collapsed(1).1, 3);
        assert_eq!(collapsed(0).1, 0);
    }
}
