//! The connection to the journal's database. Every error that leaves this file names the journal,
//! so that the other files of the store use `?`.

use std::path::{Path, PathBuf};

use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{CachedStatement, Connection, MappedRows, Params, Row, Rows};

use crate::error::{Error, Result};

/// Number of prepared statements that are kept. A sync uses about forty.
const CACHED_STATEMENTS: usize = 64;

/// An open database of a journal.
pub(super) struct Database {
    connection: Connection,
    path: PathBuf,
}

impl Database {
    pub(super) fn new(connection: Connection, path: &Path) -> Self {
        connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        Self { connection, path: path.to_owned() }
    }

    /// Returns the connection, for operations whose errors are handled by the caller.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Prepares a statement that is kept for the next time.
    pub(super) fn prepare_cached(&self, sql: &str) -> Result<Statement<'_>> {
        let statement =
            self.connection.prepare_cached(sql).map_err(Error::store_error(&self.path))?;
        Ok(Statement { statement: Preparation::Cached(statement), path: &self.path })
    }

    /// Prepares a statement with an SQL text that hardly occurs again.
    pub(super) fn prepare(&self, sql: &str) -> Result<Statement<'_>> {
        let statement = self.connection.prepare(sql).map_err(Error::store_error(&self.path))?;
        Ok(Statement { statement: Preparation::Once(statement), path: &self.path })
    }

    /// Executes one statement. Returns the number of changed rows.
    pub(super) fn execute(&self, sql: &str, values: impl Params) -> Result<usize> {
        self.prepare_cached(sql)?.execute(values)
    }

    /// Executes several statements.
    pub(super) fn execute_batch(&self, sql: &str) -> Result<()> {
        self.connection.execute_batch(sql).map_err(Error::store_error(&self.path))
    }

    /// Reads the only row of a query.
    pub(super) fn query_row<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.prepare_cached(sql)?.query_row(values, read)
    }

    /// Reads all rows of a query.
    pub(super) fn rows<C, T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<C>
    where
        C: FromIterator<T>,
    {
        self.prepare_cached(sql)?.query_map(values, read)?.collect()
    }

    /// Reads the only value of a query with one row and one column.
    pub(super) fn value<T: FromSql>(&self, sql: &str, values: impl Params) -> Result<T> {
        self.prepare_cached(sql)?.query_row(values, |row| row.get(0))
    }

    /// Reads the first value of a query with one column; returns `None` if there is no row.
    pub(super) fn optional_value<T: FromSql>(
        &self,
        sql: &str,
        values: impl Params,
    ) -> Result<Option<T>> {
        self.value(sql, values).optional()
    }

    /// Reads all values of a query with one column.
    pub(super) fn values<C, T>(&self, sql: &str, values: impl Params) -> Result<C>
    where
        C: FromIterator<T>,
        T: FromSql,
    {
        self.prepare_cached(sql)?.values(values)?.collect()
    }
}

/// Accepts that a query found no row.
pub(super) trait OptionalRow<T> {
    /// Returns `None` instead of an error if there is no row.
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalRow<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Err(Error::Store { source: rusqlite::Error::QueryReturnedNoRows, .. }) => Ok(None),
            row => row.map(Some),
        }
    }
}

/// A prepared statement.
pub(super) struct Statement<'d> {
    statement: Preparation<'d>,
    path: &'d Path,
}

