//! Completion of the search field: names of fields, and values that the journal holds.

use std::sync::Arc;

use agent_journal::search::Scope;
use agent_journal::{Browse, Journal};
use axum::extract::{Query, State};
use serde_json::json;

use super::{Answer, Json};
use crate::web::params::Params;
use crate::web::state::App;

/// How many are offered.
const OFFERED: usize = 8;

/// The fields, with what each is about.
const FIELDS: [(&str, &str); 6] = [
    ("agent:", "whose session"),
    ("branch:", "a git branch"),
    ("project:", "a project, by a part of its name or path"),
    ("role:", "who said it: user, assistant, tool"),
    ("since:", "not before: 7d, yesterday, 2026-11-03"),
    ("until:", "not after"),
];

const ROLES: [&str; 7] = ["user", "assistant", "tool", "title", "document", "input", "output"];

const TIMES: [&str; 6] = ["today", "yesterday", "7d", "30d", "90d", "365d"];

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
        let fits = |(name, _): &&(&str, &str)| !word.is_empty() && name.starts_with(word);
        let offer = |(name, about): &(&str, &str)| ((*name).to_owned(), (*about).to_owned());
        return Ok(FIELDS.iter().filter(fits).map(offer).collect());
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
    let plain = |values: &[&str]| {
        Ok(values.iter().map(|value| ((*value).to_owned(), String::new())).collect())
    };
    match field {
        "role" => return plain(&ROLES),
        "since" | "until" => return plain(&TIMES),
        _ => {}
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
    Ok(counted.into_iter().map(|(value, number)| (value, format!("{number} sessions"))).collect())
}
