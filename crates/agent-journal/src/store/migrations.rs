//! Creates the tables of a journal, and converts journals of earlier formats.

use std::path::Path;

use rusqlite::Connection;

use crate::error::{Error, Result};

/// The format of new journals. Each earlier format has its conversion in `MIGRATIONS`.
pub(super) const FORMAT: i64 = 6;

/// The tables of the newest format.
const SCHEMA: &str = include_str!("schema.sql");

/// SQL that converts a journal of each format to the next: the first from format 1 to format 2.
const MIGRATIONS: [&str; FORMAT as usize - 1] = [
    include_str!("migrations/format_2.sql"),
    include_str!("migrations/format_3.sql"),
    include_str!("migrations/format_4.sql"),
    include_str!("migrations/format_5.sql"),
    include_str!("migrations/format_6_archive.sql"),
];

/// Returns the format of a journal; 0 if it has no tables yet.
pub(super) fn format(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Creates the tables of a new journal, or converts an earlier format to the newest.
pub(super) fn migrate(connection: &Connection, path: &Path) -> Result<()> {
    let found = format(connection).map_err(Error::store_error(path))?;
    if found > FORMAT {
        return Err(Error::Newer { path: path.to_owned(), found, known: FORMAT });
    }
    if found == FORMAT {
        return Ok(());
    }
    let steps = match found {
        0 => format!(
            "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; BEGIN IMMEDIATE; {SCHEMA}
             INSERT INTO meta VALUES ('generation', 0), ('identity', abs(random() / 2));"
        ),
        _ => format!("BEGIN IMMEDIATE; {}", MIGRATIONS[found as usize - 1..].concat()),
    };
    let sql = format!("{steps} PRAGMA user_version = {FORMAT}; COMMIT;");
    connection.execute_batch(&sql).map_err(Error::store_error(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    /// The tables of the first format.
    const FORMAT_1: &str = include_str!("migrations/format_1.sql");

    /// Creates an empty journal of an earlier format.
    #[expect(clippy::disallowed_methods, reason = "a journal as an older program made it")]
    fn old_journal(path: &Path, format: i64) -> Connection {
        let old = Connection::open(path).unwrap();
        old.execute_batch("PRAGMA journal_mode = WAL").unwrap();
        old.execute_batch(FORMAT_1).unwrap();
        old.execute_batch(&MIGRATIONS[..format as usize - 1].concat()).unwrap();
        let meta = format!(
            "INSERT INTO meta VALUES ('generation', 3), ('identity', 4);
             PRAGMA user_version = {format}"
        );
        old.execute_batch(&meta).unwrap();
        old
    }

    /// Describes all tables with their columns, and all indexes, without the spelling of their SQL.
    fn description(store: &Store) -> Vec<String> {
        let parts = [
            "SELECT concat_ws(' ', 'table', name, wr, strict) FROM pragma_table_list
             WHERE schema = 'main' AND name NOT LIKE 'sqlite_%'",
            "SELECT concat_ws(' ', 'column', tables.name, cid, columns.name, columns.type,
                 \"notnull\", 'default', dflt_value, pk)
             FROM pragma_table_list tables, pragma_table_xinfo(tables.name) columns
             WHERE tables.schema = 'main' AND tables.name NOT LIKE 'sqlite_%'",
            "SELECT concat_ws(' ', 'reference', tables.name, keys.\"table\", keys.\"from\", keys.\"to\")
             FROM pragma_table_list tables, pragma_foreign_key_list(tables.name) keys
             WHERE tables.schema = 'main'",
            "SELECT concat_ws(' ', 'index', tables.name, indexes.name, \"unique\", origin, partial,
                 columns.seqno, columns.name, columns.\"desc\", coll)
             FROM pragma_table_list tables, pragma_index_list(tables.name) indexes,
                 pragma_index_xinfo(indexes.name) columns
             WHERE tables.schema = 'main' AND tables.name NOT LIKE 'sqlite_%'",
            "SELECT concat_ws(' ', 'condition', name, substr(sql, instr(sql, ' WHERE ')))
             FROM sqlite_schema WHERE type = 'index' AND sql LIKE '% WHERE %'",
            "SELECT concat_ws(' ', 'meta', name) FROM meta",
        ];
        let mut lines = Vec::new();
        for sql in parts {
            let mut statement = store.database.connection().prepare(sql).unwrap();
            let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
            let before = lines.len();
            lines.extend(rows.map(Result::unwrap));
            assert!(lines.len() > before, "{sql}");
        }
        lines.sort();
        lines
    }

    #[test]
    fn a_migrated_journal_has_the_tables_of_a_new_one() {
        let directory = tempfile::tempdir().unwrap();
        let new = Store::create(&directory.path().join("new.db")).unwrap();
        let expected = description(&new);
        for format in 1..FORMAT {
            let path = directory.path().join(format!("{format}.db"));
            drop(old_journal(&path, format));
            assert!(Store::open(&path).unwrap().is_none(), "a reader waits for a writer");
            let migrated = Store::create(&path).unwrap();
            assert_eq!(description(&migrated), expected, "format {format}");
            assert_eq!(migrated.generation().unwrap(), 3);
            assert_eq!(migrated.identity().unwrap(), 4);
            assert!(Store::open(&path).unwrap().is_some());
        }
    }

    #[test]
    fn a_journal_of_the_first_format_keeps_its_calls() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.db");
        let old = old_journal(&path, 1);
        old.execute_batch(
            "INSERT INTO usage (identity, session, telling, position, at, model, input, output,
             cache_read, cache_creation, cache_creation_1h, repeats, counted, owner) VALUES
             (x'02', 7, 70, 1, 20, 'one', 1, 2, 3, 4, 0, 0, 1, 7),
             (x'01', 7, 70, 0, 10, NULL, 5, 6, 7, 8, 0, 2, 1, 7),
             (x'01', 8, 80, 0, 10, 'two', 5, 6, 7, 8, 0, 0, 0, 7);",
        )
        .unwrap();
        drop(old);
        let store = Store::create(&path).unwrap();
        let sql = "SELECT concat_ws(' ', hex(identity), recording, models.name, repeats, counted)
                   FROM usage LEFT JOIN models ON models.id = model ORDER BY recording, position";
        let mut statement = store.database.connection().prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let calls: Vec<String> = rows.map(Result::unwrap).collect();
        assert_eq!(calls, ["01 70 2 1", "02 70 one 0 1", "01 80 two 0 0"]);
    }
}
