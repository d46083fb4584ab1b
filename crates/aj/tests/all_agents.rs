//! A home with the files of every agent at once.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Test, build_databases, copy};

/// The width of a narrow terminal, in columns.
const NARROW_COLUMNS: usize = 80;

/// A home with one fixture of each agent, and the ids of the agents.
fn home_of_all_agents() -> (Test, BTreeSet<String>) {
    let test = Test::new().env("COLUMNS", NARROW_COLUMNS.to_string());
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent-sessions/tests/fixtures");
    let mut agents = BTreeSet::new();
    for agent in directories(&fixtures) {
        // The names are sorted, so the case with damage and oddities is used only if it is alone.
        let mut cases = directories(&agent);
        cases.sort_by_key(|case| case.ends_with("rough-edges"));
        copy(&cases[0].join("home"), &test.path(""));
        agents.insert(agent.file_name().unwrap().to_string_lossy().into_owned());
    }
    build_databases(&test.path(""));
    (test, agents)
}

fn directories(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[test]
fn every_agent_of_a_home_is_listed_searched_counted_and_shown() {
    let (test, agents) = home_of_all_agents();
    test.aj("index").code(0);
    let list = test.aj("list --json --all --limit 0").found().json();
    let sessions = list["sessions"].as_array().unwrap();
    let listed: BTreeSet<String> = sessions.iter().map(|one| text(&one["agent"])).collect();
    assert_eq!(listed, agents);
    let sources = test.aj("sources --json").found().json();
    for source in sources["agents"].as_array().unwrap() {
        assert_eq!(source["sources_failed"], 0, "{source}");
    }
    let stats = test.aj("stats --json").found().json();
    let started = sessions.iter().filter(|one| one["is_agent_session"] == false).count();
    assert_eq!(stats["totals"]["sessions"], started);
    for agent in &agents {
        let own = sessions.iter().find(|one| text(&one["agent"]) == *agent).unwrap();
        test.args(["show", &text(&own["id"])]).found();
        test.args(["search", &format!("agent:{agent}")]).found();
    }
}

#[test]
fn every_format_exports_a_home_of_all_agents_and_an_import_counts_the_same() {
    let (test, _) = home_of_all_agents();
    test.aj("index").code(0);
    for format in ["html", "markdown", "json", "parquet"] {
        let directory = test.beside(format);
        let output = directory.to_str().unwrap();
        test.args(["export", "--all", "--redact", "--format", format, "-o", output]).code(0);
    }
    let file = test.beside("all.ndjson.zst");
    let file = file.to_str().unwrap();
    test.args(["export", "--all", "--format", "ndjson.zst", "-o", file]).code(0);
    let other = Test::new();
    other.args(["import", file]).code(0);
    let totals = |test: &Test| test.aj("stats --json").found().json()["totals"].clone();
    assert_eq!(totals(&other), totals(&test));
}

#[test]
fn the_sources_of_all_agents_fit_a_narrow_terminal() {
    let (test, _) = home_of_all_agents();
    test.aj("index").code(0);
    let home = test.beside("");
    let sources = test.aj("sources").found();
    // Paths are not broken, so that they can be copied.
    let others = sources.stdout.lines().filter(|line| !line.contains(home.to_str().unwrap()));
    let wide: Vec<&str> = others.filter(|line| line.chars().count() > NARROW_COLUMNS).collect();
    assert!(wide.is_empty(), "{wide:#?}");
    sources.hides(["does not exist)"]);
}
