//! Reading sessions as they are listed.

use std::collections::HashMap;
use std::path::PathBuf;

use rusqlite::types::FromSql;
use rusqlite::{OptionalExtension, Row, params, params_from_iter};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Store;
use super::sources::StoredPath;
use crate::error::Result;
use crate::maps::Map;
use crate::model::{Counts, Ref, Timestamp, Tokens};
use crate::search::Filter;

/// A source changed this recently belongs to a running session, in milliseconds.
pub(super) const RUNNING: i64 = 10 * 60 * 1000;

/// Characters of a short id, where they are enough.
const SHORT: usize = 8;

/// The columns of an entry, in the order they are read.
const ENTRY: &str = "sessions.agent, sessions.native, sessions.parent_native,
    sessions.started_at, sessions.ended_at, sources.present AND NOT tellings.gone,
    sources.modified, sessions.messages > 0, sessions.failed,
    sessions.title, sessions.title_source, sessions.project, sessions.project_path, sessions.cwd,
    sessions.branch, sessions.agent_version, sessions.active_s, sessions.kind, sources.home,
    sources.host, sources.path, sessions.prompts, sessions.answers, sessions.tool_calls,
    sessions.tool_results, sessions.tool_errors, sessions.messages, sessions.models,
    sessions.input, sessions.output, sessions.cache_read, sessions.cache_creation,
    sessions.reasoning, sessions.refs, sessions.repository, sessions.summary, sessions.branches,
    sessions.directories, sessions.key, sessions.telling";

/// Which sessions have an id, of one agent or of any, between two texts.
const BY_PREFIX: &str = "sessions.native >= ?1 AND sessions.native < ?2
    AND (?3 IS NULL OR sessions.agent = ?3)";

/// A session as it is listed.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// `agent:id`.
    pub id: String,
    /// The agent's id.
    pub agent: String,
    /// The agent's own id of the session.
    pub native_id: String,
    /// A beginning of the id that no other session has.
    #[serde(skip)]
    pub short_id: String,
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
    /// Seconds from first to last; `null` for programs when only one instant is recorded.
    #[serde(serialize_with = "known_seconds")]
    pub wall_s: u64,
    /// Seconds of activity: gaps count up to five minutes.
    #[serde(serialize_with = "known_seconds")]
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
    /// The session that this one continues: its first messages are that session's.
    pub continues: Option<String>,
    /// How many messages at the beginning are the other session's. They are read with this
    /// session and count for the other one.
    pub shared_messages: u64,
    /// Sessions that continue this one.
    pub continued_by: Vec<String>,
    /// What is counted.
    pub counts: Counts,
    /// The models, the most used first.
    pub models: Vec<String>,
    /// Tokens of the calls that count for this session, without its sub-agents.
    #[serde(serialize_with = "Tokens::serialize_known")]
    pub tokens: Tokens,
    /// Commits, pull requests and issues.
    pub refs: Vec<Ref>,
    /// The repository as the format names it.
    pub repository: Option<String>,
    /// The summary on record; none is made up.
    pub summary: Option<String>,
    /// Every branch, in the order they came, where there are several.
    pub branches: Vec<String>,
    /// Every working directory, in the order they came, where there are several.
    pub directories: Vec<String>,
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

impl Entry {
    /// Returns how many messages the transcript has, with those that are another session's.
    pub fn transcript_length(&self) -> u64 {
        self.counts.messages + self.shared_messages
    }
}

impl Store {
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

    /// Finds the first sessions whose id, of one agent or of any, begins with a text.
    pub(crate) fn sessions_by_prefix(
        &self,
        (agent, prefix): (Option<&str>, &str),
        now: Timestamp,
    ) -> Result<Vec<Entry>> {
        let tail = format!("WHERE {BY_PREFIX} LIMIT 12");
        let end = format!("{prefix}\u{10ffff}");
        self.entries(&tail, params![prefix, end, agent], now)
    }

