//! Document 000: the event log of Copilot CLI.

use serde_json::{Value, json};

use super::{assert_found, assert_not_found, export, lines, message, messages, only_session};
use crate::support::Test;

const ID: &str = "c0000001-0000-4000-8000-000000000001";

/// Makes an event of 16 January 2026.
pub(crate) fn event(kind: &str, id: &str, parent: Option<&str>, time: &str, data: Value) -> Value {
    json!({ "type": kind, "id": id, "parentId": parent, "timestamp": format!("2026-01-16T{time}Z"),
            "data": data })
}

/// Makes the first event of a log.
pub(crate) fn start(id: &str, directory: &str) -> Value {
    event(
        "session.start",
        "e0",
        None,
        "10:00:00",
        json!({
        "sessionId": id, "version": 1, "producer": "copilot-agent", "copilotVersion": "0.0.382",
        "startTime": "2026-01-16T10:00:00Z",
        "context": { "cwd": directory, "gitRoot": directory, "branch": "main" } }),
    )
}

/// Writes the log of a session where Copilot CLI keeps it.
pub(crate) fn write_log(test: &Test, id: &str, events: &[Value]) {
    test.write(format!(".copilot/session-state/{id}/events.jsonl"), lines(events));
}

fn every_event() -> Vec<Value> {
    vec![
        start(ID, "/srv/walrus"),
        json!(""),
        json!("{broken"),
        json!([1]),
        event(
            "session.info",
            "e1",
            Some("e0"),
            "10:00:01",
            json!({
            "infoType": "authentication", "message": "Logged in as user octozebra" }),
        ),
        event(
            "user.message",
            "e2",
            Some("e1"),
            "10:01:00",
            json!({
            "content": "please explain the walrus module",
            "transformedContent": "injectedmarmot please explain the walrus module",
            "attachments": [{ "type": "file", "path": "/srv/walrus/readme.md",
                              "displayName": "readme.md" }],
            "interactionId": "i1" }),
        ),
        event(
            "assistant.turn_start",
            "e3",
            Some("e2"),
            "10:01:01",
            json!({
            "turnId": "0", "interactionId": "i1" }),
        ),
        event(
            "assistant.message",
            "e4",
            Some("e3"),
            "10:01:02",
            json!({
            "messageId": "m1", "content": "", "interactionId": "i1",
            "reasoningText": "secretreasoning", "reasoningOpaque": "opaquesnail",
            "toolRequests": [
                { "toolCallId": "call_1", "name": "view",
                  "arguments": { "path": "/srv/walrus/src/lib.rs" } },
                { "toolCallId": "call_0", "name": "report_intent",
                  "arguments": { "intent": "Exploring" } }] }),
        ),
        event(
            "tool.execution_start",
            "e5",
            Some("e4"),
            "10:01:03",
            json!({
            "toolCallId": "call_1", "toolName": "view",
            "arguments": { "path": "/srv/walrus/src/lib.rs" } }),
        ),
        event(
            "tool.execution_complete",
            "e6",
            Some("e5"),
            "10:01:04",
            json!({
            "toolCallId": "call_1", "success": true, "result": { "content": "fn tusk() {}" },
            "toolTelemetry": { "metrics": { "telemetrygnu": 42 } } }),
        ),
        event(
            "assistant.message",
            "e7",
            Some("e6"),
            "10:01:05",
            json!({
            "messageId": "m2", "content": "The walrus module measures tusks.",
            "toolRequests": [{ "toolCallId": "call_2", "name": "bash",
                "arguments": "{\"command\":\"cargo test walrus\",\"description\":\"Run walrus tests\"}" }] }),
        ),
        event(
            "tool.execution_complete",
            "e8",
            Some("e7"),
            "10:01:09",
            json!({
            "toolCallId": "call_2", "success": false, "result": { "content": "1 failed" } }),
        ),
        event(
            "session.truncation",
            "e9",
            Some("e8"),
            "10:01:10",
            json!({
            "tokenLimit": 64000, "tokensRemovedDuringTruncation": 40000,
            "messagesRemovedDuringTruncation": 28, "performedBy": "BasicTruncator" }),
        ),
        event("assistant.turn_end", "e10", Some("e9"), "10:01:11", json!({ "turnId": "0" })),
    ]
}

