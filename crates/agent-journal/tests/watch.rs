//! Watching: what is noticed, and how little is read and written for it. A program of its own, as it
//! counts the bytes of the whole process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests make their own files")]

#[allow(dead_code, reason = "the other tests use the rest")]
mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agent_journal::connectors::{ALL, Machine};
use agent_journal::search::Filter;
use agent_journal::{Changes, Config, Journal, SyncOptions, SyncReport, Watch, WatchOptions};
use serde_json::json;
use support::{Home, directories, each_file, fixtures};

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
        // Some thousand words in no order: about what people and models use in a session.
        let word = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 5000;
        let words: Vec<String> = (0..250).map(|n| format!("word{}", word(at * 256 + n))).collect();
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

/// A long session among others, all in the journal.
fn long_session() -> (Place, Journal) {
    let place = Place::new();
    place.append(1, &lines(1, 0, 4 << 20));
    for session in 2..20 {
        place.append(session, &lines(session, 0, 40 << 10));
    }
    let mut journal = place.journal();
    sync(&mut journal);
    // The first look after that finds out where the session's end is kept.
    let path = place.append(1, &lines(1, 1 << 19, 1));
    sync_path(&mut journal, &path);
    (place, journal)
}

/// What each of many appends of `n` bytes reads and writes: `(n, read, written)`.
fn appends(place: &Place, journal: &mut Journal) -> Vec<(u64, u64, u64)> {
    let sizes = [1, 700, 5_000, 20_000, 100_000, 300_000];
    let append = |(round, size): (u64, &usize)| {
        let news = lines(1, (1 << 20) + round * 1000, *size);
        let path = place.append(1, &news);
        let mut report = SyncReport::default();
        let (read, written) = counted(|| report = sync_path(journal, &path));
        assert_eq!(report.sources, 1);
        assert!(report.read_bytes < 2 * news.len() as u64 + (64 << 10), "{report:?}");
        (news.len() as u64, read, written)
    };
    (0..).zip(sizes.iter().cycle().take(36)).map(append).collect()
}

