//! What the dashboard answers to programs, and what it counts, over a real socket.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use crate::support::server::{Server, within_a_moment};
use crate::support::{FLAKY, Test, two_agents};

/// A home with sessions in two projects, all of which say the same word.
fn crowded() -> Server {
    let test = Test::new();
    for number in 0..30_u64 {
        let id = format!("{number:08x}-2222-4333-8444-555555555555");
        let project = if number % 3 == 0 { "api" } else { "web" };
        let call = serde_json::json!({
            "type": "assistant", "uuid": "u2", "sessionId": id, "cwd": format!("/w/{project}"),
            "timestamp": "2026-11-01T10:00:05.000Z", "requestId": format!("r{number}"),
            "message": {
                "role": "assistant", "id": format!("m{number}"),
                "model": if number == 7 { "nobody-knows" } else { "claude-sonnet-4-5" },
                "content": [{ "type": "text", "text": "done" }],
                "usage": { "input_tokens": 1000 * (number * 11 % 30), "output_tokens": 10 },
            },
        });
        let prompt = serde_json::json!({
            "type": "user", "uuid": "u1", "sessionId": id, "cwd": format!("/w/{project}"),
            "timestamp": "2026-11-01T10:00:00.000Z",
            "message": { "role": "user", "content": format!("marmalade number {number}") },
        });
        test.write(
            format!(".claude/projects/-w-{project}/{id}.jsonl"),
            format!("{prompt}\n{call}\n"),
        );
    }
    test.aj("index");
    Server::start(test, &[])
}

#[test]
fn facets_of_a_search_count_every_result_not_only_those_shown() {
    let server = crowded();
    let page = server.page("/search?q=marmalade");
    assert!(page.matches("class=\"hit\"").count() < 30, "not all are on one page");
    let facets = page.split("<aside").nth(1).unwrap();
    for (name, number) in [("web", 20), ("api", 10), ("Claude Code", 30), ("2026-11", 30)] {
        let expected = format!(">{name}</a> <span class=\"muted\">{number}</span>");
        assert!(facets.contains(&expected), "{name} without {number}: {facets}");
    }
    // A name that begins like another is not that other.
    let listed = server.page("/?project=%3Dap");
    assert!(listed.contains("No sessions match"), "{listed}");
    let listed = server.page("/?project=%3Dapi");
    assert!(listed.contains("<option value=\"=api\" selected>api (10)"), "{listed}");
    assert!(listed.contains(">10 sessions<"), "{listed}");
    let latest = server.page("/search?q=marmalade&sort=time");
    assert!(latest.contains("aria-current=\"true\">Latest first"), "{latest}");
    let narrowed = server.page("/search?q=marmalade%20project:%3Dapi");
    assert!(narrowed.contains("10 sessions"), "{narrowed}");
    // The same link takes it out again.
    assert!(narrowed.contains("href=\"/search?q=marmalade\" aria-pressed=\"true\""), "{narrowed}");
}

#[test]
fn sessions_are_sorted_by_what_they_cost() {
    let server = crowded();
    let all = server.json("/api/v1/sessions?sort=cost");
    let costs: Vec<Option<f64>> = all["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["cost"]["usd"].as_f64())
        .collect();
    assert_eq!(costs.len(), 30);
    assert!(costs[0].unwrap() > costs[28].unwrap(), "{costs:?}");
    assert!(costs[..29].is_sorted_by(|one, next| one >= next), "{costs:?}");
    assert_eq!(costs[29], None, "what is not known comes last");
    let some = server.json("/api/v1/sessions?sort=cost&project=api&offset=8&limit=5");
    assert_eq!((some["total"].as_u64(), some["sessions"].as_array().unwrap().len()), (Some(10), 2));
    assert!(server.page("/?sort=cost").contains("Most expensive"));
}

#[test]
fn every_fact_is_counted_as_if_nothing_were_chosen_by_it() {
    let server = crowded();
    let facets = |query: &str| server.json(&format!("/api/v1/sessions?{query}"))["facets"].clone();
    let (all, some) = (facets(""), facets("project=api&model=claude-sonnet-4-5"));
    assert_eq!(all["projects"], serde_json::json!([["web", 20], ["api", 10]]));
    assert_eq!(some["projects"], serde_json::json!([["web", 19], ["api", 10]]));
    assert_eq!(some["models"], serde_json::json!([["claude-sonnet-4-5", 10]]));
    assert_eq!(some["agents"], serde_json::json!([["claude-code", 10]]));
    assert_eq!(all["statuses"], serde_json::json!([["completed", 30]]));
    assert_eq!(facets("status=running")["statuses"], all["statuses"]);
}

#[test]
fn the_api_searches_by_words_by_meaning_or_by_both() {
    let server = Server::of_two_agents();
    let mode = |mode: &str| {
        let answer = server.json(&format!("/api/v1/search?q=login%20test{mode}"));
        assert!(answer["hits"][0]["tier"].is_string(), "{answer}");
        answer["mode"].as_str().unwrap().to_owned()
    };
    assert_eq!(mode(""), "hybrid");
    assert_eq!(mode("&mode=lexical"), "lexical");
    assert_eq!(mode("&mode=semantic"), "semantic");
    let wrong = server.get("/api/v1/search?q=login&mode=nearby");
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("expected one of lexical"), "{}", wrong.text());
}

