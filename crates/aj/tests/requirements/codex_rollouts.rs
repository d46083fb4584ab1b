//! Document 001: rollout files of Codex, beside Claude's records.

use serde_json::{Value, json};

use super::{export, lines, messages, only_session};
use crate::support::Test;

const ID: &str = "01990001-aaaa-7bbb-8ccc-000000000001";

/// Writes a rollout file of 4 October 2025.
fn write_rollout(test: &Test, id: &str, records: &[Value]) {
    let path = format!(".codex/sessions/2025/10/04/rollout-2025-10-04T20-15-32-{id}.jsonl");
    test.write(path, lines(records));
}

#[test]
fn a_flat_rollout_is_a_session_named_and_dated_by_its_file() {
    let test = Test::new();
    write_rollout(
        &test,
        ID,
        &[
            json!({ "role": "user", "text": "flat question auk" }),
            json!({ "type": "assistant", "content": "flat answer", "model": "gpt-a" }),
            json!({ "role": "user", "message": "third shape tern" }),
            json!({ "type": "system", "text": "a notice", "id": "ev1" }),
        ],
    );
    let session = only_session(&test);
    assert_eq!(session["native_id"], ID, "R84 R76");
    assert_eq!(session["started_at"], "2025-10-04T20:15:32.000Z", "R76 R99");
    assert_eq!(session["agent_version"], Value::Null, "R89");
    assert_eq!(session["title"], "flat question auk", "R91 R95");
    assert_eq!(session["counts"]["user_prompts"], 2, "R90 R91");
    assert_eq!(session["models"], json!(["gpt-a"]), "R87");
    let document = export(&test, ID);
    let roles: Vec<&Value> = messages(&document).iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user", "system"], "R90 R92 R274");
    assert!(messages(&document).iter().all(|message| message["parent_uuid"].is_null()), "R94");
    let ids = |document: &Value| -> Vec<Value> {
        messages(document).iter().map(|message| message["uuid"].clone()).collect()
    };
    assert_eq!(ids(&document)[3], "ev1", "R93 R274");
    test.aj("index --full").code(0);
    assert_eq!(ids(&export(&test, ID)), ids(&document), "R93: generated ids are stable");
}

#[test]
fn directory_branch_and_model_of_a_rollout_are_found_where_they_stand() {
    let test = Test::new();
    let said = |text: &str| json!([{ "type": "input_text", "text": text }]);
    write_rollout(
        &test,
        ID,
        &[
            json!({ "timestamp": "2025-10-04T20:15:32Z", "type": "session_meta", "payload": {
            "id": ID, "cli_version": "0.50.0", "git": { "branch": "feature/gull" } } }),
            json!({ "timestamp": "2025-10-04T20:15:33Z", "type": "response_item", "payload": {
            "type": "message", "role": "user",
            "content": said("<environment_context>\n  <cwd>/home/mara/gulls</cwd>\n</environment_context>") } }),
            json!({ "timestamp": "2025-10-04T20:15:34Z", "type": "turn_context", "payload": { "model": "gpt-b" } }),
            json!({ "timestamp": "2025-10-04T20:15:35Z", "type": "response_item", "payload": {
            "type": "message", "role": "user", "content": said("count the gulls") } }),
            json!({ "timestamp": "2025-10-04T20:15:36Z", "type": "response_item", "payload": {
            "type": "message", "role": "assistant",
            "content": [{ "type": "output_text", "text": "Seven." }] } }),
        ],
    );
    let session = only_session(&test);
    assert_eq!(session["cwd"], "/home/mara/gulls", "R85");
    assert_eq!(session["branch"], "feature/gull", "R86");
    assert_eq!(session["models"], json!(["gpt-b"]), "R87");
    assert_eq!(session["agent_version"], "0.50.0", "R274");
}

#[test]
fn a_branch_that_only_git_printed_is_known() {
    let test = Test::new();
    write_rollout(
        &test,
        ID,
        &[
            json!({ "id": ID, "timestamp": "2025-10-04T20:15:32Z", "instructions": null }),
            json!({ "type": "message", "role": "user",
                "content": [{ "type": "input_text", "text": "which branch" }] }),
            json!({ "type": "function_call", "name": "shell", "call_id": "c",
                "arguments": "{\"command\":[\"git\",\"status\"]}" }),
            json!({ "type": "function_call_output", "call_id": "c",
                "output": "{\"output\":\"On branch feature/heuristic\\nnothing to commit\",\"metadata\":{\"exit_code\":0}}" }),
        ],
    );
    assert_eq!(only_session(&test)["branch"], "feature/heuristic", "R86");
}
