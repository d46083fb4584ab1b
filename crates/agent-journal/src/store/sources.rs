//! Reading what is known of sources, and what an agent's came to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::types::{FromSql, FromSqlResult, ValueRef};
use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;

use super::write::PathValue;
use super::{READER_VERSION, Store};
use crate::error::Result;
use crate::model::{Checkpoint, Source, Stamp};

/// A source as the journal knows it.
#[derive(Clone, Debug)]
pub(crate) struct SourceRow {
    /// Its row.
    pub(crate) id: i64,
    /// The file.
    pub(crate) path: PathBuf,
    /// How it looked when it was read.
    pub(crate) stamp: Stamp,
    /// Whether it was there at the last look.
    pub(crate) present: bool,
    /// Whether the present version of the reader read it.
    pub(crate) is_current: bool,
}

/// What one agent's sources came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AgentTotals {
    /// Sources read.
    pub sources: u64,
    /// Sources that are gone, whose sessions live on in the journal only.
    pub sources_gone: u64,
    /// Sources that could not be read.
    pub sources_failed: u64,
    /// Size of the sources that are there, without imports: a file may tell of many agents.
    pub bytes: u64,
    /// Sessions shown.
    pub sessions: u64,
    /// Of those, how many a person started.
    pub root_sessions: u64,
    /// Sessions that live on only in the journal.
    pub sessions_gone: u64,
    /// Sessions with a working directory.
    pub with_cwd: u64,
    /// Sessions with a title better than their directory or id.
    pub with_title: u64,
    /// Sessions with a model.
    pub with_model: u64,
    /// Sessions with a branch.
    pub with_branch: u64,
    /// Records understood.
    pub records_understood: u64,
    /// Records kept without being understood.
    pub records_raw: u64,
    /// Records skipped, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Sources that could not be read, with the reason.
    pub failures: Vec<(String, String)>,
    /// Sources in which not a single record was understood, with the number of records.
    pub not_understood: Vec<(String, u64)>,
    /// The source with the most records that were not understood, and how many those are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_understood: Option<(String, u64)>,
}

