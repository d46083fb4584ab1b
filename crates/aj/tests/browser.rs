//! The dashboard in a real browser: the real program on a made-up history, driven as a person
//! would drive it. Without Chromium and Node the tests say that they were skipped.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::history::History;
use crate::support::server::Server;
use crate::support::{Test, Transcript, browser};

/// What could run, load or break out, in a page that is careless.
const HOSTILE: &[&str] = &[
    "<script>window.pwned = 1</script>",
    "<img src=x onerror=\"window.pwned = 1\">",
    "![x](http://evil.example/x.png)",
    "[click](javascript:window.pwned=1)",
    "<svg onload=\"window.pwned = 1\"><style>*{display:none}</style></svg>",
    "</pre></details></article></main><script>window.pwned = 1</script>",
    "<iframe srcdoc=\"<script>parent.pwned = 1</script>\"></iframe>",
    "```html\n</code></pre><script>window.pwned = 1</script>\n```",
    "<form action=\"http://evil.example\"><input name=a autofocus onfocus=\"window.pwned = 1\"></form>",
    "<a href=\"x\" style=\"position:fixed;inset:0\">over everything</a>",
    "<meta http-equiv=refresh content=\"0;url=http://evil.example\"><base href=\"http://evil.example/\">",
];

/// A home with some months of work in it, read already.
fn lived_in() -> Test {
    let test = Test::new();
    history(60, 12).write(&test.path("")).unwrap();
    test.aj("index").code(0);
    test
}

fn history(sessions: u64, prompts: u64) -> History {
    History { sessions, prompts, days: 100, end: Timestamp::now() }
}

/// Has a browser go through a scenario of `browser/dashboard.mjs`.
#[track_caller]
fn drive(scenario: &str, test: &Test, more: &Value) {
    if browser::driven().is_none() {
        return;
    }
    let server = Server::start(test, &[]);
    let mut options = json!({ "url": server.url, "profile": test.beside("profiles") });
    let given = options.as_object_mut().unwrap();
    given.extend(more.as_object().cloned().unwrap_or_default());
    browser::drive("dashboard.mjs", scenario, options);
}

#[test]
fn every_page_is_readable_and_accessible_in_both_themes() {
    drive("pages", &lived_in(), &Value::Null);
}

#[test]
fn every_page_fits_a_phone() {
    drive("phone", &lived_in(), &Value::Null);
}

#[test]
fn analytics_are_filtered_by_their_address_and_lead_to_sessions() {
    drive("analytics", &lived_in(), &Value::Null);
}

#[test]
fn insights_show_the_score_of_what_is_chosen() {
    drive("insights", &lived_in(), &Value::Null);
}

#[test]
fn sessions_are_filtered_and_opened() {
    drive("sessions", &lived_in(), &Value::Null);
}

#[test]
fn a_search_answers_as_one_types_and_leads_to_the_message() {
    drive("search", &lived_in(), &Value::Null);
}

#[test]
fn a_transcript_folds_finds_and_has_landmarks() {
    drive("transcript", &lived_in(), &Value::Null);
}

/// A session: prompts `ask-N`, each with a command `step-N` and an answer.
fn stepwise(prompts: usize, failed: usize) -> Transcript {
    let mut transcript = Transcript::new(0x57e9);
    for number in 0..prompts {
        transcript = transcript.you(&format!("ask-{number}"));
        transcript = transcript.tool(&format!("step-{number}"), number == failed);
        transcript = transcript.agent(&format!("answer-{number}"));
    }
    transcript
}

/// A home with one such session.
fn steps(prompts: usize, failed: usize) -> (Test, Value) {
    let (test, transcript) = (Test::new(), stepwise(prompts, failed));
    test.write(transcript.path(), &transcript.lines);
    test.aj("index").code(0);
    (test, json!({ "session": format!("/session/claude-code:{}", transcript.id) }))
}

#[test]
fn one_jumps_from_prompt_to_prompt_tool_to_tool_and_failure_to_failure() {
    let (test, session) = steps(60, 50);
    drive("jumps", &test, &session);
}

#[test]
fn what_is_found_is_unfolded_and_every_place_has_an_address() {
    let (test, session) = steps(200, 199);
    drive("places", &test, &session);
}

#[test]
fn an_outline_of_many_prompts_comes_in_parts_and_leaves_none_out() {
    let (test, session) = steps(640, 0);
    drive("outline", &test, &session);
}

#[test]
fn everything_is_reached_by_keyboard() {
    drive("keyboard", &lived_in(), &Value::Null);
}

#[test]
fn what_an_agent_writes_appears_by_itself() {
    let test = Test::new();
    let transcript = Transcript::new(0x7e57).you("hello").agent("hello yourself");
    test.write(transcript.path(), &transcript.lines);
    test.aj("index").code(0);
    let (id, file, known) =
        (transcript.id.clone(), test.path(&transcript.path()), transcript.lines.len());
    let longer = transcript.you("one more thing").agent("a message that has just been written");
    let line = &longer.lines[known..];
    let session = format!("/session/claude-code:{id}");
    let other = Transcript::new(0x7e58).you("good morning");
    drive(
        "live",
        &test,
        &json!({
            "session": session, "file": file, "line": line,
            "other": test.path(&other.path()), "lines": other.lines,
        }),
    );
}

#[test]
fn news_that_come_at_once_lose_nothing_and_pull_nobody_back() {
    let (test, mut options) = steps(10, 0);
    let (mut longer, mut lines) = (stepwise(10, 0), Vec::new());
    for text in ["the first news", "the second news", "the third news"] {
        let known = longer.lines.len();
        longer = longer.agent(text);
        lines.push(longer.lines[known..].to_owned());
    }
    options["file"] = json!(test.path(&longer.path()));
    options["lines"] = json!(lines);
    drive("news", &test, &options);
}

#[test]
fn ten_thousand_sessions_stay_smooth() {
    if browser::driven().is_none() {
        return;
    }
    let test = Test::new();
    history(10_000, 1).write(&test.path("")).unwrap();
    test.aj("index").code(0);
    drive("many", &test, &Value::Null);
}

#[test]
fn a_hostile_transcript_is_only_text() {
    let test = Test::new();
    let mut transcript = Transcript::new(0xbad);
    for evil in HOSTILE {
        transcript = transcript.you(&format!("hostile {evil}")).agent(&format!("hostile {evil}"));
    }
    test.write(transcript.path(), &transcript.lines);
    test.aj("index").code(0);
    let session = format!("/session/claude-code:{}", transcript.id);
    drive("hostile", &test, &json!({ "session": session }));
}

#[test]
fn an_empty_journal_helps_on_every_page() {
    drive("empty", &Test::new(), &Value::Null);
}
