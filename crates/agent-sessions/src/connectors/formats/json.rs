//! Declares types that name the JSON fields they use and keep all others. Parsing is lenient: a
//! value of an unexpected type affects only its own field.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;

use super::jsonl;
use crate::model::{Extensions, Json};

/// The fields of an object that its type does not name, as written.
pub type UnnamedFields<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// Reads an object field by field after its strict `Deserialize` failed, for [`lossless!`] and
/// [`lenient!`]. The last argument is run for each field that was not read. It receives the value,
/// whether the type names the key, the key, and the field as written.
macro_rules! field_by_field {
    (
        $object:ident,
        { $($name:literal $field:ident)* },
        |$value:ident, $is_named:ident, $key:ident, $raw:ident| $leave:expr
    ) => {{
        use $crate::connectors::formats::json;
        let mut $value = Self::default();
        for ($key, $raw) in json::object_fields($object)? {
            let ($is_named, is_read) = match &*$key {
                $($name => (true, json::read_field($raw, &mut $value.$field)),)*
                _ => (false, false),
            };
            if !is_read {
                $leave;
            }
        }
        Some($value)
    }};
}

/// Declares a struct that reads the named keys of a JSON object and keeps every other key, as
/// written, in `rest`. For a repeated key, the last value wins; `null` counts as absent.
///
/// The generated `Deserialize` is strict, and therefore fast. If it rejects a record,
/// [`parse_lenient`] reads the record again, field by field: a value of an unexpected type affects
/// only its own field, and is kept in `rest`.
///
/// ```text
/// lossless! {
///     struct LogLine<'a> {
///         "uuid" uuid: Option<Cow<'a, str>>,
///     }
/// }
/// ```
macro_rules! lossless {
    ($(#[$meta:meta])* struct $name:ident<$life:lifetime> {
        $($key:literal $field:ident: Option<$type:ty>,)*
    }) => {
        $(#[$meta])*
        #[derive(Default)]
        pub(super) struct $name<$life> {
            $(pub(super) $field: Option<$type>,)*
            pub(super) rest: $crate::connectors::formats::json::UnnamedFields<$life>,
        }

        impl<'de: $life, $life> serde::Deserialize<'de> for $name<$life> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor<$life>(std::marker::PhantomData<&$life ()>);
                impl<'de: $life, $life> serde::de::Visitor<'de> for Visitor<$life> {
                    type Value = $name<$life>;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                        formatter.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Self::Value, A::Error> {
                        let mut value = $name::default();
                        while let Some($crate::connectors::formats::json::BorrowedKey(key)) = map.next_key()? {
                            match &*key {
                                $($key => value.$field = map.next_value()?,)*
                                _ => value.rest.push((key, map.next_value()?)),
                            }
                        }
                        Ok(value)
                    }
                }
                deserializer.deserialize_map(Visitor(std::marker::PhantomData))
            }
        }

        impl<$life> $crate::connectors::formats::json::FromOddValue<$life> for $name<$life> {
            fn from_odd_value(
                raw: &$life serde_json::value::RawValue,
                _is_complete: &mut bool,
            ) -> Option<Self> {
                $crate::connectors::formats::json::field_by_field!(
                    raw,
                    { $($key $field)* },
                    |value, _is_named, key, field| value.rest.push((key, field))
                )
            }
        }
    };
}

/// Declares a struct like [`lossless!`] that ignores all other keys.
macro_rules! lenient {
    ($(#[$meta:meta])* struct $name:ident$(<$life:lifetime>)? {
        $($key:literal $field:ident: Option<$type:ty>,)*
    }) => {
        $(#[$meta])*
        #[derive(Default)]
        pub(super) struct $name$(<$life>)? {
            $(pub(super) $field: Option<$type>,)*
        }

        impl<'de$(: $life, $life)?> serde::Deserialize<'de> for $name$(<$life>)? {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor<T>(std::marker::PhantomData<T>);
                impl<'de$(: $life, $life)?> serde::de::Visitor<'de> for Visitor<$name$(<$life>)?> {
                    type Value = $name$(<$life>)?;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                        formatter.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Self::Value, A::Error> {
                        let mut value = $name::default();
                        while let Some($crate::connectors::formats::json::BorrowedKey(key)) = map.next_key()? {
                            match &*key {
                                $($key => value.$field = map.next_value()?,)*
                                _ => drop(map.next_value::<serde::de::IgnoredAny>()?),
                            }
                        }
                        Ok(value)
                    }
                }
                deserializer.deserialize_map(Visitor(std::marker::PhantomData::<Self>))
            }
        }

        impl<'odd$(: $life, $life)?> $crate::connectors::formats::json::FromOddValue<'odd>
            for $name$(<$life>)?
        {
            fn from_odd_value(
                raw: &'odd serde_json::value::RawValue,
                is_complete: &mut bool,
            ) -> Option<Self> {
                $crate::connectors::formats::json::field_by_field!(
                    raw,
                    { $($key $field)* },
                    // Ignored keys do not make the value incomplete.
                    |value, is_named, key, field| *is_complete &= !is_named
                )
            }
        }
    };
}

