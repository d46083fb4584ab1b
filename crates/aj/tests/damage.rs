//! The journal's own files, cut, scribbled over, deleted, or of another version.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::compare::{answers, long_session, rounds, same, snapshot, undisturbed};
use crate::support::{FLAKY, Random, Run, Test, Transcript, two_agents};

#[test]
fn a_damaged_journal_is_told_with_its_path_and_what_to_do() {
    let commands = ["list", "search copper", "show 3f1c0001", "sources", "index"];
    for damage in ["garbage", "header", "directory"] {
        let test = two_agents();
        test.aj("index").found();
        let path = test.journal("journal.db");
        let original = fs::read(&path).unwrap();
        match damage {
            "garbage" => fs::write(&path, b"this is no database ".repeat(500)).unwrap(),
            "header" => {
                let mut bytes = original.clone();
                bytes[..16].copy_from_slice(b"SQLite format 9\0");
                fs::write(&path, bytes).unwrap();
            }
            _ => {
                fs::remove_file(&path).unwrap();
                fs::create_dir(&path).unwrap();
            }
        }
        for command in commands {
            let run = test.aj(command).code(2).stdout("");
            let run = run.says([&path.display().to_string()]);
            assert!(run.stderr.lines().count() > 1, "no hint: {run}");
            if damage != "directory" {
                run.says(["is damaged", "move ", "run `aj index`"]);
            }
        }
        // What the hint says works.
        fs::rename(&path, test.beside("broken")).unwrap();
        test.aj("index").code(0);
        assert!(answers(&test) == undisturbed(&test));
    }
}

#[test]
fn a_journal_cut_or_scribbled_anywhere_never_makes_a_command_panic() {
    let test = two_agents();
    let session = long_session(1, 60);
    test.write(session.path(), session.lines);
    test.aj("index").found();
    let path = test.journal("journal.db");
    let original = fs::read(&path).unwrap();
    for seed in 0..rounds(16) {
        let mut random = Random::new(seed);
        let mut bytes = original.clone();
        if seed % 2 == 0 {
            bytes.truncate(random.below(bytes.len() as u64) as usize);
        } else {
            let at = 100 + random.below(bytes.len() as u64 - 4196) as usize;
            bytes[at..at + 4096].iter_mut().for_each(|byte| *byte = random.below(256) as u8);
        }
        fs::write(&path, bytes).unwrap();
        for command in
            ["list --all", "search copper", "show 3f1c0001", "sources", "index", "index --full"]
        {
            let run = test.aj(command);
            assert!(matches!(run.code, Some(0..=2)), "seed {seed}: {run}");
            if run.code == Some(2) && !run.stderr.contains("no session") {
                run.says([path.to_str().unwrap()]);
            }
        }
        for name in ["journal.db-wal", "journal.db-shm"] {
            let _ = fs::remove_file(test.journal(name));
        }
    }
}

#[test]
fn a_journal_of_a_newer_program_is_left_alone() {
    let test = two_agents();
    test.aj("index").found();
    let path = test.journal("journal.db");
    // `user_version` stands at byte 60 of a SQLite file.
    let mut bytes = fs::read(&path).unwrap();
    bytes[60..64].copy_from_slice(&999_u32.to_be_bytes());
    fs::write(&path, &bytes).unwrap();
    for command in ["list", "search copper", "show 3f1c0001", "sources", "index", "index --full"] {
        let parts = [
            "has format 999; this version supports formats up to",
            "update aj",
            path.to_str().unwrap(),
        ];
        test.aj(command).fails(parts);
    }
    assert!(fs::read(&path).unwrap() == bytes);
}

#[test]
fn a_deleted_or_damaged_index_is_made_anew_by_itself() {
    let test = two_agents();
    test.aj("index").found();
    let index = test.journal("index");
    let expected = answers(&test);
    let check = |what: &str| {
        let run = test.aj("search --json copper");
        assert_eq!(run.code, Some(0), "{what}: {run}");
        assert_eq!(run.ids(), [FLAKY], "{what}");
        assert!(answers(&test) == expected, "{what}");
    };
    fs::remove_dir_all(&index).unwrap();
    check("deleted");
    fs::remove_dir_all(&index).unwrap();
    fs::write(&index, "a file where a directory should be").unwrap();
    let run = test.aj("search copper");
    assert_eq!(run.code, Some(2), "{run}");
    run.says([index.to_str().unwrap()]);
    fs::remove_file(&index).unwrap();
    check("deleted again");
    let damages: [(&str, Damage); 3] = [
        ("deleted", |path| fs::remove_file(path).unwrap()),
        ("emptied", |path| fs::write(path, "").unwrap()),
        ("scribbled over", |path| fs::write(path, "scribble").unwrap()),
    ];
    for (what, damage) in damages {
        for path in files(&index.join("lexical")) {
            // One damage may have made the index anew under other names.
            if path.exists() {
                damage(&path);
                check(&format!("{} {what}", path.display()));
            }
        }
    }
}

