//! What agents write today, seen from outside: figures, links and texts of resumed, forked and
//! rewritten histories.

use serde_json::Value;

use crate::support::Test;

/// The figures of everything in a home.
fn totals(test: &Test) -> Value {
    test.aj("index").found();
    test.aj("stats --json").found().json()["totals"].clone()
}

/// The listed session whose id begins so.
fn listed(test: &Test, id: &str) -> Value {
    let all = test.aj("list --all --json").found().json();
    let sessions = all["sessions"].as_array().unwrap();
    let is_it = |one: &&Value| one["native_id"].as_str().unwrap().starts_with(id);
    sessions.iter().find(is_it).unwrap_or_else(|| panic!("no {id} in {all}")).clone()
}

#[test]
fn resuming_gemini_takes_no_tokens_away() {
    let test = Test::new().fixture("gemini/resumed");
    let totals = totals(&test);
    // Twice resumed, once compressed and resumed: each call once, each prompt once.
    assert_eq!((&totals["prompts"], &totals["model_calls"]), (&8.into(), &10.into()));
    assert_eq!((&totals["tool_calls"], &totals["tool_errors"]), (&2.into(), &1.into()));
    let input = [2, 4, 6, 8, 10, 22, 24, 28, 30, 32].map(|n| 500 + n).iter().sum::<u64>();
    assert_eq!(totals["tokens"]["input"], input);
    let resumed = listed(&test, "7e550001");
    assert_eq!(resumed["started_at"], "2026-10-05T08:00:00.000Z");
    assert_eq!(resumed["tokens"]["cache_read"], 5 * 500);
    let shown = test.aj("show 7e550001").found();
    shown.shows(["count the sacks", "Three sacks.", "and the missing ones", "✗ run_shell_command"]);
    // A file that a resume began and never filled is no session.
    let all = test.aj("list --all --json").found().json();
    assert_eq!(all["sessions"].as_array().unwrap().len(), 3);
}

#[test]
fn gemini_prompts_are_what_was_typed() {
    let test = Test::new().fixture("gemini/around-prompts");
    test.aj("index").found();
    assert_eq!(listed(&test, "7e550004")["counts"]["user_prompts"], 4);
    assert_eq!(listed(&test, "s1eve0")["title"], "Weigh every sack and report the sum.");
    assert_eq!(listed(&test, "s1eve1")["title"], "Count the sieves. All of them.");
    let shown = test.aj("show 7e550004").found();
    let shown = shown.shows(["you\n     use the coarse sieve\n", "you\n     what is this?\n"]);
    shown.hides(["Current File Path", "PRIOR CHAT HISTORY", "Internal instruction"]);
    test.aj("search coarse sieve").found().shows(["sieve the flour"]);
}

const DYKE: &str = "01a15363-9e80-7000-8000-000000000001";
const GATE: &str = "01a1539a-8d00-7000-8000-000000000002";
const HINGES: &str = "01a15889-fa80-7000-8000-000000000003";

#[test]
fn a_codex_fork_is_shown_from_its_beginning_and_counts_what_is_its_own() {
    let test = Test::new().fixture("codex/forks-by-reference");
    let totals = totals(&test);
    assert_eq!((&totals["prompts"], &totals["model_calls"]), (&5.into(), &6.into()));
    assert_eq!((&totals["tool_calls"], &totals["tool_errors"]), (&3.into(), &1.into()));
    test.aj(&format!("show {HINGES}")).found().shows([
        "1 prompt · 0 tool calls · tokens in 600",
        &format!("continues codex:{GATE} (the first 10 messages)"),
        "1 you\n     raise the dyke\n",
        "7 you\n     and the gate\n",
        "11 you\n     oil the hinges\n",
    ]);
    // The origin went on later than its fork, and is the origin all the same.
    let origin = test.aj(&format!("show {DYKE}")).found();
    let origin = origin
        .shows(["2 prompts · 2 tool calls (1 failed)", &format!("continued by codex:{GATE}")]);
    origin.hides(["continues", "sub-agent"]);
    assert_eq!(listed(&test, DYKE)["children"], serde_json::json!([]));
    assert_eq!(listed(&test, HINGES)["models"], serde_json::json!(["gpt-5.5-mini"]));
    // A word of the shared beginning is found once, where it was said.
    let found = test.aj("search --json raise").found().json();
    let hits = found["hits"].as_array().unwrap();
    let prompts: Vec<&Value> = hits.iter().filter(|hit| hit["kind"] == "prompt").collect();
    assert_eq!(prompts.len(), 1, "{found}");
}

