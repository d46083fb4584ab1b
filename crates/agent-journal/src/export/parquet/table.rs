//! One Parquet table: rows are buffered by column, and written as row groups.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::model::Timestamp;

/// The size in bytes at which buffered rows are written.
const GROUP_BYTES: usize = 8 << 20;

/// The number of buffered rows at which they are written.
const GROUP_ROWS: usize = 1 << 16;

/// The output of one file of a table.
pub(super) type TableFile = Box<dyn Write + Send>;

/// The name and the type of a column.
pub(super) type ColumnSpec = (&'static str, ColumnKind);

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Text,
    Number,
    Flag,
    Time,
}

/// One value.
pub(super) enum CellValue<'c> {
    Null,
    Text(&'c str),
    Number(i64),
    Flag(bool),
}

impl<'c> From<&'c str> for CellValue<'c> {
    fn from(text: &'c str) -> Self {
        Self::Text(text)
    }
}

impl<'c> From<&'c String> for CellValue<'c> {
    fn from(text: &'c String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for CellValue<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number as i64)
    }
}

impl From<bool> for CellValue<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<Timestamp> for CellValue<'_> {
    fn from(at: Timestamp) -> Self {
        Self::Number(at.as_millis())
    }
}

impl<'c, T: Into<CellValue<'c>>> From<Option<T>> for CellValue<'c> {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Self::Null, Into::into)
    }
}

/// The buffered values of a column. `present` is 1 for each row that has a value, and 0 for the
/// others.
struct BufferedColumn {
    values: ColumnValues,
    present: Vec<i16>,
}

enum ColumnValues {
    Texts(Vec<ByteArray>),
    Numbers(Vec<i64>),
    Flags(Vec<bool>),
}

/// A table that is being written to files.
pub(super) struct TableWriter {
    pub(super) name: &'static str,
    columns: &'static [ColumnSpec],
    waiting: Vec<BufferedColumn>,
    rows: usize,
    bytes: usize,
    file: Option<SerializedFileWriter<TableFile>>,
}

impl TableWriter {
    pub(super) fn new(name: &'static str, columns: &'static [ColumnSpec]) -> Self {
        let mut table = Self { name, columns, waiting: Vec::new(), rows: 0, bytes: 0, file: None };
        table.clear_buffer();
        table
    }

    fn clear_buffer(&mut self) {
        let values = |kind: &ColumnKind| match kind {
            ColumnKind::Text => ColumnValues::Texts(Vec::new()),
            ColumnKind::Number | ColumnKind::Time => ColumnValues::Numbers(Vec::new()),
            ColumnKind::Flag => ColumnValues::Flags(Vec::new()),
        };
        let column =
            |(_, kind): &ColumnSpec| BufferedColumn { values: values(kind), present: Vec::new() };
        self.waiting = self.columns.iter().map(column).collect();
        (self.rows, self.bytes) = (0, 0);
    }

    /// Buffers a row. Returns whether the buffered rows should be written.
    pub(super) fn buffer_row(&mut self, row: &[CellValue<'_>]) -> bool {
        debug_assert_eq!(row.len(), self.columns.len(), "{}", self.name);
        for (waiting, cell) in self.waiting.iter_mut().zip(row) {
            let is_put = match (&mut waiting.values, cell) {
                (ColumnValues::Texts(texts), CellValue::Text(text)) => {
                    self.bytes += text.len();
                    texts.push(ByteArray::from(*text));
                    true
                }
                (ColumnValues::Numbers(numbers), CellValue::Number(number)) => {
                    numbers.push(*number);
                    true
                }
                (ColumnValues::Flags(flags), CellValue::Flag(flag)) => {
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

    /// Returns whether a file is open.
    pub(super) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Returns whether there are buffered rows.
    pub(super) fn is_waiting(&self) -> bool {
        self.rows > 0
    }

    /// Begins a file.
    pub(super) fn begin_file(&mut self, out: TableFile) -> io::Result<()> {
        let schema =
            Arc::new(parse_message_type(&self.parquet_schema()).map_err(parquet_io_error)?);
        let level = ZstdLevel::try_new(1).map_err(parquet_io_error)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by(format!("agent-journal {}", env!("CARGO_PKG_VERSION")))
            .build();
        let file = SerializedFileWriter::new(out, schema, Arc::new(properties));
        self.file = Some(file.map_err(parquet_io_error)?);
        Ok(())
    }

    /// Writes the buffered rows as one row group.
    pub(super) fn write_row_group(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_mut().filter(|_| self.rows > 0) else { return Ok(()) };
        write_group(file, &self.waiting).map_err(parquet_io_error)?;
        self.clear_buffer();
        Ok(())
    }

    /// Writes the buffered rows and finishes the file.
    pub(super) fn finish_file(&mut self) -> io::Result<()> {
        self.write_row_group()?;
        match self.file.take() {
            Some(file) => file.close().map(drop).map_err(parquet_io_error),
            None => Ok(()),
        }
    }

    /// Returns the schema in Parquet's language. Every value is optional.
    fn parquet_schema(&self) -> String {
        let column = |(name, kind): &ColumnSpec| match kind {
            ColumnKind::Text => format!("OPTIONAL BYTE_ARRAY {name} (STRING);"),
            ColumnKind::Number => format!("OPTIONAL INT64 {name};"),
            ColumnKind::Flag => format!("OPTIONAL BOOLEAN {name};"),
            ColumnKind::Time => format!("OPTIONAL INT64 {name} (TIMESTAMP(MILLIS,true));"),
        };
        let columns: String = self.columns.iter().map(column).collect();
        format!("message {} {{ {columns} }}", self.name)
    }
}

fn write_group(
    file: &mut SerializedFileWriter<TableFile>,
    waiting: &[BufferedColumn],
) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    for BufferedColumn { values, present } in waiting {
        let Some(mut column) = group.next_column()? else { break };
        let present = Some(present.as_slice());
        match values {
            ColumnValues::Texts(texts) => {
                column.typed::<ByteArrayType>().write_batch(texts, present, None)?;
            }
            ColumnValues::Numbers(numbers) => {
                column.typed::<Int64Type>().write_batch(numbers, present, None)?;
            }
            ColumnValues::Flags(flags) => {
                column.typed::<BoolType>().write_batch(flags, present, None)?;
            }
        }
        column.close()?;
    }
    group.close()?;
    Ok(())
}

fn parquet_io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => io::Error::other(cause),
        other => io::Error::other(other),
    }
}
