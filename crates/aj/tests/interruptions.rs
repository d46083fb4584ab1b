//! Interruptions at every operation that changes a file of the journal: SIGKILL, a full disk, a
//! power loss. Afterwards every command answers as if nothing had happened.
//!
//! `AJ_FAULTS=1000` tries every place; the ordinary run tries some.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::compare::{
    ARCHIVE_ON, answers, archive_gives_back, long_session, rounds, same, undisturbed,
};
use crate::support::power_loss::Recording;
use crate::support::preload::{NO_SPACE, QUOTA, READ_ONLY, WriteFaults};
use crate::support::{FLAKY, Random, Run, Test, Transcript, text, two_agents};

/// What the journal is asked after an interruption. Each is the first in its turn.
const COMMANDS: [&str; 8] = [
    "list --all --limit 0 --json",
    "show --json 3f1c0002",
    "stats --json",
    "sources --json",
    "search --json --limit 1000 begin*",
    "export 3f1c0002 -f json -o -",
    "index",
    "mcp",
];

/// What is being done when the interruption comes.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// A session that is new, one that grew and one that was rewritten with less.
    News,
    /// The first run of all.
    Everything,
    /// Everything read again.
    Full,
    /// A session that grew, read by a command that answers.
    Search,
}

/// A home with a journal in which there is something to do, and one in which that is done.
struct Scene {
    test: Test,
    faults: WriteFaults,
    work: Work,
    /// The journal as it is before the work.
    before: PathBuf,
    /// A journal of the same home that nothing disturbed.
    expected: Value,
}

impl Scene {
    /// `None` where there is no C compiler.
    fn new(work: Work) -> Option<Self> {
        let test = two_agents();
        let faults = WriteFaults::new(&test)?;
        for number in 0..3 {
            let session = long_session(number, 3);
            test.write(session.path(), session.lines);
        }
        let before = test.beside("before");
        fs::create_dir(&before).unwrap();
        fs::write(before.join("config.toml"), ARCHIVE_ON).unwrap();
        if !matches!(work, Work::Everything) {
            test.again(&before).aj("index").code(0);
        }
        if matches!(work, Work::News | Work::Search) {
            let grown = long_session(0, 5);
            test.append(grown.path(), &grown.lines[long_session(0, 3).lines.len()..]);
        }
        if matches!(work, Work::News) {
            let less = test.path(&format!(".claude/projects/-home-mara-web/{FLAKY}.jsonl"));
            let lines = fs::read_to_string(&less).unwrap();
            let kept: String = lines.split_inclusive('\n').take(4).collect();
            fs::write(&less, kept).unwrap();
            let new = Transcript::new(9).you("begin9 something new").agent("noted");
            test.write(new.path(), new.lines);
        }
        let quiet = test.again(&test.beside("undisturbed"));
        crate::support::copy(&before, &test.beside("undisturbed"));
        quiet.aj("index").code(0);
        let expected = json!({ "all": answers(&quiet), "essence": essence(&quiet) });
        Some(Self { test, faults, work, before, expected })
    }

    fn words(&self) -> &'static str {
        match self.work {
            Work::Full => "index --full",
            Work::Search => "search begin0",
            Work::News | Work::Everything => "index",
        }
    }

    /// A copy of the journal as it is before the work.
    fn journal(&self, name: &str) -> PathBuf {
        let journal = self.test.beside(name);
        let _ = fs::remove_dir_all(&journal);
        crate::support::copy(&self.before, &journal);
        journal
    }

    /// Interrupts the work twice at the same place; says how often it came to that.
    fn interrupt(&self, journal: &Path, at: u64) -> u64 {
        let run = |is_torn| {
            let command = self.faults.command(&self.test, journal, self.words());
            u64::from(self.faults.kill(command, at, is_torn))
        };
        run(false) + run(true)
    }

    /// Every command answers with exit code 0, one after the other from a first one on, and as if
    /// nothing had happened.
    fn check(&self, journal: &Path, at: u64) {
        let test = self.test.again(journal);
        for number in 0..COMMANDS.len() {
            let words = COMMANDS[(at as usize + number) % COMMANDS.len()];
            if words == "mcp" {
                let mut client = Client::start(&test, "test", "mcp");
                client.ask("list", &json!({}));
                client.ask("search", &json!({ "query": "begin*" }));
                continue;
            }
            let run = test.aj(words);
            assert_eq!(run.code, Some(0), "{:?} {at}: {run}", self.work);
            assert_eq!(run.stderr, "", "{:?} {at}: {run}", self.work);
        }
        let what = format!("{:?} {at}", self.work);
        same(&essence(&test), &self.expected["essence"], &what);
        archive_gives_back(&test, &what);
        if at.is_multiple_of(16) {
            same(&answers(&test), &self.expected["all"], &what);
        }
        // The next one that writes removes what is left over.
        if !unfinished(journal).is_empty() {
            test.aj("index --full").code(0);
        }
        let left = unfinished(journal);
        assert!(left.is_empty(), "{what}: {left:?}");
    }
}