#[test]
fn every_event_of_a_copilot_log_is_read() {
    let test = Test::new();
    write_log(&test, ID, &every_event());
    let session = only_session(&test);
    assert_eq!(session["native_id"], ID, "R45");
    assert_eq!(session["agent_version"], "0.0.382", "R12 R45");
    assert_eq!(session["started_at"], "2026-01-16T10:00:00.000Z", "R4 R12");
    assert_eq!(session["cwd"], "/srv/walrus", "R119");
    assert_eq!(session["branch"], "main", "R119");
    assert_eq!(session["counts"]["user_prompts"], 1, "R7");
    assert_eq!(
        session["counts"]["tool_calls"], 2,
        "R10 R125: told twice is one, an intent is none"
    );
    assert_eq!(session["counts"]["tool_errors"], 1, "R11");

    let document = export(&test, ID);
    let extensions = &document["session"]["extensions"]["copilot-cli"];
    assert_eq!(extensions["producer"], "copilot-agent", "R12");
    assert_eq!(extensions["version"], 1, "R12");
    assert_eq!(extensions["truncation"]["messagesRemovedDuringTruncation"], 28, "R6 R19");
    assert_eq!(message(&document, "e1")["metadata"]["is_meta"], true, "R5");
    let prompt = message(&document, "e2");
    assert_eq!(prompt["content"][0]["text"], "please explain the walrus module", "R7 R46 R121");
    assert_eq!(prompt["timestamp"], "2026-01-16T10:01:00.000Z", "R3");
    assert_eq!(prompt["parent_uuid"], "e1", "R3");
    let kept = &prompt["extensions"]["copilot-cli"];
    assert_eq!(kept["attachments"][0]["path"], "/srv/walrus/readme.md", "R14");
    assert_eq!(kept["interactionId"], "i1", "R122");
    let silent = message(&document, "e4");
    let call = json!([{ "type": "tool_use", "tool_id": "call_1", "tool_name": "view",
                        "input": { "path": "/srv/walrus/src/lib.rs" } }]);
    assert_eq!(silent["content"], call, "R15 R16 R47 R125 R129");
    assert_eq!(silent["extensions"]["copilot-cli"]["turnId"], "0", "R8 R128");
    let result = message(&document, "e6");
    assert_eq!(result["content"][0]["tool_name"], "view", "R17");
    assert_eq!(result["content"][0]["output"], "fn tusk() {}", "R17 R47");
    assert!(result.to_string().contains("telemetrygnu"), "R17 R19");
    let answer = message(&document, "e7");
    assert_eq!(answer["content"][0]["text"], "The walrus module measures tusks.", "R9 R46 R123");
    assert_eq!(answer["content"][1]["input"]["command"], "cargo test walrus", "R16, C36");
    assert_eq!(message(&document, "e8")["content"][0]["is_error"], true, "R11");

    let shown = test.args(["show", ID, "--all"]).code(0);
    let shown = shown.shows(["Logged in as user octozebra", "view /srv/walrus/src/lib.rs"]);
    shown.shows(["bash Run walrus tests", "readme.md", "40000"]); // R124, R14, R6
}

#[test]
fn bad_lines_of_a_copilot_log_cost_their_neighbours_nothing() {
    let test = Test::new();
    write_log(&test, ID, &every_event());
    let sources = test.aj("sources --json").code(0).json().to_string();
    assert!(sources.contains("not a JSON object"), "R2: {sources}");
    assert_eq!(messages(&export(&test, ID)).len(), 7, "R2 R8");
}

#[test]
fn reasoning_and_injected_text_of_copilot_are_kept_nowhere() {
    let test = Test::new().config("[index]\ninclude_thinking = true\n");
    write_log(&test, ID, &every_event());
    let document = export(&test, ID).to_string();
    // R13 R121 R126 R127
    for word in ["injectedmarmot", "secretreasoning", "opaquesnail"] {
        assert!(!document.contains(word), "{word}");
        assert_not_found(&test, word);
    }
}

#[test]
fn a_copilot_log_is_found_in_every_place_it_was_ever_kept() {
    let test = Test::new();
    let log = |id: &str, word: &str| {
        let prompt = json!({ "content": word, "attachments": [] });
        lines(&[start(id, "/srv/p"), event("user.message", "u", Some("e0"), "10:01:00", prompt)])
    };
    test.write(".copilot-cli/sessions/one/events.jsonl", log("one", "firstplace")); // R1
    test.write(".copilot/session-state/two/events.jsonl", log("two", "secondplace")); // R112
    test.write(".copilot/session-state/three.jsonl", log("three", "thirdplace")); // C1
    for word in ["firstplace", "secondplace", "thirdplace"] {
        assert_found(&test, word);
    }
    assert_eq!(test.aj("list --json").code(0).ids().len(), 3);
}

