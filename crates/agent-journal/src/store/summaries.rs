//! Summaries that name the message they end at: whichever file has them, they are about the
//! session that has the message.

use std::collections::HashMap;

use rusqlite::{Connection, Result};

/// Summaries by the hash of the message they end at.
pub(super) type Summaries = HashMap<i64, String>;

/// Reads the summaries of an agent. Of several with the same end one holds: the last by its
/// letters.
pub(super) fn of_agent(connection: &Connection, agent: &str) -> Result<Summaries> {
    let sql = "SELECT leaf, text FROM summaries WHERE agent = ?1 ORDER BY text";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([agent], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Those of some summaries that end in a telling, the latest first.
pub(super) fn in_telling(
    connection: &Connection,
    telling: i64,
    summaries: &Summaries,
) -> Result<Vec<String>> {
    if summaries.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT uuids FROM chunks WHERE telling = ?1 ORDER BY first DESC";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([telling])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let uuids: Vec<i64> = hashes(row.get_ref(0)?.as_blob()?).collect();
        found.extend(uuids.iter().rev().filter_map(|uuid| summaries.get(uuid).cloned()));
    }
    Ok(found)
}

/// The hashes in a column of them.
pub(super) fn hashes(bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.as_chunks().0.iter().map(|word| i64::from_le_bytes(*word))
}
