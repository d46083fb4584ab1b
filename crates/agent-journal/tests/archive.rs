//! The archive: every byte that was read is restored, whatever the agent did to its files later, and
//! sessions whose files are gone are read again from it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use agent_journal::connectors::Machine;
use agent_journal::model::Timestamp;
use agent_journal::{ArchiveSettings, Config, Journal, RestoreObstacle, RestorePlace, SyncOptions};

use crate::support::place::{Place, Script, all};

/// Random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// A line of a session with text of about the given size, which hardly compresses.
fn text(random: &mut Random, bytes: u64) -> String {
    let mut text = String::new();
    while (text.len() as u64) < bytes {
        text.push_str(&format!("{:x} ", random.below(1 << 30)));
    }
    text
}

fn session(random: &mut Random, number: usize) -> Script {
    let mut session = Script::new(number).you("please look at this");
    for _ in 0..random.below(20) {
        let bytes = 10 + random.below(9000);
        session = session.agent(&text(random, bytes));
    }
    session
}

/// The contents of all files below a directory.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(
                    path.strip_prefix(directory).unwrap().to_owned(),
                    fs::read(&path).unwrap(),
                );
            }
        }
    }
    found
}

/// Restores the files of all sessions, as they were at a time.
fn restored(journal: &Journal, at: Option<Timestamp>) -> BTreeMap<PathBuf, Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let place = RestorePlace::Directory(directory.path().to_owned());
    for entry in journal.list_entries(&all(), None).unwrap() {
        for file in journal.plan_restore(&entry, &place, at).unwrap() {
            if file.obstacle != Some(RestoreObstacle::Exists) {
                journal.restore_file(&file).unwrap();
            }
        }
    }
    contents(directory.path())
}

fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond()).unwrap()
}

fn texts(journal: &Journal) -> Vec<String> {
    let entry = &journal.list_entries(&all(), None).unwrap()[0];
    let messages = journal.read_messages(entry, 0..u64::MAX).unwrap();
    messages.iter().map(|(_, message)| message.joined_text()).collect()
}

fn on() -> ArchiveSettings {
    ArchiveSettings { enabled: true, ..ArchiveSettings::default() }
}

/// Opens the journal of a place with its archive, and reads what is new.
fn sync(place: &Place) -> Journal {
    with_archive(place, on())
}

fn with_archive(place: &Place, archive: ArchiveSettings) -> Journal {
    let machine = Machine { home: place.home(), ..Machine::default() };
    let config = Config { archive, ..place.config() };
    let mut journal = Journal::open(config, machine).unwrap();
    journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
    journal
}

