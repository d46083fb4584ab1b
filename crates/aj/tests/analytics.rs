//! The pages of sums, as the server sends them: the same figures as the command line's, for every
//! filter, and links that keep it.

use serde_json::Value;

use crate::support::Test;
use crate::support::history::History;
use crate::support::server::Server;

/// A home with some months of work in it, read already.
fn lived_in() -> Test {
    let test = Test::new();
    let end = jiff::Timestamp::now();
    History { sessions: 40, days: 80, prompts: 8, end }.write(&test.path("")).unwrap();
    test.aj("index").code(0);
    test
}

/// The text of every figure at the top of the page.
fn tiles(page: &str) -> Vec<String> {
    let values = page.split("<dd><strong>").skip(1);
    values.map(|rest| rest.split('<').next().unwrap().replace(',', "")).collect()
}

fn sum(values: &Value, of: impl Fn(&Value) -> u64) -> u64 {
    values.as_array().unwrap().iter().map(of).sum()
}

#[test]
fn the_page_shows_what_the_command_line_says() {
    let test = lived_in();
    let server = Server::start(&test, &[]);
    for (query, words) in [
        ("since=all", "stats --json"),
        ("since=30d", "stats --json --since 30d"),
        ("since=all&agent=codex", "stats --json --agent codex"),
        ("since=all&project=web&branch=main", "stats --json project:web branch:main"),
        ("since=all&q=project:api", "stats --json project:api"),
    ] {
        let (status, page) = server.get(&format!("/analytics?{query}")).told();
        assert_eq!(status, 200, "{query}");
        let totals = &test.aj(words).json()["totals"];
        let shown = tiles(&page);
        for (place, name) in [(0, "sessions"), (1, "prompts"), (3, "tool_calls")] {
            assert_eq!(shown[place], totals[name].to_string(), "{query} {name}");
        }
    }
}

/// A page without what is not for reading.
fn readable(page: &str) -> String {
    let mut text = String::new();
    for part in
        page.split('<').filter(|part| !part.starts_with("style") && !part.starts_with("script"))
    {
        text.push_str(part.split_once('>').map_or(part, |(_, text)| text));
        text.push(' ');
    }
    text
}

#[test]
fn an_unknown_model_is_unpriced_on_every_page() {
    let test = Test::new();
    let now = jiff::Timestamp::now();
    let base = |kind: &str, uuid: &str, message: Value| {
        serde_json::json!({ "sessionId": "s1", "cwd": "/src/web", "type": kind, "uuid": uuid,
                            "timestamp": now, "message": message })
    };
    let prompt = serde_json::json!({ "role": "user", "content": "please fix the login" });
    let usage = serde_json::json!({ "input_tokens": 1_000_000, "output_tokens": 2_000 });
    let answer = serde_json::json!({ "id": "m1", "role": "assistant", "model": "nobody-knows-1",
                                     "usage": usage, "content": "done" });
    let lines = [base("user", "u1", prompt), base("assistant", "u2", answer)];
    let lines = lines.map(|line| format!("{line}\n")).concat();
    test.write(".claude/projects/-src-web/s1.jsonl", lines);
    test.aj("index").code(0);
    let server = Server::start(&test, &[]);
    for path in ["/", "/session/claude-code:s1", "/search?q=login", "/analytics", "/insights"] {
        let (status, page) = server.get(path).told();
        assert_eq!(status, 200, "{path}");
        let words = readable(&page);
        let around = words.find('$').map(|at| words[..at + 3].split("  ").last());
        assert!(around.is_none(), "{path}: {around:?}");
    }
}

#[test]
fn every_metric_has_its_chart_and_every_chart_its_numbers() {
    let test = lived_in();
    let (_, page) = Server::start(&test, &[]).get("/analytics?since=all").told();
    for id in [
        "sessions",
        "active",
        "cost",
        "tokens",
        "kinds",
        "cache",
        "failures",
        "hours",
        "turns",
        "durations",
        "calendar",
    ] {
        let chart = page.split(&format!("<figure class=\"chart\" id=\"{id}\">")).nth(1).unwrap();
        let chart = chart.split("</figure>").next().unwrap();
        assert!(chart.contains("role=\"img\"") && chart.contains("<title"), "{id}");
        assert!(chart.contains("<table>"), "{id}");
    }
    for id in ["models", "tools", "directories", "branches", "agents", "servers", "errors", "files"]
    {
        let place = format!("<section class=\"chart ranking\" id=\"{id}\"");
        let ranking = page.split(&place).nth(1).unwrap_or_else(|| panic!("no {id}"));
        assert!(ranking.split("</section>").next().unwrap().contains("<tbody><tr>"), "{id}");
    }
    assert!(!page.contains(" style="), "the policy of the pages forbids it");
}

