//! The tests of the library's public interface. They are modules of one program, because each test
//! program links the whole library, which takes longer than most tests. A module name filters them:
//! `cargo test -p agent-journal --test runner search::`.
//!
//! `watch.rs` is a program of its own: it counts the bytes that the whole process reads and writes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "tests make their own files")]

mod accounting;
mod architecture;
mod archive;
mod blame;
mod copies;
mod corpus;
mod documents;
mod examples;
mod export;
mod export_hostile;
mod fuzz;
mod import;
mod journal;
mod kept;
mod meaning;
mod news;
mod projects;
mod search;
mod support;
mod totals;
mod upgrade;

/// Test programs of their own, with an entry in `Cargo.toml`.
const OWN_PROGRAMS: [&str; 2] = ["runner", "watch"];

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