pub(crate) use {field_by_field, lenient, lossless};

/// A key that is borrowed if possible (`Cow` alone would always copy).
#[derive(serde::Deserialize)]
pub struct BorrowedKey<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// A string that is borrowed if possible, for types where `serde(borrow)` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
pub struct BorrowedText<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl BorrowedText<'_> {
    /// Returns the string slice.
    pub fn as_borrowed_str(&self) -> &str {
        &self.0
    }

    /// Returns the string, copied only if it is borrowed.
    pub fn into_owned(self) -> String {
        self.0.into_owned()
    }
}

/// Returns a text; an empty one counts as absent.
pub fn owned_if_present(text: Option<BorrowedText<'_>>) -> Option<String> {
    text.map(BorrowedText::into_owned).filter(|text| !text.is_empty())
}

/// Returns the text of a JSON document. A damaged one is repaired where possible.
pub fn document_text(bytes: &[u8]) -> String {
    match serde_json::from_slice::<&RawValue>(bytes) {
        Ok(raw) => raw.get().to_owned(),
        Err(_) => String::from_utf8_lossy(&jsonl::mend_line(bytes)).into_owned(),
    }
}

/// Returns a document as JSON; one that is damaged becomes a string.
pub fn json_as_recorded(text: &str) -> Json {
    let raw = serde_json::from_str::<&RawValue>(text);
    raw.map_or_else(|_| Json::from_value(&text), Json::from)
}

/// An optional field of minor importance: a value of another type counts as absent and does not
/// break the record.
#[derive(Debug)]
pub struct Lenient<T>(pub Option<T>);

impl<'de, T: serde::Deserialize<'de>> serde::Deserialize<'de> for Lenient<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(Self(serde_json::from_str(raw.get()).ok()))
    }
}

/// Parses a JSON text. A value of an unexpected type affects only its own field, never the record.
/// `None` when the text is not JSON, or is of another type altogether (a number for an object).
pub fn parse_json<'a, T>(text: &'a str) -> Option<T>
where
    T: serde::Deserialize<'a> + FromOddValue<'a>,
{
    serde_json::from_str(text).ok().or_else(|| parse_odd(text.as_bytes()))
}

/// Parses a record field by field, after the strict parser rejected it.
pub fn parse_odd<'a, T: FromOddValue<'a>>(bytes: &'a [u8]) -> Option<T> {
    T::from_odd_value(serde_json::from_slice(bytes).ok()?, &mut true)
}

/// Conversion from a value that is not of the expected type.
pub trait FromOddValue<'a>: Sized {
    /// Converts a value that the strict parser rejected. Sets `is_complete` to `false` when a part
    /// of the value is not in the result.
    fn from_odd_value(_raw: &'a RawValue, _is_complete: &mut bool) -> Option<Self> {
        None
    }
}

/// Reads one field of a record. Returns whether the field contains the whole value.
pub fn read_field<'a, T>(raw: &'a RawValue, field: &mut Option<T>) -> bool
where
    T: serde::Deserialize<'a> + FromOddValue<'a>,
{
    if raw.get() == "null" {
        *field = None;
        return true;
    }
    let mut is_complete = true;
    *field = read_value(raw, &mut is_complete);
    field.is_some() && is_complete
}

