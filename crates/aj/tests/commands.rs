//! Every command of the program, run as people and programs run it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "tests make their own files")]

mod support;

use std::fs;
use std::io::Read;
use std::process::Stdio;

use serde_json::Value;
use support::{Run, Test, keys, text};

const FLAKY: &str = "3f1c0001-0000-4000-8000-000000000001";
const RETRY: &str = "3f1c0002-0000-4000-8000-000000000002";
const PORT: &str = "0199aaaa-0000-7000-8000-000000000003";
const CHILD: &str = "a7b8c9";

fn two_agents() -> Test {
    Test::new().home("two-agents")
}

// aj list

#[test]
fn list_shows_the_sessions_people_started_the_latest_first() {
    let run = two_agents().env("COLUMNS", "124").aj("list");
    let expected = "   codex   Port the tokenizer to winnow     lex · main       0199aaaa  1 May          1 prompt      1 tool  9.3k tok\n   claude  add a retry with backoff to the up…    api · feat/retry 3f1c0002  10 Apr         1 prompt     0 tools  9.2k tok\n   claude  Fix flaky login test             web · main       3f1c0001  2 Mar         2 prompts     2 tools   36k tok\n   └ 1 sub-agent\n";
    assert_eq!(without_years(&run.found().stdout), without_years(expected));
}

/// The year is told only when it is another one.
fn without_years(text: &str) -> String {
    text.replace(" 2026 ", "      ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn list_all_shows_sub_agents_too() {
    let test = two_agents();
    assert_eq!(test.aj("list --json").found().ids(), [PORT, RETRY, FLAKY]);
    let all = test.aj("list --all --json").found();
    assert_eq!(all.ids(), [PORT, RETRY, FLAKY, CHILD]);
    let child = &all.json()["sessions"][3];
    assert_eq!(child["is_agent_session"], true);
    assert_eq!(child["parent_id"], format!("claude-code:{FLAKY}"));
    assert_eq!(all.json()["sessions"][2]["children"][0], format!("claude-code:{CHILD}"));
}

#[test]
fn list_has_a_limit_and_zero_means_none() {
    let test = Test::new();
    for number in 0..25 {
        let session = support::Transcript::new(number).you("count me").agent("counted");
        test.write(session.path(), session.lines);
    }
    test.aj("index").found();
    assert_eq!(test.aj("list --json").found().ids().len(), 20);
    assert_eq!(test.aj("list --json --limit 3").found().ids().len(), 3);
    assert_eq!(test.aj("list --json -n 0").found().ids().len(), 25);
    assert_eq!(test.aj("list --json --limit 3").json()["total"], 25);
}

#[test]
fn list_chooses_by_agent_project_branch_and_time() {
    let test = two_agents();
    let check = |words: &str, expected: &[&str]| {
        let run = test.aj(&format!("list --json {words}"));
        assert_eq!(run.ids(), expected, "{words}");
        run.code(i32::from(expected.is_empty())).stderr("");
    };
    check("--agent codex", &[PORT]);
    check("--agent claude --agent codex", &[PORT, RETRY, FLAKY]);
    check("--project web", &[FLAKY]);
    check("--project /home/mara", &[PORT, RETRY, FLAKY]);
    check("--branch feat/retry", &[RETRY]);
    check("--since 2026-04-10", &[PORT, RETRY]);
    check("--until 2026-04-10", &[RETRY, FLAKY]);
    check("--since 2026-03-03 --until 2026-04-30", &[RETRY]);
    check("--project absent", &[]);
    test.aj("list --agent cluade").fails(["unknown agent `cluade`", "did you mean `claude`?"]);
    test.aj("list --since tomorow").fails(["`tomorow` is no date"]);
}

#[test]
fn every_name_of_an_agent_is_understood_in_every_filter() {
    let test = two_agents();
    let names = [
        ("claude-code", "claude-code"),
        ("claude", "claude-code"),
        ("copilot-cli", "copilot-cli"),
        ("copilot", "copilot-cli"),
        ("cli", "copilot-cli"),
        ("vscode-copilot", "vscode-copilot"),
        ("vscode", "vscode-copilot"),
        ("codex", "codex"),
        ("codex-cli", "codex"),
        ("gemini", "gemini"),
        ("gemini-cli", "gemini"),
        ("cursor", "cursor"),
        ("qwen", "qwen"),
        ("qwen-code", "qwen"),
        ("aider", "aider"),
    ];
    for (name, id) in names {
        let list = test.aj(&format!("list --json --agent {name}"));
        let search = test.aj(&format!("search --json login agent:{name}"));
        let flag = test.aj(&format!("search --json login --agent {name}"));
        for run in [list, search, flag] {
            let found = ["claude-code", "codex"].contains(&id);
            assert_eq!(run.code, Some(i32::from(!found)), "{run}");
            for session in run.json()["sessions"].as_array().unwrap() {
                assert_eq!(session["agent"], id);
            }
        }
    }
}

#[test]
fn an_empty_home_is_no_error_and_costs_nothing() {
    let test = Test::new();
    test.aj("list").code(1).stdout("").stderr("");
    test.aj("search anything").code(1).stdout("").stderr("");
    test.aj("index").found().stdout("up to date\n");
    assert_eq!(test.aj("sources --json").found().json()["agents"][0]["sources"], 0);
    assert!(!test.journal("").exists(), "nothing to keep, and yet a journal was made");
}

// aj show

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

#[test]
fn a_session_is_found_by_its_id_a_beginning_of_it_and_with_its_agent() {
    let test = two_agents();
    let full = format!("claude-code:{FLAKY}");
    for id in [FLAKY, "3f1c0001", "3f1c0001-0000", &full, "claude:3f1c0001", "claude-code:3f1c0001"]
    {
        let run = test.args(["show", "--json", id]).found();
        assert_eq!(run.json()["session"]["id"], full, "{id}");
    }
    test.args(["show", "codex:3f1c0001"]).fails(["no session `codex:3f1c0001`"]);
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
        let parts = ["is no message of claude-code:3f1c0001", "it has messages 1 to 8"];
        test.aj(&format!("show 3f1c0001#{place}")).fails(parts);
    }
}

