//! Search results in JSON: `aj.search/1`.

use std::collections::HashSet;

use agent_journal::Entry;
use agent_journal::model::{Block, Message};
use agent_journal::search::{Found, Hit};
use anyhow::Result;
use serde_json::{Map, Value, json};

use super::{Report, session_of_hit};
use crate::output::cut_bytes;
use crate::output::json::session_json;

/// Most bytes shown of a message around a hit.
const AROUND: usize = 600;

/// The part of the results that is written.
#[derive(Clone, Copy)]
struct ReportPart {
    results: usize,
    /// Hits of each result.
    hits: usize,
    context: u64,
}

/// Serializes the results, within `max_bytes` if there is a limit.
pub(crate) fn search_json(report: &Report<'_>) -> Result<String> {
    let all = ReportPart {
        results: report.answer.sessions.len(),
        hits: usize::MAX,
        context: report.options.context,
    };
    let Some(bound) = report.max_bytes else {
        return Ok(serde_json::to_string_pretty(&make_json_part(report, all)?)? + "\n");
    };
    let fits = |part: ReportPart| -> Result<Option<String>> {
        let text = serde_json::to_string(&make_json_part(report, part)?)? + "\n";
        Ok((text.len() <= bound).then_some(text))
    };
    // Messages around a hit are the first to go, then all but the best hits, then the last results.
    let fewer_around = (0..=all.context).rev().map(|context| ReportPart { context, ..all });
    let fewer_hits = [2, 1].map(|hits| ReportPart { hits, context: 0, ..all });
    let fewer = (0..all.results).rev().map(|results| ReportPart { results, hits: 1, context: 0 });
    for part in fewer_around.chain(fewer_hits).chain(fewer) {
        if let Some(text) = fits(part)? {
            return Ok(text);
        }
    }
    let left_out = json!({ "schema": "aj.search/1", "total": report.answer.total,
        "left_out": "everything: --max-tokens is too small" });
    Ok(left_out.to_string() + "\n")
}

fn make_json_part(report: &Report<'_>, part: ReportPart) -> Result<Value> {
    let answer = report.answer;
    let shown = &answer.sessions[..part.results];
    let hits: Vec<Value> = shown
        .iter()
        .flat_map(|found| {
            best_hits(found, part.hits).map(|hit| hit_document(found, hit, part.context))
        })
        .collect();
    let mut document = json!({
        "schema": "aj.search/1",
        "query": report.query.text,
        "mode": answer.mode,
        "tier": answer.tier,
        "took_ms": report.took,
        "pending": {
            "sources": report.freshness.pending_sources,
            "bytes": report.freshness.pending_bytes,
            "meanings": answer.uncovered,
        },
        "total": answer.total,
        "sessions": session_documents_json(shown, report)?,
        "hits": hits,
    });
    let Some(object) = document.as_object_mut() else { return Ok(document) };
    if let Some(note) = &report.query.reading_note {
        object.insert("note".into(), note.as_str().into());
    }
    if answer.distant > 0 {
        object.insert("distant".into(), answer.distant.into());
    }
    if !answer.corrected.is_empty() {
        object.insert("corrected".into(), answer.corrected.iter().cloned().collect());
    }
    if answer.untried > 0 {
        object.insert("untried".into(), answer.untried.into());
    }
    if !answer.facets.is_empty() {
        object.insert("facets".into(), facets_json(report)?);
    }
    if report.explain {
        object.insert("explain".into(), explanation_json(report));
    }
    if report.max_bytes.is_some() {
        object.extend(omitted_json(report, part));
    }
    Ok(document)
}

/// Returns the best `most` hits of a result, in their order.
fn best_hits(found: &Found, most: usize) -> impl Iterator<Item = &Hit> {
    let mut scores: Vec<f32> = found.hits.iter().map(|hit| hit.score).collect();
    scores.sort_by(|a, b| b.total_cmp(a));
    let least = scores.get(most.saturating_sub(1)).copied().unwrap_or(f32::MIN);
    found.hits.iter().filter(move |hit| hit.score >= least).take(most)
}

