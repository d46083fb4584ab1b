//! Whether a journal that something happened to still says what another one says that nothing
//! happened to.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::{Run, Test, Transcript, text};

/// How often something is tried that has no end: `AJ_FAULTS` times, or a few.
pub fn rounds(few: u64) -> u64 {
    std::env::var("AJ_FAULTS").map_or(few, |count| count.parse().unwrap())
}

/// A session of many messages, with a word of its own in each.
pub fn long_session(number: u64, messages: u64) -> Transcript {
    let mut session = Transcript::new(number).you(&format!("begin{number} the work"));
    for message in 0..messages {
        let filler = "the quick brown fox jumps over the lazy dog ".repeat(8);
        session = session.agent(&format!("word{number}x{message} {filler}"));
    }
    session
}

/// Everything a journal answers, without what depends on the run.
pub fn answers(test: &Test) -> Value {
    let list = test.aj("list --all --limit 0 --json").json();
    let sessions = list["sessions"].as_array().unwrap();
    let tokens: u64 =
        sessions.iter().map(|one| one["tokens"]["output"].as_u64().unwrap_or(0)).sum();
    let mut found = Vec::new();
    for query in ["begin*", "login", "\"copper lattice\"", "word3x7", "word1x1*", "nothing-like-it"]
    {
        let answer = test.args(["search", "--json", "--limit", "100000", query]).json();
        let mut ids: Vec<String> =
            answer["sessions"].as_array().unwrap().iter().map(|one| text(&one["id"])).collect();
        ids.sort();
        let each = ["search", "--json", "--limit", "100000", "--group", "message", query];
        let messages = &test.args(each).json()["total"];
        let total = &answer["total"];
        found
            .push(json!({ "query": query, "total": total, "messages": messages, "sessions": ids }));
    }
    let read: Vec<Value> = sessions
        .iter()
        .take(3)
        .map(|one| test.args(["show", "--json", &text(&one["id"])]).json())
        .collect();
    json!({ "list": list, "tokens": tokens, "found": found, "read": read })
}

/// The same home, read into another journal that nothing disturbs.
pub fn undisturbed(test: &Test) -> Value {
    let mut command = test.command(["index"]);
    let journal = test.beside("undisturbed");
    Run::of(command.env("AJ_HOME", &journal)).code(0);
    let other = test.again(&journal);
    answers(&other)
}

/// How long a command takes: a measure for choosing moments, nothing more.
pub fn took(command: &mut std::process::Command) -> Duration {
    let started = Instant::now();
    Run::of(command).code(0);
    started.elapsed()
}

/// What has to be equal, or where it differs first.
#[track_caller]
pub fn same(kept: &Value, expected: &Value, what: &str) {
    assert!(kept == expected, "{what}:\n{}", difference(kept, expected));
}

/// Where two documents differ first.
fn difference(kept: &Value, expected: &Value) -> String {
    for (name, value) in expected.as_object().unwrap() {
        if kept[name] != *value {
            let (kept, expected) = (kept[name].to_string(), value.to_string());
            let at = kept.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
            let piece = |text: &str| {
                let from = text.floor_char_boundary(at.saturating_sub(200));
                text[from..text.floor_char_boundary(at + 200)].to_owned()
            };
            return format!("{name}\n{}\n{}", piece(&kept), piece(&expected));
        }
    }
    String::new()
}

/// The configuration of a journal with an archive.
pub const ARCHIVE_ON: &str = "[archive]\nenabled = true\n";

/// The archive is sound, and gives every session file back as it is now.
pub fn archive_gives_back(test: &Test, what: &str) {
    let doctor = test.aj("doctor --deep --json").json();
    let checks = doctor["checks"].as_array().unwrap();
    let archive = checks.iter().find(|check| check["name"] == "archive").unwrap();
    assert_eq!(archive["state"], "good", "{what}: {archive}");
    let directory = test.beside("given-back");
    let _ = fs::remove_dir_all(&directory);
    for session in test.aj("list --all --limit 0 --json").json()["sessions"].as_array().unwrap() {
        let id = text(&session["id"]);
        let run = test.args(["restore", &id, "-o", directory.to_str().unwrap()]);
        assert!(matches!(run.code, Some(0 | 1)), "{what}: {run}");
    }
    assert!(!snapshot(&directory).is_empty(), "{what}: nothing was given back");
    for (path, _, content) in snapshot(&directory) {
        let path = path.strip_prefix(&directory).unwrap();
        let is_same = fs::read(test.path(path.to_str().unwrap())).is_ok_and(|now| now == content);
        assert!(is_same, "{what}: {} differs", path.display());
    }
}

/// Every file with its time of change and its content.
pub fn snapshot(path: &Path) -> Vec<(PathBuf, SystemTime, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(path).unwrap().flatten() {
        if entry.path().is_dir() {
            all.extend(snapshot(&entry.path()));
        } else {
            let changed = entry.metadata().unwrap().modified().unwrap();
            all.push((entry.path(), changed, fs::read(entry.path()).unwrap()));
        }
    }
    all.sort();
    all
}
