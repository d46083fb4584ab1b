//! Document 004: the unified document, out and in again.

use std::fs;

use serde_json::{Value, json};

use super::{export, lines, message, messages};
use crate::support::{Test, keys};

const ID: &str = "f0000001-0000-4000-8000-000000000001";

fn record(kind: &str, uuid: &str, parent: Option<&str>, second: u32, content: Value) -> Value {
    let role = if kind == "assistant" { "assistant" } else { "user" };
    json!({ "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": ID,
            "timestamp": format!("2025-12-27T09:00:{second:02}Z"), "cwd": "/home/user/myproject",
            "version": "2.1.0", "gitBranch": "main", "userType": "external", "isSidechain": false,
            "message": { "role": role, "content": content } })
}

fn text(words: &str) -> Value {
    json!([{ "type": "text", "text": words }])
}

fn write_session(test: &Test, records: &[Value]) {
    test.write(format!(".claude/projects/-home-user-myproject/{ID}.jsonl"), lines(records));
}

/// A question, an answer with a call, its result, and the end.
fn straight() -> Vec<Value> {
    let call = json!([
        { "type": "text", "text": "I'll list the files for you." },
        { "type": "tool_use", "id": "t1", "name": "Bash", "input": { "command": "ls -la" } }]);
    let mut answer = record("assistant", "a1", Some("u1"), 5, call);
    answer["requestId"] = json!("req_1");
    answer["message"]["id"] = json!("m1");
    answer["message"]["model"] = json!("claude-sonnet-4-5");
    answer["message"]["stopReason"] = json!("tool_use");
    answer["message"]["usage"] = json!({ "input_tokens": 150, "output_tokens": 45,
        "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3 });
    let result = json!([{ "type": "tool_result", "tool_use_id": "t1", "content": "README.md", "is_error": false }]);
    vec![
        record("user", "u1", None, 0, json!("List files")),
        answer,
        record("user", "r1", Some("a1"), 6, result),
        record("assistant", "a2", Some("r1"), 9, text("There is one.")),
    ]
}

#[test]
fn a_document_has_every_part_it_must_have() {
    let test = Test::new();
    write_session(&test, &straight());
    let document = export(&test, ID);
    assert_eq!(
        keys(&document),
        ["agent", "export_timestamp", "graph", "messages", "schema_version", "session"],
        "R239 R244 R249"
    );
    assert!(document["schema_version"].as_str().unwrap().starts_with("1."), "R246");
    assert!(document["export_timestamp"].is_string(), "R247");
    assert_eq!(document["agent"], "claude-code", "R248");
    let session = &document["session"];
    assert_eq!(session["id"], ID, "R250 R271");
    assert_eq!(session["workspace"], "/home/user/myproject", "R251");
    assert_eq!(session["workspace_encoded"], "-home-user-myproject", "R251");
    assert_eq!(session["started_at"], "2025-12-27T09:00:00.000Z", "R252");
    assert_eq!(session["ended_at"], "2025-12-27T09:00:09.000Z", "R252");
    let source = &session["source"];
    assert_eq!((&source["type"], &source["host"]), (&json!("local"), &Value::Null), "R253");
    assert!(source["path"].as_str().unwrap().ends_with(&format!("{ID}.jsonl")), "R253");
    assert_eq!(session["is_agent_session"], false, "R254");
    assert_eq!(
        (&session["parent_session_id"], &session["agent_id"]),
        (&Value::Null, &Value::Null),
        "R254"
    );

    let indexes: Vec<&Value> =
        messages(&document).iter().map(|message| &message["index"]).collect();
    assert_eq!(indexes, [1, 2, 3, 4], "R255");
    let prompt = message(&document, "u1");
    assert_eq!(prompt["role"], "user", "R257");
    assert_eq!(prompt["content"], text("List files"), "R259");
    let metadata = &prompt["metadata"];
    assert_eq!(metadata["cwd"], "/home/user/myproject", "R263 R271");
    assert_eq!(
        (&metadata["git_branch"], &metadata["agent_version"]),
        (&json!("main"), &json!("2.1.0")),
        "R263"
    );
    assert_eq!(metadata["user_type"], "external", "R263");
    assert!(metadata.get("model").is_none() && metadata.get("token_usage").is_none(), "R264 R265");
    let answer = message(&document, "a1");
    assert_eq!(answer["parent_uuid"], "u1", "R256 R271");
    assert_eq!(
        answer["content"][1],
        json!({ "type": "tool_use", "tool_id": "t1", "tool_name": "Bash",
        "input": { "command": "ls -la" } }),
        "R260 R262"
    );
    assert_eq!(answer["metadata"]["request_id"], "req_1", "R263");
    assert_eq!(answer["metadata"]["model"]["name"], "claude-sonnet-4-5", "R264 R273");
    assert_eq!(answer["metadata"]["model"]["stop_reason"], "tool_use", "R264 R273");
    assert_eq!(
        answer["metadata"]["token_usage"],
        json!({ "input_tokens": 150, "output_tokens": 45,
        "cache_creation_tokens": 2, "cache_read_tokens": 3 }),
        "R265 R273"
    );
    let result = message(&document, "r1");
    assert_eq!(
        (&result["role"], &result["timestamp"]),
        (&json!("user"), &json!("2025-12-27T09:00:06.000Z")),
        "R257 R258"
    );
    assert_eq!(
        result["content"][0],
        json!({ "type": "tool_result", "tool_id": "t1", "tool_name": "Bash",
        "output": "README.md", "is_error": false }),
        "R261 R278"
    );
    assert_eq!(
        document["graph"],
        json!({ "is_linear": true, "fork_points": [],
        "active_path": ["u1", "a1", "r1", "a2"] }),
        "R267 R269 R270"
    );
}

#[test]
fn going_back_makes_a_fork_also_below_what_is_passed_over() {
    let test = Test::new();
    let mut progress = record("progress", "g1", Some("a1"), 10, json!(""));
    progress.as_object_mut().unwrap().remove("message");
    progress["data"] = json!({ "type": "hook_progress" });
    write_session(
        &test,
        &[
            record("user", "u1", None, 0, json!("first")),
            record("assistant", "a1", Some("u1"), 1, text("answer")),
            progress,
            record("user", "pA", Some("g1"), 11, json!("one way")),
            record("assistant", "aA", Some("pA"), 12, text("one answer")),
            record("user", "pB", Some("g1"), 13, json!("another way")),
            record("assistant", "aB", Some("pB"), 14, text("another answer")),
        ],
    );
    let graph = &export(&test, ID)["graph"];
    assert_eq!(graph["is_linear"], false, "R267");
    assert_eq!(graph["fork_points"][0]["branches"].as_array().unwrap().len(), 2, "R268");
    assert_eq!(graph["active_path"], json!(["u1", "a1", "pB", "aB"]), "R269");
}

#[test]
fn every_parent_of_a_document_is_in_it() {
    let test = Test::new();
    let mut unknown = record("brand-new", "x1", Some("u1"), 1, json!(""));
    unknown.as_object_mut().unwrap().remove("message");
    let mut passed = record("progress", "g1", Some("x1"), 2, json!(""));
    passed.as_object_mut().unwrap().remove("message");
    write_session(
        &test,
        &[
            record("user", "u1", None, 0, json!("first")),
            unknown,
            passed,
            record("assistant", "a1", Some("g1"), 3, text("answer")),
        ],
    );
    let document = export(&test, ID);
    let known: Vec<&Value> = messages(&document).iter().map(|message| &message["uuid"]).collect();
    for message in messages(&document) {
        let parent = &message["parent_uuid"];
        assert!(parent.is_null() || known.contains(&parent), "R279: {parent} is nowhere");
    }
}

#[test]
fn results_of_parallel_calls_are_all_on_the_path() {
    let test = Test::new();
    let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "Read", "input": { "file_path": id } });
    let result = |id: &str| json!([{ "type": "tool_result", "tool_use_id": id, "content": "x" }]);
    let part = |uuid: &str, parent: &str, second: u32, id: &str| {
        let mut part = record("assistant", uuid, Some(parent), second, json!([call(id)]));
        part["message"]["id"] = json!("m1");
        part
    };
    write_session(
        &test,
        &[
            record("user", "u1", None, 0, json!("read three")),
            part("a1", "u1", 1, "t1"),
            part("a2", "a1", 2, "t2"),
            part("a3", "a2", 3, "t3"),
            record("user", "r1", Some("a1"), 4, result("t1")),
            record("user", "r2", Some("a2"), 5, result("t2")),
            record("user", "r3", Some("a3"), 6, result("t3")),
            record("assistant", "a4", Some("r3"), 7, text("read")),
        ],
    );
    let document = export(&test, ID);
    assert_eq!(document["graph"]["is_linear"], true, "R268, C9");
    assert_eq!(
        document["graph"]["active_path"].as_array().unwrap().len(),
        messages(&document).len(),
        "R269 R270"
    );
}