/// Temporary files, and files of the index that no list names.
fn unfinished(journal: &Path) -> Vec<PathBuf> {
    let index = journal.join("index/lexical");
    let list = fs::read_to_string(index.join("meta.json")).unwrap();
    let mut left = Vec::new();
    for entry in fs::read_dir(&index).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let segment = name.split('.').next().unwrap_or_default();
        let plain = |id: &str| id.replace('-', "");
        let is_named = segment.len() == 32 && plain(&list).contains(segment);
        let is_own = name == "meta.json"
            || name == ".managed.json"
            || entry.path().extension().is_some_and(|kind| kind == "lock");
        if !is_named && !is_own {
            left.push(entry.path());
        }
    }
    left
}

fn essence(test: &Test) -> Value {
    let search = |query: &str| {
        let found = test.args(["search", "--json", "--limit", "1000", query]).json();
        let sessions = found["sessions"].as_array().unwrap();
        let ids: Vec<String> = sessions.iter().map(|one| text(&one["id"])).collect();
        json!({ "total": found["total"], "ids": ids })
    };
    json!({
        "list": test.aj("list --all --limit 0 --json").json(),
        "begin": search("begin*"), "word": search("word0x4"), "lattice": search("lattice"),
        "show": test.args(["show", "--json", FLAKY]).json(),
    })
}

/// The places to try: every one where there is time, else a few that are not the same in each
/// kind of work.
fn places(work: Work, most: u64) -> impl Iterator<Item = u64> {
    let count = rounds(7);
    let step = if count >= most { 1 } else { most / count };
    let first = 1 + work as u64 * step / 4;
    (first..).step_by(usize::try_from(step).unwrap().max(1))
}

/// Kills the work at many places, at each twice in a row, and looks at what is left.
fn kill_twice(work: Work) {
    let Some(scene) = Scene::new(work) else { return };
    let (mut interrupted, mut tried) = (0, 0);
    for at in places(work, 200) {
        let journal = scene.journal("interrupted");
        let times = scene.interrupt(&journal, at);
        if times == 0 {
            break;
        }
        (interrupted, tried) = (interrupted + times, tried + 1);
        scene.check(&journal, at);
    }
    println!("{work:?}: {tried} places, {interrupted} interruptions");
    assert!(tried > 3, "{work:?}: only {tried} places");
}

#[test]
fn two_kills_at_any_operation_of_reading_news_lock_nobody_out() {
    kill_twice(Work::News);
}

#[test]
fn two_kills_at_any_operation_of_the_first_run_lock_nobody_out() {
    kill_twice(Work::Everything);
}

#[test]
fn two_kills_at_any_operation_of_a_full_run_lock_nobody_out() {
    kill_twice(Work::Full);
}

#[test]
fn two_kills_at_any_operation_of_a_search_lock_nobody_out() {
    kill_twice(Work::Search);
}

#[test]
fn a_disk_that_fills_up_at_any_operation_costs_no_answer() {
    let Some(scene) = Scene::new(Work::News) else { return };
    let known = scene.test.again(&scene.journal("known"));
    let known = known.aj("--no-sync list --all --limit 0 --json").ids().len();
    let (mut tried, mut warned) = (0, 0);
    for at in places(Work::News, 200) {
        let journal = scene.journal("full");
        let error = if at % 2 == 0 { NO_SPACE } else { QUOTA };
        let mut is_met = false;
        for words in ["search --json begin*", "list --all --limit 0 --json", "stats", "sources"] {
            let command = scene.faults.command(&scene.test, &journal, words);
            let run = Run::of(&mut scene.faults.failing_from(command, at, error));
            let what = format!("{at} {words}: {run}");
            assert_eq!(run.code, Some(0), "{what}");
            assert!(run.stderr.lines().count() <= 1, "{what}");
            if !run.stderr.is_empty() {
                is_met = true;
                assert!(run.stderr.contains("could not record new sessions"), "{what}");
                assert!(run.stderr.contains("no space left for "), "{what}");
                assert!(run.stderr.contains(journal.to_str().unwrap()), "{what}");
            }
            if words.starts_with("list") {
                assert!(run.ids().len() >= known, "{what}");
            }
        }
        (tried, warned) = (tried + 1, warned + u64::from(is_met));
        // With space again, everything is as it should be.
        scene.check(&journal, at);
        if !is_met {
            break;
        }
    }
    println!("{tried} places, {warned} with a warning");
    assert!(warned > 1, "{warned} of {tried}");
}

/// A session that nobody has read yet.
fn write_news(test: &Test) {
    let session = Transcript::new(77).you("something new about copper").agent("noted");
    test.write(session.path(), session.lines);
}