#[test]
fn an_ambiguous_id_lists_what_it_could_be() {
    let run = two_agents().aj("show 3f1c");
    let expected = format!(
        "aj: `3f1c` could be any of 2 sessions\n    claude-code:{FLAKY}  Fix flaky login test\n    claude-code:{RETRY}  add a retry with backoff to the upload worker\n"
    );
    run.code(2).stdout("").stderr(&expected);
}

#[test]
fn an_unknown_id_says_where_to_find_one() {
    let test = two_agents();
    for id in ["ffff", "", ":", "claude:", "%", "3f1c0001%"] {
        test.args(["show", id]).fails(["aj: no session `", "aj list --all"]);
    }
}

#[test]
fn show_gives_tools_and_thinking_only_when_asked() {
    let test = two_agents();
    test.aj("show 0199").found().shows(["▸ exec_command cargo test"]).hides(["41 passed"]);
    test.aj("show 0199 --tools").found().shows(["test result: ok. 41 passed", "\"cmd\""]);
}

// aj search

#[test]
fn search_shows_sessions_with_the_messages_that_fit() {
    let run = two_agents().env("COLUMNS", "100").aj("search copper lattice").found();
    run.shows(["claude", "Fix flaky login test", "3f1c0001", "web · main", "2 prompts"])
        .shows(["    8 claude   Fixed: the copper lattice of promises now awaits the cookie.\n"])
        .hides(["codex"]);
}

#[test]
fn words_phrases_beginnings_and_what_must_not_be_there() {
    let test = two_agents();
    let check = |query: &str, expected: &[&str]| {
        let run = test.args(["search", "--json", query]);
        let mut ids = run.ids();
        ids.sort();
        assert_eq!(ids, expected, "{query}");
        run.code(i32::from(expected.is_empty())).stderr("");
    };
    check("login", &[PORT, FLAKY, RETRY]);
    check("LOGIN grammar", &[PORT]);
    check("\"copper lattice\"", &[FLAKY]);
    check("\"lattice copper\"", &[]);
    check("tokeniz*", &[PORT]);
    check("waitfor*", &[FLAKY]);
    check("wait_for_session", &[FLAKY]);
    check("login -retried", &[PORT, FLAKY]);
    check("copper -lattice", &[]);
    check("copper -\"copper lattice\"", &[]);
    check("nosuchwordanywhere", &[]);
}

#[test]
fn what_a_sub_agent_said_is_found_with_the_session_that_asked_it() {
    let run = two_agents().aj("search --json marmalade").found();
    let session = &run.json()["sessions"][0];
    assert!(session["native_id"] == FLAKY || text(&session["parent_id"]).ends_with(FLAKY));
}

