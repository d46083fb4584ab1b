//! Looks up stored sessions and sources, whether they are listed or not.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Row, params};
use serde::Serialize;

use super::Store;
use super::sources::StoredPath;
use super::write::PathValue;
use crate::error::Result;
use crate::model::SessionKind;

/// Maximum number of sessions returned for an id prefix.
const MAX_SESSIONS: usize = 12;

/// A session in the journal.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct KnownSession {
    /// Id of the session, with its agent.
    pub id: String,
    /// Title of the session.
    pub title: String,
    /// Whether the session is listed, and the reason if not.
    pub listing: ListingState,
}

/// Whether and why a session is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListingState {
    /// `aj list` shows the session.
    Listed,
    /// The session is a sub-agent's; `aj list --all` shows it.
    SubAgent,
    /// The session is a working copy of another one.
    Copy,
    /// The session has no prompt, reply or tool call.
    Empty,
}

/// A file and the result of reading it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct KnownSource {
    /// Id of the agent that wrote the file.
    pub agent: String,
    /// Path of the file.
    pub path: String,
    /// Whether the file was read.
    pub state: SourceState,
    /// Number of records in the file.
    pub records: u64,
    /// Number of records that were parsed.
    pub understood: u64,
    /// Number of skipped records, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// The reason why the file could not be read.
    pub error: Option<String>,
}

/// Whether a file was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// The file was read in its current state.
    Read,
    /// The file changed since it was read.
    Changed,
    /// The file was found but not read yet.
    Unread,
    /// The file no longer exists; its sessions remain in the journal.
    Gone,
    /// The file could not be read.
    Failed,
}

/// A source as stored in the journal.
pub(crate) struct RecordedSource {
    pub(crate) known: KnownSource,
    /// Whether the source existed at the last scan.
    pub(crate) is_present: bool,
}

impl Store {
    /// Finds sessions by a prefix of their id, including those that are not listed.
    pub(crate) fn known_sessions(&self, prefix: &str) -> Result<Vec<KnownSession>> {
        let end = format!("{prefix}\u{10ffff}");
        let condition = format!("native >= ?1 AND native < ?2 LIMIT {MAX_SESSIONS}");
        self.sessions_where(&condition, params![prefix, end])
    }

    /// Lists the sessions that a source contains.
    pub(crate) fn sessions_in(&self, path: &str) -> Result<Vec<KnownSession>> {
        let condition = "key IN (SELECT session FROM recordings JOIN sources
                                 ON sources.id = recordings.source WHERE sources.path = ?1)";
        self.sessions_where(condition, params![path])
    }

    fn sessions_where(
        &self,
        condition: &str,
        values: impl rusqlite::Params,
    ) -> Result<Vec<KnownSession>> {
        let sql = format!(
            "SELECT agent || ':' || native AS id, title, shown, kind FROM sessions WHERE {condition}"
        );
        let mut statement = self.database.prepare(&sql)?;
        let rows = statement.query_map(values, known_session);
        rows?.collect()
    }

    /// Lists the sources that contain a session, by its id with its agent.
    pub(crate) fn recorded_sources(&self, id: &str) -> Result<Vec<RecordedSource>> {
        let condition = "id IN (SELECT source FROM recordings JOIN sessions
                                ON sessions.key = recordings.session
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
        let mut statement = self.database.prepare(&sql)?;
        let rows = statement.query_map(values, recorded_source);
        rows?.collect()
    }
}

fn known_session(row: &Row<'_>) -> rusqlite::Result<KnownSession> {
    let (is_shown, kind): (bool, i64) = (row.get("shown")?, row.get("kind")?);
    let listing = match (is_shown, kind) {
        (true, kind) if kind == SessionKind::Agent as i64 => ListingState::SubAgent,
        (true, _) => ListingState::Listed,
        (false, kind) if kind == SessionKind::Copy as i64 => ListingState::Copy,
        (false, _) => ListingState::Empty,
    };
    Ok(KnownSession { id: row.get("id")?, title: row.get("title")?, listing })
}

fn recorded_source(row: &Row<'_>) -> rusqlite::Result<RecordedSource> {
    let (records, raw): (i64, i64) = (row.get("records")?, row.get("raw")?);
    let skipped: BTreeMap<String, u64> =
        serde_json::from_str(&row.get::<_, String>("skipped")?).unwrap_or_default();
    let known = KnownSource {
        agent: row.get("agent")?,
        path: row.get::<_, StoredPath>("path")?.0.display().to_string(),
        state: SourceState::Read,
        records: records as u64 + skipped.values().sum::<u64>(),
        understood: (records - raw).max(0) as u64,
        skipped,
        error: row.get("error")?,
    };
    Ok(RecordedSource { known, is_present: row.get("present")? })
}
