//! A journal that an older version of the program wrote.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "tests make their own files")]

mod support;

use std::fs;

use agent_journal::SyncOptions;
use agent_journal::connectors::Machine;
use agent_journal::{Config, Journal};
use rusqlite::Connection;
use support::place::{Place, Script, all, found};

/// The tables of format 2.
const FORMAT_2: [&str; 2] =
    [include_str!("../src/store/schema.sql"), include_str!("../src/store/schema_2.sql")];

/// Rewrites the journal of a place as a program of format 2 would have written it.
fn downgrade(place: &Place) {
    let path = place.directory.path().join("journal/journal.db");
    let newer = path.with_extension("newer");
    let forget = "DELETE FROM chunks WHERE telling IN (SELECT key FROM tellings WHERE combined);
        DELETE FROM usage WHERE telling IN (SELECT key FROM tellings WHERE combined);
        DELETE FROM tellings WHERE combined;
        UPDATE sessions SET telling = (SELECT key FROM tellings
            WHERE tellings.session = sessions.key ORDER BY messages DESC LIMIT 1);
        PRAGMA wal_checkpoint(TRUNCATE)";
    place.database().execute_batch(forget).unwrap();
    fs::rename(&path, &newer).unwrap();
    let old = Connection::open(&path).unwrap();
    old.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    for step in FORMAT_2 {
        old.execute_batch(step).unwrap();
    }
    old.execute("ATTACH ?1 AS newer", [newer.to_str().unwrap()]).unwrap();
    let texts = |sql: &str, value: &str| -> Vec<String> {
        let mut statement = old.prepare(sql).unwrap();
        let rows = statement.query_map([value], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    for table in texts("SELECT name FROM main.sqlite_schema WHERE type = ?1", "table") {
        let columns = texts("SELECT name FROM pragma_table_info(?1, 'main')", &table).join(", ");
        let copy =
            format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newer.{table}");
        old.execute_batch(&copy).unwrap();
    }
    old.execute_batch("DETACH newer; PRAGMA user_version = 2").unwrap();
    fs::remove_file(newer).unwrap();
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
    let before = serde_json::to_value(place.sync().sessions(&all(), None).unwrap()).unwrap();
    let counted = place.counted();
    downgrade(&place);
    // The older program knew less of these messages.
    let damage = "UPDATE chunks SET facts = x''; UPDATE sessions SET prompts = 0, title = 'old'";
    place.database().execute_batch(damage).unwrap();

    let (journal, sources) = read_again(&place, place.config());
    assert_eq!(sources, 1, "the file that is still there");
    let after = serde_json::to_value(journal.sessions(&all(), None).unwrap()).unwrap();
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
    let before = serde_json::to_value(place.sync().sessions(&all(), None).unwrap()).unwrap();
    downgrade(&place);
    let (journal, _) = read_again(&place, place.config());
    let after = serde_json::to_value(journal.sessions(&all(), None).unwrap()).unwrap();
    assert_eq!(after, before);
    assert_eq!(after[0]["counts"]["messages"], 5);
    for word in ["apple", "cherry", "elder"] {
        assert_eq!(found(&journal, word).len(), 1, "{word}");
    }
}