#[test]
fn fields_choose_where_to_search() {
    let test = two_agents();
    let check = |query: &str, expected: &[&str]| {
        let run = test.args(["search", "--json", query]);
        let mut ids = run.ids();
        ids.sort();
        assert_eq!(ids, expected, "{query}");
    };
    check("login agent:codex", &[PORT]);
    check("login project:web", &[FLAKY]);
    check("login branch:feat/retry", &[RETRY]);
    check("login role:user", &[FLAKY]);
    check("playwright role:tool", &[FLAKY]);
    check("passed role:assistant", &[]);
    check("login since:2026-04-01", &[PORT, RETRY]);
    check("login until:2026-03-31", &[FLAKY]);
    check("login since:2026-04-01 until:2026-04-30", &[RETRY]);
}

#[test]
fn mistakes_in_a_query_are_told_with_what_was_probably_meant() {
    let test = two_agents();
    test.aj("search prjoect:web login")
        .fails(["unknown field `prjoect:`", "did you mean `project:`?"]);
    test.args(["search", "login \"never closed"])
        .fails(["a quote is not closed (character 7): \"never closed"]);
    test.aj("search login agent:claud").fails(["unknown agent `claud`", "did you mean `claude`?"]);
    test.aj("search login role:robot").fails(["unknown role `robot`"]);
    test.aj("search login since:never").fails(["`never` is no date"]);
    test.args(["search", "agent:codex"]).fails(["nothing to look for"]);
    test.aj("search").code(2).stdout("").says(["Usage: aj search"]);
}

#[test]
fn a_search_shows_as_many_as_are_asked_for() {
    let test = two_agents();
    let first = test.aj("search --json login -n 1").found();
    assert_eq!((first.ids().len(), first.json()["total"].as_u64()), (1, Some(3)));
    let rest = test.aj("search --json login --limit 5 --offset 1").found();
    assert_eq!(rest.ids().len(), 2);
    assert!(!rest.ids().contains(&first.ids()[0]));
    let test = test.config("[search]\nmax_results = 2\n");
    assert_eq!(test.aj("search --json login").found().ids().len(), 2);
}

#[test]
fn an_answer_without_news_is_given_when_asked_for() {
    let test = two_agents();
    test.aj("search login --no-sync").code(1).stdout("");
    test.aj("index").found();
    test.aj("search login --no-sync").found();
}

// JSON

#[test]
fn a_session_has_the_same_fields_in_every_answer() {
    let test = two_agents();
    let list = test.aj("list --json --agent claude --project web").found().json();
    let show = test.aj("show --json 3f1c0001").found().json();
    let search = test.aj("search --json copper").found().json();
    let session = &show["session"];
    assert_eq!(*session, search["sessions"][0]);
    // A list tells more: what each session cost.
    let mut listed = list["sessions"][0].clone();
    let cost = listed.as_object_mut().unwrap().remove("cost").unwrap();
    assert_eq!(listed, *session);
    assert_eq!(keys(&cost), ["basis", "micros", "priced_share", "usd"]);
    let expected = serde_json::json!({
        "id": format!("claude-code:{FLAKY}"), "agent": "claude-code", "native_id": FLAKY,
        "title": "Fix flaky login test", "title_source": "generated",
        "project": "web", "project_path": "/home/mara/web", "cwd": "/home/mara/web",
        "branch": "main", "agent_version": "2.1.40",
        "started_at": "2026-03-02T09:01:00.000Z", "ended_at": "2026-03-02T09:08:00.000Z",
        "wall_s": 420, "active_s": 420, "status": "completed",
        "parent_id": null, "is_agent_session": false,
        "children": [format!("claude-code:{CHILD}")],
        "source": {
            "type": "local", "host": null, "present": true,
            "path": test.path(&format!(".claude/projects/-home-mara-web/{FLAKY}.jsonl")),
        },
        "counts": {
            "user_prompts": 2, "assistant_messages": 4, "tool_calls": 2, "tool_results": 2,
            "tool_errors": 1, "messages": 8,
        },
        "models": ["claude-sonnet-4-5"],
        "tokens": {
            "input": 16, "output": 200, "cache_read": 36000, "cache_creation": 480,
            "reasoning": null,
        },
        "refs": [],
    });
    assert_eq!(*session, expected);
}

