//! The choice of sessions by fields of the query language, and what a choice cannot do.

use agent_journal::search::{Filter, Mode, Query, Scope, message_field, search_fields};
use agent_journal::{Error, Journal};
use anyhow::Result;
use jiff::Zoned;

/// Returns the filter that query fields describe.
pub(crate) fn filter_of_fields(text: &str, scope: Scope, now: &Zoned) -> Result<Filter> {
    let query = Query::parse_exact(text, now)?;
    if let Some(clause) = query.clauses.first() {
        let known: Vec<String> =
            search_fields().iter().map(|field| format!("{}:", field.name)).collect();
        return Err(query_error(format!(
            "`{clause}` is not a field: expected one of {} — use `aj search` to search for words",
            known.join(" ")
        )));
    }
    Ok(Filter { scope, ..query.filter })
}

/// Fails if a filter has a field that selects messages instead of sessions.
pub(crate) fn require_session_fields(filter: &Filter) -> Result<()> {
    match message_field(filter) {
        Some(field) => Err(query_error(format!(
            "`{field}` selects messages: use it with `aj search` or `aj list`"
        ))),
        None => Ok(()),
    }
}

/// Returns why a search by meaning alone cannot find anything, or `None` if it can.
pub(crate) fn why_no_meaning(journal: &Journal, mode: Mode) -> Option<String> {
    let problem = (mode == Mode::Semantic).then(|| journal.no_meaning()).flatten()?;
    Some(format!(
        "search by meaning is not available: {problem}, and `index.vector.fallback` is none"
    ))
}

/// Returns an error that all front ends attribute to the query.
pub(crate) fn query_error(message: String) -> anyhow::Error {
    Error::Query { message }.into()
}