#[test]
fn the_order_in_which_forks_are_read_does_not_matter() {
    let test = Test::new().fixture("codex/forks-by-reference");
    let origin =
        test.path(&format!(".codex/sessions/2026/10/19/rollout-2026-10-19T09-00-00-{DYKE}.jsonl"));
    let aside = test.path("aside.jsonl");
    std::fs::rename(&origin, &aside).unwrap();
    test.aj("index").found();
    std::fs::rename(&aside, &origin).unwrap();
    test.aj("index --full").found();
    let totals = totals(&test);
    assert_eq!((&totals["prompts"], &totals["model_calls"]), (&5.into(), &6.into()));
}

#[test]
fn a_codex_sub_agent_counts_nothing_of_the_history_it_was_given() {
    let test = Test::new().fixture("codex/sub-agents");
    let totals = totals(&test);
    assert_eq!((&totals["prompts"], &totals["model_calls"]), (&1.into(), &4.into()));
    assert_eq!((&totals["tool_calls"], &totals["tool_errors"]), (&4.into(), &2.into()));
    let parent = test.aj("show 01a15953-65").found();
    parent.shows(["1 prompt", "survey the canal"]).hides(["continued by"]);
    assert_eq!(listed(&test, "01a15953-6a46")["title"], "Ada");
}

#[test]
fn what_a_session_continues_survives_export_and_import() {
    for case in ["codex/forks-by-reference", "codex/sub-agents"] {
        let test = Test::new().fixture(case);
        let before = totals(&test);
        let out = test.path("out.ndjson");
        let out = out.to_str().unwrap();
        test.args(["export", "--all", "--format", "ndjson", "--output", out]).code(0);
        let other = Test::new();
        other.args(["import", out]).code(0);
        let after = other.aj("stats --json").found().json()["totals"].clone();
        for figure in ["prompts", "tool_calls", "tool_errors", "model_calls", "tokens"] {
            assert_eq!(after[figure], before[figure], "{case}: {figure}");
        }
    }
}

#[test]
fn codex_prompts_are_what_was_typed() {
    let test = Test::new().fixture("codex/around-prompts");
    assert_eq!(totals(&test)["prompts"], 4);
    assert_eq!(listed(&test, "01a15f49")["title"], "read the chart");
    let shown = test.aj("show 01a15f49").found();
    let shown = shown.shows(["draw the chart", "what is wrong here", "you\n     the long way\n"]);
    shown.hides(["My request", "Prior conversation", "[Image #1]", "question_reply"]);
}

#[test]
fn gits_own_words_tell_codex_branches_that_nothing_records() {
    let test = Test::new().fixture("codex/branches");
    test.aj("index").found();
    let branch = |last: u8| {
        listed(&test, &format!("01a1f2aa-0001-7000-8000-00000000000{last}"))["branch"].clone()
    };
    assert_eq!((branch(1), branch(2)), ("feature/sluice".into(), "fix/lock".into()));
    assert_eq!(branch(3), "recorded");
}

#[test]
fn a_qwen_sub_agent_has_the_task_that_its_parent_gave_it() {
    let test = Test::new().fixture("qwen/tasks");
    let totals = totals(&test);
    assert_eq!((&totals["prompts"], &totals["model_calls"]), (&2.into(), &8.into()));
    assert_eq!(listed(&test, "debugger-x1y2z3")["title"], "Find the crack");
    assert_eq!(listed(&test, "debugger-a4b5c6")["title"], "Find the draught");
    test.aj("search candle").found().shows(["Hold a candle to the door."]);
}

