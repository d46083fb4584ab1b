//! Reads sources and the totals of an agent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::types::{FromSql, FromSqlResult, ValueRef};
use rusqlite::{Row, params};
use serde::Serialize;

use super::Store;
use super::database::OptionalRow;
use super::write::PathValue;
use crate::error::Result;
use crate::model::{Checkpoint, Source, Stamp};

/// A source as stored in the journal.
#[derive(Clone, Debug)]
pub(crate) struct SourceRow {
    /// Row id of the source.
    pub(crate) id: i64,
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// Size, time and inode when the source was read.
    pub(crate) stamp: Stamp,
    /// Whether the source existed at the last scan.
    pub(crate) present: bool,
    /// The reader version that read it last.
    pub(crate) reader: i64,
}

/// A source whose files cannot be read again.
#[derive(Clone, Debug)]
pub(crate) struct KeptSource {
    /// Row id of the source.
    pub(crate) id: i64,
    pub(crate) agent: String,
    /// The reader version that read it last.
    pub(crate) reader: i64,
    pub(crate) is_import: bool,
}

/// Totals over the sources of one agent.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct AgentTotals {
    /// Number of sources.
    pub sources: u64,
    /// Sources that no longer exist, whose sessions remain only in the journal.
    pub sources_gone: u64,
    /// Sources that could not be read.
    pub sources_failed: u64,
    /// Total size of the existing sources in bytes, without imports, because an import may contain
    /// several agents.
    pub bytes: u64,
    /// Shown sessions.
    pub sessions: u64,
    /// Shown sessions that a person started.
    pub root_sessions: u64,
    /// Sessions that remain only in the journal.
    pub sessions_gone: u64,
    /// Sessions with a working directory.
    pub with_cwd: u64,
    /// Sessions with a title other than their directory or id.
    pub with_title: u64,
    /// Sessions with a model.
    pub with_model: u64,
    /// Sessions with a branch.
    pub with_branch: u64,
    /// Records that were parsed or kept raw.
    pub records_understood: u64,
    /// Records that were kept raw because their type is unknown.
    pub records_raw: u64,
    /// Number of skipped records, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Sources that could not be read, with the reason.
    pub failures: Vec<(String, String)>,
    /// Sources of which no record was parsed, with the number of records.
    pub not_understood: Vec<(String, u64)>,
    /// The source with the most unparsed records, and their number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_understood: Option<(String, u64)>,
}

impl AgentTotals {
    /// Returns the number of records and the number of parsed records.
    pub fn understood(&self) -> (u64, u64) {
        let skipped: u64 = self.skipped.values().sum();
        let understood = self.records_understood.saturating_sub(self.records_raw);
        (self.records_understood + skipped, understood)
    }
}

/// A path as `PathValue` stored it.
pub(super) struct StoredPath(pub(super) PathBuf);

impl FromSql for StoredPath {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(match value {
            ValueRef::Blob(bytes) => from_bytes(bytes),
            _ => PathBuf::from(value.as_str()?),
        }))
    }
}

impl Store {
    /// Lists the sources of an agent, without imports.
    pub(crate) fn sources(&self, agent: &str) -> Result<Vec<SourceRow>> {
        self.source_rows("agent = ?1", params![agent])
    }

    /// Finds a source by its path.
    pub(crate) fn source(&self, agent: &str, path: &Path) -> Result<Option<SourceRow>> {
        let rows = self.source_rows("agent = ?1 AND path = ?2", params![agent, PathValue(path)]);
        Ok(rows?.pop())
    }

    /// Lists the sources at a path and below it.
    pub(crate) fn sources_at(&self, agent: &str, path: &Path) -> Result<Vec<SourceRow>> {
        let Some(text) = path.to_str() else {
            return Ok(self.source(agent, path)?.into_iter().collect());
        };
        let separator = std::path::MAIN_SEPARATOR;
        // Paths below the directory sort between the separator and its successor.
        let end = char::from_u32(separator as u32 + 1).unwrap_or(separator);
        let condition = "agent = ?1 AND (path = ?2 OR path > ?3 AND path < ?4)";
        let (below, end) = (format!("{text}{separator}"), format!("{text}{end}"));
        self.source_rows(condition, params![agent, text, below, end])
    }

