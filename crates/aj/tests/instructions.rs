//! How many instructions the everyday commands take on a small history. Times on shared machines
//! are noise; these counts are the same in every run, so that a change that makes a command a
//! tenth slower is seen where it is made.
//!
//! `BLESS=1 cargo test -p aj --test runner instructions::` accepts new counts: say in the commit why.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::support::{Test, Transcript};

/// The share a count may change by, in percent.
const TOLERANCE: u64 = 10;

/// The commands that are counted, in the order in which they run.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("index", &["index"]),
    ("index, nothing new", &["index"]),
    ("list", &["list"]),
    ("search, rare word", &["search", "needle17"]),
    ("search, common word", &["search", "harbour"]),
    ("stats", &["stats", "--by", "day"]),
];

/// The accepted counts, and the compiler they hold for: another one makes other code.
#[derive(Serialize, Deserialize, Default)]
struct Accepted {
    compiler: String,
    counts: BTreeMap<String, u64>,
}

fn history() -> Test {
    let test = Test::new();
    for number in 0..24 {
        let mut session = Transcript::new(number).you(&format!("needle{number} in the harbour"));
        for step in 0..40 {
            let said = format!("step {step} of {number}: the harbour wall moved by {step} stones ");
            session = session.agent(&said.repeat(6));
        }
        test.write(session.path(), session.lines);
    }
    test
}

/// Counts the instructions of one run.
fn count(test: &Test, arguments: &[&str]) -> u64 {
    let inner = test.command(arguments);
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--"]);
    command.arg(inner.get_program()).args(inner.get_args()).env_clear();
    for (name, value) in inner.get_envs() {
        command.env(name, value.unwrap());
    }
    let output = command.env("PATH", std::env::var_os("PATH").unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    collected.unwrap_or_else(|| panic!("no count in {said}")).1.trim().parse().unwrap()
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/instructions.json")
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn everyday_commands_take_no_more_instructions_than_accepted() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed");
        return;
    }
    let test = history();
    let mut counts = BTreeMap::new();
    for (name, arguments) in COMMANDS {
        counts.insert(name.to_owned(), count(&test, arguments));
    }
    if std::env::var_os("BLESS").is_some() {
        let accepted = Accepted { compiler: compiler(), counts };
        fs::write(file(), serde_json::to_string_pretty(&accepted).unwrap() + "\n").unwrap();
        return;
    }
    let accepted: Accepted =
        serde_json::from_slice(&fs::read(file()).unwrap_or_default()).unwrap_or_default();
    println!("{counts:#?}");
    if accepted.compiler != compiler() {
        println!("skipped: the counts were accepted with {}", accepted.compiler);
        return;
    }
    let mut wrong = Vec::new();
    for (name, found) in &counts {
        let before = accepted.counts.get(name).copied().unwrap_or_default();
        if found.abs_diff(before) * 100 > before * TOLERANCE {
            wrong.push(format!("{name}: {found} instructions, {before} accepted"));
        }
    }
    assert!(
        wrong.is_empty(),
        "changed by more than {TOLERANCE} %; if that is meant, accept it with \
         `BLESS=1 cargo test -p aj --test runner instructions::` and say why in the commit: {wrong:#?}"
    );
}
