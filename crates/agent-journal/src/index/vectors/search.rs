//! Finds what is near: a coarse pass over the codes of all rows, then the exact distance of the
//! best.

use super::reader::Vectors;
use super::rows::{Key, Place, step};

/// Steps of a query's components: as fine as sums of products allow.
const QUERY_STEPS: f32 = 4095.0;

/// Candidates of the coarse pass for every result asked for, and how many at least.
const CANDIDATES: usize = 4;
const FEWEST: usize = 64;

/// A text near a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Near {
    /// Where it stands.
    pub(crate) place: Place,
    /// The hash of the window that is nearest: the same text elsewhere has the same.
    pub(crate) content: u64,
    /// The cosine of the angle between the two, at most one.
    pub(crate) score: f32,
}

impl Vectors {
    /// Finds the `count` texts nearest to a query among the tellings that are allowed, the
    /// nearest first; of a long text, its nearest window counts.
    pub(crate) fn search(
        &self,
        query: &[f32],
        allowed: &dyn Fn(u64) -> bool,
        count: usize,
    ) -> Vec<Near> {
        if query.len() != self.dimensions || count == 0 {
            return Vec::new();
        }
        let mut near: Vec<Near> = self
            .candidates(query, allowed, (count * CANDIDATES).max(FEWEST))
            .into_iter()
            .map(|row| {
                let Key { place, content } = self.key(row);
                Near { place, content, score: self.score(row, query) }
            })
            .collect();
        near.sort_by(|one, other| other.score.total_cmp(&one.score));
        let mut best: Vec<Near> = Vec::with_capacity(count);
        for one in near {
            if best.len() < count && best.iter().all(|better| better.place != one.place) {
                best.push(one);
            }
        }
        best
    }

    /// The rows that look best to the coarse pass.
    fn candidates(&self, query: &[f32], allowed: &dyn Fn(u64) -> bool, room: usize) -> Vec<usize> {
        let scale = step(query, QUERY_STEPS);
        let query: Vec<i16> = query.iter().map(|value| (value / scale).round() as i16).collect();
        let mut shortlist = Shortlist::new(room);
        // Rows of one telling are neighbours.
        let mut asked = None;
        let mut is_allowed = |telling: u64| match asked {
            Some((last, answer)) if last == telling => answer,
            _ => asked.insert((telling, allowed(telling))).1,
        };
        let data = self.data();
        for block in &self.blocks {
            let (keys, scales) = (block.keys(data), block.scales(data));
            let codes = block.all_codes(data).chunks_exact(self.dimensions);
            for (at, (codes, scale)) in codes.zip(scales).enumerate() {
                let score = dot(codes, &query) as f32 * f32::from_le_bytes(*scale);
                if score <= shortlist.floor {
                    continue;
                }
                let row = block.first + at;
                let place = Key::read_place(&keys[at]);
                if !self.is_dead(row) && is_allowed(place.0) {
                    shortlist.offer(Candidate { score, row, place });
                }
            }
        }
        shortlist.finish()
    }

    /// The cosine of the angle between a row and a query.
    fn score(&self, row: usize, query: &[f32]) -> f32 {
        let (block, at) = self.locate(row);
        let exact = self.precision.read(block.exact(self.data(), at));
        exact.zip(query).map(|(one, other)| one * other).sum()
    }
}

/// The sum of products, written so that compilers use the widest registers there are.
fn dot(codes: &[u8], query: &[i16]) -> i32 {
    codes.iter().zip(query).map(|(code, value)| i32::from(*code as i8) * i32::from(*value)).sum()
}

#[derive(Clone, Copy)]
struct Candidate {
    score: f32,
    row: usize,
    /// Telling, and position with kind.
    place: (u64, u64),
}

/// The best candidates so far, and some that are no longer.
struct Shortlist {
    room: usize,
    /// What a candidate must exceed.
    floor: f32,
    candidates: Vec<Candidate>,
}

impl Shortlist {
    fn new(room: usize) -> Self {
        Self { room, floor: f32::NEG_INFINITY, candidates: Vec::with_capacity(2 * room) }
    }

    /// Takes a candidate. Windows of one text are neighbours: the best of them stands for all, so
    /// that no long text fills the list.
    fn offer(&mut self, candidate: Candidate) {
        if let Some(last) = self.candidates.last_mut()
            && last.place == candidate.place
        {
            if candidate.score > last.score {
                *last = candidate;
            }
            return;
        }
        if self.candidates.len() == 2 * self.room {
            self.shorten();
        }
        self.candidates.push(candidate);
    }

    fn shorten(&mut self) {
        let order = |one: &Candidate, other: &Candidate| other.score.total_cmp(&one.score);
        let (_, worst, _) = self.candidates.select_nth_unstable_by(self.room - 1, order);
        self.floor = worst.score;
        self.candidates.truncate(self.room);
    }

    fn finish(mut self) -> Vec<usize> {
        if self.candidates.len() > self.room {
            self.shorten();
        }
        self.candidates.iter().map(|candidate| candidate.row).collect()
    }
}
