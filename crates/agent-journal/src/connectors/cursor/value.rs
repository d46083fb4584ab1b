//! Small values of Cursor's records.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::connectors::formats::json::{FromOddValue, Rest};
use crate::connectors::formats::jsonl;
use crate::model::{Extensions, Json, Timestamp};

/// What the program puts beside a message for itself (whole directory listings, retrieved code)
/// is larger than this; what is worth keeping is smaller.
const MAX_KEPT: usize = 16 << 10;

/// A time in milliseconds or in ISO 8601. Smaller numbers are clocks that began with the program.
#[derive(Clone, Copy)]
pub(super) struct Moment(pub(super) Option<Timestamp>);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        let text = raw.get().trim_matches('"');
        Ok(Self(match text.parse::<f64>() {
            Ok(millis) if millis >= 1e12 => Timestamp::from_millis(millis as i64),
            Ok(_) => None,
            Err(_) => Timestamp::parse(text),
        }))
    }
}

impl FromOddValue<'_> for Moment {}

/// Mends a record in which half a surrogate pair may be escaped. Parts that are kept as written
/// are not looked into at first, so the parser would find it too late.
pub(super) fn sound(bytes: &[u8]) -> Cow<'_, [u8]> {
    let has = |escape: &[u8]| memchr::memmem::find(bytes, escape).is_some();
    if has(b"\\ud") || has(b"\\uD") { jsonl::mend(bytes).into() } else { bytes.into() }
}

/// Keeps what says something and is not named in `noise`. Keys to encrypted parts are secrets.
pub(super) fn keep(rest: Rest<'_>, noise: &[&str], extensions: &mut Extensions) {
    for (key, value) in rest {
        let wanted = !noise.contains(&&*key) && !key.ends_with("EncryptionKey");
        if wanted && value.get().len() <= MAX_KEPT && !is_hollow(value.get()) {
            extensions.insert(key.into_owned(), Json::from(value));
        }
    }
}

/// Whether JSON holds nothing but empty strings, zeros, `false` and `null`, however deep.
pub(super) fn is_hollow(json: &str) -> bool {
    let bytes = json.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at + 1);
                let next =
                    bytes[end.min(bytes.len())..].iter().find(|one| !one.is_ascii_whitespace());
                let is_key = next == Some(&b':');
                if !is_key && end > at + 2 {
                    return false;
                }
                at = end;
            }
            b't' | b'1'..=b'9' => return false,
            _ => at += 1,
        }
    }
    true
}

/// Where a string ends, behind its closing quote.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hollow_is_what_says_nothing_at_any_depth() {
        let check = |json: &str, expected: bool| assert_eq!(is_hollow(json), expected, "{json}");
        check(r#"{"a":[],"b":{"c":"","d":[{}]},"e":0,"f":null,"g":false}"#, true);
        check(r#"{"a":{"b":["x"]}}"#, false);
        check(r#"{"a\":":""}"#, true);
        check(r#"["\""]"#, false);
        check(r#"{"a":{"b" : true}}"#, false);
        check("[0, 0.5]", false);
        check(r#"""#, true);
    }

    #[test]
    fn only_times_of_the_calendar_count() {
        let check = |json: &str, expected: Option<&str>| {
            let moment: Moment = serde_json::from_str(json).unwrap();
            assert_eq!(moment.0.map(|at| at.to_string()).as_deref(), expected, "{json}");
        };
        check("1757793971776", Some("2025-09-13T20:06:11.776Z"));
        check("84511.5", None);
        check(r#""2026-01-02T03:04:05.000Z""#, Some("2026-01-02T03:04:05.000Z"));
        check(r#""1757793971776""#, Some("2025-09-13T20:06:11.776Z"));
        check(r#"{"a":1}"#, None);
    }
}