#[test]
fn every_answer_names_its_schema() {
    let test = two_agents();
    let check = |words: &str, schema: &str, fields: &[&str]| {
        let document = test.aj(words).found().json();
        assert_eq!(document["schema"], schema, "{words}");
        assert_eq!(keys(&document), fields, "{words}");
    };
    let index = ["bytes", "failures", "meaning", "schema", "sources", "took_ms"];
    check("index --json", "aj.index/1", &index);
    check("list --json", "aj.list/1", &["schema", "sessions", "total"]);
    check("show 0199 --json", "aj.show/1", &["messages", "schema", "session"]);
    check(
        "search login --json",
        "aj.search/1",
        &["hits", "mode", "pending", "query", "schema", "sessions", "tier", "took_ms", "total"],
    );
    for name in ["stats", "score", "statusline"] {
        let document = test.aj(&format!("{name} --json")).code(0).json();
        assert_eq!(document["schema"], format!("aj.{name}/1"));
    }
    check("sources --json", "aj.sources/1", &["agents", "journal", "meaning", "pending", "schema"]);
    check("config show --json", "aj.config/1", &["file", "journal", "schema", "settings"]);
    check("config path --json", "aj.config/1", &["file", "schema"]);
    check("config init --json", "aj.config/1", &["file", "schema", "written"]);
    check("demo --json", "aj.demo/1", &["schema", "steps"]);
}

#[test]
fn an_answer_that_finds_nothing_is_a_document_too() {
    let test = two_agents();
    let search = test.aj("search --json nosuchword").code(1).json();
    assert_eq!((&search["total"], &search["hits"]), (&0.into(), &serde_json::json!([])));
    assert_eq!(test.aj("list --json --project absent").code(1).json()["total"], 0);
}

#[test]
fn a_hit_says_where_it_is_and_why() {
    let document = two_agents().aj("search --json copper").found().json();
    let hit = &document["hits"][0];
    assert_eq!(keys(hit), ["context", "kind", "message", "score", "session", "snippet", "tier"]);
    assert_eq!(hit["session"], format!("claude-code:{FLAKY}"));
    assert_eq!((&hit["kind"], &hit["tier"]), (&"reply".into(), &"all_words".into()));
    assert_eq!(hit["message"]["index"], 8);
    assert_eq!(hit["message"]["role"], "assistant");
    assert_eq!(hit["message"]["timestamp"], "2026-03-02T09:08:00.000Z");
    let range = &hit["snippet"]["highlights"][0];
    let (start, end) = (range["start"].as_u64().unwrap(), range["end"].as_u64().unwrap());
    assert_eq!(&text(&hit["snippet"]["text"])[start as usize..end as usize], "copper");
}

#[test]
fn a_message_has_its_blocks_in_order() {
    let document = two_agents().aj("show --json 3f1c0001#2 -C 1").found().json();
    let message = &document["messages"][1];
    assert_eq!((&message["index"], &message["role"]), (&2.into(), &"assistant".into()));
    let kinds: Vec<String> =
        message["content"].as_array().unwrap().iter().map(|one| text(&one["type"])).collect();
    assert_eq!(kinds, ["text", "tool_use"]);
    assert_eq!(message["content"][1]["tool_name"], "Bash");
    assert_eq!(message["tokens"]["output"], 50);
    assert_eq!(document["messages"][2]["content"][0]["is_error"], true);
}

// aj sources

#[test]
fn sources_tells_what_was_looked_at_and_understood() {
    let test = two_agents();
    let path = format!(".claude/projects/-home-mara-api/{RETRY}.jsonl");
    test.append(&path, "{\"type\":\"user\" broken\n");
    let document = test.aj("sources --json").found().json();
    let agents = document["agents"].as_array().unwrap();
    let agent = |id: &str| agents.iter().find(|agent| agent["id"] == id).unwrap();
    let claude = agent("claude-code");
    let expected = [
        ("sources", 3),
        ("sessions", 3),
        ("root_sessions", 2),
        ("with_cwd", 3),
        ("with_title", 3),
        ("with_model", 3),
        ("with_branch", 3),
        ("sources_gone", 0),
        ("sources_failed", 0),
    ];
    for (field, count) in expected {
        assert_eq!(claude[field], count, "{field}");
    }
    assert_eq!(claude["skipped"].as_object().unwrap().values().next(), Some(&Value::from(1)));
    assert_eq!(claude["roots"][0]["path"], text(&serde_json::json!(test.path(".claude/projects"))));
    assert_eq!(
        (&claude["roots"][0]["present"], &claude["roots"][1]["present"]),
        (&true.into(), &false.into())
    );
    assert_eq!(agent("codex")["sessions"], 1);
    assert_eq!(agent("gemini")["sources"], 0);
    test.aj("sources").found().shows([
        "claude-code",
        "3 sessions (2 started by you)",
        "% of ",
        "with directory 100 % · title 100 % · model 100 % · branch 100 %",
        "skipped 1 × ",
        "nothing found of ",
        "journal ",
    ]);
    test.aj("sources --all").found().shows(["cursor", "(not there)"]).hides(["nothing found of"]);
}

