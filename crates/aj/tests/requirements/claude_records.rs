//! Documents 000, 001 and 003: the records of Claude Code.

use std::fs;

use serde_json::{Value, json};

use super::{assert_found, assert_not_found, export, lines, message, messages, only_session};
use crate::support::Test;

const ID: &str = "aaaa0001-0000-4000-8000-000000000001";

/// Makes a record of 3 October 2025 with the fields that all conversation records have.
fn record(kind: &str, uuid: &str, parent: Option<&str>, time: &str, content: Value) -> Value {
    let role = if kind == "assistant" { "assistant" } else { "user" };
    json!({ "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": ID,
            "timestamp": format!("2025-10-03T{time}Z"), "cwd": "/home/mara/shop",
            "version": "2.0.5", "gitBranch": "main", "isSidechain": false, "userType": "external",
            "message": { "role": role, "content": content } })
}

/// Returns a record with further fields, objects merged one level deep.
fn with(mut record: Value, fields: Value) -> Value {
    for (key, value) in fields.as_object().unwrap() {
        match (record[key].as_object_mut(), value.as_object()) {
            (Some(known), Some(more)) => known.extend(more.clone()),
            _ => record[key] = value.clone(),
        }
    }
    record
}

fn write_session(test: &Test, id: &str, records: &[Value]) {
    test.write(format!(".claude/projects/-home-mara-shop/{id}.jsonl"), lines(records));
}

