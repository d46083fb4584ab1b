//! Reads sessions as they are listed.

use std::collections::HashMap;
use std::path::PathBuf;

use rusqlite::{Row, params, params_from_iter};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Store;
use super::database::{OptionalRow, columns};
use super::sources::StoredPath;
use crate::error::Result;
use crate::filter::Filter;
use crate::maps::Map;
use crate::model::{RUNNING_WINDOW_MS, Ref, SessionCounts, SessionStatus, Timestamp, Tokens};

/// Minimum length of a short id, in characters.
const SHORT_ID_CHARS: usize = 8;

/// The columns of a listed session.
const LISTED: &str = "sessions.key, sessions.recording, sessions.agent, sessions.native,
    sessions.kind, sessions.parent_native, sessions.title, sessions.title_source, sessions.project,
    sessions.project_path, sessions.cwd, sessions.branch, sessions.agent_version,
    sessions.started_at, sessions.ended_at, sessions.active_s, sessions.failed,
    sessions.prompts, sessions.answers, sessions.tool_calls, sessions.tool_results,
    sessions.tool_errors, sessions.messages, sessions.models, sessions.input, sessions.output,
    sessions.cache_read, sessions.cache_creation, sessions.reasoning, sessions.refs,
    sessions.repository, sessions.summary, sessions.branches, sessions.directories,
    sources.home, sources.host, sources.path, sources.modified,
    sources.present AND NOT recordings.gone AS present";

columns! {
    /// The places of the columns of a listed session.
    ListedColumns {
        key, recording, agent, native, kind, parent_native, title, title_source, project,
        project_path, cwd, branch, agent_version, started_at, ended_at, active_s, failed, prompts,
        answers, tool_calls, tool_results, tool_errors, messages, models, input, output,
        cache_read, cache_creation, reasoning, refs, repository, summary, branches, directories,
        home, host, path, modified, present,
    }
}

/// SQL condition on a range of ids, optionally of one agent.
const BY_PREFIX: &str = "sessions.native >= ?1 AND sessions.native < ?2
    AND (?3 IS NULL OR sessions.agent = ?3)";

/// A session as it is listed.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// `agent:id`.
    pub id: String,
    /// Id of the agent.
    pub agent: String,
    /// The agent's own id for the session.
    pub native_id: String,
    /// A prefix of the id that is unique in the journal.
    #[serde(skip)]
    pub short_id: String,
    /// Title of the session.
    pub title: String,
    /// Origin of the title.
    pub title_source: String,
    /// Name of the project.
    pub project: Option<String>,
    /// Directory of the project.
    pub project_path: Option<String>,
    /// First working directory.
    pub cwd: Option<String>,
    /// Latest branch.
    pub branch: Option<String>,
    /// Latest version of the agent.
    pub agent_version: Option<String>,
    /// Earliest recorded time.
    pub started_at: Option<Timestamp>,
    /// Latest recorded time.
    pub ended_at: Option<Timestamp>,
    /// Seconds from the first to the last recorded time; `null` in JSON if only one time is
    /// recorded.
    #[serde(serialize_with = "known_seconds")]
    pub wall_s: u64,
    /// Seconds of activity. Gaps count up to five minutes.
    #[serde(serialize_with = "known_seconds")]
    pub active_s: u64,
    /// Whether the session runs, and how it ended.
    pub status: SessionStatus,
    /// Id of the session that started this one.
    pub parent_id: Option<String>,
    /// Whether another session's agent started the session.
    pub is_agent_session: bool,
    /// Ids of the sessions that this one started.
    pub children: Vec<String>,
    /// The file that the session was read from.
    pub source: Origin,
    /// Id of the session that this one continues. The first messages belong to that session.
    pub continues: Option<String>,
    /// Number of leading messages that belong to the continued session. They are part of this
    /// transcript, but count for the other session.
    pub shared_messages: u64,
    /// Ids of the sessions that continue this one.
    pub continued_by: Vec<String>,
    /// Counts of messages, prompts and tool calls.
    pub counts: SessionCounts,
    /// Models, the most used first.
    pub models: Vec<String>,
    /// Tokens of the calls that count for this session, without its sub-agents.
    #[serde(serialize_with = "Tokens::serialize_known")]
    pub tokens: Tokens,
    /// Commits, pull requests and issues that the session refers to.
    pub refs: Vec<Ref>,
    /// Repository as named by the agent's format.
    pub repository: Option<String>,
    /// The recorded summary. None is generated.
    pub summary: Option<String>,
    /// All branches in order of appearance, if there are several.
    pub branches: Vec<String>,
    /// All working directories in order of appearance, if there are several.
    pub directories: Vec<String>,
    /// Key of the session in store and index.
    #[serde(skip)]
    pub(crate) key: u64,
    /// Key of the shown recording.
    #[serde(skip)]
    pub(crate) recording: u64,
}