#[test]
fn a_hit_in_a_sub_agent_is_told_with_its_session() {
    let server = Server::of_two_agents();
    let answer = server.json("/api/v1/search?q=marmalade");
    assert_eq!(answer["sessions"][0]["id"], format!("claude-code:{FLAKY}"));
    let hit = &answer["hits"][0];
    assert_eq!((&hit["session"], &hit["message"]), (&"claude-code:a7b8c9".into(), &2.into()));
    assert_eq!(hit["task"], format!("claude-code:{FLAKY}"));
    let said = server.json("/api/v1/sessions/claude-code:a7b8c9/messages?from=2&count=1");
    assert!(said["messages"][0].to_string().contains("marmalade"), "{said}");
    let own = server.json("/api/v1/search?q=copper");
    assert_eq!(own["hits"][0]["session"], format!("claude-code:{FLAKY}"));
    assert_eq!(own["hits"][0].get("task"), None);
}

#[test]
fn the_api_answers_as_its_description_says() {
    let mut test = two_agents();
    for case in [
        "claude-code/sub-agents",
        "claude-code/resumed",
        "claude-code/today",
        "claude-code/whole-session",
        "codex/forks",
        "copilot-cli/whole-session",
        "vscode-copilot/continued",
        "gemini/sub-agents",
    ] {
        test = test.fixture(case);
    }
    test.aj("index");
    let server = Server::start(test, &[]);
    let listed = server.json("/api/v1/sessions?all=1&limit=500");
    let sessions = listed["sessions"].as_array().unwrap();
    for name in ["continues", "continued_by", "summary"] {
        assert!(sessions.iter().any(|session| !session[name].is_null()), "no session has {name}");
    }
    for session in sessions {
        answers_as_described(&server, session["id"].as_str().unwrap());
    }
}

fn answers_as_described(server: &Server, id: &str) {
    let description = server.json("/api/v1/openapi.json");
    let paths = description["paths"].as_object().unwrap();
    assert!(paths.len() >= 18, "{paths:?}");
    for (path, item) in paths {
        let answers = &item["get"]["responses"];
        let is_ambiguous = answers.get("409").is_some();
        assert_eq!(is_ambiguous, path.contains("{id}"), "{path}");
        let schema = &answers["200"]["content"]["application/json"]["schema"];
        let query = match path.as_str() {
            "/api/v1/search" | "/api/search" => "?q=copper",
            "/api/insights/score" => "?repo=Claude%20Code",
            "/api/sessions/{id}/export" => "?format=json",
            _ => "",
        };
        let document = server.json(&format!("{}{query}", path.replace("{id}", id)));
        conforms(path, &document, schema, &description);
    }
    for (name, schema) in description["components"]["schemas"].as_object().unwrap() {
        is_described(name, schema);
    }
    let wrong = server.get("/api/v1/sessions/no-such-session");
    assert_eq!(wrong.status, 404);
    let document: serde_json::Value = serde_json::from_slice(&wrong.body).unwrap();
    conforms("404", &document, &description["components"]["schemas"]["Error"], &description);
}

