//! The examples, run on the home of a fixture.

#[path = "../examples/export.rs"]
#[allow(dead_code, reason = "the test calls what `main` calls")]
mod export;
#[path = "../examples/search.rs"]
#[allow(dead_code, reason = "the test calls what `main` calls")]
mod search;

use crate::support::{Home, fixtures};

#[test]
fn the_search_example_prints_sessions_with_passages() {
    let home = Home::of(&fixtures().join("claude-code/whole-session"));
    let mut out = Vec::new();
    search::search("flaky login", home.machine(), &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("claude-code  "), "{out}");
    assert!(lines[1].to_lowercase().contains("flaky login"), "{out}");
    assert!(lines.last().unwrap().ends_with(" sessions"), "{out}");
}

#[test]
fn the_export_example_writes_markdown() {
    let home = Home::of(&fixtures().join("claude-code/whole-session"));
    let mut out = Vec::new();
    export::export_latest(home.machine(), &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("# Flaky login, for good"), "{out}");
    assert!(out.contains("the login test is flaky again in CI"), "{out}");
}
