//! Streams the messages of a recording, with at most one chunk of messages in memory.

use std::collections::HashSet;
use std::ops::Range;

use rusqlite::params;
use serde::de::DeserializeOwned;

use super::{Store, chunk};
use crate::error::Result;
use crate::model::Message;

impl Store {
    /// Calls `take` with each message of a recording in order, deserialized as `T`.
    pub(crate) fn each_message<T: DeserializeOwned>(
        &self,
        recording: u64,
        mut take: impl FnMut(u64, T) -> Result<()>,
    ) -> Result<()> {
        self.each_line(recording, |position, line| match serde_json::from_slice(line) {
            Ok(message) => take(position, message),
            // A damaged message is skipped, but not its neighbours.
            Err(_) => Ok(()),
        })
    }

    /// Calls `take` with the messages of a recording in a range of positions, reading one chunk at
    /// a time.
    pub(crate) fn each_message_in(
        &self,
        recording: u64,
        range: Range<u64>,
        mut take: impl FnMut(u64, Message) -> Result<()>,
    ) -> Result<()> {
        let mut from = range.start;
        while from < range.end {
            let Some(end) = self.chunk_end(recording, from)? else { return Ok(()) };
            for (position, message) in self.messages(recording, from..end.min(range.end))? {
                take(position, message)?;
            }
            from = end;
        }
        Ok(())
    }

    /// Returns the end position of the chunk that contains `position`, or of the next chunk.
    pub(crate) fn chunk_end(&self, recording: u64, position: u64) -> Result<Option<u64>> {
        let sql = "SELECT first + count FROM chunks WHERE recording = ?1 AND first + count > ?2
                   ORDER BY first LIMIT 1";
        let place = params![recording as i64, position as i64];
        let end: Option<i64> = self.database.optional_value(sql, place)?;
        Ok(end.map(|end| end as u64))
    }

    /// Calls `take` with each message of a recording in order, as stored JSON.
    pub(crate) fn each_line(
        &self,
        recording: u64,
        mut take: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let sql = "SELECT first, body FROM chunks WHERE recording = ?1 ORDER BY first";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query(params![recording as i64])?;
        while let Some(row) = rows.next()? {
            let first = row.get::<i64>("first")? as u64;
            let run = self.unpack(row.blob("body")?)?.unwrap_or_default();
            for (position, line) in (first..).zip(chunk::lines(&run)) {
                take(position, line)?;
            }
        }
        Ok(())
    }

    /// Calls `take` with the messages of those chunks of a recording that changed a wanted file.
    /// Adds the failed tool calls of all chunks to `failed`.
    pub(crate) fn each_touching(
        &self,
        recording: u64,
        wanted: &dyn Fn(&str) -> bool,
        failed: &mut HashSet<u64>,
        mut take: impl FnMut(u64, Message),
    ) -> Result<()> {
        let sql = "SELECT first, facts, body FROM chunks WHERE recording = ?1 ORDER BY first";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut rows = statement.query(params![recording as i64])?;
        while let Some(row) = rows.next()? {
            let facts = chunk::facts(row.blob("facts")?);
            failed.extend(facts.errors.iter().map(|error| error.id));
            if !facts.files.keys().any(|file| wanted(file)) {
                continue;
            }
            let first = row.get::<i64>("first")? as u64;
            let run = self.unpack(row.blob("body")?)?;
            for (position, line) in (first..).zip(chunk::lines(&run.unwrap_or_default())) {
                if let Ok(message) = serde_json::from_slice(line) {
                    take(position, message);
                }
            }
        }
        Ok(())
    }

    /// Reads the bytes of an image.
    pub(crate) fn picture(&self, hash: &str) -> Result<Option<Vec<u8>>> {
        let sql = "SELECT data FROM images WHERE hash = ?1";
        self.database.optional_value(sql, [hash])
    }
}
