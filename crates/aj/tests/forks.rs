//! Forks and resumed copies: what two sessions share counts once, for the session that recorded
//! it first, and is read with both.

use serde_json::{Value, json};

use crate::support::Test;

const FIRST: &str = "aaaa0001-0000-4000-8000-000000000001";
const FORK: &str = "5555000f-0000-4000-8000-00000000000f";
const SECOND_FORK: &str = "0000000f-0000-4000-8000-00000000000f";

/// A prompt, a call that edits a file, its result and an answer, from a minute on.
fn turn(prompt: &str, minute: u32, is_failed: bool) -> Vec<Value> {
    let record = |kind: &str, at: u32, message: Value| {
        json!({
            "type": kind, "uuid": format!("u-{minute}-{at}"), "message": message,
            "requestId": format!("req-{minute}-{at}"), "cwd": "/home/mara/web", "version": "2.1.300",
            "timestamp": format!("2026-10-01T09:{minute:02}:{at:02}.000Z"),
        })
    };
    let answer = |at: u32, content: Value| {
        let usage = json!({ "input_tokens": 100, "output_tokens": 10 });
        let id = format!("msg-{minute}-{at}");
        let message = json!({ "id": id, "role": "assistant", "model": "claude-opus-4-5",
            "content": content, "usage": usage });
        record("assistant", at, message)
    };
    let call = format!("call-{minute}");
    let input = json!({ "file_path": "/home/mara/web/a.rs", "content": format!("// {prompt}\n") });
    vec![
        record("user", 0, json!({ "role": "user", "content": prompt })),
        answer(10, json!([{ "type": "tool_use", "id": call, "name": "Write", "input": input }])),
        record(
            "user",
            20,
            json!({ "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": call, "content": "written", "is_error": is_failed }
            ] }),
        ),
        answer(30, json!([{ "type": "text", "text": format!("done with {prompt}") }])),
    ]
}

/// The lines of a session's file.
fn lines(id: &str, turns: &[Vec<Value>]) -> String {
    let mut text = String::new();
    for mut record in turns.iter().flatten().cloned() {
        record["sessionId"] = id.into();
        text.push_str(&format!("{record}\n"));
    }
    text
}

fn file(id: &str) -> String {
    format!(".claude/projects/-home-mara-web/{id}.jsonl")
}

/// A session that is continued later than its fork begins, the fork, and a fork of the fork.
fn family() -> Vec<(&'static str, String)> {
    let common = [turn("walrus", 1, false), turn("ibex", 3, true)];
    let fork = [common[0].clone(), common[1].clone(), turn("okapi", 10, false)];
    let second = [&fork[..], &[turn("lemur", 20, true)]].concat();
    vec![
        (FIRST, lines(FIRST, &common)),
        (FORK, lines(FORK, &fork)),
        (SECOND_FORK, lines(SECOND_FORK, &second)),
    ]
}

fn session<'j>(listing: &'j Value, id: &str) -> &'j Value {
    let all = listing["sessions"].as_array().unwrap();
    all.iter().find(|one| one["native_id"] == id).unwrap()
}

#[test]
fn a_shared_beginning_counts_once_whatever_is_read_first() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let test = Test::new();
        let family = family();
        for at in order {
            test.write(file(family[at].0), &family[at].1);
            test.aj("index").found();
        }
        let listing = test.aj("list --all --json").found().json();
        let check = |id: &str, prompts: u64, errors: u64, tokens: u64, active: u64| {
            let one = session(&listing, id);
            assert_eq!(one["counts"]["user_prompts"], prompts, "{id} {order:?}");
            assert_eq!(one["counts"]["tool_calls"], prompts, "{id} {order:?}");
            assert_eq!(one["counts"]["tool_errors"], errors, "{id} {order:?}");
            assert_eq!(one["counts"]["messages"], prompts * 4, "{id} {order:?}");
            assert_eq!(one["tokens"]["input"], tokens, "{id} {order:?}");
            assert_eq!(one["active_s"], active, "{id} {order:?}");
        };
        check(FIRST, 2, 1, 400, 150);
        check(FORK, 1, 0, 200, 30);
        check(SECOND_FORK, 1, 1, 200, 30);
        let totals = test.aj("stats --json").found().json()["totals"].clone();
        assert_eq!(totals["prompts"], 4);
        assert_eq!(totals["tool_calls"], 4);
        assert_eq!(totals["tool_errors"], 2);
        assert_eq!(totals["model_calls"], 8);
        assert_eq!(totals["tokens"]["input"], 800);
        let by_session = test.aj("stats --by session --json").found().json();
        let rows = by_session["groups"].as_array().unwrap();
        assert_eq!(rows.len(), 3, "{by_session}");
        let files = test.aj("files --json").found().json();
        assert_eq!(files["files"][0]["edits"], 4, "{files}");
    }
}

#[test]
fn forks_are_read_from_the_beginning_and_linked_both_ways() {
    let test = Test::new();
    for (id, lines) in family() {
        test.write(file(id), &lines);
    }
    test.aj("index").found();
    test.aj(&format!("show {FORK}")).found().shows([
        &format!("continues claude-code:{FIRST} (the first 8 messages)")[..],
        &format!("continued by claude-code:{SECOND_FORK}"),
        "walrus",
        "okapi",
    ]);
    test.aj(&format!("show {FIRST}"))
        .found()
        .shows([&format!("continued by claude-code:{FORK}")[..]]);
    let shown = test.aj(&format!("show {SECOND_FORK} --json")).found().json();
    assert_eq!(shown["session"]["continues"], format!("claude-code:{FORK}"));
    assert_eq!(shown["session"]["shared_messages"], 12);
    assert_eq!(shown["messages"].as_array().unwrap().len(), 16);
    let listing = test.aj("list --all").found().stdout;
    assert!(!listing.contains("sub-agent"), "{listing}");
}

