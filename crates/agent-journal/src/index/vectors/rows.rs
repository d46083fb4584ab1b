//! Vectors on their way into the file: rounded where they were made, so that the writer has
//! nothing to do but to copy.

use super::reader::Segment;
use super::{Precision, Shape};
use crate::index::TextKind;

/// The bytes of a key in the file.
pub(super) const KEY: usize = 24;

/// The position of texts that are about a session as a whole.
pub(super) const WHOLE: u32 = u32::MAX;

/// Where a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The telling.
    pub(crate) telling: u64,
    /// The position there; none for what is about the session as a whole.
    pub(crate) position: Option<u64>,
    /// What kind of text it is.
    pub(crate) kind: TextKind,
}

/// What a row is about. The windows of a long text have the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Where the text stands.
    pub(crate) place: Place,
    /// The hash of the text that was embedded.
    pub(crate) content: u64,
}

/// A run of vectors with their keys, column by column as the file has them.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    precision: Precision,
    /// Room for the vector that is being made.
    vector: Vec<f32>,
    pub(super) keys: Vec<u8>,
    /// For each component whether it is positive, a bit each: for the coarse pass.
    pub(super) signs: Vec<u8>,
    /// The components as exactly as they are kept.
    pub(super) exact: Vec<u8>,
}

impl Rows {
    /// No rows yet, for a file of this shape.
    pub(crate) fn new(shape: &Shape) -> Self {
        Self {
            precision: shape.precision,
            vector: vec![0.0; shape.dimensions],
            keys: Vec::new(),
            signs: Vec::new(),
            exact: Vec::new(),
        }
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.keys.len() / KEY
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds the vector that `make` writes, unless it says that there is none.
    pub(crate) fn add_with(&mut self, key: Key, make: impl FnOnce(&mut [f32]) -> bool) {
        if !make(&mut self.vector) {
            return;
        }
        key.write(&mut self.keys);
        self.signs.extend(self.vector.chunks(8).map(|eight| {
            let bits = eight.iter().enumerate().map(|(bit, value)| u8::from(*value > 0.0) << bit);
            bits.fold(0, |byte, bit| byte | bit)
        }));
        match self.precision {
            Precision::F16 => {
                self.exact.extend(self.vector.iter().flat_map(|value| half(*value).to_le_bytes()));
            }
            Precision::F32 => {
                self.exact.extend(self.vector.iter().flat_map(|value| value.to_le_bytes()));
            }
        }
    }

    /// Adds a row of a segment as it is; `exact` has the exact components of all its rows.
    pub(super) fn copy(&mut self, segment: &Segment, exact: &[u8], at: usize) {
        let dimensions = self.vector.len();
        let row = |bytes: &mut Vec<u8>, all: &[u8], size| {
            bytes.extend_from_slice(&all[at * size..][..size]);
        };
        self.keys.extend_from_slice(&segment.keys()[at]);
        row(&mut self.signs, segment.signs(), signs(dimensions));
        row(&mut self.exact, exact, dimensions * self.precision.width());
    }

    /// Moves all rows of another run to the end of this one.
    pub(super) fn take(&mut self, other: &mut Self) {
        self.keys.append(&mut other.keys);
        self.signs.append(&mut other.signs);
        self.exact.append(&mut other.exact);
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.signs.clear();
        self.exact.clear();
    }
}

impl Key {
    fn write(&self, into: &mut Vec<u8>) {
        let position = self
            .place
            .position
            .map_or(WHOLE, |position| u32::try_from(position).unwrap_or(WHOLE).min(WHOLE - 1));
        into.extend_from_slice(&self.place.telling.to_le_bytes());
        into.extend_from_slice(&self.content.to_le_bytes());
        into.extend_from_slice(&position.to_le_bytes());
        into.extend_from_slice(&[self.place.kind as u8, 0, 0, 0]);
    }

    pub(super) fn read(bytes: &[u8; KEY]) -> Self {
        let [telling, content, rest] = words(bytes);
        let position = rest as u32;
        let kind = ((rest >> 32) as usize).min(TextKind::ALL.len() - 1);
        let position = (position != WHOLE).then_some(u64::from(position));
        let place = Place { telling, position, kind: TextKind::ALL[kind] };
        Self { place, content }
    }

    /// The telling, and the position with the kind above it: for those that look at many keys.
    pub(super) fn read_place(bytes: &[u8; KEY]) -> (u64, u64) {
        let [telling, _, rest] = words(bytes);
        (telling, rest)
    }
}

fn words(bytes: &[u8; KEY]) -> [u64; 3] {
    let chunks = bytes.as_chunks().0;
    std::array::from_fn(|at| u64::from_le_bytes(chunks[at]))
}

/// The bytes that the signs of a row take.
pub(super) fn signs(dimensions: usize) -> usize {
    dimensions.div_ceil(8)
}

/// Exponents of half-precision numbers lie this factor below those of single precision.
const BIAS: f32 = f32::from_bits((127 - 112) << 23);

/// Rounds to half precision. Good for numbers a vector of length one can have.
fn half(value: f32) -> u16 {
    let bits = (value.abs() * BIAS).to_bits();
    let rounded = (bits + 0xfff + (bits >> 13 & 1)) >> 13;
    (rounded | value.to_bits() >> 16 & 0x8000) as u16
}

/// The number that [`half`] made.
pub(super) fn whole(half: u16) -> f32 {
    let size = f32::from_bits(u32::from(half & 0x7fff) << 13) / BIAS;
    f32::from_bits(size.to_bits() | u32::from(half & 0x8000) << 16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn halves_are_those_of_the_standard() {
        for (value, bits) in [
            (0.0, 0),
            (1.0, 0x3c00),
            (-0.5, 0xb800),
            (0.333_251_95, 0x3555),
            (5.960_464_5e-8, 1),
            (6.103_515_6e-5, 0x0400),
            (1.0 - 1.0 / 8192.0, 0x3c00),
            // Between two of them: the even one.
            (0.500_244_14, 0x3800),
            (0.500_732_4, 0x3802),
        ] {
            assert_eq!(half(value), bits, "{value}");
        }
    }

    proptest! {
        #[test]
        fn a_half_is_near(value in -1.0_f32..=1.0) {
            prop_assert!((whole(half(value)) - value).abs() <= value.abs() / 2048.0 + 3e-8);
        }

        #[test]
        fn a_key_is_read_as_it_was_written(
            telling: u64,
            content: u64,
            position in proptest::option::of(0..u64::from(WHOLE)),
            kind in 0..TextKind::ALL.len(),
        ) {
            let key = Key { place: Place { telling, position, kind: TextKind::ALL[kind] }, content };
            let mut bytes = Vec::new();
            key.write(&mut bytes);
            prop_assert_eq!(Key::read(&bytes.try_into().unwrap()), key);
        }
    }
}
