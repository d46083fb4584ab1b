//! Reading a whole telling in pieces: never more of it in memory than one run of messages.

use std::collections::HashSet;
use std::ops::Range;

use rusqlite::{OptionalExtension, params};
use serde::de::DeserializeOwned;

use super::{Store, chunk};
use crate::error::{Error, Result};
use crate::model::Message;

impl Store {
    /// Reads every message of a telling in order, each as any type that fits it.
    pub(crate) fn each_message<T: DeserializeOwned>(
        &self,
        telling: u64,
        mut take: impl FnMut(u64, T) -> Result<()>,
    ) -> Result<()> {
        self.each_line(telling, |position, line| match serde_json::from_slice(line) {
            Ok(message) => take(position, message),
            // What is damaged is left out, not its neighbours.
            Err(_) => Ok(()),
        })
    }

    /// Reads the messages of a recording at some positions in order, one run at a time.
    pub(crate) fn each_message_in(
        &self,
        telling: u64,
        range: Range<u64>,
        mut take: impl FnMut(u64, Message) -> Result<()>,
    ) -> Result<()> {
        let mut from = range.start;
        while from < range.end {
            let Some(end) = self.run_end(telling, from)? else { return Ok(()) };
            for (position, message) in self.messages(telling, from..end.min(range.end))? {
                take(position, message)?;
            }
            from = end;
        }
        Ok(())
    }

    /// Returns the position after the run that has a message, or after the next one.
    pub(crate) fn run_end(&self, telling: u64, position: u64) -> Result<Option<u64>> {
        let sql = "SELECT first + count FROM chunks WHERE telling = ?1 AND first + count > ?2
                   ORDER BY first LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let end = statement.query_row(params![telling as i64, position as i64], |row| row.get(0));
        let end: Option<i64> = end.optional().map_err(self.error())?;
        Ok(end.map(|end| end as u64))
    }

    /// Reads every message of a telling in order, as it is stored.
    pub(crate) fn each_line(
        &self,
        telling: u64,
        mut take: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let failed = || Error::store(&self.path);
        let sql = "SELECT first, body FROM chunks WHERE telling = ?1 ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql).map_err(failed())?;
        let mut rows = statement.query(params![telling as i64]).map_err(failed())?;
        while let Some(row) = rows.next().map_err(failed())? {
            let first = row.get::<_, i64>(0).map_err(failed())? as u64;
            let body = row.get_ref(1).and_then(|body| Ok(body.as_blob()?)).map_err(failed())?;
            let run = self.unpack(body).map_err(failed())?.unwrap_or_default();
            for (position, line) in (first..).zip(chunk::lines(&run)) {
                take(position, line)?;
            }
        }
        Ok(())
    }

    /// Reads the messages of those runs of a telling that changed a wanted file, and collects the
    /// calls that failed in any of its runs.
    pub(crate) fn each_touching(
        &self,
        telling: u64,
        wanted: &dyn Fn(&str) -> bool,
        failed: &mut HashSet<u64>,
        mut take: impl FnMut(u64, Message),
    ) -> Result<()> {
        let failure = || Error::store(&self.path);
        let sql = "SELECT first, facts, body FROM chunks WHERE telling = ?1 ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql).map_err(failure())?;
        let mut rows = statement.query(params![telling as i64]).map_err(failure())?;
        while let Some(row) = rows.next().map_err(failure())? {
            let blob = |at: usize| row.get_ref(at).and_then(|blob| Ok(blob.as_blob()?));
            let facts = chunk::facts(blob(1).map_err(failure())?);
            failed.extend(facts.errors.iter().map(|error| error.id));
            if !facts.files.keys().any(|file| wanted(file)) {
                continue;
            }
            let first = row.get::<_, i64>(0).map_err(failure())? as u64;
            let run = blob(2).and_then(|body| self.unpack(body)).map_err(failure())?;
            for (position, line) in (first..).zip(chunk::lines(&run.unwrap_or_default())) {
                if let Ok(message) = serde_json::from_slice(line) {
                    take(position, message);
                }
            }
        }
        Ok(())
    }

    /// Reads a picture's bytes.
    pub(crate) fn picture(&self, hash: &str) -> Result<Option<Vec<u8>>> {
        let sql = "SELECT data FROM images WHERE hash = ?1";
        let data = self.connection.query_row(sql, [hash], |row| row.get(0)).optional();
        data.map_err(Error::store(&self.path))
    }
}
