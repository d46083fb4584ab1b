//! `aj show`: a session as a conversation, found by its id.

use serde_json::{Value, json};

use crate::support::{FLAKY, RETRY, Test, two_agents};

#[test]
fn show_reads_like_a_conversation() {
    let run = two_agents().args(["show", FLAKY]).found();
    let run = run.shows([
        "claude  Fix flaky login test\n",
        "web · main · 2026-03-02 09:01",
        "2 prompts · 2 tool calls (1 failed) · tokens in 16 out 200 cache read 36k write 480",
        "   1 you\n     the login test is flaky again in CI, find out why\n",
        "   2 claude\n     I'll look at the helper first.\n",
        "     ▸ Bash npx playwright test login.spec.ts\n",
        "       ✗ Bash: Error: 1 of 20 failed\n",
        "   8 claude\n     Fixed: the copper lattice",
    ]);
    run.hides(["\u{1b}", "marmalade"]);
}

/// A home with a session that has a plan beside its log.
fn planned() -> Test {
    let test = Test::new();
    let folder = ".copilot/session-state/aaaaaaa1-0000-4000-8000-000000000001";
    let event = |kind: &str, data: Value, second: u8| {
        let at = format!("2026-07-01T09:00:{second:02}.000Z");
        json!({ "type": kind, "data": data, "id": format!("e{second}"), "timestamp": at })
    };
    let start = event("session.start", json!({ "sessionId": "aaaaaaa1", "version": 1 }), 1);
    let prompt = event("user.message", json!({ "content": "why is it slow" }), 2);
    test.write(format!("{folder}/events.jsonl"), format!("{start}\n{prompt}\n"));
    test.write(format!("{folder}/plan.md"), "## Find the leak\n\nLook at the cache.\n");
    test
}

#[test]
fn show_tells_of_plans_and_checkpoints_before_the_conversation() {
    let test = planned();
    let shown = test.aj("show aaaaaaa1").found();
    let shown = shown.shows(["\n\n     ▸ plan Find the leak\n\n   1 you\n     why is it slow\n"]);
    shown.hides(["Look at the cache"]);
    test.aj("show aaaaaaa1 --all").found().shows([
        "\n\n     ▾ plan Find the leak\n     ## Find the leak\n     \n     Look at the cache.\n",
    ]);
    test.aj("show aaaaaaa1#1").found().hides(["Find the leak"]);
    let alone = test.aj("show aaaaaaa1#1 --json").found().json();
    assert_eq!(alone["session"]["documents"], Value::Null);
    let session = &test.aj("show aaaaaaa1 --json").found().json()["session"];
    let plan = json!([{ "name": "plan", "text": "## Find the leak\n\nLook at the cache.\n" }]);
    assert_eq!(session["documents"], plan);
}

#[test]
fn a_plan_without_a_conversation_can_be_read() {
    let test = Test::new();
    let folder = ".copilot/session-state/bbbbbbb2-0000-4000-8000-000000000002";
    test.write(format!("{folder}/workspace.yaml"), "id: bbbbbbb2\ncwd: /home/mara/web\n");
    test.write(format!("{folder}/plan.md"), "Find the leak.\n\nLook at the cache.\n");
    let shown = test.aj("show bbbbbbb2").found();
    shown.shows(["     ▾ plan Find the leak.\n", "     Look at the cache.\n"]);
    for command in ["export bbbbbbb2 --format markdown -o -", "handoff bbbbbbb2"] {
        test.aj(command).found();
    }
}

#[test]
fn a_side_conversation_is_shown_where_it_is_asked_for() {
    let test = Test::new();
    let session =
        crate::support::Transcript::new(7).you("count me").agent("the osprey is warming up");
    let kind = "\"type\":\"assistant\"";
    let side = session.lines.replace(kind, &format!("{kind},\"isSidechain\":true"));
    test.write(session.path(), side);
    test.aj("search osprey").code(1);
    test.aj("search osprey include:sidechains").found().shows(["osprey"]);
    assert_eq!(test.aj("list --json include:sidechains").found().ids().len(), 1);
    let id = &session.id;
    test.args(["show", id]).found().hides(["osprey"]);
    test.args(["show", id, "--all"]).found().shows(["osprey"]);
    test.args(["show", &format!("{id}#2")]).found().shows(["osprey"]);
}