type Damage = fn(&Path);

/// The files of a directory that are not locks.
fn files(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).unwrap().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension() != Some(OsStr::new("lock"))).collect();
    files.sort();
    files
}

/// The files of a directory and of those in it.
fn all_files(path: &Path) -> Vec<PathBuf> {
    let (folders, mut all): (Vec<_>, Vec<_>) =
        files(path).into_iter().partition(|one| one.is_dir());
    all.extend(folders.iter().flat_map(|folder| all_files(folder)));
    all
}

/// Cuts a file somewhere, or scribbles over some of it.
fn damage(original: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = original.to_vec();
    let at = random.below(bytes.len() as u64) as usize;
    let end = (at + 1 + random.below(200) as usize).min(bytes.len());
    match random.below(3) {
        0 => bytes.truncate(at),
        1 => bytes[at..end].fill(0),
        _ => bytes[at..end].iter_mut().for_each(|byte| *byte = random.below(256) as u8),
    }
    bytes
}

/// Replaces a file: one that somebody has mapped must not change below them.
fn replace(path: &Path, bytes: &[u8]) {
    let draft = path.with_extension("draft");
    fs::write(&draft, bytes).unwrap();
    fs::rename(&draft, path).unwrap();
}

/// A command that works, or that says in one line what is wrong and in the next what to do.
#[track_caller]
fn works_or_tells(test: &Test, words: &str, what: &str) -> Run {
    let run = test.aj(words);
    assert!(matches!(run.code, Some(0..=2)), "{what}: {run}");
    if run.code == Some(2) {
        assert_eq!(run.stderr.lines().count(), 2, "{what}: {run}");
        assert!(run.stderr.contains(test.journal("").to_str().unwrap()), "{what}: {run}");
    }
    run
}

#[test]
fn an_index_file_damaged_anywhere_costs_no_session_and_no_panic() {
    let test = two_agents();
    for number in 0..3 {
        let session = long_session(number, 30);
        test.write(session.path(), session.lines);
    }
    test.aj("index").found();
    let known = test.aj("list --all --limit 0 --json").ids().len();
    let (mut failed, count) = (0, rounds(24));
    for seed in 0..count {
        let mut random = Random::new(seed);
        let all = all_files(&test.journal("index"));
        let path = &all[random.below(all.len() as u64) as usize];
        let what = format!("seed {seed}, {}", path.display());
        let original = fs::read(path).unwrap();
        if original.is_empty() {
            continue;
        }
        replace(path, &damage(&original, &mut random));
        for words in ["search --json copper", "search word1x1*", "search --json begin* -fox"] {
            failed += u32::from(works_or_tells(&test, words, &what).code == Some(2));
        }
        // Now the index is written to as well, with the damage in it.
        let session = long_session(seed % 3, 30 + seed % 2);
        test.write(session.path(), session.lines);
        if works_or_tells(&test, "index", &what).code == Some(2) {
            failed += 1;
            test.aj("index").code(0);
        }
        // What is in the journal does not come from an index.
        assert_eq!(test.aj("list --all --limit 0 --json").ids().len(), known, "{what}");
        test.aj("index --full").code(0);
        same(&answers(&test), &undisturbed(&test), &what);
    }
    println!("{failed} of {} commands failed and said what to do", count * 4);
}

/// Damage that the engine's own threads meet, when they merge what was written in several runs.
#[cfg(unix)]
#[test]
fn damage_that_ends_a_writing_thread_ends_no_command() {
    for (kind, byte, words) in [("idx", 0, "search --json copper"), ("fast", 0xff, "index")] {
        let test = two_agents();
        for number in 0..5 {
            let session = long_session(number, 30);
            test.write(session.path(), session.lines);
            test.aj("index").found();
        }
        let all = all_files(&test.journal("index"));
        for path in all.iter().filter(|path| path.extension() == Some(OsStr::new(kind))) {
            let mut bytes = fs::read(path).unwrap();
            let half = bytes.len() / 4..bytes.len() * 3 / 4;
            bytes[half].fill(byte);
            replace(path, &bytes);
        }
        let session = long_session(5, 30);
        test.write(session.path(), session.lines);
        test.aj(words).code(0).stderr("");
        same(&answers(&test), &undisturbed(&test), kind);
    }
}

