//! Compares `aj` with what really happened in recordings of real agents. The recordings are not
//! published (`AJ_FARM`); where they are absent the test says so and passes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::farm::{RECORDINGS, compare_recording, read_truth};
use crate::support::{Test, copy};

#[test]
fn figures_of_recorded_agents_equal_what_happened() {
    let Some(recordings) = recordings() else { return };
    let mut compared = BTreeSet::new();
    let mut wrong = Vec::new();
    for recording in recordings {
        let name = recording.file_name().unwrap().to_string_lossy().into_owned();
        let test = Test::new();
        copy(&recording.join("home"), &test.path(""));
        test.aj("index").code(0);
        let facts = read_truth(&recording.join("truth.jsonl"));
        let mut ask = |words: &[&str]| {
            let run = test.args(words);
            (run.code == Some(0)).then(|| run.json())
        };
        let Some(differences) = compare_recording(&name, &facts, &mut ask) else { continue };
        compared.insert(name.clone());
        for one in differences {
            let (expected, found) = (one.expected, one.found);
            wrong.push(format!(
                "{name}, {}, {}: expected {expected}, found {found}",
                one.view, one.figure
            ));
        }
    }
    for (name, _) in RECORDINGS {
        assert!(compared.contains(*name), "{name} was not read");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Lists the recordings in `AJ_FARM` or beside the project.
fn recordings() -> Option<Vec<PathBuf>> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/farm/recordings");
    let directory = std::env::var_os("AJ_FARM").map_or_else(beside, PathBuf::from);
    let Ok(entries) = fs::read_dir(&directory) else {
        eprintln!("skipped: no recordings in AJ_FARM or ../shared/farm/recordings");
        return None;
    };
    let mut all: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    all.retain(|path| path.join("truth.jsonl").is_file());
    all.sort();
    Some(all)
}
