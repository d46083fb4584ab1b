//! Sessions of the Copilot programs, at the doors that show them.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Test, build_databases, copy};

const SESSION: &str = "aaaaaaaa-0000-4000-8000-000000000001";

/// A home with the files of one of the connectors' own fixtures, its databases made of their text.
fn fixture(name: &str) -> Test {
    let test = Test::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent-sessions/tests/fixtures");
    copy(&fixtures.join(name).join("home"), &test.path(""));
    build_databases(&test.path(""));
    test
}

fn listed(test: &Test, id: &str) -> Value {
    let list = test.aj("list --json --all").found().json();
    let mut sessions = list["sessions"].as_array().unwrap().iter();
    sessions.find(|one| one["id"].as_str().unwrap().contains(id)).unwrap().clone()
}

fn event(kind: &str, id: &str, parent: &str, minute: u8, data: &Value) -> String {
    let at = format!("2026-06-01T10:{minute:02}:00Z");
    let event =
        json!({ "type": kind, "id": id, "parentId": parent, "timestamp": at, "data": data });
    format!("{event}\n")
}

fn start() -> String {
    let context = json!({ "cwd": "/srv/p" });
    event("session.start", "e0", "", 0, &json!({ "sessionId": SESSION, "context": context }))
}

fn prompt(id: &str, parent: &str, minute: u8, text: &str) -> String {
    event("user.message", id, parent, minute, &json!({ "content": text }))
}

fn answer(id: &str, parent: &str, minute: u8, text: &str) -> String {
    event("assistant.message", id, parent, minute, &json!({ "content": text, "toolRequests": [] }))
}

fn log(session: &str) -> String {
    format!(".copilot/session-state/{session}/events.jsonl")
}

