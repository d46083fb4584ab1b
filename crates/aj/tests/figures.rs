//! One meaning per figure: the same numbers in lists, transcripts, pages, the API, statistics and
//! exports, and nothing that is not known is told as zero.

use serde_json::{Value, json};

use crate::support::server::Server;
use crate::support::{Test, Transcript};

const PARENT: &str = "77770000-0000-4000-8000-000000000001";

/// A call of a model with this many tokens in and out, and a call of a tool that may fail.
fn call(name: &str, model: &str, tokens: [u64; 2], is_error: bool) -> String {
    let answer = json!({
        "type": "assistant", "uuid": format!("{name}-a"), "sessionId": PARENT, "cwd": "/home/mara/web",
        "timestamp": "2026-03-02T09:01:00Z", "requestId": format!("r-{name}"),
        "message": { "role": "assistant", "id": format!("m-{name}"), "model": model,
            "content": [{ "type": "tool_use", "id": format!("t-{name}"), "name": "Bash", "input": { "command": "ls" } }],
            "usage": { "input_tokens": tokens[0], "output_tokens": tokens[1] } },
    });
    let result = json!({
        "type": "user", "uuid": format!("{name}-r"), "parentUuid": format!("{name}-a"),
        "sessionId": PARENT, "cwd": "/home/mara/web", "timestamp": "2026-03-02T09:02:00Z",
        "message": { "role": "user", "content": [{ "type": "tool_result",
            "tool_use_id": format!("t-{name}"), "content": "x", "is_error": is_error }] },
    });
    format!("{answer}\n{result}\n")
}

fn prompt(name: &str) -> String {
    let record = json!({
        "type": "user", "uuid": format!("{name}-p"), "sessionId": PARENT, "cwd": "/home/mara/web",
        "timestamp": "2026-03-02T09:00:00Z",
        "message": { "role": "user", "content": format!("task of {name}") },
    });
    format!("{record}\n")
}

/// A session of two calls that started two sub-agents with a call each.
fn family() -> Test {
    let test = Test::new();
    let project = ".claude/projects/-home-mara-web";
    let model = "claude-sonnet-4-5";
    let own = call("one", model, [100, 10], false) + &call("two", model, [200, 20], true);
    test.write(format!("{project}/{PARENT}.jsonl"), prompt("parent") + &own);
    for (name, is_error) in [("s1", true), ("s2", false)] {
        let lines = prompt(name) + &call(name, model, [1000, 100], is_error);
        let lines = lines.replace("\"type\":", "\"isSidechain\":true,\"type\":");
        test.write(format!("{project}/{PARENT}/subagents/agent-{name}.jsonl"), lines);
    }
    test
}

/// Input, output, calls of tools and failures, as a figure of `list`, `stats` or an export has it.
fn numbers(figures: &Value) -> Vec<u64> {
    let tokens = &figures["tokens"];
    let all =
        [&tokens["input"], &tokens["output"], &figures["tool_calls"], &figures["tool_errors"]];
    all.map(|it| it.as_u64().unwrap_or_else(|| panic!("{figures}"))).to_vec()
}

#[test]
fn a_session_has_the_same_figures_with_and_without_sub_agents_everywhere() {
    let test = family();
    let (own, whole) = (vec![300, 30, 2, 1], vec![2300, 230, 4, 2]);
    let listed = test.aj("list --json").code(0).json()["sessions"][0].clone();
    let shown = test.aj(&format!("show {PARENT} --json")).code(0).json()["session"].clone();
    let document = test.aj(&format!("export {PARENT} --json -o -")).code(0).json();
    let noted = &document["session"]["extensions"]["agent-journal"];
    let stats = |flags: &str| {
        let stats = test.aj(&format!("stats --by session --json{flags}")).code(0).json();
        let groups = stats["groups"].as_array().unwrap().clone();
        groups.into_iter().find(|one| one["key"] == format!("claude-code:{PARENT}")).unwrap()
    };
    let (with, without) = (stats(""), stats(" --own-only"));
    for session in [&listed, &shown] {
        let mut alone = session["counts"].clone();
        alone["tokens"] = session["tokens"].clone();
        assert_eq!(numbers(&alone), own);
        assert_eq!(numbers(&session["with_subagents"]), whole);
        assert_eq!(session["with_subagents"]["subagents"], 2);
        assert_eq!(session["with_subagents"]["prompts"], 1);
        assert_eq!(session["with_subagents"]["cost"], with["cost"]);
        assert_eq!(session["cost"], without["cost"]);
        assert_ne!(session["cost"], session["with_subagents"]["cost"]);
    }
    assert_eq!(numbers(&with), whole);
    assert_eq!(numbers(&without), own);
    assert_eq!(numbers(&noted["with_subagents"]), whole);
    assert_eq!(noted["with_subagents"]["cost"], with["cost"]);
    assert_eq!(noted["tokens"]["input"], 300);
    assert_eq!(noted["cost"], without["cost"]);
}

