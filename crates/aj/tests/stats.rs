//! `aj stats`, `score`, `statusline` and every other view of money, on the real program.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

struct Home(tempfile::TempDir);

impl Home {
    /// A home with one session of one call by a model.
    fn new(model: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        let base = json!({ "sessionId": "s1", "cwd": "/src/web", "version": "2.1.0",
                           "gitBranch": "main" });
        let line = |kind: &str, uuid: &str, at: &str, message: Value| {
            let mut line = base.clone();
            line["type"] = json!(kind);
            line["uuid"] = json!(uuid);
            line["timestamp"] = json!(at);
            line["message"] = message;
            format!("{line}\n")
        };
        let prompt = json!({ "role": "user", "content": "please fix the login" });
        let usage = json!({ "input_tokens": 1_000_000, "output_tokens": 200_000,
                            "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0 });
        let call = json!({ "type": "tool_use", "id": "t1", "name": "Bash",
                           "input": { "command": "true" } });
        let answer = json!({ "id": "m1", "role": "assistant", "model": model, "usage": usage,
                             "content": [{ "type": "text", "text": "done" }, call] });
        let result = json!({ "role": "user", "content": [{ "type": "tool_result",
                             "tool_use_id": "t1", "content": "ok", "is_error": false }] });
        let text = line("user", "u1", "2026-11-03T10:00:00Z", prompt)
            + &line("assistant", "u2", "2026-11-03T10:02:00Z", answer)
            + &line("user", "u3", "2026-11-03T10:03:00Z", result);
        home.write(".claude/projects/-src-web/s1.jsonl", &text);
        home
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn run(&self, args: &[&str]) -> (String, i32) {
        let home: &Path = self.0.path();
        let output = Command::new(env!("CARGO_BIN_EXE_aj"))
            .args(args)
            .env_clear()
            .env("HOME", home)
            .env("USERPROFILE", home)
            .env("COLUMNS", "160")
            .env("TZ", "UTC")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (text, output.status.code().unwrap())
    }

    fn json(&self, args: &[&str]) -> Value {
        let (text, _) = self.run(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap()
    }
}

#[test]
fn an_unknown_model_is_unpriced_in_every_view() {
    let home = Home::new("nobody-knows-1");
    for args in [
        &["stats"] as &[&str],
        &["stats", "--by", "day"],
        &["stats", "--by", "model"],
        &["stats", "--by", "session"],
        &["list"],
        &["show", "s1"],
        &["statusline"],
    ] {
        let (text, code) = home.run(args);
        assert_eq!(code, 0, "{args:?}");
        assert!(text.contains('–') && !text.contains('$'), "{args:?}\n{text}");
    }
    let stats = home.json(&["stats"]);
    assert_eq!(stats["schema"], "aj.stats/1");
    assert_eq!(stats["totalCostUSD"], Value::Null);
    assert_eq!(stats["costPerDay"], json!({}));
    assert_eq!(stats["totals"]["cost"]["priced_share"], 0.0);
    assert_eq!(home.json(&["list"])["sessions"][0]["cost"]["usd"], Value::Null);
    assert_eq!(home.json(&["statusline"])["session"]["cost"]["usd"], Value::Null);
    assert_eq!(home.json(&["show", "s1"])["session"]["cost"]["usd"], Value::Null);
    assert_eq!(home.json(&["search", "login"])["sessions"][0]["cost"]["usd"], Value::Null);
    for format in ["html", "markdown", "json", "ndjson"] {
        let (text, code) = home.run(&["export", "s1", "-o", "-", "--format", format]);
        assert!(code == 0 && !text.contains("$0") && !text.contains("usd"), "{format}\n{text}");
    }
    let (text, _) = home.run(&["stats", "--explain"]);
    assert!(text.contains("tokens without a known price: nobody-knows-1"), "{text}");
}

#[test]
fn what_is_not_known_is_no_zero() {
    let home = Home::new("claude-opus-4-5");
    let stats = home.json(&["stats", "--by", "model"]);
    for group in [&stats["groups"][0], &stats["models"][0]] {
        assert_eq!((&group["key"], &group["sessions"]), (&json!("claude-opus-4-5"), &json!(1)));
        assert_eq!(group["tokens"]["input"], 1_000_000);
        for name in ["prompts", "messages", "active_s", "work_s", "tool_calls", "tool_errors"] {
            assert_eq!(group.get(name), None, "{name}");
        }
    }
    assert_eq!(home.json(&["stats", "--by", "agent"])["groups"][0]["prompts"], 1);
    assert_eq!(stats.get("files"), None, "files are counted when nothing is grouped");
    assert_eq!(home.json(&["stats"])["files"], json!([]));
}

#[test]
fn what_a_limit_leaves_out_is_counted() {
    let home = Home::new("claude-opus-4-5");
    let file = home.0.path().join(".claude/projects/-src-web/s1.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let later = text.replace("2026-11-03", "2026-11-04").replace("s1", "s2");
    home.write(".claude/projects/-src-web/s2.jsonl", &later.replace("\"u", "\"v"));
    let by_day = home.json(&["stats", "--by", "day", "--limit", "1"]);
    assert_eq!(by_day["groups"][0]["key"], "2026-11-04");
    assert_eq!((by_day["groups"].as_array().unwrap().len(), &by_day["left_out"]), (1, &json!(1)));
    let all = home.json(&["stats", "--by", "day", "--limit", "2"]);
    assert_eq!(all.get("left_out"), None);
}

#[test]
fn a_known_model_is_estimated_and_marked_so() {
    let home = Home::new("claude-opus-4-5");
    // R209: a million tokens in at 5 dollars, 200,000 out at 25.
    let stats = home.json(&["stats"]);
    assert_eq!(stats["totalCostUSD"], 10.0);
    assert_eq!(stats["costPerDay"], json!({ "2026-11-03": 10.0 }));
    let usage = json!({ "totalInput": 1_000_000, "totalOutput": 200_000, "totalCacheRead": 0,
                        "totalCacheCreation": 0 });
    assert_eq!(stats["tokenUsage"], usage);
    assert_eq!(stats["totals"]["active_s"], 180);
    for args in [&["list"] as &[&str], &["search", "login"]] {
        assert_eq!(home.json(args)["sessions"][0]["cost"]["usd"], 10.0, "{args:?}");
    }
    let session = &home.json(&["show", "s1"])["session"];
    assert_eq!(
        (&session["cost"]["usd"], &session["cost"]["basis"]),
        (&json!(10.0), &json!("estimated"))
    );
    for args in [&["stats"] as &[&str], &["list"], &["show", "s1"], &["statusline"]] {
        let (text, _) = home.run(args);
        assert!(text.contains("~$10.00"), "{args:?}\n{text}");
    }
}

#[test]
fn prices_of_the_configuration_hold() {
    let home = Home::new("nobody-knows-1");
    let prices = "[prices]\n\"nobody-knows-1\" = { input = 2, output = 10.5 }\n";
    home.write(".agent-journal/config.toml", prices);
    assert_eq!(home.json(&["stats"])["totalCostUSD"], 4.1);
    home.write(".agent-journal/config.toml", "[prices]\nx = { inptu = 2 }\n");
    assert_eq!(home.run(&["stats"]).1, 2);
}

#[test]
fn fields_and_flags_choose_and_words_are_refused() {
    let home = Home::new("claude-opus-4-5");
    assert_eq!(home.run(&["stats", "project:web", "since:2026-11-01"]).1, 0);
    assert_eq!(home.run(&["stats", "--project", "nothing"]).1, 1);
    assert_eq!(home.run(&["stats", "login"]).1, 2);
    assert_eq!(home.run(&["stats", "--timezone", "Nowhere/Land"]).1, 2);
}

#[test]
fn few_sessions_are_listed_without_a_score() {
    let home = Home::new("claude-opus-4-5");
    let (text, code) = home.run(&["score"]);
    assert_eq!(code, 0);
    assert!(text.contains("not enough sessions (1 session)"), "{text}");
    let score = home.json(&["score", "web"]);
    assert_eq!((&score["schema"], &score["agents"]), (&json!("aj.score/1"), &json!([])));
    assert_eq!(score["repositories"][0]["total"], Value::Null);
}

#[test]
fn the_status_line_names_the_session_an_agent_asks_for() {
    let home = Home::new("claude-opus-4-5");
    home.run(&["index"]);
    let (text, _) = home.run(&["statusline", "--session", "s1"]);
    assert_eq!(text, "claude please fix the login · 1.2M ~$10.00 │ today 0 –\n");
    let (text, code) = home.run(&["statusline", "--session", "unheard-of"]);
    assert_eq!((text.as_str(), code), ("today 0 –\n", 0));
}
