//! What there is to filter by. A filter is a field of the query and nothing else: choosing one
//! writes it there.

use std::collections::HashMap;

use agent_journal::Journal;
use agent_journal::search::{self, Filter};

/// Values of the fields of a query, the most used first.
#[derive(Clone, Debug, Default)]
pub(super) struct Facets {
    pub(super) columns: Vec<Column>,
}

/// A field with its values and, where that is known, how many sessions have each.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) field: &'static str,
    pub(super) values: Vec<(String, Option<u64>)>,
}

impl Facets {
    pub(super) fn of(journal: &Journal) -> Self {
        let entries = journal.sessions(&Filter::default(), None).unwrap_or_default();
        let named = |id: &str| {
            let agent = Journal::agents().find(|agent| agent.id == id);
            // The word on its badge is what people call it, where it is a name of its own.
            let badge = agent.map(|agent| agent.badge);
            let is_own = |name: &&str| search::agent(name).is_ok_and(|its| its == id);
            badge.filter(is_own).unwrap_or(id).to_owned()
        };
        let agents = counted(entries.iter().map(|entry| named(&entry.agent)));
        let projects = counted(entries.iter().filter_map(|entry| entry.project.clone()));
        let branches = counted(entries.iter().filter_map(|entry| entry.branch.clone()));
        let models = counted(entries.iter().filter_map(|entry| entry.models.first().cloned()));
        let fixed = |field: &'static str| {
            let values = search::field_called(field).map_or(&[][..], |field| field.values);
            Column { field, values: values.iter().map(|it| ((*it).to_owned(), None)).collect() }
        };
        let columns = vec![
            Column { field: "agent", values: agents },
            Column { field: "project", values: projects },
            Column { field: "branch", values: branches },
            Column { field: "model", values: models },
            fixed("since"),
            fixed("role"),
            fixed("has"),
        ];
        Self { columns }
    }

    /// The values of a field.
    pub(super) fn values(&self, field: &str) -> impl Iterator<Item = &str> {
        let column = self.columns.iter().find(|column| column.field == field);
        let fixed = column.is_none().then(|| search::field_called(field)).flatten();
        let values = column.into_iter().flat_map(|column| &column.values);
        let fixed = fixed.into_iter().flat_map(|field| field.values);
        values.map(|(value, _)| value.as_str()).chain(fixed.copied())
    }
}

fn counted(values: impl Iterator<Item = String>) -> Vec<(String, Option<u64>)> {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().map(|(value, n)| (value, Some(n))).collect();
    counts.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    counts
}

/// A field with its value, as a query has it.
pub(super) fn token(field: &str, value: &str) -> String {
    if value.contains(char::is_whitespace) {
        format!("{field}:\"{value}\"")
    } else {
        format!("{field}:{value}")
    }
}

/// The words of a query; quoted ones stay whole.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let split = move |character: char| {
        quoted ^= character == '"';
        character.is_whitespace() && !quoted
    };
    text.split(split).filter(|word| !word.is_empty())
}

/// Whether a query has this filter.
pub(super) fn has(text: &str, token: &str) -> bool {
    tokens(text).any(|one| one == token)
}

/// Adds a filter to a query, or takes it out. Of times there is only one.
pub(super) fn toggle(text: &str, field: &str, value: &str) -> String {
    let wanted = token(field, value);
    let is_there = has(text, &wanted);
    let is_time = field == "since" || field == "until";
    let stays = |one: &&str| {
        *one != wanted && !(is_time && one.split_once(':').is_some_and(|(name, _)| name == field))
    };
    let mut words: Vec<&str> = tokens(text).filter(stays).collect();
    if !is_there {
        words.push(&wanted);
    }
    words.join(" ")
}

/// The overlay in which filters are chosen.
#[derive(Clone, Debug, Default)]
pub(super) struct Chooser {
    pub(super) column: usize,
    pub(super) rows: [usize; 8],
}

impl Chooser {
    /// The row that is chosen in a column.
    pub(super) fn row(&self, column: usize) -> usize {
        self.rows.get(column).copied().unwrap_or(0)
    }

    pub(super) fn move_to(&mut self, row: usize) {
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
        assert_eq!(toggle("login", "agent", "codex"), "login agent:codex");
        assert_eq!(toggle("login agent:codex", "agent", "codex"), "login");
        assert_eq!(toggle("", "project", "my app"), "project:\"my app\"");
        assert_eq!(toggle("project:\"my app\" x", "project", "my app"), "x");
        assert_eq!(toggle("since:7d x", "since", "30d"), "x since:30d");
        assert_eq!(toggle("\"two words\"", "role", "user"), "\"two words\" role:user");
    }
}