    /// Counts the sessions whose id, of one agent or of any, begins with a text.
    pub(crate) fn count_by_prefix(&self, (agent, prefix): (Option<&str>, &str)) -> Result<u64> {
        let sql = format!("SELECT count(*) FROM sessions WHERE {BY_PREFIX}");
        let end = format!("{prefix}\u{10ffff}");
        let values = params![prefix, end, agent];
        let count = self.connection.query_row(&sql, values, |row| row.get::<_, i64>(0));
        count.map(|count| count as u64).map_err(self.error())
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

    pub(super) fn keys(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<u64>> {
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
            "SELECT {ENTRY} FROM sessions
             JOIN tellings ON tellings.key = sessions.telling
             JOIN sources ON sources.id = tellings.source {tail}"
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(self.error())?;
        let rows = statement.query_map(values, |row| entry(row, now)).map_err(self.error())?;
        let mut entries: Vec<Entry> =
            rows.collect::<rusqlite::Result<_>>().map_err(self.error())?;
        self.add_children(&mut entries)?;
        self.add_lineages(&mut entries)?;
        self.add_short_ids(&mut entries)?;
        Ok(entries)
    }

    /// Ids are compared with those next to them in their order: nothing else begins as alike.
    fn add_short_ids(&self, entries: &mut [Entry]) -> Result<()> {
        let sql =
            "SELECT (SELECT native FROM sessions WHERE native < ?1 ORDER BY native DESC LIMIT 1),
                   (SELECT native FROM sessions WHERE native > ?1 ORDER BY native LIMIT 1),
                   (SELECT count(*) FROM sessions WHERE native = ?1 AND (messages > 0 OR ?2))";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        for entry in entries {
            // One without messages never stands in the way of one that has some.
            let is_bare = entry.counts.messages == 0;
            let row = statement.query_row(params![entry.native_id, is_bare], |row| {
                Ok(([row.get(0)?, row.get(1)?], row.get::<_, i64>(2)?))
            });
            let (near, same) = row.map_err(self.error())?;
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
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        for entry in entries {
            let children = statement.query_map([entry.key as i64], |row| row.get(0));
            entry.children = children.and_then(Iterator::collect).map_err(self.error())?;
        }
        Ok(())
    }

    /// Links sessions with those they continue, and with those that continue them.
    fn add_lineages(&self, entries: &mut [Entry]) -> Result<()> {
        let lineages = self.lineages()?;
        if lineages.is_empty() || entries.is_empty() {
            return Ok(());
        }
        let mut forks: Map<u64, Vec<u64>> = Map::default();
        for (session, lineage) in &lineages {
            forks.entry(lineage.origin).or_default().push(*session);
        }
        let sql = "SELECT agent || ':' || native, kind FROM sessions WHERE key = ?1";
        let mut statement = self.connection.prepare_cached(sql).map_err(self.error())?;
        let mut named = |key: u64| {
            let name = statement.query_row([key as i64], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)? == 0))
            });
            name.optional().map_err(self.error())
        };
        for entry in entries {
            if let Some(lineage) = lineages.get(&entry.key) {
                // A sub-agent that was given its parent's history is the parent's child.
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

    /// Lists the directories of known projects.
    pub(crate) fn projects(&self) -> Result<Vec<PathBuf>> {
        let sql = "SELECT DISTINCT project_path FROM sessions WHERE project_path IS NOT NULL";
        let mut statement = self.connection.prepare(sql).map_err(self.error())?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0).map(PathBuf::from));
        rows.and_then(Iterator::collect).map_err(self.error())
    }
}

/// The beginning of an id that none of those next to it has, and not too short.
fn shortened<'i>(id: &'i str, near: &[Option<String>]) -> &'i str {
    let alike = |other: &String| id.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let alike = near.iter().flatten().map(alike).max().unwrap_or(0);
    let length = (alike + 1).max(SHORT);
    id.char_indices().nth(length).map_or(id, |(end, _)| &id[..end])
}

