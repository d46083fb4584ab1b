//! Reads declared files that are one JSON document.

use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::DeclaredReader;
use super::convert::{self, ConvertedRecord};
use crate::connectors::formats::fold::fold_excess_values;
use crate::connectors::formats::jsonl::{self, MAX_LINE};
use crate::connectors::formats::large::{LARGE_BYTES, LargeTurn};
use crate::connectors::formats::source_file::SourceFile;
use crate::connectors::{Record, Sink};
use crate::error::{Error, Result};
use crate::model::Session;

/// Reads all sessions of a document.
pub(super) fn read_document(reader: DeclaredReader<'_>, sink: &mut dyn Sink) -> Result<()> {
    let bytes = read_bytes(reader.path)?;
    let _turn = (bytes.len() > LARGE_BYTES).then(LargeTurn::wait_for_turn);
    let Some(document) = parse_document(&bytes) else {
        return sink.accept_record(Record::truncated_record(0, "not a JSON document"));
    };
    drop(bytes);
    let each = &reader.declaration.session.each;
    let sessions = if each.is_empty() { vec![&document] } else { each.find_values(&document) };
    let mut at = 0;
    for (number, record) in sessions.iter().enumerate() {
        let native = reader.session_id(record).unwrap_or_else(|| match sessions.len() {
            1 => reader.file_stem(),
            _ => format!("{}#{number}", reader.file_stem()),
        });
        emit_document_session(reader, record, native, &mut at, sink)?;
    }
    Ok(())
}

fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let file = SourceFile::open(path).map_err(Error::read(path))?;
    let size = file.size().map_err(Error::read(path))?;
    if size > MAX_LINE as u64 {
        return Err(Error::Format {
            path: path.to_owned(),
            what: "the file is too large".to_owned(),
        });
    }
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(MAX_LINE as u64).read_to_end(&mut bytes).map_err(Error::read(path))?;
    Ok(bytes)
}

fn parse_document(bytes: &[u8]) -> Option<Value> {
    let bytes = fold_excess_values(bytes);
    serde_json::from_slice(&bytes)
        .or_else(|_| serde_json::from_slice(&jsonl::mend_line(&bytes)))
        .ok()
}

/// Emits one session of a document. `at` counts the records of the document.
fn emit_document_session(
    reader: DeclaredReader<'_>,
    record: &Value,
    native: String,
    at: &mut u64,
    sink: &mut dyn Sink,
) -> Result<()> {
    let declaration = reader.declaration;
    let mut session = Session::new(&declaration.id, native);
    convert::add_session_facts(declaration, record, &mut session);
    convert::keep_unnamed_session_fields(declaration, record, &mut session);
    let each = &declaration.message.each;
    let records = match record {
        Value::Array(all) if each.is_empty() => all.iter().collect(),
        _ => each.find_values(record),
    };
    let (mut messages, mut others) = (Vec::new(), Vec::new());
    for record in records {
        match convert::convert_record(declaration, record) {
            ConvertedRecord::Messages(more) => messages.extend(more),
            ConvertedRecord::Empty => others.push(Record::passed_over_record(*at, "no content")),
            ConvertedRecord::Unknown(reason) => others.push(Record::unreadable_record(*at, reason)),
        }
        *at += 1;
    }
    if !messages.is_empty() {
        for message in &messages {
            session.extend_time_span(message.at);
        }
        sink.accept_record(Record::Session(Box::new(session)))?;
        messages
            .into_iter()
            .try_for_each(|one| sink.accept_record(Record::Message(Box::new(one))))?;
    }
    others.into_iter().try_for_each(|other| sink.accept_record(other))
}