impl AgentTotals {
    /// How many records there are, and how many of them were understood.
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
    /// Lists the sources of an agent, imports left out.
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
        // What follows the separator sorts before the character that follows it.
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
            "SELECT id, path, size, modified, inode, present, reader = {READER_VERSION} FROM sources
             WHERE home != 'import' AND {condition}"
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(self.error())?;
        let rows = statement.query_map(values, |row| {
            Ok(SourceRow {
                id: row.get(0)?,
                path: row.get::<_, StoredPath>(1)?.0,
                stamp: Stamp {
                    size: row.get::<_, i64>(2)? as u64,
                    modified: row.get(3)?,
                    inode: row.get::<_, i64>(4)? as u64,
                },
                present: row.get(5)?,
                is_current: row.get(6)?,
            })
        });
        rows.and_then(Iterator::collect).map_err(self.error())
    }

    /// Reads the agent of a source, and where it is and how it looked when it was last read.
    pub(crate) fn known_source(&self, id: i64) -> Result<Option<(String, Source)>> {
        let sql = "SELECT agent, path, size, modified, inode FROM sources WHERE id = ?1";
        let row = self.connection.query_row(sql, [id], |row| {
            let stamp = Stamp {
                size: row.get::<_, i64>(2)? as u64,
                modified: row.get(3)?,
                inode: row.get::<_, i64>(4)? as u64,
            };
            Ok((row.get(0)?, Source { path: row.get::<_, StoredPath>(1)?.0, stamp }))
        });
        row.optional().map_err(self.error())
    }

    /// Tells how a source looked when it was last read.
    pub(crate) fn stamp(&self, source: i64) -> Result<Option<Stamp>> {
        let sql = "SELECT size, modified, inode FROM sources WHERE id = ?1";
        let row = self.connection.query_row(sql, [source], |row| {
            Ok(Stamp {
                size: row.get::<_, i64>(0)?.max(0) as u64,
                modified: row.get(1)?,
                inode: row.get::<_, i64>(2)? as u64,
            })
        });
        row.optional().map_err(self.error())
    }

    /// Returns whether another version of the reader read a source last.
    pub(crate) fn is_outdated(&self, source: i64) -> Result<bool> {
        let sql = "SELECT reader != ?2 FROM sources WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let row = statement.query_row([source, READER_VERSION], |row| row.get(0)).optional();
        Ok(row.map_err(self.error())?.unwrap_or(false))
    }

    /// Lists the sources that cannot be read again, because they are gone or were imported: those
    /// that another version of the reader read last.
    pub(crate) fn outdated_and_gone(&self) -> Result<Vec<i64>> {
        self.kept_sources(READER_VERSION)
    }

    /// Lists all sources that cannot be read again.
    pub(crate) fn all_kept_sources(&self) -> Result<Vec<i64>> {
        self.kept_sources(i64::MAX)
    }

    fn kept_sources(&self, before: i64) -> Result<Vec<i64>> {
        let sql = "SELECT id FROM sources WHERE reader < ?1 AND (present = 0 OR home = 'import')";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let ids = statement.query_map([before], |row| row.get(0));
        ids.and_then(Iterator::collect).map_err(self.error())
    }

    /// Returns the records that were skipped in the files of a session, by reason.
    pub(crate) fn skipped_of_session(&self, session: u64) -> Result<BTreeMap<String, u64>> {
        let sql = "SELECT DISTINCT sources.id, skipped FROM tellings
                   JOIN sources ON sources.id = tellings.source
                   WHERE tellings.session = ?1 AND skipped != '{}'";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let rows = statement.query_map([session as i64], |row| row.get::<_, String>(1));
        let mut all = BTreeMap::new();
        for skipped in rows.map_err(self.error())? {
            let skipped = serde_json::from_str(&skipped.map_err(self.error())?);
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
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let names = statement.query_map([], |row| row.get(0));
        names.and_then(Iterator::collect).map_err(self.error())
    }

    /// Reads how far a source has been read.
    pub(crate) fn checkpoint(&self, source: i64) -> Result<Checkpoint> {
        let sql = "SELECT read_to, guard, messages, state, seen_to, seen_guard FROM checkpoints
                   WHERE source = ?1";
        let row = self.connection.query_row(sql, [source], |row| {
            Ok(Checkpoint {
                offset: row.get::<_, i64>(0)? as u64,
                guard: row.get::<_, i64>(1)? as u64,
                messages: row.get::<_, i64>(2)? as u64,
                state: row.get(3)?,
                seen_to: row.get::<_, i64>(4)? as u64,
                seen_guard: row.get::<_, i64>(5)? as u64,
            })
        });
        Ok(row.optional().map_err(self.error())?.unwrap_or_default())
    }

    /// Sums up an agent's sources.
    pub(crate) fn totals(&self, agent: &str) -> Result<AgentTotals> {
        let mut totals = self.session_totals(agent)?;
        let sql =
            "SELECT path, iif(home = 'import', 0, size), present, records, raw, skipped, error
                   FROM sources WHERE agent = ?1";
        let mut statement = self.connection.prepare(sql).map_err(self.error())?;
        let mut rows = statement.query([agent]).map_err(self.error())?;
        while let Some(row) = rows.next().map_err(self.error())? {
            add_source(row, &mut totals).map_err(self.error())?;
        }
        Ok(totals)
    }

    fn session_totals(&self, agent: &str) -> Result<AgentTotals> {
        let sql = "SELECT count(*), total(kind = 0), total(cwd IS NOT NULL),
                   total(title_source NOT IN ('path', 'id')), total(models != '[]'),
                   total(branch IS NOT NULL), total(NOT sources.present OR tellings.gone) FROM sessions
                   JOIN tellings ON tellings.key = sessions.telling
                   JOIN sources ON sources.id = tellings.source
                   WHERE sessions.agent = ?1 AND shown = 1";
        let totals = self.connection.query_row(sql, [agent], |row| {
            let number = |at: usize| row.get::<_, f64>(at).map(|sum| sum as u64);
            Ok(AgentTotals {
                sessions: row.get::<_, i64>(0)? as u64,
                root_sessions: number(1)?,
                with_cwd: number(2)?,
                with_title: number(3)?,
                with_model: number(4)?,
                with_branch: number(5)?,
                sessions_gone: number(6)?,
                ..AgentTotals::default()
            })
        });
        totals.map_err(self.error())
    }
}

fn add_source(row: &Row<'_>, totals: &mut AgentTotals) -> rusqlite::Result<()> {
    let path = row.get::<_, StoredPath>(0)?.0;
    totals.sources += 1;
    if row.get::<_, bool>(2)? {
        totals.bytes += row.get::<_, i64>(1)?.max(0) as u64;
    } else {
        totals.sources_gone += 1;
    }
    let (records, raw) = (row.get::<_, i64>(3)? as u64, row.get::<_, i64>(4)? as u64);
    totals.records_understood += records;
    totals.records_raw += raw;
    let skipped: BTreeMap<String, u64> =
        serde_json::from_str(&row.get::<_, String>(5)?).unwrap_or_default();
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
    // What is gone cannot be mended.
    let is_present = row.get::<_, bool>(2)?;
    if let Some(error) = row.get::<_, Option<String>>(6)?.filter(|_| is_present) {
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