// Configuration

#[test]
fn config_path_show_and_init_agree() {
    let test = Test::new();
    let file = test.journal("config.toml");
    let line = format!("{}\n", file.display());
    test.aj("config path").found().stdout(&line);
    test.aj("config show").found().shows([
        "search.max_results",
        "= 20  # default",
        &line[..line.len() - 1],
    ]);
    test.aj("config init").found().stdout(&format!("wrote {line}"));
    test.aj("config init").fails(["exists already; it is left as it is", &line[..line.len() - 1]]);
    // As written it changes nothing; with the `#` gone every line is a valid setting.
    test.aj("config show").found().hides(["# file"]);
    let written = fs::read_to_string(&file).unwrap();
    let uncommented: String = written
        .lines()
        .filter(|line| !line.starts_with("# ") || line.contains(" = ") || line.starts_with("# ["))
        .flat_map(|line| [line.strip_prefix("# ").unwrap_or(line), "\n"])
        .collect();
    fs::write(&file, uncommented).unwrap();
    test.aj("config show").found().shows(["# file"]).hides(["# default"]);
}

#[test]
fn every_documented_key_is_accepted() {
    let config = r#"
        [storage]
        index_path = "~/elsewhere"
        [storage.sources]
        copilot_cli = "~/.copilot"
        claude_code = ["~/.claude", "~/backup/.claude"]
        cursor = "~/.cursor/conversations"
        [index]
        lucene_ram_buffer_mb = 64
        vector_precision = "f32"
        [index.vector]
        enabled = false
        model_path = "~/.chats/models"
        fallback = "none"
        [search]
        default_mode = "lexical"
        default_context = 1
        max_results = 5
        [export]
        default_format = "markdown"
        html_theme = "auto"
        include_tool_calls = false
    "#;
    let settings =
        Test::new().config(config).aj("config show --json").found().json()["settings"].clone();
    assert_eq!(
        settings["index.writer_memory_mb"],
        serde_json::json!({ "value": 64, "from": "file" })
    );
    assert_eq!(settings["search.default_mode"]["value"], "lexical");
    assert_eq!(settings["storage.sources.claude_code"]["value"][1], "~/backup/.claude");
}

#[test]
fn the_older_name_of_a_key_and_the_new_one_mean_the_same() {
    let test = Test::new().config("[index]\nlucene_ram_buffer_mb = 32\n");
    let settings = test.aj("config show --json").found().json();
    assert_eq!(settings["settings"]["index.writer_memory_mb"]["value"], 32);
}

#[test]
fn an_unknown_key_is_told_with_the_nearest_and_changes_nothing() {
    let test = two_agents().config(
        "[search]\nmax_result = 1\n[storage.sources]\nclaude_cod = \"/x\"\n[other]\nthing = 1\n",
    );
    let file = test.journal("config.toml").display().to_string();
    let run = test.aj("search --json login").code(0);
    assert_eq!(run.ids().len(), 3);
    run.says([&file, "unknown key `search.max_result` — did you mean `search.max_results`?"])
        .says(["unknown key `storage.sources.claude_cod` — did you mean `storage.sources.claude_code`?"])
        .says(["unknown key `other.thing`\n"]);
}

#[test]
fn a_wrong_configuration_is_told_with_its_place() {
    let check = |config: &str, part: &str| {
        let test = two_agents().config(config);
        let file = test.journal("config.toml").display().to_string();
        test.aj("list").fails([&file, part]);
    };
    check("[search]\nmax_results = \"many\"\n", "`search.max_results` must be a whole number");
    check("[search]\nmax_results = -1\n", "`search.max_results` must be a whole number");
    check("[index.vector]\nenabled = 1\n", "`index.vector.enabled` must be true or false");
    check("[search]\ndefault_mode = \"fuzzy\"\n", "must be lexical or semantic or hybrid");
    check(
        "[storage.sources]\ncodex = 3\n",
        "`storage.sources.codex` must be a path or a list of paths",
    );
    check("[search\n", "line 1");
}

