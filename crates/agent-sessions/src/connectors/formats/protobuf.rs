//! Reads Protocol Buffers messages without their schema: fields by number. Damage ends a message,
//! and the fields before it count. Nothing is copied, and no input causes a panic.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::model::{Json, Timestamp};

/// Maximum nesting of messages that are converted to JSON.
const MAX_JSON_DEPTH: usize = 16;

/// Maximum number of fields that are converted to JSON.
const MAX_JSON_FIELDS: usize = 4096;

/// The bytes of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtobufMessage<'a>(&'a [u8]);

/// The value of a field, as far as it is known without a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtobufValue<'a> {
    /// A number of variable length.
    Varint(u64),
    /// A number of 4 or 8 bytes.
    Fixed(u64),
    /// A text, bytes, a message or a packed list.
    Bytes(&'a [u8]),
}

impl<'a> ProtobufMessage<'a> {
    /// Wraps the bytes of a message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the fields in order, each with its number. Damage ends the iteration.
    pub fn fields(self) -> impl Iterator<Item = (u64, ProtobufValue<'a>)> {
        let mut rest = self.0;
        std::iter::from_fn(move || read_field(&mut rest))
    }

    /// Returns whether the bytes are fields up to their end.
    pub fn is_complete(self) -> bool {
        let mut rest = self.0;
        while read_field(&mut rest).is_some() {}
        rest.is_empty()
    }

    /// Returns the fields that hold bytes, in order, each with its number.
    pub fn byte_fields(self) -> impl Iterator<Item = (u64, &'a [u8])> {
        self.fields().filter_map(|(number, value)| match value {
            ProtobufValue::Bytes(bytes) => Some((number, bytes)),
            _ => None,
        })
    }

    /// Returns the bytes of all fields with a number.
    pub fn all_bytes(self, number: u64) -> impl Iterator<Item = &'a [u8]> {
        self.byte_fields().filter(move |(field, _)| *field == number).map(|(_, bytes)| bytes)
    }

    /// Returns the bytes of a field. Of several the last one counts.
    pub fn bytes(self, number: u64) -> Option<&'a [u8]> {
        self.all_bytes(number).last()
    }

    /// Returns the message in a field.
    pub fn message(self, number: u64) -> Option<Self> {
        self.bytes(number).map(Self)
    }

    /// Returns the messages in all fields with a number.
    pub fn messages(self, number: u64) -> impl Iterator<Item = Self> {
        self.all_bytes(number).map(Self)
    }

    /// Returns the message at a path of field numbers.
    pub fn message_at(self, path: &[u64]) -> Option<Self> {
        path.iter().try_fold(self, |message, number| message.message(*number))
    }

    /// Returns the text of a field. An empty text counts as absent.
    pub fn text(self, number: u64) -> Option<String> {
        let bytes = self.bytes(number).filter(|bytes| !bytes.is_empty())?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Returns the text at a path of field numbers, the last of which is the text's.
    pub fn text_at(self, path: &[u64]) -> Option<String> {
        let (text, parents) = path.split_last()?;
        self.message_at(parents)?.text(*text)
    }

    /// Returns the number in a field. Of several the last one counts.
    pub fn number(self, number: u64) -> Option<u64> {
        let found = self.fields().filter_map(|(field, value)| match value {
            ProtobufValue::Varint(value) if field == number => Some(value),
            _ => None,
        });
        found.last()
    }

    /// Returns the numbers of a list, packed into one field or in a field each.
    pub fn numbers(self, number: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        for (_, value) in self.fields().filter(|(field, _)| *field == number) {
            match value {
                ProtobufValue::Varint(value) | ProtobufValue::Fixed(value) => numbers.push(value),
                ProtobufValue::Bytes(mut packed) => {
                    numbers.extend(std::iter::from_fn(|| read_varint(&mut packed)));
                }
            }
        }
        numbers
    }

    /// Returns the time in a field: a `google.protobuf.Timestamp`.
    pub fn time(self, number: u64) -> Option<Timestamp> {
        let time = self.message(number)?;
        let seconds = i64::try_from(time.number(1)?).ok()?;
        let millis = i64::try_from(time.number(2).unwrap_or(0) / 1_000_000).ok()?;
        Timestamp::from_millis(seconds.checked_mul(1000)?.checked_add(millis)?)
    }

    /// Converts the message to JSON, with field numbers as names, except the fields `omitted`.
    /// Bytes become a text or a message if they look like one, and Base64 otherwise.
    pub fn to_json_without(self, omitted: &[u64]) -> Json {
        Json::from_value(&self.to_value(omitted, 0, &mut MAX_JSON_FIELDS.clone()))
    }

    fn to_value(self, omitted: &[u64], depth: usize, fields_left: &mut usize) -> Value {
        let mut object = Map::new();
        for (number, value) in self.fields().filter(|(number, _)| !omitted.contains(number)) {
            if *fields_left == 0 {
                break;
            }
            *fields_left -= 1;
            let value = match value {
                ProtobufValue::Varint(value) | ProtobufValue::Fixed(value) => Value::from(value),
                ProtobufValue::Bytes(bytes) => value_of_bytes(bytes, depth, fields_left),
            };
            match object.get_mut(&number.to_string()) {
                None => drop(object.insert(number.to_string(), value)),
                Some(Value::Array(list)) => list.push(value),
                Some(first) => *first = Value::Array(vec![first.take(), value]),
            }
        }
        Value::Object(object)
    }
}