fn read_value<'a, T>(raw: &'a RawValue, is_complete: &mut bool) -> Option<T>
where
    T: serde::Deserialize<'a> + FromOddValue<'a>,
{
    serde_json::from_str(raw.get()).ok().or_else(|| T::from_odd_value(raw, is_complete))
}

/// Nesting limit of a value that is read part by part. It equals the parser's own limit: each level
/// takes one recursive call.
const MAX_NESTING: usize = 128;

/// Returns whether a value is within the nesting limit.
fn is_shallow(raw: &RawValue) -> bool {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for byte in raw.get().bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return false;
        }
    }
    true
}

/// Returns the fields of an object, as written. `None` when the value is not an object, or exceeds
/// the nesting limit.
pub fn object_fields(raw: &RawValue) -> Option<UnnamedFields<'_>> {
    lossless! {
        struct AllFields<'a> {}
    }
    if !is_shallow(raw) {
        return None;
    }
    serde_json::from_str::<AllFields<'_>>(raw.get()).ok().map(|fields| fields.rest)
}

/// Removes a field from the unnamed fields and returns it.
pub fn take_field<'a>(rest: &mut UnnamedFields<'a>, key: &str) -> Option<&'a RawValue> {
    let at = rest.iter().position(|(known, _)| known == key)?;
    Some(rest.remove(at).1)
}

/// Returns the elements of a list, as written. `None` when the value is not a list, or exceeds the
/// nesting limit.
pub fn array_elements(raw: &RawValue) -> Option<Vec<&RawValue>> {
    if !is_shallow(raw) {
        return None;
    }
    serde_json::from_str(raw.get()).ok()
}

impl<'a> FromOddValue<'a> for BorrowedText<'a> {
    /// Accepts a number or boolean as its text, and repairs a damaged string.
    fn from_odd_value(raw: &'a RawValue, _is_complete: &mut bool) -> Option<Self> {
        match raw.get().as_bytes().first()? {
            b'{' | b'[' | b'n' => None,
            b'"' => {
                let mended = jsonl::mend_line(raw.get().as_bytes());
                serde_json::from_slice::<String>(&mended).ok().map(|text| Self(Cow::Owned(text)))
            }
            _ => Some(Self(Cow::Borrowed(raw.get()))),
        }
    }
}

impl<'a> FromOddValue<'a> for u64 {
    /// Accepts a number written as a string or with a fraction.
    fn from_odd_value(raw: &'a RawValue, _is_complete: &mut bool) -> Option<Self> {
        lenient_number(raw)
            .filter(|number| (0.0..=MAX_COUNT).contains(number))
            .map(|number| number as Self)
    }
}

impl<'a> FromOddValue<'a> for f64 {
    /// Accepts a number written as a string.
    fn from_odd_value(raw: &'a RawValue, _is_complete: &mut bool) -> Option<Self> {
        lenient_number(raw)
    }
}

impl<'a> FromOddValue<'a> for bool {
    /// Accepts a boolean written as a string.
    fn from_odd_value(raw: &'a RawValue, _is_complete: &mut bool) -> Option<Self> {
        raw.get().trim_matches('"').parse().ok()
    }
}

impl<'a> FromOddValue<'a> for &'a RawValue {}

impl<'a, S> FromOddValue<'a> for HashMap<BorrowedText<'a>, &'a RawValue, S> {}

impl FromOddValue<'_> for serde::de::IgnoredAny {}

impl<T> FromOddValue<'_> for Lenient<T> {}

impl<'a, T: serde::Deserialize<'a> + FromOddValue<'a>> FromOddValue<'a> for Vec<T> {
    /// Keeps the elements that can be read.
    fn from_odd_value(raw: &'a RawValue, is_complete: &mut bool) -> Option<Self> {
        let read = |raw| {
            let value = read_value(raw, is_complete);
            *is_complete &= value.is_some();
            value
        };
        Some(array_elements(raw)?.into_iter().filter_map(read).collect())
    }
}

impl<'a, T> FromOddValue<'a> for BTreeMap<String, T>
where
    T: serde::Deserialize<'a> + FromOddValue<'a>,
{
    /// Keeps the entries that can be read.
    fn from_odd_value(raw: &'a RawValue, is_complete: &mut bool) -> Option<Self> {
        let read = |(key, raw): (Cow<'a, str>, &'a RawValue)| {
            let value = read_value(raw, is_complete);
            *is_complete &= value.is_some();
            value.map(|value| (key.into_owned(), value))
        };
        Some(object_fields(raw)?.into_iter().filter_map(read).collect())
    }
}

