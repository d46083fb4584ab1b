//! Completion of what is being typed: names of fields, then their values.

use std::ops::Range;

use agent_journal::search::{field_called, fields};

use super::filters::{Facets, token};
use super::input::Input;

/// Options offered at a time.
const MOST: usize = 24;

/// What the word at the cursor could become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Completion {
    /// Where the word stands.
    pub(super) range: Range<usize>,
    pub(super) options: Vec<String>,
    /// The option that is in the text now.
    pub(super) chosen: Option<usize>,
}

/// Finds what the word before the cursor could become.
pub(super) fn complete(input: &Input, facets: &Facets) -> Completion {
    let before = &input.text[..input.at];
    let start = before
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
    let word = &before[start..];
    let options = match word.split_once(':') {
        Some((field, value)) if field_called(field).is_some() => values(field, value, facets),
        Some(_) => Vec::new(),
        None if word.len() < 2 => Vec::new(),
        None => {
            let names = fields().iter().map(|field| field.name);
            names.filter(|name| name.starts_with(word)).map(|name| format!("{name}:")).collect()
        }
    };
    Completion { range: start..input.at, options, chosen: None }
}

fn values(field: &str, beginning: &str, facets: &Facets) -> Vec<String> {
    let lower = beginning.trim_start_matches('"').to_lowercase();
    let all: Vec<&str> = facets.values(field).collect();
    // Nothing is offered for what is complete already.
    if all.contains(&beginning) {
        return Vec::new();
    }
    let begins = all.iter().filter(|value| value.to_lowercase().starts_with(&lower));
    let has = all.iter().filter(|value| {
        let value = value.to_lowercase();
        !value.starts_with(&lower) && value.contains(&lower)
    });
    begins.chain(has).take(MOST).map(|value| token(field, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::filters::Column;

    fn check(text: &str, expected: &[&str]) {
        let values = |values: &[&str]| values.iter().map(|it| ((*it).to_owned(), None)).collect();
        let columns = vec![
            Column { field: "agent", values: values(&["claude", "codex", "cursor"]) },
            Column { field: "project", values: values(&["web", "my app", "web-api"]) },
            Column { field: "since", values: values(&["today", "7d"]) },
        ];
        let found = complete(&Input::new(text), &Facets { columns });
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