/// Takes the columns of a row one after the other: to find each by its name would take longer
/// than to read it.
struct Columns<'r, 's> {
    row: &'r Row<'s>,
    at: usize,
}

impl Columns<'_, '_> {
    fn next<T: FromSql>(&mut self) -> rusqlite::Result<T> {
        self.at += 1;
        self.row.get(self.at - 1)
    }

    fn number(&mut self) -> rusqlite::Result<u64> {
        self.next::<i64>().map(|number| number as u64)
    }

    fn time(&mut self) -> rusqlite::Result<Option<Timestamp>> {
        Ok(self.next::<Option<i64>>()?.and_then(Timestamp::from_millis))
    }

    fn list<T: DeserializeOwned>(&mut self) -> rusqlite::Result<Vec<T>> {
        let text = self.row.get_ref(self.at)?.as_str()?;
        self.at += 1;
        Ok(serde_json::from_str(text).unwrap_or_default())
    }
}

fn entry(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<Entry> {
    let mut columns = Columns { row, at: 0 };
    let (agent, native_id): (String, String) = (columns.next()?, columns.next()?);
    let parent: Option<String> = columns.next()?;
    let (started_at, ended_at) = (columns.time()?, columns.time()?);
    let wall =
        started_at.zip(ended_at).map_or(0, |(start, end)| end.as_millis() - start.as_millis());
    let present: bool = columns.next()?;
    // A file that was copied or restored is new, but what it tells is not.
    let modified = columns.next::<i64>()? / 1_000_000;
    let last = ended_at.map_or(modified, |at| at.as_millis().min(modified));
    let idle = now.as_millis() - last;
    // Nobody is working in what is only a note.
    let has_messages: bool = columns.next()?;
    let status = match (present && has_messages && idle < RUNNING, columns.next()?) {
        (true, _) => "running",
        (false, true) => "error",
        (false, false) => "completed",
    };
    // The fields are in the order of the columns.
    let mut entry = Entry {
        id: format!("{agent}:{native_id}"),
        parent_id: parent.map(|native| format!("{agent}:{native}")),
        agent,
        native_id,
        short_id: String::new(),
        title: columns.next()?,
        title_source: columns.next()?,
        project: columns.next()?,
        project_path: columns.next()?,
        cwd: columns.next()?,
        branch: columns.next()?,
        agent_version: columns.next()?,
        started_at,
        ended_at,
        wall_s: wall.max(0) as u64 / 1000,
        active_s: columns.number()?,
        status,
        is_agent_session: columns.number()? > 0,
        children: Vec::new(),
        continues: None,
        shared_messages: 0,
        continued_by: Vec::new(),
        source: Origin {
            kind: columns.next()?,
            host: columns.next()?,
            path: columns.next::<StoredPath>()?.0.to_string_lossy().into_owned(),
            present,
        },
        counts: Counts {
            user_prompts: columns.number()?,
            assistant_messages: columns.number()?,
            tool_calls: columns.number()?,
            tool_results: columns.number()?,
            tool_errors: columns.number()?,
            messages: columns.number()?,
        },
        models: columns.list()?,
        tokens: Tokens {
            input: columns.number()?,
            output: columns.number()?,
            cache_read: columns.number()?,
            cache_creation: columns.number()?,
            reasoning: columns.next::<Option<i64>>()?.map(|number| number as u64),
        },
        refs: columns.list()?,
        repository: columns.next()?,
        summary: columns.next()?,
        branches: columns.list()?,
        directories: columns.list()?,
        key: columns.number()?,
        telling: columns.number()?,
    };
    // A file of which nothing was understood is young when it was copied, too.
    if entry.ended_at.is_none() && entry.counts.user_prompts == 0 && status == "running" {
        entry.status = "completed";
    }
    Ok(entry)
}

/// Writes a duration; one of which nothing is recorded is `null`.
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
