//! Sources that change, go away or fail, also while they are read. Nothing here depends on how
//! fast anything is.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::compare::{answers, long_session, rounds, same, snapshot, undisturbed};
use crate::support::{FLAKY, Random, Run, Test, Transcript, text, two_agents};

#[test]
fn a_session_lives_on_when_its_file_is_gone_and_is_itself_again_when_it_is_back() {
    let test = two_agents();
    test.aj("index").found();
    let before = answers(&test);
    let file = test.path(&format!(".claude/projects/-home-mara-web/{FLAKY}.jsonl"));
    let away = test.beside("away.jsonl");
    fs::rename(&file, &away).unwrap();
    let session = |test: &Test| test.aj("show --json 3f1c0001").found().json();
    assert_eq!(session(&test)["session"]["source"]["present"], false);
    assert_eq!(session(&test)["messages"].as_array().unwrap().len(), 8);
    test.aj("show 3f1c0001").found().shows(["(deleted; kept in the journal)"]);
    assert_eq!(test.aj("search --json copper").found().ids(), [FLAKY]);
    test.aj("sources").found().shows(["1 source deleted; 1 session only in the journal"]);
    fs::rename(&away, &file).unwrap();
    assert_eq!(session(&test)["session"]["source"]["present"], true);
    assert!(answers(&test) == before);
}

#[test]
fn a_root_that_vanished_as_a_whole_marks_nothing() {
    let test = two_agents();
    test.aj("index").found();
    let before = answers(&test);
    fs::rename(test.path(".claude"), test.beside("unmounted")).unwrap();
    assert!(answers(&test) == before);
    test.aj("list --all --json").found();
    fs::rename(test.beside("unmounted"), test.path(".claude")).unwrap();
    assert!(answers(&test) == before);
}

#[test]
fn a_source_that_shrinks_grows_or_is_replaced_is_told_as_it_is() {
    let test = two_agents();
    let path = Transcript::new(1).path();
    let short = Transcript::new(1).you("apricot").agent("one");
    let long = Transcript::new(1).you("apricot").agent("one").you("banana").agent("two");
    let other = Transcript::new(1).you("cherry").agent("three").you("damson");
    let check = |lines: &str, messages: usize, found: [(&str, i32); 4]| {
        test.write(&path, lines);
        let shown = test.aj("show --json 00000001").found().json();
        assert_eq!(shown["messages"].as_array().unwrap().len(), messages);
        for (word, code) in found {
            test.aj(&format!("search {word}")).code(code);
        }
        assert!(answers(&test) == undisturbed(&test));
    };
    check(&short.lines, 2, [("apricot", 0), ("banana", 1), ("cherry", 1), ("damson", 1)]);
    check(&long.lines, 4, [("apricot", 0), ("banana", 0), ("cherry", 1), ("damson", 1)]);
    check(&short.lines, 2, [("apricot", 0), ("banana", 1), ("cherry", 1), ("damson", 1)]);
    check(&other.lines, 3, [("apricot", 1), ("banana", 1), ("cherry", 0), ("damson", 0)]);
    check(&long.lines, 4, [("apricot", 0), ("banana", 0), ("cherry", 1), ("damson", 1)]);
    // A line that is still being written is left for the next time.
    let half = long.lines.len() - 40;
    check(&long.lines[..half], 3, [("apricot", 0), ("banana", 0), ("cherry", 1), ("damson", 1)]);
    check(&long.lines, 4, [("apricot", 0), ("banana", 0), ("cherry", 1), ("damson", 1)]);
    // An emptied file tells nothing, and what it told is kept.
    test.write(&path, "");
    let shown = test.aj("show --json 00000001").found().json();
    assert_eq!(shown["messages"].as_array().unwrap().len(), 4);
}

#[test]
fn the_agents_files_stay_as_they_are() {
    let test = two_agents();
    let before = snapshot(&test.path(""));
    for command in ["index", "index --full", "list", "search copper", "show 3f1c0001", "sources"] {
        test.aj(command).found();
    }
    assert!(snapshot(&test.path("")) == before);
}