#[test]
fn links_lead_to_the_sessions_behind_a_number_and_keep_the_filter() {
    let test = lived_in();
    let (_, page) = Server::start(&test, &[]).get("/analytics?since=all&agent=claude-code").told();
    assert!(
        page.contains("href=\"/?agent=claude-code&amp;project=%3D%2Fhome%2Fsam%2Fweb\""),
        "{page}"
    );
    // The last session began twenty minutes ago, and may have done so yesterday.
    let is_there = [0, 1].iter().any(|days| {
        let now = jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC);
        let day = now.date().saturating_sub(jiff::Span::new().days(*days));
        page.contains(&format!("href=\"/?agent=claude-code&amp;since={day}&amp;until={day}\""))
    });
    assert!(is_there, "{page}");
    for part in ["tool:%22bash", "hour:%22", "prompts:%22", "active:%22"] {
        let link = format!("href=\"/?agent=claude-code&amp;where={part}");
        assert!(page.contains(&link), "no {link} in {page}");
    }
}

#[test]
fn the_link_of_a_project_leads_to_no_other_that_begins_alike() {
    let test = Test::new();
    for (number, project) in ["web", "web", "web-old"].into_iter().enumerate() {
        let line = serde_json::json!({
            "type": "user", "uuid": "u1", "sessionId": format!("s{number}"),
            "cwd": format!("/home/sam/{project}"), "timestamp": jiff::Timestamp::now(),
            "message": { "role": "user", "content": "hello" },
        });
        test.write(
            format!(".claude/projects/-home-sam-{project}/s{number}.jsonl"),
            format!("{line}\n"),
        );
    }
    test.aj("index").code(0);
    let server = Server::start(&test, &[]);
    let (_, page) = server.get("/analytics?since=all").told();
    let ranking = page.split("id=\"directories\"").nth(1).unwrap();
    let links = ranking.split("</section>").next().unwrap().split("href=\"").skip(1);
    let listed: Vec<bool> = links
        .map(|rest| server.get(rest.split('"').next().unwrap()).text())
        .map(|list| list.contains("id=\"total\">2 sessions<"))
        .collect();
    assert_eq!(listed, [true, false], "two sessions in web, one in web-old");
}

#[test]
fn a_filter_that_makes_no_sense_is_told_and_nothing_breaks() {
    let test = lived_in();
    let server = Server::start(&test, &[]);
    for query in ["since=someday", "agent=nobody", "q=words", "colour=red", "since=%00", "q=%22"] {
        for page in ["analytics", "insights"] {
            let (status, body) = server.get(&format!("/{page}?{query}")).told();
            assert_eq!(status, 400, "{page} {query}: {body}");
        }
    }
    for query in ["since=someday", "agent=nobody", "where=words", "where=hour:24"] {
        for page in ["/", "/api/v1/sessions"] {
            let (status, body) = server.get(&format!("{page}?{query}")).told();
            assert_eq!(status, 400, "{page} {query}: {body}");
        }
    }
    let (status, body) =
        server.get("/analytics?project=%3Cscript%3Ealert(1)%3C/script%3E&since=all").told();
    assert_eq!(status, 200);
    assert!(!body.contains("<script>alert"), "{body}");
    assert!(body.contains("No sessions match"));
}

#[test]
fn sums_by_day_and_model_and_size_come_to_the_totals() {
    let test = lived_in();
    let stats = test.aj("stats --json").json();
    let totals = &stats["totals"];
    let tokens = |it: &Value| {
        let classes = ["input", "output", "cache_read", "cache_creation"];
        classes.iter().map(|name| it["tokens"][name].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(sum(&stats["spending"], tokens), tokens(totals));
    let sessions = totals["sessions"].as_u64().unwrap();
    for spread in ["turns", "durations"] {
        assert_eq!(sum(&stats[spread], |it| it["count"].as_u64().unwrap()), sessions, "{spread}");
    }
    assert_eq!(sum(&stats["branches"], |it| it["sessions"].as_u64().unwrap()), sessions);
}

#[test]
fn insights_show_the_score_of_a_repository_and_of_an_agent() {
    let test = lived_in();
    let server = Server::start(&test, &[]);
    let scores = test.aj("score --json").json();
    let web =
        &scores["repositories"].as_array().unwrap().iter().find(|it| it["name"] == "web").unwrap()
            ["total"];
    let (status, page) = server.get("/insights?of=/home/sam/web").told();
    assert_eq!(status, 200);
    assert!(page.contains(&format!("aria-label=\"web: {web} of 100\"")), "{page}");
    for category in scores["repositories"][0]["categories"].as_array().unwrap() {
        assert!(page.contains(category["name"].as_str().unwrap()), "{category}");
    }
    let (_, page) = server.get("/insights?of=Claude%20Code").told();
    assert!(page.contains("Claude Code (all sessions)</h2>"), "{page}");
    assert!(page.contains("marker agent-claude-code"));
}
