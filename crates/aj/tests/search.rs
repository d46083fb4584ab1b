//! `aj search` as people and agents run it: the language on a command line, the output, its bounds.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "tests make their own files")]

mod support;

use support::{FLAKY, PORT, RETRY, Test, Transcript, text, two_agents};

#[test]
fn a_word_to_leave_out_needs_no_quotes() {
    let test = two_agents();
    let check = |line: &str, expected: &[&str]| {
        let mut ids = test.aj(line).ids();
        ids.sort();
        assert_eq!(ids, expected, "{line}");
    };
    check("search login -retried --json", &[PORT, FLAKY]);
    check("search --json login -agent:codex -n 5", &[FLAKY, RETRY]);
    check("search --json -grammar login -n1 --offset 0", &[FLAKY]);
    check("list --json -agent:codex", &[FLAKY, RETRY]);
    check("search login OR tokenizer --json -retried", &[PORT, FLAKY]);
}

#[test]
fn a_malformed_query_is_one_line_and_exit_code_two() {
    let test = two_agents();
    for (query, parts) in [
        ("login \"open", ["a quote is not closed", "(character 7)"]),
        ("(login OR x", ["a parenthesis is not closed", "(character 1)"]),
        ("login)", ["a parenthesis closes nothing", "login)"]),
        ("/lo(gin/", ["`/lo(gin/` is no regular expression", "unclosed group"]),
        ("login sicne:7d", ["unknown field `sicne:`", "did you mean `since:`?"]),
        ("login since:soon", ["`soon` is no date", "last week"]),
        ("login is:runing", ["unknown `is:runing`", "`is:running`"]),
        ("login kind:robot", ["unknown kind `robot`", "tool_output"]),
        ("login OR agent:codex", ["`agent:` stands beside OR", "values of one field"]),
    ] {
        let run = test.args(["search", query]).fails(parts);
        assert_eq!(run.stderr.lines().count(), 1, "{query}");
    }
}

#[test]
fn lists_and_sums_take_the_same_fields() {
    let test = two_agents();
    assert_eq!(test.aj("list --json tool:bash project:web").found().ids(), [FLAKY]);
    assert_eq!(test.aj("list --json is:subagent").found().ids(), ["a7b8c9"]);
    assert_eq!(test.aj("list --json has:error").found().ids(), [FLAKY]);
    assert_eq!(test.aj("stats --json -agent:codex").found().json()["totals"]["sessions"], 2);
    test.aj("list login").fails(["`login` is no field", "`aj search` looks for words"]);
    test.aj("stats role:user").fails(["`role:` chooses messages"]);
    test.aj("export role:user").fails(["`role:` chooses messages"]);
}

#[test]
fn a_query_is_explained() {
    let test = two_agents();
    test.aj("search --explain flaky login OR signin -draft agent:claude")
        .found()
        .shows(["looks for", "flaky (login OR signin) -draft", "agent:claude-code"])
        .shows(["all words", "→ 1 session"]);
    let document = test.aj("search --explain --json flaky lgoin").found().json();
    assert_eq!(document["explain"]["looks_for"], serde_json::json!(["flaky", "lgoin"]));
    assert_eq!(document["corrected"], serde_json::json!({ "lgoin": "login" }));
    assert_eq!(document["explain"]["stages"][1]["name"], "typo");
}

#[test]
fn messages_around_a_hit_come_with_json_and_on_request() {
    let test = two_agents();
    let hit = &test.aj("search --json copper").found().json()["hits"][0];
    let indexes: Vec<u64> = hit["context"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["index"].as_u64().unwrap())
        .collect();
    assert_eq!(indexes, [5, 6, 7]);
    assert_eq!(hit["context"][2]["text"], "fix it and say why");
    let none = test.aj("search --json copper -C 0").found().json();
    assert_eq!(none["hits"][0]["context"], serde_json::json!([]));
    test.aj("search copper").found().hides(["fix it and say why"]);
    test.aj("search copper -C 1").found().shows(["    7 you      fix it and say why"]);
    test.aj("show 3f1c0001#8 -C 1").found().shows(["fix it and say why", "copper lattice"]);
}

#[test]
fn a_message_between_two_hits_is_told_once() {
    let test = Test::new();
    let session = Transcript::new(1).you("the first copper").agent("in between");
    let session = session.you("the second copper").agent("after it");
    test.write(session.path(), session.lines);
    let run = test.aj("search copper -C 2").found();
    let run = run.shows(["    2 claude   in between\n", "    4 claude   after it\n"]);
    for text in ["in between", "the second copper", "after it"] {
        assert_eq!(run.stdout.matches(text).count(), 1, "{text} in\n{run}");
    }
}

