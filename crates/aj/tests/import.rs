//! `aj import`, run as a person runs it: a backup, a pipe, a file that is none.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Run, Test};

/// The demo's home, read.
fn demo() -> Test {
    let test = Test::new();
    crate::support::copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/home"), &test.path(""));
    test.aj("index").code(0);
    test
}

/// Everything in a journal, without the instants at which it was written down.
fn everything(test: &Test) -> Vec<String> {
    let written = test.aj("export --all -f ndjson -o -").found().stdout;
    let mut lines: Vec<String> = written
        .lines()
        .map(|line| {
            let (before, after) = line.split_once("\"export_timestamp\":").unwrap();
            format!("{before}{}", after.split_once(',').unwrap().1)
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn what_was_spent_out_of_sight_goes_along_with_everything() {
    let test = crate::support::two_agents();
    let hidden = r#"{"sessionId":"bg","projectHash":"p","startTime":"2026-05-04T08:00:00.000Z",
        "lastUpdated":"2026-05-04T08:00:10.000Z","kind":"subagent","messages":[
        {"id":"m0","timestamp":"2026-05-04T08:00:01.000Z","type":"user","content":"secret words"},
        {"id":"m1","timestamp":"2026-05-04T08:00:05.000Z","type":"gemini","content":"none",
         "tokens":{"input":90,"output":4,"cached":40,"thoughts":2,"tool":0,"total":96},
         "model":"gemini-3-flash-preview"}]}"#;
    test.write(".gemini/tmp/p/chats/skill-extraction-1/bg.json", hidden);
    let file = test.beside("all.ndjson");
    let path = file.to_str().unwrap();
    test.args(["export", "--all", "--format", "ndjson", "-o", path]).code(0);
    let left = fs::read_to_string(&file).unwrap();
    assert!(left.contains("\"bg\"") && !left.contains("secret words"), "{left}");
    let other = Test::new();
    other.args(["import", path]).code(0);
    let tokens = |test: &Test| test.aj("stats --json").json()["totals"]["tokens"].clone();
    assert_eq!(tokens(&test), tokens(&other));
    assert!(tokens(&other)["cache_read"].as_u64() >= Some(40));
    assert_eq!(
        test.aj("list --all --json").json()["total"],
        other.aj("list --all --json").json()["total"]
    );
}

#[test]
fn a_backup_comes_back_however_it_is_packed() {
    let test = demo();
    let left = everything(&test);
    for name in ["all.ndjson", "all.ndjson.gz", "all.ndjson.zst"] {
        let file = test.beside(name);
        test.args(["export", "--all", "-o", file.to_str().unwrap()]).code(0);
        let other = Test::new();
        let run = other.args(["import", file.to_str().unwrap()]).found();
        let expected = format!("{}: 5 sessions, 5 new (", file.display());
        assert!(run.stdout.starts_with(&expected), "{run}");
        fs::remove_file(file).unwrap();
        assert_eq!(everything(&other), left, "{name}");
        other.aj("search flaky").found();
    }
}

#[test]
fn what_one_program_writes_another_can_read_from_a_pipe() {
    let test = demo();
    let written = test.aj("export --all -f ndjson -o -").found().stdout;
    let other = Test::new();
    let mut command = other.command(["import", "-", "--json"]);
    let pipe = other.beside("pipe");
    fs::write(&pipe, written).unwrap();
    command.stdin(Stdio::from(fs::File::open(&pipe).unwrap()));
    let told: serde_json::Value =
        serde_json::from_str(&Run::of(&mut command).found().stdout).unwrap();
    assert_eq!(told["schema"], "aj.import/1");
    assert_eq!(told["files"][0]["imported"]["new"], 5);
    assert_eq!(everything(&other), everything(&test));
}

#[test]
fn one_bad_file_does_not_keep_the_others_out() {
    let test = demo();
    let good = test.beside("good.json");
    test.args(["export", "5e1f", "-o", good.to_str().unwrap()]).code(0);
    let bad = test.beside("bad.json");
    fs::write(&bad, &fs::read(&good).unwrap()[..900]).unwrap();
    let none = test.beside("none.json");
    let other = Test::new();
    let run = other.args([
        "import",
        bad.to_str().unwrap(),
        none.to_str().unwrap(),
        good.to_str().unwrap(),
    ]);
    let run = run.code(2);
    assert!(run.stdout.contains("good.json: 1 session, 1 new"), "{run}");
    let told: Vec<&str> = run.stderr.lines().filter(|line| line.starts_with("aj: ")).collect();
    assert!(told[0].ends_with("bad.json: the file ends in the middle of session 1"), "{run}");
    assert!(told[1].contains("could not read") && told[1].contains("none.json"), "{run}");
    assert_eq!(everything(&other).len(), 1);
}

#[test]
fn the_size_of_an_imported_file_is_no_agents_own() {
    let test = crate::support::two_agents();
    let file = test.beside("all.ndjson");
    test.args(["export", "--all", "-o", file.to_str().unwrap()]).code(0);
    let other = Test::new();
    other.args(["import", file.to_str().unwrap()]).found();
    let document = other.aj("sources --json").found().json();
    let agents = document["agents"].as_array().unwrap();
    let with_sessions = agents.iter().filter(|agent| agent["sessions"] != 0);
    assert_eq!(with_sessions.clone().count(), 2);
    for agent in with_sessions {
        assert_eq!(agent["bytes"], 0, "{agent}");
    }
    other.aj("sources").found().hides([" kB", " 0 B"]);
}

#[test]
fn what_is_imported_beside_the_original_counts_once() {
    let test = demo();
    let totals = |test: &Test| -> serde_json::Value {
        let stats = test.aj("stats --json").found().stdout;
        serde_json::from_str::<serde_json::Value>(&stats).unwrap()["totals"].clone()
    };
    let before = totals(&test);
    let file = test.beside("all.ndjson");
    test.args(["export", "--all", "-o", file.to_str().unwrap()]).code(0);
    let run = test.args(["import", file.to_str().unwrap()]).found();
    assert!(run.stdout.contains("5 sessions, 0 new"), "{run}");
    assert_eq!(totals(&test), before);
}

/// A message with more blocks than it may have.
fn with_many_blocks(blocks: usize) -> (Test, std::path::PathBuf) {
    let test = demo();
    let file = test.beside("one.json");
    let id = test.aj("list --json").ids()[0].clone();
    test.args(["export", &id, "--json", "-o", file.to_str().unwrap()]).code(0);
    let mut document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    document["session"]["id"] = "many-blocks".into();
    document["agent"] = "strange-agent".into();
    let block = |at: usize| serde_json::json!({ "type": "text", "text": format!("wombat{at}") });
    let content: Vec<Value> = (0..blocks).map(block).collect();
    document["messages"] = serde_json::json!([{ "index": 1, "role": "user", "uuid": "u1",
        "timestamp": "2026-03-02T09:00:00Z", "content": content }]);
    fs::write(&file, document.to_string()).unwrap();
    (test, file)
}

#[test]
fn a_message_has_a_bounded_number_of_blocks_and_all_of_it_is_found() {
    let (test, file) = with_many_blocks(20_000);
    test.args(["import", file.to_str().unwrap()]).code(0);
    let shown = test.aj("show many-blocks --json").code(0).json();
    let content = shown["messages"][0]["content"].as_array().unwrap();
    assert!(content.len() < 8200, "{} blocks", content.len());
    test.aj("show many-blocks").code(0).shows(["more blocks, joined]", "wombat19999"]);
    for word in ["wombat0", "wombat8191", "wombat12345", "wombat19999"] {
        test.args(["search", "--mode", "lexical", word]).code(0).found();
    }
}

#[test]
fn joined_blocks_of_an_imported_agent_are_listed_with_the_sources() {
    let (test, file) = with_many_blocks(20_000);
    assert_eq!(test.aj("sources --json").found().json()["imported"], serde_json::json!([]));
    test.args(["import", file.to_str().unwrap()]).code(0);
    test.aj("sources").found().shows([
        "strange-agent",
        "1 session (1 started by you)",
        "from 1 imported file",
        "skipped 1 × blocks of a very long message joined",
    ]);
    let imported = test.aj("sources --json").found().json()["imported"].clone();
    assert_eq!(imported[0]["id"], "strange-agent", "{imported}");
    assert_eq!(imported[0]["sessions"], 1, "{imported}");
}

#[test]
fn an_import_is_kept_when_the_index_cannot_be_written() {
    let from = demo();
    let file = from.beside("all.ndjson");
    let path = file.to_str().unwrap();
    from.args(["export", "--all", "-o", path]).code(0);
    let test = Test::new();
    fs::create_dir_all(test.journal("")).unwrap();
    let index = test.journal("index");
    fs::write(&index, "a file where a directory should be").unwrap();
    let run = test.args(["import", path]).code(0);
    assert!(run.stdout.contains("5 sessions, 5 new ("), "{run}");
    assert_eq!(run.stderr.lines().count(), 1, "{run}");
    run.says(["could not make the sessions findable", index.to_str().unwrap()]);
    let json = test.args(["import", "--json", path]).code(0).json();
    let imported = &json["files"][0]["imported"];
    assert_eq!(imported["sessions"], 5, "{json}");
    assert!(imported["index_error"].as_str().unwrap().contains("index"), "{json}");
    let ids = from.aj("list --all --json").ids();
    let listed = test.aj("list --all --json").code(0);
    assert_eq!(listed.ids(), ids);
    assert_eq!(listed.stderr.lines().count(), 1, "{listed}");
    test.args(["show", &ids[0]]).code(0);
    // As soon as the index can be written, everything is found.
    fs::remove_file(&index).unwrap();
    test.aj("search flaky").code(0);
    assert_eq!(everything(&test), everything(&from));
}

#[test]
fn an_imported_agent_can_be_named_in_filters() {
    let (test, file) = with_many_blocks(1);
    test.aj("list --agent strange-agent").fails(["unknown agent `strange-agent`"]);
    test.args(["import", file.to_str().unwrap()]).code(0);
    assert_eq!(test.aj("list --agent strange-agent --json").ids().len(), 1);
    assert_eq!(test.aj("search wombat0 agent:strange-agent --json").ids().len(), 1);
    test.aj("stats --agent strange-agent").code(0);
    test.aj("list --agent strange-agnet").fails(["did you mean `strange-agent`?"]);
    test.aj("search wombat0 -agent:strange-agnet").fails(["unknown agent"]);
}
