//! The search fields in help pages and completion scripts, made from the library's table.

use std::ffi::OsStr;
use std::sync::LazyLock;

use agent_journal::search::{FieldTarget, SearchField, search_fields};
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

/// Help of the query of `aj search`.
pub(crate) static QUERY_HELP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "Words, \"phrases\", prefix*, -exclude, /regex/, OR, NOT, ( ), and fields: {}. Fields \
         alone list all matches, latest first",
        names(|_| true)
    )
});

/// Help of the fields of `aj list`.
pub(crate) static LIST_HELP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "Only matching sessions: {}, or with a matching message: {}. `aj search --help` describes the \
         fields",
        names(selects_sessions),
        names(|field| !selects_sessions(field))
    )
});

/// Help of the fields of `aj stats`.
pub(crate) static STATS_HELP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "Only matching sessions: {}. `aj search --help` describes the fields",
        names(selects_sessions)
    )
});

/// Examples of `aj search`, for `-h`.
pub(crate) const SEARCH_EXAMPLES: &str = "Examples:
  aj search flaky login test
  aj search '\"copper lattice\"' -draft               a phrase, excluding a word
  aj search 'login OR signin' agent:claude since:7d
  aj search '/E0[0-9]+/' file:main.rs has:error      a regular expression
  aj search tool:bash is:failed since:7d             fields alone: every failed command
  aj search role:you project:web                     your prompts in a project, latest first
  aj search login -C 2 --max-tokens 2000 --json      context for an agent
  aj search login --facets agent,month --explain";

/// Examples of `aj search` and the table of fields, for `--help`.
pub(crate) static SEARCH_AFTER_HELP: LazyLock<String> = LazyLock::new(|| {
    let mut text = format!("{SEARCH_EXAMPLES}\n\nFields; -field:value excludes:\n");
    for field in search_fields() {
        text.push_str(&format!("  {:<9} {}\n", format!("{}:", field.name), field.help));
        if !field.values.is_empty() {
            text.push_str(&format!("  {:<9} {}\n", "", field.values.join(", ")));
        }
    }
    text.trim_end().replace('`', "")
});

/// The words offered for completion, each with its help: every field, and every field with each of
/// its values.
static COMPLETIONS: LazyLock<Vec<(String, &str)>> = LazyLock::new(|| {
    let mut words = Vec::new();
    for field in search_fields() {
        words.push((format!("{}:", field.name), field.help));
        words.extend(field.values.iter().map(|value| (format!("{}:{value}", field.name), "")));
    }
    words
});

fn names(is_wanted: impl Fn(&SearchField) -> bool) -> String {
    let wanted = search_fields().iter().filter(|field| is_wanted(field));
    wanted.map(|field| format!("{}:", field.name)).collect::<Vec<_>>().join(" ")
}

fn selects_sessions(field: &SearchField) -> bool {
    field.target != FieldTarget::Messages
}

/// A parser that takes every word and offers the fields and their values for completion.
#[derive(Clone)]
pub(crate) struct QueryWord;

impl TypedValueParser for QueryWord {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let possible = |(word, help): &'static (String, &'static str)| {
            let value = PossibleValue::new(word.as_str());
            if help.is_empty() { value } else { value.help(*help) }
        };
        Some(Box::new(COMPLETIONS.iter().map(possible)))
    }
}
