//! Every command of the program, run as people and programs run it.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{FLAKY, PORT, RETRY, Test, keys, text, two_agents};

const CHILD: &str = "a7b8c9";

// aj list

#[test]
fn list_shows_the_sessions_people_started_the_latest_first() {
    let run = two_agents().env("COLUMNS", "124").aj("list");
    let expected = "   codex   Port the tokenizer to winnow     lex · main       0199aaaa  1 May          1 prompt      1 tool  9.3k tok\n   claude  add a retry with backoff to the up…    api · feat/retry 3f1c0002  10 Apr         1 prompt     0 tools  9.2k tok\n   claude  Fix flaky login test             web · main       3f1c0001  2 Mar         2 prompts     2 tools   45k tok\n   └ 1 sub-agent, included above\n";
    assert_eq!(without_years(&run.found().stdout), without_years(expected));
}

#[test]
fn list_tells_what_sessions_cost_where_that_has_room() {
    let costs = |columns: &str| {
        let list = two_agents().env("COLUMNS", columns).aj("list").found().stdout;
        let ends = list.lines().filter_map(|line| line.split_whitespace().last());
        ends.filter(|end| end.contains('$')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(costs("136"), ["~$0.04", "~<$0.01", "~$0.02"]);
    assert!(costs("135").is_empty());
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
        let session = crate::support::Transcript::new(number).you("count me").agent("counted");
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
    test.aj("list --since tomorow").fails(["`tomorow` is not a date"]);
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
    for words in ["list", "search anything"] {
        test.aj(words).code(1).stdout("").says(["no agent history found"]);
    }
    test.aj("index").found().shows(["no agent history found"]);
    assert_eq!(test.aj("sources --json").found().json()["agents"][0]["sources"], 0);
    assert!(!test.journal("").exists(), "nothing to keep, and yet a journal was made");
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
    test.args(["list", "agent:claude \"never closed"])
        .fails(["unclosed quote (character 14): \"never closed"]);
    test.aj("search login agent:claud").fails(["unknown agent `claud`", "did you mean `claude`?"]);
    test.aj("search login role:robot").fails(["unknown role `robot`"]);
    test.aj("search login since:never").fails(["`never` is not a date"]);
    test.args(["search", "--", "-draft"]).fails(["the query only excludes"]);
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
    let mut session = show["session"].clone();
    assert_eq!(session, search["sessions"][0]);
    assert_eq!(session, list["sessions"][0]);
    let cost = session.as_object_mut().unwrap().remove("cost").unwrap();
    assert_eq!(keys(&cost), ["basis", "micros", "priced_share", "usd"]);
    let whole = session["with_subagents"].as_object_mut().unwrap().remove("cost").unwrap();
    assert!(whole["micros"].as_u64() > cost["micros"].as_u64(), "{whole} {cost}");
    let expected = serde_json::json!({
        "id": format!("claude-code:{FLAKY}"), "agent": "claude-code", "native_id": FLAKY,
        "title": "Fix flaky login test", "title_source": "generated",
        "project": "web", "project_path": "/home/mara/web", "cwd": "/home/mara/web",
        "branch": "main", "agent_version": "2.1.40",
        "started_at": "2026-03-02T09:01:00.000Z", "ended_at": "2026-03-02T09:08:00.000Z",
        "wall_s": 420, "active_s": 420, "status": "completed",
        "parent_id": null, "is_agent_session": false,
        "children": [format!("claude-code:{CHILD}")],
        "continues": null, "shared_messages": 0, "continued_by": [],
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
        "with_subagents": {
            "subagents": 1, "prompts": 2, "messages": 10, "tool_calls": 2, "tool_results": 2,
            "tool_errors": 1, "model_calls": 5,
            "tokens": {
                "input": 20, "output": 250, "cache_read": 45000, "cache_creation": 600,
                "reasoning": null,
            },
        },
        "refs": [], "repository": null, "summary": null, "branches": [], "directories": [],
    });
    assert_eq!(session, expected);
}

#[test]
fn every_answer_names_its_schema() {
    let test = two_agents();
    let check = |words: &str, schema: &str, fields: &[&str]| {
        let document = test.aj(words).found().json();
        assert_eq!(document["schema"], schema, "{words}");
        assert_eq!(keys(&document), fields, "{words}");
    };
    let index = ["bytes", "failures", "meaning", "pending", "schema", "sources", "took_ms"];
    check("index --json", "aj.index/1", &index);
    check("list --json", "aj.list/1", &["pending", "schema", "sessions", "total"]);
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
    let sources = ["agents", "imported", "journal", "meaning", "pending", "schema", "unread"];
    check("sources --json", "aj.sources/1", &sources);
    check("config show --json", "aj.config/1", &["file", "homes", "journal", "schema", "settings"]);
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
        "no sessions found for ",
        " 1 directory does not exist; `aj sources --all` lists it\n",
        "journal ",
    ]);
    test.aj("sources").hides(["(does not exist)"]);
    test.aj("sources --all")
        .found()
        .shows(["cursor", "(does not exist)"])
        .hides(["no sessions found for", "lists it"]);
}

