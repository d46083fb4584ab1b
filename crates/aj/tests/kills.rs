//! Kills at any moment: nothing that was recorded is lost, and the next run goes on. Moments are
//! chosen by how long a run takes, and whatever the moment, the outcome is the same.
//!
//! `AJ_FAULTS=200` kills that often.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::compare::{
    ARCHIVE_ON, answers, archive_gives_back, long_session, rounds, same, snapshot, took,
};
use crate::support::{Random, Test, text, two_agents};

/// Kills for nothing, and how many met a process at work.
struct Killing {
    test: Test,
    /// A journal of the same home that nothing disturbs.
    quiet: Test,
    from_nothing: Duration,
    killed: u64,
}

impl Killing {
    fn new() -> Self {
        let test = two_agents();
        for number in 0..12 {
            let session = long_session(number, 120);
            test.write(session.path(), session.lines);
        }
        fs::create_dir_all(test.journal("")).unwrap();
        fs::write(test.journal("config.toml"), ARCHIVE_ON).unwrap();
        let from_nothing = took(&mut test.command(["index"]));
        let quiet: PathBuf = test.beside("undisturbed");
        let quiet = test.again(&quiet);
        Self { test, quiet, from_nothing, killed: 0 }
    }

    /// The journals keep an archive, also one that was deleted.
    fn turn_on_archive(&self) {
        fs::create_dir_all(self.test.journal("")).unwrap();
        fs::write(self.test.journal("config.toml"), ARCHIVE_ON).unwrap();
    }

    /// Writes what there is to read in a round: a new session, a longer one, a shorter one.
    fn change(&self, seed: u64, random: &mut Random) {
        let new = long_session(100 + seed % 16, 100 + random.below(300));
        let longer = long_session(random.below(12), 121 + seed % 64);
        let shorter = long_session(random.below(12), 20 + random.below(100));
        for session in [new, longer, shorter] {
            self.test.write(session.path(), session.lines);
        }
    }

    /// Lets a process work for a while, and kills it.
    fn kill(&mut self, mut child: Child, moment: Duration) {
        let started = Instant::now();
        while started.elapsed() < moment && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        self.killed += u64::from(child.wait().unwrap().code().is_none());
    }

    /// Nothing that was recorded is lost, commands work, and after the next run there is no
    /// difference to a journal that nothing happened to.
    fn check(&self, seed: u64, recorded: &BTreeSet<String>) {
        let kept = listed(&self.test, "--no-sync list --all --limit 0 --json");
        assert!(kept.is_superset(recorded), "seed {seed}: {recorded:?} became {kept:?}");
        let sources = snapshot(&self.test.path(""));
        let first = self.test.aj("search begin3");
        assert!(matches!(first.code, Some(0 | 1)), "seed {seed}: {first}");
        self.test.aj("index").code(0);
        self.quiet.aj("index").code(0);
        // All that can be asked now and then, the essence each time.
        let ask = if seed.is_multiple_of(10) { answers } else { essence };
        same(&ask(&self.test), &ask(&self.quiet), &format!("seed {seed}"));
        assert!(snapshot(&self.test.path("")) == sources, "seed {seed}: sources changed");
        archive_gives_back(&self.test, &format!("seed {seed}"));
    }
}

fn listed(test: &Test, words: &str) -> BTreeSet<String> {
    let list = test.aj(words);
    assert!(matches!(list.code, Some(0 | 1)), "{list}");
    list.json()["sessions"].as_array().unwrap().iter().map(|one| text(&one["id"])).collect()
}

fn essence(test: &Test) -> Value {
    let search = test.aj("search --json --limit 1000 word3x1*").json();
    json!({
        "list": test.aj("list --all --limit 0 --json").json(),
        "total": search["total"], "messages": search["messages"],
    })
}

#[test]
fn a_kill_at_any_moment_loses_nothing() {
    let mut killing = Killing::new();
    let count = rounds(12);
    for seed in 1..=count {
        let mut random = Random::new(seed);
        let mut recorded = listed(&killing.test, "list --all --limit 0 --json");
        killing.change(seed, &mut random);
        let mut whole = took(&mut killing.quiet.command(["index"]));
        if random.below(5) == 0 {
            fs::remove_dir_all(killing.test.journal("")).unwrap();
            whole = killing.from_nothing;
            recorded.clear();
        }
        killing.turn_on_archive();
        let moment = whole.mul_f64(random.below(1000) as f64 / 1000.0);
        let index = killing.test.command(["index"]).stdout(Stdio::null()).spawn().unwrap();
        killing.kill(index, moment);
        killing.check(seed, &recorded);
    }
    same(&answers(&killing.test), &answers(&killing.quiet), "at the end");
    println!("{} of {count} were killed at work", killing.killed);
    assert!(killing.killed > 0, "nothing was killed at work");
}

#[test]
fn a_kill_of_a_watch_at_any_moment_loses_nothing() {
    let mut killing = Killing::new();
    let count = rounds(8);
    for seed in 1..=count {
        let mut random = Random::new(1000 + seed);
        let recorded = listed(&killing.test, "list --all --limit 0 --json");
        killing.change(seed, &mut random);
        let whole = took(&mut killing.quiet.command(["index"]));
        let mut watch = killing.test.command(["index", "--watch", "--json"]);
        let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
        // One in three is killed before it has caught up, the others while they wait for news
        // or fold them in.
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        if random.below(3) > 0 {
            lines.next().unwrap().unwrap();
            killing.change(seed + 7, &mut random);
        }
        killing.kill(watch, whole.mul_f64(random.below(2000) as f64 / 1000.0));
        killing.check(seed, &recorded);
    }
    same(&answers(&killing.test), &answers(&killing.quiet), "at the end");
    println!("{} of {count} watches were killed", killing.killed);
    assert_eq!(killing.killed, count, "a watch ends by itself");
}
