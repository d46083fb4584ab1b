//! What a user of Claude Code sees of its newer records, of words that stand in odd places, and of
//! texts that only the program writes.

use std::path::Path;

use serde_json::Value;

use crate::support::{Test, copy};

const TODAY: &str = "70da0001-0000-4000-8000-000000000001";
const TEXTS: &str = "70da0002-0000-4000-8000-000000000002";
const HOPPER: &str = "70da0003-0000-4000-8000-000000000003";
const ONLY_SUMMARIES: &str = "70da0004-0000-4000-8000-000000000004";
const COMMAND: &str = "70da0005-0000-4000-8000-000000000005";
const SIDE: &str = "70da0006-0000-4000-8000-000000000006";

/// The home of a fixture of the connector, indexed.
fn fixture(case: &str) -> Test {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent-sessions/tests/fixtures");
    let test = Test::new();
    copy(&fixtures.join("claude-code").join(case).join("home"), &test.path(""));
    test.aj("index").found();
    test
}

fn session(test: &Test, id: &str) -> Value {
    let listing = test.aj("list --all --json").found().json();
    let all = listing["sessions"].as_array().unwrap();
    all.iter().find(|one| one["native_id"] == id).cloned().unwrap_or(Value::Null)
}

#[test]
fn every_record_of_today_is_understood() {
    let test = fixture("today");
    test.aj("sources").found().shows(["100.0 %"]).hides(["kept raw"]);
    let one = session(&test, TODAY);
    assert_eq!(one["title"], "Barley day");
    assert_eq!(one["title_source"], "renamed");
    test.aj("search flour --mode lexical").code(1);
    test.aj(&format!("show {TODAY}")).found().shows(["grind the barley", "grind barley"]);
}

#[test]
fn texts_of_the_program_are_neither_prompts_nor_titles() {
    let test = fixture("program-texts");
    let one = session(&test, TEXTS);
    assert_eq!(one["title"], "dress the mill stone");
    assert_eq!(one["counts"]["user_prompts"], 2, "{one}");
    // A sub-agent that only warms the program up is a working copy.
    assert_eq!(one["children"], Value::Array(Vec::new()));
    test.aj("search kestrels --mode lexical").code(1);
}

#[test]
fn words_beside_a_result_and_in_the_queue_are_prompts() {
    let test = fixture("words-kept");
    for word in ["spelt", "dormouse"] {
        let run = test.args(["search", "kind:prompt", word, "--mode", "lexical", "--json"]).found();
        assert_eq!(run.ids(), [HOPPER], "{word}");
    }
    let shown = test.aj(&format!("show {HOPPER} --json")).found().json();
    let messages = shown["messages"].as_array().unwrap();
    let prompt =
        messages.iter().find(|one| one.to_string().contains("fill it with spelt")).unwrap();
    assert_eq!(prompt["origin"], "human", "{prompt}");
    assert_eq!(session(&test, HOPPER)["counts"]["user_prompts"], 3);
    let exported = test.aj(&format!("export {HOPPER} --format md -o -")).found().stdout;
    assert!(exported.contains("fill it with spelt"), "{exported}");
    // The queue goes on: what was sent after all is told once.
    let path = format!(".claude/projects/-home-mara-mill/{HOPPER}.jsonl");
    let sent = serde_json::json!({ "type": "user", "uuid": "k9", "sessionId": HOPPER,
        "timestamp": "2026-11-10T10:00:31.000Z", "cwd": "/home/mara/mill",
        "message": { "role": "user", "content": "and sweep the floor of the dormouse" } });
    let taken = serde_json::json!({ "type": "queue-operation", "operation": "dequeue",
        "timestamp": "2026-11-10T10:00:30.000Z", "sessionId": HOPPER });
    test.append(&path, &format!("{taken}\n{sent}\n"));
    test.aj("index").found();
    assert_eq!(session(&test, HOPPER)["counts"]["user_prompts"], 3);
}

#[test]
fn a_summary_without_its_message_belongs_to_the_file_it_stands_in() {
    let test = fixture("words-kept");
    for (word, id) in [("jaeger", HOPPER), ("oriole", ONLY_SUMMARIES), ("briefly", HOPPER)] {
        let run = test.args(["search", word, "--mode", "lexical", "--json"]).found();
        assert_eq!(run.ids(), [id], "{word}");
    }
    assert_eq!(session(&test, ONLY_SUMMARIES)["title"], "Only a summary oriole");
    // Both summaries with the same end are kept; the title is one of them.
    assert_eq!(session(&test, HOPPER)["title"], "Spelt in the hopper, briefly");
    test.aj(&format!("show {HOPPER} --all")).found().shows([
        "Spelt in the hopper, briefly",
        "Filling the hopper",
        "A summary without its message, jaeger",
    ]);
    let shown = test.aj(&format!("show {HOPPER} --json")).found().json();
    assert_eq!(shown["session"]["summaries"].as_array().unwrap().len(), 3);
    // They stand in front of the conversation, as in `aj show`; the title is there already.
    for format in ["markdown", "html"] {
        let words = ["export", HOPPER, "--format", format, "-o", "-"];
        let page = test.args(words).found().shows(["Filling the hopper"]).stdout;
        let summary = page.find("A summary without its message, jaeger").unwrap();
        assert!(summary < page.find("fill it with spelt").unwrap(), "{page}");
        assert!(!page.contains(">summary</b><span class=\"gist\">Spelt in the hopper, briefly"));
    }
}

#[test]
fn a_command_is_no_title_and_no_prompt() {
    let test = fixture("words-kept");
    let one = session(&test, COMMAND);
    assert_eq!((&one["title"], &one["title_source"]), (&"mara/mill".into(), &"path".into()));
    let shown = test.aj(&format!("show {COMMAND}")).found().stdout;
    assert!(shown.contains("command\n") && !shown.contains(" you\n"), "{shown}");
}

#[test]
fn notices_and_the_queue_do_not_widen_a_session() {
    let test = fixture("words-kept");
    let one = session(&test, HOPPER);
    assert_eq!(one["started_at"], "2026-11-10T10:00:00.000Z");
    assert_eq!(one["ended_at"], "2026-11-10T10:00:21.000Z");
    assert_eq!((&one["wall_s"], &one["active_s"]), (&21.into(), &21.into()));
}

#[test]
fn the_id_in_the_records_is_the_agent_id() {
    let test = fixture("words-kept");
    let document = test.aj(&format!("export {SIDE} --json -o -")).found().json();
    assert_eq!(document["session"]["agent_id"], "ag77", "{document}");
    assert_eq!(document["session"]["is_agent_session"], true);
}

#[test]
fn a_folder_is_the_directory_that_is_there() {
    let test = Test::new();
    let project = test.path("my-proj/sub.dir").canonicalize();
    assert!(project.is_err());
    std::fs::create_dir_all(test.path("my-proj/sub.dir")).unwrap();
    let project = test.path("my-proj/sub.dir").canonicalize().unwrap();
    let project = project.to_str().unwrap();
    let letters = |one: char| if one.is_ascii_alphanumeric() { one } else { '-' };
    let folder: String = project.chars().map(letters).collect();
    let line = serde_json::json!({ "type": "user", "uuid": "u", "sessionId": TODAY,
        "timestamp": "2026-11-10T10:00:00.000Z",
        "message": { "role": "user", "content": "where am I" } });
    test.write(format!(".claude/projects/{folder}/{TODAY}.jsonl"), format!("{line}\n"));
    test.aj("index").found();
    assert_eq!(session(&test, TODAY)["cwd"], project);
}