/// A Gemini chat that names its project by a hash alone.
fn hashed_chat(test: &Test, id: char, hash: &str) {
    let session = format!("8e55000{id}-0001-4000-8000-000000000000");
    let head = format!(r#"{{"sessionId":"{session}","projectHash":"{hash}","kind":"main"}}"#);
    let prompt = format!(
        r#"{{"id":"p{id}","timestamp":"2026-10-11T08:00:01.000Z","type":"user","content":"sweep {id}"}}"#
    );
    let path = format!(".gemini/tmp/{hash}/chats/session-2026-10-11T08-00-8e55000{id}.jsonl");
    test.write(path, format!("{head}\n{prompt}\n"));
}

#[test]
fn a_project_known_by_its_hash_is_found_among_those_that_others_name() {
    let test = Test::new();
    let loft = "1c08f30b462d2f48ca12faae6b3431c6debc75726887b0e68f6d76bfd10893f7";
    // Of `c:\Users\mara\barn`; the other session writes the drive with a capital letter.
    let barn = "f6570c85f88a97409a69e88e51ae10c91ee33c3d002a054126bfe193f70c7dda";
    hashed_chat(&test, '1', loft);
    hashed_chat(&test, '2', barn);
    test.aj("index").found();
    assert_eq!(listed(&test, "8e550001")["cwd"], Value::Null);
    for (id, cwd) in [("1", "/home/mara/loft"), ("2", "C:\\\\Users\\\\mara\\\\barn")] {
        let thread = format!("0199f000-0000-7000-8000-00000000000{id}");
        let meta = format!(
            r#"{{"timestamp":"2026-10-12T08:00:00Z","type":"session_meta","payload":{{"id":"{thread}","cwd":"{cwd}"}}}}"#
        );
        let asked = r#"{"timestamp":"2026-10-12T08:00:01Z","type":"event_msg","payload":{"type":"user_message","message":"dust"}}"#;
        let path = format!(".codex/sessions/2026/10/12/rollout-2026-10-12T08-00-00-{thread}.jsonl");
        test.write(path, format!("{meta}\n{asked}\n"));
    }
    test.aj("index").found();
    assert_eq!(listed(&test, "8e550001")["cwd"], "/home/mara/loft");
    assert_eq!(listed(&test, "8e550001")["project"], "loft");
    assert_eq!(listed(&test, "8e550002")["cwd"], "C:\\Users\\mara\\barn");
}

#[test]
fn a_call_is_summed_up_by_the_file_it_is_about() {
    let test = Test::new();
    let thread = "0199f000-0000-7000-8000-000000000007";
    let line = |payload: &str| {
        format!(
            r#"{{"timestamp":"2026-10-12T08:00:01Z","type":"response_item","payload":{payload}}}"#
        )
    };
    let call = |name: &str, arguments: &str| {
        line(&format!(
            r#"{{"type":"function_call","name":"{name}","call_id":"{name}","arguments":{arguments:?}}}"#
        ))
    };
    let lines = [
        line(r#"{"type":"message","role":"user","content":"look"}"#),
        call("read_file", r#"{"end_line":42,"target_file":"src/loft.rs"}"#),
        call("edit_file", r#"{"code_edit":"import {","target_file":"src/barn.rs"}"#),
    ];
    let path = format!(".codex/sessions/2026/10/12/rollout-2026-10-12T08-00-00-{thread}.jsonl");
    test.write(path, lines.join("\n") + "\n");
    let shown = test.aj(&format!("show {thread}")).found();
    shown.shows(["▸ read_file src/loft.rs", "▸ edit_file src/barn.rs"]);
}

/// A run of Aider with one prompt.
fn run(time: &str, prompt: &str) -> String {
    format!(
        "\n# aider chat started at 2026-01-02 {time}\n\n> Aider v0.86.2  \n\n#### {prompt}  \n\n\
         Done with {prompt}.\n\n> Tokens: 1.0k sent, 10 received.  \n"
    )
}

#[test]
fn an_aider_log_whose_tail_was_replaced_loses_nothing() {
    let test = Test::new();
    let log = ".aider.chat.history.md";
    let first = run("03:00:00", "mend the roof");
    test.write(log, format!("{first}{}", run("04:00:00", "paint the door")));
    test.aj("index").found();
    // Another branch's log: the same first run, which goes on, and another run behind it.
    let more = format!("#### and the gutter  \n\nMended, too. {}\n", "x".repeat(200));
    test.write(log, format!("{first}\n{more}{}", run("05:00:00", "sweep the yard")));
    test.aj("search gutter").found().shows(["mend the roof"]);
    test.aj("search yard").found().shows(["sweep the yard"]);
    let all = test.aj("list --all --json").found().json();
    let present = |title: &str| {
        let sessions = all["sessions"].as_array().unwrap();
        let one = sessions.iter().find(|one| one["title"] == title).unwrap();
        one["source"]["present"].clone()
    };
    assert_eq!((present("mend the roof"), present("sweep the yard")), (true.into(), true.into()));
    assert_eq!(present("paint the door"), false);
    test.aj("list is:gone").found().shows(["paint the door"]).hides(["sweep the yard"]);
    // What comes back is there again.
    test.write(log, format!("{first}{}", run("04:00:00", "paint the door")));
    test.aj("index --full").found();
    assert_eq!(listed_title(&test, "paint the door")["source"]["present"], true);
}

fn listed_title(test: &Test, title: &str) -> Value {
    let all = test.aj("list --all --json").found().json();
    let sessions = all["sessions"].as_array().unwrap();
    sessions.iter().find(|one| one["title"] == title).unwrap().clone()
}
