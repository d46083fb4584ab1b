//! Finds the nearest vectors: a coarse pass over the signs of all rows, then the exact distances of
//! the best.

use std::io;
use std::ops::Range;

use super::reader::Vectors;
use super::rows::{VectorKey, VectorPlace, signs};

/// The maximum of a quantized component: the sum of eight fits into sixteen bits.
const STEPS: f32 = 4095.0;

/// The number of coarse candidates per requested result, and the minimum number of candidates. Of
/// the twenty nearest of 175,000 texts, 99 % are among 3,200 candidates.
const CANDIDATES: usize = 16;
const FEWEST: usize = 512;

/// The maximum number of candidates that are windows of one text: signs alone do not decide which
/// window is nearest, and a long text must not fill the list.
const WINDOWS: usize = 16;

/// The maximum gap between two candidates, in rows, that is read along with them.
const GAP: usize = 4;

/// A text near a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NearVector {
    /// The location of the text.
    pub(crate) place: VectorPlace,
    /// The hash of the nearest window: the same text elsewhere has the same hash.
    pub(crate) content: u64,
    /// The cosine similarity, at most one.
    pub(crate) score: f32,
}

impl Vectors {
    /// Finds the `count` texts nearest to a query among the allowed recordings, the nearest first;
    /// a long text counts by its nearest window.
    pub(crate) fn search(
        &self,
        query: &[f32],
        allowed: &dyn Fn(u64) -> bool,
        count: usize,
    ) -> Vec<NearVector> {
        if query.len() != self.shape.dimensions || count == 0 {
            return Vec::new();
        }
        let rows = self.candidates(query, allowed, (count * CANDIDATES).max(FEWEST));
        let mut near = Vec::with_capacity(rows.len());
        let mut bytes = Vec::new();
        let mut rest = rows.as_slice();
        while let Some(span) = self.neighbours(&mut rest) {
            // Rows that cannot be read are skipped.
            let _ = self.measure(span, query, &mut bytes, &mut near);
        }
        // The order of rows depends on the history of the file and must not decide.
        let order = |one: &NearVector| (one.place.recording, one.place.position, one.place.kind);
        near.sort_by(|one, other| {
            let by_score = other.score.total_cmp(&one.score);
            by_score.then_with(|| order(one).cmp(&order(other)))
        });
        let mut best: Vec<NearVector> = Vec::with_capacity(count);
        for one in near {
            if best.len() == count {
                break;
            }
            if best.iter().all(|better| better.place != one.place) {
                best.push(one);
            }
        }
        best
    }

    /// Returns the best rows of the coarse pass, in order.
    fn candidates(&self, query: &[f32], allowed: &dyn Fn(u64) -> bool, room: usize) -> Vec<usize> {
        let sums = Sums::of(query);
        let mut shortlist = Shortlist::new(room);
        // Rows of one recording are adjacent.
        let mut asked = None;
        let mut is_allowed = |recording: u64| match asked {
            Some((last, answer)) if last == recording => answer,
            _ => asked.insert((recording, allowed(recording))).1,
        };
        for segment in &self.segments {
            let (first, keys) = (segment.block.first, segment.keys());
            let rows = segment.signs().chunks_exact(signs(self.shape.dimensions));
            for (at, row) in rows.take(keys.len()).enumerate() {
                let score = sums.score(row);
                if score <= shortlist.floor {
                    continue;
                }
                let place = VectorKey::read_place(&keys[at]);
                if !self.is_dead(first + at) && is_allowed(place.0) {
                    shortlist.offer(Candidate { score, row: first + at, place });
                }
            }
        }
        shortlist.finish()
    }

