//! A made-up history of two agents over some months: the same in every run, but for the day it
//! ends on. The browser's tests and the screenshots look at it.

use std::fs;
use std::io;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// What people asked, and where.
const ASKED: &[(&str, &str, &str)] = &[
    (
        "web",
        "main",
        "The login test is flaky again in CI, it passes locally. Find out why and fix it",
    ),
    (
        "api",
        "feat/retry",
        "Add retry with backoff to the upload worker, it gives up on the first 503",
    ),
    ("lex", "main", "Port the parser to winnow and keep every error message as it is"),
    ("ops", "main", "Explain what the billing cron does at month end and whether it can run twice"),
    ("web", "feat/dark", "Give the settings page a dark theme, with contrast that passes WCAG AA"),
    ("api", "fix/leak", "Memory grows by 40 MB a day in the worker. Profile it and find the leak"),
    ("docs", "main", "Rewrite the getting started page: shorter, with one example that runs"),
    ("lex", "perf", "Benchmark the tokenizer on the large fixtures and speed up the slowest part"),
    ("web", "main", "Upgrade to the new router and remove the old redirects nobody uses"),
    ("api", "main", "Page the orders endpoint by cursor instead of offset"),
    ("web", "feat/export", "Let people download their invoices as one PDF"),
    ("ops", "main", "The nightly backup takes six hours now. Where does the time go?"),
    ("api", "main", "Sign the webhooks, and describe how receivers check the signature"),
    ("lex", "main", "Why does the lexer accept a number that ends in an underscore?"),
    ("docs", "main", "Find every dead link in the handbook and fix those that moved"),
    ("web", "fix/a11y", "The menu cannot be used with a keyboard: make it so that it can"),
    ("api", "feat/limits", "Limit requests per key, with a header that says what is left"),
    ("ops", "feat/alerts", "Alert on the error budget, not on single failures"),
    ("lex", "perf", "Intern the identifiers and measure what that does to memory"),
    ("web", "main", "Move the form validation to one place, with the same messages"),
];

/// Tools, with what they are called with.
const TOOLS: &[(&str, &str, &str)] = &[
    ("Bash", "command", "cargo test --workspace"),
    ("Read", "file_path", "src/worker.rs"),
    ("Edit", "file_path", "src/worker.rs"),
    ("Grep", "pattern", "fn retry"),
    ("Bash", "command", "git diff --stat"),
    ("Read", "file_path", "tests/login.rs"),
    ("mcp__github__get_issue", "issue", "412"),
    ("Write", "file_path", "tests/retry.rs"),
    ("WebSearch", "query", "backoff with jitter"),
    ("mcp__postgres__query", "sql", "select count(*) from orders"),
];

const MODELS: &[&str] =
    &["claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001"];

/// A made-up history.
pub struct History {
    /// How many sessions there are.
    pub sessions: u64,
    /// Over how many days they are spread.
    pub days: u64,
    /// How many prompts a session has at most.
    pub prompts: u64,
    /// When the last one is over.
    pub end: Timestamp,
}

impl History {
    /// Writes the history into a home.
    pub fn write(&self, home: &Path) -> io::Result<()> {
        for number in 0..self.sessions {
            let mut random = Random::new(number + 1);
            let session = Session::new(self, number, &mut random);
            let (path, text) = if number % 4 == 3 {
                session.codex(&mut random)
            } else {
                session.claude(&mut random)
            };
            let path = home.join(path);
            fs::create_dir_all(path.parent().unwrap_or(home))?;
            fs::write(path, text)?;
        }
        Ok(())
    }
}

struct Session {
    number: u64,
    id: String,
    project: &'static str,
    branch: &'static str,
    asked: &'static str,
    start: Timestamp,
    prompts: u64,
}

impl Session {
    fn new(history: &History, number: u64, random: &mut Random) -> Self {
        let (project, branch, asked) = ASKED[random.below(ASKED.len() as u64) as usize];
        let id = format!(
            "{:08x}-{number:04x}-4000-8000-{number:012x}",
            random.below(u64::from(u32::MAX))
        );
        // The last ends now; the others lie before it, more of them lately, in waking hours.
        let share = random.below(1000) as f64 / 1000.0;
        let day = (share * share * history.days as f64) as i64;
        let minutes = match number {
            0 => 20,
            _ => day * 24 * 60 + 30 + (random.below(11) * 60 + random.below(60)) as i64,
        };
        let start = history.end - SignedDuration::from_mins(minutes);
        let prompts =
            1 + random.below(history.prompts.max(1)).min(random.below(history.prompts.max(1)));
        Self { number, id, project, branch, asked, start, prompts }
    }

