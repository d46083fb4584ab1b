//! Forgotten sessions: no byte of them is left, and nothing reads them again.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent_journal::connectors::Machine;
use agent_journal::export::{ExportOptions, SingleFileOutput, find_format};
use agent_journal::{
    ArchiveSettings, Config, Entry, ExcludeRules, ForgetReport, ImportSource, Journal,
    LeftOutReason, MarkChange, SyncOptions,
};
use serde_json::json;

use crate::support::place::{Place, Script, all, found};

/// A word that only the forgotten session has.
const WORD: &str = "quincunxial";

const WAIT: Duration = Duration::from_mins(1);

/// Text of common words in an order of its own, `words` of them.
fn babble(seed: usize, words: usize) -> String {
    let mut state = seed as u64 + 1;
    let mut text = String::new();
    for _ in 0..words {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("term{} ", (state >> 33) % 5000));
    }
    text
}

/// A session with the word in every kind of place.
fn secret() -> Script {
    let mut script = Script::new(1).you(&format!("draw the {WORD} plan"));
    for at in 0..60 {
        script = script.agent(&format!("the {WORD} orchard number {at} {}", babble(at, 8000)));
        script = script.you(&format!("plant the {WORD} orchard in rows of five"));
    }
    script = script.line(
        "assistant",
        &json!({ "model": "claude-sonnet-4-5", "id": "msg_edit", "type": "message", "role": "assistant",
            "content": [{ "type": "tool_use", "id": "toolu_1", "name": "Edit",
                "input": { "file_path": format!("/home/mara/web/{WORD}.rs") } }],
            "usage": { "input_tokens": 3, "output_tokens": 5 } }),
    );
    let image = json!({ "role": "user", "content": [{ "type": "image", "source":
        { "type": "base64", "media_type": "image/png", "data": base64(WORD) } }] });
    script = script.line("user", &image);
    let title = json!({ "type": "custom-title", "customTitle": format!("the {WORD} title"),
        "sessionId": script.id });
    script.lines.push_str(&format!("{title}\n"));
    script
}

/// Bytes in Base64, without padding where the length is not a multiple of three.
fn base64(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let padded = format!("{text}{}", " ".repeat((3 - text.len() % 3) % 3));
    let mut out = String::new();
    for three in padded.as_bytes().chunks(3) {
        let number = three.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        for shift in [18, 12, 6, 0] {
            out.push(char::from(LETTERS[(number >> shift) as usize & 63]));
        }
    }
    out
}

/// A history in which the forgotten session trained the dictionary, and the others need it.
fn history(sync: fn(&Place) -> Journal) -> Place {
    let place = Place::new();
    let secret = secret();
    place.file(&secret.path(), &secret.lines);
    drop(sync(&place));
    for number in 2..8 {
        let mut script = Script::new(number).you("an ordinary question");
        for at in 0..50 {
            script = script.agent(&babble(number * 1000 + at, 1500));
        }
        place.file(&script.path(), &script.lines);
    }
    drop(sync(&place));
    place
}

fn with_archive(place: &Place) -> Journal {
    let archive = ArchiveSettings { enabled: true, ..ArchiveSettings::default() };
    let config = Config { archive, ..place.config() };
    let machine = Machine { home: place.home(), ..Machine::default() };
    let mut journal = Journal::open(config, machine).unwrap();
    journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
    journal
}

fn journal_of(place: &Place) -> Journal {
    let machine = Machine { home: place.home(), ..Machine::default() };
    Journal::open(place.config(), machine).unwrap()
}

fn forget(journal: &mut Journal, id: &str) -> ForgetReport {
    let entry = journal.find_session(id).unwrap();
    let plan = journal.plan_forgetting(vec![entry]).unwrap();
    journal.forget_sessions(&plan, WAIT, &mut |_| {}).unwrap()
}

fn files_below(directory: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_below(&path, all) } else { all.push(path) }
    }
}

