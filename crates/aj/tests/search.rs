//! `aj search` as people and agents run it: the language on a command line, the output, its bounds.

use crate::support::{FLAKY, PORT, RETRY, Test, Transcript, text, two_agents};

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
fn sessions_are_chosen_by_their_tokens() {
    let test = Test::new();
    let short = Transcript::new(1).you("short").agent("once");
    let long = Transcript::new(2).you("long").agent("once").agent("twice");
    for session in [&short, &long] {
        test.write(session.path(), &session.lines);
    }
    // Every reply of these transcripts has 15 tokens.
    let check = |field: &str, expected: &[&str]| {
        let mut ids = test.aj(&format!("list --json {field}")).ids();
        ids.sort();
        assert_eq!(ids, expected, "{field}");
    };
    let (short, long) = (&*short.id, &*long.id);
    check("tokens:16..", &[long]);
    check("tokens:..15", &[short]);
    check("tokens:15..30", &[short, long]);
    check("-tokens:30", &[short]);
    check("tokens:..1k", &[short, long]);
}

#[test]
fn a_misspelt_field_is_one_line_and_exit_code_two() {
    let test = two_agents();
    for (query, parts) in [
        ("-login -draft", ["the query only excludes", "at least one word"]),
        ("login source:nobody", ["unknown agent `nobody`", "expected one of"]),
        ("login sicne:7d", ["unknown field `sicne:`", "did you mean `since:`?"]),
        ("login since:soon", ["`soon` is not a date", "last week"]),
        ("login is:runing", ["unknown `is:runing`", "`is:running`"]),
        ("login kind:robot", ["unknown kind `robot`", "tool_output"]),
        ("login OR agent:codex", ["`agent:` cannot be joined by OR", "values of one field"]),
    ] {
        let run = test.args(["search", query]).fails(parts);
        assert_eq!(run.stderr.lines().count(), 1, "{query}");
    }
}

#[test]
fn what_is_no_query_is_read_as_words() {
    let test = two_agents();
    for (query, reason) in [
        ("login \"open", "unclosed quote (character 7)"),
        ("(login OR x", "unclosed parenthesis (character 1)"),
        ("login)", "unmatched parenthesis (character 6)"),
        ("/lo(gin/ login", "`/lo(gin/` is not a valid regular expression (character 1)"),
        ("login is:it", "unknown `is:it`"),
        ("login = (a) -x; \"y\"", "it looks like a copied line"),
    ] {
        let run = test.args(["search", query]);
        assert_ne!(run.code, Some(2), "{query}: {}", run.stderr);
        let note = format!("read as words: {reason}");
        assert!(run.stderr.contains(&note), "{query}: {}", run.stderr);
        let json = test.args(["search", "--json", query]).json();
        assert_eq!(json["note"], note.as_str(), "{query}");
    }
    // Fields at either end keep their meaning.
    let ids = test.args(["search", "--json", "agent:codex login) ("]).code(0).ids();
    assert_eq!(ids, [PORT]);
}

#[test]
fn lists_and_sums_take_the_same_fields() {
    let test = two_agents();
    assert_eq!(test.aj("list --json tool:bash project:web").found().ids(), [FLAKY]);
    assert_eq!(test.aj("list --json is:subagent").found().ids(), ["a7b8c9"]);
    assert_eq!(test.aj("list --json has:error").found().ids(), [FLAKY]);
    assert_eq!(test.aj("stats --json -agent:codex").found().json()["totals"]["sessions"], 2);
    test.aj("list login").fails(["`login` is not a field", "use `aj search` to search for words"]);
    assert_eq!(test.aj("list --json role:user agent:codex").found().ids(), [PORT]);
    test.aj("stats role:user").fails(["`role:` selects messages"]);
    test.aj("export role:user").fails(["`role:` selects messages"]);
}

#[test]
fn a_query_is_explained() {
    let test = two_agents();
    test.aj("search --explain flaky login OR signin -draft agent:claude")
        .found()
        .shows(["searches for", "flaky (login OR signin) -draft", "agent:claude-code"])
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
    test.aj("search marmalade").found().shows(["Fix flaky login test", "sub-agent a7b8c9: "]);
    let document = test.aj("search --json marmalade").found().json();
    let hit = &document["hits"][0];
    assert_eq!(hit["session"], "claude-code:a7b8c9");
    assert_eq!(hit["task"], format!("claude-code:{FLAKY}"));
}

