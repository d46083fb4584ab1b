//! Reads the number of parsed records of each source, with the version of the agent that wrote it.

use std::collections::BTreeMap;

use rusqlite::Row;

use super::Store;
use super::sources::StoredPath;
use crate::error::Result;
use crate::model::Timestamp;

/// Record counts of one source.
pub(crate) struct SourceUnderstanding {
    pub(crate) path: String,
    /// Agent version of the latest session, if recorded.
    pub(crate) version: Option<String>,
    /// End time of the latest session.
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) records: u64,
    pub(crate) understood: u64,
    /// Number of skipped records, by reason.
    pub(crate) skipped: BTreeMap<String, u64>,
    /// Keys of the recordings in the source.
    pub(crate) recordings: Vec<u64>,
}

impl SourceUnderstanding {
    /// Returns the number of records that were not parsed.
    pub(crate) fn unknown(&self) -> u64 {
        self.records.saturating_sub(self.understood)
    }
}

impl Store {
    /// Reads the record counts of each source of an agent, without imports.
    pub(crate) fn understanding(&self, agent: &str) -> Result<Vec<SourceUnderstanding>> {
        let sql = "SELECT sources.path, sources.records, sources.raw, sources.skipped,
                          recordings.key, sessions.agent_version, sessions.ended_at
                   FROM sources
                   JOIN recordings ON recordings.source = sources.id
                   JOIN sessions ON sessions.key = recordings.session
                   WHERE sources.agent = ?1 AND sources.home != 'import'
                   ORDER BY sources.id, sessions.ended_at";
        let mut statement = self.database.prepare(sql)?;
        let mut rows = statement.query([agent])?;
        let mut all: Vec<SourceUnderstanding> = Vec::new();
        while let Some(row) = rows.next()? {
            let one = row.read(source_understanding)?;
            match all.last_mut().filter(|last| last.path == one.path) {
                Some(last) => {
                    last.recordings.extend(one.recordings);
                    // Rows without a time come first, so later rows are newer.
                    last.version = one.version.or(last.version.take());
                    last.ended_at = one.ended_at.or(last.ended_at);
                }
                None => all.push(one),
            }
        }
        Ok(all)
    }
}

fn source_understanding(row: &Row<'_>) -> rusqlite::Result<SourceUnderstanding> {
    let (records, raw): (i64, i64) = (row.get("records")?, row.get("raw")?);
    let skipped: BTreeMap<String, u64> =
        serde_json::from_str(&row.get::<_, String>("skipped")?).unwrap_or_default();
    let ended_at: Option<i64> = row.get("ended_at")?;
    Ok(SourceUnderstanding {
        path: row.get::<_, StoredPath>("path")?.0.display().to_string(),
        version: row.get("agent_version")?,
        ended_at: ended_at.and_then(Timestamp::from_millis),
        records: records as u64 + skipped.values().sum::<u64>(),
        understood: (records - raw).max(0) as u64,
        skipped,
        recordings: vec![row.get::<_, i64>("key")? as u64],
    })
}
