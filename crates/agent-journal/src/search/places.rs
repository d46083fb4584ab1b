//! The locations of matches. A query finds many thousands and shows a few: of all the others, only
//! the key to their columns in the index is kept.

use std::cmp::Ordering;
use std::sync::Arc;

use tantivy::{DocId, Searcher};

use super::collector::PassageMatch;
use crate::filter::TextKind;
use crate::index::{PassageColumns, PassageFingerprint, RankKey};

/// The location of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatchPlace {
    /// A passage of a segment, with its message tag.
    Passage { part: u16, document: DocId, tag: u16 },
    /// A text that is near in meaning: its number among those texts.
    Near(u32),
}

/// The text that contains a match.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocatedText {
    /// The recording that contains it: that of the group, or one that belongs to it.
    pub(super) recording: u64,
    pub(super) position: Option<u64>,
    pub(super) kind: TextKind,
    /// A value that nearly equal messages share; 0 for short ones.
    pub(super) fingerprint: u32,
    /// The time of recording, in milliseconds.
    pub(super) at: i64,
    /// The hash of the window that is near in meaning, for a match by meaning.
    pub(super) window: Option<u64>,
}

/// Resolves matches to their texts.
#[derive(Clone, Default)]
pub(super) struct MatchPlaces {
    parts: Arc<[PassageColumns]>,
    near: Vec<LocatedText>,
}

impl MatchPlaces {
    pub(super) fn of(searcher: &Searcher) -> tantivy::Result<Self> {
        let parts = searcher.segment_readers().iter().map(PassageColumns::of);
        Ok(Self { parts: parts.collect::<tantivy::Result<_>>()?, near: Vec::new() })
    }

    pub(super) fn part(&self, part: u16) -> &PassageColumns {
        &self.parts[usize::from(part)]
    }

    /// Adds a text that is near in meaning and returns its location.
    pub(super) fn add(&mut self, near: LocatedText) -> MatchPlace {
        self.near.push(near);
        MatchPlace::Near(self.near.len() as u32 - 1)
    }

    /// Returns the text that contains a match.
    pub(super) fn text(&self, one: &PassageMatch) -> LocatedText {
        match one.place {
            MatchPlace::Near(near) => self.near[near as usize],
            MatchPlace::Passage { part, document, .. } => {
                let columns = self.part(part);
                LocatedText {
                    recording: columns.recording.get_val(document),
                    position: PassageColumns::place(columns.position.get_val(document)),
                    kind: RankKey::unpack(columns.traits.get_val(document)).kind(),
                    fingerprint: PassageFingerprint::unpack(columns.likeness.get_val(document))
                        .fingerprint,
                    at: columns.at.get_val(document),
                    window: None,
                }
            }
        }
    }

    /// Returns whether two matches are in the same text.
    #[inline]
    pub(super) fn are_same(&self, one: &PassageMatch, other: &PassageMatch) -> bool {
        let tag = |one: &PassageMatch| match one.place {
            MatchPlace::Passage { tag, .. } => Some(tag),
            MatchPlace::Near(_) => None,
        };
        let differ = tag(one).zip(tag(other)).is_some_and(|(one, other)| one != other);
        !differ && self.key(one) == self.key(other)
    }

    fn key(&self, one: &PassageMatch) -> (u64, Option<u64>, TextKind) {
        let LocatedText { recording, position, kind, .. } = self.text(one);
        (recording, position, kind)
    }

    /// Compares matches: the better one comes first; of equal ones, the one earlier in its session.
    /// The location in the index depends on its history and must not decide.
    #[inline]
    pub(super) fn compare(&self, one: &PassageMatch, other: &PassageMatch) -> Ordering {
        let by_score = other.score.total_cmp(&one.score);
        by_score.then_with(|| self.order(one).cmp(&self.order(other)))
    }

    /// Returns the sort key by position. Texts about a whole session come after its messages.
    fn order(&self, one: &PassageMatch) -> (u64, u64, TextKind) {
        let (recording, position, kind) = self.key(one);
        (position.unwrap_or(u64::MAX), recording, kind)
    }
}
