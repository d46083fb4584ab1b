//! Reads how much of each source was understood, with the version of the agent that wrote it.

use std::collections::BTreeMap;

use super::Store;
use super::sources::StoredPath;
use crate::error::Result;
use crate::model::Timestamp;

/// What is known of the records of one source.
pub(crate) struct SourceUnderstanding {
    pub(crate) path: String,
    /// The version that wrote its latest session, if that is recorded.
    pub(crate) version: Option<String>,
    /// When its latest session ended.
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) records: u64,
    pub(crate) understood: u64,
    /// Records that were skipped, by reason.
    pub(crate) skipped: BTreeMap<String, u64>,
    /// The recordings in it.
    pub(crate) tellings: Vec<u64>,
}

impl SourceUnderstanding {
    /// Returns how many of its records are not understood.
    pub(crate) fn unknown(&self) -> u64 {
        self.records.saturating_sub(self.understood)
    }
}

impl Store {
    /// Reads how much of each of an agent's own files was understood.
    pub(crate) fn understanding(&self, agent: &str) -> Result<Vec<SourceUnderstanding>> {
        let sql = "SELECT sources.path, sources.records, sources.raw, sources.skipped,
                          tellings.key, sessions.agent_version, sessions.ended_at
                   FROM sources
                   JOIN tellings ON tellings.source = sources.id
                   JOIN sessions ON sessions.key = tellings.session
                   WHERE sources.agent = ?1 AND sources.home != 'import'
                   ORDER BY sources.id, sessions.ended_at";
        let mut statement = self.connection.prepare(sql).map_err(self.error())?;
        let mut rows = statement.query([agent]).map_err(self.error())?;
        let mut all: Vec<SourceUnderstanding> = Vec::new();
        while let Some(row) = rows.next().map_err(self.error())? {
            let read = || -> rusqlite::Result<_> {
                let (records, raw): (i64, i64) = (row.get(1)?, row.get(2)?);
                let skipped: BTreeMap<String, u64> =
                    serde_json::from_str(&row.get::<_, String>(3)?).unwrap_or_default();
                let ended_at: Option<i64> = row.get(6)?;
                Ok(SourceUnderstanding {
                    path: row.get::<_, StoredPath>(0)?.0.display().to_string(),
                    version: row.get(5)?,
                    ended_at: ended_at.and_then(Timestamp::from_millis),
                    records: records as u64 + skipped.values().sum::<u64>(),
                    understood: (records - raw).max(0) as u64,
                    skipped,
                    tellings: vec![row.get::<_, i64>(4)? as u64],
                })
            };
            let one = read().map_err(self.error())?;
            match all.last_mut().filter(|last| last.path == one.path) {
                Some(last) => {
                    last.tellings.extend(one.tellings);
                    // Rows without a time come first: a later one is the latest.
                    last.version = one.version.or(last.version.take());
                    last.ended_at = one.ended_at.or(last.ended_at);
                }
                None => all.push(one),
            }
        }
        Ok(all)
    }
}