#[test]
fn sources_swapped_and_roots_removed_while_they_are_read_settle_in_the_end() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let test = two_agents();
    for number in 0..6 {
        let session = long_session(number, 150);
        test.write(session.path(), session.lines);
    }
    test.aj("index").found();
    let known = test.aj("list --all --limit 0 --json").json();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (root, away) = (test.path(".claude"), test.beside("away"));
            let mut random = Random::new(5);
            while !is_done.load(Ordering::Relaxed) {
                let session = long_session(random.below(6), 20 + random.below(200));
                let path = test.path(&session.path());
                match random.below(4) {
                    // In place, as one that rewrites; at once, as one that replaces.
                    0 => fs::write(&path, &session.lines).unwrap(),
                    1 => fs::write(&path, &session.lines[..session.lines.len() / 2]).unwrap(),
                    2 => {
                        let draft = test.beside("draft");
                        fs::write(&draft, &session.lines).unwrap();
                        fs::rename(&draft, &path).unwrap();
                    }
                    _ => {
                        fs::rename(&root, &away).unwrap();
                        std::thread::yield_now();
                        fs::rename(&away, &root).unwrap();
                    }
                }
            }
        });
        for round in 0..rounds(8) {
            let run = test.aj(if round % 4 == 3 { "index --full" } else { "index" });
            // A file that is gone when it is its turn is told, and is no reason to stop.
            assert!(run.code == Some(0) || run.stderr.contains("could not read"), "{run}");
            let kept = test.aj("--no-sync list --all --limit 0 --json").code(0).json();
            let count = |list: &Value| list["sessions"].as_array().unwrap().len();
            assert_eq!(count(&kept), count(&known), "round {round}");
        }
        is_done.store(true, Ordering::Relaxed);
    });
    for number in 0..6 {
        let session = long_session(number, 100 + number);
        test.write(session.path(), session.lines);
    }
    test.aj("index").code(0);
    same(&answers(&test), &undisturbed(&test), "in the end");
}

#[cfg(target_os = "linux")]
#[test]
fn a_source_whose_reading_fails_is_told_and_costs_its_neighbours_nothing() {
    let test = two_agents();
    // A regular file that can be opened, and whose reading fails with an I/O error.
    let broken = test.path(".claude/projects/-home-mara-web").join(format!("{FLAKY}.jsonl"));
    test.aj("index").found();
    let before = answers(&test);
    fs::remove_file(&broken).unwrap();
    symlink("/proc/self/mem", &broken).unwrap();
    for words in ["index", "index --full"] {
        let run = test.aj(words);
        assert!(matches!(run.code, Some(0 | 2)), "{run}");
        assert_eq!(test.aj("list --all --limit 0 --json").ids().len(), 4, "{run}");
        assert_eq!(test.aj("search --json copper").ids(), [FLAKY]);
    }
    fs::remove_file(&broken).unwrap();
    let homes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/homes/two-agents");
    crate::support::copy(&homes, &test.path(""));
    test.aj("index").code(0);
    assert_eq!(answers(&test)["found"], before["found"]);
}

/// Builds what makes reads fail; `None` where there is no compiler.
#[cfg(target_os = "linux")]
fn failing_reads(test: &Test) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/failing_reads.c");
    let library = test.beside("failing_reads.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
    compiler.status().is_ok_and(|status| status.success()).then_some(library)
}

/// The line in which a session is named, which comes last.
#[cfg(target_os = "linux")]
fn named(id: &str) -> String {
    let line = json!({ "type": "custom-title", "customTitle": "mine", "sessionId": id });
    format!("{line}\n")
}

/// The sessions of the journal, each with its title and how many messages it has.
#[cfg(target_os = "linux")]
fn recorded(test: &Test) -> BTreeMap<String, (String, u64)> {
    let list = test.aj("--no-sync list --all --limit 0 --json");
    if list.code != Some(0) {
        return BTreeMap::new();
    }
    let list = list.json();
    let sessions = list["sessions"].as_array().unwrap().iter().map(|one| {
        (text(&one["id"]), (text(&one["title"]), one["counts"]["messages"].as_u64().unwrap()))
    });
    sessions.collect()
}

