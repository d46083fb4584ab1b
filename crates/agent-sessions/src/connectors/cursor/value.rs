//! Parses and filters values of Cursor's records: times, damaged escapes, extensions, empty JSON.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::connectors::formats::json::{FromOddValue, UnnamedFields};
use crate::connectors::formats::jsonl;
use crate::model::{Extensions, Json, Timestamp};

/// Size limit of kept values. Cursor's internal data beside a message (directory listings,
/// retrieved code) is larger; values worth keeping are smaller.
const MAX_KEPT: usize = 16 << 10;

/// A time in milliseconds since 1970 or in ISO 8601. Numbers below 1e12 count from the start of the
/// program and are ignored.
#[derive(Clone, Copy)]
pub(super) struct Moment(pub(super) Option<Timestamp>);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        let text = raw.get().trim_matches('"');
        Ok(Self(match text.parse::<f64>() {
            Ok(millis) if millis >= 1e12 => Timestamp::from_millis(millis as i64),
            Ok(_) => None,
            Err(_) => Timestamp::parse_iso_time(text),
        }))
    }
}

impl FromOddValue<'_> for Moment {}

/// Repairs a record that may contain an escaped half of a surrogate pair. Raw values are not parsed
/// at first, so the parser would detect the damage too late.
pub(super) fn repair_surrogates(bytes: &[u8]) -> Cow<'_, [u8]> {
    let has = |escape: &[u8]| memchr::memmem::find(bytes, escape).is_some();
    if has(b"\\ud") || has(b"\\uD") { jsonl::mend_line(bytes).into() } else { bytes.into() }
}

/// Adds the values that are not empty and not named in `noise` to the extensions. Encryption keys
/// are secrets and are left out.
pub(super) fn keep_informative_values(
    rest: UnnamedFields<'_>,
    noise: &[&str],
    extensions: &mut Extensions,
) {
    for (key, value) in rest {
        let wanted = !noise.contains(&&*key) && !key.ends_with("EncryptionKey");
        if wanted && value.get().len() <= MAX_KEPT && !is_hollow(value.get()) {
            extensions.insert(key.into_owned(), Json::from(value));
        }
    }
}

/// Returns whether JSON holds only empty strings, zeros, `false` and `null`, at any depth.
pub(super) fn is_hollow(json: &str) -> bool {
    let bytes = json.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = end_of_json_string(bytes, at + 1);
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

/// Returns the position after the closing quote of a string.
fn end_of_json_string(bytes: &[u8], mut at: usize) -> usize {
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
