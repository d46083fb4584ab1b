use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::*;

/// More than is read into memory at once.
const LARGE: usize = 12 << 20;

fn writer(path: &Path, mode: &str) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let writer = Connection::open_with_flags(path, flags).unwrap();
    writer.pragma_update(None, "journal_mode", mode).unwrap();
    writer.pragma_update(None, "synchronous", "off").unwrap();
    writer
}

/// Names, contents and times of everything in a directory.
#[expect(clippy::disallowed_methods, reason = "the files are compared, not read for records")]
fn listing(directory: &Path) -> Vec<(String, Vec<u8>, std::time::SystemTime)> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    let mut all: Vec<_> = entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let modified = entry.metadata().unwrap().modified().unwrap();
            (name, fs::read(entry.path()).unwrap(), modified)
        })
        .collect();
    all.sort();
    all
}

fn numbers(database: &Database, sql: &str) -> Result<Vec<i64>> {
    let mut values = Vec::new();
    database.for_each_row(sql, [], |row| {
        values.extend(row.get::<_, i64>(0));
        Ok(())
    })?;
    Ok(values)
}

fn pad(writer: &Connection, bytes: usize) {
    writer.execute_batch("CREATE TABLE padding(x)").unwrap();
    writer.execute("INSERT INTO padding VALUES (zeroblob(?1))", [bytes as i64]).unwrap();
}

#[test]
fn rows_that_are_only_in_the_log_are_read_and_nothing_is_left_behind() {
    for bytes in [0, LARGE] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a #1?.db");
        let writer = writer(&path, "wal");
        pad(&writer, bytes);
        writer.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (6)").unwrap();
        writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); UPDATE t SET x = 7").unwrap();
        let before = listing(directory.path());
        assert!(before.iter().any(|(name, bytes, _)| name.ends_with("-wal") && !bytes.is_empty()));
        let database = open_database(&path).unwrap();
        assert_eq!(numbers(&database, "SELECT x FROM t").unwrap(), [7]);
        drop(database);
        assert!(listing(directory.path()) == before);
    }
}

#[test]
fn what_is_not_committed_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let writer = writer(&path, "wal");
    writer.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (1)").unwrap();
    // So small a cache writes pages into the log before they are committed.
    writer.execute_batch("PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN").unwrap();
    for _ in 0..200 {
        writer.execute("INSERT INTO t VALUES (zeroblob(2000))", []).unwrap();
    }
    assert_eq!(numbers(&open_database(&path).unwrap(), "SELECT count(*) FROM t").unwrap(), [1]);
    writer.execute_batch("COMMIT").unwrap();
    assert_eq!(numbers(&open_database(&path).unwrap(), "SELECT count(*) FROM t").unwrap(), [201]);
}

#[test]
fn a_snapshot_stays_as_it_was_while_the_log_grows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let writer = writer(&path, "wal");
    pad(&writer, LARGE);
    writer.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (1)").unwrap();
    writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA wal_autocheckpoint = 0").unwrap();
    writer.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    // Only a file that has not been modified for a moment shows that it was not modified since.
    let settle = std::time::SystemTime::now() - Duration::from_secs(10);
    fs::File::options().write(true).open(&path).unwrap().set_modified(settle).unwrap();
    let database = open_database(&path).unwrap();
    writer.execute_batch("INSERT INTO t VALUES (3)").unwrap();
    assert_eq!(numbers(&database, "SELECT x FROM t").unwrap(), [1, 2]);
    // Now pages of which the snapshot knows nothing are copied into the file.
    writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let error = numbers(&database, "SELECT count(*) FROM padding").unwrap_err();
    assert!(matches!(error, Error::Unsettled { .. }), "{error:?}");
}