#[test]
fn a_summary_names_the_end_of_the_active_path() {
    let test = Test::new();
    write_session(
        &test,
        &[
            json!({ "type": "summary", "summary": "The first way", "leafUuid": "aA" }),
            record("user", "u1", None, 0, json!("first")),
            record("assistant", "a1", Some("u1"), 1, text("answer")),
            record("user", "pA", Some("a1"), 2, json!("one way")),
            record("assistant", "aA", Some("pA"), 3, text("one answer")),
            record("user", "pB", Some("a1"), 4, json!("another way")),
            record("assistant", "aB", Some("pB"), 5, text("another answer")),
        ],
    );
    assert_eq!(
        export(&test, ID)["graph"]["active_path"],
        json!(["u1", "a1", "pA", "aA"]),
        "R269, C9"
    );
}

#[test]
fn an_export_comes_back_in_every_packing_and_gives_the_same_markdown() {
    let test = Test::new();
    write_session(&test, &straight());
    let markdown = |test: &Test| {
        test.args(["export", ID, "-f", "markdown", "--detail", "everything", "-o", "-"])
            .code(0)
            .stdout
    };
    let direct = markdown(&test);
    for name in ["one.json", "one.ndjson", "one.json.gz", "one.json.zst"] {
        let file = test.beside(name);
        test.args([
            "export".as_ref(),
            ID.as_ref(),
            "--json".as_ref(),
            "-o".as_ref(),
            file.as_os_str(),
        ])
        .code(0); // R243 R245 R281
        let other = Test::new();
        other.args(["import".as_ref(), file.as_os_str()]).code(0);
        assert_eq!(markdown(&other), direct, "R241: {name}");
        let (mut before, mut after) = (export(&test, ID), export(&other, ID));
        before["export_timestamp"].take();
        after["export_timestamp"].take();
        assert_eq!(before, after, "R240: {name}");
    }
}

