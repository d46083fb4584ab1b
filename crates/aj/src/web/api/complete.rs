//! Completion of the search field: names of fields, and values that the journal holds.

use std::sync::Arc;

use agent_journal::search::{Field, Scope, field_called, fields};
use agent_journal::{Browse, Journal};
use axum::extract::{Query, State};
use serde_json::json;

use super::{Answer, Json};
use crate::output::count;
use crate::web::params::Params;
use crate::web::state::App;

/// How many are offered.
const OFFERED: usize = 8;

/// Completes the last word of what was typed.
pub(super) async fn complete(State(app): State<Arc<App>>, Query(params): Query<Params>) -> Answer {
    let word = params.get("q").unwrap_or_default().to_owned();
    let offers = app.ask(move |journal, _| offers(journal, &word)).await?;
    let offers: Vec<_> =
        offers.into_iter().map(|(text, about)| json!({ "text": text, "about": about })).collect();
    Ok(Json(json!({ "schema": "aj.complete/1", "completions": offers })))
}

fn offers(journal: &Journal, word: &str) -> anyhow::Result<Vec<(String, String)>> {
    let Some((field, begun)) = word.split_once(':') else {
        let fits = |field: &&Field| !word.is_empty() && field.name.starts_with(word);
        let offer = |field: &Field| (format!("{}:", field.name), field.about.to_owned());
        return Ok(fields().iter().filter(fits).map(offer).collect());
    };
    let begun = begun.trim_start_matches('"').to_lowercase();
    let values = values(journal, field)?;
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

/// What a field may hold, with what is known of each value.
fn values(journal: &Journal, field: &str) -> anyhow::Result<Vec<(String, String)>> {
    let fixed = field_called(field).map_or(&[][..], |field| field.values);
    if !fixed.is_empty() {
        return Ok(fixed.iter().map(|value| ((*value).to_owned(), String::new())).collect());
    }
    let mut browse = Browse { limit: 0, ..Browse::default() };
    browse.filter.scope = Scope::All;
    let facets = journal.browse(&browse)?.facets;
    let counted = match field {
        "agent" => facets.agents,
        "project" => facets.projects,
        "branch" => facets.branches,
        "model" => facets.models,
        _ => Vec::new(),
    };
    Ok(counted.into_iter().map(|(value, number)| (value, count(number, "session"))).collect())
}