#[test]
fn an_append_reads_at_most_twice_what_was_appended_and_64_kib() {
    let _alone = alone();
    let (place, mut journal) = long_session();
    // Whoever reads the database keeps its log from being folded in, which is no look for news.
    let reader = rusqlite::Connection::open(place.path("journal/journal.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM sources;").unwrap();
    for (bytes, read, _) in appends(&place, &mut journal) {
        assert!(read <= 2 * bytes + (64 << 10), "{read} bytes read for {bytes}");
    }
}

#[test]
fn an_append_writes_at_most_five_times_what_was_appended_and_1_mib() {
    let _alone = alone();
    let (place, mut journal) = long_session();
    for (bytes, _, written) in appends(&place, &mut journal) {
        assert!(written <= 5 * bytes + (1 << 20), "{written} bytes written for {bytes}");
    }
}

#[test]
fn nothing_is_read_or_written_while_20_000_files_lie_still() {
    let _alone = alone();
    let place = Place::new();
    for session in 0..20_000 {
        place.append(session, &lines(session, 0, 1));
    }
    let mut journal = place.journal();
    assert_eq!(sync(&mut journal).sources, 20_000);
    let look = |journal: &mut Journal| {
        let options = SyncOptions::default();
        journal.sync_changes(&Changes::Everything, options, &mut |_| {}).unwrap()
    };
    look(&mut journal);
    for _ in 0..3 {
        let (read, written) = counted(|| assert_eq!(look(&mut journal).sources, 0));
        // The index says in a small file which state of the journal it holds.
        assert!(read < 16 << 10, "{read} bytes read");
        // The tests themselves say so when one takes long.
        assert!(written < 512, "{written} bytes written");
    }
}

const RESCAN: Duration = Duration::from_mins(10);

/// A watch that looks at everything only when a test has failed to notice something.
fn watch(journal: &Journal) -> Watch {
    let quiet = Duration::from_millis(50);
    journal.start_watch(WatchOptions { quiet, rescan: RESCAN, ..Default::default() })
}

/// Waits for the changes of some files, and folds them in until all of them are.
fn follow(journal: &mut Journal, watch: &mut Watch, sources: u64) {
    let mut read = 0;
    while read < sources {
        let changes = journal.wait_for_changes(watch).unwrap().unwrap();
        read +=
            journal.sync_changes(&changes, SyncOptions::default(), &mut |_| {}).unwrap().sources;
    }
    assert_eq!(read, sources);
}

fn sessions(journal: &Journal) -> Vec<(String, u64, bool)> {
    let entries = journal.list_entries(&Filter::default(), None).unwrap();
    let told =
        entries.into_iter().map(|one| (one.native_id, one.counts.messages, one.source.present));
    let mut told: Vec<_> = told.collect();
    told.sort();
    told
}

#[test]
fn what_is_appended_created_moved_and_deleted_is_noticed() {
    let _alone = alone();
    let place = Place::new();
    place.append(1, &lines(1, 0, 1));
    let mut journal = place.journal();
    let mut watch = watch(&journal);
    follow(&mut journal, &mut watch, 1);
    assert_eq!(watch.limit(), None);

    // More of a known session, and one in a directory that was not there.
    place.append(1, &lines(1, 1, 1));
    place.append(2, &lines(2, 0, 1));
    follow(&mut journal, &mut watch, 2);
    // The new directory is watched, too.
    place.append(2, &lines(2, 1, 1));
    place.append(102, &lines(102, 0, 1));
    follow(&mut journal, &mut watch, 2);
    assert_eq!(sessions(&journal), [(id(1), 2, true), (id(2), 2, true), (id(102), 1, true)]);

    let projects = place.path("home/.claude/projects");
    fs::remove_file(projects.join(format!("-home-mara-p1/{}.jsonl", id(1)))).unwrap();
    while sessions(&journal)[0].2 {
        let changes = journal.wait_for_changes(&mut watch).unwrap().unwrap();
        assert!(matches!(changes, Changes::Paths(_)));
        journal.sync_changes(&changes, SyncOptions::default(), &mut |_| {}).unwrap();
    }
    fs::rename(projects.join("-home-mara-p2"), place.path("elsewhere")).unwrap();
    while sessions(&journal)[1].2 {
        let changes = journal.wait_for_changes(&mut watch).unwrap().unwrap();
        journal.sync_changes(&changes, SyncOptions::default(), &mut |_| {}).unwrap();
    }
    assert_eq!(sessions(&journal), [(id(1), 2, false), (id(2), 2, false), (id(102), 1, false)]);
}

#[test]
fn a_home_that_appears_later_is_noticed() {
    let _alone = alone();
    let place = Place::new();
    fs::create_dir_all(place.path("home")).unwrap();
    let mut journal = place.journal();
    let mut watch = watch(&journal);
    assert_eq!(journal.wait_for_changes(&mut watch).unwrap(), Some(Changes::Everything));
    sync(&mut journal);
    place.append(1, &lines(1, 0, 1));
    follow(&mut journal, &mut watch, 1);
    place.append(1, &lines(1, 1, 1));
    follow(&mut journal, &mut watch, 1);
    assert_eq!(sessions(&journal), [(id(1), 2, true)]);
}

#[test]
fn what_another_writer_kept_from_being_read_is_looked_at_again() {
    let _alone = alone();
    let place = Place::new();
    place.append(1, &lines(1, 0, 1));
    let mut journal = place.journal();
    let mut watch = watch(&journal);
    follow(&mut journal, &mut watch, 1);
    let lock = fs::File::open(place.path("journal/lock")).unwrap();
    lock.lock().unwrap();
    place.append(1, &lines(1, 1, 1));
    loop {
        let changes = journal.wait_for_changes(&mut watch).unwrap().unwrap();
        let options = SyncOptions::default();
        if journal.sync_changes(&changes, options, &mut |_| {}).unwrap().busy {
            break;
        }
    }
    watch.note_missed_changes();
    drop(lock);
    let asked = Instant::now();
    let changes = journal.wait_for_changes(&mut watch).unwrap();
    assert_eq!(changes, Some(Changes::Everything));
    assert!(asked.elapsed() < RESCAN / 2, "this was the usual look");
    assert_eq!(sync(&mut journal).sources, 1);
}

#[test]
fn a_watch_ends_when_it_is_told_to() {
    let _alone = alone();
    let place = Place::new();
    let journal = place.journal();
    let mut watch = watch(&journal);
    assert_eq!(journal.wait_for_changes(&mut watch).unwrap(), Some(Changes::Everything));
    let stop = watch.stopper();
    let ending = std::thread::spawn(move || stop.stop());
    while journal.wait_for_changes(&mut watch).unwrap().is_some() {}
    ending.join().unwrap();
}

#[test]
fn a_look_around_a_file_finds_what_a_look_at_everything_finds() {
    let _alone = alone();
    let mut looks = 0;
    for connector in ALL {
        for fixture in directories(&fixtures().join(connector.agent().id)) {
            let home = Home::of(&fixture);
            let machine = Machine { projects: vec![home.path().join("project")], ..home.machine() };
            for root in connector.roots(&machine).iter().filter(|root| root.exists()) {
                let all = connector.discover_sources(root).unwrap();
                each_file(root, &mut |path| {
                    let Some(found) = connector.affected_sources(root, path) else { return };
                    looks += 1;
                    let itself: Vec<_> = all.iter().filter(|source| source.path == path).collect();
                    let stray = found.iter().find(|source| !all.contains(source));
                    assert_eq!(stray, None, "{}", path.display());
                    let is_found = itself.iter().all(|source| found.contains(source));
                    assert!(is_found, "{} was not found", path.display());
                });
            }
        }
    }
    assert!(looks > 30, "{looks}");
}