#[test]
fn what_a_later_minor_version_adds_survives_and_a_major_one_is_refused() {
    let test = Test::new();
    write_session(&test, &straight());
    let mut document = export(&test, ID);
    document["schema_version"] = json!("1.7");
    document["added_top"] = json!("topword");
    document["session"]["added_session"] = json!({ "deep": "sessionword" });
    document["session"]["source"]["added_source"] = json!("sourceword");
    document["messages"][0]["added_message"] = json!("messageword");
    document["messages"][0]["metadata"]["added_metadata"] = json!("metadataword");
    document["messages"][1]["metadata"]["model"]["added_model"] = json!("modelword");
    document["messages"][1]["metadata"]["token_usage"]["added_usage"] = json!("usageword");
    document["messages"][1]["content"][0]["added_block"] = json!("blockword");
    document["messages"][2]["content"][0]["added_result"] = json!("resultword");
    let file = test.beside("later.json");
    fs::write(&file, document.to_string()).unwrap();
    let other = Test::new();
    other.args(["import".as_ref(), file.as_os_str()]).code(0);
    let again = export(&other, ID).to_string();
    for word in [
        "topword",
        "sessionword",
        "sourceword",
        "messageword",
        "metadataword",
        "modelword",
        "usageword",
        "blockword",
        "resultword",
    ] {
        assert!(again.contains(word), "R242 R277 R280: {word}");
    }
    document["schema_version"] = json!("2.0");
    fs::write(&file, document.to_string()).unwrap();
    other.args(["import".as_ref(), file.as_os_str()]).code(2).says(["2.0"]); // R277
}
