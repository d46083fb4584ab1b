//! The statistics as JSON: `aj.stats/1`.

use agent_journal::analyze::{Figures, GroupBy, Stats};
use anyhow::Result;
use jiff::Zoned;
use serde_json::{Map, Value, json};

/// Returns the statistics as JSON, with the totals also under their documented names.
pub(crate) fn stats_document(stats: &Stats, now: &Zoned) -> Result<Value> {
    let mut document = serde_json::to_value(stats)?;
    let totals = &stats.totals;
    document["timezone"] = json!(now.time_zone().iana_name());
    document["totals"] = figures_document(totals)?;
    // A value that was not counted is missing, not zero.
    if stats.by.is_some()
        && let Some(document) = document.as_object_mut()
    {
        document.remove("files");
    }
    document["models"] = model_documents(stats)?;
    document["days"] = stats
        .days
        .iter()
        .map(|(day, it)| {
            let mut one = figures_document(it)?;
            one["date"] = json!(day);
            Ok(one)
        })
        .collect::<Result<Value>>()?;
    match stats.by {
        Some(GroupBy::Tool) => document["groups"] = serde_json::to_value(&stats.tools)?,
        Some(GroupBy::Model) => keep_usage_only(&mut document["groups"]),
        _ => {}
    }
    document["totalCostUSD"] = json!(totals.cost.known_dollars());
    let per_day: Map<String, Value> = stats
        .days
        .iter()
        .filter_map(|(day, it)| Some((day.to_string(), json!(it.cost.known_dollars()?))))
        .collect();
    document["costPerDay"] = Value::Object(per_day);
    let known = |number: u64| totals.tokens.is_known().then_some(number);
    document["tokenUsage"] = json!({
        "totalInput": known(totals.tokens.input),
        "totalOutput": known(totals.tokens.output),
        "totalCacheRead": known(totals.tokens.cache_read),
        "totalCacheCreation": known(totals.tokens.cache_creation),
    });
    Ok(document)
}

/// Returns the usage of each model as JSON.
pub(crate) fn model_documents(stats: &Stats) -> Result<Value> {
    let mut models = serde_json::to_value(&stats.models)?;
    keep_usage_only(&mut models);
    Ok(models)
}

/// Removes the activity from groups by model: only the usage of a model is known.
fn keep_usage_only(groups: &mut Value) {
    const DONE: [&str; 8] = [
        "sessions_started",
        "prompts",
        "messages",
        "active_s",
        "work_s",
        "tool_calls",
        "tool_results",
        "tool_errors",
    ];
    let groups = groups.as_array_mut().into_iter().flatten();
    for group in groups.filter_map(Value::as_object_mut) {
        group.retain(|name, _| !DONE.contains(&name.as_str()));
    }
}

fn figures_document(figures: &Figures) -> Result<Value> {
    let mut document = serde_json::to_value(figures)?;
    document["cache_hit_ratio"] = json!(figures.cache_hit_ratio());
    document["error_rate"] = json!(figures.call_error_rate());
    document["turns_per_session"] = json!(figures.turns_per_session());
    Ok(document)
}
