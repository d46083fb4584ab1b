//! Summaries that name the message they end at. A summary belongs to the session that contains the
//! message, whichever file contains the summary.

use std::collections::HashMap;

use super::database::Database;
use crate::error::Result;

/// Summaries by the hash of the message they end at.
pub(super) type Summaries = HashMap<i64, SummariesOfMessage>;

/// The summaries that end at one message.
#[derive(Default)]
pub(super) struct SummariesOfMessage {
    /// Texts in alphabetical order, independent of the reading order.
    pub(super) texts: Vec<String>,
    /// Whether a session is known to contain the message.
    pub(super) is_found: bool,
}

impl SummariesOfMessage {
    /// Adds a summary, unless it is already present.
    pub(super) fn add(&mut self, text: &str) {
        if let Err(at) = self.texts.binary_search_by(|known| known.as_str().cmp(text)) {
            self.texts.insert(at, text.to_owned());
        }
    }
}

/// Reads the summaries of an agent.
pub(super) fn of_agent(database: &Database, agent: &str) -> Result<Summaries> {
    let sql = "SELECT leaf, text, found FROM summaries WHERE agent = ?1";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query([agent])?;
    let mut all = Summaries::new();
    while let Some(row) = rows.next()? {
        let one = all.entry(row.get("leaf")?).or_default();
        one.add(&row.get::<String>("text")?);
        one.is_found |= row.get::<bool>("found")?;
    }
    Ok(all)
}

/// Returns the messages of a recording at which summaries end, the latest first.
pub(super) fn in_recording(
    database: &Database,
    recording: i64,
    summaries: &Summaries,
) -> Result<Vec<i64>> {
    if summaries.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT uuids FROM chunks WHERE recording = ?1 ORDER BY first DESC";
    let mut statement = database.prepare_cached(sql)?;
    let mut rows = statement.query([recording])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let uuids: Vec<i64> = hashes(row.blob("uuids")?).collect();
        found.extend(uuids.iter().rev().filter(|uuid| summaries.contains_key(uuid)));
    }
    Ok(found)
}

/// Reads the summaries in a session's file that end at a message no session has.
pub(super) fn without_owner(database: &Database, session: u64) -> Result<Vec<String>> {
    let sql = "SELECT text FROM summaries WHERE holder = ?1 AND found = 0 ORDER BY text DESC";
    let mut statement = database.prepare_cached(sql)?;
    let rows = statement.query_map([session as i64], |row| row.get(0))?;
    rows.collect()
}

/// Reads the summaries of a session: those that end in its recording, the latest first, and those
/// in its file that belong to no other session.
pub(super) fn about_session(
    database: &Database,
    session: u64,
    recording: i64,
    summaries: &Summaries,
) -> Result<Vec<String>> {
    let leaves = in_recording(database, recording, summaries)?;
    let mut texts: Vec<String> =
        leaves.iter().flat_map(|leaf| summaries[leaf].texts.iter().rev().cloned()).collect();
    if !summaries.is_empty() {
        texts.extend(without_owner(database, session)?);
    }
    Ok(texts)
}

/// Decodes a column of hashes.
pub(super) fn hashes(bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.as_chunks().0.iter().map(|word| i64::from_le_bytes(*word))
}
