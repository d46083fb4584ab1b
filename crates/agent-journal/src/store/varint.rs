//! Encodes numbers as varints and names as indexes into a table.

use std::collections::HashMap;
use std::rc::Rc;

/// A table of names that encoded data refers to by index.
#[derive(Default)]
pub(super) struct Names {
    order: Vec<String>,
    places: HashMap<String, u64>,
}

impl Names {
    pub(super) fn place(&mut self, name: &str) -> u64 {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.order.len() as u64;
        self.order.push(name.to_owned());
        self.places.insert(name.to_owned(), place);
        place
    }

    /// Writes the table, followed by the data that refers to it.
    pub(super) fn before(self, body: Vec<u8>) -> Vec<u8> {
        let mut all = Vec::with_capacity(body.len() + 64);
        put(&mut all, self.order.len() as u64);
        for name in &self.order {
            put(&mut all, name.len() as u64);
            all.extend_from_slice(name.as_bytes());
        }
        all.extend(body);
        all
    }
}

/// Writes a number with seven bits per byte.
pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Writes a signed number in zigzag encoding, so that small negative numbers are short too.
pub(super) fn put_signed(bytes: &mut Vec<u8>, number: i64) {
    put(bytes, ((number << 1) ^ (number >> 63)) as u64);
}

/// Reads data that `write_varint` and the other writers wrote; returns `None` at the end.
pub(super) struct Reader<'b>(pub(super) &'b [u8]);

impl<'b> Reader<'b> {
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub(super) fn text(&mut self) -> Option<&'b str> {
        let length = self.number()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    pub(super) fn names(&mut self) -> Option<Vec<Rc<str>>> {
        let count = self.number()?;
        (0..count).map(|_| self.text().map(Rc::from)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_size_come_back() {
        let mut bytes = Vec::new();
        for number in [0, 127, 128, u64::MAX] {
            put(&mut bytes, number);
        }
        for number in [0, -1, 64, i64::MIN, i64::MAX] {
            put_signed(&mut bytes, number);
        }
        let mut reader = Reader(&bytes);
        let numbers: Vec<u64> = (0..4).filter_map(|_| reader.number()).collect();
        assert_eq!(numbers, [0, 127, 128, u64::MAX]);
        let signed: Vec<i64> = (0..5).filter_map(|_| reader.signed()).collect();
        assert_eq!(signed, [0, -1, 64, i64::MIN, i64::MAX]);
        assert_eq!(reader.number(), None);
    }
}