#[test]
fn a_damaged_file_of_vectors_is_made_anew() {
    let test = two_agents();
    test.aj("index").found();
    let vectors = |test: &Test| {
        let all = files(&test.journal("index"));
        all.into_iter().find(|path| path.is_file()).unwrap()
    };
    let (path, expected) = (vectors(&test), answers(&test));
    let original = fs::read(&path).unwrap();
    let damages: [(&str, Vec<u8>); 5] = [
        ("emptied", Vec::new()),
        ("cut in its first page", original[..100].to_vec()),
        ("cut in its rows", original[..original.len() - 300].to_vec()),
        ("without its commits", [&original[..1024], &[0; 3072], &original[4096..]].concat()),
        ("of something else", b"scribble".repeat(2000)),
    ];
    for (what, bytes) in damages {
        replace(&path, &bytes);
        test.aj("search --json copper").found();
        test.aj("index").code(0);
        same(&answers(&test), &expected, what);
        assert!(fs::metadata(&path).unwrap().len() >= 4096, "{what}");
    }
}

#[test]
fn whatever_is_remembered_of_the_last_look_news_are_found() {
    let test = two_agents();
    test.aj("index").found();
    let seen = test.journal("scan_cache");
    for seed in 0..rounds(12) {
        test.aj("list").found();
        let mut random = Random::new(seed);
        let session = Transcript::new(seed).you(&format!("zanzibar{seed} at last"));
        test.write(session.path(), &session.lines);
        match fs::read(&seen) {
            Ok(original) if !original.is_empty() => replace(&seen, &damage(&original, &mut random)),
            _ => fs::write(&seen, "scribble").unwrap(),
        }
        test.aj(&format!("search zanzibar{seed}")).found();
    }
    fs::remove_file(&seen).unwrap();
    fs::create_dir(&seen).unwrap();
    test.aj("index").code(0);
    same(&answers(&test), &undisturbed(&test), "a directory in its place");
}

#[test]
fn a_torn_log_of_the_journal_costs_only_what_can_be_read_again() {
    let test = two_agents();
    test.aj("index").found();
    let database = test.journal("journal.db");
    // Whoever reads keeps the log from being folded in: it holds all that comes now.
    let reader = rusqlite::Connection::open(&database).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM sessions;").unwrap();
    for number in 0..6 {
        let session = long_session(number, 60);
        test.write(session.path(), session.lines);
        test.aj("index").code(0);
    }
    let log = test.journal("journal.db-wal");
    let (database_bytes, log_bytes) = (fs::read(&database).unwrap(), fs::read(&log).unwrap());
    reader.execute_batch("ROLLBACK").unwrap();
    drop(reader);
    assert!(log_bytes.len() > 100_000, "{}", log_bytes.len());
    let index = test.beside("index");
    crate::support::copy(&test.journal("index"), &index);
    let sources = snapshot(&test.path(""));
    let expected = undisturbed(&test);
    for seed in 0..rounds(10) {
        let mut random = Random::new(seed);
        fs::remove_dir_all(test.journal("")).unwrap();
        fs::create_dir(test.journal("")).unwrap();
        fs::write(&database, &database_bytes).unwrap();
        fs::write(&log, damage(&log_bytes, &mut random)).unwrap();
        // The indexes know what the journal has lost.
        crate::support::copy(&index, &test.journal("index"));
        for words in ["--no-sync list", "search --json word3x7", "index"] {
            works_or_tells(&test, words, &format!("seed {seed}"));
        }
        same(&answers(&test), &expected, &format!("seed {seed}"));
    }
    assert!(snapshot(&test.path("")) == sources);
}

#[test]
fn a_program_that_has_the_journal_open_leaves_it_to_a_newer_one() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;
    let test = two_agents();
    let mut watch = test.command(["index", "--watch", "--json"]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let database = rusqlite::Connection::open(test.journal("journal.db")).unwrap();
    let format: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    database.execute_batch("PRAGMA user_version = 999").unwrap();
    let count = || -> i64 {
        database.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap()
    };
    let before = count();
    let session = Transcript::new(7).you("for the newer program");
    test.write(session.path(), &session.lines);
    // It ends by itself, and says why.
    let mut said = String::new();
    watch.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(2), "{said}");
    assert!(said.contains("has format 999") && said.contains("update aj"), "{said}");
    assert_eq!(count(), before);
    // The newer program gives way: nothing was lost meanwhile.
    database.pragma_update(None, "user_version", format).unwrap();
    drop(database);
    test.aj("search newer").found();
    same(&answers(&test), &undisturbed(&test), "afterwards");
}