#[test]
fn a_search_finds_what_is_shared_in_the_origin_alone() {
    let test = Test::new();
    for (id, lines) in family() {
        test.write(file(id), &lines);
    }
    test.aj("index").found();
    assert_eq!(test.aj("search ibex --mode lexical --json").found().ids(), [FIRST]);
    assert_eq!(test.aj("search okapi --mode lexical --json").found().ids(), [FORK]);
    assert_eq!(test.aj("search lemur --mode lexical --json").found().ids(), [SECOND_FORK]);
}

#[test]
fn a_session_that_goes_on_after_its_fork_keeps_what_it_recorded() {
    let test = Test::new();
    let mut family = family();
    family.truncate(2);
    for (id, lines) in &family {
        test.write(file(id), lines);
    }
    test.aj("index").found();
    // The first one goes on earlier than the fork did: nothing changes hands.
    let further = [turn("walrus", 1, false), turn("ibex", 3, true), turn("tapir", 5, false)];
    test.write(file(FIRST), lines(FIRST, &further));
    test.aj("index").found();
    let listing = test.aj("list --all --json").found().json();
    assert_eq!(session(&listing, FIRST)["counts"]["user_prompts"], 3);
    assert_eq!(session(&listing, FORK)["counts"]["user_prompts"], 1);
    // The fork's file is read anew as a whole, and again it counts only its own part.
    test.aj("index --full").found();
    let listing = test.aj("list --all --json").found().json();
    assert_eq!(session(&listing, FIRST)["counts"]["user_prompts"], 3);
    assert_eq!(session(&listing, FORK)["counts"]["user_prompts"], 1);
}

/// A fork as the agent writes it: records of its own come first, and the prompts that it copies
/// have one id.
fn marked_fork(turns: &[Vec<Value>], has_header: bool) -> String {
    let mut turns = turns.to_vec();
    for (at, turn) in turns.iter_mut().enumerate() {
        if !has_header {
            turn[0]["promptId"] = "p-fork".into();
            turn[0]["turnPosition"] = json!({ "promptIndex": 0, "turnIndex": at + 1 });
        }
    }
    let header = json!({ "type": "queue-operation", "operation": "dequeue",
        "timestamp": "2026-10-01T09:09:59.000Z" });
    if has_header {
        turns.insert(0, vec![header]);
    }
    lines(FORK, &turns)
}

#[test]
fn an_original_that_goes_on_after_its_fork_stays_the_original() {
    let common = [turn("walrus", 1, false), turn("ibex", 3, true)];
    for (has_header, is_empty, order) in [
        (true, false, [0, 1]),
        (true, false, [1, 0]),
        (false, false, [0, 1]),
        (false, false, [1, 0]),
        (true, true, [0, 1]),
        (true, true, [1, 0]),
    ] {
        let case = format!("header {has_header}, empty {is_empty}, order {order:?}");
        let mut fork = common.to_vec();
        if !is_empty {
            fork.push(turn("okapi", 10, false));
        }
        let mut original = common.to_vec();
        for (prompt, turn) in original.iter_mut().enumerate() {
            turn[0]["promptId"] = format!("p-{prompt}").into();
            turn[0]["turnPosition"] = json!({ "promptIndex": 0, "turnIndex": prompt + 1 });
        }
        original.push(turn("tapir", 30, false));
        let files = [(FIRST, lines(FIRST, &original)), (FORK, marked_fork(&fork, has_header))];
        let test = Test::new();
        for at in order {
            test.write(file(files[at].0), &files[at].1);
            test.aj("index").found();
        }
        let listing = test.aj("list --all --json").found().json();
        let first = session(&listing, FIRST);
        assert_eq!(first["continues"], Value::Null, "{case}");
        assert_eq!(first["counts"]["user_prompts"], 3, "{case}");
        assert_eq!(first["tokens"]["input"], 600, "{case}");
        let fork = session(&listing, FORK);
        assert_eq!(fork["continues"], format!("claude-code:{FIRST}"), "{case}");
        assert_eq!(fork["shared_messages"], 8, "{case}");
        assert_eq!(fork["counts"]["user_prompts"], u64::from(!is_empty), "{case}");
        let totals = test.aj("stats --json").found().json()["totals"].clone();
        assert_eq!(totals["prompts"], 3 + u64::from(!is_empty), "{case}");
    }
}

#[test]
fn a_fork_by_reference_is_completed_when_its_origin_appears() {
    let test = Test::new().fixture("codex/forks-by-reference");
    let folder = test.path(".codex/sessions");
    let mut files = Vec::new();
    let mut waiting = vec![folder];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() { waiting.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    test.aj("index").found();
    let expected = test.aj("list --all --json --limit 0").found().json();
    // Each file in turn comes last.
    for late in &files {
        let again = test.again(&test.beside(&format!("late-{}", files.len())));
        let _ = std::fs::remove_dir_all(test.beside(&format!("late-{}", files.len())));
        let aside = test.beside("aside");
        std::fs::rename(late, &aside).unwrap();
        again.aj("index").found();
        std::fs::rename(&aside, late).unwrap();
        again.aj("index").found();
        let found = again.aj("list --all --json --limit 0").found().json();
        let figures = |listing: &Value| -> Vec<Value> {
            let mut all: Vec<Value> = listing["sessions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| {
                    json!([
                        one["id"],
                        one["continues"],
                        one["shared_messages"],
                        one["counts"],
                        one["tokens"],
                        one["active_s"]
                    ])
                })
                .collect();
            all.sort_by_key(ToString::to_string);
            all
        };
        assert_eq!(figures(&found), figures(&expected), "{}", late.display());
    }
}
