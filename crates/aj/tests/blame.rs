//! `aj blame` and `aj files` on the real program, with a real repository.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests make their own files")]

mod support;

use std::process::Command;

use serde_json::{Value, json};
use support::{Test, keys, text};

const ID: &str = "0b1a0001-0000-4000-8000-000000000001";

/// A session that wrote one file and changed it, at ten o'clock on the second of March.
fn session(test: &Test) {
    let file = test.path("web/src/login.rs");
    let call = |at: u64, name: &str, input: Value| {
        json!({
            "type": "assistant", "uuid": format!("u{at}"), "sessionId": ID,
            "cwd": test.path("web"), "gitBranch": "main",
            "timestamp": format!("2026-03-02T10:00:{at:02}.000Z"),
            "message": {
                "role": "assistant", "id": format!("m{at}"), "model": "claude-sonnet-4-5",
                "content": [{ "type": "tool_use", "id": format!("t{at}"), "name": name, "input": input }],
            },
        })
    };
    let prompt = json!({
        "type": "user", "uuid": "u0", "sessionId": ID, "cwd": test.path("web"),
        "timestamp": "2026-03-02T10:00:00.000Z",
        "message": { "role": "user", "content": "make the login wait" },
    });
    let write = json!({ "file_path": file, "content": "fn login() {\n    send_request();\n}\n" });
    let edit = json!({
        "file_path": file, "old_string": "    send_request();",
        "new_string": "    send_request();\n    wait_for_session();",
    });
    let lines = [prompt, call(1, "Write", write), call(2, "Edit", edit)];
    let lines = lines.map(|line| line.to_string()).join("\n") + "\n";
    test.write(format!(".claude/projects/-web/{ID}.jsonl"), lines);
}

/// Commits the file as it stands, at a time of that day.
fn commit(test: &Test, content: &str, time: &str) {
    test.write("web/src/login.rs", content);
    let run = |args: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(test.path("web")).args(args).env("HOME", test.path(""));
        for (name, value) in [("NAME", "mara"), ("EMAIL", "mara@example.org"), ("DATE", time)] {
            git.env(format!("GIT_AUTHOR_{name}"), value);
            git.env(format!("GIT_COMMITTER_{name}"), value);
        }
        assert!(git.output().unwrap().status.success(), "{args:?}");
    };
    run(&["init", "--quiet"]);
    run(&["add", "."]);
    run(&["commit", "--quiet", "-m", "work"]);
}

const WRITTEN: &str = "fn login() {\n    send_request();\n    wait_for_session();\n}\n";

#[test]
fn lines_lead_to_the_message_that_wrote_them() {
    let test = Test::new();
    session(&test);
    commit(&test, "fn by_hand_before() {}\n", "2026-03-01T10:00:00Z");
    let content = format!("fn by_hand_before() {{}}\n{WRITTEN}");
    commit(&test, &content, "2026-03-02T11:00:00Z");
    let content = format!("{content}fn by_hand_after() {{}}\n");
    commit(&test, &content, "2026-03-03T10:00:00Z");
    let file = test.path("web/src/login.rs");
    let run = test.args(["blame", file.to_str().unwrap()]).code(0);
    run.shows([
        "0b1a0001#2",
        "0b1a0001#1",
        "exact",
        "partial",
        "make the login wait",
        "no recorded edit",
    ]);
    let answer = test.args(["blame", file.to_str().unwrap(), "--json"]).json();
    assert_eq!(answer["schema"], "aj.blame/1");
    assert_eq!(keys(&answer), ["candidates", "file", "lines", "repository", "schema", "spans"]);
    let told = |span: &Value| {
        let author = &span["author"];
        let message = author["message"].as_u64();
        (span["first"].as_u64().unwrap(), span["last"].as_u64().unwrap(), message)
    };
    let spans: Vec<_> = answer["spans"].as_array().unwrap().iter().map(told).collect();
    let expected = [(1, 1, None), (2, 3, Some(1)), (4, 4, Some(2)), (5, 5, Some(1)), (6, 6, None)];
    assert_eq!(spans, expected);
    assert_eq!(text(&answer["spans"][1]["author"]["session"]), format!("claude-code:{ID}"));
    // One line alone.
    let place = format!("{}:4", file.display());
    test.args(["blame", &place]).code(0).shows(["0b1a0001#2", "exact"]).hides(["0b1a0001#1"]);
}

#[test]
fn what_was_committed_before_the_session_is_not_its_own() {
    let test = Test::new();
    session(&test);
    commit(&test, WRITTEN, "2026-03-01T10:00:00Z");
    let file = test.path("web/src/login.rs");
    test.args(["blame", file.to_str().unwrap()]).code(1).hides(["0b1a0001"]);
}

#[test]
fn a_file_nobody_recorded_is_nobodys() {
    let test = Test::new();
    session(&test);
    test.write("web/src/other.rs", WRITTEN);
    let file = test.path("web/src/other.rs");
    test.args(["blame", file.to_str().unwrap()]).code(1).shows(["no recorded edit"]);
    test.args(["blame", "nowhere.rs"]).fails(["could not read nowhere.rs"]);
    let place = format!("{}:9", file.display());
    test.args(["blame", &place]).fails(["has 4 lines"]);
}

#[test]
fn changed_files_are_listed_with_their_sessions() {
    let test = Test::new();
    session(&test);
    test.aj("files").code(0).shows(["web/src/login.rs", "2 edits", "make the login wait"]);
    test.aj("files LOGIN.rs --agent claude").code(0).shows(["login.rs"]);
    test.aj("files nothing-like-it").code(1).stdout("");
    let answer = test.aj("files --json").json();
    assert_eq!(answer["schema"], "aj.files/1");
    assert_eq!((&answer["total"], &answer["files"][0]["edits"]), (&1.into(), &2.into()));
    assert_eq!(text(&answer["files"][0]["sessions"][0]["id"]), format!("claude-code:{ID}"));
}
