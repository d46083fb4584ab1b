//! The requirements of the specification, run on homes that are made for them: each assertion names
//! the requirement it checks. `docs/requirements.md` lists every requirement with its test.
#![allow(clippy::needless_pass_by_value, reason = "records are written where they are passed")]

mod claude_records;
mod codex_rollouts;
mod copilot_log;
mod copilot_storage;
mod dashboard;
mod table;
mod unified_document;

use serde_json::Value;

use crate::support::{Run, Test};

/// Joins records to the text of a file of JSON lines. A record that is a string is written as it
/// is, so that a test can write what is no JSON.
fn lines(records: &[Value]) -> String {
    let line = |record: &Value| match record {
        Value::String(text) => format!("{text}\n"),
        other => format!("{other}\n"),
    };
    records.iter().map(line).collect()
}

/// Exports one session as a unified document.
#[track_caller]
fn export(test: &Test, id: &str) -> Value {
    test.args(["export", id, "--json", "-o", "-"]).code(0).json()
}

/// Returns the messages of an exported document.
fn messages(document: &Value) -> &Vec<Value> {
    document["messages"].as_array().unwrap()
}

/// Returns the exported message with an id.
#[track_caller]
fn message<'a>(document: &'a Value, uuid: &str) -> &'a Value {
    let found = messages(document).iter().find(|message| message["uuid"] == uuid);
    found.unwrap_or_else(|| panic!("no message `{uuid}` in\n{document:#}"))
}

/// Returns the one session that `aj list --json` shows.
#[track_caller]
fn only_session(test: &Test) -> Value {
    let answer = test.aj("list --json --all").code(0).json();
    let sessions = answer["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1, "{answer:#}");
    sessions[0].clone()
}

/// Asserts that a search by words finds something.
#[track_caller]
fn assert_found(test: &Test, words: &str) -> Run {
    test.args(["search", "--mode", "lexical", words]).code(0)
}

/// Asserts that a search by words finds nothing.
#[track_caller]
fn assert_not_found(test: &Test, words: &str) {
    test.args(["search", "--mode", "lexical", words]).code(1);
}