/// Sessions of one prompt each.
fn prompts(texts: &[&str]) -> Test {
    let test = Test::new();
    for (number, text) in (1..).zip(texts) {
        let session = Transcript::new(number).you(text).agent("yes");
        test.write(session.path(), session.lines);
    }
    test
}

#[test]
fn a_word_in_another_form_is_found_after_the_word_itself() {
    let texts = ["the staging migration failed", "both migrations are done", "migrating birds"];
    let test = prompts(&texts);
    let run = test.aj("search --json --mode lexical migrations").found();
    let tiers = |run: &crate::support::Run| -> Vec<String> {
        run.json()["hits"].as_array().unwrap().iter().map(|hit| text(&hit["tier"])).collect()
    };
    assert_eq!(
        run.ids(),
        ["00000002-0000-4000-8000-000000000000", "00000001-0000-4000-8000-000000000000"]
    );
    // A title and a prompt each.
    assert_eq!(tiers(&run), ["all_words", "all_words", "word_forms", "word_forms"]);
    let found = test.aj("search --json --mode lexical failing").found().json();
    assert_eq!(
        found["hits"][0]["snippet"]["highlights"],
        serde_json::json!([{ "start": 22, "end": 28 }])
    );
    test.aj("search migrations").found().shows(["other word forms"]);
    // Phrases, beginnings and what is left out are meant as they stand.
    test.args(["search", "--mode", "lexical", "\"staging migrations\""]).code(1);
    assert_eq!(test.aj("search --json --mode lexical done -migration").found().ids().len(), 1);
}

#[test]
fn one_inflected_or_mistyped_word_does_not_empty_a_search() {
    let texts = [
        "the uploads worker crashes when a file is empty",
        "the database migration failed on staging",
    ];
    let test = prompts(&texts);
    for query in [
        "worker migration",
        "worker migrations",
        "workers migration",
        "workr migration",
        "zzz migration",
    ] {
        let mut line = vec!["search", "--mode", "lexical", "--json"];
        line.extend(query.split(' '));
        let found = test.args(line).found();
        let expected = if query.starts_with("zzz") { 1 } else { 2 };
        assert_eq!(found.ids().len(), expected, "{query}");
        assert_eq!(found.json()["tier"], "some_words", "{query}");
    }
}

#[test]
fn not_and_times_that_are_left_out_mean_what_they_say() {
    let test = two_agents();
    let check = |line: &str, expected: &[&str]| {
        let mut ids = test.aj(line).ids();
        ids.sort();
        assert_eq!(ids, expected, "{line}");
    };
    check("search --json login NOT retried", &[PORT, FLAKY]);
    check("search --json login AND NOT agent:codex", &[FLAKY, RETRY]);
    check("search --json login source:codex", &[PORT]);
    for command in ["search login", "list"] {
        for day in ["2026-03-02", "2026-05-01", "2026-07-01"] {
            let ids = |field: &str| {
                let mut ids = test.aj(&format!("{command} --json {field}:{day}")).ids();
                ids.sort();
                ids
            };
            let (since, before) = (ids("since"), ids("-since"));
            let both: Vec<String> = since.iter().chain(&before).cloned().collect();
            assert_eq!(both.len(), 3, "{command} {day}: {since:?} {before:?}");
            assert!(since.iter().all(|id| !before.contains(id)), "{command} {day}");
            let (until, after) = (ids("until"), ids("-until"));
            assert_eq!(until.len() + after.len(), 3, "{command} {day}: {until:?} {after:?}");
        }
    }
}

#[test]
fn fields_alone_list_what_fits() {
    let test = two_agents();
    let sessions = test.aj("search --json project:web").found();
    assert_eq!(sessions.ids(), test.aj("list --json project:web").found().ids());
    assert_eq!(sessions.json()["tier"], "listed");
    assert_eq!(sessions.json()["hits"], serde_json::json!([]));
    let all = test.args(["search", "--json", "*"]).found();
    assert_eq!(all.ids(), test.aj("list --json").found().ids());
    // What is asked of messages is answered by messages, the latest first.
    let prompts = test.aj("search --json role:you agent:claude -C 0").found().json();
    let hits = prompts["hits"].as_array().unwrap();
    assert_eq!(prompts["total"], hits.len());
    assert!(hits.len() > 2 && hits.iter().all(|hit| hit["kind"] == "prompt"), "{prompts:#}");
    let times: Vec<String> = hits.iter().map(|hit| text(&hit["message"]["timestamp"])).collect();
    assert!(times.is_sorted_by(|one, next| one >= next), "{times:?}");
    let second = test.aj("search --json role:you agent:claude -C 0 -n 1 --offset 1").found().json();
    assert_eq!((&second["hits"][0], &second["total"]), (&hits[1], &prompts["total"]));
    assert_eq!(
        test.aj("search role:you agent:claude").found().stdout.matches("Fix flaky").count(),
        1
    );
    test.aj("search --json kind:title -agent:codex -role:title").code(1);
    test.aj("search role:you project:nowhere").code(1).stdout("");
    let facets = &test.aj("search --json role:you --facets agent").found().json()["facets"];
    assert_eq!(facets["agent"][0]["value"], "claude-code");
}