    fn source_rows(
        &self,
        condition: &str,
        values: impl rusqlite::Params,
    ) -> Result<Vec<SourceRow>> {
        let sql = format!(
            "SELECT id, path, size, modified, inode, present, reader FROM sources
             WHERE home != 'import' AND {condition}"
        );
        self.database.rows(&sql, values, |row| {
            Ok(SourceRow {
                id: row.get("id")?,
                path: row.get::<_, StoredPath>("path")?.0,
                stamp: Stamp {
                    size: row.get::<_, i64>("size")? as u64,
                    modified: row.get("modified")?,
                    inode: row.get::<_, i64>("inode")? as u64,
                },
                present: row.get("present")?,
                reader: row.get("reader")?,
            })
        })
    }

    /// Reads the agent, path and last stamp of a source.
    pub(crate) fn known_source(&self, id: i64) -> Result<Option<(String, Source)>> {
        let sql = "SELECT agent, path, size, modified, inode FROM sources WHERE id = ?1";
        let row = self.database.query_row(sql, [id], |row| {
            let stamp = Stamp {
                size: row.get::<_, i64>("size")? as u64,
                modified: row.get("modified")?,
                inode: row.get::<_, i64>("inode")? as u64,
            };
            Ok((row.get("agent")?, Source { path: row.get::<_, StoredPath>("path")?.0, stamp }))
        });
        row.optional()
    }

    /// Returns the stamp that a source had when it was last read.
    pub(crate) fn stamp(&self, source: i64) -> Result<Option<Stamp>> {
        let sql = "SELECT size, modified, inode FROM sources WHERE id = ?1";
        let row = self.database.query_row(sql, [source], |row| {
            Ok(Stamp {
                size: row.get::<_, i64>("size")?.max(0) as u64,
                modified: row.get("modified")?,
                inode: row.get::<_, i64>("inode")? as u64,
            })
        });
        row.optional()
    }

    /// Returns whether a reader version other than `reader` read a source last.
    pub(crate) fn is_outdated(&self, source: i64, reader: i64) -> Result<bool> {
        let sql = "SELECT reader != ?2 FROM sources WHERE id = ?1";
        let row = self.database.optional_value(sql, [source, reader])?;
        Ok(row.unwrap_or(false))
    }

    /// Lists the sources whose files cannot be read again, because they no longer exist or were
    /// imported, and that a reader version before `before` read last.
    pub(crate) fn kept_sources(&self, before: i64) -> Result<Vec<KeptSource>> {
        let sql = "SELECT id, agent, reader, home = 'import' AS is_import FROM sources
                   WHERE reader < ?1 AND (present = 0 OR home = 'import')";
        self.database.rows(sql, [before], |row| {
            Ok(KeptSource {
                id: row.get("id")?,
                agent: row.get("agent")?,
                reader: row.get("reader")?,
                is_import: row.get("is_import")?,
            })
        })
    }

    /// Returns the number of skipped records in the files of a session, by reason.
    pub(crate) fn skipped_of_session(&self, session: u64) -> Result<BTreeMap<String, u64>> {
        let sql = "SELECT DISTINCT sources.id, skipped FROM recordings
                   JOIN sources ON sources.id = recordings.source
                   WHERE recordings.session = ?1 AND skipped != '{}'";
        let mut statement = self.database.prepare_cached(sql)?;
        let rows = statement.query_map([session as i64], |row| row.get::<_, String>("skipped"));
        let mut all = BTreeMap::new();
        for skipped in rows? {
            let skipped = serde_json::from_str(&skipped?);
            let skipped: BTreeMap<String, u64> = skipped.unwrap_or_default();
            for (reason, count) in skipped {
                *all.entry(reason).or_default() += count;
            }
        }
        Ok(all)
    }

    /// Lists the agents of all sources.
    pub(crate) fn agent_names(&self) -> Result<Vec<String>> {
        let sql = "SELECT DISTINCT agent FROM sources ORDER BY agent";
        self.database.values(sql, [])
    }