/// The file that a session was read from.
#[derive(Clone, Debug, Serialize)]
pub struct Origin {
    /// `local`, `wsl`, `windows`, `remote` or `import`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of the machine, if it is not this one.
    pub host: Option<String>,
    /// Path of the file.
    pub path: String,
    /// Whether the file still exists.
    pub present: bool,
}

impl Entry {
    /// Returns the number of messages in the transcript, including those that belong to a continued
    /// session.
    pub fn transcript_length(&self) -> u64 {
        self.counts.messages + self.shared_messages
    }
}

impl Store {
    /// Lists the sessions that match a filter, the latest first.
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

    /// Counts the sessions that match a filter.
    pub(crate) fn count(&self, filter: &Filter) -> Result<u64> {
        let (condition, values) = self.condition(filter)?;
        let sql = format!("SELECT count(*) FROM sessions WHERE {condition}");
        let count =
            self.database.query_row(&sql, params_from_iter(values), |row| row.get::<_, i64>(0));
        count.map(|count| count as u64)
    }

    /// Finds the first sessions whose id begins with a prefix, of one agent or of all.
    pub(crate) fn sessions_by_prefix(
        &self,
        agent: Option<&str>,
        prefix: &str,
        now: Timestamp,
    ) -> Result<Vec<Entry>> {
        let tail = format!("WHERE {BY_PREFIX} LIMIT 12");
        let end = format!("{prefix}\u{10ffff}");
        self.entries(&tail, params![prefix, end, agent], now)
    }

    /// Counts the sessions whose id begins with a prefix, of one agent or of all.
    pub(crate) fn count_by_prefix(&self, agent: Option<&str>, prefix: &str) -> Result<u64> {
        let sql = format!("SELECT count(*) FROM sessions WHERE {BY_PREFIX}");
        let end = format!("{prefix}\u{10ffff}");
        let values = params![prefix, end, agent];
        let count = self.database.query_row(&sql, values, |row| row.get::<_, i64>(0));
        count.map(|count| count as u64)
    }

    /// Finds sessions by the keys of their shown recordings.
    pub(crate) fn sessions_by_recording(
        &self,
        recordings: &[u64],
        now: Timestamp,
    ) -> Result<HashMap<u64, Entry>> {
        let keys: Vec<String> = recordings.iter().map(|key| (*key as i64).to_string()).collect();
        // The keys are integers of the database, so no escaping is needed.
        let tail = format!(
            "WHERE recordings.key IN ({}) AND sessions.key = recordings.session",
            keys.join(",")
        );
        let entries = self.entries(&tail, [], now)?;
        Ok(entries.into_iter().map(|entry| (entry.recording, entry)).collect())
    }

    /// Finds sessions by their keys.
    pub(crate) fn sessions_by_key(&self, keys: &[u64], now: Timestamp) -> Result<Vec<Entry>> {
        let keys: Vec<String> = keys.iter().map(|key| (*key as i64).to_string()).collect();
        // The keys are integers of the database, so no escaping is needed.
        let tail = format!("WHERE sessions.key IN ({})", keys.join(","));
        self.entries(&tail, [], now)
    }

    /// Lists the shown recordings of the sessions that match a filter.
    pub(crate) fn chosen_recordings(&self, filter: &Filter) -> Result<Vec<u64>> {
        let (condition, values) = self.condition(filter)?;
        let sql = format!("SELECT recording FROM sessions WHERE {condition}");
        self.keys(&sql, params_from_iter(values))
    }

    /// Lists the recordings that are never shown, because another one is more complete or they are
    /// empty.
    pub(crate) fn hidden_recordings(&self) -> Result<Vec<u64>> {
        self.keys("SELECT key FROM recordings WHERE hidden = 1", [])
    }