#[test]
fn failures_are_chosen_message_by_message() {
    let test = Test::new();
    let session =
        Transcript::new(1).you("build it").tool("make all", true).tool("make test", false);
    test.write(session.path(), session.lines);
    let session = Transcript::new(2).you("look").tool("make check", false);
    test.write(session.path(), session.lines);
    let run = test.aj("search tool:bash is:failed").found();
    run.shows(["build it", "make all → outcome of make all"]).hides(["make test", "make check"]);
    let failed = test.aj("search --json is:failed outcome").found().json();
    assert_eq!((&failed["total"], &failed["hits"][0]["message"]["index"]), (&1.into(), &3.into()));
    let others = test.aj("search --json -is:failed outcome --group message").found().json();
    assert_eq!(others["total"], 2);
    assert_eq!(
        test.aj("list --json is:failed").found().ids(),
        ["00000001-0000-4000-8000-000000000000"]
    );
    assert_eq!(
        test.aj("list --json tool:bash -is:failed").found().ids(),
        ["00000002-0000-4000-8000-000000000000"]
    );
    test.aj("search is:failed tool:edit_file").code(1);
}

#[test]
fn a_phrase_is_shown_where_it_was_found() {
    let beginning = "about this error, try this: ".repeat(20);
    let test = prompts(&[&format!("{beginning} error: could not compile `web` (bin)")]);
    let run = test.args(["search", "\"error: could not compile\""]).found();
    run.shows(["error: could not compile"]);
    let long = format!("{} the last quokka stands here", "line of output\n".repeat(40_000));
    let test = prompts(&[&long]);
    test.aj("search --mode lexical quokka").found().shows(["the last quokka stands here"]);
}

