//! Completes the word at the cursor: names of fields, then their values.

use std::ops::Range;

use agent_journal::search::{search_field, search_fields};

use super::filters::{FieldFacets, field_token};
use super::input::LineInput;

/// Maximum number of options.
const MOST: usize = 24;

/// The possible completions of the word at the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WordCompletion {
    /// The byte range of the word.
    pub(super) range: Range<usize>,
    pub(super) options: Vec<String>,
    /// The option that is currently inserted.
    pub(super) chosen: Option<usize>,
}

/// Finds the completions of the word before the cursor.
pub(super) fn complete_at_cursor(input: &LineInput, facets: &FieldFacets) -> WordCompletion {
    let before = &input.text[..input.at];
    let start = before
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
    let word = &before[start..];
    let options = match word.split_once(':') {
        Some((field, value)) if search_field(field).is_some() => {
            matching_values(field, value, facets)
        }
        Some(_) => Vec::new(),
        None if word.len() < 2 => Vec::new(),
        None => {
            let names = search_fields().iter().map(|field| field.name);
            names.filter(|name| name.starts_with(word)).map(|name| format!("{name}:")).collect()
        }
    };
    WordCompletion { range: start..input.at, options, chosen: None }
}

fn matching_values(field: &str, beginning: &str, facets: &FieldFacets) -> Vec<String> {
    let lower = beginning.trim_start_matches('"').to_lowercase();
    let all: Vec<&str> = facets.values_of_field(field).collect();
    // A complete value needs no options.
    if all.contains(&beginning) {
        return Vec::new();
    }
    let begins = all.iter().filter(|value| value.to_lowercase().starts_with(&lower));
    let has = all.iter().filter(|value| {
        let value = value.to_lowercase();
        !value.starts_with(&lower) && value.contains(&lower)
    });
    begins.chain(has).take(MOST).map(|value| field_token(field, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::filters::FacetColumn;

    fn check(text: &str, expected: &[&str]) {
        let values = |values: &[&str]| values.iter().map(|it| ((*it).to_owned(), None)).collect();
        let columns = vec![
            FacetColumn { field: "agent", values: values(&["claude", "codex", "cursor"]) },
            FacetColumn { field: "project", values: values(&["web", "my app", "web-api"]) },
            FacetColumn { field: "since", values: values(&["today", "7d"]) },
        ];
        let found = complete_at_cursor(&LineInput::new(text), &FieldFacets { columns });
        assert_eq!(found.options, expected, "{text}");
    }

    #[test]
    fn fields_and_values_are_completed() {
        check("a", &[]);
        check("login ag", &["agent:"]);
        check("agent:", &["agent:claude", "agent:codex", "agent:cursor"]);
        check("agent:co", &["agent:codex"]);
        check("agent:codex", &[]);
        check("project:app", &["project:\"my app\""]);
        check("until:t", &["until:today", "until:yesterday"]);
        check("http:x", &[]);
    }
}
