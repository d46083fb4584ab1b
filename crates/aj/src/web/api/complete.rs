//! Completion of the search field: names of fields, and values that occur in the journal.

use std::sync::Arc;

use agent_journal::search::{Scope, SearchField, search_field, search_fields};
use agent_journal::{Browse, Journal};
use axum::extract::{Query, State};
use serde_json::json;

use super::{ApiResult, JsonResponse};
use crate::output::count;
use crate::web::params::Params;
use crate::web::state::App;

/// Most completions of an answer.
const OFFERED: usize = 8;

/// Completes the last typed word.
pub(super) async fn complete_word(
    State(app): State<Arc<App>>,
    Query(params): Query<Params>,
) -> ApiResult {
    let word = params.get_param("q").unwrap_or_default().to_owned();
    let offers = app.run_query(move |journal, _| word_completions(journal, &word)).await?;
    let offers: Vec<_> =
        offers.into_iter().map(|(text, about)| json!({ "text": text, "about": about })).collect();
    Ok(JsonResponse(json!({ "schema": "aj.complete/1", "completions": offers })))
}

fn word_completions(journal: &Journal, word: &str) -> anyhow::Result<Vec<(String, String)>> {
    let Some((field, begun)) = word.split_once(':') else {
        let fits = |field: &&SearchField| !word.is_empty() && field.name.starts_with(word);
        let offer = |field: &SearchField| (format!("{}:", field.name), field.help.to_owned());
        return Ok(search_fields().iter().filter(fits).map(offer).collect());
    };
    let begun = begun.trim_start_matches('"').to_lowercase();
    let values = field_value_completions(journal, field)?;
    let fits = |(value, _): &(String, String)| {
        let value = value.to_lowercase();
        value.contains(&begun) && value != begun
    };
    let offer = |(value, about): (String, String)| {
        let is_plain = !value.contains(char::is_whitespace);
        let value = if is_plain { value } else { format!("\"{value}\"") };
        (format!("{field}:{value}"), about)
    };
    Ok(values.into_iter().filter(fits).map(offer).take(OFFERED).collect())
}

/// Returns the values that a field may have, each with a description.
fn field_value_completions(
    journal: &Journal,
    field: &str,
) -> anyhow::Result<Vec<(String, String)>> {
    let fixed = search_field(field).map_or(&[][..], |field| field.values);
    if !fixed.is_empty() {
        return Ok(fixed.iter().map(|value| ((*value).to_owned(), String::new())).collect());
    }
    let mut browse = Browse { limit: 0, ..Browse::default() };
    browse.filter.scope = Scope::All;
    let facets = journal.browse_sessions(&browse)?.facets;
    let counted = match field {
        "agent" => facets.agents,
        "project" => facets.projects,
        "branch" => facets.branches,
        "model" => facets.models,
        _ => Vec::new(),
    };
    Ok(counted.into_iter().map(|(value, number)| (value, count(number, "session"))).collect())
}
