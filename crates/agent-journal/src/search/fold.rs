//! Makes one result of what belongs together: a task with what it started, messages that say the
//! same.

use super::gather::Group;
use crate::maps::{Map, Set};

/// What a result counts whose messages all stand in a better one, too.
const ECHO: f32 = 0.5;

/// Folds the groups of sessions into those of the tasks they belong to.
pub(super) fn into_tasks(groups: Vec<Group>, tasks: &Map<u64, u64>, keep: usize) -> Vec<Group> {
    let mut folded: Vec<Group> = Vec::with_capacity(groups.len());
    let mut places: Map<u64, usize> = Map::default();
    for mut group in groups {
        group.telling = tasks.get(&group.telling).copied().unwrap_or(group.telling);
        match places.get(&group.telling) {
            Some(place) => {
                let known = &mut folded[*place];
                known.tier = known.tier.min(group.tier);
                known.worth = known.worth.into_iter().chain(group.worth).reduce(f32::max);
                let count = known.count + group.count;
                group.best.into_iter().for_each(|one| known.add(one, keep));
                known.count = count;
                known.sort();
            }
            None => {
                places.insert(group.telling, folded.len());
                folded.push(group);
            }
        }
    }
    folded
}

/// Shows messages that are nearly the same once in each result, and lets a result that only
/// repeats a better one step back. The groups are in order, and may not be afterwards.
pub(super) fn collapse(groups: &mut [Group]) {
    let mut seen = Set::default();
    for group in groups {
        let mut own: Vec<u64> = Vec::with_capacity(group.best.len());
        group.best.retain(|one| {
            let is_new = one.print == 0 || !own.contains(&u64::from(one.print));
            own.push(u64::from(one.print));
            is_new
        });
        let is_echo =
            group.best.iter().all(|one| one.print != 0 && seen.contains(&u64::from(one.print)));
        if is_echo {
            group.best.iter_mut().for_each(|one| one.score *= ECHO);
            group.worth = group.worth.map(|worth| worth * ECHO);
        }
        seen.extend(own);
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::Tier;
    use super::super::gather::Match;
    use super::*;
    use crate::index::TextKind;

    fn group(telling: u64, matches: &[(f32, u64, u32)]) -> Group {
        let mut group = Group::new(telling, Tier::AllWords);
        for (score, position, print) in matches {
            let (score, print, at) = (*score, *print, 0);
            let (position, kind) = (Some(*position), TextKind::Reply);
            group.add(Match { score, telling, position, kind, print, at, window: None }, 6);
        }
        group
    }

    #[test]
    fn what_a_task_started_is_found_with_it() {
        let groups = vec![group(7, &[(3.0, 1, 0)]), group(1, &[(2.0, 1, 0)]), group(2, &[])];
        let folded = into_tasks(groups, &Map::from_iter([(7, 1)]), 6);
        assert_eq!(folded.len(), 2);
        assert_eq!((folded[0].telling, folded[0].count), (1, 2));
        let places: Vec<u64> = folded[0].best.iter().map(|one| one.telling).collect();
        assert_eq!(places, [7, 1]);
    }

    #[test]
    fn messages_that_say_the_same_count_once() {
        let mut groups = vec![
            group(1, &[(4.0, 1, 9), (3.0, 2, 9), (2.0, 3, 0)]),
            group(2, &[(4.0, 1, 9)]),
            group(3, &[(1.0, 1, 9), (0.5, 2, 8)]),
        ];
        collapse(&mut groups);
        assert_eq!(groups[0].best.len(), 2);
        let scores: Vec<String> =
            groups.iter().map(|group| group.best[0].score.to_string()).collect();
        assert_eq!(scores, ["4", "2", "1"]);
    }
}