    /// Removes rows that can be read at once from the front of a list.
    fn neighbours<'r>(&self, rest: &mut &'r [usize]) -> Option<&'r [usize]> {
        let block = self.locate(*rest.first()?).0.block;
        let end = block.first + block.rows;
        let apart = |pair: &[usize]| pair[1] >= end || pair[1] - pair[0] > GAP;
        let count = rest.windows(2).position(apart).map_or(rest.len(), |at| at + 1);
        let (span, after) = rest.split_at(count);
        *rest = after;
        Some(span)
    }

    /// Computes the scores of adjacent rows.
    fn measure(
        &self,
        rows: &[usize],
        query: &[f32],
        bytes: &mut Vec<u8>,
        near: &mut Vec<NearVector>,
    ) -> io::Result<()> {
        let (first, last) = (rows[0], rows[rows.len() - 1]);
        let (segment, at) = self.locate(first);
        let span: Range<usize> = at..at + (last - first) + 1;
        self.read_exact(&segment.block, span, bytes)?;
        let precision = self.shape.precision;
        let size = self.shape.dimensions * precision.width();
        for row in rows {
            let exact = &bytes[(row - first) * size..][..size];
            let VectorKey { place, content } = segment.key(row - segment.block.first);
            near.push(NearVector { place, content, score: precision.dot(exact, query) });
        }
        Ok(())
    }
}

/// The contribution of the signs of eight components to a score, by byte index and bits.
struct Sums(Vec<[i16; 256]>);

impl Sums {
    fn of(query: &[f32]) -> Self {
        let largest = query.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let step = if largest > 0.0 { largest / STEPS } else { 1.0 };
        let sums = query.chunks(8).map(|eight| {
            let mut sums = [0; 256];
            for (bits, sum) in sums.iter_mut().enumerate() {
                let signed = eight.iter().enumerate().map(|(bit, value)| {
                    let value = (value / step).round() as i16;
                    if bits >> bit & 1 == 1 { value } else { -value }
                });
                *sum = signed.sum();
            }
            sums
        });
        Self(sums.collect())
    }

    fn score(&self, row: &[u8]) -> i32 {
        // Four independent sums, which the processor computes in parallel.
        let mut lanes = [0; 4];
        let (rows, rest) = row.as_chunks::<4>();
        let (sums, more) = self.0.as_chunks::<4>();
        for (bits, sums) in rows.iter().zip(sums) {
            for lane in 0..4 {
                lanes[lane] += i32::from(sums[lane][usize::from(bits[lane])]);
            }
        }
        let rest = rest.iter().zip(more).map(|(bits, sums)| i32::from(sums[usize::from(*bits)]));
        lanes.into_iter().chain(rest).sum()
    }
}

#[derive(Clone, Copy)]
struct Candidate {
    score: i32,
    row: usize,
    /// The recording, and the position with the kind.
    place: (u64, u64),
}

/// The best candidates so far, and some that have been surpassed.
struct Shortlist {
    room: usize,
    /// The score that a candidate must exceed.
    floor: i32,
    candidates: Vec<Candidate>,
    /// The number of trailing candidates that are windows of one text.
    windows: usize,
}

impl Shortlist {
    fn new(room: usize) -> Self {
        let candidates = Vec::with_capacity(2 * room);
        Self { room, floor: i32::MIN, candidates, windows: 0 }
    }

    /// Adds a candidate. Windows of one text are adjacent.
    fn offer(&mut self, candidate: Candidate) {
        if self.candidates.last().is_none_or(|last| last.place != candidate.place) {
            self.windows = 0;
        }
        if self.windows == WINDOWS {
            let start = self.candidates.len() - WINDOWS;
            let weakest = self.candidates[start..].iter_mut().min_by_key(|one| one.score);
            if let Some(weakest) = weakest.filter(|weakest| weakest.score < candidate.score) {
                *weakest = candidate;
            }
            return;
        }
        if self.candidates.len() == 2 * self.room {
            self.shorten();
        }
        self.candidates.push(candidate);
        self.windows += 1;
    }

    fn shorten(&mut self) {
        let order = |one: &Candidate, other: &Candidate| other.score.cmp(&one.score);
        let (_, worst, _) = self.candidates.select_nth_unstable_by(self.room - 1, order);
        self.floor = worst.score;
        self.candidates.truncate(self.room);
        self.windows = 0;
    }

    fn finish(mut self) -> Vec<usize> {
        if self.candidates.len() > self.room {
            self.shorten();
        }
        let mut rows: Vec<usize> = self.candidates.iter().map(|candidate| candidate.row).collect();
        rows.sort_unstable();
        rows
    }
}
