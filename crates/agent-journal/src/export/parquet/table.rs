//! One table: rows gathered by column, written a group of rows at a time.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::model::Timestamp;

/// Rows are written when they have grown to this many bytes…
const GROUP_BYTES: usize = 8 << 20;

/// …or to this many.
const GROUP_ROWS: usize = 1 << 16;

/// A file of a table on its way.
pub(super) type Out = Box<dyn Write + Send>;

/// A column: its name and what is in it.
pub(super) type Column = (&'static str, Kind);

/// What is in a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Flag,
    Time,
}

/// One value.
pub(super) enum Cell<'c> {
    Null,
    Text(&'c str),
    Number(i64),
    Flag(bool),
}

impl<'c> From<&'c str> for Cell<'c> {
    fn from(text: &'c str) -> Self {
        Self::Text(text)
    }
}

impl<'c> From<&'c String> for Cell<'c> {
    fn from(text: &'c String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number as i64)
    }
}

impl From<bool> for Cell<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<Timestamp> for Cell<'_> {
    fn from(at: Timestamp) -> Self {
        Self::Number(at.as_millis())
    }
}

impl<'c, T: Into<Cell<'c>>> From<Option<T>> for Cell<'c> {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Self::Null, Into::into)
    }
}

/// Values of a column that wait to be written, and whether each row has one.
struct Waiting {
    values: Values,
    present: Vec<i16>,
}

enum Values {
    Texts(Vec<ByteArray>),
    Numbers(Vec<i64>),
    Flags(Vec<bool>),
}

/// A table on its way into files.
pub(super) struct Table {
    pub(super) name: &'static str,
    columns: &'static [Column],
    waiting: Vec<Waiting>,
    rows: usize,
    bytes: usize,
    file: Option<SerializedFileWriter<Out>>,
}

impl Table {
    pub(super) fn new(name: &'static str, columns: &'static [Column]) -> Self {
        let mut table = Self { name, columns, waiting: Vec::new(), rows: 0, bytes: 0, file: None };
        table.forget();
        table
    }

    fn forget(&mut self) {
        let values = |kind: &Kind| match kind {
            Kind::Text => Values::Texts(Vec::new()),
            Kind::Number | Kind::Time => Values::Numbers(Vec::new()),
            Kind::Flag => Values::Flags(Vec::new()),
        };
        let column = |(_, kind): &Column| Waiting { values: values(kind), present: Vec::new() };
        self.waiting = self.columns.iter().map(column).collect();
        (self.rows, self.bytes) = (0, 0);
    }

    /// Adds a row; whether there are enough of them to be written.
    pub(super) fn add(&mut self, row: &[Cell<'_>]) -> bool {
        debug_assert_eq!(row.len(), self.columns.len(), "{}", self.name);
        for (waiting, cell) in self.waiting.iter_mut().zip(row) {
            let is_put = match (&mut waiting.values, cell) {
                (Values::Texts(texts), Cell::Text(text)) => {
                    self.bytes += text.len();
                    texts.push(ByteArray::from(*text));
                    true
                }
                (Values::Numbers(numbers), Cell::Number(number)) => {
                    numbers.push(*number);
                    true
                }
                (Values::Flags(flags), Cell::Flag(flag)) => {
                    flags.push(*flag);
                    true
                }
                _ => false,
            };
            waiting.present.push(i16::from(is_put));
        }
        self.rows += 1;
        self.bytes += 8 * row.len();
        self.bytes > GROUP_BYTES || self.rows >= GROUP_ROWS
    }

    /// Whether a file has been begun.
    pub(super) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Whether rows wait.
    pub(super) fn is_waiting(&self) -> bool {
        self.rows > 0
    }

    /// Begins a file.
    pub(super) fn begin(&mut self, out: Out) -> io::Result<()> {
        let schema = Arc::new(parse_message_type(&self.schema()).map_err(failed)?);
        let level = ZstdLevel::try_new(1).map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by(format!("agent-journal {}", env!("CARGO_PKG_VERSION")))
            .build();
        let file = SerializedFileWriter::new(out, schema, Arc::new(properties));
        self.file = Some(file.map_err(failed)?);
        Ok(())
    }

    /// Writes what waits as one group of rows.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_mut().filter(|_| self.rows > 0) else { return Ok(()) };
        write_group(file, &self.waiting).map_err(failed)?;
        self.forget();
        Ok(())
    }

    /// Ends the file.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.flush()?;
        match self.file.take() {
            Some(file) => file.close().map(drop).map_err(failed),
            None => Ok(()),
        }
    }

    /// The columns as Parquet names them. Every value may be missing.
    fn schema(&self) -> String {
        let column = |(name, kind): &Column| match kind {
            Kind::Text => format!("OPTIONAL BYTE_ARRAY {name} (STRING);"),
            Kind::Number => format!("OPTIONAL INT64 {name};"),
            Kind::Flag => format!("OPTIONAL BOOLEAN {name};"),
            Kind::Time => format!("OPTIONAL INT64 {name} (TIMESTAMP(MILLIS,true));"),
        };
        let columns: String = self.columns.iter().map(column).collect();
        format!("message {} {{ {columns} }}", self.name)
    }
}

fn write_group(
    file: &mut SerializedFileWriter<Out>,
    waiting: &[Waiting],
) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    for Waiting { values, present } in waiting {
        let Some(mut column) = group.next_column()? else { break };
        let present = Some(present.as_slice());
        match values {
            Values::Texts(texts) => {
                column.typed::<ByteArrayType>().write_batch(texts, present, None)?;
            }
            Values::Numbers(numbers) => {
                column.typed::<Int64Type>().write_batch(numbers, present, None)?;
            }
            Values::Flags(flags) => {
                column.typed::<BoolType>().write_batch(flags, present, None)?;
            }
        }
        column.close()?;
    }
    group.close()?;
    Ok(())
}

fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => io::Error::other(cause),
        other => io::Error::other(other),
    }
}