#[test]
fn a_printed_id_leads_to_its_session() {
    let test = Test::new();
    let session = crate::support::Transcript::new(0x0111_1111).you("count me").agent("counted");
    let other = session.id.replace("-000000000000", "-000000000001");
    test.write(
        session.path().replace(&session.id, &other),
        session.lines.replace(&session.id, &other),
    );
    test.write(session.path(), &session.lines);
    // Another agent's session of the same id.
    let event = |kind: &str, data: Value| json!({ "type": kind, "data": data, "id": kind });
    let start = event("session.start", json!({ "sessionId": session.id, "version": 1 }));
    let prompt = event("user.message", json!({ "content": "count me there" }));
    let log = format!(".copilot/session-state/{}/events.jsonl", session.id);
    test.write(log, format!("{start}\n{prompt}\n"));
    test.aj("index").found();
    let list = test.aj("list").found().stdout;
    let words = list.split_whitespace().filter(|word| word.contains("01111111"));
    let printed: std::collections::BTreeSet<&str> = words.collect();
    assert_eq!(printed.len(), 3, "{list}");
    for id in printed {
        test.args(["show", id]).found();
    }
}

#[test]
fn a_session_is_found_by_its_id_a_beginning_of_it_and_with_its_agent() {
    let test = two_agents();
    let full = format!("claude-code:{FLAKY}");
    for id in [FLAKY, "3f1c0001", "3f1c0001-0000", &full, "claude:3f1c0001", "claude-code:3f1c0001"]
    {
        let run = test.args(["show", "--json", id]).found();
        assert_eq!(run.json()["session"]["id"], full, "{id}");
    }
    test.args(["show", "codex:3f1c0001"]).code(1).says(["no session `codex:3f1c0001`"]);
}

