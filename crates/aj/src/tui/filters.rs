//! The values to filter by. A filter is only a field of the query; selecting it adds the field.

use std::collections::HashMap;

use agent_journal::Journal;
use agent_journal::search::{self, Filter};

/// Values of the query fields, the most used first.
#[derive(Clone, Debug, Default)]
pub(super) struct FieldFacets {
    pub(super) columns: Vec<FacetColumn>,
}

/// A field with its values and, if known, the number of sessions for each.
#[derive(Clone, Debug)]
pub(super) struct FacetColumn {
    pub(super) field: &'static str,
    pub(super) values: Vec<(String, Option<u64>)>,
}

impl FieldFacets {
    pub(super) fn load_facets(journal: &Journal) -> Self {
        let entries = journal.list_entries(&Filter::default(), None).unwrap_or_default();
        let named = |id: &str| {
            let agent = Journal::supported_agents().find(|agent| agent.id == id);
            // The badge is the usual name of an agent, if it is a valid name for it.
            let badge = agent.map(|agent| agent.badge);
            let is_own = |name: &&str| search::agent(name).is_ok_and(|its| its == id);
            badge.filter(is_own).unwrap_or(id).to_owned()
        };
        let agents = without_counts(entries.iter().map(|entry| named(&entry.agent)));
        let projects = without_counts(entries.iter().filter_map(|entry| entry.project.clone()));
        let branches = without_counts(entries.iter().filter_map(|entry| entry.branch.clone()));
        let models =
            without_counts(entries.iter().filter_map(|entry| entry.models.first().cloned()));
        let fixed = |field: &'static str| {
            let values = search::search_field(field).map_or(&[][..], |field| field.values);
            FacetColumn {
                field,
                values: values.iter().map(|it| ((*it).to_owned(), None)).collect(),
            }
        };
        let columns = vec![
            FacetColumn { field: "agent", values: agents },
            FacetColumn { field: "project", values: projects },
            FacetColumn { field: "branch", values: branches },
            FacetColumn { field: "model", values: models },
            fixed("since"),
            fixed("role"),
            fixed("has"),
        ];
        Self { columns }
    }

    /// Returns the values of a field.
    pub(super) fn values_of_field(&self, field: &str) -> impl Iterator<Item = &str> {
        let column = self.columns.iter().find(|column| column.field == field);
        let fixed = column.is_none().then(|| search::search_field(field)).flatten();
        let values = column.into_iter().flat_map(|column| &column.values);
        let fixed = fixed.into_iter().flat_map(|field| field.values);
        values.map(|(value, _)| value.as_str()).chain(fixed.copied())
    }
}

fn without_counts(values: impl Iterator<Item = String>) -> Vec<(String, Option<u64>)> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().map(|(value, n)| (value, Some(n))).collect();
    counts.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    counts
}

/// Formats a field with its value as in a query.
pub(super) fn field_token(field: &str, value: &str) -> String {
    if value.contains(char::is_whitespace) {
        format!("{field}:\"{value}\"")
    } else {
        format!("{field}:{value}")
    }
}

/// Splits a query into words. Quoted phrases are not split.
pub(super) fn query_tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let split = move |character: char| {
        quoted ^= character == '"';
        character.is_whitespace() && !quoted
    };
    text.split(split).filter(|word| !word.is_empty())
}

/// Returns whether a query contains this filter.
pub(super) fn has_token(text: &str, token: &str) -> bool {
    query_tokens(text).any(|one| one == token)
}

/// Adds a filter to a query, or removes it. A new time replaces the old one.
pub(super) fn toggle_token(text: &str, field: &str, value: &str) -> String {
    let wanted = field_token(field, value);
    let is_there = has_token(text, &wanted);
    let is_time = field == "since" || field == "until";
    let stays = |one: &&str| {
        *one != wanted && !(is_time && one.split_once(':').is_some_and(|(name, _)| name == field))
    };
    let mut words: Vec<&str> = query_tokens(text).filter(stays).collect();
    if !is_there {
        words.push(&wanted);
    }
    words.join(" ")
}

/// The overlay in which filters are selected.
#[derive(Clone, Debug, Default)]
pub(super) struct Chooser {
    pub(super) column: usize,
    pub(super) rows: [usize; 8],
}

impl Chooser {
    /// Returns the selected row of a column.
    pub(super) fn selected_row(&self, column: usize) -> usize {
        self.rows.get(column).copied().unwrap_or(0)
    }

    pub(super) fn move_selection(&mut self, row: usize) {
        if let Some(place) = self.rows.get_mut(self.column) {
            *place = row;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_field_of_the_query() {
        assert_eq!(toggle_token("login", "agent", "codex"), "login agent:codex");
        assert_eq!(toggle_token("login agent:codex", "agent", "codex"), "login");
        assert_eq!(toggle_token("", "project", "my app"), "project:\"my app\"");
        assert_eq!(toggle_token("project:\"my app\" x", "project", "my app"), "x");
        assert_eq!(toggle_token("since:7d x", "since", "30d"), "x since:30d");
        assert_eq!(toggle_token("\"two words\"", "role", "user"), "\"two words\" role:user");
    }
}
