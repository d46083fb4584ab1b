//! Types that name the fields they use and keep the rest.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::model::{Extensions, Json};

/// The fields of an object that its type does not name.
pub type Rest<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// Declares a struct that reads the named keys of a JSON object and keeps every other key, as
/// written, in `rest`. A key that occurs twice counts as it stands last; `null` is absence.
///
/// ```text
/// lossless! {
///     struct Line<'a> {
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
            pub(super) rest: $crate::connectors::formats::json::Rest<$life>,
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
                        while let Some($crate::connectors::formats::json::Key(key)) = map.next_key()? {
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
    };
}

pub(crate) use lossless;

/// A key that is borrowed when it can be (`Cow` alone would always copy).
#[derive(serde::Deserialize)]
pub struct Key<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// A string that is borrowed when it can be, in places where `serde(borrow)` cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl Text<'_> {
    /// The string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// An owned copy.
    pub fn into_owned(self) -> String {
        self.0.into_owned()
    }
}

/// A field of lesser weight: a value of another shape is absence, not a broken record.
#[derive(Debug)]
pub struct Lenient<T>(pub Option<T>);

impl<'de, T: serde::Deserialize<'de>> serde::Deserialize<'de> for Lenient<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(Self(serde_json::from_str(raw.get()).ok()))
    }
}

/// Keeps what says something: `null`, `false` and empty values are left out.
pub fn keep(rest: Rest<'_>, extensions: &mut Extensions) {
    for (key, value) in rest {
        if !matches!(value.get(), "null" | "false" | "\"\"" | "[]" | "{}") {
            extensions.insert(key.into_owned(), Json::from(value));
        }
    }
}

/// Takes the line breaks and indentation out of JSON text: what is kept of a pretty document must
/// fit on one line.
pub fn compact(text: &str) -> Box<str> {
    let mut compacted = String::with_capacity(text.len());
    let mut rest = text;
    let is_space = |character: char| character.is_ascii_whitespace();
    while let Some(quote) = rest.find('"') {
        let (between, quoted) = rest.split_at(quote);
        compacted.extend(between.split(is_space));
        let (string, after) = quoted.split_at(string_end(quoted));
        compacted.push_str(string);
        rest = after;
    }
    compacted.extend(rest.split(is_space));
    compacted.into_boxed_str()
}

/// Where the string ends that a text begins with.
fn string_end(quoted: &str) -> usize {
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

/// A longer value of a display form repeats what stands elsewhere.
pub const MAX_SMALL: usize = 512;

/// Keeps what is small of a value that mostly repeats others: short texts, and of an object the
/// short fields and the difference an edit made.
pub fn small(raw: &RawValue) -> Option<Json> {
    if raw.get().len() <= MAX_SMALL {
        return Some(Json::from(raw)).filter(|json| !matches!(json.as_str(), "null" | "\"\""));
    }
    let fields: std::collections::BTreeMap<&str, &RawValue> =
        serde_json::from_str(raw.get()).ok()?;
    let is_small =
        |key: &str, value: &RawValue| value.get().len() <= MAX_SMALL || key == "fileDiff";
    let kept: std::collections::BTreeMap<_, _> =
        fields.into_iter().filter(|(key, value)| is_small(key, value)).collect();
    (!kept.is_empty()).then(|| Json::from_value(&kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    lossless! {
        struct Line<'a> {
            "type" kind: Option<Text<'a>>,
            "n" number: Option<u64>,
        }
    }

    #[test]
    fn named_keys_are_read_and_the_rest_is_kept_as_written() {
        let line: Line =
            serde_json::from_str(r#"{"n":1,"x":{"a": 1.0},"type":"t\u0041","n":null}"#).unwrap();
        assert_eq!(line.kind.unwrap().as_str(), "tA");
        assert_eq!(line.number, None);
        let mut extensions = Extensions::new();
        keep(line.rest, &mut extensions);
        assert_eq!(extensions["x"].as_str(), r#"{"a": 1.0}"#);
    }

    #[test]
    fn compact_text_keeps_its_strings_and_loses_its_line_breaks() {
        let check = |text: &str, expected: &str| assert_eq!(&*compact(text), expected, "{text}");
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
        let kept = small(serde_json::from_str(&raw).unwrap()).unwrap();
        assert_eq!(kept.as_str(), format!(r#"{{"fileDiff":"{long}","fileName":"a"}}"#));
        assert_eq!(small(serde_json::from_str(&format!("\"{long}\"")).unwrap()), None);
    }
}
