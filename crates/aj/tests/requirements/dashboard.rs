//! Document 003: all agents together, in lists, searches, statistics and on the dashboard.

use serde_json::{Value, json};

use super::copilot_log::{event, start, write_log};
use super::{export, lines};
use crate::support::server::Server;
use crate::support::{Test, Transcript};

const CLI: &str = "e0000001-0000-4000-8000-000000000001";
const EDITOR: &str = "e0000002-0000-4000-8000-000000000002";

/// A home with one session each of Claude Code, Copilot CLI and VS Code Copilot Chat.
fn three_agents() -> Test {
    let test = Test::new();
    let claude = Transcript::new(0xaaaa)
        .you("compare the walruses")
        .tool("cargo test", true)
        .agent("They differ.");
    test.write(claude.path(), &claude.lines);
    let prompt = |words: &str| {
        event("user.message", "u", Some("e0"), "10:01:00", json!({ "content": words }))
    };
    write_log(&test, CLI, &[start(CLI, "/srv/cli"), prompt("count the walruses")]);
    test.write(
        format!(
            ".config/Code/User/workspaceStorage/h/GitHub.copilot-chat/transcripts/{EDITOR}.jsonl"
        ),
        lines(&[start(EDITOR, "/srv/editor"), prompt("draw the walruses")]),
    );
    test.aj("index").code(0);
    test
}

#[test]
fn three_agents_are_shown_and_searched_together() {
    let test = three_agents();
    let listed = test.aj("list --json").code(0).json();
    let agents: Vec<&Value> =
        listed["sessions"].as_array().unwrap().iter().map(|session| &session["agent"]).collect();
    for agent in ["claude-code", "copilot-cli", "vscode-copilot"] {
        assert!(agents.contains(&&json!(agent)), "R157 R190 R219 R233 R234: {agent}");
    }
    test.aj("list").code(0).shows(["claude", "copilot", "vscode"]); // R110
    for (alias, agent) in
        [("claude-code", "claude-code"), ("cli", "copilot-cli"), ("vscode", "vscode-copilot")]
    {
        let found =
            test.args(["search", "walruses", &format!("agent:{alias}"), "--json"]).code(0).json();
        let session = found["hits"][0]["session"].as_str().unwrap().to_owned();
        assert!(session.starts_with(agent), "R181 R192 R219: {alias}\n{found:#}");
        test.args(["list", "--agent", alias]).code(0); // R181 R183
    }
    let claude = format!("claude:{}", Transcript::new(0xaaaa).id);
    test.args(["show", &claude]).code(0).shows(["compare the walruses"]); // R183 R230 R235
    assert_eq!(export(&test, &claude)["agent"], "claude-code", "R176 R235");
}

#[test]
fn sources_of_the_dashboard_have_their_earlier_names() {
    let server = Server::start(three_agents(), &[]);
    for (source, words) in [("claude-code", "compare"), ("cli", "count"), ("vscode", "draw")] {
        let page = server.page(&format!("/?source={source}"));
        assert!(page.contains(words), "R181 R195: {source}");
        let sessions = server.json(&format!("/api/sessions?source={source}"));
        let sessions = sessions["sessions"].as_array().or(sessions.as_array()).unwrap().len();
        assert_eq!(sessions, 1, "R181 R190: {source}");
        let found = server.json(&format!("/api/search?q=walruses&source={source}"));
        let found = found["results"].as_array().unwrap();
        assert!(!found.is_empty(), "R181 R192: {source}");
        assert!(found.iter().all(|hit| hit["source"] == source), "R192: {found:?}");
        for path in ["/search?q=walruses&", "/analytics?", "/insights?"] {
            server.page(&format!("{path}source={source}")); // R181
        }
    }
    let search = server.page("/search?q=walruses");
    assert!(search.contains("<select") && search.contains("Claude Code"), "R195");
}

#[test]
fn a_session_of_the_earlier_endpoints_has_events_by_type() {
    let server = Server::start(three_agents(), &[]);
    let id = format!("claude-code:{}", Transcript::new(0xaaaa).id);
    let detail = server.json(&format!("/api/sessions/{id}"));
    let types: Vec<&str> = detail["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    let expected =
        ["user.message", "tool.execution_start", "tool.execution_complete", "assistant.message"];
    assert_eq!(types, expected, "R168 R178");
    assert_eq!(detail["eventCounts"]["user.message"], 1, "R179");
    assert_eq!(detail["planContent"], Value::Null, "R179");
    assert_eq!(detail["hasSnapshots"], false, "R179");
    assert_eq!(detail["source"], "claude-code", "R176");
}

#[test]
fn statistics_are_those_of_the_documents() {
    let stats = three_agents().aj("stats --json").code(0).json();
    assert_eq!(stats["totals"]["sessions"], 3, "R190 R199");
    assert_eq!(stats["totals"]["prompts"], 3, "R205");
    assert_eq!(stats["totals"]["tool_calls"], 1, "R201");
    assert_eq!(stats["totals"]["tool_errors"], 1, "R206");
    assert_eq!(
        stats["tokenUsage"],
        json!({ "totalInput": 3, "totalOutput": 5, "totalCacheRead": 7,
        "totalCacheCreation": 0 }),
        "R208 R209"
    );
    assert!(stats.get("totalCostUSD").is_some() && stats.get("costPerDay").is_some(), "R209");
}

#[test]
fn the_score_has_five_categories_for_an_agent_as_a_whole() {
    let test = Test::new();
    for number in 1..=3 {
        let session = Transcript::new(number)
            .you("please look at the failing login test again")
            .agent("Done.");
        test.write(session.path(), &session.lines);
    }
    test.aj("index").code(0);
    let server = Server::start(test, &[]);
    let score = server.json("/api/insights?repo=Claude%20Code").to_string();
    for category in ["Claude Code (all sessions)", "rompt", "ool", "fficiency", "MCP", "ngagement"]
    {
        assert!(score.contains(category), "R193 R210: {category} in {score}");
    }
    let page = server.page("/insights");
    assert!(page.contains("Claude Code (all sessions)"), "R197");
}

#[test]
fn a_session_that_an_id_could_mean_twice_is_named_with_its_agent() {
    let test = Test::new();
    let id = Transcript::new(7).id;
    let session = Transcript::new(7).you("the claude one");
    test.write(session.path(), &session.lines);
    write_log(
        &test,
        &id,
        &[
            start(&id, "/srv/p"),
            event(
                "user.message",
                "u",
                Some("e0"),
                "10:01:00",
                json!({ "content": "the copilot one" }),
            ),
        ],
    );
    test.args(["show", &id]).fails([&format!("claude-code:{id}"), &format!("copilot-cli:{id}")]); // R230 R235
    test.args(["show", &format!("copilot:{id}")]).code(0).shows(["the copilot one"]); // R230
    let server = Server::start(&test, &[]);
    let answer = server.get(&format!("/api/sessions/{id}"));
    assert_eq!(answer.status, 409, "R230");
    assert!(
        answer.text().contains("claude-code:") && answer.text().contains("copilot-cli:"),
        "R230"
    );
}