#[test]
fn the_environment_beats_the_file_and_flags_beat_both() {
    let test = two_agents().config("[storage.sources]\nclaude_code = \"/nowhere\"\n");
    test.aj("list --agent claude")
        .code(1)
        .says(["could not read /nowhere: no such file or directory"]);
    let test = test.env("AJ_CLAUDE_PATH", "~/.claude");
    assert_eq!(test.aj("list --json --agent claude").found().ids(), [RETRY, FLAKY]);
    let settings = test.aj("config show --json").found().json()["settings"].clone();
    assert_eq!(
        settings["storage.sources.claude_code"],
        serde_json::json!({ "value": "~/.claude", "from": "environment" })
    );
}

#[test]
fn every_agent_has_a_variable_that_replaces_its_roots() {
    let elsewhere = Test::new();
    for (agent, variable) in [
        ("claude-code", "AJ_CLAUDE_PATH"),
        ("copilot-cli", "AJ_COPILOT_PATH"),
        ("vscode-copilot", "AJ_VSCODE_PATH"),
        ("codex", "AJ_CODEX_PATH"),
        ("gemini", "AJ_GEMINI_PATH"),
        ("qwen", "AJ_QWEN_PATH"),
        ("cursor", "AJ_CURSOR_PATH"),
        ("aider", "AJ_AIDER_PATH"),
    ] {
        let root = elsewhere.path("");
        let test = Test::new().env(variable, &root);
        let agents = test.aj("sources --json").found().json()["agents"].clone();
        let found = agents.as_array().unwrap().iter().find(|one| one["id"] == agent).unwrap();
        assert_eq!(
            found["roots"],
            serde_json::json!([{ "path": root, "present": true, "configured": true }])
        );
    }
}

#[test]
fn the_journal_lives_where_it_is_told_to() {
    let test = two_agents().env("AJ_HOME", "~/kept");
    test.aj("list").found();
    assert!(test.path("kept/journal.db").exists() && test.path("kept/index").exists());
    test.aj("config path").stdout(&format!("{}\n", test.path("kept/config.toml").display()));
    let settings = test.aj("config show --json").found().json()["settings"].clone();
    assert_eq!(
        settings["storage.index_path"]["value"],
        text(&serde_json::json!(test.path("kept/index")))
    );
    let test = test.without("AJ_HOME");
    test.aj("list").found();
    assert!(test.path(".agent-journal/journal.db").exists());
}

#[test]
fn the_index_lives_where_it_is_told_to() {
    let test = two_agents().env("AJ_INDEX_PATH", "~/fast-disk/index");
    test.aj("search copper").found();
    assert!(test.path("fast-disk/index").is_dir() && !test.journal("index").exists());
    let test = two_agents().config("[storage]\nindex_path = \"~/from-file\"\n");
    test.aj("search copper").found();
    assert!(test.path("from-file").is_dir() && !test.journal("index").exists());
}

#[test]
fn another_home_is_read_into_a_journal_of_its_own() {
    let backup = two_agents();
    let path = backup.path("").display().to_string();
    let test = Test::new().without("AJ_HOME");
    let config = "[storage.sources]\ncodex = \"~/gone\"\n";
    test.write(".agent-journal/config.toml", config);
    let session = support::Transcript::new(7).you("mine").agent("yours");
    test.write(session.path(), &session.lines);
    assert_eq!(test.args(["--home", &path, "list", "--json"]).found().ids(), [PORT, RETRY, FLAKY]);
    let own = test.args(["list", "--json"]).code(0).says(["gone: no such file or directory"]);
    assert_eq!(own.ids(), [session.id.as_str()]);
    assert_eq!(test.args(["search", "copper", "--json", "--home", &path]).found().ids(), [FLAKY]);
    test.args(["search", "copper"]).code(1);
    test.args(["--home", "/no/such/home", "list"]).fails(["could not read the home /no/such/home"]);
}

#[test]
fn another_home_never_disturbs_this_ones_index() {
    let backup = two_agents();
    let path = backup.path("").display().to_string();
    let test = Test::new().without("AJ_HOME");
    test.write(".agent-journal/config.toml", "[storage]\nindex_path = \"~/index\"\n");
    let session = support::Transcript::new(7).you("mine").agent("yours");
    test.write(session.path(), &session.lines);
    test.aj("index").found();
    let index = |test: &Test| fs::read(test.path("index/lexical/meta.json")).unwrap();
    let before = index(&test);
    test.args(["--home", &path, "search", "copper"]).found();
    assert!(index(&test) == before, "the index was made anew");
    assert_eq!(test.aj("search --no-sync --json mine").found().ids(), [session.id.as_str()]);
}