#[test]
fn people_see_the_sum_with_sub_agents_where_there_are_some() {
    let test = family().env("COLUMNS", "160");
    test.aj("list").found().shows([
        "4 tools",
        "2.5k tok",
        "~$0.01",
        "2 sub-agents, included above",
    ]);
    test.aj(&format!("show {PARENT}")).found().shows([
        "2 tool calls (1 failed) · tokens in 300 out 30",
        "with 2 sub-agents · 4 tool calls (2 failed) · tokens in 2.3k out 230",
    ]);
    // A group of sessions can be asked for by its id.
    test.aj("stats --by session").found().shows(["77770000  task of parent"]);
    let server = Server::start(test, &[]);
    let listed = server.json("/api/v1/sessions")["sessions"][0].clone();
    assert_eq!(numbers(&listed["with_subagents"]), [2300, 230, 4, 2]);
    let one = server.json(&format!("/api/v1/sessions/{PARENT}"));
    let one = if one["session"].is_null() { one } else { one["session"].clone() };
    assert_eq!(numbers(&one["with_subagents"]), [2300, 230, 4, 2]);
    let before = server.json("/api/sessions")[0].clone();
    assert_eq!(before["tokenUsage"]["totalInput"], 300);
    assert_eq!(before["withSubagents"]["tokenUsage"]["totalInput"], 2300);
    assert!(server.page("/").contains(">2.5k</span>"));
    let page = server.page(&format!("/session/claude-code:{PARENT}"));
    assert!(page.contains("with sub-agents") && page.contains("2.3k in"), "{page}");
}

/// A home in which nothing is recorded about tokens and nothing about time but one instant.
fn silent() -> Test {
    let test = Test::new();
    let answer = json!({
        "type": "assistant", "uuid": "a", "sessionId": PARENT, "cwd": "/home/mara/web",
        "timestamp": "2026-03-02T09:00:00Z",
        "message": { "role": "assistant", "id": "m", "model": "claude-sonnet-4-5",
            "content": [{ "type": "text", "text": "done" }] },
    });
    let lines = format!("{}{answer}\n", prompt("silent"));
    test.write(format!(".claude/projects/-home-mara-web/{PARENT}.jsonl"), lines);
    test
}

#[test]
fn what_is_not_recorded_is_never_zero() {
    let test = silent().env("COLUMNS", "160");
    let session = test.aj("list --json").code(0).json()["sessions"][0].clone();
    for class in ["input", "output", "cache_read", "cache_creation", "reasoning"] {
        assert!(session["tokens"][class].is_null(), "{class}: {session}");
        assert!(session["with_subagents"]["tokens"][class].is_null(), "{class}: {session}");
    }
    assert!(session["cost"]["usd"].is_null());
    assert!(session["active_s"].is_null() && session["wall_s"].is_null(), "{session}");
    let stats = test.aj("stats --json").code(0).json();
    assert!(stats["totals"]["tokens"]["input"].is_null(), "{stats}");
    assert!(stats["tokenUsage"]["totalInput"].is_null());
    assert!(stats["agents"][0]["tokens"]["output"].is_null());
    let document = test.aj(&format!("export {PARENT} --json -o -")).code(0).json();
    assert!(document["session"]["extensions"]["agent-journal"]["tokens"].is_null());
    test.aj(&format!("show {PARENT}")).found().shows(["active – ·", "tokens – · cost –"]);
    test.aj("stats").found().shows(["in –   out –   cache read –   write –   cost –"]);
}

#[test]
fn a_session_that_is_partly_priced_says_so() {
    let test = Test::new().env("COLUMNS", "160");
    let lines = prompt("half")
        + &call("one", "claude-sonnet-4-5", [9_000, 1_000], false)
        + &call("two", "nobody-knows-this-model", [9_000, 1_000], false);
    test.write(format!(".claude/projects/-home-mara-web/{PARENT}.jsonl"), lines);
    test.aj("list").found().shows(["~$0.04+"]);
    test.aj(&format!("show {PARENT}")).found().shows(["cost ~$0.04+ (50 % of tokens priced)"]);
    let session = test.aj("list --json").code(0).json()["sessions"][0].clone();
    assert_eq!(session["cost"]["priced_share"], 0.5);
    let server = Server::start(test, &[]);
    assert!(
        server.page(&format!("/session/claude-code:{PARENT}")).contains("50 % of tokens priced")
    );
}

