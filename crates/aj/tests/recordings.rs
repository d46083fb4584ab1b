//! Several recordings of one session: each completes the others, at every door.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::Test;

const ID: &str = "5a5a0001-0000-4000-8000-000000000001";
const OTHER_ID: &str = "5a5a0001-0000-4000-8000-000000000002";
const WORKSPACE: &str = ".config/Code/User/workspaceStorage/1a2b";

/// An event of the Copilot runtime, some minutes after ten.
fn event(kind: &str, id: &str, minute: u32, data: &Value) -> String {
    let at = format!("2026-06-01T10:{minute:02}:00Z");
    let event = json!({ "type": kind, "id": id, "parentId": null, "timestamp": at, "data": data });
    format!("{event}\n")
}

fn start() -> String {
    let data = json!({
        "sessionId": ID, "version": 1, "producer": "copilot-agent", "copilotVersion": "1.0.9",
        "startTime": "2026-06-01T10:00:00Z", "context": { "cwd": "/srv/p" },
    });
    event("session.start", "e0", 0, &data)
}

fn prompt(id: &str, minute: u32, text: &str) -> String {
    event("user.message", id, minute, &json!({ "content": text, "attachments": [] }))
}

fn answer(id: &str, minute: u32, text: &str) -> String {
    let data = json!({ "messageId": id, "content": text, "toolRequests": [] });
    event("assistant.message", id, minute, &data)
}

/// An answer that runs a command, and the result.
fn command(id: &str, minute: u32, text: &str, command: &str) -> String {
    let call = json!({ "toolCallId": id, "name": "bash", "arguments": { "command": command } });
    let asked = json!({ "messageId": id, "content": text, "toolRequests": [call] });
    let done = json!({ "toolCallId": id, "success": true, "result": { "content": "listed" } });
    event("assistant.message", &format!("a-{id}"), minute, &asked)
        + &event("tool.execution_complete", &format!("t-{id}"), minute, &done)
}

/// A log whose only turn runs a command.
fn log() -> String {
    start() + &prompt("u1", 1, "turn zero") + &command("c1", 1, "working on it", "echo jabiru")
}

fn write_log(test: &Test, log: &str) {
    test.write(format!(".copilot/session-state/{ID}/events.jsonl"), log);
}

fn write_transcript(test: &Test, log: &str) {
    test.write(format!("{WORKSPACE}/GitHub.copilot-chat/transcripts/{ID}.jsonl"), log);
}

/// Writes the store beside the logs: prompts and final answers.
fn write_store(test: &Test, turns: &[(&str, &str)]) {
    std::fs::create_dir_all(test.path(".copilot")).unwrap();
    let store = Connection::open(test.path(".copilot/session-store.db")).unwrap();
    let tables = "DROP TABLE IF EXISTS sessions; DROP TABLE IF EXISTS turns;
        CREATE TABLE sessions (id TEXT PRIMARY KEY, cwd TEXT, summary TEXT, created_at TEXT,
            updated_at TEXT);
        CREATE TABLE turns (id INTEGER PRIMARY KEY, session_id TEXT, turn_index INTEGER,
            user_message TEXT, assistant_response TEXT, timestamp TEXT)";
    store.execute_batch(tables).unwrap();
    let session = "INSERT INTO sessions VALUES (?1, '/srv/p', NULL, '2026-06-01T10:00:00Z',
        '2026-06-01T11:00:00Z')";
    store.execute(session, [ID]).unwrap();
    for (number, (asked, answered)) in turns.iter().enumerate() {
        let turn = "INSERT INTO turns (session_id, turn_index, user_message, assistant_response,
            timestamp) VALUES (?1, ?2, ?3, ?4, ?5)";
        let at = format!("2026-06-01T10:{:02}:00Z", number + 1);
        store.execute(turn, (ID, number as i64, asked, answered, at)).unwrap();
    }
}