#[test]
fn a_tilde_means_the_home_everywhere() {
    let test = two_agents();
    support::copy(&test.path(".codex"), &test.path("moved/.codex"));
    fs::remove_dir_all(test.path(".codex")).unwrap();
    assert_eq!(test.args(["--home=~/moved", "list", "--json"]).found().ids(), [PORT]);
    let test = test.env("AJ_CODEX_PATH", "~/moved/.codex");
    assert_eq!(test.aj("list --json --agent codex").found().ids(), [PORT]);
}

// Output

#[test]
fn colours_are_for_terminals_unless_asked_for() {
    let test = two_agents();
    for command in ["list", "search login", "show 0199", "sources", "config show"] {
        test.aj(command).found().hides(["\u{1b}"]);
        test.aj(&format!("{command} --color always")).found().shows(["\u{1b}["]);
        test.aj(&format!("{command} --color never")).found().hides(["\u{1b}"]);
    }
    let test = test.env("NO_COLOR", "1").env("TERM", "xterm-256color");
    test.aj("list").found().hides(["\u{1b}"]);
    test.aj("show ffff")
        .code(2)
        .stderr("aj: no session `ffff`\n    `aj list --all` shows every session with its id\n");
}

#[test]
fn lines_fit_the_columns_there_are() {
    for columns in [80, 100, 120, 160] {
        let test = two_agents().env("COLUMNS", columns.to_string());
        for command in ["list --all", "search login"] {
            for line in test.aj(command).found().stdout.lines() {
                let width = unicode_width::UnicodeWidthStr::width(line);
                assert!(width <= columns, "{width} > {columns}: {line}");
            }
        }
    }
}

