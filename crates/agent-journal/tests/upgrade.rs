//! A journal that an older version of the program wrote.

use std::fs;

use agent_journal::SyncOptions;
use agent_journal::connectors::Machine;
use agent_journal::{Config, Journal};
use rusqlite::Connection;

use crate::support::place::{Place, Script, all, found};

/// The tables of the first format, and the changes by each later one.
const FORMATS: [&str; 4] = [
    include_str!("../src/store/migrations/format_1.sql"),
    include_str!("../src/store/migrations/format_2.sql"),
    include_str!("../src/store/migrations/format_3.sql"),
    include_str!("../src/store/migrations/format_4.sql"),
];

/// Rewrites the journal of a place as a program of an earlier format would have written it.
fn downgrade(place: &Place, format: usize) {
    let path = place.directory.path().join("journal/journal.db");
    let newer = path.with_extension("newer");
    if format < 3 {
        forget_combined(place);
    }
    place.database().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    fs::rename(&path, &newer).unwrap();
    let old = Connection::open(&path).unwrap();
    old.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    for step in &FORMATS[..format] {
        old.execute_batch(step).unwrap();
    }
    old.execute("ATTACH ?1 AS newer", [newer.to_str().unwrap()]).unwrap();
    let texts = |sql: &str, value: &str| -> Vec<String> {
        let mut statement = old.prepare(sql).unwrap();
        let rows = statement.query_map([value], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    for table in texts("SELECT name FROM main.sqlite_schema WHERE type = ?1", "table") {
        let columns = texts("SELECT name FROM pragma_table_info(?1, 'main')", &table);
        let values: Vec<&str> = columns.iter().map(|name| newer_name(format, name)).collect();
        let from = if table == "tellings" { "recordings" } else { &table };
        let (columns, values) = (columns.join(", "), values.join(", "));
        let copy = format!(
            "INSERT OR REPLACE INTO main.{table} ({columns}) SELECT {values} FROM newer.{from}"
        );
        old.execute_batch(&copy).unwrap();
    }
    old.execute_batch(&format!("DETACH newer; PRAGMA user_version = {format}")).unwrap();
    fs::remove_file(newer).unwrap();
}

/// Removes combined recordings, which formats before the third did not have.
fn forget_combined(place: &Place) {
    let forget =
        "DELETE FROM chunks WHERE recording IN (SELECT key FROM recordings WHERE combined);
        DELETE FROM usage WHERE recording IN (SELECT key FROM recordings WHERE combined);
        DELETE FROM recordings WHERE combined;
        UPDATE sessions SET recording = (SELECT key FROM recordings
            WHERE recordings.session = sessions.key ORDER BY messages DESC LIMIT 1)";
    place.database().execute_batch(forget).unwrap();
}

/// Returns the name in the newest format of a column of an earlier format.
fn newer_name(format: usize, column: &str) -> &str {
    match column {
        "telling" => "recording",
        "account" => "metadata",
        "model" if format == 1 => "(SELECT name FROM newer.models WHERE id = model)",
        other => other,
    }
}

/// Opens the journal, and counts the sources that a sync reads.
fn read_again(place: &Place, config: Config) -> (Journal, u64) {
    let machine = Machine { home: place.home(), ..Machine::default() };
    let mut journal = Journal::open(config, machine).unwrap();
    let report = journal.sync(SyncOptions::default(), &mut |_| {}).unwrap();
    (journal, report.sources)
}

#[test]
fn a_journal_of_format_2_is_read_again_once_and_loses_nothing() {
    let place = Place::new();
    let kept = Script::new(1).you("apple").agent("banana").you("cherry").agent("date");
    let gone = Script::new(2).you("elder").agent("fig");
    for script in [&kept, &gone] {
        place.file(&script.path(), &script.lines);
    }
    place.sync();
    fs::remove_file(place.home().join(gone.path())).unwrap();
    let before = serde_json::to_value(place.sync().list_entries(&all(), None).unwrap()).unwrap();
    let counted = place.counted();
    downgrade(&place, 2);
    // The older program knew less of these messages.
    let damage = "UPDATE chunks SET facts = x''; UPDATE sessions SET prompts = 0, title = 'old'";
    place.database().execute_batch(damage).unwrap();

    let (journal, sources) = read_again(&place, place.config());
    assert_eq!(sources, 1, "the file that is still there");
    let after = serde_json::to_value(journal.list_entries(&all(), None).unwrap()).unwrap();
    assert_eq!(after, before);
    assert_eq!(place.counted(), counted);
    for word in ["apple", "date", "elder", "fig"] {
        assert_eq!(found(&journal, word).len(), 1, "{word}");
    }
    drop(journal);
    assert_eq!(read_again(&place, place.config()).1, 0, "once is enough");
}

#[test]
fn recordings_that_format_2_kept_apart_complete_each_other_after_the_upgrade() {
    let place = Place::new();
    let common = Script::new(1).you("apple").agent("banana");
    let (count, lines) = (common.count, common.lines.clone());
    let here = common.you("cherry").agent("date");
    let mut there = Script::new(1);
    (there.count, there.lines) = (count + 10, lines);
    let there = there.you("elder");
    place.file(&here.path(), &here.lines);
    place.file(&there.path().replace(".claude/", ".config/claude/"), &there.lines);
    let before = serde_json::to_value(place.sync().list_entries(&all(), None).unwrap()).unwrap();
    downgrade(&place, 2);
    let (journal, _) = read_again(&place, place.config());
    let after = serde_json::to_value(journal.list_entries(&all(), None).unwrap()).unwrap();
    assert_eq!(after, before);
    assert_eq!(after[0]["counts"]["messages"], 5);
    for word in ["apple", "cherry", "elder"] {
        assert_eq!(found(&journal, word).len(), 1, "{word}");
    }
}

#[test]
fn a_journal_of_each_earlier_format_keeps_its_sessions_calls_and_messages() {
    for format in 1..=FORMATS.len() {
        let place = Place::new();
        let common = Script::new(1).you("apple").agent("banana");
        let (count, lines) = (common.count, common.lines.clone());
        let here = common.you("cherry").agent("date");
        let mut there = Script::new(1);
        (there.count, there.lines) = (count + 10, lines);
        let there = there.you("elder");
        let gone = Script::new(2).you("fig").agent("grape");
        for script in [&here, &gone] {
            place.file(&script.path(), &script.lines);
        }
        place.file(&there.path().replace(".claude/", ".config/claude/"), &there.lines);
        place.sync();
        fs::remove_file(place.home().join(gone.path())).unwrap();
        let before =
            serde_json::to_value(place.sync().list_entries(&all(), None).unwrap()).unwrap();
        assert_eq!(before.as_array().unwrap().len(), 2);
        let counted = place.counted();
        downgrade(&place, format);

        let (journal, sources) = read_again(&place, place.config());
        // The first formats did not record which version of the program read a source.
        assert_eq!(sources, if format < 3 { 2 } else { 0 }, "format {format}");
        let after = serde_json::to_value(journal.list_entries(&all(), None).unwrap()).unwrap();
        assert_eq!(after, before, "format {format}");
        assert_eq!(place.counted(), counted, "format {format}");
        for word in ["apple", "cherry", "elder", "grape"] {
            assert_eq!(found(&journal, word).len(), 1, "{word} in format {format}");
        }
    }
}