/// Every place of the journal's directory in which the word is: as bytes of a file, in a compressed
/// chunk, among the indexed words.
fn traces(place: &Place) -> Vec<String> {
    let directory = place.directory.path().join("journal");
    let contains = |bytes: &[u8]| {
        let bytes = bytes.to_ascii_lowercase();
        bytes.windows(WORD.len()).any(|window| window == WORD.as_bytes())
    };
    let mut files = Vec::new();
    files_below(&directory, &mut files);
    let mut traces: Vec<String> = files
        .iter()
        .filter(|file| contains(&fs::read(file).unwrap()))
        .map(|file| file.strip_prefix(&directory).unwrap().display().to_string())
        .collect();
    let database = place.database();
    let blobs = |sql: &str| -> Vec<Vec<u8>> {
        let mut statement = database.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let dictionaries = blobs("SELECT bytes FROM dictionaries");
    traces.extend(dictionaries.iter().any(|it| contains(it)).then(|| "dictionary".to_owned()));
    let plain = [&[][..]];
    let known: Vec<&[u8]> = dictionaries.iter().map(Vec::as_slice).chain(plain).collect();
    for body in blobs("SELECT body FROM chunks") {
        let texts = known.iter().filter_map(|dictionary| {
            zstd::bulk::Decompressor::with_dictionary(dictionary)
                .unwrap()
                .decompress(&body, 64 << 20)
                .ok()
        });
        let texts: Vec<Vec<u8>> = texts.collect();
        assert!(!texts.is_empty(), "a chunk cannot be decompressed");
        traces.extend(texts.iter().any(|text| contains(text)).then(|| "chunk".to_owned()));
    }
    for (pack, start, bytes, body) in frames(&database) {
        let body = match pack {
            Some(pack) => {
                let pack = fs::read(directory.join(format!("archive/pack-{pack:06}"))).unwrap();
                pack[start..start + bytes].to_vec()
            }
            None => body,
        };
        let content = zstd::bulk::decompress(&body, 64 << 20).unwrap();
        traces.extend(contains(&content).then(|| "archive".to_owned()));
    }
    drop(database);
    let index = tantivy::Index::open_in_dir(directory.join("index/lexical")).unwrap();
    let schema = index.schema();
    for segment in index.reader().unwrap().searcher().segment_readers() {
        for (field, _) in schema.fields().filter(|(_, entry)| entry.is_indexed()) {
            let words = segment.inverted_index(field).unwrap();
            let mut words = words.terms().stream().unwrap();
            while words.advance() {
                traces.extend(contains(words.key()).then(|| "index".to_owned()));
            }
        }
    }
    traces.sort();
    traces.dedup();
    traces
}

/// The place and the content of each frame of the archive.
fn frames(database: &rusqlite::Connection) -> Vec<(Option<i64>, usize, usize, Vec<u8>)> {
    let sql = "SELECT pack, start, bytes, coalesce(body, x'') FROM archive_frames";
    let mut statement = database.prepare(sql).unwrap();
    let rows = statement
        .query_map([], |row| {
            let (start, bytes) = (row.get::<_, i64>(1)? as usize, row.get::<_, i64>(2)? as usize);
            Ok((row.get(0)?, start, bytes, row.get(3)?))
        })
        .unwrap();
    rows.map(Result::unwrap).collect()
}

fn texts(journal: &Journal) -> Vec<String> {
    let entries = journal.list_entries(&all(), None).unwrap();
    let messages =
        |entry: &Entry| format!("{:?}", journal.read_messages(entry, 0..u64::MAX).unwrap());
    entries.iter().filter(|entry| !entry.id.contains("00000001")).map(messages).collect()
}

#[test]
fn no_byte_of_a_forgotten_session_is_left() {
    let place = history(Place::sync);
    let mut journal = journal_of(&place);
    let entry = journal.find_session("00000001").unwrap();
    let changes =
        [MarkChange::AddTag(WORD.to_owned()), MarkChange::SetNote(format!("a {WORD} note"))];
    journal.mark_sessions(&[entry], &changes, WAIT).unwrap();
    let before = traces(&place);
    for place in ["chunk", "dictionary", "index", "journal.db"] {
        assert!(before.iter().any(|trace| trace == place), "{place} is not in {before:?}");
    }
    let others = texts(&journal);
    let entry = journal.find_session("00000001").unwrap();
    let plan = journal.plan_forgetting(vec![entry]).unwrap();
    assert_eq!((plan.messages, plan.subagents), (123, 0));
    let report = journal.forget_sessions(&plan, WAIT, &mut |_| {}).unwrap();
    assert!(report.is_complete && report.freed_bytes > 0, "{report:?}");
    assert_eq!(traces(&place), [""; 0]);
    assert_eq!(texts(&journal_of(&place)), others);

    // Every way back is closed.
    let longer = secret().you("and one more");
    place.file(&longer.path(), &longer.lines);
    let again = secret();
    place.file(&again.path().replace(".claude/", ".config/claude/"), &again.lines);
    let mut journal = place.sync();
    journal.sync(SyncOptions { full: true, ..SyncOptions::default() }, &mut |_| {}).unwrap();
    assert_eq!(traces(&place), [""; 0]);
    assert_eq!(texts(&journal), others);
    assert_eq!(journal.list_entries(&all(), None).unwrap().len(), 6);
}

#[test]
fn no_byte_of_a_forgotten_session_is_left_in_the_archive() {
    let place = history(with_archive);
    let before = traces(&place);
    for place in ["archive", "chunk", "dictionary", "index", "journal.db"] {
        assert!(before.iter().any(|trace| trace == place), "{place} is not in {before:?}");
    }
    let mut journal = with_archive(&place);
    let files = journal.archive_totals().unwrap().files;
    let report = forget(&mut journal, "00000001");
    assert!(report.is_complete && report.freed_bytes > 0, "{report:?}");
    assert_eq!(traces(&place), [""; 0]);
    assert_eq!(journal.archive_totals().unwrap().files, files - 1);
    assert_eq!(journal.find_archive_damage().unwrap(), Vec::<PathBuf>::new());

    // Neither the session nor a copy of it is archived again.
    let longer = secret().you("and one more");
    place.file(&longer.path(), &longer.lines);
    let copy = secret();
    place.file(&copy.path().replace(".claude/", ".config/claude/"), &copy.lines);
    let mut journal = with_archive(&place);
    journal.sync(SyncOptions { full: true, ..SyncOptions::default() }, &mut |_| {}).unwrap();
    assert_eq!(traces(&place), [""; 0]);

    // A process that was killed left bytes that the catalogue does not name.
    let packs = place.directory.path().join("journal/archive");
    let known = fs::read_dir(&packs).unwrap().next().unwrap().unwrap().path();
    let mut torn = fs::read(&known).unwrap();
    torn.extend_from_slice(WORD.as_bytes());
    fs::write(&known, torn).unwrap();
    fs::write(packs.join("pack-000099"), WORD).unwrap();
    assert_eq!(traces(&place).len(), 2);
    place.database().execute_batch("INSERT INTO meta VALUES ('purge', 1)").unwrap();
    place.file(&Script::new(9).path(), &Script::new(9).you("and another question").lines);
    drop(place.sync());
    assert_eq!(traces(&place), [""; 0]);

    // A lifted tombstone lets it be archived again.
    journal.lift_tombstones("00000001", WAIT).unwrap();
    drop(with_archive(&place));
    assert!(traces(&place).contains(&"archive".to_owned()));
}

#[test]
fn a_damaged_archive_does_not_prevent_forgetting() {
    let place = Place::new();
    for number in [1, 2] {
        let script = Script::new(number).you(&format!("draw the plan {}", babble(number, 9000)));
        place.file(&script.path(), &script.lines);
    }
    let mut journal = with_archive(&place);
    let packs = place.directory.path().join("journal/archive");
    for pack in fs::read_dir(&packs).unwrap() {
        let path = pack.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        bytes.iter_mut().step_by(1000).for_each(|byte| *byte ^= 1);
        fs::write(&path, bytes).unwrap();
    }
    assert!(forget(&mut journal, "00000001").is_complete);
    let damaged = journal.find_archive_damage().unwrap();
    assert_eq!(damaged, [place.home().join(Script::new(2).path())]);
    assert_eq!(found(&journal, "plan").len(), 1);
}

#[test]
fn excluded_sessions_are_not_archived() {
    let place = Place::new();
    let script = Script::new(1).you(&format!("draw the {WORD} plan"));
    let lines = script.lines.replace("/home/mara/web", "/home/mara/secret");
    place.file(&script.path(), &lines);
    let other = Script::new(2).you("an ordinary question");
    place.file(&other.path(), &other.lines);
    let exclude = ExcludeRules { projects: vec!["secret".to_owned()], ..ExcludeRules::default() };
    let archive = ArchiveSettings { enabled: true, ..ArchiveSettings::default() };
    let config = Config { exclude, archive, ..place.config() };
    let machine = Machine { home: place.home(), ..Machine::default() };
    let mut journal = Journal::open(config, machine).unwrap();
    journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(journal.archive_totals().unwrap().files, 1);
    assert_eq!(traces(&place), [""; 0]);
    drop(with_archive(&place));
    assert_eq!(journal.archive_totals().unwrap().files, 2);
}

#[test]
fn a_forgotten_session_does_not_come_back_with_an_import() {
    let place = Place::new();
    let script = Script::new(1).you("draw the plan").agent("drawn");
    place.file(&script.path(), &script.lines);
    let mut journal = place.sync();
    let mut document = Vec::new();
    let entry = journal.find_session("00000001").unwrap();
    let format = find_format("json").unwrap();
    let mut output = SingleFileOutput(&mut document);
    journal
        .start_export(format, ExportOptions::default())
        .write_session(&entry, &mut output)
        .unwrap();
    forget(&mut journal, "00000001");
    let file = place.directory.path().join("export.json");
    let open = || -> std::io::Result<Box<dyn std::io::Read>> {
        Ok(Box::new(std::io::Cursor::new(document.clone())))
    };
    let source = ImportSource { path: &file, open: &open };
    let report = journal.import_file(&source, WAIT, &mut |_| {}).unwrap();
    assert_eq!((report.sessions, report.left_out, report.new), (1, 1, 0));
    assert!(journal.list_entries(&all(), None).unwrap().is_empty());
    assert!(found(&journal, "plan").is_empty());
}

#[test]
fn a_lifted_tombstone_lets_the_session_be_read_again() {
    let place = Place::new();
    for number in [1, 2] {
        let script = Script::new(number).you("draw the plan").agent("drawn");
        place.file(&script.path(), &script.lines);
    }
    let mut journal = place.sync();
    let counted = place.counted();
    forget(&mut journal, "00000001");
    let unread = journal.left_out_sessions().unwrap();
    assert_eq!(unread.len(), 1);
    assert_eq!(unread[0].reason, LeftOutReason::Forgotten);
    assert_eq!(unread[0].sources.len(), 1);
    assert_eq!(found(&place.sync(), "plan").len(), 1);
    assert!(journal.lift_tombstones("00000002", WAIT).is_err());
    assert_eq!(journal.lift_tombstones("00000001", WAIT).unwrap().len(), 1);
    assert!(journal.left_out_sessions().unwrap().is_empty());
    assert_eq!(found(&place.sync(), "plan").len(), 2);
    assert_eq!(place.counted(), counted);
    // It can be forgotten once more.
    let mut journal = place.sync();
    forget(&mut journal, "00000001");
    assert_eq!(found(&place.sync(), "plan").len(), 1);
}

#[test]
fn an_interrupted_purge_is_completed_by_the_next_writer() {
    let place = Place::new();
    let script = Script::new(1).you(&format!("draw the {WORD} plan")).agent("drawn");
    place.file(&script.path(), &script.lines);
    let other = Script::new(2).you("an ordinary question").agent("answered");
    place.file(&other.path(), &other.lines);
    let mut journal = place.sync();
    let index = place.directory.path().join("journal/index/lexical");
    let copy = place.directory.path().join("index-before");
    copy_files(&index, &copy);
    forget(&mut journal, "00000001");
    drop(journal);
    // The state after a kill between the transaction and the index.
    fs::remove_dir_all(&index).unwrap();
    copy_files(&copy, &index);
    place.database().execute_batch("INSERT INTO meta VALUES ('purge', 1)").unwrap();
    assert_eq!(traces(&place), ["index"]);
    place.file(
        &other.path(),
        &Script::new(2).you("an ordinary question").agent("answered").you("more").lines,
    );
    let journal = place.sync();
    assert_eq!(traces(&place), [""; 0]);
    assert_eq!(found(&journal, "ordinary").len(), 1);
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn excluded_sessions_are_never_read_and_come_back_when_they_are_not_excluded() {
    let place = Place::new();
    let script = Script::new(1).you("draw the plan").agent("drawn");
    place.file(&script.path(), &script.lines);
    let elsewhere = Script::new(2).you("draw the plan").agent("drawn");
    let lines = elsewhere.lines.replace("/home/mara/web", "/home/mara/secret");
    place.file(&elsewhere.path(), &lines);
    let listed = |rules: ExcludeRules| {
        let machine = Machine { home: place.home(), ..Machine::default() };
        let config = Config { exclude: rules, ..place.config() };
        let mut journal = Journal::open(config, machine).unwrap();
        journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
        let entries = journal.list_entries(&all(), None).unwrap();
        let mut ids: Vec<String> = entries.iter().map(|it| it.native_id[..8].to_owned()).collect();
        ids.sort();
        ids
    };
    let projects = |names: &[&str]| ExcludeRules {
        projects: names.iter().map(|name| (*name).to_owned()).collect(),
        ..ExcludeRules::default()
    };
    let paths = |patterns: &[&str]| ExcludeRules {
        paths: patterns.iter().map(|name| (*name).to_owned()).collect(),
        ..ExcludeRules::default()
    };
    assert_eq!(listed(projects(&["secret"])), ["00000001"]);
    let unread = journal_of(&place).left_out_sessions().unwrap();
    assert_eq!(unread.len(), 1);
    assert_eq!(unread[0].reason, LeftOutReason::Excluded);
    assert_eq!(unread[0].directory.as_deref(), Some("/home/mara/secret"));
    assert_eq!(listed(projects(&["secret", "other"])), ["00000001"]);
    assert_eq!(listed(paths(&["/home/*/secret"])), ["00000001"]);
    assert_eq!(listed(ExcludeRules::default()), ["00000001", "00000002"]);
    assert!(journal_of(&place).left_out_sessions().unwrap().is_empty());
    // What is there stays until it is forgotten.
    let rules = paths(&["**/00000002*.jsonl"]);
    assert_eq!(listed(rules.clone()), ["00000001", "00000002"]);
    let machine = Machine { home: place.home(), ..Machine::default() };
    let config = Config { exclude: rules.clone(), ..place.config() };
    let mut journal = Journal::open(config, machine).unwrap();
    let plan = journal.plan_forgetting_excluded().unwrap();
    assert_eq!(plan.sessions.len(), 1);
    journal.forget_sessions(&plan, WAIT, &mut |_| {}).unwrap();
    assert_eq!(listed(rules), ["00000001"]);
    assert_eq!(listed(ExcludeRules::default()), ["00000001", "00000002"]);
}

#[test]
fn a_fork_of_a_forgotten_session_counts_its_own_copy() {
    let place = Place::new();
    let script = Script::new(1).you("draw the plan").agent("drawn");
    place.file(&script.path(), &script.lines);
    let mut fork = Script::new(2);
    (fork.lines, fork.count) = (
        script.lines.replace("\"sessionId\":\"00000001", "\"sessionId\":\"00000002"),
        script.count,
    );
    let fork = fork.you("and colour it").agent("coloured");
    place.file(&fork.path(), &fork.lines);
    let mut journal = place.sync();
    let counts = |journal: &Journal| {
        let entry = journal.find_session("00000002").unwrap();
        (entry.shared_messages, entry.counts.messages, entry.tokens.output)
    };
    assert_eq!(counts(&journal), (2, 2, 5));
    let entry = journal.find_session("00000001").unwrap();
    let plan = journal.plan_forgetting(vec![entry]).unwrap();
    assert_eq!(plan.copied_into, ["claude-code:00000002-0000-4000-8000-000000000000"]);
    journal.forget_sessions(&plan, WAIT, &mut |_| {}).unwrap();
    assert_eq!(counts(&journal), (0, 4, 10));
    assert_eq!(found(&place.sync(), "plan").len(), 1);
}
