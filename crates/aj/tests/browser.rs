//! The dashboard in a real browser: the real program on a made-up history, driven as a person
//! would drive it. Without Chromium and Node the tests say that they were skipped.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests make their own files")]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use jiff::Timestamp;
use serde_json::{Value, json};
use support::history::History;
use support::{Test, browser};

/// A running dashboard. It ends with the test.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(test: &Test) -> Self {
        let mut command = test.command(["serve", "--port", "0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { child, url: url.trim().to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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
    let Some((chromium, scripts)) = browser::driven() else { return };
    let server = Server::start(test);
    let mut options = json!({
        "browser": chromium, "url": server.url, "profile": test.beside("profiles"),
    });
    let given = options.as_object_mut().unwrap();
    given.extend(more.as_object().cloned().unwrap_or_default());
    let script = scripts.join("dashboard.mjs");
    let output =
        Command::new("node").arg(script).args([scenario, &options.to_string()]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("PASSED"), "{scenario}: {told}\n{failed}");
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
fn an_empty_journal_helps_on_every_page() {
    drive("empty", &Test::new(), &Value::Null);
}
