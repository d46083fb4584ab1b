//! Selects which fields of a message are kept although the model does not have them: those that
//! carry information. Most only repeat a default on every line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::connectors::formats::json::{self, UnnamedFields};
use crate::model::{Extensions, Json};

/// Fields and their default values, which are not kept.
const USUAL: &[(&str, &str)] = &[
    ("service_tier", r#""standard""#),
    ("inference_geo", r#""not_available""#),
    ("caller", r#"{"type":"direct"}"#),
];

/// A field that repeats a call's counts step by step.
const REPEATED: &str = "iterations";

/// Keeps the informative fields as one extension under the given name.
pub(super) fn keep_remaining_fields(
    name: &str,
    rest: UnnamedFields<'_>,
    extensions: &mut Extensions,
) {
    let says = |(key, value): &(Cow<'_, str>, &RawValue)| says_something(key, value);
    let kept: BTreeMap<_, _> = rest.into_iter().filter(says).collect();
    if !kept.is_empty() {
        extensions.insert(name.to_owned(), Json::from_value(&kept));
    }
}

fn says_something(key: &str, value: &RawValue) -> bool {
    let value = value.get();
    if key == REPEATED || matches!(value, "null" | "false" | "0" | "\"\"" | "[]" | "{}") {
        return false;
    }
    let counts: Result<BTreeMap<Cow<'_, str>, u64>, _> = serde_json::from_str(value);
    let is_none = counts.is_ok_and(|counts| counts.values().all(|count| *count == 0));
    let is_usual = |usual: &&(&str, &str)| usual.0 == key && *usual.1 == *json::compact_json(value);
    !is_none && !USUAL.iter().any(|usual| is_usual(&usual))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_something_is_kept() {
        let check = |rest: &str, expected: Option<&str>| {
            let fields: BTreeMap<String, &RawValue> = serde_json::from_str(rest).unwrap();
            let rest = fields.into_iter().map(|(key, value)| (Cow::Owned(key), value)).collect();
            let mut extensions = Extensions::new();
            keep_remaining_fields("x", rest, &mut extensions);
            assert_eq!(extensions.get("x").map(Json::as_json_str), expected);
        };
        check(r#"{"service_tier":"standard","inference_geo":"","iterations":[{"a":1}]}"#, None);
        check(r#"{"caller":{"type": "direct"},"n":0,"server_tool_use":{"web":0,"get":0}}"#, None);
        check(
            r#"{"service_tier":"priority","server_tool_use":{"web":2,"get":0},"new":"x"}"#,
            Some(r#"{"new":"x","server_tool_use":{"web":2,"get":0},"service_tier":"priority"}"#),
        );
    }
}
