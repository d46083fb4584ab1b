//! Reading: sessions, messages, sources.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use rusqlite::types::{FromSql, FromSqlResult, ValueRef};
use rusqlite::{OptionalExtension, Row, params, params_from_iter};
use serde::Serialize;

use super::write::PathValue;
use super::{Store, account, chunk};
use crate::error::{Error, Result};
use crate::model::{Checkpoint, Counts, Message, Ref, Session, Stamp, Timestamp, Tokens};
use crate::search::Filter;

/// A source changed this recently belongs to a running session, in milliseconds.
pub(super) const RUNNING: i64 = 10 * 60 * 1000;

/// A session as it is listed.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// `agent:id`.
    pub id: String,
    /// The agent's id.
    pub agent: String,
    /// The agent's own id of the session.
    pub native_id: String,
    /// The title.
    pub title: String,
    /// Where the title comes from.
    pub title_source: String,
    /// The project's name.
    pub project: Option<String>,
    /// The project's directory.
    pub project_path: Option<String>,
    /// The first working directory.
    pub cwd: Option<String>,
    /// The latest branch.
    pub branch: Option<String>,
    /// The latest version of the agent.
    pub agent_version: Option<String>,
    /// The earliest recorded instant.
    pub started_at: Option<Timestamp>,
    /// The latest recorded instant.
    pub ended_at: Option<Timestamp>,
    /// Seconds from first to last.
    pub wall_s: u64,
    /// Seconds of activity: gaps count up to five minutes.
    pub active_s: u64,
    /// `running`, `completed` or `error`.
    pub status: &'static str,
    /// The session that started this one.
    pub parent_id: Option<String>,
    /// Whether another session's agent ran it.
    pub is_agent_session: bool,
    /// Sessions that this one started.
    pub children: Vec<String>,
    /// Where it was read.
    pub source: Origin,
    /// What is counted.
    pub counts: Counts,
    /// The models, the most used first.
    pub models: Vec<String>,
    /// Tokens of this session alone.
    #[serde(serialize_with = "every_class")]
    pub tokens: Tokens,
    /// Commits, pull requests and issues.
    pub refs: Vec<Ref>,
    /// Key in store and index.
    #[serde(skip)]
    pub(crate) key: u64,
    /// The telling that is shown.
    #[serde(skip)]
    pub(crate) telling: u64,
}

/// Where a session was read.
#[derive(Clone, Debug, Serialize)]
pub struct Origin {
    /// `local`, `wsl`, `windows` or `remote`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The machine, when it is another one.
    pub host: Option<String>,
    /// The file.
    pub path: String,
    /// Whether it is still there.
    pub present: bool,
}

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
    /// Size of the sources that are there.
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
}

/// What is about a session as a whole.
pub(crate) struct Whole {
    pub(crate) telling: u64,
    pub(crate) title: String,
    pub(crate) at: i64,
    pub(crate) documents: Vec<String>,
}

/// What the journal holds of one telling.
pub(crate) struct Telling {
    pub(crate) account: Session,
    pub(crate) hashes: Hashes,
}

/// Hashes of a telling's messages, or of the last of them.
#[derive(Default)]
pub(crate) struct Hashes {
    /// How many messages come before.
    first: u64,
    hashes: Vec<u64>,
}

impl Hashes {
    pub(crate) fn get(&self, position: u64) -> Option<u64> {
        self.hashes.get(position.checked_sub(self.first)? as usize).copied()
    }