#[test]
fn a_place_in_a_session_is_shown_with_its_surroundings() {
    let test = two_agents();
    let shown = |words: &str| -> Vec<u64> {
        let document = test.aj(&format!("show --json {words}")).found().json();
        let messages = document["messages"].as_array().unwrap();
        messages.iter().map(|message| message["index"].as_u64().unwrap()).collect()
    };
    assert_eq!(shown("3f1c0001"), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(shown("3f1c0001#5"), [2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(shown("3f1c0001#5 -C 1"), [4, 5, 6]);
    assert_eq!(shown("3f1c0001#1 -C 0"), [1]);
    assert_eq!(shown("3f1c0001#8 --context 2"), [6, 7, 8]);
    for place in ["0", "9", "x", ""] {
        let parts = ["is not a message of claude-code:3f1c0001", "it has messages 1 to 8"];
        test.aj(&format!("show 3f1c0001#{place}")).fails(parts);
    }
}

#[test]
fn an_ambiguous_id_lists_what_it_could_be() {
    let run = two_agents().aj("show 3f1c");
    let expected = format!(
        "aj: `3f1c` matches 2 sessions; type more of the id\n    claude-code:{FLAKY}  Fix flaky login test\n    claude-code:{RETRY}  add a retry with backoff to the upload worker\n"
    );
    run.code(2).stdout("").stderr(&expected);
}

#[test]
fn an_ambiguous_id_says_how_many_there_are_and_lists_some() {
    let test = Test::new();
    for number in 0..15 {
        let session = crate::support::Transcript::new(number).you("count me").agent("counted");
        test.write(session.path(), session.lines);
    }
    test.aj("index").found();
    let run = test.aj("show 0000").fails(["`0000` matches 15 sessions"]);
    assert_eq!(run.stderr.lines().count(), 13, "{run}");
    test.aj("show claude:0000").fails(["`claude:0000` matches 15 sessions"]);
}

#[test]
fn an_unknown_id_says_where_to_find_one() {
    let test = two_agents();
    for id in ["ffff", "", ":", "claude:", "%", "3f1c0001%"] {
        test.args(["show", id]).code(1).stdout("").says(["aj: no session `", "aj list --all"]);
    }
}

#[test]
fn calls_stand_under_whoever_made_them() {
    let test = Test::new();
    let session = crate::support::Transcript::new(1).you("look").tool("ls", false);
    let session = session.agent("there").tool("pwd", false);
    test.write(session.path(), session.lines);
    test.aj("show 00000001").found().shows([
        "   1 you\n     look\n\n   2 claude\n     ▸ Bash ls\n",
        "   4 claude\n     there\n     ▸ Bash pwd\n",
    ]);
}

#[test]
fn a_message_that_is_asked_for_is_shown_whatever_it_is() {
    let test = Test::new();
    let session = crate::support::Transcript::new(1).you("look").tool("ls", false).agent("there");
    test.write(session.path(), session.lines);
    let shown = test.aj("show 00000001#3 -C 0").found();
    shown.shows(["\n\n   3 tool\n     outcome of ls\n"]);
    let shown = test.aj("show 00000001#4 -C 1").found();
    shown.shows(["   4 claude\n     there\n"]).hides(["outcome of ls"]);
}

#[test]
fn what_a_picture_says_of_itself_does_not_steer_the_terminal() {
    let test = Test::new();
    let session = crate::support::Transcript::new(1).you("PICTURE").agent("seen");
    let picture = json!([{ "type": "image", "source": {
        "type": "base64", "media_type": "image/png\u{1b}]0;x\u{7}", "data": "AAAA",
    } }]);
    let lines = session.lines.replace("\"PICTURE\"", &picture.to_string());
    test.write(session.path(), lines);
    test.aj("show 00000001").found().shows(["[image/png"]).hides(["\u{1b}"]);
}

#[test]
fn show_gives_tools_and_thinking_only_when_asked() {
    let test = two_agents();
    test.aj("show 0199").found().shows(["▸ exec_command cargo test"]).hides(["41 passed"]);
    test.aj("show 0199 --tools").found().shows(["test result: ok. 41 passed", "\"cmd\""]);
}

#[test]
fn reasoning_tasks_and_side_conversations_are_told_apart_without_colour() {
    let id = "88880000-0000-4000-8000-000000000001";
    let record = |kind: &str, uuid: &str, is_side: bool, content: serde_json::Value| {
        let message =
            serde_json::json!({ "role": kind, "id": format!("m-{uuid}"), "content": content });
        let record = serde_json::json!({
            "type": kind, "uuid": uuid, "sessionId": id, "isSidechain": is_side,
            "cwd": "/home/mara/web", "timestamp": "2026-03-02T09:00:00Z", "message": message,
        });
        format!("{record}\n")
    };
    let said = |text: &str| serde_json::json!([{ "type": "text", "text": text }]);
    let thought = serde_json::json!([
        { "type": "thinking", "thinking": "perhaps the cache" }, { "type": "text", "text": "It is the cache." },
    ]);
    let main = record("user", "u1", false, said("why is it slow"))
        + &record("assistant", "u2", false, thought)
        + &record("user", "s1", true, said("count the files"))
        + &record("assistant", "s2", true, said("there are nine"));
    let task = record("user", "t1", true, said("read the docs"))
        + &record("assistant", "t2", true, said("read"));
    let test = Test::new();
    let project = ".claude/projects/-home-mara-web";
    test.write(format!("{project}/{id}.jsonl"), main);
    test.write(format!("{project}/{id}/subagents/agent-abc.jsonl"), task);
    test.args(["show", id, "--all"]).found().shows([
        "1 you\n     why is it slow",
        "     thinking:\n     perhaps the cache\n     It is the cache.",
        "3 parent · side conversation\n     count the files",
        "claude · side conversation\n     there are nine",
    ]);
    test.args(["show", "abc"]).found().shows(["1 parent\n     read the docs"]);
    test.args(["search", "docs"]).code(0).shows(["parent"]);
}