    pub(super) fn keys(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<u64>> {
        let mut statement = self.database.prepare(sql)?;
        let keys = statement.query_map(values, |row| row.get::<_, i64>(0).map(|key| key as u64));
        keys.and_then(Iterator::collect)
    }

    pub(super) fn entries(
        &self,
        tail: &str,
        values: impl rusqlite::Params,
        now: Timestamp,
    ) -> Result<Vec<Entry>> {
        let sql = format!(
            "SELECT {LISTED} FROM sessions
             JOIN recordings ON recordings.key = sessions.recording
             JOIN sources ON sources.id = recordings.source {tail}"
        );
        let mut columns = None;
        let mut statement = self.database.prepare_cached(&sql)?;
        let rows = statement.query_map(values, |row| {
            listed_session(row, ListedColumns::of(&mut columns, row)?, now)
        })?;
        let mut entries: Vec<Entry> = rows.collect::<Result<_>>()?;
        self.add_children(&mut entries)?;
        self.add_lineages(&mut entries)?;
        self.add_short_ids(&mut entries)?;
        Ok(entries)
    }

    /// Sets the short ids. Each id is compared only with its neighbours in sort order, which share
    /// the longest prefixes with it.
    fn add_short_ids(&self, entries: &mut [Entry]) -> Result<()> {
        let sql =
            "SELECT (SELECT native FROM sessions WHERE native < ?1 ORDER BY native DESC LIMIT 1)
                       AS before,
                   (SELECT native FROM sessions WHERE native > ?1 ORDER BY native LIMIT 1) AS after,
                   (SELECT count(*) FROM sessions WHERE native = ?1 AND (messages > 0 OR ?2))
                       AS same";
        let mut statement = self.database.prepare_cached(sql)?;
        for entry in entries {
            // A session without messages never lengthens the id of one that has messages.
            let is_bare = entry.counts.messages == 0;
            let row = statement.query_row(params![entry.native_id, is_bare], |row| {
                Ok(([row.get("before")?, row.get("after")?], row.get::<_, i64>("same")?))
            });
            let (near, same) = row?;
            let short = shortened(&entry.native_id, &near);
            entry.short_id = match same {
                ..2 => short.to_owned(),
                _ => format!("{}:{short}", entry.agent),
            };
        }
        Ok(())
    }

    fn add_children(&self, entries: &mut [Entry]) -> Result<()> {
        let sql = "SELECT agent || ':' || native FROM sessions WHERE parent = ?1 AND shown = 1
                   ORDER BY started_at, native";
        let mut statement = self.database.prepare_cached(sql)?;
        for entry in entries {
            let children = statement.query_map([entry.key as i64], |row| row.get(0));
            entry.children = children.and_then(Iterator::collect)?;
        }
        Ok(())
    }

    /// Sets the links between sessions and those that continue them.
    fn add_lineages(&self, entries: &mut [Entry]) -> Result<()> {
        let lineages = self.lineages()?;
        if lineages.is_empty() || entries.is_empty() {
            return Ok(());
        }
        let mut forks: Map<u64, Vec<u64>> = Map::default();
        for (session, lineage) in &lineages {
            forks.entry(lineage.origin).or_default().push(*session);
        }
        let sql = "SELECT agent || ':' || native AS id, kind FROM sessions WHERE key = ?1";
        let mut statement = self.database.prepare_cached(sql)?;
        let mut named = |key: u64| {
            let name = statement.query_row([key as i64], |row| {
                Ok((row.get::<_, String>("id")?, row.get::<_, i64>("kind")? == 0))
            });
            name.optional()
        };
        for entry in entries {
            if let Some(lineage) = lineages.get(&entry.key) {
                // A sub-agent that received its parent's history is a child of the parent.
                let origin = named(lineage.origin)?.filter(|_| !entry.is_agent_session);
                entry.continues = origin.map(|(name, _)| name);
                entry.shared_messages = lineage.shared_messages;
            }
            for fork in forks.get(&entry.key).into_iter().flatten() {
                let fork = named(*fork)?.filter(|(_, is_persons)| *is_persons);
                entry.continued_by.extend(fork.map(|(name, _)| name));
            }
            entry.continued_by.sort();
        }
        Ok(())
    }

    /// Lists the directories of all projects in the journal.
    pub(crate) fn projects(&self) -> Result<Vec<PathBuf>> {
        let sql = "SELECT DISTINCT project_path FROM sessions WHERE project_path IS NOT NULL";
        let mut statement = self.database.prepare(sql)?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0).map(PathBuf::from));
        rows?.collect()
    }
}

/// Returns the shortest prefix of an id that differs from its neighbours, with at least
/// `SHORT_ID_CHARS` characters.
fn shortened<'i>(id: &'i str, near: &[Option<String>]) -> &'i str {
    let alike = |other: &String| id.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let alike = near.iter().flatten().map(alike).max().unwrap_or(0);
    let length = (alike + 1).max(SHORT_ID_CHARS);
    id.char_indices().nth(length).map_or(id, |(end, _)| &id[..end])
}