#[test]
fn agents_that_cannot_be_read_are_named_with_the_reason() {
    let test = two_agents();
    test.aj("sources").found().hides(["Windsurf"]);
    assert_eq!(test.aj("sources --json").found().json()["unread"], Value::Array(Vec::new()));
    test.write(".codeium/windsurf/cascade/1.pb", "");
    test.write(".junie/sessions/index.jsonl", "");
    let path = test.path(".codeium/windsurf/cascade").display().to_string();
    test.aj("sources")
        .found()
        .shows([
            " Windsurf: found, not read: its vendor encrypts the sessions\n",
            &format!("   {path}\n"),
            " Junie: found, not read: its format is not supported yet\n",
        ])
        .hides([", Windsurf", ", Junie"]);
    let shown = test.aj("sources --json").found().json();
    let windsurf = serde_json::json!(
        { "id": "windsurf", "name": "Windsurf", "path": path, "reason": "encrypted" }
    );
    assert_eq!(shown["unread"][0], windsurf);
    assert_eq!(shown["unread"][1]["reason"], "no_connector");
    let note = format!("windsurf       not read: its vendor encrypts the sessions ({path})");
    test.aj("doctor").found().shows([&note]);
}

/// A log that an agent writes into its project, with one prompt.
fn chat_log(prompt: &str) -> String {
    format!("\n# aider chat started at 2026-03-02 09:00:00\n\n#### {prompt}  \n\nDone.\n\n")
}

#[test]
fn projects_that_no_agent_lists_are_found_below_the_home_directory() {
    let test = Test::new();
    test.write("work/team/api/.aider.chat.history.md", chat_log("rename the port"));
    test.write("node_modules/x/.aider.chat.history.md", chat_log("third party"));
    test.aj("list").found().shows(["rename the port"]).hides(["third party"]);
    test.aj("list").found();
    // A command that answers does not search all the time; `aj index` does.
    test.write("play/.aider.chat.history.md", chat_log("draw a maze"));
    test.aj("list").found().shows(["rename the port"]).hides(["draw a maze"]);
    test.aj("index").found();
    test.aj("list").found().shows(["rename the port", "draw a maze"]);
    // A log that is known is read as soon as it grows.
    test.append("play/.aider.chat.history.md", "#### add a door  \n\nAdded.\n");
    test.aj("search door").found().shows(["add a door"]);
    // After an hour, any command searches.
    test.write("music/.aider.chat.history.md", chat_log("tune the synth"));
    let past = std::time::SystemTime::now() - std::time::Duration::from_hours(2);
    let result = std::fs::File::options().write(true).open(test.journal("found_projects"));
    result.unwrap().set_modified(past).unwrap();
    test.aj("list").found().shows(["tune the synth"]);
}