/// A value is what its schema says, as far as types, required names and parts go; and the schema
/// says something.
fn conforms(
    place: &str,
    value: &serde_json::Value,
    schema: &serde_json::Value,
    root: &serde_json::Value,
) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/components/schemas/").unwrap();
        return conforms(place, value, &root["components"]["schemas"][name], root);
    }
    is_described(place, schema);
    let kind = match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "boolean",
        serde_json::Value::Number(number) if number.is_f64() => "number",
        serde_json::Value::Number(_) => "integer",
        serde_json::Value::String(_) => "string",
        serde_json::Value::Array(_) => "array",
        serde_json::Value::Object(_) => "object",
    };
    let allowed: Vec<&str> = match &schema["type"] {
        serde_json::Value::Array(kinds) => kinds.iter().filter_map(|one| one.as_str()).collect(),
        serde_json::Value::String(kind) => vec![kind],
        _ => return,
    };
    let fits = allowed.contains(&kind) || kind == "integer" && allowed.contains(&"number");
    assert!(fits, "{place} is {kind}, described as {allowed:?}: {value}");
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        assert!(value.get(name).is_some() || !value.is_object(), "{place} without {name}: {value}");
    }
    for (name, part) in value.as_object().into_iter().flatten() {
        let known = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
        let known = known.unwrap_or_else(|| panic!("{place}.{name} is not described: {part}"));
        conforms(&format!("{place}.{name}"), part, known, root);
    }
    for part in value.as_array().into_iter().flatten() {
        conforms(&format!("{place}[]"), part, &schema["items"], root);
    }
}

/// A schema has a type, or says in words why it has none.
fn is_described(place: &str, schema: &serde_json::Value) {
    let says = ["type", "description", "$ref"].iter().any(|name| schema.get(name).is_some());
    assert!(says, "{place} is not described: {schema}");
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        is_described(&format!("{place}.{name}"), part);
    }
    if let Some(items) = schema.get("items") {
        is_described(&format!("{place}[]"), items);
    }
}

#[test]
fn model_status_and_fields_choose_in_every_endpoint() {
    let server = crowded();
    let sums = |query: &str| {
        let stats = server.json(&format!("/api/v1/stats?{query}"));
        let before = server.json(&format!("/api/analytics?{query}"));
        let number = stats["totals"]["sessions"].as_u64().unwrap();
        assert_eq!(before["totalSessions"].as_u64(), Some(number), "{query}");
        number
    };
    let found = |query: &str| {
        let total = |path: &str| {
            server.json(&format!("{path}?q=marmalade&{query}"))["total"].as_u64().unwrap()
        };
        assert_eq!(total("/api/search"), total("/api/v1/search"), "{query}");
        total("/api/v1/search")
    };
    for (query, number) in [
        ("model=nobody-knows", 1),
        ("model=claude-sonnet-4-5", 29),
        ("model=claude-sonnet-4", 0),
        ("where=model:sonnet", 29),
        ("where=-model:sonnet", 1),
        ("where=model:=claude-sonnet-4", 0),
        ("where=model:=claude-sonnet-4-5", 29),
        ("where=-model:=claude-sonnet-4-5", 1),
        ("status=running", 0),
        ("status=completed", 30),
        ("status=error", 0),
        ("status=completed&model=claude-sonnet-4-5&project=api", 10),
    ] {
        assert_eq!((sums(query), found(query)), (number, number), "{query}");
        let listed = server.json(&format!("/api/v1/sessions?{query}"));
        assert_eq!(listed["total"].as_u64(), Some(number), "{query}");
    }
    let usage = server.json("/api/v1/usage?model=nobody-knows");
    assert_eq!(usage["models"].as_array().unwrap().len(), 1, "{usage}");
    let wrong = server.get("/api/v1/stats?status=asleep");
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("expected one of running, completed, error"), "{}", wrong.text());
}

#[test]
fn statistics_are_one_document_here_and_on_the_command_line() {
    let server = Server::of_two_agents();
    let mut told = server.test.aj("stats --json").json();
    // How much is still to be read is news only to who has just read.
    told.as_object_mut().unwrap().remove("pending");
    assert_eq!(server.json("/api/v1/stats"), told);
    let usage = server.json("/api/v1/usage");
    assert_eq!(usage["models"], told["models"]);
    assert_eq!(usage["models"][0].get("prompts"), None, "{usage}");
}