fn append(path: &Path, bytes: &[u8]) {
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// Changes one of the files at random: appends, rewrites, truncates, deletes or renames it.
fn change(place: &Place, random: &mut Random, sessions: &mut Vec<Script>) {
    let at = random.below(sessions.len() as u64) as usize;
    let path = place.home().join(sessions[at].path());
    let lines = fs::read(&path).unwrap_or_default();
    match random.below(8) {
        0..=2 if path.exists() => {
            let more = session(random, sessions.len() + at).lines;
            // Sometimes the end of a line that is still being written.
            let end = more.len() - random.below(2) as usize * 7;
            append(&path, &more.as_bytes()[..end]);
        }
        3 if lines.len() > 4000 => {
            let middle = lines.len() / 2;
            let some = session(random, at).lines;
            let new = [some.as_bytes(), &lines[..middle], b"\n", &lines[middle + 100..]].concat();
            fs::write(&path, new).unwrap();
        }
        4 if lines.len() > 4000 => {
            let keep = 2000 + random.below(lines.len() as u64 - 2000);
            fs::write(&path, &lines[..keep as usize]).unwrap();
        }
        5 if path.exists() => fs::remove_file(&path).unwrap(),
        6 if path.exists() => {
            let renamed =
                format!(".claude/projects/-home-mara-web/{:08x}-renamed.jsonl", random.below(9));
            fs::rename(&path, place.home().join(renamed)).unwrap();
        }
        _ => {
            let new = session(random, sessions.len());
            place.file(&new.path(), &new.lines);
            sessions.push(new);
        }
    }
}

#[test]
fn every_byte_that_was_read_is_restored() {
    let histories = std::env::var("AJ_FAULTS").ok().and_then(|text| text.parse().ok());
    for seed in 0..histories.unwrap_or(3) {
        let mut random = Random(seed);
        let place = Place::new();
        let mut sessions = vec![session(&mut random, 0)];
        place.file(&sessions[0].path(), &sessions[0].lines);
        let mut expected: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        let mut states = Vec::new();
        for _ in 0..14 {
            for _ in 0..=random.below(3) {
                change(&place, &mut random, &mut sessions);
            }
            drop(sync(&place));
            expected.extend(contents(&place.home()));
            states.push((now(), expected.clone()));
        }
        let journal = sync(&place);
        assert!(restored(&journal, None) == expected, "seed {seed}");
        for (number, (at, expected)) in states.iter().enumerate() {
            assert!(restored(&journal, Some(*at)) == *expected, "seed {seed}, state {number}");
        }
        assert_eq!(journal.find_archive_damage().unwrap(), Vec::<PathBuf>::new());
    }
}

#[test]
fn small_appends_share_what_is_there_and_leave_nothing_behind() {
    let place = Place::new();
    let mut random = Random(1);
    let mut session = session(&mut random, 1);
    place.file(&session.path(), &session.lines);
    drop(sync(&place));
    for _ in 0..60 {
        let known = session.lines.len();
        session = session.agent(&text(&mut random, 3000));
        append(&place.home().join(session.path()), &session.lines.as_bytes()[known..]);
        drop(sync(&place));
    }
    let journal = sync(&place);
    let content = session.lines.len() as u64;
    let totals = journal.archive_totals().unwrap();
    assert_eq!((totals.files, totals.versions), (1, 1));
    assert!(totals.content_bytes < content + (128 << 10), "{totals:?} for {content} bytes");
    assert_eq!(restored(&journal, None).into_values().next().unwrap(), session.lines.as_bytes());
}

#[test]
fn a_file_that_is_rewritten_shares_what_did_not_change() {
    let place = Place::new();
    let mut random = Random(2);
    let mut session = session(&mut random, 1);
    while session.lines.len() < 2 << 20 {
        session = session.agent(&text(&mut random, 5000));
    }
    place.file(&session.path(), &session.lines);
    let before = sync(&place).archive_totals().unwrap();
    let line = session.lines.lines().next().unwrap();
    place.file(&session.path(), session.lines.replacen(line, &format!("{line}\n{line}"), 1));
    let after = sync(&place).archive_totals().unwrap();
    assert_eq!(after.versions, before.versions + 1);
    assert!(after.content_bytes - before.content_bytes < 256 << 10, "{before:?} {after:?}");
}

#[test]
fn a_session_whose_file_is_gone_is_read_again_when_the_reader_improves() {
    let place = Place::new();
    let session = Script::new(1).you("first").agent("word1").agent("word2");
    place.file(&session.path(), &session.lines);
    assert_eq!(texts(&sync(&place)), ["first", "word1", "word2"]);
    fs::remove_file(place.home().join(session.path())).unwrap();
    drop(sync(&place));
    // As an older reader left it, which did not understand the messages.
    let database = place.database();
    database.execute_batch("DELETE FROM chunks; UPDATE recordings SET messages = 0").unwrap();
    drop(database);
    assert_eq!(texts(&sync(&place)), Vec::<String>::new(), "nothing is to be read");
    place.database().execute_batch("UPDATE sources SET reader = reader - 1").unwrap();
    let journal = sync(&place);
    assert_eq!(texts(&journal), ["first", "word1", "word2"]);
    let reports = journal.agent_reports().unwrap();
    let gone: u64 = reports.iter().map(|report| report.totals.sessions_gone).sum();
    assert_eq!(gone, 1, "the session remains only in the journal");
    assert_eq!(journal.find_archive_damage().unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn damage_is_found_and_affects_only_its_files() {
    let place = Place::new();
    let session = Script::new(1).you("first").agent("word1");
    place.file(&session.path(), &session.lines);
    let journal = sync(&place);
    assert_eq!(journal.find_archive_damage().unwrap(), Vec::<PathBuf>::new());
    let pack = place.directory.path().join("journal/archive/pack-000000");
    let mut bytes = fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&pack, &bytes).unwrap();
    assert_eq!(journal.find_archive_damage().unwrap(), [place.home().join(session.path())]);
    fs::remove_file(&pack).unwrap();
    assert_eq!(journal.find_archive_damage().unwrap(), [place.home().join(session.path())]);
    assert_eq!(texts(&sync(&place)), ["first", "word1"]);
}

#[test]
fn a_torn_pack_is_cut_by_the_next_writer() {
    let place = Place::new();
    let one = Script::new(1).you("first").agent("word1");
    place.file(&one.path(), &one.lines);
    drop(sync(&place));
    let packs = place.directory.path().join("journal/archive");
    append(&packs.join("pack-000000"), b"the beginning of a frame");
    fs::write(packs.join("pack-000001"), b"a pack that no commit names").unwrap();
    let two = Script::new(2).you("second").agent("word2");
    place.file(&two.path(), &two.lines);
    let journal = sync(&place);
    assert_eq!(restored(&journal, None), contents(&place.home()));
    assert_eq!(journal.find_archive_damage().unwrap(), Vec::<PathBuf>::new());
    assert_eq!(contents(&packs).len(), 1);
    let stored = journal.archive_totals().unwrap().stored_bytes;
    assert_eq!(contents(&packs).into_values().next().unwrap().len() as u64, stored);
}

#[test]
fn removing_a_session_keeps_the_others() {
    let place = Place::new();
    let mut random = Random(5);
    let (one, two) = (session(&mut random, 1), session(&mut random, 2));
    for session in [&one, &two] {
        place.file(&session.path(), &session.lines);
    }
    let mut journal = sync(&place);
    let before = journal.archive_totals().unwrap();
    let entry = journal.find_session(&one.id).unwrap();
    journal.remove_from_archive(&entry).unwrap();
    let after = journal.archive_totals().unwrap();
    assert_eq!((before.files, after.files), (2, 1));
    assert!(after.content_bytes + one.lines.len() as u64 <= before.content_bytes + 200);
    let left = restored(&journal, None);
    assert_eq!(left.len(), 1);
    assert_eq!(left[Path::new(&two.path())], two.lines.as_bytes());
    let packs = contents(&place.directory.path().join("journal/archive"));
    assert_eq!(packs.values().map(|pack| pack.len() as u64).sum::<u64>(), after.stored_bytes);
    assert_eq!(journal.find_archive_damage().unwrap(), Vec::<PathBuf>::new());
}

#[test]
fn the_archive_can_be_off_limited_or_without_an_agent() {
    let session = Script::new(1).you("first").agent("word1");
    for archive in [
        ArchiveSettings::default(),
        ArchiveSettings { max_bytes: Some(10), ..on() },
        ArchiveSettings { agents_excluded: vec!["claude-code".to_owned()], ..on() },
    ] {
        let place = Place::new();
        place.file(&session.path(), &session.lines);
        let journal = with_archive(&place, archive.clone());
        assert_eq!(texts(&journal), ["first", "word1"]);
        assert_eq!(journal.archive_totals().unwrap().versions, 0, "{archive:?}");
        assert_eq!(restored(&journal, None), BTreeMap::new());
    }
}

#[test]
fn restoring_never_replaces_a_file() {
    let place = Place::new();
    let session = Script::new(1).you("first").agent("word1");
    place.file(&session.path(), &session.lines);
    let journal = sync(&place);
    let entry = journal.find_session(&session.id).unwrap();
    let plan = || journal.plan_restore(&entry, &RestorePlace::InPlace, None).unwrap();
    let path = place.home().join(session.path());
    assert_eq!(plan()[0].obstacle, Some(RestoreObstacle::Exists));
    assert!(journal.restore_file(&plan()[0]).is_err());
    fs::remove_dir_all(place.home().join(".claude")).unwrap();
    let missing = plan();
    assert_eq!((missing.len(), missing[0].obstacle), (1, None));
    place.file(&session.path(), "something else");
    assert!(journal.restore_file(&missing[0]).is_err(), "it appeared meanwhile");
    assert_eq!(fs::read(&path).unwrap(), b"something else");
    fs::remove_file(&path).unwrap();
    journal.restore_file(&plan()[0]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), session.lines.as_bytes());
}

#[cfg(unix)]
#[test]
fn restoring_never_leaves_the_chosen_directory() {
    let place = Place::new();
    let session = Script::new(1).you("first").agent("word1");
    place.file(&session.path(), &session.lines);
    let journal = sync(&place);
    let entry = journal.find_session(&session.id).unwrap();
    let (chosen, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(outside.path(), chosen.path().join(".claude")).unwrap();
    let plan = || {
        let directory = RestorePlace::Directory(chosen.path().to_owned());
        journal.plan_restore(&entry, &directory, None).unwrap()
    };
    assert_eq!(plan()[0].obstacle, Some(RestoreObstacle::UnsafePath));
    assert!(journal.restore_file(&plan()[0]).is_err());
    fs::remove_file(chosen.path().join(".claude")).unwrap();
    let hostile = "UPDATE archive_files SET path = '/home/../../../outside/x.jsonl'";
    place.database().execute_batch(hostile).unwrap();
    let plan = plan();
    assert_eq!(plan[0].obstacle, Some(RestoreObstacle::UnsafePath));
    assert!(journal.restore_file(&plan[0]).is_err());
    assert_eq!((contents(chosen.path()).len(), contents(outside.path()).len()), (0, 0));
}