/// A session in which a tool was given an input, in a directory and on a branch.
fn with_call(number: u64, tool: &str, input: &serde_json::Value) -> Transcript {
    let mut session =
        Transcript::new(number).you(&format!("prompt {number}")).tool("COMMAND", false);
    let lines = session.lines.replace("\"Bash\"", &format!("\"{tool}\""));
    session.lines = lines.replace(r#"{"command":"COMMAND"}"#, &input.to_string());
    session
}

#[test]
fn touched_files_are_found_ranked_and_told_apart() {
    let test = Test::new();
    let file = |path: &str| serde_json::json!({ "file_path": path });
    for (number, tool, path) in
        [(1, "Read", "shared.rs"), (2, "Edit", "shared.rs"), (3, "Write", "other.rs")]
    {
        let session = with_call(number, tool, &file(&format!("/home/mara/web/{path}")));
        test.write(session.path(), session.lines);
    }
    let id = |number: u64| format!("{number:08x}-0000-4000-8000-000000000000");
    let mut ids = test.aj("list --json file:shared.rs").found().ids();
    ids.sort();
    assert_eq!(ids, [id(1), id(2)]);
    assert_eq!(test.aj("list --json edited:shared.rs").found().ids(), [id(2)]);
    assert_eq!(test.aj("list --json has:edit -edited:other.rs").found().ids(), [id(2)]);
    assert_eq!(test.aj("search --json prompt file:other").found().ids(), [id(3)]);
    let files = test.aj("files --json").found().json();
    let first = &files["files"][0];
    assert_eq!(
        (text(&first["path"]).as_str(), files["total"].as_u64()),
        ("/home/mara/web/shared.rs", Some(2))
    );
    assert_eq!(
        (&first["viewed"], &first["edited"], &first["created"], &first["edits"]),
        (&1.into(), &1.into(), &0.into(), &1.into())
    );
    test.aj("files other").found().shows(["other.rs", "1 session · created 1×"]);
    test.aj("files --project nowhere").code(1);
    test.aj("show 00000001").found().shows(["1 file touched, 0 changed: shared.rs"]);
    let shown = test.aj("show 00000003 --json").found().json();
    assert_eq!(shown["session"]["files"][0]["created"], 1);
}

#[test]
fn files_that_only_a_format_lists_are_touched() {
    let test = Test::new();
    let session = Transcript::new(1).you("hello");
    let snapshot = serde_json::json!({ "type": "file-history-snapshot", "messageId": "m",
        "snapshot": { "messageId": "m", "trackedFileBackups": { "/home/mara/web/kept.rs": {} } } });
    test.write(session.path(), format!("{}{snapshot}\n", session.lines));
    assert_eq!(test.aj("list --json file:kept.rs").found().ids().len(), 1);
    test.aj("files").found().shows(["kept.rs", "1 session · listed"]);
    test.aj("list edited:kept.rs").code(1);
}

#[test]
fn every_branch_and_directory_of_a_session_is_found_and_shown() {
    let test = Test::new();
    let session = Transcript::new(1).you("one").agent("two").you("three").agent("four");
    let mut lines: Vec<String> = session.lines.lines().map(str::to_owned).collect();
    lines[0] = lines[0].replace("\"main\"", "\"feature/long\"");
    lines[2] = lines[2].replace("/home/mara/web", "/home/mara/web/deep");
    test.write(session.path(), lines.join("\n") + "\n");
    for field in ["branch:feature/long", "branch:main", "path:web/deep", "path:/home/mara/web"] {
        assert_eq!(test.aj(&format!("list --json {field}")).found().ids().len(), 1, "{field}");
        assert_eq!(test.aj(&format!("search --json three {field}")).found().ids().len(), 1);
    }
    test.aj("list branch:feature").code(1);
    test.aj("list -- -branch:feature/long").code(1);
    test.aj("show 00000001").found().shows(["branches feature/long, main", "/home/mara/web/deep"]);
    let listed = test.aj("list --json").found().json();
    assert_eq!(listed["sessions"][0]["branches"], serde_json::json!(["feature/long", "main"]));
}

/// A Copilot session whose name hides its summary, with a repository and a commit.
#[test]
fn summaries_repositories_and_commits_are_found_behind_a_better_title() {
    let test = Test::new();
    let id = "aaaaaaa1-0000-4000-8000-000000000001";
    let folder = format!(".copilot/session-state/{id}");
    let event = |kind: &str, data: serde_json::Value| {
        let at = "2026-06-01T10:00:00Z";
        serde_json::json!({ "type": kind, "data": data, "id": kind, "timestamp": at }).to_string()
    };
    let context = serde_json::json!({ "cwd": "/srv/p", "repository": "octo/repo" });
    let start = serde_json::json!({ "sessionId": id, "version": 1, "context": context });
    let prompt = serde_json::json!({ "content": "a prompt", "attachments": [] });
    let lines = [event("session.start", start), event("user.message", prompt)];
    test.write(format!("{folder}/events.jsonl"), lines.join("\n") + "\n");
    test.write(
        format!("{folder}/workspace.yaml"),
        format!(
            "id: {id}\ncwd: /srv/p\nrepository: octo/repo\nname: A name\nsummary: Yaml emusummary\n"
        ),
    );
    assert_eq!(test.aj("list --json project:octo/repo").found().ids(), [id]);
    test.aj("search --mode lexical emusummary").found().shows(["A name", "emusummary"]);
    test.aj("show aaaaaaa1").found().shows(["summary Yaml emusummary", "repository octo/repo"]);
    let listed = test.aj("list --json").found().json();
    assert_eq!(listed["sessions"][0]["summary"], "Yaml emusummary");
    assert_eq!(listed["sessions"][0]["repository"], "octo/repo");
}

#[test]
fn a_pull_request_is_found_by_its_address() {
    let test = Test::new();
    let session = Transcript::new(1).you("hello").agent("done");
    let link = serde_json::json!({ "type": "pr-link", "sessionId": session.id, "prNumber": 4711,
        "prUrl": "https://example.com/octo/quollrepo/pull/4711", "prRepository": "octo/quollrepo",
        "timestamp": "2026-03-02T00:00:05.000Z" });
    test.write(session.path(), format!("{}{link}\n", session.lines));
    test.aj("search --mode lexical quollrepo").found().shows(["hello", "octo/quollrepo/pull/4711"]);
}

#[test]
fn a_query_beyond_the_limits_is_an_ordinary_mistake() {
    let test = two_agents();
    test.aj("index");
    let deep = |open: &str| format!("{}a{}", open.repeat(20_000), ")".repeat(20_000));
    let many = |item: &str, count: usize| vec![item; count].join(" OR ");
    let nested = |open: &str| format!("{}a{}", open.repeat(33), ")".repeat(33));
    for (query, part) in [
        (deep("("), "the query is too long"),
        (deep("-("), "the query is too long"),
        (nested("("), "nested more than 32 deep"),
        (nested("-("), "nested more than 32 deep"),
        (nested("NOT (b OR "), "nested more than 32 deep"),
        (many("a* OR b*", 6_000), "the query is too long"),
        (many("a* OR b*", 17), "more than 32 prefixes"),
        (many("/a.b/", 33), "more than 32 prefixes"),
        (many("word", 257), "more than 256 words"),
        ("w".repeat(100_000), "the query is too long"),
        (format!("/{}a{}/", "(".repeat(900), ")".repeat(900)), "is not a valid regular expression"),
    ] {
        for command in ["list", "export", "stats"] {
            let run = test.args([command, &query]);
            let told: String = run.stderr.chars().take(400).collect();
            assert_eq!(run.code, Some(2), "{command}: {told}");
            assert!(run.stderr.contains(part), "{command}: {told}");
        }
        // A search reads everything but a text that is too long as words.
        let run = test.args(["search", &query]);
        let told: String = run.stderr.chars().take(400).collect();
        assert!(run.stderr.contains(part), "{told}");
        let is_refused = part == "the query is too long";
        assert_eq!(run.code == Some(2), is_refused, "{told}");
        assert_eq!(run.stderr.contains("read as words: "), !is_refused, "{told}");
    }
    // As deep and as long as it may be.
    let deepest = format!("{}login{}", "(".repeat(32), ")".repeat(32));
    test.args(["search", &deepest]).code(0);
    test.args(["search", &many("login", 256)]).code(0);
    test.args(["search", &many("log*", 32)]).code(0);
}

#[test]
fn records_that_are_nested_without_end_cost_themselves_only() {
    let test = two_agents();
    let line = |number: usize, content: &str| {
        format!(
            r#"{{"type":"user","uuid":"u{number}","sessionId":"deep","cwd":"/w","timestamp":"2026-11-01T10:00:0{number}.000Z","message":{{"role":"user","content":{content}}}}}"#
        )
    };
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}{}{}", open.repeat(depth), "\"deep\"", close.repeat(depth))
    };
    let result = r#"[{"type":"tool_result","tool_use_id":"t","content":"#;
    let lines = [
        line(1, "\"before the deep ones\""),
        line(2, &nested("[", "]", 100_000)),
        line(3, &nested(result, "}]", 20_000)),
        line(4, &nested(r#"{"content":"#, "}", 20_000)),
        line(5, &format!("\"{}quoted\"", ">".repeat(50_000))),
        line(6, &format!("\"{}listed\"", "- ".repeat(20_000))),
        line(7, &format!("\"{}framed\"", "<div>".repeat(20_000))),
        line(8, &format!("\"{}strong\"", "**[".repeat(20_000))),
        line(9, "\"after the deep ones\""),
    ];
    test.write(".claude/projects/-w/deep.jsonl", lines.join("\n") + "\n");
    test.aj("index").code(0);
    for word in ["before", "quoted", "listed", "framed", "strong", "after"] {
        test.aj(&format!("search --mode lexical {word} project:w")).found();
    }
    let shown = test.aj("show deep --all").code(0).stdout;
    assert!(shown.contains("before the deep ones") && shown.contains("after the deep ones"));
    for format in ["html", "markdown", "json"] {
        test.aj(&format!("export deep -f {format} -o -")).code(0);
    }
    let server = crate::support::server::Server::start(test, &[]);
    for path in
        ["/session/deep", "/session/deep/part", "/session/deep/outline", "/api/sessions/deep"]
    {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    for number in 1..=9 {
        let status = server.get(&format!("/session/deep/message/{number}")).status;
        assert!(matches!(status, 200 | 404), "{number}: {status}");
    }
    assert_eq!(server.get("/").status, 200);
}