#[test]
fn a_page_is_made_anew_for_who_asks_without_a_cache() {
    let server = crowded();
    let tip = "Consider adding an MCP server";
    assert!(server.page("/insights").contains(tip));
    let settings = r#"{ "mcpServers": { "figma": { "command": "figma" } } }"#;
    server.test.write(".claude/settings.json", settings);
    let anew = server.ask("/insights", "cache-control: no-cache\r\n").text();
    assert!(!anew.contains(tip), "{anew}");
    assert!(!server.page("/insights").contains(tip));
}

#[test]
fn a_page_that_listens_for_news_leaves_the_others_kept() {
    let server = crowded();
    let tip = "Consider adding an MCP server";
    let (settings, anew) = (".claude/settings.json", "cache-control: no-cache\r\n");
    let kept = within_a_moment(|| {
        server.test.write(settings, "{}");
        assert!(server.ask("/insights", anew).text().contains(tip));
        server.test.write(settings, r#"{ "mcpServers": { "figma": { "command": "figma" } } }"#);
        // A browser never takes news from a cache, and says so.
        listen(&server, anew);
        for path in ["/assets/app.js", "/api/v1/sources"] {
            assert_eq!(server.ask(path, anew).status, 200, "{path}");
        }
        server.page("/insights")
    });
    assert!(kept.contains(tip), "{kept}");
}

/// Listens until the first news have come.
fn listen(server: &Server, lines: &str) {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let host = &server.address;
    write!(stream, "GET /events HTTP/1.1\r\nhost: {host}\r\n{lines}\r\n").unwrap();
    let mut told = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(told.any(|line| line.starts_with("data:")));
}

#[test]
fn earlier_names_of_sources_and_endpoints_are_understood() {
    let server = Server::of_two_agents();
    for source in ["cli", "vscode", "claude-code"] {
        assert!(server.json(&format!("/api/sessions?source={source}")).is_array(), "{source}");
        assert!(server.json(&format!("/api/search?q=a&source={source}"))["results"].is_array());
    }
    let analytics = server.json("/api/analytics");
    assert!(analytics["tokenUsage"]["totalInput"].is_u64(), "{analytics}");
    let id = server.some_id();
    let detail = server.json(&format!("/api/sessions/{id}"));
    assert!(detail["eventCounts"]["user.message"].as_u64().unwrap() > 0, "{detail}");
    assert_eq!(detail["events"][0]["type"], "user.message");
    let claude = server.json("/api/insights?repo=Claude%20Code");
    assert_eq!(claude["name"], "Claude Code (all sessions)", "{claude}");
}

#[test]
fn fields_alone_list_the_same_in_the_api_on_the_page_and_in_the_list() {
    let server = Server::of_two_agents();
    let sessions = server.json("/api/v1/search?q=project:web");
    let listed = server.json("/api/v1/sessions?where=project:web");
    assert_eq!((&sessions["total"], &sessions["group"]), (&listed["total"], &"session".into()));
    assert!(sessions["total"].as_u64().unwrap() > 0, "{sessions}");
    let messages = server.json("/api/v1/search?q=role:you%20agent:claude");
    assert_eq!((&messages["tier"], &messages["group"]), (&"listed".into(), &"message".into()));
    let total = messages["total"].as_u64().unwrap();
    assert_eq!(messages["hits"].as_array().unwrap().len() as u64, total);
    let page = server.page("/search?q=role:you%20agent:claude");
    assert!(page.contains(&format!("{total} messages")), "{page}");
    // Fields that look into packed rows or messages choose in the list, too.
    for (fields, expected) in [("tool:bash", 2), ("is:failed", 1), ("file:nowhere.rs", 0)] {
        let listed = server.json(&format!("/api/v1/sessions?where={fields}"));
        assert_eq!(listed["total"], expected, "{fields}");
    }
    assert_eq!(server.json("/api/v1/search?q=")["total"], 0);
}

/// A home with one session of this many answers, of which one is long.
fn long_session(answers: usize) -> Server {
    let test = crate::support::Test::new();
    let mut session = crate::support::Transcript::new(1).you("begin");
    for number in 0..answers {
        session = session.agent(&format!("answer {number}"));
    }
    let session = session.agent(&"é".repeat(10_001));
    test.write(session.path(), &session.lines);
    test.aj("index").found();
    Server::start(test, &[])
}

#[test]
fn earlier_endpoints_say_what_they_leave_out() {
    let server = long_session(30);
    let detail = server.json("/api/sessions/00000001?limit=5&offset=2");
    assert_eq!(detail["events"].as_array().unwrap().len(), 5, "{detail}");
    assert_eq!(detail["events"][0]["data"]["content"], "answer 1");
    assert_eq!((&detail["totalEvents"], &detail["truncated"]), (&32.into(), &true.into()));
    assert_eq!(detail["eventCounts"]["assistant.message"], 31);
    let whole = server.json("/api/sessions/00000001");
    assert_eq!((&whole["totalEvents"], &whole["truncated"]), (&32.into(), &false.into()));
    let long = &whole["events"][31]["data"];
    assert_eq!(long["content"].as_str().unwrap().chars().count(), 10_000);
    assert_eq!((&long["truncated"], &long["length"]), (&true.into(), &10_001.into()));
    assert_eq!(whole["events"][1]["data"].get("truncated"), None);
    // 32 messages, a second apart.
    assert_eq!(whole["duration"], 31_000);
    assert_eq!(server.json("/api/analytics")["totalDuration"], 31_000);
}

#[test]
fn every_session_is_listed_and_none_has_the_id_of_another() {
    let server = crowded();
    let all = server.get("/api/sessions?source=all");
    assert_eq!(all.status, 200);
    assert!(all.head.contains("x-total-count: 30"), "{}", all.head);
    assert_eq!(server.json("/api/sessions").as_array().unwrap().len(), 30);
    let some = server.get("/api/sessions?limit=4&offset=2");
    assert!(some.head.contains("x-total-count: 30"), "{}", some.head);
    assert_eq!(server.json("/api/sessions?limit=4&offset=2").as_array().unwrap().len(), 4);
    let listed = server.json("/api/v1/sessions?limit=4");
    assert_eq!((&listed["limit"], &listed["truncated"]), (&4.into(), &true.into()));
    assert_eq!(server.json("/api/v1/sessions")["truncated"], false);

    let id = "0199aaaa-0000-7000-8000-00000000000a";
    let test = crate::support::Test::new();
    let line = |text: &str| {
        let message = serde_json::json!({ "role": "user", "content": text });
        serde_json::json!({ "type": "user", "uuid": "u1", "sessionId": id, "cwd": "/w",
            "timestamp": "2026-03-02T00:00:00Z", "message": message })
    };
    test.write(format!(".claude/projects/-w/{id}.jsonl"), format!("{}\n", line("one")));
    let head = serde_json::json!({ "timestamp": "2026-03-02T00:00:00Z", "type": "session_meta",
        "payload": { "id": id, "timestamp": "2026-03-02T00:00:00Z", "cwd": "/w" } });
    let said = serde_json::json!({ "timestamp": "2026-03-02T00:00:01Z", "type": "event_msg",
        "payload": { "type": "user_message", "message": "two" } });
    let rollout = format!(".codex/sessions/2026/03/02/rollout-2026-03-02T00-00-00-{id}.jsonl");
    test.write(rollout, format!("{head}\n{said}\n"));
    test.aj("index").found();
    let server = Server::start(test, &[]);
    let all = server.json("/api/sessions");
    let ids: Vec<String> =
        all.as_array().unwrap().iter().map(|one| crate::support::text(&one["id"])).collect();
    assert_eq!(ids.len(), 2, "{all}");
    for id in &ids {
        assert_eq!(server.json(&format!("/api/sessions/{id}"))["id"], id.as_str());
    }
    let ambiguous = server.get(&format!("/api/v1/sessions/{id}"));
    assert_eq!(ambiguous.status, 409);
    let said: serde_json::Value = serde_json::from_slice(&ambiguous.body).unwrap();
    assert_eq!(said["candidates"].as_array().unwrap().len(), 2, "{said}");
    assert!(said["candidates"][0]["id"].is_string() && said["candidates"][0]["title"].is_string());
}

#[test]
fn earlier_endpoints_for_scores_tokens_and_exports_answer() {
    let server = crowded();
    let scores = server.json("/api/insights/repos");
    let first = &scores.as_array().unwrap()[0];
    assert!(first["totalScore"].is_u64() && first["sessionCount"].is_u64(), "{scores}");
    for category in
        ["promptQuality", "toolUtilization", "efficiency", "mcpUtilization", "engagement"]
    {
        assert!(first["categories"][category]["score"].is_u64(), "{category}: {first}");
    }
    let repo = crate::support::text(&first["repo"]);
    assert_eq!(
        &server.json(&format!("/api/insights/score?repo={}", repo.replace(' ', "%20"))),
        first
    );
    let claude = server.json("/api/insights/score?repo=Claude%20Code");
    assert_eq!(claude["name"], "Claude Code (all sessions)");
    assert_eq!(server.get("/api/insights/score").status, 400);
    assert_eq!(server.get("/api/insights/score?repo=nowhere").status, 404);

    let usage = server.json("/api/token-usage?source=all");
    let totals = server.json("/api/v1/usage")["totals"]["tokens"].clone();
    assert_eq!(usage["totals"]["completion_tokens"], totals["output"]);
    assert_eq!(usage["totals"]["cached_tokens"], totals["cache_read"]);
    for period in ["daily", "weekly", "monthly"] {
        let sum: u64 = usage[period]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["total_tokens"].as_u64().unwrap())
            .sum();
        assert_eq!(Some(sum), usage["totals"]["total_tokens"].as_u64(), "{period}: {usage}");
    }

    let id = server.some_id();
    let markdown = server.get(&format!("/api/sessions/{id}/export"));
    assert_eq!(markdown.status, 200);
    assert!(markdown.head.contains("content-type: text/markdown"), "{}", markdown.head);
    assert!(markdown.head.contains("content-disposition: attachment; filename="));
    assert!(markdown.text().starts_with("---\ntitle: "));
    let json = server.json(&format!("/api/sessions/{id}/export?format=json"));
    assert!(json["messages"].is_array());
    let wrong = server.get(&format!("/api/sessions/{id}/export?format=parquet"));
    assert_eq!(wrong.status, 400);
    assert_eq!(server.json("/api/search?q=marmalade").get("hits"), None);
}