#[test]
fn a_shuffled_copilot_log_is_told_in_the_order_of_its_parents() {
    let test = Test::new();
    let prompt = |text: &str| json!({ "content": text, "attachments": [] });
    let answer = |text: &str| json!({ "messageId": text, "content": text, "toolRequests": [] });
    write_log(
        &test,
        ID,
        &[
            start(ID, "/srv/p"),
            event("user.message", "u2", Some("a1"), "10:03:00", prompt("second question")),
            event("assistant.message", "a2", Some("u2"), "10:03:30", answer("second answer")),
            event("user.message", "u1", Some("e0"), "10:01:00", prompt("first question")),
            event("assistant.message", "a1", Some("u1"), "10:01:30", answer("first answer")),
        ],
    );
    let document = export(&test, ID);
    let order: Vec<&Value> = messages(&document).iter().map(|message| &message["uuid"]).collect();
    assert_eq!(order, ["u1", "a1", "u2", "a2"], "R18, C23");
    let parents: Vec<&Value> =
        messages(&document).iter().map(|message| &message["parent_uuid"]).collect();
    assert_eq!(parents[1..], ["u1", "a1", "u2"], "R3");
    assert_eq!(only_session(&test)["title"], "first question", "R18");
}

#[test]
fn the_end_of_a_copilot_tool_has_two_names_and_maybe_no_outcome() {
    let test = Test::new();
    write_log(
        &test,
        ID,
        &[
            start(ID, "/srv/p"),
            event("user.message", "u", Some("e0"), "10:01:00", json!({ "content": "go" })),
            event(
                "tool.execution_start",
                "s",
                Some("u"),
                "10:01:01",
                json!({
            "toolCallId": "c", "toolName": "bash", "arguments": { "command": "ls" } }),
            ),
            event(
                "tool.execution_end",
                "t",
                Some("s"),
                "10:01:02",
                json!({
            "toolCallId": "c", "result": { "content": "diffnumbat" } }),
            ),
        ],
    );
    let session = only_session(&test);
    assert_eq!(session["counts"]["tool_calls"], 1, "R129");
    assert_eq!(session["counts"]["tool_errors"], 0, "R131, C6: unknown is no failure");
    assert_found(&test, "diffnumbat"); // R131
}

#[test]
fn events_that_become_no_message_count_as_activity() {
    let test = Test::new();
    let minute = |kind: &str, minute: u32, data: Value| {
        let (id, above) = (format!("m{minute}"), format!("m{}", minute.saturating_sub(1)));
        let above = if minute == 1 { "e0".to_owned() } else { above };
        event(kind, &id, Some(&above), &format!("10:{minute:02}:00"), data)
    };
    write_log(
        &test,
        ID,
        &[
            start(ID, "/srv/p"),
            minute("user.message", 1, json!({ "content": "go" })),
            minute("assistant.turn_start", 2, json!({ "turnId": "0" })),
            minute("assistant.message", 3, json!({ "messageId": "a", "content": "gone" })),
            minute("assistant.turn_end", 4, json!({ "turnId": "0" })),
            // A pause counts for five minutes.
            minute("session.mode_changed", 40, json!({ "mode": "plan" })),
            minute("assistant.turn_end", 41, json!({ "turnId": "1" })),
        ],
    );
    let session = only_session(&test);
    assert_eq!(session["active_s"], 10 * 60, "R180");
    let stats = test.aj("stats --json").found().json();
    assert_eq!(stats["totals"]["active_s"], 10 * 60, "R180");
    assert_eq!(stats["totals"]["messages"], session["counts"]["messages"], "R180");
    // A journal that only has what was exported says the same.
    let exported = test.beside("one.json");
    test.args(["export", ID, "--format", "json", "-o", exported.to_str().unwrap()]).found();
    let other = Test::new();
    other.args(["import", exported.to_str().unwrap()]).found();
    assert_eq!(only_session(&other)["active_s"], 10 * 60, "R180");
}