#[cfg(target_os = "linux")]
#[test]
fn reads_that_fail_in_the_middle_of_a_file_lose_nothing() {
    let test = two_agents();
    let Some(library) = failing_reads(&test) else {
        println!("skipped: there is no C compiler");
        return;
    };
    let failing = |at: u64, words: &[&str]| {
        let mut command = test.command(words);
        command.env("LD_PRELOAD", &library).env("FAILING", test.path(".claude/projects"));
        Run::of(command.env("FAILING_AT", at.to_string()))
    };
    let (mut random, mut hindered) = (Random::new(31), 0);
    for round in 0..rounds(10) {
        // Something new, and something that grew.
        let mut session = long_session(round, 400);
        session.lines += &named(&session.id);
        test.write(session.path(), &session.lines);
        let mut grown = long_session(round / 2, 400 + 20 * round);
        grown.lines += &named(&grown.id);
        test.write(grown.path(), &grown.lines);
        let known = recorded(&test);
        let words: &[&str] = if round % 3 == 2 { &["index", "--full"] } else { &["index"] };
        let run = failing(random.below(session.lines.len() as u64), words);
        assert!(matches!(run.code, Some(0 | 2)), "{round}: {run}");
        hindered += u64::from(run.stderr.contains("could not read"));
        let kept = recorded(&test);
        for (id, (title, messages)) in known {
            let (title_now, messages_now) = &kept[&id];
            assert_eq!(title, *title_now, "{round}: {run}");
            assert!(messages <= *messages_now, "{round}: {messages} > {messages_now}: {run}");
        }
    }
    println!("{hindered} runs met a read that failed");
    assert!(hindered > 0, "no read was made to fail");
    test.aj("index").code(0);
    same(&answers(&test), &undisturbed(&test), "once everything can be read");
}

/// Queries of one word, of several, of beginnings, phrases and expressions.
fn queries(random: &mut Random) -> Vec<String> {
    let mut queries: Vec<String> =
        ["cop*", "zan* -lattice", "\"copper lattice\"", "kernell", "vex* OR pons", "/co..er/"]
            .map(str::to_owned)
            .to_vec();
    for words in [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 5, 5, 5, 5, 6, 6] {
        let words: Vec<String> = (0..words).map(|_| word(random)).collect();
        queries.push(words.join(" "));
    }
    queries
}

/// A word; some are much more frequent than others.
fn word(random: &mut Random) -> String {
    const BEGIN: [&str; 8] = ["cop", "lat", "zan", "mor", "ker", "til", "vex", "pon"];
    const END: [&str; 9] = ["per", "tice", "bar", "tar", "nel", "ling", "ed", "ing", "s"];
    let most = 1 + random.below(8);
    let (begin, end) = (random.below(most), random.below(9));
    format!("{}{}", BEGIN[begin as usize], END[end as usize])
}

/// A session that says something else each time.
fn chatter(number: u64, random: &mut Random) -> Transcript {
    let mut session = Transcript::new(number);
    for _ in 0..=random.below(12) {
        let mut text = |most| {
            let words: Vec<String> = (0..3 + random.below(most)).map(|_| word(random)).collect();
            words.join(" ")
        };
        let (prompt, reply) = (text(40), text(90));
        session = session.you(&prompt).agent(&reply);
    }
    session
}

/// What a query finds, in its order. The last digits of scores are noise.
fn ranking(test: &Test, query: &str) -> Value {
    let mut answer = test.args(["search", "--json", "--limit", "50", query]).json();
    for hit in answer["hits"].as_array_mut().unwrap() {
        hit["score"] = Value::Null;
    }
    let sessions = answer["sessions"].as_array().unwrap();
    let ids: Vec<String> = sessions.iter().map(|one| text(&one["id"])).collect();
    json!({ "total": answer["total"], "sessions": ids, "hits": answer["hits"] })
}

/// Every session as it is exported, without the time of that.
fn exported(test: &Test) -> Vec<Value> {
    let lines = test.aj("export --all -f json --no-redact -o -").code(0).stdout;
    let session = |line: &str| {
        let mut session: Value = serde_json::from_str(line).unwrap();
        session["export_timestamp"] = Value::Null;
        session
    };
    lines.lines().map(session).collect()
}

#[test]
fn rankings_do_not_depend_on_the_past_of_the_journal() {
    for seed in 1..=rounds(2).min(20) {
        let test = two_agents();
        let mut random = Random::new(seed);
        for number in 0..14 {
            let session = chatter(number, &mut random);
            test.write(session.path(), session.lines);
        }
        test.aj("index").found();
        for _ in 0..5 {
            for _ in 0..4 {
                let session = chatter(random.below(14), &mut random);
                test.write(session.path(), session.lines);
            }
            test.aj("index").found();
        }
        let fresh = test.again(&test.beside("fresh"));
        fresh.aj("index").found();
        for query in queries(&mut random) {
            let what = format!("seed {seed}, {query}");
            same(&ranking(&test, &query), &ranking(&fresh, &query), &what);
        }
        assert!(exported(&test) == exported(&fresh), "seed {seed}");
    }
}
