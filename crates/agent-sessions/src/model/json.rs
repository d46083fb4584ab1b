//! JSON kept as it was written, but on one line.

use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A piece of JSON as its agent wrote it: key order, numbers and escapes are unchanged. Only the
/// white space of a multi-line text is removed, so that a record is always one line.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// Serialises a value to JSON text.
    pub fn from_value(value: &impl Serialize) -> Self {
        let raw = serde_json::value::to_raw_value(value);
        let raw = raw.expect("values built in memory always serialise");
        // A value may contain raw pieces of a multi-line text.
        Self(compact_to_one_line(&raw).unwrap_or(raw))
    }

    /// Takes over a JSON text on one line; `None` when it is not JSON.
    pub fn from_text(text: String) -> Option<Self> {
        RawValue::from_string(text).ok().map(Self)
    }

    /// Returns the JSON text.
    pub fn as_json_str(&self) -> &str {
        self.0.get()
    }

    /// Parses the text as any type that fits it.
    pub fn parse_as<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_str(self.0.get()).ok()
    }

    /// Calls `found` with every string inside, except keys.
    pub fn visit_strings(&self, found: &mut dyn FnMut(&str)) {
        let mut deserializer = serde_json::Deserializer::from_str(self.as_json_str());
        // Text that cannot be parsed any further has no strings; those before it were found.
        let _ = Strings(found).deserialize(&mut deserializer);
    }
}

impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        Self(compact_to_one_line(raw).unwrap_or_else(|| raw.to_owned()))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_json_str() == other.as_json_str()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_json_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(compact_to_one_line(&raw).unwrap_or(raw)))
    }
}

/// Removes the white space of a multi-line text; `None` when it is on one line already.
fn compact_to_one_line(raw: &RawValue) -> Option<Box<RawValue>> {
    let text = raw.get();
    memchr::memchr2(b'\n', b'\r', text.as_bytes())?;
    let (mut is_string, mut is_escape) = (false, false);
    let kept = text.chars().filter(|one| {
        let is_kept = is_string || !one.is_ascii_whitespace();
        match one {
            _ if is_escape => is_escape = false,
            '\\' => is_escape = is_string,
            '"' => is_string = !is_string,
            _ => {}
        }
        is_kept
    });
    RawValue::from_string(kept.collect()).ok()
}

/// A visitor that calls a function with every string.
struct Strings<'f>(&'f mut dyn FnMut(&str));

impl<'de> DeserializeSeed<'de> for Strings<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strings<'_> {
    type Value = ();
    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("any JSON")
    }
    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        (self.0)(text);
        Ok(())
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Strings(self.0))?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while entries.next_key::<IgnoredAny>()?.is_some() {
            entries.next_value_seed(Strings(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_over_several_lines_becomes_one_and_strings_stay() {
        let check = |text: &str, expected: &str| {
            let raw: &RawValue = serde_json::from_str(text).unwrap();
            assert_eq!(Json::from(raw).as_json_str(), expected);
        };
        check("{\n  \"a b\": [1.0,\r\n\t\"x \\\" y\\\\\" , 2]\n}", r#"{"a b":[1.0,"x \" y\\",2]}"#);
        check(r#"{"a": 1}"#, r#"{"a": 1}"#);
    }

    #[test]
    fn a_value_with_pieces_of_several_lines_becomes_one_line() {
        let raw: &RawValue = serde_json::from_str("{\n  \"a\": 1\n}").unwrap();
        assert_eq!(Json::from_value(&[raw]).as_json_str(), r#"[{"a":1}]"#);
    }

    #[test]
    fn strings_are_found_at_every_depth_and_keys_are_not() {
        let mut found = Vec::new();
        let raw: &RawValue =
            serde_json::from_str(r#"{"a":["x",{"b":"y","c":1}],"d":null,"e":"z"}"#).unwrap();
        Json::from(raw).visit_strings(&mut |text| found.push(text.to_owned()));
        assert_eq!(found, ["x", "y", "z"]);
    }
}