#[test]
fn an_agent_is_found_by_the_beginning_of_its_name() {
    let server = Server::of_two_agents();
    let score = server.json("/api/insights?repo=Codex");
    assert_eq!(score["name"], "Codex CLI (all sessions)");
}

#[test]
fn what_cannot_be_meant_is_refused_with_a_reason() {
    let server = Server::of_two_agents();
    let id = server.some_id();
    for (path, reason) in [
        ("/api/v1/sessions?limit=abc".to_owned(), "is not a number"),
        ("/api/v1/sessions?offset=null".to_owned(), "is not a number"),
        ("/api/v1/sessions?sort=bogus".to_owned(), "unknown order"),
        ("/api/v1/sessions?status=bogus".to_owned(), "unknown status"),
        ("/api/sessions?sort=bogus".to_owned(), "unknown order"),
        ("/api/v1/search?q=a&limit=x".to_owned(), "is not a number"),
        (format!("/api/v1/sessions/{id}/messages?from=x"), "is not a number"),
    ] {
        let answer = server.get(&path);
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.text().contains(reason), "{path}: {}", answer.text());
    }
}

#[test]
fn every_page_takes_a_source() {
    let server = Server::of_two_agents();
    for page in ["/", "/analytics", "/insights", "/search"] {
        for value in ["all", "cli", "claude-code"] {
            let address = format!("{page}?q=&source={value}");
            assert_eq!(server.get(&address).status, 200, "{address}");
        }
    }
    assert!(server.page("/search?q=copper&source=claude-code").contains("copper"));
    for none in ["source=cli", "agent=cli"] {
        let page = server.page(&format!("/search?q=copper&rows=1&{none}"));
        assert!(!page.contains("class=\"hit\""), "{page}");
    }
    let page = server.page("/search?q=copper&source=claude");
    assert!(page.contains("<option value=\"claude-code\" selected"), "{page}");
}

