//! Finds what is near: a coarse pass over the codes of all rows, then the exact distance of the
//! best.

use std::io;

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
        if query.len() != self.shape.dimensions || count == 0 {
            return Vec::new();
        }
        let mut bytes = Vec::new();
        let mut near: Vec<Near> = self
            .candidates(query, allowed, (count * CANDIDATES).max(FEWEST))
            .into_iter()
            .filter_map(|row| self.near(row, query, &mut bytes).ok())
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
        for segment in &self.segments {
            let (first, keys) = (segment.block.first, segment.keys());
            let codes = segment.codes().chunks_exact(self.shape.dimensions);
            for (at, (codes, scale)) in codes.zip(segment.scales()).enumerate() {
                let score = dot(codes, &query) as f32 * f32::from_le_bytes(*scale);
                if score <= shortlist.floor {
                    continue;
                }
                let place = Key::read_place(&keys[at]);
                if !self.is_dead(first + at) && is_allowed(place.0) {
                    shortlist.offer(Candidate { score, row: first + at, place });
                }
            }
        }
        shortlist.finish()
    }

    /// Measures how near a row is.
    fn near(&self, row: usize, query: &[f32], bytes: &mut Vec<u8>) -> io::Result<Near> {
        let (segment, at) = self.locate(row);
        self.read_exact(&segment.block, at..at + 1, bytes)?;
        let exact = self.shape.precision.read(bytes);
        let score = exact.zip(query).map(|(one, other)| one * other).sum();
        let Key { place, content } = segment.key(at);
        Ok(Near { place, content, score })
    }
}

/// The sum of products. Compilers do best with the sums of short runs.
fn dot(codes: &[u8], query: &[i16]) -> i32 {
    const RUN: usize = 32;
    let sum = |codes: &[u8], query: &[i16]| -> i32 {
        let pairs = codes.iter().zip(query);
        pairs.map(|(code, value)| i32::from(*code as i8) * i32::from(*value)).sum()
    };
    let (code_runs, codes) = codes.as_chunks::<RUN>();
    let (query_runs, query) = query.as_chunks::<RUN>();
    let runs = code_runs.iter().zip(query_runs);
    runs.map(|(codes, query)| sum(codes, query)).sum::<i32>() + sum(codes, query)
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