    fn text(&self, turn: u64) -> &'static str {
        match turn % 4 {
            0 => self.asked,
            1 => "Good. Now add a test that fails without the change",
            2 => "Does this also hold when the connection drops half way?",
            _ => "Write down in the changelog what is different now",
        }
    }

    fn claude(&self, random: &mut Random) -> (String, String) {
        let model = MODELS[[0, 0, 1, 1, 1, 2][random.below(6) as usize]];
        let mut lines = Lines { session: self, at: self.start, text: String::new(), count: 0 };
        for turn in 0..self.prompts {
            lines.push("user", &json!({ "role": "user", "content": self.text(turn) }), 20);
            let calls = if self.prompts == 1 { 0 } else { random.below(4) };
            for call in 0..calls {
                let (name, key, value) = TOOLS[random.below(TOOLS.len() as u64) as usize];
                let id = format!("toolu_{}_{turn}_{call}", self.number);
                let input = json!({ key: value, "description": "as asked" });
                let content = json!({ "type": "tool_use", "id": id, "name": name, "input": input });
                lines.push("assistant", &answer(model, self, lines.count, &content, random), 15);
                let failed = random.below(100) < 9;
                let output = if failed {
                    "Exit code 101\ntest result: FAILED. 11 passed; 1 failed"
                } else {
                    "ok: 12 passed"
                };
                let result = json!({ "type": "tool_result", "tool_use_id": id, "content": output, "is_error": failed });
                lines.push("user", &json!({ "role": "user", "content": [result] }), 25);
            }
            let content = json!({ "type": "text", "text": "The race was in `waitForSession`: the cookie is set **after** the redirect.\n\n```rust\nclient.wait_for(Session::Ready).await?;\n```\n\nI changed the order and ran the test twenty times." });
            lines.push("assistant", &answer(model, self, lines.count, &content, random), 40);
        }
        let path = format!(".claude/projects/-home-sam-{}/{}.jsonl", self.project, self.id);
        (path, lines.text)
    }

    fn codex(&self, random: &mut Random) -> (String, String) {
        let cwd = format!("/home/sam/{}", self.project);
        let mut at = self.start;
        let mut text = String::new();
        let mut push = |kind: &str, payload: &Value, seconds: i64| {
            let line = json!({ "timestamp": stamp(at), "type": kind, "payload": payload });
            text.push_str(&format!("{line}\n"));
            at += SignedDuration::from_secs(seconds);
        };
        push(
            "session_meta",
            &json!({ "id": self.id, "timestamp": stamp(self.start), "cwd": cwd, "originator": "codex_cli_rs", "cli_version": "0.137.0", "source": "cli", "git": { "branch": self.branch } }),
            1,
        );
        push(
            "turn_context",
            &json!({ "cwd": cwd, "approval_policy": "never", "model": "gpt-5.1-codex", "summary": "auto" }),
            1,
        );
        let mut total = [0; 3];
        for turn in 0..self.prompts {
            let asked = self.text(turn);
            push(
                "response_item",
                &json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": asked }] }),
                1,
            );
            push(
                "event_msg",
                &json!({ "type": "user_message", "message": asked, "images": [] }),
                30,
            );
            let said = "Done: the change is small, and the tests pass.";
            push("event_msg", &json!({ "type": "agent_message", "message": said }), 1);
            push(
                "response_item",
                &json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": said }] }),
                1,
            );
            let last = [4_000 + random.below(30_000), 3_000, 200 + random.below(900)];
            for (sum, one) in total.iter_mut().zip(last) {
                *sum += one;
            }
            let usage = |of: [u64; 3]| json!({ "input_tokens": of[0], "cached_input_tokens": of[1], "output_tokens": of[2], "reasoning_output_tokens": 0, "total_tokens": of[0] + of[2] });
            push(
                "event_msg",
                &json!({ "type": "token_count", "info": { "total_token_usage": usage(total), "last_token_usage": usage(last), "model_context_window": 258_400 }, "rate_limits": null }),
                60,
            );
        }
        let day = self.start.strftime("%Y/%m/%d");
        let time = self.start.strftime("%Y-%m-%dT%H-%M-%S");
        (format!(".codex/sessions/{day}/rollout-{time}-{}.jsonl", self.id), text)
    }
}

/// The lines of a file on their way.
struct Lines<'s> {
    session: &'s Session,
    at: Timestamp,
    text: String,
    count: u64,
}

impl Lines<'_> {
    fn push(&mut self, kind: &str, message: &Value, seconds: i64) {
        let Session { id, project, branch, .. } = self.session;
        let parent = (self.count > 0).then(|| format!("{id}-{}", self.count - 1));
        let line = json!({
            "parentUuid": parent, "isSidechain": false, "userType": "external", "type": kind,
            "cwd": format!("/home/sam/{project}"), "sessionId": id, "version": "2.1.80",
            "gitBranch": branch, "message": message, "uuid": format!("{id}-{}", self.count),
            "requestId": format!("req_{id}_{}", self.count), "timestamp": stamp(self.at),
        });
        self.text.push_str(&format!("{line}\n"));
        self.count += 1;
        self.at += SignedDuration::from_secs(seconds);
    }
}

fn answer(
    model: &str,
    session: &Session,
    count: u64,
    content: &Value,
    random: &mut Random,
) -> Value {
    json!({
        "model": model, "id": format!("msg_{}_{count}", session.id), "type": "message",
        "role": "assistant", "content": [content],
        "usage": {
            "input_tokens": 3 + random.below(900),
            "cache_creation_input_tokens": random.below(3_000),
            "cache_read_input_tokens": 8_000 + random.below(60_000),
            "output_tokens": 40 + random.below(800),
        },
    })
}

fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string()
}

/// Random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.below(1);
        random
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end.max(1)
    }
}