#[test]
fn no_limit_is_no_limit() {
    let test = Test::new();
    for number in 0..25 {
        let session = Transcript::new(number).you(&format!("copper {number}")).agent("yes");
        test.write(session.path(), session.lines);
    }
    test.aj("index").found();
    assert_eq!(test.aj("search --json copper").found().ids().len(), 20);
    assert_eq!(test.aj("search --json copper -n 0").found().ids().len(), 25);
    assert_eq!(test.aj("search --json copper -n 0 --offset 24").found().ids().len(), 1);
}

#[test]
fn a_word_behind_a_colour_is_found_and_shown_without_it() {
    let test = Test::new();
    let session = Transcript::new(1).you("run it").agent("all \x1b[31mquokka\x1b[0m done");
    test.write(session.path(), session.lines);
    let hit = &test.aj("search quokka --json").found().json()["hits"][0];
    let snippet = &hit["snippet"];
    assert_eq!(
        *snippet,
        serde_json::json!({ "text": "all quokka done",
        "highlights": [{ "start": 4, "end": 10 }] })
    );
    test.aj("search quokka -C 1").found().shows(["all quokka done"]);
    test.aj("show 00000001").found().shows(["     all quokka done\n"]);
}

#[test]
fn results_are_counted_by_facets() {
    let test = two_agents();
    let facets = &test.aj("search --json login --facets agent,month").found().json()["facets"];
    assert_eq!(facets["agent"][0], serde_json::json!({ "value": "claude-code", "count": 2 }));
    assert_eq!(facets["month"][0]["value"], "2026-05");
    test.aj("search login --facets project").found().shows(["project", "web 1"]);
}

#[test]
fn results_can_be_messages_and_in_the_order_of_time() {
    let test = two_agents();
    assert_eq!(test.aj("search --json login --sort time").ids(), [PORT, RETRY, FLAKY]);
    let document = test.aj("search --json login --group message -n 2").found().json();
    assert_eq!(document["total"], 5);
    assert_eq!(document["hits"].as_array().unwrap().len(), 2);
}

#[test]
fn a_bound_holds_for_the_whole_output_and_says_what_it_left_out() {
    let test = Test::new();
    for number in 0..12 {
        let mut session = Transcript::new(number);
        for at in 0..4 {
            let long = format!("copper {number} {at} {}", "and more to say ".repeat(40));
            session = session.you(&long).agent(&long);
        }
        test.write(session.path(), session.lines);
    }
    test.aj("index").found();
    for tokens in [100, 200, 400, 1000, 4000] {
        for format in ["", " --json"] {
            let run = test.aj(&format!("search copper{format} --max-tokens {tokens}")).found();
            assert!(run.stdout.len() <= tokens * 3, "{tokens}: {} bytes", run.stdout.len());
        }
    }
    let document = test.aj("search copper --json --max-tokens 1000").found().json();
    let left_out = &document["left_out"]["results"];
    let shown = document["sessions"].as_array().unwrap().len() as u64;
    assert!(shown > 0);
    assert_eq!(left_out["count"], 12 - shown);
    let get = format!("aj search copper --json --max-tokens 1000 --offset {shown}");
    assert_eq!(text(&left_out["get"]), get);
    test.aj("search copper --max-tokens 400")
        .found()
        .shows(["left out · aj search copper --max-tokens 400 --offset"]);
    let words = "search copper --agent=claude --sort time --offset=2 --json --max-tokens 1000";
    let document = test.aj(&format!("{words} -- -it's")).found().json();
    let shown = 2 + document["sessions"].as_array().unwrap().len();
    let get = "aj search copper --agent=claude --sort time --json --max-tokens 1000 --offset";
    let get = format!(r"{get} {shown} -- '-it'\''s'");
    assert_eq!(text(&document["left_out"]["results"]["get"]), get);
    let all = test.aj("search copper --json --max-tokens 100000").found().json();
    assert_eq!(all["left_out"], serde_json::Value::Null);
}

#[test]
fn headings_fit_their_width() {
    let test = two_agents();
    test.aj("index").found();
    for width in [40, 50, 60, 72, 79, 80, 100, 160] {
        let test = Test::new().home("two-agents").env("COLUMNS", width.to_string());
        for query in ["login", "why is the login so flaky on a monday", "lgoin"] {
            let run = test.args(["search", query]).found();
            for line in run.stdout.lines() {
                let columns = line.chars().count();
                assert!(columns <= width, "{columns} columns of {width}: {line}");
            }
        }
    }
}

#[test]
fn a_hit_in_a_sub_agent_says_where_it_is() {
    let test = two_agents();
    test.aj("search marmalade").found().shows(["Fix flaky login test", "in a7b8c9 "]);
    let document = test.aj("search --json marmalade").found().json();
    let hit = &document["hits"][0];
    assert_eq!(hit["session"], "claude-code:a7b8c9");
    assert_eq!(hit["task"], format!("claude-code:{FLAKY}"));
}