    /// How many messages there are.
    pub(crate) fn len(&self) -> u64 {
        self.first + self.hashes.len() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Store {
    pub(super) fn error(&self) -> impl FnOnce(rusqlite::Error) -> Error {
        Error::store(&self.path)
    }

    /// Lists the sessions a filter chooses, the latest first.
    pub(crate) fn sessions(
        &self,
        filter: &Filter,
        limit: Option<usize>,
        now: Timestamp,
    ) -> Result<Vec<Entry>> {
        let (condition, values) = self.condition(filter)?;
        let limit = limit.map_or(-1, |limit| limit as i64);
        let tail = format!(
            "WHERE {condition} ORDER BY sessions.ended_at DESC, sessions.key LIMIT {limit}"
        );
        self.entries(&tail, params_from_iter(values), now)
    }

    /// Counts the sessions a filter chooses.
    pub(crate) fn count(&self, filter: &Filter) -> Result<u64> {
        let (condition, values) = self.condition(filter)?;
        let sql = format!("SELECT count(*) FROM sessions WHERE {condition}");
        let count =
            self.connection.query_row(&sql, params_from_iter(values), |row| row.get::<_, i64>(0));
        count.map(|count| count as u64).map_err(self.error())
    }

    /// Finds sessions whose id begins with a text.
    pub(crate) fn sessions_by_prefix(
        &self,
        agent: Option<&str>,
        prefix: &str,
        now: Timestamp,
    ) -> Result<Vec<Entry>> {
        let end = format!("{prefix}\u{10ffff}");
        match agent {
            Some(agent) => {
                let tail = "WHERE sessions.native >= ?1 AND sessions.native < ?2 AND sessions.agent = ?3 LIMIT 12";
                self.entries(tail, params![prefix, end, agent], now)
            }
            None => {
                let tail = "WHERE sessions.native >= ?1 AND sessions.native < ?2 LIMIT 12";
                self.entries(tail, params![prefix, end], now)
            }
        }
    }

    /// Finds sessions by the tellings that are shown.
    pub(crate) fn sessions_by_telling(
        &self,
        tellings: &[u64],
        now: Timestamp,
    ) -> Result<HashMap<u64, Entry>> {
        let keys: Vec<String> = tellings.iter().map(|key| (*key as i64).to_string()).collect();
        // The keys are numbers of our own making: nothing to escape.
        let tail = format!(
            "WHERE tellings.key IN ({}) AND sessions.key = tellings.session",
            keys.join(",")
        );
        let entries = self.entries(&tail, [], now)?;
        Ok(entries.into_iter().map(|entry| (entry.telling, entry)).collect())
    }

    /// Finds sessions by their keys.
    pub(crate) fn sessions_by_key(&self, keys: &[u64], now: Timestamp) -> Result<Vec<Entry>> {
        let keys: Vec<String> = keys.iter().map(|key| (*key as i64).to_string()).collect();
        // The keys are numbers of our own making: nothing to escape.
        let tail = format!("WHERE sessions.key IN ({})", keys.join(","));
        self.entries(&tail, [], now)
    }

    /// Lists the tellings a filter chooses.
    pub(crate) fn chosen_tellings(&self, filter: &Filter) -> Result<Vec<u64>> {
        let (condition, values) = self.condition(filter)?;
        let sql = format!("SELECT telling FROM sessions WHERE {condition}");
        self.keys(&sql, params_from_iter(values))
    }

    /// Lists the tellings that are never shown, because another one is fuller or there is nothing.
    pub(crate) fn hidden_tellings(&self) -> Result<Vec<u64>> {
        self.keys("SELECT key FROM tellings WHERE hidden = 1", [])
    }

    fn keys(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<u64>> {
        let mut statement = self.connection.prepare(sql).map_err(self.error())?;
        let keys = statement.query_map(values, |row| row.get::<_, i64>(0).map(|key| key as u64));
        keys.and_then(Iterator::collect).map_err(self.error())
    }

    pub(super) fn entries(
        &self,
        tail: &str,
        values: impl rusqlite::Params,
        now: Timestamp,
    ) -> Result<Vec<Entry>> {
        let sql = format!(
            "SELECT sessions.*, sources.path AS path, sources.present AS present,
             sources.modified AS modified, sources.home AS home, sources.host AS host FROM sessions
             JOIN tellings ON tellings.key = sessions.telling
             JOIN sources ON sources.id = tellings.source {tail}"
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(self.error())?;
        let rows = statement.query_map(values, |row| entry(row, now)).map_err(self.error())?;
        let mut entries: Vec<Entry> =
            rows.collect::<rusqlite::Result<_>>().map_err(self.error())?;
        self.add_children(&mut entries)?;
        Ok(entries)
    }

    fn add_children(&self, entries: &mut [Entry]) -> Result<()> {
        let sql = "SELECT agent || ':' || native FROM sessions WHERE parent = ?1 AND shown = 1
                   ORDER BY started_at, native";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        for entry in entries {
            let children = statement.query_map([entry.key as i64], |row| row.get(0));
            entry.children = children.and_then(Iterator::collect).map_err(self.error())?;
        }
        Ok(())
    }

    /// Reads a run of messages.
    pub(crate) fn messages(&self, telling: u64, range: Range<u64>) -> Result<Vec<(u64, Message)>> {
        let sql = "SELECT first, body FROM chunks WHERE telling = ?1 AND first < ?3
                   AND first + count > ?2 ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let place =
            params![telling as i64, range.start as i64, range.end.min(i64::MAX as u64) as i64];
        let mut rows = statement.query(place).map_err(self.error())?;
        let mut messages = Vec::new();
        while let Some(row) = rows.next().map_err(self.error())? {
            let first = row.get::<_, i64>(0).map_err(self.error())? as u64;
            let body = row.get_ref(1).and_then(|body| Ok(body.as_blob()?)).map_err(self.error())?;
            let lines = chunk::unpack(body).unwrap_or_default();
            for (position, line) in (first..).zip(lines.split(|byte| *byte == b'\n')) {
                if range.contains(&position)
                    && let Ok(message) = serde_json::from_slice(line)
                {
                    messages.push((position, message));
                }
            }
        }
        Ok(messages)
    }

    /// Reads the messages at some positions, each run once.
    pub(crate) fn messages_at(
        &self,
        telling: u64,
        positions: &HashSet<u64>,
    ) -> Result<Vec<(u64, Message)>> {
        let mut wanted: Vec<u64> = positions.iter().copied().collect();
        wanted.sort_unstable();
        let sql = "SELECT first, body FROM chunks WHERE telling = ?1 AND first <= ?2
                   ORDER BY first DESC LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut messages = Vec::new();
        // From the end: the run of the last wanted position has the others of that run, too.
        while let Some(last) = wanted.last() {
            let run = statement.query_row(params![telling as i64, *last as i64], |row| {
                let lines = chunk::unpack(row.get_ref(1)?.as_blob()?).unwrap_or_default();
                Ok((row.get::<_, i64>(0)? as u64, lines))
            });
            let Some((first, lines)) = run.optional().map_err(self.error())? else { break };
            for (position, line) in (first..).zip(lines.split(|byte| *byte == b'\n')) {
                if positions.contains(&position)
                    && let Ok(message) = serde_json::from_slice(line)
                {
                    messages.push((position, message));
                }
            }
            wanted.truncate(wanted.partition_point(|position| *position < first));
        }
        Ok(messages)
    }

    /// Reads one message.
    pub(crate) fn message(&self, telling: u64, position: u64) -> Result<Option<Message>> {
        let sql = "SELECT first, body FROM chunks WHERE telling = ?1 AND first <= ?2
                   ORDER BY first DESC LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let line = statement
            .query_row(params![telling as i64, position as i64], |row| {
                let first = row.get::<_, i64>(0)? as u64;
                Ok(chunk::unpack_line(row.get_ref(1)?.as_blob()?, (position - first) as usize))
            })
            .optional()
            .map_err(self.error())?;
        Ok(line.flatten().and_then(|line| serde_json::from_slice(&line).ok()))
    }

    /// Reads the account of a telling.
    pub(crate) fn account(&self, telling: u64) -> Result<Option<Session>> {
        let sql = "SELECT account FROM tellings WHERE key = ?1";
        let json = self.connection.query_row(sql, [telling as i64], |row| row.get::<_, String>(0));
        let json = json.optional().map_err(self.error())?;
        Ok(json.and_then(|json| serde_json::from_str(&json).ok()))
    }

    /// Reads the account of a session: what all its tellings say.
    pub(crate) fn whole_account(&self, session: u64) -> Result<Option<Session>> {
        let account = account::joined(&self.connection, session).map_err(self.error())?;
        Ok(account.map(|(_, account)| account))
    }

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
            "SELECT id, path, size, modified, inode, present FROM sources
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
            })
        });
        rows.and_then(Iterator::collect).map_err(self.error())
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

    /// Reads how far a source has been read.
    pub(crate) fn checkpoint(&self, source: i64) -> Result<Checkpoint> {
        let sql = "SELECT read_to, guard, messages, state FROM checkpoints WHERE source = ?1";
        let row = self.connection.query_row(sql, [source], |row| {
            Ok(Checkpoint {
                offset: row.get::<_, i64>(0)? as u64,
                guard: row.get::<_, i64>(1)? as u64,
                messages: row.get::<_, i64>(2)? as u64,
                state: row.get(3)?,
            })
        });
        Ok(row.optional().map_err(self.error())?.unwrap_or_default())
    }

    /// Reads what the journal holds of a telling, as far as messages from a position on are
    /// concerned.
    pub(crate) fn telling(&self, key: u64, from: u64) -> Result<Option<Telling>> {
        let Some(account) = self.account(key)? else { return Ok(None) };
        let first = self.run_before(key, from, 0)?;
        let sql = "SELECT hashes FROM chunks WHERE telling = ?1 AND first >= ?2 ORDER BY first";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([key as i64, first as i64]).map_err(self.error())?;
        let mut hashes = Vec::new();
        while let Some(row) = rows.next().map_err(self.error())? {
            let bytes =
                row.get_ref(0).and_then(|blob| Ok(blob.as_blob()?)).map_err(self.error())?;
            hashes.extend(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
        }
        Ok(Some(Telling { account, hashes: Hashes { first, hashes } }))
    }

    /// Tells where a run that is to change from `position` on must begin again: at that position
    /// when a full run ends there, else at the beginning of the run around or before it.
    pub(crate) fn run_before(&self, telling: u64, position: u64, full: u64) -> Result<u64> {
        let sql =
            "SELECT first, first + count, bytes FROM chunks WHERE telling = ?1 AND first <= ?2
                   ORDER BY first DESC LIMIT 1";
        let row = self.connection.query_row(sql, params![telling as i64, position as i64], |row| {
            Ok((
                row.get::<_, i64>(0)? as u64,
                row.get::<_, i64>(1)? as u64,
                row.get::<_, i64>(2)? as u64,
            ))
        });
        Ok(match row.optional().map_err(self.error())? {
            Some((_, end, bytes)) if end <= position && bytes >= full => position,
            Some((first, _, _)) => first,
            None => position,
        })
    }

    /// Lists the tellings that changed after a generation.
    pub(crate) fn changed_tellings(&self, generation: i64) -> Result<Vec<u64>> {
        let sql =
            "SELECT tellings.key FROM tellings JOIN sessions ON sessions.key = tellings.session
                   WHERE sessions.generation > ?1 ORDER BY sessions.ended_at DESC";
        self.keys(sql, [generation])
    }

    /// Lists what is about sessions as a whole, of those that changed after a generation.
    pub(crate) fn changed_wholes(&self, generation: i64) -> Result<Vec<Whole>> {
        // With the plus, what is new is looked up by its generation, and not among all that is shown.
        let sql = "SELECT sessions.telling, title, coalesce(ended_at, 0), account FROM sessions
                   JOIN tellings ON tellings.session = sessions.key
                   WHERE generation > ?1 AND +shown = 1 ORDER BY sessions.telling";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut rows = statement.query([generation]).map_err(self.error())?;
        let mut wholes: Vec<Whole> = Vec::new();
        while let Some(row) = rows.next().map_err(self.error())? {
            let whole = whole(row).map_err(self.error())?;
            match wholes.last_mut() {
                Some(last) if last.telling == whole.telling => {
                    last.documents.extend(whole.documents);
                }
                _ => wholes.push(whole),
            }
        }
        Ok(wholes)
    }

    /// Counts the sessions that did not change after a generation, and all of them.
    pub(crate) fn settled_sessions(&self, generation: i64) -> Result<(u64, u64)> {
        let sql =
            "SELECT coalesce(sum(generation <= ?1), 0), count(*) FROM sessions WHERE shown = 1";
        let counts = self.connection.query_row(sql, [generation], |row| {
            Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
        });
        counts.map_err(self.error())
    }

    /// Lists the directories of known projects.
    pub(crate) fn projects(&self) -> Result<Vec<PathBuf>> {
        let sql = "SELECT DISTINCT project_path FROM sessions WHERE project_path IS NOT NULL";
        let mut statement = self.connection.prepare(sql).map_err(self.error())?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0).map(PathBuf::from));
        rows.and_then(Iterator::collect).map_err(self.error())
    }

    /// Sums up an agent's sources.
    pub(crate) fn totals(&self, agent: &str) -> Result<AgentTotals> {
        let mut totals = self.session_totals(agent)?;
        let sql = "SELECT path, size, present, records, raw, skipped, error FROM sources WHERE agent = ?1";
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
                   total(branch IS NOT NULL), total(NOT sources.present) FROM sessions
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

fn whole(row: &Row<'_>) -> rusqlite::Result<Whole> {
    #[derive(serde::Deserialize)]
    struct Documents {
        #[serde(default)]
        documents: Vec<(String, String)>,
    }
    let account: Option<Documents> = serde_json::from_str(&row.get::<_, String>(3)?).ok();
    Ok(Whole {
        telling: row.get::<_, i64>(0)? as u64,
        title: row.get(1)?,
        at: row.get(2)?,
        documents: account
            .into_iter()
            .flat_map(|one| one.documents)
            .map(|(_, text)| text)
            .collect(),
    })
}

fn add_source(row: &Row<'_>, totals: &mut AgentTotals) -> rusqlite::Result<()> {
    let path = row.get::<_, StoredPath>(0)?.0;
    totals.sources += 1;
    if row.get::<_, bool>(2)? {
        totals.bytes += row.get::<_, i64>(1)?.max(0) as u64;
    } else {
        totals.sources_gone += 1;
    }
    totals.records_understood += row.get::<_, i64>(3)? as u64;
    totals.records_raw += row.get::<_, i64>(4)? as u64;
    let skipped: BTreeMap<String, u64> =
        serde_json::from_str(&row.get::<_, String>(5)?).unwrap_or_default();
    for (reason, count) in skipped {
        *totals.skipped.entry(reason).or_default() += count;
    }
    if let Some(error) = row.get::<_, Option<String>>(6)? {
        totals.sources_failed += 1;
        totals.failures.push((path.to_string_lossy().into_owned(), error));
    }
    Ok(())
}

fn entry(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<Entry> {
    let number = |name: &str| row.get::<_, i64>(name).map(|number| number as u64);
    let at =
        |name: &str| row.get::<_, Option<i64>>(name).map(|at| at.and_then(Timestamp::from_millis));
    let agent: String = row.get("agent")?;
    let native_id: String = row.get("native")?;
    let (started_at, ended_at) = (at("started_at")?, at("ended_at")?);
    let wall =
        started_at.zip(ended_at).map_or(0, |(start, end)| end.as_millis() - start.as_millis());
    let parent: Option<String> = row.get("parent_native")?;
    let present: bool = row.get("present")?;
    // A file that was copied or restored is new, but what it tells is not.
    let modified = row.get::<_, i64>("modified")? / 1_000_000;
    let last = ended_at.map_or(modified, |at| at.as_millis().min(modified));
    let idle = now.as_millis() - last;
    let status = if present && idle < RUNNING {
        "running"
    } else if row.get("failed")? {
        "error"
    } else {
        "completed"
    };
    Ok(Entry {
        id: format!("{agent}:{native_id}"),
        parent_id: parent.map(|native| format!("{agent}:{native}")),
        agent,
        native_id,
        title: row.get("title")?,
        title_source: row.get("title_source")?,
        project: row.get("project")?,
        project_path: row.get("project_path")?,
        cwd: row.get("cwd")?,
        branch: row.get("branch")?,
        agent_version: row.get("agent_version")?,
        started_at,
        ended_at,
        wall_s: wall.max(0) as u64 / 1000,
        active_s: number("active_s")?,
        status,
        is_agent_session: number("kind")? > 0,
        children: Vec::new(),
        source: Origin {
            kind: row.get("home")?,
            host: row.get("host")?,
            path: row.get::<_, StoredPath>("path")?.0.to_string_lossy().into_owned(),
            present,
        },
        counts: Counts {
            user_prompts: number("prompts")?,
            assistant_messages: number("answers")?,
            tool_calls: number("tool_calls")?,
            tool_results: number("tool_results")?,
            tool_errors: number("tool_errors")?,
            messages: number("messages")?,
        },
        models: serde_json::from_str(&row.get::<_, String>("models")?).unwrap_or_default(),
        tokens: Tokens {
            input: number("input")?,
            output: number("output")?,
            cache_read: number("cache_read")?,
            cache_creation: number("cache_creation")?,
            reasoning: row.get::<_, Option<i64>>("reasoning")?.map(|number| number as u64),
        },
        refs: serde_json::from_str(&row.get::<_, String>("refs")?).unwrap_or_default(),
        key: number("key")?,
        telling: number("telling")?,
    })
}

/// Writes every class of tokens, an unknown one as `null`.
fn every_class<S: serde::Serializer>(tokens: &Tokens, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeStruct;
    let mut all = serializer.serialize_struct("Tokens", 5)?;
    all.serialize_field("input", &tokens.input)?;
    all.serialize_field("output", &tokens.output)?;
    all.serialize_field("cache_read", &tokens.cache_read)?;
    all.serialize_field("cache_creation", &tokens.cache_creation)?;
    all.serialize_field("reasoning", &tokens.reasoning)?;
    all.end()
}

/// A path as `PathValue` stored it.
struct StoredPath(PathBuf);

impl FromSql for StoredPath {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(match value {
            ValueRef::Blob(bytes) => from_bytes(bytes),
            _ => PathBuf::from(value.as_str()?),
        }))
    }
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