#[test]
fn what_agents_wrote_cannot_steer_the_terminal() {
    let test = Test::new();
    let session = support::Transcript::new(1)
        .you("evil \u{1b}]0;title\u{7} \u{202e}text")
        .agent("\u{1b}[2Jgone");
    test.write(session.path(), &session.lines);
    for command in ["list", "search evil", "show 00000001", "show 00000001 --all"] {
        test.aj(command).found().hides(["\u{1b}", "\u{7}", "\u{202e}"]);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let test = two_agents();
    test.aj("index").found();
    for command in [
        "list",
        "list --json",
        "search login",
        "search login --json",
        "show 3f1c0001",
        "show 3f1c0001 --json",
        "sources",
        "sources --json",
        "config show",
        "config show --json",
        "config path",
        "index",
        "index --json",
        "demo",
        "demo --json",
        "--help",
        "search --help",
    ] {
        let mut child = test
            .command(command.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let status = child.wait().unwrap();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{command}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let test = two_agents();
    test.aj("index").found();
    for command in [
        "list",
        "list --json",
        "search login",
        "search login --json",
        "show 3f1c0001",
        "show 3f1c0001 --json",
        "sources",
        "sources --json",
        "config show",
        "config show --json",
        "config path",
        "index",
        "index --json",
        "demo",
        "demo --json",
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output =
            test.command(command.split(' ')).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let output = output.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}: {stderr}");
        assert!(
            stderr.contains("No space left on device") && !stderr.contains("panicked"),
            "{command}: {stderr}"
        );
    }
}

// aj demo

#[test]
fn the_demo_works_without_any_history() {
    let test = Test::new();
    let run = test.aj("demo").found();
    let run = run.shows([
        "$ aj index\nread 5 sources",
        "$ aj search flaky login\n",
        "$ aj list\n",
        "$ aj show 5e1fb0a2\n",
    ]);
    run.shows(["Fix flaky login", "That was made up."]);
    assert!(!test.journal("").exists() && fs::read_dir(test.path("")).unwrap().next().is_none());
}

#[test]
fn the_demo_leaves_the_users_own_journal_and_history_alone() {
    let test = two_agents();
    test.aj("index").found();
    let meta = test.journal("index/lexical/meta.json");
    let before = fs::read(&meta).unwrap();
    let own = test.path(".claude");
    let test = test.env("AJ_INDEX_PATH", test_index(&meta)).env("AJ_CLAUDE_PATH", own);
    test.aj("demo").found().shows(["Fix flaky login"]).hides(["copper", "mara"]);
    assert!(fs::read(&meta).unwrap() == before, "the demo wrote into the user's own index");
    test.aj("search copper --no-sync").found();
}

fn test_index(meta: &std::path::Path) -> &std::path::Path {
    meta.parent().and_then(std::path::Path::parent).unwrap()
}

#[test]
fn the_demo_speaks_json_too() {
    let document = Test::new().aj("demo --json").found().json();
    let steps = document["steps"].as_array().unwrap();
    let schemas: Vec<String> = steps.iter().map(|step| text(&step["schema"])).collect();
    assert_eq!(schemas, ["aj.index/1", "aj.search/1", "aj.search/1", "aj.list/1", "aj.show/1"]);
}

// Help

/// Every command that has a help page.
const COMMANDS: &[&str] = &[
    "",
    "search",
    "list",
    "show",
    "resume",
    "handoff",
    "blame",
    "files",
    "stats",
    "score",
    "statusline",
    "export",
    "import",
    "secrets",
    "serve",
    "sources",
    "index",
    "config",
    "config show",
    "config path",
    "config init",
    "mcp",
    "skill",
    "doctor",
    "completions",
    "man",
    "demo",
    "tui",
];

#[test]
fn help_pages_are_as_they_were_read_last() {
    let test = Test::new().env("COLUMNS", "100");
    let mut wrong = Vec::new();
    for &command in COMMANDS {
        let run = test.aj(format!("{command} --help").trim_start()).found();
        let name = format!("help {command}").trim_end().replace(' ', "-");
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("tests/snapshots/{name}.txt"));
        if std::env::var_os("BLESS").is_some() {
            fs::write(&file, &run.stdout).unwrap();
        }
        if fs::read_to_string(&file).unwrap_or_default() != run.stdout {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "differ from their snapshots (BLESS=1 rewrites): {wrong:?}");
}

#[test]
fn every_command_is_on_the_first_help_page_and_among_those_tested() {
    let help = Test::new().aj("--help").found();
    let commands: Vec<&str> = help
        .stdout
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    for command in commands.into_iter().filter(|name| *name != "help") {
        assert!(COMMANDS.contains(&command), "`{command}` has no snapshot of its help");
    }
}

#[test]
fn the_examples_of_every_help_page_run() {
    let test = two_agents();
    test.aj("index").found();
    for command in COMMANDS.iter().filter(|command| !command.starts_with("config ")) {
        let help = test.aj(format!("{command} --help").trim_start()).found().stdout;
        let examples: Vec<&str> = help
            .lines()
            .skip_while(|line| *line != "Examples:")
            .skip(1)
            .take_while(|line| line.starts_with("  aj "))
            .collect();
        assert!(!examples.is_empty(), "`aj {command} --help` has no example");
        for example in examples {
            let line = example.trim_start();
            // What an example does is told after two or more spaces.
            let line = line.split_once("  ").map_or(line, |(line, _)| line);
            let line = line.split_once(" | ").map_or(line, |(line, _)| line);
            let line = line.split_once(" > ").map_or(line, |(line, _)| line);
            // Alone it opens a screen.
            let Some(line) = line.strip_prefix("aj ") else { continue };
            let words = words(line);
            let ids = |word: &String| word.replace("3f1c", "3f1c0001").replace("#14", "#4");
            // Ended by a person or a signal only: they have tests of their own.
            if words.iter().any(|word| word == "--watch") || ["serve", "tui"].contains(command) {
                continue;
            }
            // Some write files where they are run, and one reads a file.
            let here = tempfile::tempdir().unwrap();
            fs::create_dir(here.path().join("src")).unwrap();
            fs::write(here.path().join("src/main.rs"), "// by hand\n".repeat(60)).unwrap();
            if *command == "import" {
                for (what, file) in [("--all", "all.ndjson.zst"), ("3f1c0001", "session.json")] {
                    let file = here.path().join(file);
                    Run::of(test.command(["export", what, "-o"]).arg(file)).code(0);
                }
            }
            let run = Run::of(test.command(words.iter().map(ids)).current_dir(here.path()));
            // What stands in the way of resuming is a matter of the machine.
            let is_quiet = run.stderr.is_empty() || *command == "resume";
            assert!(matches!(run.code, Some(0 | 1)) && is_quiet, "{example}\n{run}");
        }
    }
}

/// Splits a line as a shell would, as far as examples need it.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for character in line.trim_end().chars() {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(character),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn the_program_tells_its_version_and_refuses_what_it_does_not_know() {
    let test = Test::new();
    test.aj("--version").found().stdout(concat!("aj ", env!("CARGO_PKG_VERSION"), "\n"));
    test.aj("frobnicate").code(2).stdout("").says(["unrecognized subcommand"]);
    test.aj("list --limit -1").code(2).stdout("");
    test.aj("list --frobnicate").code(2).stdout("").says(["unexpected argument"]);
}
