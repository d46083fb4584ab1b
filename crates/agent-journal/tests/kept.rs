//! What the journal keeps when sources break off, come twice or tell nonsense, and when the
//! journal itself is damaged or put back.

use std::fs;

use agent_journal::connectors::Machine;
use agent_journal::{Home, HomeKind, Journal, SyncOptions};
use serde_json::{Value, json};

use crate::support::place::{Place, Script, all, by_words, found, query};

const CHAT: &str = ".gemini/tmp/depot/chats/session-2025-10-02T08-00-5e550001.json";

/// A chat that is rewritten as a whole whenever something is said.
fn chat(answers: usize, tokens: &Value) -> String {
    let message = |at: usize| match at {
        0 => {
            json!({ "id": "m0", "timestamp": "2025-10-02T08:00:00.000Z", "type": "user", "content": "count the boxes" })
        }
        _ => json!({
            "id": format!("m{at}"), "timestamp": format!("2025-10-02T08:00:{at:02}.000Z"),
            "type": "gemini", "content": format!("word{at} box"), "model": "gemini-2.5-pro",
            "tokens": tokens,
        }),
    };
    let messages: Vec<String> = (0..=answers).map(|at| message(at).to_string()).collect();
    format!(
        r#"{{"sessionId":"5e550001-0000-4000-8000-000000000000","projectHash":"depot",
"startTime":"2025-10-02T08:00:00.000Z","lastUpdated":"2025-10-02T08:10:00.000Z","messages":[
{}]}}"#,
        messages.join(",\n")
    )
}

/// The texts of the only session, in their order.
fn texts(journal: &Journal) -> Vec<String> {
    let entry = &journal.list_entries(&all(), None).unwrap()[0];
    let messages = journal.read_messages(entry, 0..u64::MAX).unwrap();
    messages.iter().map(|(_, message)| message.joined_text()).collect()
}

fn matches(journal: &Journal, text: &str) -> Vec<u64> {
    let answer = journal.search(&query(text), &by_words(1000)).unwrap();
    answer.sessions.iter().map(|found| found.matches).collect()
}

#[test]
fn a_document_that_breaks_off_takes_nothing_from_the_journal() {
    let place = Place::new();
    let whole = chat(9, &Value::Null);
    place.file(CHAT, &whole);
    let before = texts(&place.sync());
    assert_eq!(before.len(), 10);
    // As far as it goes it may say something else.
    let other = whole.replace("word2 box", "word2 crate");
    let end = other.find("word5").unwrap();
    place.file(CHAT, &other[..end]);
    let journal = place.sync();
    let after = texts(&journal);
    assert_eq!(after[2], "word2 crate");
    assert_eq!((after.len(), &after[3..]), (10, &before[3..]));
    assert_eq!(found(&journal, "word9").len(), 1);
    assert_eq!(matches(&journal, "box"), [8]);
    // A shorter one that is whole is the chat as it is now.
    place.file(CHAT, chat(3, &Value::Null));
    assert_eq!(texts(&place.sync()).len(), 4);
}

#[test]
fn a_home_that_is_named_twice_is_read_once() {
    let place = Place::new();
    let session = Script::new(1).you("first").agent("word1");
    place.file(&session.path(), &session.lines);
    let machine = || Machine { home: place.home(), ..Machine::default() };
    let mut config = place.config();
    config.homes.push(Home { machine: machine(), kind: HomeKind::Local, host: None });
    let mut journal = Journal::open(config, machine()).unwrap();
    for lines in [session.lines.clone(), session.agent("word2").lines] {
        place.file(&Script::new(1).path(), &lines);
        journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
    }
    assert_eq!(texts(&journal), ["first", "word1", "word2"]);
    assert_eq!(journal.sync(SyncOptions::default(), &mut |_| {}).unwrap().sources, 0);
}

#[test]
fn figures_that_no_call_can_have_do_no_harm() {
    let place = Place::new();
    let absurd = json!({
        "input": u64::MAX, "output": i64::MAX, "cached": u64::MAX / 2, "thoughts": i64::MAX,
    });
    place.file(CHAT, chat(3, &absurd));
    let session = Script::new(1).you("first").agent("word1");
    place.file(&session.path(), &session.lines);
    let journal = place.sync();
    assert_eq!(journal.list_entries(&all(), None).unwrap().len(), 2);
    assert_eq!(journal.stats(&crate::support::shelf::of_all()).unwrap().totals.sessions, 2);
}

#[test]
fn an_index_that_is_ahead_of_its_journal_is_made_anew() {
    let place = Place::new();
    let (one, two) = (Script::new(1).you("first plum"), Script::new(2).you("second plum"));
    place.file(&one.path(), &one.lines);
    drop(place.sync());
    place.database().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let database = place.directory.path().join("journal/journal.db");
    let yesterday = fs::read(&database).unwrap();
    place.file(&two.path(), &two.lines);
    drop(place.sync());
    // Put back from a copy, beside the index of today.
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(place.directory.path().join(format!("journal/journal.db{suffix}")));
    }
    fs::write(&database, yesterday).unwrap();
    let journal = place.sync();
    // The prompt and the title of each.
    assert_eq!(matches(&journal, "plum"), [2, 2]);
    assert_eq!(journal.semantic_coverage().unwrap().vectors, 4);
}