/// Reads a listed session from a row.
fn listed_session(
    row: &Row<'_>,
    columns: &ListedColumns,
    now: Timestamp,
) -> rusqlite::Result<Entry> {
    let number = |at: usize| row.get::<_, i64>(at).map(|number| number as u64);
    let time = |at: usize| -> rusqlite::Result<Option<Timestamp>> {
        let millis: Option<i64> = row.get(at)?;
        Ok(millis.and_then(Timestamp::from_millis))
    };
    let agent: String = row.get(columns.agent)?;
    let native_id: String = row.get(columns.native)?;
    let parent: Option<String> = row.get(columns.parent_native)?;
    let (started_at, ended_at) = (time(columns.started_at)?, time(columns.ended_at)?);
    let wall =
        started_at.zip(ended_at).map_or(0, |(start, end)| end.as_millis() - start.as_millis());
    Ok(Entry {
        id: format!("{agent}:{native_id}"),
        parent_id: parent.map(|native| format!("{agent}:{native}")),
        agent,
        native_id,
        short_id: String::new(),
        title: row.get(columns.title)?,
        title_source: row.get(columns.title_source)?,
        project: row.get(columns.project)?,
        project_path: row.get(columns.project_path)?,
        cwd: row.get(columns.cwd)?,
        branch: row.get(columns.branch)?,
        agent_version: row.get(columns.agent_version)?,
        started_at,
        ended_at,
        wall_s: wall.max(0) as u64 / 1000,
        active_s: number(columns.active_s)?,
        status: session_status(row, columns, now)?,
        is_agent_session: number(columns.kind)? > 0,
        children: Vec::new(),
        continues: None,
        shared_messages: 0,
        continued_by: Vec::new(),
        source: Origin {
            kind: row.get(columns.home)?,
            host: row.get(columns.host)?,
            path: row.get::<_, StoredPath>(columns.path)?.0.to_string_lossy().into_owned(),
            present: row.get(columns.present)?,
        },
        counts: SessionCounts {
            user_prompts: number(columns.prompts)?,
            assistant_messages: number(columns.answers)?,
            tool_calls: number(columns.tool_calls)?,
            tool_results: number(columns.tool_results)?,
            tool_errors: number(columns.tool_errors)?,
            messages: number(columns.messages)?,
        },
        models: json_list(row, columns.models)?,
        tokens: Tokens {
            input: number(columns.input)?,
            output: number(columns.output)?,
            cache_read: number(columns.cache_read)?,
            cache_creation: number(columns.cache_creation)?,
            reasoning: row.get::<_, Option<i64>>(columns.reasoning)?.map(|number| number as u64),
        },
        refs: json_list(row, columns.refs)?,
        repository: row.get(columns.repository)?,
        summary: row.get(columns.summary)?,
        branches: json_list(row, columns.branches)?,
        directories: json_list(row, columns.directories)?,
        key: number(columns.key)?,
        recording: number(columns.recording)?,
    })
}

/// Returns whether a session is running, failed or completed.
fn session_status(
    row: &Row<'_>,
    columns: &ListedColumns,
    now: Timestamp,
) -> rusqlite::Result<SessionStatus> {
    let modified = row.get::<_, i64>(columns.modified)? / 1_000_000;
    let ended_at: Option<i64> = row.get(columns.ended_at)?;
    // A copied or restored file has a new modification time, but old contents.
    let last = ended_at.map_or(modified, |at| at.min(modified));
    let is_recent = now.as_millis() - last < RUNNING_WINDOW_MS;
    // A session without messages is only a note, so it is never running.
    let has_messages = row.get::<_, i64>(columns.messages)? > 0;
    // A copied file without any parsed record also has a recent modification time.
    let is_dated = ended_at.is_some() || row.get::<_, i64>(columns.prompts)? > 0;
    let is_running = row.get::<_, bool>(columns.present)? && has_messages && is_recent;
    let is_failed: bool = row.get(columns.failed)?;
    Ok(match (is_running, is_dated) {
        (true, true) => SessionStatus::Running,
        (false, _) if is_failed => SessionStatus::Error,
        _ => SessionStatus::Completed,
    })
}

/// Reads a JSON list from a column; a damaged one is empty.
fn json_list<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<T>> {
    Ok(serde_json::from_str(row.get_ref(column)?.as_str()?).unwrap_or_default())
}

/// Serializes a duration; zero means that nothing is recorded and becomes `null`.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn known_seconds<S: serde::Serializer>(seconds: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    (*seconds > 0).then_some(*seconds).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_as_short_as_they_can_be_told_apart() {
        let check = |id: &str, near: [&str; 2], expected: &str| {
            let near = near.map(|it| Some(it.to_owned()).filter(|it| !it.is_empty()));
            assert_eq!(shortened(id, &near), expected);
        };
        check("11111111-2222-3333", ["", ""], "11111111");
        check("11111111-2222-3333", ["1111", "21111111"], "11111111");
        check("11111111-2222-3333", ["11111111-2111", "11111111-3"], "11111111-22");
        check("11111111", ["", "11111111-2222"], "11111111");
        check("äöüäöüäöü-1", ["äöüäöüäöü", ""], "äöüäöüäöü-");
    }
}