    /// Reads the checkpoint of a source.
    pub(crate) fn checkpoint(&self, source: i64) -> Result<Checkpoint> {
        let sql = "SELECT read_to, guard, messages, state, seen_to, seen_guard FROM checkpoints
                   WHERE source = ?1";
        let row = self.database.query_row(sql, [source], |row| {
            Ok(Checkpoint {
                offset: row.get::<_, i64>("read_to")? as u64,
                guard: row.get::<_, i64>("guard")? as u64,
                messages: row.get::<_, i64>("messages")? as u64,
                state: row.get("state")?,
                seen_to: row.get::<_, i64>("seen_to")? as u64,
                seen_guard: row.get::<_, i64>("seen_guard")? as u64,
            })
        });
        Ok(row.optional()?.unwrap_or_default())
    }

    /// Sums up the sources of an agent.
    pub(crate) fn totals(&self, agent: &str) -> Result<AgentTotals> {
        let mut totals = self.session_totals(agent)?;
        let sql =
            "SELECT path, iif(home = 'import', 0, size) AS size, present, records, raw, skipped, error
                   FROM sources WHERE agent = ?1";
        let mut statement = self.database.prepare(sql)?;
        let mut rows = statement.query([agent])?;
        while let Some(row) = rows.next()? {
            row.read(|row| add_source(row, &mut totals))?;
        }
        Ok(totals)
    }

    fn session_totals(&self, agent: &str) -> Result<AgentTotals> {
        let sql = "SELECT count(*) AS sessions, total(kind = 0) AS root_sessions,
                   total(cwd IS NOT NULL) AS with_cwd,
                   total(title_source NOT IN ('path', 'id')) AS with_title,
                   total(models != '[]') AS with_model, total(branch IS NOT NULL) AS with_branch,
                   total(NOT sources.present OR recordings.gone) AS sessions_gone FROM sessions
                   JOIN recordings ON recordings.key = sessions.recording
                   JOIN sources ON sources.id = recordings.source
                   WHERE sessions.agent = ?1 AND shown = 1";
        self.database.query_row(sql, [agent], |row| {
            let number = |name: &str| row.get::<_, f64>(name).map(|sum| sum as u64);
            Ok(AgentTotals {
                sessions: row.get::<_, i64>("sessions")? as u64,
                root_sessions: number("root_sessions")?,
                with_cwd: number("with_cwd")?,
                with_title: number("with_title")?,
                with_model: number("with_model")?,
                with_branch: number("with_branch")?,
                sessions_gone: number("sessions_gone")?,
                ..AgentTotals::default()
            })
        })
    }
}

fn add_source(row: &Row<'_>, totals: &mut AgentTotals) -> rusqlite::Result<()> {
    let path = row.get::<_, StoredPath>("path")?.0;
    totals.sources += 1;
    if row.get::<_, bool>("present")? {
        totals.bytes += row.get::<_, i64>("size")?.max(0) as u64;
    } else {
        totals.sources_gone += 1;
    }
    let (records, raw) = (row.get::<_, i64>("records")? as u64, row.get::<_, i64>("raw")? as u64);
    totals.records_understood += records;
    totals.records_raw += raw;
    let skipped: BTreeMap<String, u64> =
        serde_json::from_str(&row.get::<_, String>("skipped")?).unwrap_or_default();
    let unknown = raw + skipped.values().sum::<u64>();
    for (reason, count) in skipped {
        *totals.skipped.entry(reason).or_default() += count;
    }
    let name = || path.to_string_lossy().into_owned();
    if unknown > 0 && records <= raw {
        totals.not_understood.push((name(), unknown));
    }
    if unknown > totals.least_understood.as_ref().map_or(0, |(_, most)| *most) {
        totals.least_understood = Some((name(), unknown));
    }
    // A source that no longer exists cannot be repaired.
    let is_present = row.get::<_, bool>("present")?;
    if let Some(error) = row.get::<_, Option<String>>("error")?.filter(|_| is_present) {
        totals.sources_failed += 1;
        totals.failures.push((name(), error));
    }
    Ok(())
}

#[cfg(unix)]
fn from_bytes(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

#[cfg(not(unix))]
fn from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}