fn value_of_bytes(bytes: &[u8], depth: usize, fields_left: &mut usize) -> Value {
    let message = ProtobufMessage(bytes);
    let is_plain = |one: char| !one.is_control() || matches!(one, '\n' | '\r' | '\t');
    if let Ok(text) = std::str::from_utf8(bytes)
        && text.chars().all(is_plain)
        // The tags of the first fields are line breaks and tabs.
        && !(text.starts_with(char::is_whitespace) && message.is_complete())
    {
        return Value::from(text);
    }
    if depth < MAX_JSON_DEPTH && message.is_complete() {
        return message.to_value(&[], depth + 1, fields_left);
    }
    Value::from(STANDARD.encode(bytes))
}

/// Removes the first field from the bytes. Damaged bytes stay.
fn read_field<'a>(rest: &mut &'a [u8]) -> Option<(u64, ProtobufValue<'a>)> {
    let mut bytes = *rest;
    let tag = read_varint(&mut bytes)?;
    let value = match tag & 7 {
        0 => ProtobufValue::Varint(read_varint(&mut bytes)?),
        1 => {
            let (number, after) = bytes.split_first_chunk()?;
            bytes = after;
            ProtobufValue::Fixed(u64::from_le_bytes(*number))
        }
        5 => {
            let (number, after) = bytes.split_first_chunk()?;
            bytes = after;
            ProtobufValue::Fixed(u32::from_le_bytes(*number).into())
        }
        2 => {
            let length = usize::try_from(read_varint(&mut bytes)?).ok()?;
            let (inside, after) = bytes.split_at_checked(length)?;
            bytes = after;
            ProtobufValue::Bytes(inside)
        }
        _ => return None,
    };
    // No field has the number 0.
    let number = Some(tag >> 3).filter(|number| *number > 0)?;
    *rest = bytes;
    Some((number, value))
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_found_by_number() {
        // 1: "ab", 2: 150, 3: [1, 300] packed, 1: "c", 4: 8 bytes, 5: 4 bytes, 6: { 1: "x" }
        let bytes = b"\x0a\x02ab\x10\x96\x01\x1a\x03\x01\xac\x02\x0a\x01c\
            \x21\x01\x00\x00\x00\x00\x00\x00\x00\x2d\x02\x00\x00\x00\x32\x03\x0a\x01x";
        let message = ProtobufMessage::new(bytes);
        assert!(message.is_complete());
        assert_eq!(message.text(1).as_deref(), Some("c"));
        assert_eq!(message.all_bytes(1).collect::<Vec<_>>(), [b"ab", &b"c"[..]]);
        assert_eq!(message.number(2), Some(150));
        assert_eq!(message.numbers(3), [1, 300]);
        assert_eq!(message.numbers(2), [150]);
        assert_eq!(message.numbers(4), [1]);
        assert_eq!(message.numbers(5), [2]);
        assert_eq!(message.text_at(&[6, 1]).as_deref(), Some("x"));
        assert_eq!(message.text_at(&[9, 1]), None);
        assert_eq!(message.number(1), None);
    }

    #[test]
    fn damage_ends_a_message_and_keeps_what_is_before_it() {
        let check = |bytes: &[u8], text: Option<&str>| {
            let message = ProtobufMessage::new(bytes);
            assert_eq!(message.text(1).as_deref(), text, "{bytes:?}");
            assert!(!message.is_complete(), "{bytes:?}");
        };
        check(b"\x0a\x05ab", None);
        check(b"\x0a\x01a\x0f", Some("a"));
        check(b"\x0a\x01a\x10\x80", Some("a"));
        check(b"\x0a\x01a\x02\x01b", Some("a"));
        check(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", None);
    }

    #[test]
    fn times_have_seconds_and_nanoseconds() {
        let message = ProtobufMessage::new(b"\x0a\x0a\x08\x80\x80\x80\x80\x06\x10\x80\x89\x7a");
        assert_eq!(message.time(1).map(Timestamp::as_millis), Some(1_610_612_736_002));
        assert_eq!(ProtobufMessage::new(b"\x0a\x00").time(1), None);
    }

    #[test]
    fn a_message_without_a_schema_becomes_json() {
        let check = |bytes: &[u8], expected: &str| {
            assert_eq!(ProtobufMessage::new(bytes).to_json_without(&[]).as_json_str(), expected);
        };
        check(b"\x0a\x02ab\x10\x05\x10\x06\x1a\x02\x08\x07", r#"{"1":"ab","2":[5,6],"3":{"1":7}}"#);
        check(b"\x0a\x02\xff\x80", r#"{"1":"/4A="}"#);
        let message = ProtobufMessage::new(b"\x08\x05\x10\x06");
        assert_eq!(message.to_json_without(&[1]).as_json_str(), r#"{"2":6}"#);
        let deep = (0..40).fold(vec![8, 1], |inside: Vec<u8>, _| {
            [&[10, inside.len() as u8][..], &inside].concat()
        });
        assert!(ProtobufMessage::new(&deep).to_json_without(&[]).as_json_str().len() < 500);
        let wide = b"\x08\x01".repeat(100_000);
        assert!(ProtobufMessage::new(&wide).to_json_without(&[]).as_json_str().len() < 10_000);
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes: Vec<u8>) {
            let message = ProtobufMessage::new(&bytes);
            message.to_json_without(&[]);
            for number in 0..20 {
                message.time(number);
                message.numbers(number);
                message.text_at(&[number, 1, 2]);
            }
        }
    }
}
