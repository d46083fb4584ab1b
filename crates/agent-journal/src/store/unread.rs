//! Sessions that are not read: forgotten ones, and those that the configuration excludes.

use rusqlite::params;
use serde::Serialize;

use super::{Store, Writer};
use crate::error::Result;
use crate::model::{SessionId, Timestamp};

/// A session that is not read.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LeftOutSession {
    /// `agent:id`.
    pub id: String,
    /// The reason why it is not read.
    pub reason: LeftOutReason,
    /// The time since when it is not read.
    pub since: Timestamp,
    /// The directory of an excluded session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// The files that contain it.
    pub sources: Vec<String>,
    /// Whether it was forgotten together with the session that started it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_subagent: bool,
    #[serde(skip)]
    pub(crate) key: u64,
}

/// The reason why a session is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOutReason {
    /// A person forgot it.
    Forgotten,
    /// The configuration excludes it.
    Excluded,
}

/// The tombstone of a session, or the note that it is excluded.
pub(crate) struct LeftOutRow {
    pub(crate) session: SessionId,
    pub(crate) reason: LeftOutReason,
    /// The directory of an excluded session.
    pub(crate) place: Option<String>,
    /// Key of the session that it was forgotten with.
    pub(crate) parent: Option<u64>,
}

impl LeftOutReason {
    fn reason_name(self) -> &'static str {
        match self {
            Self::Forgotten => "forgotten",
            Self::Excluded => "excluded",
        }
    }
}

impl Store {
    /// Returns whether a session was forgotten.
    pub(crate) fn is_forgotten(&self, session: u64) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM unread_sessions
                   WHERE session = ?1 AND reason = 'forgotten')";
        self.database.value(sql, [session as i64])
    }

    /// Lists the sessions that are not read, the latest first.
    pub(crate) fn left_out_sessions(&self) -> Result<Vec<LeftOutSession>> {
        let sql = "SELECT session, agent || ':' || native AS id, reason, place, parent, at
                   FROM unread_sessions WHERE reason IN ('forgotten', 'excluded')
                   ORDER BY at DESC, id";
        let mut all: Vec<LeftOutSession> = self.database.rows(sql, [], |row| {
            let is_forgotten = row.get_ref("reason")?.as_str()? == "forgotten";
            Ok(LeftOutSession {
                id: row.get("id")?,
                reason: if is_forgotten {
                    LeftOutReason::Forgotten
                } else {
                    LeftOutReason::Excluded
                },
                since: Timestamp::from_millis(row.get("at")?).unwrap_or_default(),
                directory: row.get("place")?,
                sources: Vec::new(),
                is_subagent: row.get::<_, Option<i64>>("parent")?.is_some(),
                key: row.get::<_, i64>("session")? as u64,
            })
        })?;
        let sql = "SELECT CAST(path AS TEXT) AS path FROM unread_sources
                   JOIN sources ON sources.id = unread_sources.source WHERE session = ?1 ORDER BY path";
        for one in &mut all {
            one.sources =
                self.database.rows(sql, [one.key as i64], |row| row.get::<_, String>("path"))?;
        }
        Ok(all)
    }

    /// Lists the excluded sessions, each with its directory.
    pub(crate) fn excluded_places(&self) -> Result<Vec<(u64, String)>> {
        let sql = "SELECT session, coalesce(place, '') AS place FROM unread_sessions
                   WHERE reason = 'excluded'";
        self.database
            .rows(sql, [], |row| Ok((row.get::<_, i64>("session")? as u64, row.get("place")?)))
    }

    /// Lists the sources that contain a session that is not read.
    pub(crate) fn sources_of_unread(&self, session: u64) -> Result<Vec<i64>> {
        let sql = "SELECT source FROM unread_sources WHERE session = ?1";
        self.database.rows(sql, [session as i64], |row| row.get("source"))
    }

    /// Returns whether a source contains a session that is not read.
    pub(crate) fn has_unread(&self, source: i64) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM unread_sources WHERE source = ?1)";
        self.database.value(sql, [source])
    }
}

impl Writer<'_> {
    /// Notes that a source contains a session that is not read.
    pub(crate) fn note_unread(&mut self, row: &LeftOutRow, source: i64) -> Result<()> {
        let key = row.session.session_key();
        let sql = "SELECT EXISTS (SELECT 1 FROM unread_sessions
                   WHERE session = ?1 AND reason IN ('forgotten', 'excluded'))";
        if !self.database.value::<bool>(sql, [key as i64])? {
            let at = Timestamp::from_millis(jiff::Timestamp::now().as_millisecond());
            self.write_unread(row, at.unwrap_or_default())?;
        }
        self.note_unread_source(key, source)
    }

    pub(super) fn note_unread_source(&self, session: u64, source: i64) -> Result<()> {
        let sql = "INSERT OR IGNORE INTO unread_sources (session, source) VALUES (?1, ?2)";
        self.database.execute(sql, params![session as i64, source])?;
        Ok(())
    }

    pub(super) fn write_unread(&self, row: &LeftOutRow, at: Timestamp) -> Result<()> {
        let LeftOutRow { session, reason, place, parent } = row;
        let (device, counter) = (self.store.identity()?, self.store.next_counter()?);
        let sql = "INSERT OR REPLACE INTO unread_sessions
                   (session, agent, native, reason, place, parent, device, counter, at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let key = session.session_key() as i64;
        let parent = parent.map(|parent| parent as i64);
        let (agent, native, reason) = (&session.agent, &session.native, reason.reason_name());
        let row =
            params![key, agent, native, reason, place, parent, device, counter, at.as_millis()];
        self.database.execute(sql, row)?;
        Ok(())
    }

    /// Lifts the tombstone of a session and of the sub-agents that were forgotten with it, and
    /// marks the files that contain them to be read again from their beginning.
    pub(crate) fn lift_tombstone(&mut self, session: u64, at: Timestamp) -> Result<u64> {
        let sql = "SELECT session FROM unread_sessions
                   WHERE (session = ?1 OR parent = ?1) AND reason IN ('forgotten', 'excluded')";
        let keys: Vec<i64> = self.database.rows(sql, [session as i64], |row| row.get(0))?;
        for key in &keys {
            // Another device must learn that the tombstone is lifted, so its row stays.
            let counter = self.store.next_counter()?;
            let sql = "UPDATE unread_sessions SET reason = 'lifted', counter = ?2, at = ?3
                       WHERE session = ?1";
            self.database.execute(sql, params![key, counter, at.as_millis()])?;
            self.read_again(*key as u64)?;
            // The cached scan is of an earlier generation now.
            self.touched.insert(*key as u64);
        }
        Ok(keys.len() as u64)
    }

    /// Deletes the note that a session is excluded.
    pub(crate) fn readmit_excluded(&mut self, session: u64) -> Result<()> {
        self.read_again(session)?;
        let sql = "DELETE FROM unread_sessions WHERE session = ?1 AND reason = 'excluded'";
        self.database.execute(sql, [session as i64])?;
        Ok(())
    }

    /// Marks the sources of a session to be read again from their beginning.
    fn read_again(&self, session: u64) -> Result<()> {
        for sql in [
            "DELETE FROM checkpoints
             WHERE source IN (SELECT source FROM unread_sources WHERE session = ?1)",
            "UPDATE sources SET size = -1
             WHERE id IN (SELECT source FROM unread_sources WHERE session = ?1)",
            "DELETE FROM unread_sources WHERE session = ?1",
            "DELETE FROM unread_files WHERE session = ?1",
        ] {
            self.database.execute(sql, [session as i64])?;
        }
        Ok(())
    }
}
