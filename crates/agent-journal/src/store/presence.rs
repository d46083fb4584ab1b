//! What the journal recorded of a session or a source, listed or not.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Row, params};
use serde::Serialize;

use super::Store;
use super::sources::StoredPath;
use super::write::PathValue;
use crate::error::Result;
use crate::model::Kind;

/// More sessions than this are not told apart by the beginning of an id.
const MAX_SESSIONS: usize = 12;

/// A session in the journal.
#[derive(Clone, Debug, Serialize)]
pub struct KnownSession {
    /// Its id, with its agent.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Whether it is listed, and why not.
    pub listing: ListingState,
}

/// Whether a session is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListingState {
    /// `aj list` shows it.
    Listed,
    /// It is a sub-agent's: `aj list --all` shows it.
    SubAgent,
    /// It is a working copy of another session.
    Copy,
    /// Nobody said or did anything in it.
    Empty,
}

/// A file, and what came of reading it.
#[derive(Clone, Debug, Serialize)]
pub struct KnownSource {
    /// The agent that wrote it.
    pub agent: String,
    /// The file.
    pub path: String,
    /// Whether it was read.
    pub state: SourceState,
    /// How many records there are.
    pub records: u64,
    /// How many of them were understood.
    pub understood: u64,
    /// Records that were skipped, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Why it could not be read.
    pub error: Option<String>,
}

/// Whether a file was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// It was read as it is.
    Read,
    /// It changed since.
    Changed,
    /// It was found and not read yet.
    Unread,
    /// It is gone; what it told lives on in the journal.
    Gone,
    /// It could not be read.
    Failed,
}

/// A source as the journal recorded it.
pub(crate) struct RecordedSource {
    pub(crate) known: KnownSource,
    /// Whether it was there when it was last looked for.
    pub(crate) is_present: bool,
}

impl Store {
    /// Finds sessions by the beginning of their id, also those that are not listed.
    pub(crate) fn known_sessions(&self, prefix: &str) -> Result<Vec<KnownSession>> {
        let end = format!("{prefix}\u{10ffff}");
        let condition = format!("native >= ?1 AND native < ?2 LIMIT {MAX_SESSIONS}");
        self.sessions_where(&condition, params![prefix, end])
    }

    /// Finds the sessions that a source tells of.
    pub(crate) fn sessions_in(&self, path: &str) -> Result<Vec<KnownSession>> {
        let condition = "key IN (SELECT session FROM tellings JOIN sources
                                 ON sources.id = tellings.source WHERE sources.path = ?1)";
        self.sessions_where(condition, params![path])
    }

    fn sessions_where(
        &self,
        condition: &str,
        values: impl rusqlite::Params,
    ) -> Result<Vec<KnownSession>> {
        let sql = format!(
            "SELECT agent || ':' || native, title, shown, kind FROM sessions WHERE {condition}"
        );
        let mut statement = self.connection.prepare(&sql).map_err(self.error())?;
        let rows = statement.query_map(values, known_session);
        rows.and_then(Iterator::collect).map_err(self.error())
    }

    /// Lists the sources that tell of a session, by its id with its agent.
    pub(crate) fn recorded_sources(&self, id: &str) -> Result<Vec<RecordedSource>> {
        let condition = "id IN (SELECT source FROM tellings JOIN sessions
                                ON sessions.key = tellings.session
                                WHERE sessions.agent || ':' || sessions.native = ?1)";
        self.recorded_where(condition, params![id])
    }

    /// Lists the sources at a path and below it.
    pub(crate) fn recorded_below(&self, path: &Path) -> Result<Vec<RecordedSource>> {
        let below = path.join("");
        let Some(below) = below.to_str() else {
            return self.recorded_where("path = ?1", params![PathValue(path)]);
        };
        let condition = "path = ?1 OR substr(path, 1, length(?2)) = ?2";
        self.recorded_where(condition, params![PathValue(path), below])
    }

    fn recorded_where(
        &self,
        condition: &str,
        values: impl rusqlite::Params,
    ) -> Result<Vec<RecordedSource>> {
        let sql = format!(
            "SELECT agent, path, records, raw, skipped, error, present FROM sources
             WHERE {condition} ORDER BY path"
        );
        let mut statement = self.connection.prepare(&sql).map_err(self.error())?;
        let rows = statement.query_map(values, recorded_source);
        rows.and_then(Iterator::collect).map_err(self.error())
    }
}

fn known_session(row: &Row<'_>) -> rusqlite::Result<KnownSession> {
    let (is_shown, kind): (bool, i64) = (row.get(2)?, row.get(3)?);
    let listing = match (is_shown, kind) {
        (true, kind) if kind == Kind::Agent as i64 => ListingState::SubAgent,
        (true, _) => ListingState::Listed,
        (false, kind) if kind == Kind::Copy as i64 => ListingState::Copy,
        (false, _) => ListingState::Empty,
    };
    Ok(KnownSession { id: row.get(0)?, title: row.get(1)?, listing })
}

fn recorded_source(row: &Row<'_>) -> rusqlite::Result<RecordedSource> {
    let (records, raw): (i64, i64) = (row.get(2)?, row.get(3)?);
    let skipped: BTreeMap<String, u64> =
        serde_json::from_str(&row.get::<_, String>(4)?).unwrap_or_default();
    let known = KnownSource {
        agent: row.get(0)?,
        path: row.get::<_, StoredPath>(1)?.0.display().to_string(),
        state: SourceState::Read,
        records: records as u64 + skipped.values().sum::<u64>(),
        understood: (records - raw).max(0) as u64,
        skipped,
        error: row.get(5)?,
    };
    Ok(RecordedSource { known, is_present: row.get(6)? })
}