/// Upper limit of token counts. Above it, `f64` cannot represent every integer.
const MAX_COUNT: f64 = 9_007_199_254_740_992.0;

fn lenient_number(raw: &RawValue) -> Option<f64> {
    raw.get().trim_matches('"').trim().parse().ok().filter(|number: &f64| number.is_finite())
}

/// Deserializes a counter that every record has, for `serde(deserialize_with)`: a number, also
/// written as a string or with a fraction. Any other value becomes 0.
pub fn deserialize_count<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<u64, D::Error> {
    struct CountVisitor;

    impl<'de> serde::de::Visitor<'de> for CountVisitor {
        type Value = u64;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("a count")
        }

        fn visit_u64<E>(self, number: u64) -> Result<u64, E> {
            Ok(number)
        }

        fn visit_i64<E>(self, number: i64) -> Result<u64, E> {
            Ok(number.try_into().unwrap_or(0))
        }

        fn visit_f64<E>(self, number: f64) -> Result<u64, E> {
            Ok(if (0.0..=MAX_COUNT).contains(&number) { number as u64 } else { 0 })
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<u64, E> {
            self.visit_f64(text.trim().parse().unwrap_or(0.0))
        }

        fn visit_bool<E>(self, _: bool) -> Result<u64, E> {
            Ok(0)
        }

        fn visit_unit<E>(self) -> Result<u64, E> {
            Ok(0)
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<u64, A::Error> {
            while items.next_element::<serde::de::IgnoredAny>()?.is_some() {}
            Ok(0)
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<u64, A::Error> {
            type Ignored = serde::de::IgnoredAny;
            while map.next_entry::<Ignored, Ignored>()?.is_some() {}
            Ok(0)
        }
    }

    deserializer.deserialize_any(CountVisitor)
}

/// Parses the arguments of a tool call: a string that contains JSON becomes that JSON, anything else
/// is kept as written.
pub fn parse_call_arguments(raw: Option<&RawValue>) -> Json {
    let Some(raw) = raw else { return Json::from_value(&()) };
    let inner = serde_json::from_str::<BorrowedText<'_>>(raw.get()).ok();
    let parsed = inner.as_ref().and_then(|text| serde_json::from_str::<&RawValue>(&text.0).ok());
    Json::from(parsed.unwrap_or(raw))
}

/// Adds fields to the extensions, except `null`, `false` and empty values.
pub fn keep_non_empty_fields(rest: UnnamedFields<'_>, extensions: &mut Extensions) {
    for (key, value) in rest {
        if !matches!(value.get(), "null" | "false" | "\"\"" | "[]" | "{}") {
            extensions.insert(key.into_owned(), Json::from(value));
        }
    }
}

/// Removes line breaks and indentation from a JSON text, so that a value of a pretty-printed
/// document fits on one line.
pub fn compact_json(text: &str) -> Box<str> {
    let mut compacted = String::with_capacity(text.len());
    let mut rest = text;
    let is_space = |character: char| character.is_ascii_whitespace();
    while let Some(quote) = rest.find('"') {
        let (between, quoted) = rest.split_at(quote);
        compacted.extend(between.split(is_space));
        let (string, after) = quoted.split_at(end_of_json_text(quoted));
        compacted.push_str(string);
        rest = after;
    }
    compacted.extend(rest.split(is_space));
    compacted.into_boxed_str()
}

/// Returns the end of the string at the beginning of a text.
fn end_of_json_text(quoted: &str) -> usize {
    let bytes = quoted.as_bytes();
    let mut at = 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        if bytes[at + found] == b'"' {
            return at + found + 1;
        }
        at += found + 2;
    }
    quoted.len()
}

/// Size limit of a value in a display form. Longer values repeat text that is recorded elsewhere.
pub const MAX_SMALL: usize = 512;

/// Keeps the small parts of a value that mostly repeats others: short values, and of an object the
/// short fields and the diff of an edit.
pub fn small_parts(raw: &RawValue) -> Option<Json> {
    if raw.get().len() <= MAX_SMALL {
        return Some(Json::from(raw)).filter(|json| !matches!(json.as_json_str(), "null" | "\"\""));
    }
    let fields: BTreeMap<&str, &RawValue> = serde_json::from_str(raw.get()).ok()?;
    let is_small =
        |key: &str, value: &RawValue| value.get().len() <= MAX_SMALL || key == "fileDiff";
    let kept: BTreeMap<_, _> =
        fields.into_iter().filter(|(key, value)| is_small(key, value)).collect();
    (!kept.is_empty()).then(|| Json::from_value(&kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    lossless! {
        struct Line<'a> {
            "type" kind: Option<BorrowedText<'a>>,
            "n" number: Option<u64>,
        }
    }

    #[test]
    fn named_keys_are_read_and_the_rest_is_kept_as_written() {
        let line: Line =
            serde_json::from_str(r#"{"n":1,"x":{"a": 1.0},"type":"t\u0041","n":null}"#).unwrap();
        assert_eq!(line.kind.unwrap().as_borrowed_str(), "tA");
        assert_eq!(line.number, None);
        let mut extensions = Extensions::new();
        keep_non_empty_fields(line.rest, &mut extensions);
        assert_eq!(extensions["x"].as_json_str(), r#"{"a": 1.0}"#);
    }

    #[test]
    fn a_value_of_another_type_costs_its_field_and_is_kept() {
        let check = |text: &str, kind: Option<&str>, number: Option<u64>, kept: &[&str]| {
            let line: Line = parse_json(text).unwrap();
            assert_eq!(line.kind.as_ref().map(BorrowedText::as_borrowed_str), kind, "{text}");
            assert_eq!(line.number, number, "{text}");
            let rest: Vec<&str> = line.rest.iter().map(|(key, _)| &**key).collect();
            assert_eq!(rest, kept, "{text}");
        };
        check(r#"{"type":3,"n":"12"}"#, Some("3"), Some(12), &[]);
        check(r#"{"type":["t"],"n":1.5}"#, None, Some(1), &["type"]);
        check(r#"{"type":"t","n":-5}"#, Some("t"), None, &["n"]);
        check(r#"{"type":"t","n":1e30,"x":1}"#, Some("t"), None, &["n", "x"]);
        check(r#"{"type":"\ud800t","n":{}}"#, Some("\u{fffd}t"), None, &["n"]);
        assert!(parse_json::<Line<'_>>("[]").is_none());
        assert!(parse_json::<Line<'_>>("{").is_none());
    }

    #[test]
    fn arguments_are_json_where_they_can_be() {
        let check = |json: &str, expected: &str| {
            assert_eq!(
                parse_call_arguments(Some(serde_json::from_str(json).unwrap())).as_json_str(),
                expected
            );
        };
        check(r#""{\"cmd\":\"ls\"}""#, r#"{"cmd":"ls"}"#);
        check(r#""{\"cmd\":""#, r#""{\"cmd\":""#);
        check(r#"{"query":"x"}"#, r#"{"query":"x"}"#);
    }

    #[test]
    fn compact_text_keeps_its_strings_and_loses_its_line_breaks() {
        let check =
            |text: &str, expected: &str| assert_eq!(&*compact_json(text), expected, "{text}");
        check("{\n  \"a b\": [\n    1,\t2\r\n  ]\n}", r#"{"a b":[1,2]}"#);
        check(
            r#"{ "a" : "say \"hi  \" \\" , "b":"ä  ü" }"#,
            r#"{"a":"say \"hi  \" \\","b":"ä  ü"}"#,
        );
        check("\"never closed \\", "\"never closed \\");
    }

    #[test]
    fn of_a_long_display_its_small_fields_and_the_difference_are_kept() {
        let long = "x".repeat(600);
        let raw = format!(r#"{{"fileName":"a","fileDiff":"{long}","newContent":"{long}"}}"#);
        let kept = small_parts(serde_json::from_str(&raw).unwrap()).unwrap();
        assert_eq!(kept.as_json_str(), format!(r#"{{"fileDiff":"{long}","fileName":"a"}}"#));
        assert_eq!(small_parts(serde_json::from_str(&format!("\"{long}\"")).unwrap()), None);
    }
}