#[test]
fn configured_directories_replace_the_search_for_projects() {
    let sources = "[storage.sources]\naider = \"~/only\"\ncrush = \"~/x\"\nopencode_go = \"~/x\"\n";
    let test = Test::new().config(sources);
    test.write("x/notes.md", "");
    test.write("only/.aider.chat.history.md", chat_log("rename the port"));
    test.write("play/.aider.chat.history.md", chat_log("draw a maze"));
    test.write("x/notes.md", "No project.");
    test.aj("index").found();
    test.aj("list").found().shows(["rename the port"]).hides(["draw a maze"]);
    assert!(!test.journal("found_projects").exists());
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
        .code(1)
        .stderr("aj: no session `ffff`\n    `aj list --all` lists all sessions with their ids\n");
}

#[test]
fn lines_fit_the_columns_there_are() {
    for columns in [80, 100, 120, 160] {
        let test = two_agents().env("COLUMNS", columns.to_string());
        for command in
            ["list --all", "search login", "show 3f1c0001", "stats", "sources", "score", "secrets"]
        {
            let lines = test.aj(command).stdout;
            // A path is whole, so that it can be copied.
            for line in lines.lines().filter(|line| !line.contains(".jsonl")) {
                let width = unicode_width::UnicodeWidthStr::width(line);
                assert!(width <= columns, "{width} > {columns}: {line}");
                assert!(command == "show 3f1c0001" || line == line.trim_end(), "{line:?}");
            }
        }
        for by in ["day", "agent", "model", "session", "tool"] {
            for line in test.args(["stats", "--by", by]).found().stdout.lines() {
                let width = unicode_width::UnicodeWidthStr::width(line);
                assert!(width <= columns, "{width} > {columns}: {line}");
            }
        }
    }
}

#[test]
fn what_agents_wrote_cannot_steer_the_terminal() {
    let test = Test::new();
    let session = crate::support::Transcript::new(1)
        .you("evil \u{1b}]0;title\u{7} \u{202e}text")
        .agent("\u{1b}[2Jgone");
    // Facts about a session are recorded too.
    let mut lines = session.lines.clone();
    for fact in ["/home/mara/web", "main", "2.1.40", "claude-sonnet-4-5"] {
        let evil = format!(r#""\u001b]0;title\u0007\u001b[2J{fact}""#);
        lines = lines.replace(&format!("\"{fact}\""), &evil);
    }
    test.write(session.path(), lines);
    for command in [
        "list",
        "search evil",
        "search evil -C 2",
        "search evil --facets project,model",
        "show 00000001",
        "show 00000001 --all",
        "handoff 00000001",
        "stats",
        "stats --by model",
        "stats --by branch",
        "stats --by project",
        "stats --explain",
        "score",
        "sources",
        "statusline",
    ] {
        let run = test.aj(&format!("{command} --color always")).found();
        run.hides(["\u{1b}]", "\u{7}", "[2J", "]0;title", "\u{202e}"]);
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
    run.shows(["Fix flaky login", "These were sample sessions."]);
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

#[test]
fn sums_are_limited_for_programs_when_they_ask_for_it() {
    let test = two_agents();
    let groups = |words: &str| {
        let document = test.aj(&format!("stats --json {words}")).found().json();
        let groups = document["groups"].as_array().unwrap().iter();
        groups.map(|group| text(group.get("key").unwrap_or(&group["tool"]))).collect::<Vec<_>>()
    };
    assert_eq!(groups("--by session").len(), 3);
    assert_eq!(groups("--by session -n 0").len(), 3);
    assert_eq!(groups("--by session -n 2"), groups("--by session")[..2]);
    // Of days the last are news.
    assert_eq!(groups("--by day -n 1"), ["2026-05-01"]);
    assert_eq!(groups("--by tool -n 1"), groups("--by tool")[..1]);
}
