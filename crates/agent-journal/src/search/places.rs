//! Where matches are. A query finds many thousands and shows a few: of all the others no more is
//! kept than leads to what the index knows of them.

use std::cmp::Ordering;
use std::sync::Arc;

use tantivy::{DocId, Searcher};

use super::gather::Match;
use crate::index::{Columns, Likeness, TextKind, Traits};

/// Where a match is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In a passage of a part of the index, with its mark.
    Passage { part: u16, document: DocId, mark: u16 },
    /// Near in meaning: the number of it among those.
    Near(u32),
}

/// The text a match is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located {
    /// The session it is in: that of the group, or one that belongs to it.
    pub(super) telling: u64,
    pub(super) position: Option<u64>,
    pub(super) kind: TextKind,
    /// The same for messages that are nearly the same; 0 for short ones.
    pub(super) print: u32,
    /// When it was recorded, in milliseconds.
    pub(super) at: i64,
    /// The piece of it that is near in meaning, when that is how it was found.
    pub(super) window: Option<u64>,
}

/// Tells the texts of matches.
#[derive(Clone, Default)]
pub(super) struct Places {
    parts: Arc<[Columns]>,
    near: Vec<Located>,
}

impl Places {
    pub(super) fn of(searcher: &Searcher) -> tantivy::Result<Self> {
        let parts = searcher.segment_readers().iter().map(Columns::of);
        Ok(Self { parts: parts.collect::<tantivy::Result<_>>()?, near: Vec::new() })
    }

    pub(super) fn part(&self, part: u16) -> &Columns {
        &self.parts[usize::from(part)]
    }

    /// The place of a text that is near in meaning.
    pub(super) fn add(&mut self, near: Located) -> Place {
        self.near.push(near);
        Place::Near(self.near.len() as u32 - 1)
    }

    /// The text a match is in.
    pub(super) fn text(&self, one: &Match) -> Located {
        match one.place {
            Place::Near(near) => self.near[near as usize],
            Place::Passage { part, document, .. } => {
                let columns = self.part(part);
                Located {
                    telling: columns.telling.get_val(document),
                    position: Columns::place(columns.position.get_val(document)),
                    kind: Traits::unpack(columns.traits.get_val(document)).kind(),
                    print: Likeness::unpack(columns.likeness.get_val(document)).print,
                    at: columns.at.get_val(document),
                    window: None,
                }
            }
        }
    }

    /// Whether two matches are in the same text.
    #[inline]
    pub(super) fn are_same(&self, one: &Match, other: &Match) -> bool {
        let mark = |one: &Match| match one.place {
            Place::Passage { mark, .. } => Some(mark),
            Place::Near(_) => None,
        };
        let differ = mark(one).zip(mark(other)).is_some_and(|(one, other)| one != other);
        !differ && self.key(one) == self.key(other)
    }

    fn key(&self, one: &Match) -> (u64, Option<u64>, TextKind) {
        let Located { telling, position, kind, .. } = self.text(one);
        (telling, position, kind)
    }

    /// Compares matches: the better one comes first, and of those that are worth the same the one
    /// that stands earlier in its session. Where they lie in the index depends on its past and
    /// must not decide.
    #[inline]
    pub(super) fn compare(&self, one: &Match, other: &Match) -> Ordering {
        let by_score = other.score.total_cmp(&one.score);
        by_score.then_with(|| self.order(one).cmp(&self.order(other)))
    }

    /// What is about a session as a whole comes after its messages.
    fn order(&self, one: &Match) -> (u64, u64, TextKind) {
        let (telling, position, kind) = self.key(one);
        (position.unwrap_or(u64::MAX), telling, kind)
    }
}