/// A session that the journal cannot read any more.
fn damaged() -> (Place, Script) {
    let place = Place::new();
    let session = Script::new(1).you("first").agent("word1").agent("word2");
    place.file(&session.path(), &session.lines);
    drop(place.sync());
    let damage = "UPDATE chunks SET body = zeroblob(length(body))";
    place.database().execute_batch(damage).unwrap();
    (place, session)
}

#[test]
fn what_the_journal_cannot_read_any_more_is_read_from_its_source() {
    let (place, session) = damaged();
    let session = session.agent("word3");
    place.file(&session.path(), &session.lines);
    let journal = place.sync();
    assert_eq!(texts(&journal), ["first", "word1", "word2", "word3"]);
    for word in ["word1", "word3"] {
        assert_eq!(matches(&journal, word), [1], "{word}");
    }
    assert_eq!(place.counted().0, 3);
}

#[test]
fn a_full_read_mends_what_the_journal_cannot_read_any_more() {
    let (place, _) = damaged();
    let mut journal = place.sync();
    assert!(texts(&journal).is_empty());
    let full = SyncOptions { full: true, ..SyncOptions::default() };
    journal.sync(full, &mut |_| {}).unwrap();
    assert_eq!(texts(&journal), ["first", "word1", "word2"]);
    assert_eq!(matches(&journal, "word1"), [1]);
    assert_eq!(place.counted().0, 2);
}

#[test]
fn a_journal_in_place_of_the_one_that_is_open_is_noticed() {
    let place = Place::new();
    let (one, two) = (Script::new(1).you("first plum"), Script::new(2).you("second plum"));
    place.file(&one.path(), &one.lines);
    let mut journal = place.sync();
    assert_eq!(texts(&journal), ["first plum"]);
    for suffix in ["", "-wal", "-shm"] {
        let name = place.directory.path().join(format!("journal/journal.db{suffix}"));
        let _ = fs::rename(&name, name.with_extension("old"));
    }
    fs::remove_file(place.home().join(one.path())).unwrap();
    place.file(&two.path(), &two.lines);
    let other = place.sync();
    journal.refresh().unwrap();
    assert_eq!(texts(&journal), ["second plum"]);
    // Whoever writes writes there, too.
    let three = Script::new(3).you("third plum");
    place.file(&three.path(), &three.lines);
    journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(other.list_entries(&all(), None).unwrap().len(), 2);
    assert_eq!(matches(&other, "plum"), [2, 2]);
}

#[test]
fn of_a_session_that_got_shorter_nothing_is_said_of_what_is_gone() {
    let place = Place::new();
    // A mark of how far it was read follows the first message only: the answer is still open.
    let session = |answers: usize| {
        let begin = Script::new(1).you("first");
        (0..answers).fold(begin, |session, at| session.agent(&format!("word{at}")))
    };
    place.file(&session(5).path(), session(5).lines);
    drop(place.sync());
    // The file was shorter when it was looked at than when it was read.
    place.database().execute_batch("UPDATE sources SET size = 1").unwrap();
    place.file(&session(5).path(), session(3).lines);
    let journal = place.sync();
    let entry = &journal.list_entries(&all(), None).unwrap()[0];
    assert_eq!(entry.ended_at.unwrap().to_string(), "2026-03-02T09:00:03.000Z");
    assert_eq!(texts(&journal), ["first", "word0", "word1", "word2"]);
    assert_eq!(matches(&journal, "word4"), [0; 0]);
    assert_eq!(place.counted().0, 3);
}

#[test]
fn a_source_that_takes_longer_than_there_is_time_is_read_in_parts() {
    let (place, whole) = (Place::new(), Place::new());
    let mut script = Script::new(1);
    for at in 0..3000 {
        script = script.you(&format!("ask{at} {}", "the boxes in the depot ".repeat(30)));
        script = script.agent(&format!("tell{at} {}", "are counted and labelled ".repeat(30)));
    }
    for one in [&place, &whole] {
        one.file(&script.path(), &script.lines);
    }
    let machine = Machine { home: place.home(), ..Machine::default() };
    let mut journal = Journal::open(place.config(), machine).unwrap();
    let budget = Some(std::time::Duration::from_millis(30));
    let mut pending = Vec::new();
    loop {
        let options = SyncOptions { budget, ..SyncOptions::default() };
        let report = journal.sync(options, &mut |_| {}).unwrap();
        assert!(report.failures.is_empty() && report.unsettled.is_empty(), "{report:?}");
        if report.pending_sources == 0 {
            break;
        }
        pending.push(report.pending_bytes);
    }
    assert!(!pending.is_empty());
    assert!(pending.is_sorted_by(|before, after| before >= after), "{pending:?}");
    let expected = whole.sync();
    assert_eq!(texts(&journal), texts(&expected));
    assert_eq!(found(&journal, "tell2999"), found(&expected, "tell2999"));
    assert_eq!(place.counted(), whole.counted());
}