enum Preparation<'d> {
    Cached(CachedStatement<'d>),
    Once(rusqlite::Statement<'d>),
}

impl<'d> Statement<'d> {
    fn statement(&mut self) -> &mut rusqlite::Statement<'d> {
        match &mut self.statement {
            Preparation::Cached(statement) => statement,
            Preparation::Once(statement) => statement,
        }
    }

    pub(super) fn execute(&mut self, values: impl Params) -> Result<usize> {
        let path = self.path;
        self.statement().execute(values).map_err(Error::store_error(path))
    }

    /// Returns whether there is a row.
    pub(super) fn exists(&mut self, values: impl Params) -> Result<bool> {
        let path = self.path;
        self.statement().exists(values).map_err(Error::store_error(path))
    }

    pub(super) fn query_row<T>(
        &mut self,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let path = self.path;
        self.statement().query_row(values, read).map_err(Error::store_error(path))
    }

    /// Returns the rows, each converted by a function.
    pub(super) fn query_map<T, F>(
        &mut self,
        values: impl Params,
        read: F,
    ) -> Result<ConvertedRows<'_, F>>
    where
        F: FnMut(&Row<'_>) -> rusqlite::Result<T>,
    {
        let path = self.path;
        let rows = self.statement().query_map(values, read).map_err(Error::store_error(path))?;
        Ok(ConvertedRows { rows, path })
    }

    /// Returns the values of a query with one column.
    pub(super) fn values<T: FromSql>(
        &mut self,
        values: impl Params,
    ) -> Result<ConvertedRows<'_, ReadRow<T>>> {
        let read: ReadRow<T> = |row| row.get(0);
        self.query_map(values, read)
    }

    /// Returns the rows, for reading them one after the other.
    pub(super) fn query(&mut self, values: impl Params) -> Result<BorrowedRows<'_>> {
        let path = self.path;
        let rows = self.statement().query(values).map_err(Error::store_error(path))?;
        Ok(BorrowedRows { rows, path })
    }
}

/// A function that reads a value from a row.
pub(super) type ReadRow<T> = fn(&Row<'_>) -> rusqlite::Result<T>;

/// The rows of a query, converted by a function.
pub(super) struct ConvertedRows<'q, F> {
    rows: MappedRows<'q, F>,
    path: &'q Path,
}

impl<T, F: FnMut(&Row<'_>) -> rusqlite::Result<T>> Iterator for ConvertedRows<'_, F> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.rows.next()?.map_err(Error::store_error(self.path)))
    }
}

/// The rows of a query, of which one at a time is in memory.
pub(super) struct BorrowedRows<'q> {
    rows: Rows<'q>,
    path: &'q Path,
}

impl<'q> BorrowedRows<'q> {
    pub(super) fn next(&mut self) -> Result<Option<BorrowedRow<'_, 'q>>> {
        let row = self.rows.next().map_err(Error::store_error(self.path))?;
        Ok(row.map(|row| BorrowedRow { row, path: self.path }))
    }
}

/// A row in the memory of SQLite.
pub(super) struct BorrowedRow<'r, 'q> {
    row: &'r Row<'q>,
    path: &'r Path,
}

impl<'r, 'q> BorrowedRow<'r, 'q> {
    pub(super) fn get<T: FromSql>(&self, name: &str) -> Result<T> {
        self.row.get(name).map_err(Error::store_error(self.path))
    }

    /// Returns a column with a text, without copying it.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'r str>> {
        let value: ValueRef<'r> = self.row.get_ref(name).map_err(Error::store_error(self.path))?;
        value.as_str_or_null().map_err(|error| Error::store_error(self.path)(error.into()))
    }

    /// Returns a column with bytes, without copying them.
    pub(super) fn blob(&self, name: &str) -> Result<&'r [u8]> {
        let value: ValueRef<'r> = self.row.get_ref(name).map_err(Error::store_error(self.path))?;
        value.as_blob().map_err(|error| Error::store_error(self.path)(error.into()))
    }

    /// Converts the row with a function.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&'r Row<'q>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        read(self.row).map_err(Error::store_error(self.path))
    }
}

/// Declares a struct with the place of each named column in a query, for queries with so many rows
/// that finding columns by name would take longer than reading them.
macro_rules! columns {
    ($(#[$meta:meta])* $name:ident { $($column:ident),+ $(,)? }) => {
        $(#[$meta])*
        pub(super) struct $name { $(pub(super) $column: usize),+ }

        impl $name {
            /// Finds the columns in the query of a row, once.
            pub(super) fn of<'c>(
                known: &'c mut Option<Self>,
                row: &rusqlite::Row<'_>,
            ) -> rusqlite::Result<&'c Self> {
                match known {
                    Some(known) => Ok(known),
                    None => {
                        let query: &rusqlite::Statement<'_> = row.as_ref();
                        Ok(known.insert(Self { $($column: query.column_index(stringify!($column))?),+ }))
                    }
                }
            }
        }
    };
}

pub(super) use columns;
