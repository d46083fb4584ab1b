//! How the messages of an exported session follow each other: forks, the active path, parents.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::Test;

const ID: &str = "66660000-0000-4000-8000-000000000001";

/// A record of a transcript: type, id, parent, and what else it says.
fn record(kind: &str, uuid: &str, parent: &str, mut rest: Value) -> String {
    let minute = uuid.bytes().map(u64::from).sum::<u64>() % 60;
    rest["type"] = kind.into();
    rest["uuid"] = uuid.into();
    rest["parentUuid"] = if parent.is_empty() { Value::Null } else { parent.into() };
    rest["sessionId"] = ID.into();
    rest["cwd"] = "/home/mara/web".into();
    rest["timestamp"] = format!("2026-03-02T09:{minute:02}:00Z").into();
    format!("{rest}\n")
}

fn you(uuid: &str, parent: &str) -> String {
    let message = json!({ "role": "user", "content": format!("prompt {uuid}") });
    record("user", uuid, parent, json!({ "message": message }))
}

fn answer(uuid: &str, parent: &str) -> String {
    let content = json!([{ "type": "text", "text": format!("answer {uuid}") }]);
    let message = json!({ "role": "assistant", "id": format!("msg_{uuid}"), "content": content });
    record("assistant", uuid, parent, json!({ "message": message }))
}

/// One line of an answer that calls a tool.
fn call(uuid: &str, parent: &str, answer: &str) -> String {
    let content = json!([{ "type": "tool_use", "id": format!("t_{uuid}"), "name": "Read",
        "input": { "file_path": "/home/mara/web/a.rs" } }]);
    let message = json!({ "role": "assistant", "id": answer, "content": content });
    record("assistant", uuid, parent, json!({ "message": message }))
}

fn result(uuid: &str, parent: &str) -> String {
    let content = json!([{ "type": "tool_result", "tool_use_id": format!("t_{parent}"),
        "content": "fn main() {}" }]);
    record("user", uuid, parent, json!({ "message": { "role": "user", "content": content } }))
}

fn progress(uuid: &str, parent: &str) -> String {
    record("progress", uuid, parent, json!({ "data": { "type": "hook_progress" } }))
}

/// The exported session, with parents checked: each names a message of the document.
#[track_caller]
fn exported(records: &[String]) -> Value {
    let test = Test::new();
    test.write(format!(".claude/projects/-home-mara-web/{ID}.jsonl"), records.concat());
    let document = test.args(["export", ID, "--json", "-o", "-"]).code(0).json();
    let messages = document["messages"].as_array().unwrap();
    let ids: HashSet<&str> = messages.iter().filter_map(|one| one["uuid"].as_str()).collect();
    for message in messages {
        if let Some(parent) = message["parent_uuid"].as_str() {
            assert!(ids.contains(parent), "{message}");
        }
    }
    document["graph"].clone()
}

/// Forks as `fork: branch branch`.
fn forks(graph: &Value) -> Vec<String> {
    let text = |value: &Value| value["uuid"].as_str().unwrap().to_owned();
    let branches = |fork: &Value| -> Vec<String> {
        fork["branches"].as_array().unwrap().iter().map(text).collect()
    };
    let forks = graph["fork_points"].as_array().unwrap();
    forks.iter().map(|fork| format!("{}: {}", text(fork), branches(fork).join(" "))).collect()
}

fn path(graph: &Value) -> String {
    let path: Vec<&str> =
        graph["active_path"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    path.join(" ")
}

#[test]
fn two_prompts_below_a_progress_record_are_a_fork() {
    let graph = exported(&[
        you("p1", ""),
        answer("a1", "p1"),
        progress("g1", "a1"),
        progress("g2", "g1"),
        you("pA", "g2"),
        answer("aA", "pA"),
        you("pB", "g1"),
        answer("aB", "pB"),
    ]);
    assert_eq!(forks(&graph), ["a1: pA pB"]);
    assert_eq!(path(&graph), "p1 a1 pB aB");
    assert_eq!(graph["is_linear"], false);
}

#[test]
fn going_back_to_an_answer_with_a_call_is_a_fork() {
    let graph = exported(&[
        you("p1", ""),
        call("a1", "p1", "msg_1"),
        result("r1", "a1"),
        answer("a2", "r1"),
        you("p2", "a2"),
        answer("a3", "p2"),
        you("pB", "a1"),
        answer("aB", "pB"),
    ]);
    assert_eq!(forks(&graph), ["a1: r1 pB"]);
    assert_eq!(path(&graph), "p1 a1 pB aB");
}

#[test]
fn all_results_of_parallel_calls_are_on_the_active_path() {
    let graph = exported(&[
        you("p1", ""),
        call("c1", "p1", "msg_1"),
        call("c2", "c1", "msg_1"),
        call("c3", "c2", "msg_1"),
        result("r1", "c1"),
        result("r2", "c2"),
        result("r3", "c3"),
        answer("a2", "r3"),
    ]);
    assert_eq!(graph["is_linear"], true);
    assert_eq!(path(&graph), "p1 c1 r1 r2 r3 a2");
}

#[test]
fn a_leaf_that_a_summary_names_ends_the_active_path() {
    let summary = json!({ "type": "summary", "summary": "Branch A", "leafUuid": "aA" });
    let graph = exported(&[
        format!("{summary}\n"),
        you("p1", ""),
        answer("a1", "p1"),
        you("pA", "a1"),
        answer("aA", "pA"),
        you("pB", "a1"),
        answer("aB", "pB"),
    ]);
    assert_eq!(forks(&graph), ["a1: pA pB"]);
    assert_eq!(path(&graph), "p1 a1 pA aA");
}

#[test]
fn a_first_prompt_that_was_edited_is_not_linear() {
    let graph = exported(&[you("p1", ""), answer("a1", "p1"), you("p2", ""), answer("a2", "p2")]);
    assert_eq!(graph["is_linear"], false);
    assert_eq!(path(&graph), "p2 a2");
}

#[test]
fn records_of_unknown_types_are_links_of_the_chain() {
    let unknown = record("brand-new-record", "x1", "a1", json!({ "data": 1 }));
    let graph = exported(&[you("p1", ""), answer("a1", "p1"), unknown, you("p2", "x1")]);
    assert_eq!(path(&graph), "p1 a1 x1 p2");
}