#[test]
fn a_journal_that_cannot_be_written_answers_and_says_why() {
    let test = two_agents();
    let Some(faults) = WriteFaults::new(&test) else { return };
    let journal = test.journal("");
    test.aj("index").found();
    // A command that answers leaves the latest changes in the log.
    let grown = Transcript::new(76).you("the latest about copper").agent("noted");
    test.write(grown.path(), grown.lines);
    test.aj("list").found();
    assert!(fs::metadata(test.journal("journal.db-wal")).unwrap().len() > 0);
    let check = |what: &str, error: i32, cause: &str| {
        let refused = |words: &str| {
            let command = faults.command(&test, &journal, words);
            Run::of(&mut faults.failing_from(command, 1, error))
        };
        for words in [
            "list --json",
            "search --json copper",
            "show 3f1c0001",
            "stats",
            "sources",
            "export 3f1c0001 -f json -o -",
        ] {
            let run = refused(words);
            assert_eq!(run.code, Some(0), "{what}: {run}");
            assert_eq!(run.stderr.lines().count(), 1, "{what}: {run}");
            assert!(run.stderr.contains("could not record new sessions"), "{what}: {run}");
            assert!(run.stderr.contains(cause), "{what}: {run}");
            assert!(run.stdout.len() > 40, "{what}: {run}");
            let is_list = words.starts_with("list");
            assert!(!is_list || run.ids().iter().any(|id| id.starts_with("0000004c")), "{run}");
            // Without a look for news there is nothing to say.
            let run = refused(&format!("--no-sync {words}"));
            assert_eq!((run.code, &*run.stderr), (Some(0), ""), "{what}: {run}");
        }
        let command = faults.command(&test, &journal, "mcp");
        let mut client = Client::of(&mut faults.failing_from(command, 1, error), "test");
        assert!(client.ask("list", &json!({})).contains("3f1c0001"), "{what}");
        assert!(client.ask("search", &json!({ "query": "copper" })).contains("3f1c0001"), "{what}");
        let run = refused("index");
        assert_eq!(run.code, Some(2), "{what}: {run}");
        assert!(run.stderr.contains(cause), "{what}: {run}");
    };
    write_news(&test);
    // With the files beside the database, through which processes meet, and without: then they
    // cannot be made, and the log can be there or not.
    for (what, gone) in [
        ("as it is", &[][..]),
        ("without shared memory", &["journal.db-shm"]),
        ("without a log", &["journal.db-shm", "journal.db-wal"]),
    ] {
        if what == "without a log" {
            let database = rusqlite::Connection::open(test.journal("journal.db")).unwrap();
            database.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        }
        for (error, cause) in [
            (NO_SPACE, "no space left for "),
            (QUOTA, "no space left for "),
            (READ_ONLY, "Read-only file system"),
        ] {
            for name in gone {
                drop(fs::remove_file(test.journal(name)));
            }
            check(&format!("{what}, {error}"), error, cause);
        }
    }
    test.aj("index").code(0);
    assert!(answers(&test) == undisturbed(&test));
    // Where there is no journal and none can be made, there is no answer either.
    let nowhere = test.beside("nowhere");
    for (error, cause) in [(NO_SPACE, "no space left"), (READ_ONLY, "Read-only file system")] {
        let command = faults.command(&test, &nowhere, "list");
        Run::of(&mut faults.failing_from(command, 1, error)).fails([cause, "nowhere"]);
    }
}

#[test]
fn a_watch_waits_for_space_and_goes_on() {
    let test = two_agents();
    let Some(faults) = WriteFaults::new(&test) else { return };
    let full = test.beside("full");
    let command = faults.command(&test, &test.journal(""), "index --watch --json");
    let mut command = faults.failing_while(command, &full, NO_SPACE);
    let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut warnings = BufReader::new(watch.stderr.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    fs::write(&full, "").unwrap();
    write_news(&test);
    let warning = warnings.next().unwrap().unwrap();
    assert!(warning.contains("no space left for "), "{warning}");
    fs::remove_file(&full).unwrap();
    let report: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(report["sources"], 1, "{report}");
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(answers(&test) == undisturbed(&test));
}

#[test]
fn a_power_loss_at_any_moment_is_mended_by_the_next_command() {
    let (mut lost, count) = (0, rounds(4));
    for work in [Work::News, Work::Everything, Work::Full, Work::Search] {
        let Some(scene) = Scene::new(work) else { return };
        let (journal, log) = (scene.journal("recorded"), scene.test.beside("log"));
        let mut command = scene.faults.command(&scene.test, &journal, scene.words());
        Run::of(command.env("FAULT_LOG", &log)).code(0);
        let recording = Recording::read(&log, &journal);
        assert!(recording.len() > 20, "{work:?}: {} operations", recording.len());
        for seed in 0..count {
            let mut random = Random::new(1 + seed * 4 + work as u64);
            let at = 1 + random.below(recording.len() as u64);
            let target = scene.test.beside("lost");
            let _ = fs::remove_dir_all(&target);
            recording.lose_power(&scene.before, at as usize, &mut random, &target);
            scene.check(&target, seed);
            lost += 1;
        }
    }
    println!("{lost} power losses");
}