/// Converts the sessions of the results, each once: in full, or with their identifying fields only.
fn session_documents_json(shown: &[Found], report: &Report<'_>) -> Result<Vec<Value>> {
    let brief = report.max_bytes.is_some();
    let mut known = HashSet::new();
    let mut all = Vec::new();
    let costed = shown.iter().zip(report.figures);
    for (found, figures) in costed.filter(|(found, _)| known.insert(&found.entry.id)) {
        let entry: &Entry = &found.entry;
        all.push(if brief {
            json!({
                "id": entry.id, "title": entry.title, "project": entry.project,
                "branch": entry.branch, "ended_at": entry.ended_at,
            })
        } else {
            session_json(entry, figures)?
        });
    }
    Ok(all)
}

fn hit_document(found: &Found, hit: &Hit, context: u64) -> Value {
    let message = hit.message.as_ref().map(|message| {
        json!({
            "index": hit.position.map(|position| position + 1),
            "uuid": message.uuid,
            "role": message.role.role_name(),
            "timestamp": message.at,
        })
    });
    let around = |at: u64| hit.position.map_or(0, |position| position.abs_diff(at));
    let context: Vec<Value> = hit
        .context
        .iter()
        .filter(|(at, _)| around(*at) <= context)
        .map(|(at, message)| context_document(*at, message))
        .collect();
    let mut document = json!({
        "session": session_of_hit(found, hit).id,
        "message": message,
        "kind": hit.kind,
        "tier": hit.tier,
        "score": hit.score,
        "snippet": hit.snippet,
        "context": context,
    });
    if hit.within.is_some() {
        document["task"] = found.entry.id.as_str().into();
    }
    document
}

fn context_document(at: u64, message: &Message) -> Value {
    let text = message_words(message);
    let shown = cut_bytes(&text, AROUND);
    let mut document = json!({
        "index": at + 1,
        "role": message.role.role_name(),
        "timestamp": message.at,
        "text": shown,
    });
    if shown.len() < text.len() {
        document["left_out"] = json!(text.len() - shown.len());
    }
    document
}

/// Returns the text of a message, with one line for each tool call.
fn message_words(message: &Message) -> String {
    let mut all = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text(text) => all.push(text.clone()),
            Block::ToolCall { name, input, .. } => {
                let mut line = format!("▸ {name}");
                input.visit_strings(&mut |text| {
                    line.push(' ');
                    line.push_str(cut_bytes(text, AROUND));
                });
                all.push(line);
            }
            Block::ToolResult { output, .. } => all.push(output.clone()),
            _ => {}
        }
    }
    all.join("\n")
}

fn facets_json(report: &Report<'_>) -> Result<Value> {
    let mut all = Map::new();
    for (facet, counts) in &report.answer.facets {
        let name = serde_json::to_value(facet)?;
        let counts = counts.iter().map(|(value, count)| json!({ "value": value, "count": count }));
        all.insert(name.as_str().unwrap_or_default().to_owned(), counts.collect());
    }
    Ok(Value::Object(all))
}

fn explanation_json(report: &Report<'_>) -> Value {
    let clauses: Vec<String> = report.query.clauses.iter().map(ToString::to_string).collect();
    json!({
        "looks_for": clauses,
        "where": report.query.filter.to_string(),
        "stages": report.answer.stages,
    })
}

/// Describes what the limit left out, with the commands that show it.
fn omitted_json(report: &Report<'_>, part: ReportPart) -> Map<String, Value> {
    let results = report.remaining_results(part.results);
    let mut left_out = Map::new();
    if results > 0 {
        let hint = report.next_command(part.results);
        left_out.insert("results".into(), json!({ "count": results, "get": hint }));
    }
    let shown = &report.answer.sessions[..part.results];
    let hits: usize = shown.iter().map(|found| found.hits.len().saturating_sub(part.hits)).sum();
    if hits > 0 {
        let get = "aj search … session:SESSION --group message";
        left_out.insert("hits".into(), json!({ "count": hits, "get": get }));
    }
    if part.context < report.options.context {
        let get = "aj show SESSION#INDEX -C N";
        left_out.insert("context".into(), json!({ "beyond": part.context, "get": get }));
    }
    if left_out.is_empty() {
        return left_out;
    }
    Map::from_iter([("left_out".to_owned(), Value::Object(left_out))])
}