#[test]
fn calls_of_tools_stay_out_of_every_format_where_the_settings_say_so() {
    let session =
        Transcript::new(0x4001).you("look around").tool("echo jabiru", false).agent("done");
    let test = Test::new().config("[export]\ninclude_tool_calls = false\n");
    test.write(session.path(), &session.lines);
    for format in ["html", "markdown", "json", "ndjson"] {
        let run = test.args(["export", &session.id, "--format", format, "-o", "-"]).code(0);
        assert!(run.stdout.contains("look around"), "{format}: {run}");
        assert!(!run.stdout.contains("jabiru"), "{format}: {run}");
    }
    let document = test.args(["export", &session.id, "--json"]).code(0).json();
    assert_eq!(document["messages"].as_array().unwrap().len(), 4, "messages keep their numbers");
    // A level that is asked for has what it has.
    let asked = test.args(["export", &session.id, "--json", "--detail", "tools"]).code(0);
    assert!(asked.stdout.contains("jabiru"));
}

#[test]
fn a_file_or_a_directory_is_written_by_what_was_asked_for() {
    let test = Test::new();
    for number in [0x4002, 0x4003] {
        let word = if number == 0x4002 { "pelican" } else { "stork" };
        let session = Transcript::new(number).you(word).agent("done");
        test.write(session.path(), &session.lines);
    }
    let into = |name: &str| test.beside(name).display().to_string();
    test.args(["export", "pelican", "-f", "markdown", "-o", &into("found")]).code(0);
    assert!(test.beside("found").is_dir(), "a query may find any number of sessions");
    test.args(["export", "00004002", "-f", "markdown", "-o", &into("one")]).code(0);
    assert!(test.beside("one").is_file(), "an id is one session");
    test.args(["export", "pelican OR stork", "-o", &into("both.md")])
        .fails(["2 sessions do not fit into one markdown file; use a directory with `-o`"]);
    assert!(!test.beside("both.md").exists());
}

#[test]
fn models_without_tokens_are_counted_and_projects_of_one_name_told_apart() {
    let test = silent().env("COLUMNS", "160");
    let models = test.aj("stats --json").code(0).json()["models"].clone();
    assert_eq!(
        (&models[0]["key"], &models[0]["sessions"]),
        (&json!("claude-sonnet-4-5"), &json!(1))
    );
    assert!(models[0]["tokens"]["input"].is_null(), "{models}");
    for (number, directory) in [(0x5001, "/home/mara/one/shop"), (0x5002, "/home/mara/two/shop")] {
        let session = Transcript::new(number).you("hello").agent("there");
        test.write(session.path(), session.lines.replace("/home/mara/web", directory));
    }
    let projects = test.aj("stats --json").code(0).json()["projects"].clone();
    let labels: Vec<&str> =
        projects.as_array().unwrap().iter().filter_map(|it| it["label"].as_str()).collect();
    for label in ["one/shop", "two/shop", "web"] {
        assert!(labels.contains(&label), "{labels:?}");
    }
}

#[test]
fn ids_of_sessions_are_as_long_as_those_of_a_list() {
    let test = Test::new().env("COLUMNS", "100");
    let session = Transcript::new(7).you("plate it").agent("done");
    let other = |text: &str| text.replace("-8000-000000000000", "-8000-000000000001");
    test.write(session.path(), &session.lines);
    test.write(other(&session.path()), other(&session.lines).replace("plate it", "etch it"));
    for command in ["list", "stats --by session"] {
        let shown = test.aj(command).found();
        shown.shows(["00000007-0000-4000-8000-000000000000", &other(&session.id)]);
    }
    // What a table names can be opened.
    test.args(["show", &other(&session.id)]).found().shows(["etch it"]);
}

#[test]
fn settings_of_export_and_search_hold_in_the_dashboard() {
    let settings = "[export]\ninclude_tool_calls = false\n\
                    [index.vector]\nmodel_path = \"~/m\"\nfallback = \"none\"\n";
    let test = Test::new().config(settings);
    let session = Transcript::new(8).you("look").tool("echo jabiru", false).agent("seen");
    test.write(session.path(), &session.lines);
    test.aj("index").code(0);
    let server = Server::start(test, &[]);
    for format in ["markdown", "html", "json"] {
        let path = format!("/api/sessions/{}/export?format={format}", session.id);
        let (_, page) = server.get(&path).told();
        assert!(page.contains("seen") && !page.contains("jabiru"), "{format}: {page}");
    }
    let (status, said) = server.get("/api/v1/search?q=look%20around&mode=semantic").told();
    assert_eq!(status, 400, "{said}");
    assert!(said.contains("search by meaning is not available: no model in"), "{said}");
}