/// Writes a session that has every type of record.
fn every_record(test: &Test) {
    let usage = json!({ "input_tokens": 10, "output_tokens": 30, "cache_read_input_tokens": 5,
                        "cache_creation_input_tokens": 7 });
    let answer = json!([
        { "type": "thinking", "thinking": "thinkingsnipe", "signature": "sigstork" },
        { "type": "text", "text": "I look at the egrettext file." },
        { "type": "tool_use", "id": "t1", "name": "Bash", "input": { "command": "ls" } },
        { "type": "text", "text": "Then I tell." }]);
    let result = json!([{ "type": "tool_result", "tool_use_id": "t1", "content": "readme.md" }]);
    let picture = json!([
        { "type": "text", "text": "a picture godwit" },
        { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo=" } }]);
    write_session(
        test,
        ID,
        &[
            json!({ "type": "summary", "summary": "Refactor the narwhalsummary engine", "leafUuid": "u5" }),
            json!({ "type": "file-history-snapshot", "messageId": "u2", "isSnapshotUpdate": false,
                "snapshot": { "timestamp": "2025-10-03T10:00:00Z", "messageId": "u2",
                              "trackedFileBackups": { "src/snapfile.rs": { "backupFileName": "x" } } } }),
            json!({ "type": "queue-operation", "operation": "enqueue", "sessionId": ID,
                "timestamp": "2025-10-03T09:00:00Z", "content": "list content title vireo" }),
            json!({ "type": "queue-operation", "operation": "dequeue", "sessionId": ID,
                "timestamp": "2025-10-03T10:00:00Z" }),
            with(
                record("user", "u1", None, "10:00:00", json!("metawren, injected")),
                json!({ "isMeta": true }),
            ),
            with(
                record(
                    "user",
                    "u2",
                    Some("u1"),
                    "10:00:10",
                    json!([{ "type": "text", "text": "list  content\ntitle vireo" }]),
                ),
                json!({ "thinkingMetadata": { "level": "high" }, "todos": [{ "content": "todoheron", "status": "pending" }],
                     "content": "toplevelskua" }),
            ),
            with(
                record("assistant", "u3", Some("u2"), "10:01:00", answer),
                json!({ "requestId": "req_1", "message": { "id": "msg_1", "model": "claude-x", "usage": usage,
                     "stop_reason": null, "container": { "extrakeyrail": "x" } } }),
            ),
            with(
                record("user", "u4", Some("u3"), "10:01:05", result),
                json!({ "toolUseResult": { "stdout": "readme.md" } }),
            ),
            with(
                record("user", "u5", Some("u4"), "10:02:00", picture),
                json!({ "cwd": "/home/mara/shop/deep", "gitBranch": "feature/long" }),
            ),
            json!({ "type": "system", "subtype": "local_command", "level": "info", "isMeta": false,
                "uuid": "u6", "parentUuid": "u5", "sessionId": ID, "timestamp": "2025-10-03T10:03:00Z",
                "content": "<command-name>/model</command-name>\n<command-args>opusquail</command-args>" }),
            with(
                record("user", "u7", Some("u6"), "10:04:00", json!("a side question")),
                json!({ "isSidechain": true }),
            ),
            json!({ "type": "brand-new-record", "uuid": "u8", "sessionId": ID, "note": "unknownplover" }),
        ],
    );
}

#[test]
fn every_record_of_claude_code_is_read() {
    let test = Test::new();
    every_record(&test);
    let session = only_session(&test);
    assert_eq!(session["agent"], "claude-code", "R20 R41 R109 R160 R176");
    assert_eq!(session["native_id"], ID, "R41 R48 R77 R105 R171");
    assert_eq!(session["title"], "Refactor the narwhalsummary engine", "R21 R48 R177");
    assert_eq!(session["title_source"], "summary", "R42");
    assert_eq!(session["cwd"], "/home/mara/shop", "R41 R48 R106 R172");
    assert_eq!(session["agent_version"], "2.0.5", "R41 R48");
    assert_eq!(session["started_at"], "2025-10-03T10:00:00.000Z", "R174: not the queue's");
    assert_eq!(session["counts"]["user_prompts"], 2, "R26 R38 R100 R205");
    assert_eq!(session["counts"]["tool_calls"], 1, "R34");
    assert_eq!(session["models"], json!(["claude-x"]), "R202");
    assert_eq!(session["tokens"]["output"], 30, "R31 R208");

    let document = export(&test, ID);
    assert_eq!(document["session"]["workspace_encoded"], "-home-mara-shop", "R75 R162");
    assert!(
        messages(&document).iter().all(|message| message["uuid"] != "snapfile"),
        "R22 R83 R165"
    );
    let prompt = message(&document, "u2");
    assert_eq!(prompt["content"][0]["text"], "list  content\ntitle vireo", "R23 R29 R79");
    assert_eq!(prompt["parent_uuid"], "u1", "R27 R94 R166");
    assert_eq!(prompt["metadata"]["user_type"], "external", "R28 R80");
    assert_eq!(prompt["metadata"]["agent_version"], "2.0.5", "R27 R80");
    let kept = prompt["extensions"]["claude-code"].to_string();
    assert!(kept.contains("high") && kept.contains("todoheron"), "R30: {kept}");
    assert_eq!(message(&document, "u1")["metadata"]["is_meta"], true, "R80 R100");
    let answer = message(&document, "u3");
    let types: Vec<&Value> =
        answer["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
    assert_eq!(types, ["thinking", "text", "tool_use", "text"], "R24 R32 R33 R34 R37 R262");
    assert_eq!(answer["metadata"]["request_id"], "req_1", "R31");
    assert_eq!(answer["metadata"]["model"]["name"], "claude-x", "R31");
    assert!(answer.to_string().contains("extrakeyrail"), "R36");
    assert!(!answer.to_string().contains("sigstork"), "R33: signatures are kept nowhere (C3)");
    let result = message(&document, "u4");
    assert_eq!(result["content"][0]["tool_id"], "t1", "R35 R49");
    assert_eq!(result["content"][0]["tool_name"], "Bash", "R35 R49");
    let later = message(&document, "u5");
    assert_eq!(later["metadata"]["cwd"], "/home/mara/shop/deep", "R39");
    assert_eq!(later["metadata"]["git_branch"], "feature/long", "R39");
    assert!(later["content"].to_string().contains("image/png"), "R96");
    let notice = message(&document, "u6");
    assert_eq!(notice["role"], "system", "R25 R81");
    assert!(
        notice.to_string().contains("local_command") && notice.to_string().contains("info"),
        "R81"
    );
    assert!(document.to_string().contains("unknownplover"), "R36 R280: an unknown record is kept");
}

#[test]
fn what_claude_recorded_is_found_and_what_is_internal_is_not() {
    let test = Test::new();
    every_record(&test);
    for word in ["narwhalsummary", "vireo", "egrettext", "godwit"] {
        assert_found(&test, word); // R40 R49 R78 R96
    }
    for word in ["toplevelskua", "thinkingsnipe", "sigstork", "question"] {
        assert_not_found(&test, word); // R79 R72 R33 R71
    }
    test.args(["search", "question", "include:sidechains"]).code(0); // R71 R187
    let shown = test.args(["show", ID, "--all"]).code(0);
    let shown = shown.shows(["/model opusquail", "Refactor the narwhalsummary engine"]); // R82 R40
    let conversation = shown.stdout.split("\n   1 ").nth(1).unwrap();
    assert!(!conversation.contains("snapfile"), "R83 R165: {shown}");
    test.args(["show", ID]).code(0).hides(["metawren", "a side question"]); // R100 R187
}

#[test]
fn every_branch_and_directory_of_a_session_chooses_it() {
    let test = Test::new();
    every_record(&test);
    for field in ["branch:main", "branch:feature/long", "path:/home/mara/shop/deep"] {
        assert_eq!(test.args(["list", field, "--json"]).code(0).ids(), [ID], "R39: {field}");
    }
}

#[test]
fn a_title_is_the_first_words_a_person_typed() {
    let test = Test::new();
    write_session(
        &test,
        ID,
        &[
            with(
                record("user", "u1", None, "10:00:00", json!("metawren")),
                json!({ "isMeta": true }),
            ),
            record(
                "user",
                "u2",
                Some("u1"),
                "10:00:01",
                json!(
                    "<command-name>/model</command-name>\n<command-message>model</command-message>\n<command-args></command-args>"
                ),
            ),
            record(
                "user",
                "u3",
                Some("u2"),
                "10:00:02",
                json!([{ "type": "text", "text": "list  content\n title vireo" }]),
            ),
        ],
    );
    assert_eq!(
        only_session(&test)["title"],
        "list content title vireo",
        "R101 R102 R103 R104 R177"
    );
}

#[test]
fn a_command_never_titles_a_session() {
    let test = Test::new();
    write_session(
        &test,
        ID,
        &[
            record(
                "user",
                "u1",
                None,
                "10:00:00",
                json!(
                    "<command-name>/model</command-name>\n<command-message>model</command-message>\n<command-args></command-args>"
                ),
            ),
            record(
                "assistant",
                "u2",
                Some("u1"),
                "10:00:01",
                json!([{ "type": "text", "text": "ok" }]),
            ),
        ],
    );
    assert_ne!(only_session(&test)["title"], "/model", "R82, C7");
    assert_eq!(only_session(&test)["counts"]["user_prompts"], 0, "R82");
}

#[test]
fn a_session_without_model_directory_or_title_is_listed() {
    let test = Test::new();
    let mut bare = record("user", "u1", None, "10:00:00", json!("hello"));
    for key in ["cwd", "gitBranch", "sessionId"] {
        bare.as_object_mut().unwrap().remove(key);
    }
    write_session(&test, ID, &[bare]);
    let session = only_session(&test);
    assert_eq!(session["native_id"], ID, "R77 R105 R171");
    assert_eq!(session["models"], json!([]), "R88 R98");
    assert_eq!(session["cwd"], "/home/mara/shop", "R75 R164 R172");
    test.args(["show", ID]).code(0).shows(["Claude Code 2.0.5"]); // R88 R107
    test.aj("sources").code(0).shows(["with directory", "title", "model 0 %", "branch 0 %"]); // R97
}

#[test]
fn a_folder_is_decoded_to_the_directory_that_exists() {
    let test = Test::new();
    let directory = test.beside("my-proj/sub-dir");
    fs::create_dir_all(&directory).unwrap();
    let slug = directory.to_string_lossy().replace(['/', '.'], "-");
    let mut bare = record("user", "u1", None, "10:00:00", json!("hello"));
    bare.as_object_mut().unwrap().remove("cwd");
    test.write(format!(".claude/projects/{slug}/{ID}.jsonl"), lines(&[bare]));
    assert_eq!(only_session(&test)["cwd"], *directory.to_string_lossy(), "R172, C8");
}

#[test]
fn older_shapes_of_model_cost_and_tokens_are_read() {
    let test = Test::new();
    let answer = record(
        "assistant",
        "u2",
        Some("u1"),
        "10:00:05",
        json!([{ "type": "text", "text": "hi" }]),
    );
    write_session(
        &test,
        ID,
        &[
            record("user", "u1", None, "10:00:00", json!("hello")),
            with(
                answer,
                json!({ "model": "claude-y", "costUSD": 0.003, "inputTokens": 100, "outputTokens": 50,
                             "cacheCreationInputTokens": 7, "cacheReadInputTokens": 11 }),
            ),
        ],
    );
    let session = only_session(&test);
    assert_eq!(session["models"], json!(["claude-y"]), "R167");
    assert_eq!(session["cost"]["usd"], 0.003, "R167 R207 R236");
    let tokens = &session["tokens"];
    assert_eq!((&tokens["input"], &tokens["output"]), (&json!(100), &json!(50)), "R169");
    assert_eq!((&tokens["cache_creation"], &tokens["cache_read"]), (&json!(7), &json!(11)), "R169");
}

#[test]
fn pauses_count_for_five_minutes_at_most() {
    let test = Test::new();
    write_session(
        &test,
        ID,
        &[
            record("user", "u1", None, "10:00:00", json!("one")),
            record("user", "u2", Some("u1"), "10:02:00", json!("two")),
            record("user", "u3", Some("u2"), "18:02:00", json!("three")),
            record("user", "u4", Some("u3"), "18:03:00", json!("four")),
        ],
    );
    assert_eq!(only_session(&test)["active_s"], 480, "R180 R204");
}

#[test]
fn sub_agents_are_read_in_every_layout_and_belong_to_their_session() {
    let test = Test::new();
    write_session(&test, ID, &[record("user", "u1", None, "10:00:00", json!("do it"))]);
    let task = |uuid: &str, agent: &str| {
        with(
            record("user", uuid, None, "10:00:01", json!("a task for you")),
            json!({ "isSidechain": true, "agentId": agent }),
        )
    };
    let folder = ".claude/projects/-home-mara-shop";
    test.write(format!("{folder}/agent-old1.jsonl"), lines(&[task("a1", "old1")]));
    test.write(format!("{folder}/{ID}/subagents/agent-new1.jsonl"), lines(&[task("a2", "new1")]));
    let named = "bbbb0001-0000-4000-8000-000000000009";
    test.write(format!("{folder}/{ID}/subagents/{named}.jsonl"), lines(&[task("a3", "ag77")]));
    assert_eq!(test.aj("list --json").code(0).ids(), [ID], "R161 R237");
    let all = test.aj("list --json --all").code(0).json();
    let children = all["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|session| session["is_agent_session"] == true);
    assert_eq!(children.count(), 3, "R161 R170 R224 R272");
    let document = export(&test, named);
    assert_eq!(document["session"]["parent_session_id"], ID, "R254");
    assert_eq!(document["session"]["agent_id"], "ag77", "R254 R271");
    assert_eq!(document["session"]["is_agent_session"], true, "R254 R272");
}

#[test]
fn the_global_prompt_history_is_no_session() {
    let test = Test::new();
    write_session(&test, ID, &[record("user", "u1", None, "10:00:00", json!("hello"))]);
    test.write(
        ".claude/history.jsonl",
        lines(&[json!({ "display": "historyonly", "project": "/home/mara/shop" })]),
    );
    assert_eq!(only_session(&test)["native_id"], ID, "R74");
    assert_not_found(&test, "historyonly"); // R74
    test.aj("list --agent claude").code(0).shows(["hello"]); // R111
}

#[test]
fn a_compaction_summary_is_no_prompt_and_no_title() {
    let test = Test::new();
    write_session(
        &test,
        ID,
        &[
            record("user", "u1", None, "10:00:00", json!("the real prompt")),
            with(
                record(
                    "user",
                    "u2",
                    Some("u1"),
                    "10:05:00",
                    json!("This session is being continued"),
                ),
                json!({ "isCompactSummary": true }),
            ),
        ],
    );
    let session = only_session(&test);
    assert_eq!(session["counts"]["user_prompts"], 1, "R170 R188");
    assert_eq!(session["title"], "the real prompt", "R170 R188, C26");
    test.args(["show", ID]).code(0).hides(["being continued"]); // R188
}

#[test]
fn a_summary_that_no_session_owns_is_listed_and_found() {
    let test = Test::new();
    let alone = "aaaa0002-0000-4000-8000-000000000002";
    write_session(
        &test,
        ID,
        &[
            json!({ "type": "summary", "summary": "Orphan summary jaeger", "leafUuid": "nowhere-1" }),
            record("user", "u1", None, "10:00:00", json!("hello")),
        ],
    );
    write_session(
        &test,
        alone,
        &[
            json!({ "type": "summary", "summary": "Only a summary oriole", "leafUuid": "nowhere-2" }),
        ],
    );
    assert_found(&test, "jaeger"); // R40, C26
    assert_found(&test, "oriole"); // R40, C26
    assert!(test.aj("list --json").code(0).ids().contains(&alone.to_owned()), "R40");
    test.args(["show", alone]).code(0).shows(["Only a summary oriole"]); // R41
}

#[test]
fn a_message_and_a_tool_call_have_every_field_of_the_model() {
    let test = Test::new();
    every_record(&test);
    let shown = test.args(["show", ID, "--all", "--json"]).code(0).json();
    let told = shown["messages"].as_array().unwrap();
    let of = |uuid: &str| told.iter().find(|message| message["uuid"] == uuid).unwrap();
    assert_eq!(
        (&of("u2")["role"], &of("u3")["role"]),
        (&json!("user"), &json!("assistant")),
        "R43"
    );
    assert_eq!((&of("u4")["role"], &of("u6")["role"]), (&json!("tool"), &json!("system")), "R43");
    assert_eq!(of("u3")["timestamp"], "2025-10-03T10:01:00.000Z", "R43");
    assert_eq!(of("u3")["parent_uuid"], "u2", "R43");
    assert_eq!(of("u3")["content"][0]["type"], "thinking", "R43: what was recorded is kept apart");
    let call = &of("u3")["content"][2];
    assert_eq!((&call["tool_id"], &call["tool_name"]), (&json!("t1"), &json!("Bash")), "R44");
    assert_eq!(call["input"], json!({ "command": "ls" }), "R44");
    let result = &of("u4")["content"][0];
    assert_eq!((&result["tool_id"], &result["output"]), (&json!("t1"), &json!("readme.md")), "R44");
}
