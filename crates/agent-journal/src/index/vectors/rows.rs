//! Rows to be written to the file. Components are rounded by the thread that made them, so that the
//! writer only copies.

use super::reader::VectorSegment;
use super::{Precision, VectorShape};
use crate::filter::TextKind;

/// The size of a key in the file in bytes.
pub(super) const KEY: usize = 24;

/// The position of texts about a whole session.
pub(super) const WHOLE: u32 = u32::MAX;

/// The location of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VectorPlace {
    /// The recording that contains the text.
    pub(crate) recording: u64,
    /// The position of the message; `None` for a text about the whole session.
    pub(crate) position: Option<u64>,
    /// The kind of text.
    pub(crate) kind: TextKind,
}

/// The key of a row. The windows of a long text share their location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VectorKey {
    /// The location of the text.
    pub(crate) place: VectorPlace,
    /// The hash of the embedded text.
    pub(crate) content: u64,
}

/// Vectors with their keys, column by column as in the file.
#[derive(Clone, Debug)]
pub(crate) struct VectorRows {
    precision: Precision,
    /// A buffer for the vector that is being computed.
    vector: Vec<f32>,
    pub(super) keys: Vec<u8>,
    /// One bit per component: whether it is positive. Used by the coarse pass.
    pub(super) signs: Vec<u8>,
    /// The components in stored precision.
    pub(super) exact: Vec<u8>,
}

impl VectorRows {
    /// Creates an empty set of rows for a file of this layout.
    pub(crate) fn new(shape: &VectorShape) -> Self {
        Self {
            precision: shape.precision,
            vector: vec![0.0; shape.dimensions],
            keys: Vec::new(),
            signs: Vec::new(),
            exact: Vec::new(),
        }
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.keys.len() / KEY
    }

    /// Returns whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds the vector that `make` writes, unless it returns `false`.
    pub(crate) fn add_with(&mut self, key: VectorKey, make: impl FnOnce(&mut [f32]) -> bool) {
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

    /// Copies a row of a segment; `exact` holds the exact components of all its rows.
    pub(super) fn copy(&mut self, segment: &VectorSegment, exact: &[u8], at: usize) {
        let dimensions = self.vector.len();
        let row = |bytes: &mut Vec<u8>, all: &[u8], size| {
            bytes.extend_from_slice(&all[at * size..][..size]);
        };
        self.keys.extend_from_slice(&segment.keys()[at]);
        row(&mut self.signs, segment.signs(), signs(dimensions));
        row(&mut self.exact, exact, dimensions * self.precision.width());
    }

    /// Moves all rows of `other` to the end of this one.
    pub(super) fn take(&mut self, other: &mut Self) {
        self.keys.append(&mut other.keys);
        self.signs.append(&mut other.signs);
        self.exact.append(&mut other.exact);
    }

    /// Removes all rows.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.signs.clear();
        self.exact.clear();
    }
}

impl VectorKey {
    fn write(&self, into: &mut Vec<u8>) {
        let position = self
            .place
            .position
            .map_or(WHOLE, |position| u32::try_from(position).unwrap_or(WHOLE).min(WHOLE - 1));
        into.extend_from_slice(&self.place.recording.to_le_bytes());
        into.extend_from_slice(&self.content.to_le_bytes());
        into.extend_from_slice(&position.to_le_bytes());
        into.extend_from_slice(&[self.place.kind as u8, 0, 0, 0]);
    }

    pub(super) fn read(bytes: &[u8; KEY]) -> Self {
        let [recording, content, rest] = words(bytes);
        let position = rest as u32;
        let kind = ((rest >> 32) as usize).min(TextKind::ALL.len() - 1);
        let position = (position != WHOLE).then_some(u64::from(position));
        let place = VectorPlace { recording, position, kind: TextKind::ALL[kind] };
        Self { place, content }
    }

    /// Returns the recording, and the position with the kind in its upper bits: faster than a
    /// complete key for scans.
    pub(super) fn read_place(bytes: &[u8; KEY]) -> (u64, u64) {
        let [recording, _, rest] = words(bytes);
        (recording, rest)
    }
}

fn words(bytes: &[u8; KEY]) -> [u64; 3] {
    let chunks = bytes.as_chunks().0;
    std::array::from_fn(|at| u64::from_le_bytes(chunks[at]))
}

/// Returns the number of bytes for the signs of a row.
pub(super) fn signs(dimensions: usize) -> usize {
    dimensions.div_ceil(8)
}

/// The factor between the exponents of half and single precision.
const BIAS: f32 = f32::from_bits((127 - 112) << 23);

/// Rounds to half precision. Valid for components of a vector of length one.
fn half(value: f32) -> u16 {
    let bits = (value.abs() * BIAS).to_bits();
    let rounded = (bits + 0xfff + (bits >> 13 & 1)) >> 13;
    (rounded | value.to_bits() >> 16 & 0x8000) as u16
}

/// Converts a number that [`half`] made to single precision.
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
            recording: u64,
            content: u64,
            position in proptest::option::of(0..u64::from(WHOLE)),
            kind in 0..TextKind::ALL.len(),
        ) {
            let key = VectorKey { place: VectorPlace { recording, position, kind: TextKind::ALL[kind] }, content };
            let mut bytes = Vec::new();
            key.write(&mut bytes);
            prop_assert_eq!(VectorKey::read(&bytes.try_into().unwrap()), key);
        }
    }
}
