//! Merges results that belong together: sessions of one task, and messages with nearly the same
//! text.

use super::answer::Tier;
use super::collector::MatchGroup;
use super::places::MatchPlaces;
use crate::maps::{Map, Set};

/// The factor for the score of a result whose messages all occur in better ones, too.
const ECHO: f32 = 0.5;

/// The share of its messages that a result has in common with better ones if it is a copy.
const COPIED_SHARE: f32 = 0.8;

/// Returns the fingerprints of all texts of a recording.
pub(super) type FingerprintSource<'f> = &'f dyn Fn(u64) -> Vec<u32>;

/// Merges the groups of sessions into the groups of the tasks they belong to.
pub(super) fn group_by_task(
    mut groups: Vec<MatchGroup>,
    tasks: &Map<u64, u64>,
    keep: usize,
    places: &MatchPlaces,
) -> Vec<MatchGroup> {
    // Most sessions are a task of their own, with nothing to merge.
    let shared: Set<u64> = tasks.values().copied().collect();
    let mut known: Map<u64, usize> = Map::default();
    let mut kept = 0;
    for at in 0..groups.len() {
        let recording = groups[at].recording;
        let recording = tasks.get(&recording).copied().unwrap_or(recording);
        groups[at].recording = recording;
        let is_shared = shared.contains(&recording);
        let place = if is_shared { *known.entry(recording).or_insert(kept) } else { kept };
        if place == kept {
            groups.swap(kept, at);
            kept += 1;
            continue;
        }
        let group = std::mem::replace(&mut groups[at], MatchGroup::new(recording, Tier::AllWords));
        let task = &mut groups[place];
        task.tier = task.tier.min(group.tier);
        task.worth = task.worth.into_iter().chain(group.worth).reduce(f32::max);
        task.join(group, keep, places);
    }
    groups.truncate(kept);
    groups
}

/// Keeps one of several nearly equal messages in each result, and lowers the score of a result that
/// only repeats better ones: not only its matches but nearly all of its texts occur there, or else
/// it may be a fork that went on to the answer. The groups must be sorted; the first `wanted` results are among the
/// returned groups, which may no longer be sorted.
pub(super) fn demote_duplicates<'g>(
    groups: &'g mut [MatchGroup],
    wanted: usize,
    places: &MatchPlaces,
    fingerprints_of: FingerprintSource<'_>,
) -> &'g mut [MatchGroup] {
    let mut seen: Set<u32> = Set::default();
    // The better results whose texts are not read yet, and the texts of the others.
    let mut better: Vec<u64> = Vec::new();
    let mut texts: Set<u32> = Set::default();
    // A group that keeps its score is better than all that follow.
    let (mut looked_at, mut settled) = (0, 0);
    while let Some(group) = groups.get_mut(looked_at).filter(|_| settled < wanted) {
        let before = group.score();
        let mut own: Vec<u32> = Vec::with_capacity(group.best.len());
        group.best.retain(|one| {
            let fingerprint = places.text(one).fingerprint;
            let is_new = fingerprint == 0 || !own.contains(&fingerprint);
            if is_new {
                own.push(fingerprint);
            }
            is_new
        });
        let mut is_copy =
            own.iter().all(|fingerprint| *fingerprint != 0 && seen.contains(fingerprint));
        if is_copy {
            for recording in better.drain(..) {
                texts.extend(fingerprints_of(recording));
            }
            let all = fingerprints_of(group.recording);
            let copied = all.iter().filter(|fingerprint| texts.contains(fingerprint)).count();
            is_copy = copied as f32 >= COPIED_SHARE * all.len() as f32;
        }
        if is_copy {
            group.best.iter_mut().for_each(|one| one.score *= ECHO);
            group.worth = group.worth.map(|worth| worth * ECHO);
        }
        settled += usize::from(group.score() >= before);
        seen.extend(own);
        better.push(group.recording);
        looked_at += 1;
    }
    &mut groups[..looked_at]
}

#[cfg(test)]
mod tests {
    use super::super::collector::PassageMatch;
    use super::super::places::LocatedText;
    use super::*;
    use crate::filter::TextKind;

    fn group(recording: u64, matches: &[(f32, u64, u32)], places: &mut MatchPlaces) -> MatchGroup {
        let mut group = MatchGroup::new(recording, Tier::AllWords);
        for (score, position, fingerprint) in matches {
            let (score, fingerprint, at) = (*score, *fingerprint, 0);
            let (position, kind) = (Some(*position), TextKind::Reply);
            let place = places.add(LocatedText {
                recording,
                position,
                kind,
                fingerprint,
                at,
                window: None,
            });
            group.best.push(PassageMatch { score, place });
            group.count += 1;
        }
        group
    }

    #[test]
    fn what_a_task_started_is_found_with_it() {
        let mut places = MatchPlaces::default();
        let mut of =
            |recording, matches: &[(f32, u64, u32)]| group(recording, matches, &mut places);
        let groups = vec![of(7, &[(3.0, 1, 0)]), of(1, &[(2.0, 1, 0)]), of(2, &[])];
        let folded = group_by_task(groups, &Map::from_iter([(7, 1)]), 6, &places);
        assert_eq!(folded.len(), 2);
        assert_eq!((folded[0].recording, folded[0].count), (1, 2));
        let best = folded[0].best.iter();
        let recordings: Vec<u64> = best.map(|one| places.text(one).recording).collect();
        assert_eq!(recordings, [7, 1]);
    }

    /// Returns the fingerprints of all texts of the results below.
    fn all_texts(recording: u64) -> &'static [u32] {
        match recording {
            1 => &[9, 5, 6],
            2 => &[9, 5],
            3 => &[9, 8],
            5 => &[9, 5, 1, 2, 3],
            _ => &[8],
        }
    }

    /// Returns the scores of three results, two of which repeat the best, and how many were
    /// checked.
    fn collapsed(wanted: usize) -> (Vec<MatchGroup>, usize) {
        let mut places = MatchPlaces::default();
        let mut of =
            |recording, matches: &[(f32, u64, u32)]| group(recording, matches, &mut places);
        let mut groups = vec![
            of(1, &[(4.0, 1, 9), (3.0, 2, 9), (2.0, 3, 0)]),
            of(2, &[(4.0, 1, 9)]),
            of(3, &[(1.0, 1, 9), (0.5, 2, 8)]),
            of(4, &[(0.5, 1, 8)]),
        ];
        let looked_at = demote_duplicates(&mut groups, wanted, &places, &|recording| {
            all_texts(recording).to_vec()
        })
        .len();
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
    fn a_fork_that_went_on_is_no_copy() {
        let mut places = MatchPlaces::default();
        let mut of =
            |recording, matches: &[(f32, u64, u32)]| group(recording, matches, &mut places);
        let mut groups = vec![of(1, &[(4.0, 1, 9)]), of(5, &[(3.0, 1, 9)]), of(2, &[(2.0, 1, 9)])];
        demote_duplicates(&mut groups, 9, &places, &|recording| all_texts(recording).to_vec());
        let scores: Vec<f32> = groups.iter().map(MatchGroup::score).collect();
        assert_eq!(scores, [4.0, 3.0, 1.0]);
    }

    #[test]
    fn no_more_are_looked_at_than_could_come_first() {
        // The first loses a match, the second repeats it: only the third keeps its rank.
        assert_eq!(collapsed(1).1, 3);
        assert_eq!(collapsed(0).1, 0);
    }
}
