//! Watching: what is noticed, and how little is read and written for it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests make their own files")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_journal::connectors::{ALL, Machine};
use agent_journal::search::Filter;
use agent_journal::{Changes, Config, Journal, SyncOptions, SyncReport, WatchOptions};
use serde_json::json;
use support::Home;

/// Bytes are counted for the whole process, so whoever counts must be alone.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.directory.path().join(relative)
    }

    fn journal(&self) -> Journal {
        let machine = Machine { home: self.path("home"), ..Machine::default() };
        Journal::open(Config::new(self.path("journal")), machine).unwrap()
    }

    fn append(&self, session: u64, lines: &str) -> PathBuf {
        let path = self.path(&format!(
            "home/.claude/projects/-home-mara-p{}/{}.jsonl",
            session % 100,
            id(session)
        ));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
        file.write_all(lines.as_bytes()).unwrap();
        path
    }
}

fn id(session: u64) -> String {
    format!("{session:08x}-0000-4000-8000-000000000000")
}

/// Lines of a session, with at least this many bytes.
fn lines(session: u64, from: u64, bytes: usize) -> String {
    let mut text = String::new();
    for at in from.. {
        if text.len() >= bytes {
            break;
        }
        let (kind, role) = if at % 2 == 0 { ("user", "user") } else { ("assistant", "assistant") };
        // Words that no other message has: nothing packs well, as in real life.
        let words: Vec<String> = (0..60)
            .map(|word| format!("{:x}", (at * 64 + word).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        let mut message = json!({ "role": role, "content": words.join(" ") });
        if role == "assistant" {
            message = json!({
                "role": role, "id": format!("msg_{session}_{at}"), "model": "claude-sonnet-4-5",
                "content": [{ "type": "text", "text": words.join(" ") }],
                "usage": { "input_tokens": 3, "output_tokens": 5 },
            });
        }
        let line = json!({
            "type": kind, "message": message, "uuid": format!("{session}-{at}"),
            "sessionId": id(session), "cwd": "/home/mara/web",
            "timestamp": format!("2026-03-{:02}T{:02}:{:02}:{:02}.000Z",
                1 + at / 86400 % 28, at / 3600 % 24, at / 60 % 60, at % 60),
        });
        text.push_str(&format!("{line}\n"));
    }
    text
}

fn sync(journal: &mut Journal) -> SyncReport {
    journal.sync(SyncOptions::default(), &mut |_| {}).unwrap()
}

fn sync_path(journal: &mut Journal, path: &Path) -> SyncReport {
    let changes = Changes::Paths([path.to_owned()].into());
    journal.sync_changes(&changes, SyncOptions::default(), &mut |_| {}).unwrap()
}

/// Bytes this process has read and written so far, from anything and to anything.
fn counters() -> (u64, u64) {
    let text = fs::read_to_string("/proc/self/io").unwrap();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    (field("rchar:"), field("wchar:"))
}

/// What work reads and writes, without what counting itself does.
fn counted(work: impl FnOnce()) -> (u64, u64) {
    let before = counters();
    let after = counters();
    let own = (after.0 - before.0, after.1 - before.1);
    work();
    let end = counters();
    (end.0 - after.0 - own.0, end.1 - after.1 - own.1)
}

#[test]
fn an_append_costs_little_more_than_what_was_appended() {
    let _alone = alone();
    let place = Place::new();
    place.append(1, &lines(1, 0, 8 << 20));
    for session in 2..60 {
        place.append(session, &lines(session, 0, 40 << 10));
    }
    let mut journal = place.journal();
    sync(&mut journal);
    let mut at = 1 << 20;
    for (round, bytes) in [1, 700, 5_000, 20_000, 100_000].iter().cycle().take(60).enumerate() {
        let news = lines(1, at, *bytes);
        at += 1000;
        let path = place.append(1, &news);
        let (read, written) = counted(|| assert_eq!(sync_path(&mut journal, &path).sources, 1));
        let bytes = news.len() as u64;
        eprintln!("{round} n {bytes} read {read} written {written} over {}", read as i64 - 2*bytes as i64);
    }
    let _ = (ALL, Filter::default(), BTreeMap::<u8, u8>::new(), Home::of as fn(&Path) -> Home, WatchOptions::default());
}