#[test]
fn a_search_shows_as_many_sessions_as_are_configured() {
    let test = two_agents().config("[search]\nmax_results = 1\n");
    test.aj("index").found();
    let server = Server::start(test, &[]);
    let shown = |address: &str| {
        let answer: serde_json::Value = serde_json::from_str(&server.get(address).text()).unwrap();
        answer["sessions"].as_array().unwrap().len()
    };
    assert_eq!(shown("/api/v1/search?q=login%20OR%20retry%20OR%20tokenizer"), 1);
    assert_eq!(shown("/api/v1/search?q=login%20OR%20retry%20OR%20tokenizer&limit=2"), 2);
}

#[test]
fn projects_of_one_name_are_chosen_apart() {
    let test = Test::new();
    for (number, directory) in [(1, "/w/one/web"), (2, "/w/two/web"), (3, "/w/api")] {
        let id = format!("{number:08x}-2222-4333-8444-555555555555");
        let line = serde_json::json!({
            "type": "user", "uuid": "u1", "sessionId": id, "cwd": directory,
            "timestamp": "2026-11-01T10:00:00.000Z",
            "message": { "role": "user", "content": format!("prompt {number}") },
        });
        test.write(format!(".claude/projects/-w-{number}/{id}.jsonl"), format!("{line}\n"));
    }
    test.aj("index");
    let server = Server::start(test, &[]);
    let listed = server.json("/api/v1/sessions");
    let expected = serde_json::json!([["api", 1], ["one/web", 1], ["two/web", 1]]);
    assert_eq!(listed["facets"]["projects"], expected);
    let page = server.page("/");
    for option in [
        "value=\"=api\">api (1)",
        "value=\"=/w/one/web\">one/web (1)",
        "value=\"=/w/two/web\">two/web (1)",
    ] {
        assert!(page.contains(option), "{option}: {page}");
    }
    for choice in ["%3D/w/two/web", "two/web"] {
        let chosen = server.json(&format!("/api/v1/sessions?project={choice}"));
        assert_eq!(chosen["total"], 1, "{choice}");
        assert_eq!(chosen["sessions"][0]["title"], "prompt 2");
    }
    let page = server.page("/?project=%3D/w/two/web");
    assert!(page.contains(">1 session<"), "{page}");
    assert!(page.contains("value=\"=/w/two/web\" selected>two/web (1)"), "{page}");
    let offered = server.json("/api/v1/complete?q=project:");
    assert!(offered.to_string().contains("1 session\""), "{offered}");
}

