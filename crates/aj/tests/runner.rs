//! The tests that run the real program. They are modules of one program, because each test program
//! links the whole library, which takes longer than most tests. A module name filters them:
//! `cargo test -p aj --test runner search::`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "tests make their own files")]

mod all_agents;
mod analytics;
mod api;
mod bills;
#[cfg(unix)]
mod blame;
mod browser;
#[cfg(unix)]
mod changes;
mod claude_code;
mod commands;
mod config;
mod copilot;
#[cfg(unix)]
mod damage;
mod day_one;
mod declared;
mod doctor;
mod export;
mod farm;
#[cfg(unix)]
mod faults;
mod figures;
mod forks;
mod formats;
mod graph;
mod handoff;
mod help;
mod import;
#[cfg(target_os = "linux")]
mod instructions;
#[cfg(target_os = "linux")]
mod interruptions;
#[cfg(unix)]
mod kills;
mod mcp;
mod meaning;
mod page;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(unix)]
mod privacy;
mod recorded_agents;
mod recordings;
mod redaction;
mod requirements;
#[cfg(unix)]
mod resume;
mod search;
mod serve;
mod show;
mod skill;
mod stats;
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "some tests are for one system"))]
mod support;
#[cfg(unix)]
mod tui;
#[cfg(unix)]
mod watch;
mod web_chats;
mod wording;

/// Test programs of their own, with an entry in `Cargo.toml`.
const OWN_PROGRAMS: [&str; 1] = ["runner"];

#[test]
fn every_test_file_belongs_to_a_test_program() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let modules: Vec<&str> = include_str!("runner.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let is_module = path.extension().is_some_and(|extension| extension == "rs")
            || path.join("mod.rs").is_file();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_known = modules.contains(&name) || OWN_PROGRAMS.contains(&name);
        assert!(!is_module || is_known, "tests/runner.rs does not name {}", path.display());
    }
}