/// A reader beside a program that writes without pause sees one moment, or has to come again.
fn every_read_is_of_one_moment(mode: &str, bytes: usize) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let writer = writer(&path, mode);
    pad(&writer, bytes);
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
                INSERT INTO t SELECT i, 0, zeroblob(3000) FROM n";
    writer.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, x, rest)").unwrap();
    writer.execute_batch(rows).unwrap();
    writer.execute_batch("PRAGMA wal_autocheckpoint = 40").unwrap();
    let is_over = AtomicBool::new(false);
    let (mut whole, mut unsettled, mut wrong) = (0, 0, Vec::new());
    std::thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                writer.execute_batch("UPDATE t SET x = x + 1").unwrap();
            }
        });
        for _ in 0..60 {
            let read =
                open_database(&path).and_then(|database| numbers(&database, "SELECT x FROM t"));
            match read {
                Ok(values) if values.iter().all(|value| *value == values[0]) => {
                    whole += usize::from(values.len() == 60);
                }
                Err(Error::Unsettled { .. }) => unsettled += 1,
                other => wrong.push(other),
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(wrong.is_empty(), "{mode} {bytes}: {wrong:?}");
    assert_eq!(whole + unsettled, 60, "{mode} {bytes}");
    assert!(whole > 0, "{mode}: {unsettled} times unsettled");
}

#[test]
fn reads_during_writes_to_a_log_are_of_one_moment() {
    every_read_is_of_one_moment("wal", 0);
    every_read_is_of_one_moment("wal", LARGE);
}

#[test]
fn reads_during_writes_with_a_rollback_journal_are_of_one_moment() {
    every_read_is_of_one_moment("delete", 0);
    every_read_is_of_one_moment("truncate", 0);
    every_read_is_of_one_moment("persist", LARGE);
}

#[test]
fn a_transaction_that_is_being_written_makes_a_database_unsettled() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let writer = writer(&path, "delete");
    writer.execute_batch("CREATE TABLE t(x); PRAGMA cache_size = 1; BEGIN").unwrap();
    for _ in 0..200 {
        writer.execute("INSERT INTO t VALUES (zeroblob(2000))", []).unwrap();
    }
    assert!(matches!(open_database(&path), Err(Error::Unsettled { .. })));
    writer.execute_batch("COMMIT").unwrap();
    assert_eq!(numbers(&open_database(&path).unwrap(), "SELECT count(*) FROM t").unwrap(), [200]);
}

#[test]
fn views_and_made_up_tables_are_no_tables() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    writer(&path, "delete")
        .execute_batch(
            "CREATE TABLE t(key, value); CREATE VIEW v AS SELECT * FROM t;
             CREATE VIRTUAL TABLE f USING fts5(a, b)",
        )
        .unwrap();
    let database = open_database(&path).unwrap();
    assert_eq!(database.table_columns("t").unwrap(), ["key", "value"]);
    assert_eq!(database.table_columns("T").unwrap(), ["key", "value"]);
    for name in ["v", "f", "missing"] {
        assert!(database.table_columns(name).unwrap().is_empty(), "{name}");
    }
    assert_eq!(database.columns_of_index("f").unwrap(), ["a", "b"]);
    assert!(database.for_each_row("SELECT * FROM v", [], |_| Ok(())).is_err());
    assert!(database.for_each_row("INSERT INTO t VALUES (1, 2)", [], |_| Ok(())).is_err());
}

#[test]
fn a_query_without_end_is_ended() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    writer(&path, "delete").execute_batch("CREATE TABLE t(x)").unwrap();
    let database = open_with_limit(&path, Duration::from_millis(50)).unwrap();
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                   SELECT max(i) FROM n";
    let error = database.for_each_row(endless, [], |_| Ok(())).unwrap_err();
    assert!(matches!(error, Error::Format { .. }), "{error:?}");
    // Many short ones end as well.
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let error = database.for_each_row(many, [], |_| Ok(())).unwrap_err();
    assert!(matches!(error, Error::Format { .. }), "{error:?}");
}

#[test]
fn a_value_that_is_too_long_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let writer = writer(&path, "delete");
    writer.execute_batch("CREATE TABLE t(x)").unwrap();
    for length in [MAX_VALUE_BYTES, MAX_VALUE_BYTES + 1, MAX_VALUE_BYTES + (1 << 20)] {
        writer.execute("INSERT INTO t VALUES (zeroblob(?1))", [length as i64]).unwrap();
    }
    let database = open_database(&path).unwrap();
    let mut lengths = Vec::new();
    let sql = format!("SELECT {} FROM t ORDER BY rowid", size_bounded_column("x"));
    database
        .for_each_row(&sql, [], |row| {
            lengths.push(row.get_ref(0).ok().and_then(format_bytes).map(<[u8]>::len));
            Ok(())
        })
        .unwrap();
    assert_eq!(lengths, [Some(MAX_VALUE_BYTES), None, None]);
    assert!(database.for_each_row("SELECT x FROM t WHERE rowid = 3", [], |_| Ok(())).is_err());
}

#[cfg(unix)]
#[test]
fn the_log_beside_a_linked_database_is_the_one_beside_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("real.db");
    let writer = writer(&path, "wal");
    writer.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (5)").unwrap();
    let link = directory.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(numbers(&open_database(&link).unwrap(), "SELECT x FROM t").unwrap(), [5]);
}

#[cfg(unix)]
#[test]
fn a_name_that_is_not_utf_8_is_opened_in_place() {
    use std::os::unix::ffi::OsStrExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9 \xff%.db"));
    writer(&path, "delete").execute_batch("CREATE TABLE t(x)").unwrap();
    assert_eq!(open_database(&path).unwrap().table_columns("t").unwrap(), ["x"]);
}

#[test]
fn what_is_no_database_is_an_error_not_an_empty_one() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, b"plain text, and a good deal of it").unwrap();
    assert!(matches!(open_database(file.path()), Err(Error::Database { .. })));
}
