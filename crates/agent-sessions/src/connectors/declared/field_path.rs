//! Paths to fields of a record: JSON pointers in which `*` stands for every element of an array.

use serde::de::{self, Deserialize, Deserializer};
use serde_json::Value;

/// Maximum number of values that one path finds in a record.
const MAX_VALUES: usize = 8192;

/// A path to values in a record, such as `/message/content/*/text`. The empty path is the record
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldPath {
    steps: Vec<String>,
}

impl FieldPath {
    /// Parses a path. `None` if it is neither empty nor begins with `/`.
    pub(super) fn parse_path(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::default());
        }
        let steps = text.strip_prefix('/')?.split('/');
        Some(Self { steps: steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect() })
    }

    /// Finds all values at the path, in recorded order. `null` does not count as a value.
    pub(super) fn find_values<'v>(&self, record: &'v Value) -> Vec<&'v Value> {
        let mut found = vec![record];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step_into(value, step)).collect();
            found.truncate(MAX_VALUES);
        }
        found.retain(|value| !value.is_null());
        found
    }

    /// Returns the name of the field in which the path begins; `None` for the record itself.
    pub(super) fn first_step(&self) -> Option<&str> {
        self.steps.first().map(String::as_str)
    }
}

fn step_into<'v>(value: &'v Value, step: &str) -> Vec<&'v Value> {
    match value {
        Value::Array(all) if step == "*" => all.iter().collect(),
        Value::Array(all) => {
            step.parse::<usize>().ok().and_then(|at| all.get(at)).into_iter().collect()
        }
        // A list with one element may be recorded as that element.
        Value::Object(fields) if step == "*" && !fields.contains_key("*") => vec![value],
        Value::Object(fields) => fields.get(step).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Alternative paths to one field. The first that leads to a value is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldPaths(Vec<FieldPath>);

impl FieldPaths {
    /// Finds the values of the first path that leads to any.
    pub(super) fn find_values<'v>(&self, record: &'v Value) -> Vec<&'v Value> {
        self.0
            .iter()
            .map(|path| path.find_values(record))
            .find(|all| !all.is_empty())
            .unwrap_or_default()
    }

    /// Finds the first value.
    pub(super) fn find_value<'v>(&self, record: &'v Value) -> Option<&'v Value> {
        self.find_values(record).first().copied()
    }

    /// Finds a text that is not empty. A number counts as text.
    pub(super) fn find_text(&self, record: &Value) -> Option<String> {
        let text = match self.find_value(record)? {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        Some(text).filter(|text| !text.is_empty())
    }

    /// Finds a count.
    pub(super) fn find_count(&self, record: &Value) -> Option<u64> {
        match self.find_value(record)? {
            Value::Number(number) => number
                .as_u64()
                .or_else(|| number.as_f64().filter(|one| *one >= 0.0).map(|one| one as u64)),
            Value::String(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Returns whether no path is declared.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lists the fields in which the paths begin.
    pub(super) fn first_steps(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(FieldPath::first_step)
    }
}

impl<'de> Deserialize<'de> for FieldPaths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum OneOrMany {
            One(String),
            Many(Vec<String>),
        }
        let texts = match OneOrMany::deserialize(deserializer) {
            Ok(OneOrMany::One(text)) => vec![text],
            Ok(OneOrMany::Many(texts)) => texts,
            Err(_) => return Err(de::Error::custom("a field is a path or a list of paths")),
        };
        let parse = |text: &String| {
            FieldPath::parse_path(text).ok_or_else(|| {
                de::Error::custom(format!(
                    "the path `{text}` must begin with `/`, such as `/{text}`"
                ))
            })
        };
        texts.iter().map(parse).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(path: &str, record: &Value) -> Value {
        Value::Array(
            FieldPath::parse_path(path).unwrap().find_values(record).into_iter().cloned().collect(),
        )
    }

    #[test]
    fn a_path_leads_through_objects_and_lists() {
        let record =
            json!({ "a": [{ "b": 1 }, { "b": null }, 3, { "b": "x" }], "c/d": { "~": 2 } });
        let check =
            |path: &str, expected: Value| assert_eq!(found(path, &record), expected, "{path}");
        check("/a/*/b", json!([1, "x"]));
        check("/a/3/b", json!(["x"]));
        check("/a/b", json!([]));
        check("/c~1d/~0", json!([2]));
        check("/c~1d/*/~0", json!([2]));
        check("", json!([record]));
        assert_eq!(FieldPath::parse_path("a"), None);
    }

    #[test]
    fn the_first_path_with_a_value_is_used() {
        let paths: FieldPaths = serde_json::from_value(json!(["/new", "/old"])).unwrap();
        assert_eq!(paths.find_text(&json!({ "old": 7, "new": null })).as_deref(), Some("7"));
        assert_eq!(paths.find_text(&json!({ "old": "x", "new": "y" })).as_deref(), Some("y"));
        assert_eq!(paths.find_count(&json!({ "old": 2.0 })), Some(2));
        let wrong = serde_json::from_value::<FieldPaths>(json!("new")).unwrap_err().to_string();
        assert_eq!(wrong, "the path `new` must begin with `/`, such as `/new`");
    }
}