/// What the only session that is listed counts: prompts, tool calls, messages.
fn listed(test: &Test) -> [u64; 3] {
    let list = test.aj("list --json").json();
    let sessions = list["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1, "{list}");
    let counts = &sessions[0]["counts"];
    ["user_prompts", "tool_calls", "messages"].map(|name| counts[name].as_u64().unwrap())
}

/// The messages that a session is shown with, in order: texts, names of tools.
fn shown(test: &Test, id: &str) -> Vec<String> {
    let answer = test.args(["show", id, "--json"]).code(0).json();
    let part = |block: &Value| match block["type"].as_str() {
        Some("text") => block["text"].as_str().unwrap().to_owned(),
        Some("tool_use") => format!("[{}]", block["tool_name"].as_str().unwrap()),
        kind => format!("[{}]", kind.unwrap_or_default()),
    };
    let message = |message: &Value| {
        let blocks = message["content"].as_array().unwrap();
        blocks.iter().map(part).collect::<Vec<_>>().join(" ")
    };
    answer["messages"].as_array().unwrap().iter().map(message).collect()
}

/// Each word is found, in the only session that there is.
fn finds(test: &Test, words: &[&str]) {
    for word in words {
        let found = test.args(["search", "--mode", "lexical", "--json", word]).code(0).json();
        assert_eq!(found["sessions"].as_array().unwrap().len(), 1, "{word}: {found}");
    }
}

/// Each text is in the exported session, once.
fn exports(test: &Test, texts: &[&str]) {
    let exported = test.args(["export", ID, "--json", "-o", "-"]).code(0).json();
    let exported = exported["messages"].to_string();
    for text in texts {
        assert_eq!(exported.matches(text).count(), 1, "{text} in {exported}");
    }
}

#[test]
fn a_transcript_is_read_though_an_empty_chat_document_has_its_id() {
    let test = Test::new();
    let empty = json!({ "version": 3, "sessionId": ID, "creationDate": 1_780_000_000_000_u64,
        "requests": [] });
    test.write(format!("{WORKSPACE}/chatSessions/{ID}.json"), empty.to_string());
    write_transcript(
        &test,
        &(start() + &prompt("u1", 1, "ask finfoot") + &answer("a1", 1, "reply")),
    );
    assert_eq!(listed(&test)[0], 1);
    finds(&test, &["finfoot"]);
    assert_eq!(shown(&test, ID), ["ask finfoot", "reply"]);
    exports(&test, &["ask finfoot"]);
}

#[test]
fn a_chat_document_and_a_transcript_complete_each_other() {
    let test = Test::new();
    let request = json!({ "requestId": "request_1", "timestamp": 1_780_308_060_000_u64,
        "modelId": "copilot/gpt-5",
        "message": { "text": "plan the finfoot census of the northern lakes" },
        "response": [{ "value": "The census has three steps: boats, days and birds." }] });
    let document = json!({ "version": 3, "sessionId": ID, "requests": [request] });
    test.write(format!("{WORKSPACE}/chatSessions/{ID}.json"), document.to_string());
    let transcript = start()
        + &prompt("u1", 1, "plan the finfoot census of the northern lakes")
        + &answer("a1", 1, "The census has three steps:   `boats`, days and birds.")
        + &prompt("u2", 5, "and the sungrebe?")
        + &answer("a2", 5, "likewise");
    write_transcript(&test, &transcript);
    let expected = [
        "plan the finfoot census of the northern lakes",
        "The census has three steps: boats, days and birds.",
        "and the sungrebe?",
        "likewise",
    ];
    assert_eq!(shown(&test, ID), expected);
    assert_eq!(listed(&test)[0], 2);
    finds(&test, &["census", "sungrebe", "likewise"]);
}

#[test]
fn a_transcript_belongs_to_the_session_whose_log_has_only_begun() {
    let test = Test::new();
    write_log(&test, &start());
    write_transcript(
        &test,
        &(start() + &prompt("u1", 1, "ask sungrebe") + &answer("a1", 1, "yes")),
    );
    assert_eq!(test.aj("list --json").json()["sessions"][0]["agent"], "copilot-cli");
    assert_eq!(listed(&test)[0], 1);
    finds(&test, &["sungrebe"]);
    exports(&test, &["ask sungrebe"]);
    // The same where the configuration has the log read elsewhere, or nowhere.
    let test = test.config("[storage.sources]\ncopilot_cli = \"~/.copilot-cli/sessions\"\n");
    let other = test.again(&test.beside("second"));
    assert_eq!(shown(&other, &ID[..8]), ["ask sungrebe", "yes"]);
}

#[test]
fn a_transcript_moves_to_the_session_whose_log_comes_later() {
    let test = Test::new();
    let transcript = start() + &prompt("t1", 1, "ask sungrebe") + &answer("t2", 1, "yes");
    write_transcript(&test, &transcript);
    assert_eq!(test.aj("list --json").json()["sessions"][0]["agent"], "vscode-copilot");
    write_log(&test, &log());
    assert_eq!(listed(&test), [2, 1, 5]);
    assert_eq!(test.aj("list --json").json()["sessions"][0]["agent"], "copilot-cli");
    finds(&test, &["sungrebe", "jabiru"]);
    test.args(["show", &ID[..8]]).code(0).shows(["ask sungrebe", "echo jabiru"]);
    // It stays there when the log is gone.
    std::fs::remove_dir_all(test.path(".copilot")).unwrap();
    write_transcript(&test, &(transcript + &prompt("t3", 5, "ask finfoot")));
    assert_eq!(listed(&test), [3, 1, 6]);
    finds(&test, &["sungrebe", "jabiru", "finfoot"]);
}

#[test]
fn a_log_and_a_store_with_more_turns_are_shown_as_one() {
    let turns = [("turn zero", "fine"), ("turn one", "ok"), ("turn two", "ok")];
    let expected = [
        "turn zero",
        "working on it [bash]",
        "[tool_result]",
        "fine",
        "turn one",
        "ok",
        "turn two",
        "ok",
    ];
    for is_store_first in [false, true] {
        let test = Test::new();
        for step in 0..2 {
            if (step == 0) == is_store_first {
                write_store(&test, &turns);
            } else {
                write_log(&test, &log());
            }
            test.aj("index").code(0);
        }
        assert_eq!(shown(&test, ID), expected);
        assert_eq!(listed(&test), [3, 1, 8]);
        finds(&test, &["jabiru", "fine", "two"]);
        exports(&test, &["turn zero", "turn two", "echo jabiru"]);
        test.aj("index --full").code(0);
        assert_eq!(shown(&test, ID), expected);
        assert_eq!(listed(&test), [3, 1, 8]);
        finds(&test, &["jabiru", "fine", "two"]);
    }
}

#[test]
fn a_combined_session_follows_the_log_that_grows() {
    let test = Test::new();
    write_store(&test, &[("turn zero", "fine"), ("turn one", "ok")]);
    write_log(&test, &log());
    assert_eq!(listed(&test), [2, 1, 6]);
    // The log has caught up, and has a turn of its own.
    let later = prompt("u2", 2, "turn one") + &answer("a2", 2, "ok") + &prompt("u3", 9, "wigeon");
    write_log(&test, &(log() + &later));
    let expected =
        ["turn zero", "working on it [bash]", "[tool_result]", "fine", "turn one", "ok", "wigeon"];
    assert_eq!(shown(&test, ID), expected);
    finds(&test, &["fine", "wigeon", "jabiru"]);
    // Nothing is lacking any more: the log is shown as it is.
    write_store(&test, &[("turn zero", "working on it"), ("turn one", "ok")]);
    let expected =
        ["turn zero", "working on it [bash]", "[tool_result]", "turn one", "ok", "wigeon"];
    assert_eq!(shown(&test, ID), expected);
    test.args(["search", "--mode", "lexical", "fine"]).code(1);
    finds(&test, &["wigeon"]);
}

#[test]
fn a_memory_belongs_to_the_session_it_names() {
    let test = Test::new();
    let memories = format!("{WORKSPACE}/GitHub.copilot-chat/memory-tool/memories");
    test.write(format!("{memories}/{ID}/plan.md"), "saved note nyala");
    // Nobody knows the session yet: the note is listed with the date of its file, as no session
    // that runs.
    let list = test.aj("list --json").json();
    assert_eq!(list["sessions"][0]["status"], "completed", "{list}");
    assert!(list["sessions"][0]["ended_at"].is_string(), "{list}");
    finds(&test, &["nyala"]);
    write_log(&test, &(start() + &prompt("u1", 1, "a real session")));
    assert_eq!(listed(&test), [1, 0, 1]);
    test.args(["show", &ID[..8]]).code(0).shows(["a real session", "saved note nyala"]);
    finds(&test, &["nyala", "real"]);
    // A note about a session of which nothing else is there stands in nobody's way.
    test.write(format!("{memories}/{OTHER_ID}/plan.md"), "saved note kudu");
    test.args(["show", OTHER_ID]).code(0).shows(["saved note kudu"]);
    assert_eq!(shown(&test, ID), ["a real session"]);
}

/// A record of Claude Code, at a second of the first minute.
fn record(role: &str, uuid: &str, parent: Option<&str>, second: u32, text: &str) -> String {
    let mut message = json!({ "role": role, "content": text });
    if role == "assistant" {
        message = json!({ "role": role, "id": format!("msg_{uuid}"), "model": "claude-sonnet-4-5",
            "content": [{ "type": "text", "text": text }],
            "usage": { "input_tokens": 10, "output_tokens": 5 } });
    }
    let record = json!({ "type": role, "uuid": uuid, "parentUuid": parent, "sessionId": ID,
        "timestamp": format!("2026-03-02T09:00:{second:02}.000Z"), "cwd": "/srv/p",
        "version": "2.1.40", "requestId": format!("req_{uuid}"), "message": message });
    format!("{record}\n")
}

#[test]
fn diverged_copies_in_two_homes_are_one_session_with_both_ends() {
    let common = record("user", "u1", None, 1, "common question")
        + &record("assistant", "a1", Some("u1"), 2, "common answer");
    let here = record("user", "u2", Some("a1"), 10, "only wordlocx here")
        + &record("assistant", "a2", Some("u2"), 11, "local reply");
    let there = record("user", "u3", Some("a1"), 5, "only wordremy there")
        + &record("assistant", "a3", Some("u3"), 6, "remote reply")
        + &record("user", "u4", Some("a3"), 20, "more there");
    let path = format!(".claude/projects/-srv-p/{ID}.jsonl");
    for is_remote_first in [false, true] {
        let test = Test::new();
        let remote = test.beside("box");
        let homes = format!(
            "[[homes]]\npath = \"{}\"\ntype = \"remote\"\nhost = \"box\"\n",
            remote.display()
        );
        let test = test.config(&homes);
        for step in 0..2 {
            if (step == 0) == is_remote_first {
                test.write(remote.join(&path), format!("{common}{there}"));
            } else {
                test.write(&path, format!("{common}{here}"));
            }
            test.aj("index").code(0);
        }
        let expected = [
            "common question",
            "common answer",
            "only wordremy there",
            "remote reply",
            "only wordlocx here",
            "local reply",
            "more there",
        ];
        assert_eq!(shown(&test, ID), expected);
        assert_eq!(listed(&test), [4, 0, 7]);
        finds(&test, &["wordlocx", "wordremy"]);
        exports(&test, &["only wordlocx here", "only wordremy there", "common question"]);
        let list = test.aj("list --json").json();
        assert_eq!(list["sessions"][0]["tokens"]["input"], 30, "{list}");
        let stats = test.aj("stats --json").json();
        assert_eq!(stats["agents"][0]["tokens"]["input"], 30, "{stats}");
        test.aj("index --full").code(0);
        assert_eq!(shown(&test, ID), expected);
    }
}

#[test]
fn an_import_completes_the_session_that_is_here() {
    let common = record("user", "u1", None, 1, "common question")
        + &record("assistant", "a1", Some("u1"), 2, "common answer");
    let here = record("user", "u2", Some("a1"), 10, "only wordlocx here");
    let there = record("user", "u3", Some("a1"), 5, "only wordremy there")
        + &record("assistant", "a3", Some("u3"), 6, "remote reply");
    let path = format!(".claude/projects/-srv-p/{ID}.jsonl");
    let remote = Test::new();
    remote.write(&path, format!("{common}{there}"));
    let file = remote.beside("exported.json");
    remote.args(["export", ID, "--json", "-o", file.to_str().unwrap()]).code(0);

    let test = Test::new();
    test.write(&path, format!("{common}{here}"));
    test.aj("index").code(0);
    test.args(["import", file.to_str().unwrap()]).code(0);
    let expected = [
        "common question",
        "common answer",
        "only wordremy there",
        "remote reply",
        "only wordlocx here",
    ];
    assert_eq!(shown(&test, ID), expected);
    assert_eq!(listed(&test), [3, 0, 5]);
    finds(&test, &["wordlocx", "wordremy"]);
    let list = test.aj("list --json").json();
    assert_eq!(list["sessions"][0]["tokens"]["input"], 20, "{list}");
    // What leaves and comes back adds nothing.
    let back = test.beside("back.json");
    test.args(["export", ID, "--json", "-o", back.to_str().unwrap()]).code(0);
    test.args(["import", back.to_str().unwrap()]).code(0);
    assert_eq!(shown(&test, ID), expected);
    test.aj("index --full").code(0);
    assert_eq!(shown(&test, ID), expected);
    assert_eq!(listed(&test), [3, 0, 5]);
}

/// Exports the only session of a history, with changes.
fn exported(log: &str, change: impl FnOnce(&mut Value)) -> (Test, std::path::PathBuf) {
    let remote = Test::new();
    remote.write(format!(".claude/projects/-srv-p/{ID}.jsonl"), log);
    let file = remote.beside("exported.json");
    remote.args(["export", ID, "--json", "--no-redact", "-o", file.to_str().unwrap()]).code(0);
    let mut document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    change(&mut document);
    std::fs::write(&file, document.to_string()).unwrap();
    (remote, file)
}

/// The texts of the messages that are labelled as imported.
fn imported(test: &Test) -> Vec<String> {
    let answer = test.args(["show", ID, "--json"]).code(0).json();
    let messages = answer["messages"].as_array().unwrap().iter();
    let labelled = messages.filter(|message| message["recording"] == "imported");
    labelled.map(|message| message["content"][0]["text"].as_str().unwrap().to_owned()).collect()
}

fn own_log() -> String {
    record("user", "u1", None, 1, "where is the ownheron")
        + &record("assistant", "a1", Some("u1"), 2, "it is in the reeds")
        + &record("user", "u2", Some("a1"), 3, "thank you")
}

/// Brings a session and an import of the same id together, in either order.
fn together(import: &std::path::Path, is_import_first: bool) -> Test {
    let test = Test::new();
    let path = format!(".claude/projects/-srv-p/{ID}.jsonl");
    if !is_import_first {
        test.write(&path, own_log());
        test.aj("index").code(0);
    }
    test.args(["import", import.to_str().unwrap()]).code(0);
    test.write(&path, own_log());
    test.aj("index").code(0);
    test
}

#[test]
fn an_import_that_says_more_and_something_else_hides_nothing() {
    let more = record("user", "u3", Some("u2"), 4, "more from afarbird")
        + &record("assistant", "a3", Some("u3"), 5, "and an answer from afar");
    let (_remote, file) = exported(&(own_log() + &more), |document| {
        document["messages"][0]["content"][0]["text"] = "where is the forgedheron".into();
        let renamed = json!([{ "rank": "renamed", "text": "a forged title" }]);
        document["session"]["extensions"]["agent-journal"]["titles"] = renamed;
    });
    for is_import_first in [false, true] {
        let test = together(&file, is_import_first);
        assert_eq!(shown(&test, ID)[0], "where is the ownheron");
        finds(&test, &["ownheron", "forgedheron", "afarbird"]);
        let expected =
            ["where is the forgedheron", "more from afarbird", "and an answer from afar"];
        assert_eq!(imported(&test), expected);
        let list = test.aj("list --json").json();
        assert_eq!(list["sessions"][0]["title"], "where is the ownheron", "{list}");
        test.args(["show", ID]).code(0).shows([" · imported"]);
        exports(&test, &["where is the ownheron", "where is the forgedheron"]);
        let page = test.args(["export", ID, "-f", "html", "-o", "-"]).code(0);
        page.shows(["class=\"imported\"", "forgedheron", "ownheron"]);
        test.aj("index --full").code(0);
        assert_eq!(imported(&test), expected);
    }
}

#[test]
fn an_import_with_the_same_id_and_other_messages_stands_beside_the_own_ones() {
    let other: String = (0..6)
        .map(|at| record("user", &format!("x{at}"), None, 10 + at, &format!("foreign strix{at}")))
        .collect();
    let (_remote, file) = exported(&other, |document| {
        document["session"]["extensions"]["agent-journal"]["kind"] = "copy".into();
        let continues = json!({ "session": OTHER_ID, "messages": 99 });
        document["session"]["extensions"]["agent-journal"]["continues"] = continues;
    });
    for is_import_first in [false, true] {
        let test = together(&file, is_import_first);
        assert_eq!(
            shown(&test, ID)[..3],
            ["where is the ownheron", "it is in the reeds", "thank you"]
        );
        assert_eq!(imported(&test).len(), 6);
        finds(&test, &["ownheron", "strix5"]);
        assert_eq!(listed(&test), [8, 0, 9]);
    }
}

#[test]
fn an_import_does_not_change_what_own_calls_count() {
    let (_remote, file) = exported(&own_log(), |document| {
        let message = &mut document["messages"][1];
        message["metadata"]["token_usage"]["output_tokens"] = 4_000_000.into();
        message["extensions"]["agent-journal"]["usage"]["tokens"]["output"] = 4_000_000.into();
        // Under another id and an earlier time, the call is still the own session's.
        message["timestamp"] = "2020-01-01T00:00:00Z".into();
    });
    let mut document: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    document["session"]["id"] = OTHER_ID.into();
    let other = file.with_file_name("other.json");
    std::fs::write(&other, document.to_string()).unwrap();
    for is_import_first in [false, true] {
        let test = together(&file, is_import_first);
        test.args(["import", other.to_str().unwrap()]).code(0);
        let list = test.aj("list --json").json();
        let own = list["sessions"].as_array().unwrap().iter().find(|one| one["native_id"] == ID);
        assert_eq!(own.unwrap()["tokens"]["output"], 5, "{list}");
        let stats = test.aj("stats --json").json();
        assert_eq!(stats["agents"][0]["tokens"]["output"], 5, "{stats}");
    }
}

#[test]
fn two_files_of_one_id_with_nothing_in_common_are_both_shown() {
    let many = |word: &str, count: u32| -> String {
        let one = |at| record("user", &format!("{word}{at}"), None, at, &format!("{word} {at}"));
        (0..count).map(one).collect()
    };
    let test = Test::new();
    test.write(format!(".claude/projects/-home-a/{ID}.jsonl"), many("aardvark", 10));
    test.write(format!(".claude/projects/-home-b/{ID}.jsonl"), many("badgerword", 8));
    test.aj("index").code(0);
    finds(&test, &["aardvark", "badgerword"]);
    assert_eq!(shown(&test, ID).len(), 18);
    exports(&test, &["badgerword 7", "aardvark 9"]);
    assert_eq!(imported(&test), Vec::<String>::new());
}

#[test]
fn mcp_labels_what_was_imported() {
    let more = record("user", "u3", Some("u2"), 4, "more from afarbird");
    let (_remote, file) = exported(&(own_log() + &more), |_| {});
    let test = together(&file, false);
    let mut client = crate::support::client::Client::start(&test, "test", "mcp");
    let shown = client.ask("show", &json!({ "id": ID }));
    assert!(shown.contains("(imported)") && shown.contains("afarbird"), "{shown}");
    client.end();
}