#[test]
fn every_call_counts_once_however_often_a_session_is_resumed() {
    let test = fixture("copilot-cli/usage-records");
    let stats = test.aj("stats --json").found().json();
    let list = test.aj("list --json --all").found().json();
    let session = |id: &str| listed(&test, id)["tokens"].clone();
    // Five calls, three resumes, a crash: what the program's own last account says.
    let tokens = json!({ "input": 3000, "output": 600, "cache_read": 3000, "cache_creation": 0,
                         "reasoning": 60 });
    for (class, expected) in tokens.as_object().unwrap() {
        assert_eq!(session("aaaaaaa1")[class], *expected, "{class}");
    }
    // Sums that go on, and sums that begin anew.
    assert_eq!(
        (&session("aaaaaaa2")["input"], &session("aaaaaaa2")["output"]),
        (&json!(300), &json!(30))
    );
    assert_eq!(
        (&session("aaaaaaa3")["input"], &session("aaaaaaa3")["output"]),
        (&json!(500), &json!(60))
    );
    assert_eq!(
        (&session("aaaaaaa4")["input"], &session("aaaaaaa4")["output"]),
        (&json!(1100), &json!(110))
    );
    for class in ["input", "output", "cache_read"] {
        let listed: u64 = list["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["tokens"][class].as_u64().unwrap_or(0))
            .sum();
        assert_eq!(stats["totals"]["tokens"][class], json!(listed), "{class}");
    }
    test.aj("show aaaaaaa1")
        .found()
        .shows(["tokens in 3.0k out 600 cache read 3.0k", "(1 failed)"]);
}

#[test]
fn a_log_out_of_order_is_told_in_the_order_of_its_chain() {
    let test = Test::new();
    let (first, second) =
        (prompt("u1", "e0", 1, "swap first"), prompt("u2", "a1", 3, "swap second"));
    let (reply, last) =
        (answer("a1", "u1", 2, "first answer"), answer("a2", "u2", 4, "second answer"));
    test.write(log(SESSION), [start(), second, last].concat());
    // The chain has a hole: what is there is told as it stands.
    test.aj("show aaaaaaaa").found().shows(["1 you\n     swap second", "2 copilot"]);
    // What is appended fills it.
    test.append(log(SESSION), &[first, reply].concat());
    let shown = test.aj("show aaaaaaaa").found();
    shown.shows([
        "   1 you\n     swap first\n\n   2 copilot\n     first answer\n\n   3 you\n     swap second",
        "   4 copilot\n     second answer",
    ]);
    let exported = test.aj("export aaaaaaaa --json -o -").found().json();
    let parents: Vec<&Value> =
        exported["messages"].as_array().unwrap().iter().map(|one| &one["parent_uuid"]).collect();
    assert_eq!(parents, [&Value::Null, &json!("u1"), &json!("a1"), &json!("u2")]);
}

#[test]
fn what_lies_beside_a_log_is_found_and_shown() {
    let test = fixture("copilot-cli/kept");
    let id = "ccccccc1-0000-4000-8000-000000000001";
    let words = ["one ledger for all", "older than paper", "sum was fixed", "the store's words"];
    for words in words.into_iter().chain(["stands in the index alone"]) {
        test.args(["search", "--mode", "lexical", words]).found().shows(["Notes of the shop"]);
    }
    let shown = test.args(["show", id]).found().stdout;
    let documents: Vec<&str> =
        shown.lines().filter_map(|line| line.trim().strip_prefix("▸ ")).collect();
    assert!(documents[0].starts_with("index What this session did"), "{documents:#?}");
    let checkpoints = documents.iter().filter(|one| one.starts_with("checkpoint")).count();
    assert_eq!(checkpoints, 1, "{documents:#?}");
    let sources = test.aj("sources").found();
    sources.shows(["a checkpoint is not a JSON object", "workspace.yaml is not a mapping"]);
    assert_eq!(listed(&test, "ccccccc2")["cwd"], "/srv/trusted");
    // A summary that begins with a tag is no title.
    assert_eq!(listed(&test, "ccccccc3")["title"], "What is the date?");
}

#[test]
fn a_transcript_without_a_document_has_its_directory_and_no_prompts_of_terminals() {
    let test = fixture("vscode-copilot/continued");
    let session = listed(&test, "10000000-0000-4000-8000-000000000022");
    assert_eq!(session["cwd"], "/home/mara/yard");
    assert_eq!(
        (&session["title"], &session["counts"]["user_prompts"]),
        (&json!("Build it."), &json!(1))
    );
    // A call that the next request shows under another id is one call.
    let session = listed(&test, "10000000-0000-4000-8000-000000000021");
    assert_eq!(
        (&session["counts"]["tool_calls"], &session["counts"]["tool_results"]),
        (&json!(1), &json!(1))
    );
}

/// A checkpoint of this many words that names each of three words once.
fn checkpoint(words: usize) -> String {
    let filler = |from: usize| {
        let all = (from..from + words / 2).map(|at| format!("thing{at}"));
        all.collect::<Vec<_>>().join(" ")
    };
    let overview = format!("{} the hoatzin boost word {}", filler(0), filler(words));
    json!({ "title": "Auth", "overview": overview, "next_steps": "wire the dugong" }).to_string()
}

#[test]
fn a_checkpoint_with_all_words_comes_before_a_short_reply() {
    let (one, two) =
        ("aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002");
    for words in [4, 60, 600] {
        let test = Test::new();
        let folder = |id: &str| format!(".copilot/session-state/{id}");
        let log = |id: &str, text: &str| {
            let start = start().replace(SESSION, id);
            start + &prompt("u1", "e0", 1, "hello") + &answer("a1", "u1", 1, text)
        };
        // The session of the checkpoint has short replies of its own.
        test.write(
            format!("{}/events.jsonl", folder(one)),
            log(one, "hoatzin boost word") + &answer("a2", "a1", 2, "the hoatzin boost word"),
        );
        test.write(format!("{}/checkpoints/x.json", folder(one)), checkpoint(words));
        test.write(
            format!("{}/events.jsonl", folder(two)),
            log(two, "the hoatzin boost word") + &answer("a2", "a1", 2, "some of many answers"),
        );
        for mode in ["lexical", "hybrid"] {
            let words_of = ["search", "--json", "hoatzin boost word", "--mode", mode];
            let run = test.args(words_of).found();
            assert_eq!(run.ids(), [one, two], "{words} words, {mode}");
            assert_eq!(run.json()["hits"][0]["kind"], "document", "{words} words, {mode}");
        }
    }
}

#[test]
fn a_handoff_has_the_last_checkpoint_and_the_plan() {
    let test = fixture("copilot-cli/kept");
    test.aj("handoff ccccccc1").found().shows([
        "## Plans, summaries and notes",
        "> ## Next steps\n> \n> Fix the sum. (ccccccc1, checkpoint first)",
        "> Read, then fix. (ccccccc1, plan)",
    ]);
}

#[test]
fn attachments_and_truncations_are_shown() {
    let test = fixture("copilot-cli/kept");
    let id = "ccccccc1-0000-4000-8000-000000000001";
    let everything = |format: &str| {
        let words = ["export", id, "--format", format, "--detail", "everything", "-o", "-"];
        test.args(words).found().shows(["readme.md", "40000 tokens removed"]);
    };
    test.args(["show", id, "--all"]).found().shows([
        "[attached: /home/mara/shop/readme.md]",
        "Context truncated: 28 messages, 40000 tokens removed",
    ]);
    everything("markdown");
    everything("html");
    // A call that only its start tells is the assistant's.
    test.args(["show", id])
        .found()
        .shows(["▸ view /home/mara/shop/notes.md", "✗ view: no such file"]);
}
