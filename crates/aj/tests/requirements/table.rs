//! `docs/requirements.md` names a test for every requirement, and the test is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// How many requirements the specification has.
const REQUIREMENTS: usize = 281;

#[test]
fn every_requirement_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let table = fs::read_to_string(root.join("docs/requirements.md")).unwrap();
    let tests = test_names(&root.join("crates"));
    let mut next = 1;
    for row in table.lines().filter(|line| line.starts_with("| R")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[1], format!("R{next}"), "rows are in order, none is left out");
        next += 1;
        // What no program can check says who has to read or decide what.
        if cells[3].starts_with("Read: ") || cells[3].starts_with("Decision: ") {
            continue;
        }
        let named: Vec<&str> = cells[3].split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{} names no test", cells[1]);
        for name in named {
            assert!(tests.contains(name), "{}: there is no test `{name}`", cells[1]);
        }
    }
    assert_eq!(next - 1, REQUIREMENTS);
}

/// Collects the names of all tests below a directory.
fn test_names(directory: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in rust_files(directory) {
        let text = fs::read_to_string(path).unwrap();
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            is_test |= line == "#[test]";
            if let Some(rest) = line.strip_prefix("fn ").filter(|_| is_test) {
                let name = rest.split('(').next().unwrap();
                names.insert(name.to_owned());
                is_test = false;
            }
        }
    }
    names
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "fixtures") {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            files.push(path);
        }
    }
    files
}