const STATE: &str = "home/.config/Cursor/User/globalStorage/state.vscdb";

/// The editor's database, with its connection left open.
fn editor(place: &Place) -> rusqlite::Connection {
    let path = place.directory.path().join(STATE);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let editor = rusqlite::Connection::open(path).unwrap();
    editor.pragma_update(None, "journal_mode", "wal").unwrap();
    editor
        .execute_batch(
            "CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)",
        )
        .unwrap();
    editor
}

fn put(editor: &rusqlite::Connection, key: &str, value: &Value) {
    let row = (key, value.to_string());
    editor.execute("INSERT INTO cursorDiskKV VALUES (?1, ?2)", row).unwrap();
}

fn say(editor: &rusqlite::Connection, composer: &str, words: &[&str]) {
    let headers: Vec<Value> = (0..words.len()).map(|at| json!({ "bubbleId": at })).collect();
    for (at, word) in words.iter().enumerate() {
        let bubble = json!({ "bubbleId": at.to_string(), "type": 1 + at % 2, "text": word });
        put(editor, &format!("bubbleId:{composer}:{at}"), &bubble);
    }
    let headers: Vec<Value> =
        headers.iter().map(|one| json!({ "bubbleId": one["bubbleId"].to_string() })).collect();
    let body = json!({ "name": composer, "fullConversationHeadersOnly": headers });
    put(editor, &format!("composerData:{composer}"), &body);
}

#[test]
fn what_changes_in_a_live_database_is_read_and_the_rest_is_kept() {
    let place = Place::new();
    let editor = editor(&place);
    say(&editor, "first", &["apple", "answer"]);
    say(&editor, "second", &["banana", "answer"]);
    let journal = place.sync();
    assert_eq!((found(&journal, "apple").len(), found(&journal, "banana").len()), (1, 1));
    say(&editor, "second", &["banana", "answer", "cherry"]);
    let journal = place.sync();
    assert_eq!((found(&journal, "apple").len(), found(&journal, "cherry").len()), (1, 1));
    // A bubble that is overwritten in its row, by another of the same length.
    let sql = "UPDATE cursorDiskKV SET value = replace(value, 'apple', 'grape') WHERE key LIKE '%'";
    editor.execute_batch(sql).unwrap();
    let journal = place.sync();
    assert_eq!((found(&journal, "apple").len(), found(&journal, "grape").len()), (0, 1));
    let gone = "SELECT count(*) FROM recordings WHERE gone";
    let count = |sql: &str| place.database().query_row(sql, [], |row| row.get::<_, i64>(0));
    assert_eq!(count(gone), Ok(0));
    // What was counted stays counted when a conversation is passed over.
    assert_eq!(count("SELECT records FROM sources"), Ok(5));
    editor.execute_batch("DELETE FROM cursorDiskKV WHERE key LIKE '%first%'").unwrap();
    let journal = place.sync();
    assert_eq!((found(&journal, "grape").len(), count(gone)), (1, Ok(1)));
}

#[test]
fn a_view_in_place_of_a_table_is_not_run_and_a_value_without_measure_is_counted() {
    let place = Place::new();
    let editor = editor(&place);
    editor
        .execute_batch(
            "DROP TABLE cursorDiskKV; CREATE TABLE composerHeaders (value);
             INSERT INTO composerHeaders VALUES (zeroblob(70000000));
             CREATE VIEW cursorDiskKV AS WITH RECURSIVE n(i) AS
             (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS key, i AS value FROM n",
        )
        .unwrap();
    place.sync();
    let skipped = place.database().query_row("SELECT skipped, error FROM sources", [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
    });
    assert_eq!(skipped.unwrap(), (r#"{"a value is too long":1}"#.to_owned(), None));
}

#[test]
fn a_database_in_the_middle_of_a_change_is_read_later() {
    let place = Place::new();
    let editor = editor(&place);
    say(&editor, "first", &["apple", "answer"]);
    editor.pragma_update(None, "journal_mode", "delete").unwrap();
    let mut journal = place.sync();
    assert_eq!(found(&journal, "apple").len(), 1);
    say(&editor, "second", &["banana", "answer"]);
    editor.execute_batch("PRAGMA cache_size = 1; BEGIN").unwrap();
    for at in 0..100 {
        put(&editor, &format!("checkpointId:{at}"), &json!("x".repeat(3000)));
    }
    let report = journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((report.pending_sources, report.unsettled.len()), (1, 1), "{report:?}");
    assert!(report.failures.is_empty(), "{report:?}");
    assert_eq!(found(&journal, "apple").len(), 1);
    editor.execute_batch("COMMIT").unwrap();
    let report = journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
    assert_eq!((report.pending_sources, report.sources), (0, 1), "{report:?}");
    assert_eq!(found(&journal, "banana").len(), 1);
}
