//! Summaries that name the message they end at: whichever file has them, they are about the
//! session that has the message.

use std::collections::HashMap;

use rusqlite::{Connection, Result};

/// Summaries by the hash of the message they end at.
pub(super) type Summaries = HashMap<i64, SummariesOfMessage>;

/// Summaries that end at one message.
#[derive(Default)]
pub(super) struct SummariesOfMessage {
    /// In the order of their letters, whichever was read first.
    pub(super) texts: Vec<String>,
    /// Whether a session is known to have the message.
    pub(super) is_found: bool,
}

impl SummariesOfMessage {
    /// Adds a summary, unless it is there.
    pub(super) fn add(&mut self, text: &str) {
        if let Err(at) = self.texts.binary_search_by(|known| known.as_str().cmp(text)) {
            self.texts.insert(at, text.to_owned());
        }
    }
}

/// Reads the summaries of an agent.
pub(super) fn of_agent(connection: &Connection, agent: &str) -> Result<Summaries> {
    let sql = "SELECT leaf, text, found FROM summaries WHERE agent = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([agent])?;
    let mut all = Summaries::new();
    while let Some(row) = rows.next()? {
        let one = all.entry(row.get(0)?).or_default();
        one.add(row.get_ref(1)?.as_str()?);
        one.is_found |= row.get::<_, bool>(2)?;
    }
    Ok(all)
}

/// Returns the messages of a telling at which summaries end, the latest first.
pub(super) fn in_telling(
    connection: &Connection,
    telling: i64,
    summaries: &Summaries,
) -> Result<Vec<i64>> {
    if summaries.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT uuids FROM chunks WHERE telling = ?1 ORDER BY first DESC";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([telling])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let uuids: Vec<i64> = hashes(row.get_ref(0)?.as_blob()?).collect();
        found.extend(uuids.iter().rev().filter(|uuid| summaries.contains_key(uuid)));
    }
    Ok(found)
}

/// Reads the summaries in a session's file that end at a message which no session has.
pub(super) fn without_owner(connection: &Connection, session: u64) -> Result<Vec<String>> {
    let sql = "SELECT text FROM summaries WHERE holder = ?1 AND found = 0 ORDER BY text DESC";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([session as i64], |row| row.get(0))?;
    rows.collect()
}

/// Reads the summaries about a session: those that end in its telling, the latest first, and those
/// in its file that belong to no other.
pub(super) fn about_session(
    connection: &Connection,
    session: u64,
    telling: i64,
    summaries: &Summaries,
) -> Result<Vec<String>> {
    let leaves = in_telling(connection, telling, summaries)?;
    let mut texts: Vec<String> =
        leaves.iter().flat_map(|leaf| summaries[leaf].texts.iter().rev().cloned()).collect();
    if !summaries.is_empty() {
        texts.extend(without_owner(connection, session)?);
    }
    Ok(texts)
}

/// The hashes in a column of them.
pub(super) fn hashes(bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.as_chunks().0.iter().map(|word| i64::from_le_bytes(*word))
}