#[test]
fn one_of_anything_is_no_plural() {
    let test = Test::new();
    let id = "00000001-2222-4333-8444-555555555555";
    let today = jiff::Timestamp::now();
    let line = serde_json::json!({
        "type": "user", "uuid": "u1", "sessionId": id, "cwd": "/w", "timestamp": today.to_string(),
        "message": { "role": "user", "content": "only one" },
    });
    test.write(format!(".claude/projects/-w/{id}.jsonl"), format!("{line}\n"));
    test.write(".claude/settings.json", "{\"cleanupPeriodDays\": 1}");
    test.aj("index");
    let server = Server::start(test, &[]);
    for path in ["/", "/analytics?since=all", "/insights", "/sources", "/search?q=only"] {
        let page = server.page(path);
        let words: String = page
            .split('<')
            .filter_map(|part| part.split_once('>'))
            .fold(String::new(), |words, (tag, after)| format!("{words}{tag} {after}"));
        for noun in ["days", "active days", "sessions", "prompts", "messages", "weeks", "files"] {
            let wrong = format!("1 {noun}");
            let at = words.match_indices(&wrong).find(|(at, _)| {
                !words[..*at]
                    .ends_with(|one: char| one.is_ascii_digit() || one == '.' || one == ',')
            });
            let around = at.map(|(at, _)| words[at.saturating_sub(60)..].chars().take(120));
            assert_eq!(around.map(Iterator::collect::<String>), None, "{path}");
        }
    }
}
